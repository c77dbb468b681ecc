"""AFR: automatic feature reweighting.

Qiu, Potapczynski, Izmailov, Wilson: Simple and Fast Group Robustness by Automatic Feature
Reweighting, ICML 2023.

    train plainly on 80 % of the training examples; h = the features before the last layer
    on the other 20 %: p_i = the probability of example i's class, n_y = the size of class y,
    mu_i proportional to exp(-gamma * p_i) / n_y, summing to 1
    last layer = argmin over w of  sum_i mu_i * loss_i(w)  +  lambda * |w - w_plain|^2

Of the grid of gamma and lambda, the run's selection rule selects one pair as it selects an epoch of
other methods; so the group labels of validation are used only if the rule uses them. An "epoch" of
the record is a pair, and its history says which. Where nothing selects, the last of each counts.

Departures: the last layer is the optimum, by L-BFGS, where the authors stop gradient descent early;
lambda = 0, which has no optimum where classes can be separated, is replaced by small numbers. The
grid is coarser than theirs (gamma from 4 to 20, lambda from 0 to 0.4), and gamma begins below it:
where the plain model is sure of everything, a gamma of 8 leaves nothing but its mistakes. Every
class is divided separately, so that a small one is in both parts.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from spare.data.task import Task
from spare.errors import InputError, SpareWarning
from spare.limits import NotNegative, Range, check_ranges
from spare.methods.dfr import Layer, train_base, with_last_layer
from spare.methods.method import Fitted, Method, sees
from spare.training.batches import repeated
from spare.training.stages import Candidate, Stages

#: Steps of L-BFGS after which a fit is stopped.
MOST_STEPS = 500


@dataclass(frozen=True)
class AfrOptions:
    #: How strongly the weights follow the plain model's mistakes; 0 balances the classes only.
    #: The last is the mildest of the paper's, for where nothing selects; so it is below.
    gamma_grid: tuple[NotNegative, ...] = (1.0, 2.0, 16.0, 8.0, 4.0)
    #: How strongly the last layer is held at the plain model's.
    lambda_grid: tuple[NotNegative, ...] = (0.001, 0.01, 0.4, 0.1)
    #: Share of the training examples that the last layer is fitted to, and nothing else.
    reweighted_share: Annotated[float, Range(0, 1, open_low=True, open_high=True)] = 0.2

    def __post_init__(self) -> None:
        check_ranges(self)
        for name in ("gamma_grid", "lambda_grid"):
            if not getattr(self, name):
                raise InputError(f"{name} needs at least one number.")


def fit(task: Task, stages: Stages, options: AfrOptions) -> Fitted:
    labels = np.asarray(task.train.labels)
    rng = np.random.default_rng([stages.seed, 0xAF12])
    held_out = reweighted_rows(labels, options.reweighted_share, rng)
    copies = np.ones(len(labels), dtype=np.int64)
    copies[held_out] = 0
    base = train_base(task, stages, repeated(copies, stages.settings.batch_size))
    outputs = stages.outputs(base, task.train.subset(held_out), features=True)
    val = None
    if task.val is not None:
        val = stages.outputs(base, task.val, features=True).features.numpy()
    labels = labels[held_out]
    of_label = outputs.probabilities.numpy()[np.arange(len(labels)), labels]
    plain = Layer(base.last["head.weight"].numpy(), base.last["head.bias"].numpy())
    features = outputs.features.numpy()

    def fits() -> list[tuple[Layer, dict[str, float]]]:
        found = []
        for gamma in options.gamma_grid:
            weights = example_weights(of_label, labels, gamma)
            for strength in options.lambda_grid:
                layer, loss = reweighted_layer(plain, features, labels, weights, strength)
                found.append((layer, {"loss": loss, "gamma": gamma, "lambda": strength}))
        return found

    layers = stages.once("refitting", fits)
    _warn_unfinished(sum(layer.unfinished for layer, _ in layers), len(layers))
    candidates = (  # one at a time: each is a whole network
        Candidate(with_last_layer(base, layer), None if val is None else layer.logits(val), about)
        for layer, about in layers
    )
    chosen = stages.choose(base, task, candidates)
    return Fitted(chosen, notes={"reweighted_examples": len(held_out)})


def reweighted_rows(labels: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """A random share of every class, at least one example and never all; sorted."""
    rows = []
    for label in np.unique(labels):
        of_class = np.flatnonzero(labels == label)
        count = min(max(round(share * len(of_class)), 1), len(of_class) - 1)
        rows.append(rng.choice(of_class, count, replace=False))
    held_out = np.sort(np.concatenate(rows))
    if not len(held_out):
        raise InputError(
            "afr fits the last layer to examples that it was not trained on, and every class has "
            "a single training example: add some."
        )
    return held_out


def example_weights(of_label: np.ndarray, labels: np.ndarray, gamma: float) -> np.ndarray:
    """mu: large where the probability of the label is small; every class counts the same.

    >>> weights = example_weights(np.array([0.9, 0.1, 0.9]), np.array([0, 0, 1]), gamma=0.0)
    >>> weights.tolist()
    [0.25, 0.25, 0.5]
    """
    weights = np.exp(-gamma * of_label.astype(np.float64)) / np.bincount(labels)[labels]
    return np.asarray(weights / weights.sum())


def reweighted_layer(
    plain: Layer, features: np.ndarray, labels: np.ndarray, weights: np.ndarray, strength: float
) -> tuple[Layer, float]:
    """The layer with the smallest weighted loss and distance from the plain one, and that sum."""
    from scipy.optimize import minimize

    # The bias is the weight of a feature that is always 1.
    points = np.column_stack([features, np.ones(len(features))]).astype(np.float64)
    start = np.column_stack([plain.weight, plain.bias]).astype(np.float64)
    truth = np.eye(len(start))[labels]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        layer = flat.reshape(start.shape)
        logits = points @ layer.T
        logits -= logits.max(1, keepdims=True)
        log_sums = np.log(np.exp(logits).sum(1))
        away = layer - start
        value = weights @ (log_sums - (logits * truth).sum(1)) + strength * (away**2).sum()
        errors = weights[:, None] * (np.exp(logits - log_sums[:, None]) - truth)
        return value, (errors.T @ points + 2 * strength * away).ravel()

    found = minimize(
        loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": MOST_STEPS}
    )
    fitted = found.x.reshape(start.shape)
    unfinished = int(found.nit >= MOST_STEPS)
    return Layer(fitted[:, :-1], fitted[:, -1], unfinished), float(found.fun)


def _warn_unfinished(unfinished: int, fits: int) -> None:
    if unfinished:
        warnings.warn(
            f"{unfinished} of {fits} fits of the last layer were stopped before they converged: "
            f"larger numbers in lambda_grid converge sooner.",
            SpareWarning,
            stacklevel=2,
        )


METHOD = Method(
    name="afr",
    title="automatic feature reweighting: the last layer anew, on what plain training gets wrong",
    paper="Qiu et al. 2023",
    sees=sees("none"),
    fit=fit,
    options=AfrOptions,
    cost="0.8x",
)
