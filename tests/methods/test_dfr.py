"""Deep feature reweighting, on training examples and on validation examples."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler

from spare.data.inputs import TensorInputs
from spare.data.task import Split, Task
from spare.errors import InputError, SpareWarning
from spare.methods import METHODS, dfr
from spare.methods.dfr import (
    DfrOptions,
    Examples,
    Layer,
    fitted_layer,
    folded,
    l1_regression,
    mean_layer,
)
from spare.methods.dfr_val import DfrValOptions
from spare.models import Classifier
from spare.training.selection import worst_accuracy
from spare.training.settings import Settings
from spare.training.stages import Stages

SETTINGS = Settings(epochs=4, batch_size=16, lr=0.01)
BOTH = pytest.mark.parametrize("name", ["dfr", "dfr_val"])
#: How many penalties are tried before one is chosen.
TRIED = len(DfrOptions().c_grid)


def stages_for(**more):
    return Stages(seed=0, settings=SETTINGS, judge=lambda epoch: ({}, {}), **more)


def fit(name, task, **options):
    method = METHODS[name]
    chosen = method.options(**options)
    stages = stages_for()
    return method.fit(task.as_seen_by(method.sees(chosen)), stages, chosen), stages


@pytest.fixture
def regressions(monkeypatch):
    """(C, examples, layer) of each regression."""
    calls = []
    original = dfr.fitted_layer

    def spy(regression, c, scaler, examples):
        layer = original(regression, c, scaler, examples)
        calls.append((c, examples, layer))
        return layer

    monkeypatch.setattr(dfr, "fitted_layer", spy)
    return calls


def random_examples(sizes, rng, features=3):
    groups = np.repeat(np.arange(len(sizes)), sizes)
    labels = groups // 2
    points = rng.normal(size=(len(groups), features)) + labels[:, None]
    return Examples(points.astype(np.float32), labels, groups)


def test_subsets_are_exactly_balanced_and_fresh():
    rng = np.random.default_rng(0)
    examples = random_examples([50, 7, 9, 30], rng)
    examples.features[:, 0] = np.arange(96)
    subsets = [examples.balanced(rng) for _ in range(5)]
    for subset in subsets:
        assert np.bincount(subset.groups).tolist() == [7] * 4
        rows = subset.features[:, 0].astype(int)
        assert len(set(rows)) == 28  # no example twice
        assert (subset.groups == examples.groups[rows]).all()
        assert (subset.labels == examples.labels[rows]).all()
    assert len({tuple(subset.features[:, 0]) for subset in subsets}) == 5


@BOTH
def test_every_regression_is_on_a_balanced_subset(name, toy, regressions):
    options = METHODS[name].options()
    fitted, _ = fit(name, toy)
    assert [c for c, _, _ in regressions[:TRIED]] == sorted(options.c_grid)
    assert [c for c, _, _ in regressions[TRIED:]] == [fitted.notes["c"]] * options.refits
    split = toy.train if name == "dfr" else toy.val
    smallest = np.bincount(toy.groups(split)).min()
    assert fitted.notes["examples_of_each_group"] == smallest
    for _, examples, _ in regressions[TRIED:]:
        assert np.bincount(examples.groups).tolist() == [smallest] * 4
    for _, examples, _ in regressions[:TRIED]:
        each = smallest if name == "dfr" else (smallest + 1) // 2
        assert np.bincount(examples.groups).tolist() == [each] * 4
    used = [examples.features.tobytes() for _, examples, _ in regressions]
    assert len(set(used)) == 1 + options.refits  # one to choose C on, then a fresh one each time


@BOTH
def test_the_last_layer_is_the_mean_of_the_regressions(name, toy, regressions):
    fitted, _ = fit(name, toy, refits=4)
    layers = [layer for _, _, layer in regressions[TRIED:]]
    assert len(layers) == 4
    assert not np.allclose(layers[0].weight, layers[1].weight)
    state = fitted.trained.last
    weight = sum(layer.weight for layer in layers) / 4
    bias = sum(layer.bias for layer in layers) / 4
    assert state["head.weight"].numpy() == pytest.approx(weight, rel=1e-5)
    assert state["head.bias"].numpy() == pytest.approx(bias, rel=1e-5)


def test_only_the_last_layer_differs_from_the_base(toy, stage_calls):
    fitted, stages = fit("dfr", toy)
    assert set(stage_calls) == {"early/base"}
    base = stage_calls["early/base"]["trained"]
    assert fitted.trained.name == base.name == "early/base"
    differ = {n for n, value in fitted.trained.last.items() if not value.equal(base.last[n])}
    assert differ == {"head.weight", "head.bias"}
    assert stages.cost.examples_seen == SETTINGS.epochs * len(toy.train)
    assert stages.cost.seconds["train"] == 0
    assert stages.cost.seconds["early"] > 0


def several_classes(classes, rng, n=300, features=5):
    labels = np.arange(n) % classes
    centers = rng.normal(size=(classes, features)) * 2
    points = centers[labels] + rng.normal(size=(n, features))
    points = points * rng.uniform(0.1, 20, features) + rng.normal(size=features) * 5
    points[:, -1] = 3.0  # a feature that never varies
    return Examples(points.astype(np.float32), labels, labels)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_the_folded_layer_is_the_mean_regression_on_standardized_features(classes):
    rng = np.random.default_rng(classes)
    examples = several_classes(classes, rng)
    scaler = StandardScaler().fit(examples.features)
    parts = np.array_split(rng.permutation(len(examples.labels)), 3)
    layers, weights, biases = [], [], []
    for part in parts:
        regression = l1_regression(classes, np.random.default_rng(0))
        layers.append(fitted_layer(regression, 1.0, scaler, examples.subset(part)))
        weights.append(regression.coef_)
        biases.append(regression.intercept_)
    standardized = scaler.transform(examples.features.astype(np.float64))
    scores = standardized @ np.mean(weights, 0).T + np.mean(biases, 0)
    expected = (scores[:, 0] > 0) if classes == 2 else scores.argmax(1)
    model = Classifier(torch.nn.Identity(), torch.nn.Linear(5, classes))
    layer = mean_layer(layers)
    assert layer.weight.shape == (classes, 5)
    with torch.no_grad():
        model.head.weight.copy_(torch.from_numpy(layer.weight))
        model.head.bias.copy_(torch.from_numpy(layer.bias))
        logits = model(torch.from_numpy(examples.features))
    assert (logits.argmax(1).numpy() == expected).all()
    assert (expected == examples.labels).mean() > 0.8  # so there is something to agree on
    probabilities = logits.softmax(1).numpy()
    if classes == 2:
        assert probabilities[:, 1] == pytest.approx(1 / (1 + np.exp(-scores[:, 0])), abs=1e-4)
    else:
        shares = np.exp(scores - scores.max(1, keepdims=True))
        assert probabilities == pytest.approx(shares / shares.sum(1, keepdims=True), abs=1e-4)


def test_folding_by_hand():
    layer = folded(
        Layer(np.array([[2.0, 3.0]]), np.array([1.0])), np.array([4, 5]), np.array([2, 3])
    )
    # 2 (x - 4) / 2 + 3 (y - 5) / 3 + 1 = x + y - 8
    assert layer.weight.tolist() == [[1, 1]]
    assert layer.bias.tolist() == [-8]


@BOTH
def test_features_are_standardized_by_training_statistics(name, toy, monkeypatch):
    fits = []
    original = StandardScaler.fit

    def spy(self, points):
        fits.append(len(points))
        return original(self, points)

    monkeypatch.setattr(StandardScaler, "fit", spy)
    fit(name, toy)
    assert fits == [len(toy.train)]


@BOTH
def test_c_is_chosen_by_the_worst_group_of_examples_that_nothing_was_fitted_to(
    name, toy, monkeypatch, regressions
):
    tuned_on = []
    original = Layer.worst_group

    def spy(self, examples):
        tuned_on.append(examples)
        # A pretended winner in the middle of the grid.
        return 1.0 if self is regressions[3][2] else original(self, examples) / 2

    monkeypatch.setattr(Layer, "worst_group", spy)
    fitted, _ = fit(name, toy)
    assert fitted.notes["c"] == sorted(METHODS[name].options().c_grid)[3]
    fitted_to = {row.tobytes() for _, used, _ in regressions[:TRIED] for row in used.features}
    assert not fitted_to & {row.tobytes() for row in tuned_on[0].features}
    groups = np.bincount(toy.groups(toy.val))
    expected = groups if name == "dfr" else groups / 2
    assert np.abs(np.bincount(tuned_on[0].groups) - expected).max() <= 0.5


def test_the_worst_group_of_a_layer():
    layer = Layer(np.array([[-1.0], [1.0]]), np.zeros(2))
    examples = Examples(
        np.array([[-1.0], [2.0], [3.0], [4.0]]), np.array([0, 0, 1, 1]), np.arange(4)
    )
    assert layer.worst_group(examples) == 0
    assert layer.worst_group(examples.subset(np.array([0, 2, 3]))) == 1


def test_which_labels_each_may_see(toy):
    assert METHODS["dfr"].sees(DfrOptions()) == "train"
    assert METHODS["dfr_val"].sees(DfrValOptions()) == "val"
    without = replace(toy, train=replace(toy.train, attributes=None))
    with pytest.raises(InputError, match="no group labels"):
        fit("dfr", without)
    fit("dfr_val", without)
    unlabeled = replace(toy, val=replace(toy.val, attributes=None))
    with pytest.raises(InputError, match="no group labels"):
        fit("dfr_val", unlabeled)
    with pytest.raises(InputError, match="validation split with group labels, or a c_grid of one"):
        fit("dfr", unlabeled)
    fit("dfr", unlabeled, c_grid=(0.3,))  # a single C needs nothing to be chosen by


def test_validation_labels_are_what_the_last_layer_of_dfr_val_learns(toy):
    swapped = replace(toy, val=replace(toy.val, labels=1 - toy.val.labels))
    fitted, _ = fit("dfr_val", swapped)
    assert accuracies(fitted, toy)[0] < 0.2


def accuracies(fitted, task):
    fitted.trained.model.load_state_dict(fitted.trained.last)
    predictions = stages_for().outputs(fitted.trained, task.test).logits.argmax(1).numpy()
    correct = predictions == task.test.labels
    return float(correct.mean()), worst_accuracy(correct, task.groups(task.test))


@BOTH
def test_it_lifts_the_worst_group_above_plain_training(name, toy):
    plain = accuracies(fit("erm", toy)[0], toy)[1]
    assert accuracies(fit(name, toy)[0], toy)[1] > plain + 0.15


def three_classes(n=240):
    rng = np.random.default_rng(0)

    def split(n):
        labels = np.arange(n) % 3
        place = rng.integers(0, 2, n)
        points = rng.normal(size=(n, 3)) * 0.4 + np.eye(3)[labels] * 2
        return Split(
            TensorInputs(torch.tensor(points, dtype=torch.float32)), labels, {"place": place}
        )

    return Task(
        name="three",
        train=split(n),
        val=split(n),
        test=split(n),
        class_names=("a", "b", "c"),
        attribute_values={"place": ("land", "water")},
        build_model=lambda: Classifier(torch.nn.Identity(), torch.nn.Linear(3, 3)),
    )


@BOTH
def test_more_than_two_classes(name):
    task = three_classes()
    fitted, _ = fit(name, task)
    assert accuracies(fitted, task)[1] > 0.9


def test_regressions_that_do_not_converge_are_one_warning(monkeypatch):
    monkeypatch.setattr(dfr, "MOST_PRODUCTS", 1)
    monkeypatch.setattr(dfr, "TOLERANCE", 1e-12)
    with pytest.warns(SpareWarning) as caught:
        fit("dfr", three_classes(), c_grid=(1.0, 0.7), refits=3)
    (warning,) = caught
    assert "5 of 5 regressions for the last layer were stopped" in str(warning.message)


def only(task, split, keep):
    return replace(task, **{split: getattr(task, split).subset(np.flatnonzero(keep))})


def members(task, split, group, keep):
    """True for all examples of other groups, and for the first few of this one."""
    groups = task.groups(getattr(task, split))
    return (groups != group) | (np.cumsum(groups == group) <= keep)


def test_small_groups_get_a_warning(toy):
    tiny = only(toy, "train", members(toy, "train", 1, 3))
    with pytest.warns(SpareWarning, match="smallest group, left/water, has 3 training examples"):
        fitted, _ = fit("dfr", tiny)
    assert fitted.notes["examples_of_each_group"] == 3
    tiny = only(toy, "val", members(toy, "val", 2, 9))
    with pytest.warns(SpareWarning, match="smallest group, right/land, has 9 validation examples"):
        fit("dfr_val", tiny)


def test_a_group_without_examples_gets_a_warning_and_the_others_are_balanced(toy, regressions):
    lacking = only(toy, "train", members(toy, "train", 1, 0))
    with pytest.warns(
        SpareWarning, match="1 of 4 groups have no training example, such as left/water"
    ):
        fit("dfr", lacking)
    sizes = np.bincount(regressions[-1][1].groups)
    assert sizes[1] == 0
    assert sizes[0] == sizes[2] == sizes[3] > 0


def test_what_cannot_be_fitted_is_refused_before_anything_is_trained(toy, monkeypatch):
    def refuse(*given, **more):
        raise AssertionError("something was trained")

    monkeypatch.setattr(Stages, "train", refuse)
    alone = only(toy, "val", members(toy, "val", 2, 1))
    with pytest.raises(InputError, match="right/land, has 1 validation example, and DFR needs one"):
        fit("dfr_val", alone)
    one_class = only(toy, "val", toy.val.labels == 0)
    with pytest.raises(InputError, match="of every class, but 'right' has none: add some"):
        fit("dfr_val", one_class)
    with pytest.raises(InputError, match="validation examples, and there are none"):
        fit("dfr_val", replace(toy, val=None))
    with pytest.raises(InputError, match="and there are none: give a validation split"):
        fit("dfr", replace(toy, val=None))
    headless = replace(
        toy, build_model=lambda: Classifier(torch.nn.Identity(), torch.nn.Linear(2, 2, bias=False))
    )
    with pytest.raises(InputError, match="has a bias"):
        fit("dfr", headless)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"c_grid": ()}, "at least one number"),
        ({"c_grid": (1.0, 0.0)}, "above 0"),
        ({"refits": 0}, "refits is from 1"),
    ],
)
def test_impossible_options_are_refused(wrong, says):
    for options in (DfrOptions, DfrValOptions):
        with pytest.raises(InputError, match=says):
            options(**wrong)


def test_l1_is_requested_as_the_installed_scikit_learn_wants_it():
    """Coefficients that are exactly 0, and no warning of any kind."""
    for classes in (2, 3):
        examples = several_classes(classes, np.random.default_rng(0))
        scaler = StandardScaler().fit(examples.features)
        regression = l1_regression(classes, np.random.default_rng(0))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            layer = fitted_layer(regression, 0.01, scaler, examples)
        varying = layer.weight[:, :-1]
        assert 0 < (varying == 0).sum() < varying.size
