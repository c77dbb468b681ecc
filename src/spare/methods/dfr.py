"""DFR: deep feature reweighting; here the last layer is fitted to training examples (DFR Tr-Tr).

Kirichenko, Izmailov, Wilson: Last Layer Re-Training is Sufficient for Robustness to Spurious
Correlations, ICLR 2023.

    train plainly; h = the features before the last layer, standardized by training's
    balanced subset: every true group cut at random to the size of the smallest
    C: of the grid, the one whose regression on such a subset has the best worst group on validation
    fit y on h by L1-penalized logistic regression on fresh balanced subsets, `refits` times
    last layer = the mean of these regressions' coefficients and intercepts

Departures: in the grid of C, and with more than two classes; see docs/departures.md.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from spare.data.task import Split, Task
from spare.errors import InputError, SpareWarning
from spare.limits import Count, Positive, check_ranges
from spare.methods.method import Fitted, Method, sees
from spare.methods.reference import refuse_outputs
from spare.models import Classifier
from spare.training.batches import Batches, shuffled
from spare.training.checkpoint import State, snapshot
from spare.training.loop import Trained
from spare.training.selection import worst_accuracy
from spare.training.stages import Stages

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

#: With fewer examples of a group than this in each subset, what is fitted is mostly chance.
HANDFUL = 5
#: A regression ends when no coefficient moves by more than this share of the largest.
TOLERANCE = 1e-3
#: It is stopped after so many products of a feature and a coefficient: half a minute.
MOST_PRODUCTS = 10_000_000_000
#: With two classes, after so many passes.
MOST_PASSES = 1000


@dataclass(frozen=True)
class DfrOptions:
    #: Inverse strengths of the L1 penalty that are tried; a single one is used untried.
    c_grid: tuple[Positive, ...] = (100, 30, 10, 3, 1, 0.7, 0.3, 0.1, 0.07, 0.03, 0.01)
    #: Regressions, each on another balanced subset, whose coefficients are averaged.
    refits: Count = 10

    def __post_init__(self) -> None:
        check_ranges(self)
        if not self.c_grid:
            raise InputError("c_grid needs at least one number.")


@dataclass(frozen=True)
class Examples:
    """What a regression sees of some examples."""

    features: np.ndarray
    labels: np.ndarray
    groups: np.ndarray

    def subset(self, rows: np.ndarray) -> Examples:
        return Examples(self.features[rows], self.labels[rows], self.groups[rows])

    def balanced(self, rng: np.random.Generator) -> Examples:
        """As many random examples of every group as the smallest has."""
        names, sizes = np.unique(self.groups, return_counts=True)
        picks = [
            rng.choice(np.flatnonzero(self.groups == name), sizes.min(), replace=False)
            for name in names
        ]
        return self.subset(np.concatenate(picks))


@dataclass(frozen=True)
class Layer:
    """A linear layer on unscaled features: (classes, features) and (classes,)."""

    weight: np.ndarray
    bias: np.ndarray
    #: How many of the regressions that it is the mean of did not converge.
    unfinished: int = 0

    def logits(self, features: np.ndarray) -> np.ndarray:
        return np.asarray(features @ self.weight.T + self.bias)

    def worst_group(self, examples: Examples) -> float:
        predictions = self.logits(examples.features).argmax(1)
        return worst_accuracy(predictions == examples.labels, examples.groups)


def fit(task: Task, stages: Stages, options: DfrOptions) -> Fitted:
    groups = checked_groups(task, task.train, "training")
    validation = _validation(task) if len(options.c_grid) > 1 else None
    base = train_base(task, stages)
    train = examples_of(base, task.train, groups, stages)
    val = None if validation is None else examples_of(base, *validation, stages)
    return refitted(base, train.features, stages, options, pool=train, fitting=train, tuning=val)


def _validation(task: Task) -> tuple[Split, np.ndarray]:
    if task.val is None or not task.val.attributes:
        raise InputError(
            "dfr chooses C by the groups of validation examples, and there are none: give a "
            "validation split with group labels, or a c_grid of one number."
        )
    return task.val, task.groups(task.val)


def checked_groups(task: Task, split: Split, split_name: str, least: int = 1) -> np.ndarray:
    """The true groups of the examples that the last layer is fitted to, if there are enough."""
    groups = task.groups(split)
    missing = sorted(set(range(len(task.class_names))) - set(np.unique(split.labels).tolist()))
    if missing or len(task.class_names) < 2:
        raise InputError(
            f"DFR needs {split_name} examples of two classes or more, and of every class, but "
            + (f"{task.class_names[missing[0]]!r} has none" if missing else "there is one class")
            + ": add some."
        )
    sizes = np.bincount(groups, minlength=len(task.group_names))
    absent = np.flatnonzero(sizes == 0)
    smallest = int(np.where(sizes == 0, sizes.max(), sizes).argmin())
    fact = f"the smallest group, {task.group_names[smallest]}, has {sizes[smallest]} {split_name}"
    if sizes[smallest] < least:
        raise InputError(
            f"{fact} example, and DFR needs one to fit and one to choose C by: add some, or give a "
            f"c_grid of one number."
        )
    if sizes[smallest] < HANDFUL * least:
        warnings.warn(
            f"{fact} examples, and a balanced subset has no more of any other: what the last layer "
            f"learns is mostly chance; add some.",
            SpareWarning,
            stacklevel=2,
        )
    if len(absent):
        warnings.warn(
            f"{len(absent)} of {len(sizes)} groups have no {split_name} example, such as "
            f"{task.group_names[absent[0]]}: only the others are balanced; add some.",
            SpareWarning,
            stacklevel=2,
        )
    return groups


def train_base(task: Task, stages: Stages, batches: Batches | None = None) -> Trained:
    """The plainly trained model, on all training examples or on those in the batches."""
    refuse_outputs(task)
    model = stages.fresh(task)
    if not isinstance(model, Classifier) or model.head.bias is None:
        raise InputError("a last layer is fitted anew only if it is linear and has a bias.")
    batches = batches or shuffled(len(task.train), stages.settings.batch_size)
    return stages.train("early/base", task, batches)


def features_of(base: Trained, split: Split, stages: Stages) -> np.ndarray:
    return stages.outputs(base, split, features=True).features.numpy()


def examples_of(base: Trained, split: Split, groups: np.ndarray, stages: Stages) -> Examples:
    return Examples(features_of(base, split, stages), np.asarray(split.labels), groups)


def refitted(
    base: Trained,
    train_features: np.ndarray,
    stages: Stages,
    options: DfrOptions,
    *,
    pool: Examples,
    fitting: Examples,
    tuning: Examples | None,
) -> Fitted:
    """The base with another last layer.

    Parameters
    ----------
    pool
        What the last layer is fitted to, in balanced subsets.
    fitting
        What the regressions that C is chosen by are fitted to.
    tuning
        Where their worst group is measured and noted; None where there is only one C.
    """
    from sklearn.preprocessing import StandardScaler

    def fits() -> tuple[float, dict[float, Layer], dict[float, float], list[Layer]]:
        rng = np.random.default_rng([stages.seed, 0xDF12])
        scaler = StandardScaler().fit(train_features)
        regression = l1_regression(int(pool.labels.max()) + 1, rng)
        c, tried, scores = options.c_grid[0], {}, {}
        if tuning is not None:
            subset = fitting.balanced(rng)
            # From few coefficients to many, because each fit starts where the last one ended.
            tried = {c: fitted_layer(regression, c, scaler, subset) for c in sorted(options.c_grid)}
            scores = {c: layer.worst_group(tuning) for c, layer in tried.items()}
            c = max(options.c_grid, key=lambda c: scores[c])
        subsets = (pool.balanced(rng) for _ in range(options.refits))
        return c, tried, scores, [fitted_layer(regression, c, scaler, each) for each in subsets]

    c, tried, scores, layers = stages.once("refitting", fits)
    if unfinished := sum(layer.unfinished for layer in [*tried.values(), *layers]):
        warnings.warn(
            f"{unfinished} of {len(tried) + len(layers)} regressions for the last layer were "
            f"stopped before they converged: smaller numbers in c_grid converge sooner.",
            SpareWarning,
            stacklevel=2,
        )
    layer = mean_layer(layers)
    return Fitted(
        stages.adopt(base, with_last_layer(base, layer)),
        notes={
            "c": c,
            "worst_group_of_c": scores.get(c),
            "examples_of_each_group": int(np.unique(pool.groups, return_counts=True)[1].min()),
            "features_used": int((layer.weight != 0).any(0).sum()),
        },
    )


def l1_regression(classes: int, rng: np.random.Generator) -> LogisticRegression:
    """By liblinear, the authors' choice, for two classes; it knows no more."""
    from sklearn.linear_model import LogisticRegression

    # How L1 is requested changed in scikit-learn 1.8, together with the default of l1_ratio.
    old = LogisticRegression().l1_ratio is None
    l1: dict[str, Any] = {"penalty": "l1"} if old else {"l1_ratio": 1.0}
    return LogisticRegression(
        solver="liblinear" if classes == 2 else "saga",
        tol=TOLERANCE,
        warm_start=True,
        random_state=int(rng.integers(2**31)),
        **l1,
    )


def fitted_layer(
    regression: LogisticRegression, c: float, scaler: StandardScaler, examples: Examples
) -> Layer:
    """One regression of the labels on the standardized features, as a layer of all classes."""
    from sklearn.exceptions import ConvergenceWarning

    most = MOST_PASSES
    if regression.solver == "saga":
        products = examples.features.size * (int(examples.labels.max()) + 1)
        most = max(10, MOST_PRODUCTS // products)
    regression.set_params(C=c, max_iter=most)
    points = scaler.transform(examples.features.astype(np.float64))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # one warning for all, at the end
        regression.fit(points, examples.labels)
    weight, bias = regression.coef_, regression.intercept_
    if len(weight) == 1:  # of two classes: each logit gets half of the difference
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    unfinished = int(regression.n_iter_.max() >= most)
    return folded(Layer(weight, bias, unfinished), scaler.mean_, scaler.scale_)


def folded(layer: Layer, mean: np.ndarray, scale: np.ndarray) -> Layer:
    """The layer that gives for unscaled features what this one gives for standardized ones."""
    weight = layer.weight / scale
    return Layer(weight, layer.bias - weight @ mean, layer.unfinished)


def mean_layer(layers: list[Layer]) -> Layer:
    return Layer(
        np.mean([layer.weight for layer in layers], 0),
        np.mean([layer.bias for layer in layers], 0),
        sum(layer.unfinished for layer in layers),
    )


def with_last_layer(base: Trained, layer: Layer) -> State:
    """The base's weights with this last layer."""
    model = base.model
    assert isinstance(model, Classifier)
    model.load_state_dict(base.last)
    with torch.no_grad():
        model.head.weight.copy_(torch.from_numpy(layer.weight))
        model.head.bias.copy_(torch.from_numpy(layer.bias))
    return snapshot(model)


METHOD = Method(
    name="dfr",
    title="deep feature reweighting: the last layer anew, on training groups in equal numbers",
    paper="Kirichenko et al. 2023",
    sees=sees("train"),
    fit=fit,
    options=DfrOptions,
)
