"""What every method must do, and then what each of them claims."""

from __future__ import annotations

import importlib
from dataclasses import replace

import numpy as np
import pytest
import torch

from spare.errors import InputError, SpareWarning
from spare.groups.clusters import infer_groups
from spare.groups.result import groups_from_parts
from spare.methods import METHODS, method_named, separation
from spare.methods.separation import separate
from spare.methods.spare import sampling_probabilities
from spare.models import Classifier
from spare.training.metrics import smallest_recall
from spare.training.settings import Settings
from spare.training.stages import Stages
from tests.conftest import sampled_rows, toy_task

JttOptions = METHODS["jtt"].options
SpareOptions = METHODS["spare"].options
SETTINGS = Settings(epochs=4, batch_size=16, lr=0.01)
#: An epoch of CnC is a hundred plain ones.
SHORTER = {
    "cnc": {"anchor_share": 0.1},
    "eiil": {"environment_steps": 300},
    "pgi": {"environment_steps": 300},
    "ssa": {"attribute_steps": 200, "attribute_check": 50},
}


def stages_for(seed=0, settings=SETTINGS, **more):
    def judge(epoch):
        return {"average": float(epoch.correct.mean())}, {}

    return Stages(seed=seed, settings=settings, judge=judge, **more)


def fit(method, task, options=None, **more):
    options = options or method.options(**SHORTER.get(method.name, {}))
    stages = stages_for(**more)
    return method.fit(task.as_seen_by(method.sees(options)), stages, options), stages


every = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


@every
def test_it_fits_and_the_same_seed_gives_the_same_result(method, toy):
    first, stages = fit(method, toy)
    again, _ = fit(method, toy)
    another, _ = fit(method, toy, seed=1)
    for name, value in first.trained.last.items():
        assert value.equal(again.trained.last[name])
    assert not all(v.equal(another.trained.last[n]) for n, v in first.trained.last.items())
    # AFR keeps a fifth for the last layer.
    assert stages.cost.examples_seen >= 0.8 * 4 * len(toy.train)


@every
def test_it_never_reads_group_labels_it_did_not_declare(method, toy):
    sees = method.sees(method.options())
    hidden = replace(
        toy,
        train=toy.train if sees == "train" else replace(toy.train, attributes=None),
        val=toy.val if sees != "none" else replace(toy.val, attributes=None),
        test=replace(toy.test, attributes=None),
    )
    with_labels, _ = fit(method, toy)
    without, _ = fit(method, hidden)
    for name, value in with_labels.trained.last.items():
        assert value.equal(without.trained.last[name])


@every
def test_it_describes_itself(method):
    assert method.title
    assert method.paper
    assert method.sees(method.options()) in ("none", "val", "train")
    assert importlib.import_module(f"spare.methods.{method.name}").METHOD is method


def test_an_unknown_method_is_refused_with_the_nearest():
    with pytest.raises(InputError, match="did you mean 'spare'"):
        method_named("spear")


def sampled_groups(method, task, stage_calls, options=None):
    """The true groups of what a method's last training stage samples in one epoch."""
    fit(method, task, options)
    groups = task.groups(task.train)[sampled_rows(stage_calls["train"])]
    return np.bincount(groups, minlength=4) / len(task.train)


def test_erm_samples_every_example_once(toy, stage_calls):
    truth = np.bincount(toy.groups(toy.train), minlength=4) / len(toy.train)
    assert sampled_groups(METHODS["erm"], toy, stage_calls) == pytest.approx(truth)


def test_class_balancing_balances_classes_and_not_groups(toy, stage_calls):
    uneven = toy.train.labels * (np.arange(400) % 8 < 2)  # 50 of class 1
    train = replace(toy.train, labels=uneven)
    shares = sampled_groups(METHODS["cb"], replace(toy, train=train), stage_calls)
    assert shares[2:].sum() == pytest.approx(0.5, abs=0.07)  # an eighth of the examples
    assert shares[3] > 3 * shares[2]


def test_group_balancing_balances_true_groups(toy, stage_calls):
    shares = sampled_groups(METHODS["gb"], toy, stage_calls)
    assert shares == pytest.approx([0.25] * 4, abs=0.07)


def test_jtt_repeats_only_the_mistakes_of_its_first_model(toy, stage_calls):
    fitted, _ = fit(METHODS["jtt"], toy, JttOptions(reference_epochs=1, upweight=7))
    times = np.bincount(sampled_rows(stage_calls["train"]), minlength=len(toy.train))
    assert sorted(np.unique(times).tolist()) == [1, 8]
    assert (times == 8).sum() == fitted.inferred.notes["mistakes"]
    assert fitted.inferred.early_epoch == 1
    minority = toy.train.attributes["place"] != toy.train.labels
    assert minority[times == 8].mean() > 0.7  # the first model has learned the shortcut
    assert np.bincount(sampled_rows(stage_calls["early/reference"])).tolist() == [1] * len(
        toy.train
    )


@pytest.mark.parametrize(
    ("name", "says", "more"),
    [
        ("jtt", "the early model gets wrong only", {}),
        ("eiil", "the second environment has only", {"environment_steps": 0}),
    ],
)
def test_hardly_any_mistakes_are_worth_a_warning(name, says, more):
    method, easy = METHODS[name], toy_task(share=1.0)
    with pytest.warns(SpareWarning, match=f"{says} 0 of 400 .* lower reference_epochs"):
        fit(method, easy, method.options(reference_epochs=8, **more))


def test_spare_finds_the_minorities_and_lifts_them(toy, stage_calls):
    before = np.bincount(toy.groups(toy.train), minlength=4) / len(toy.train)
    options = SpareOptions(k=2, power=(1.0,))
    fitted, _ = fit(METHODS["spare"], toy, options)
    minority = toy.train.attributes["place"] != toy.train.labels
    recall = (~fitted.inferred.groups.in_majority())[minority].mean()
    assert recall > 0.9
    shares = sampled_groups(METHODS["spare"], toy, stage_calls, options)
    assert shares[1] > 3 * before[1]
    assert shares[2] > 3 * before[2]


def test_spare_as_published_clusters_the_outputs_of_one_epoch(toy, stage_calls):
    for epoch in (1, 3):
        options = METHODS["spare_paper"].options(separate_at=epoch)
        inferred = fit(METHODS["spare_paper"], toy, options)[0].inferred
        model = stage_calls[f"early/{epoch}"]["trained"]
        points = stages_for().outputs(model, toy.train).probabilities
        groups = infer_groups(points, toy.train.labels)
        assert (inferred.groups.ids == groups.ids).all()
        assert inferred.groups.evidence == groups.evidence
        assert inferred.early_epoch == inferred.early_outputs[-1].epoch == epoch
        assert inferred.early_outputs[-1].confidence == pytest.approx(points.numpy().max(1))
        assert (inferred.early_outputs[-1].predicted == points.argmax(1).numpy()).all()


def test_every_split_is_evaluated_once_however_many_classes_there_are(toy, monkeypatch):
    counted, whole = [], Stages.outputs

    def count(self, trained, split, **more):
        counted.append(len(split))
        return whole(self, trained, split, **more)

    monkeypatch.setattr(Stages, "outputs", count)
    fit(METHODS["spare_paper"], toy, METHODS["spare_paper"].options(separate_at=1))
    assert counted == [len(split) for split in toy.splits().values()]


def looking(toy, monkeypatch, clarities, **options):
    """A separation whose looks find these clarities: by look, then by class."""
    found = iter(clarities)
    clustered = separation.clustered

    def pretend(outputs, labels, *more):
        groups, blocks = clustered(outputs, labels, *more)
        pretended = dict(zip((0, 1), next(found), strict=True))
        blocks = {
            label: replace(
                block, size=50, share=0.1, right=0.0, silhouette=pretended[label], held=1.0
            )
            for label, block in blocks.items()
        }
        return groups, blocks

    monkeypatch.setattr(separation, "clustered", pretend)
    return separate(toy.as_seen_by("none"), stages_for(), SpareOptions(k=2, **options))


def test_each_class_keeps_the_look_at_which_it_was_clearest(toy, monkeypatch):
    clarities = [(0.3, 0.7), (0.8, 0.6), (0.5, 0.6), (0.2, 0.1)]
    found = looking(toy, monkeypatch, clarities, early_budget=1.0)
    assert [look.epoch for look in found.looks] == [1, 2, 3, 4]
    assert found.epochs() == {0: 2, 1: 1}
    parts = {label: look.groups for label, look in found.chosen.items()}
    for label, groups in parts.items():
        rows = toy.train.labels == label
        codes = groups.ids[rows] - groups.evidence[label].first_id
        assert (found.groups.ids[rows] - found.groups.evidence[label].first_id == codes).all()
    # What is kept of each example is what its class was clustered by.
    kept = found.early_outputs(stages_for(), toy.train)[-1]
    assert kept.epoch == 2
    for label, look in found.chosen.items():
        rows = toy.train.labels == label
        probabilities = look.logits.softmax(1).numpy()[rows]
        assert kept.confidence[rows] == pytest.approx(probabilities.max(1))
        assert (kept.predicted[rows] == probabilities.argmax(1)).all()


@pytest.mark.parametrize(
    ("clarities", "is_believed"), [((0.6, 0.3), False), ((0.6, 0.6), True), ((0.85, 0.3), True)]
)
def test_one_doubtful_class_alone_is_not_believed(toy, monkeypatch, clarities, is_believed):
    found = looking(toy, monkeypatch, [clarities] * 2, early_budget=0.5)
    for label, block in found.blocks.items():
        power = block.power if is_believed else 0.0
        assert found.groups.evidence[label].power == power
    assert any(block.power for block in found.blocks.values())


def test_looking_ends_when_every_class_has_fallen_apart(toy, monkeypatch):
    found = looking(toy, monkeypatch, [(0.96, 0.7), (0.1, 0.97)], early_budget=1.0)
    assert [look.epoch for look in found.looks] == [1, 2]
    assert found.epochs() == {0: 1, 1: 2}
    assert set(found.looks[1].blocks) == {1}  # of the other class there was nothing more to see


def test_looking_ends_with_the_budget(toy, monkeypatch):
    found = looking(toy, monkeypatch, [(0.1, 0.1), (0.2, 0.2), (0.3, 0.3)], early_budget=0.75)
    assert [look.epoch for look in found.looks] == [1, 2, 3]
    assert found.epochs() == {0: 3, 1: 3}


def test_held_out_examples_are_assigned_by_the_look_of_their_class(toy, monkeypatch):
    found = looking(toy, monkeypatch, [(0.3, 0.7), (0.8, 0.6)], early_budget=0.5)
    assigned = found.assign(stages_for(), toy.val, SpareOptions())
    for label, look in found.chosen.items():
        rows = np.flatnonzero(toy.val.labels == label)
        outputs = look.of(stages_for(), toy.val, "softmax")[rows]
        ids = look.groups.assign(outputs, toy.val.labels[rows])
        codes = ids - look.groups.evidence[label].first_id
        assert (assigned[rows] - found.groups.evidence[label].first_id == codes).all()


@pytest.mark.parametrize("name", ["spare", "bridge"])
def test_where_no_class_has_fallen_apart_training_is_plain(toy, name):
    """Labels without any pattern: whatever clusters there are, it does what ERM does."""
    rng = np.random.default_rng(1)
    task = replace(toy, train=replace(toy.train, labels=rng.permutation(toy.train.labels)))
    with pytest.warns(SpareWarning, match="learned next to nothing"):
        fitted, _ = fit(METHODS[name], task)
    plain, _ = fit(METHODS["erm"], task)
    assert fitted.probabilities is None
    assert all(value.equal(plain.trained.last[key]) for key, value in fitted.trained.last.items())


def test_a_class_that_has_not_fallen_apart_keeps_its_natural_weights(toy):
    parts = 1 - (toy.groups(toy.train) % 2 == toy.train.labels).astype(int)
    groups = groups_from_parts(parts, toy.train.labels).with_powers({0: 0.0, 1: 1.0})
    probabilities = sampling_probabilities(groups, SpareOptions())
    whole = toy.train.labels == 0
    assert probabilities[whole] == pytest.approx(0.5 / whole.sum())
    assert [probabilities[groups.ids == i].sum() for i in groups.evidence[1].ids] == pytest.approx(
        [0.25, 0.25]
    )


def test_validation_groups_choose_among_candidates(toy):
    options = SpareOptions(separate_at="val", candidates=(1, 2, 3), k=2)
    by_val, stages = fit(METHODS["spare"], toy, options)
    assert by_val.inferred.notes["separated_at"] in (1, 2, 3)
    # Three early epochs in all, not one and two and three.
    assert stages.cost.examples_seen == (3 + SETTINGS.epochs) * len(toy.train)


def test_choosing_by_validation_groups_declares_that_it_sees_them(toy):
    method = METHODS["spare"]
    assert method.sees(SpareOptions(separate_at="val")) == "val"
    assert method.sees(SpareOptions(separate_at="auto")) == "none"
    unlabeled = replace(toy, val=replace(toy.val, attributes=None))
    with pytest.raises(InputError, match="no group labels"):
        fit(method, unlabeled, SpareOptions(separate_at="val"))


def test_smallest_recall_is_of_the_worst_class_and_finds_each_majority():
    labels = np.array([0] * 6 + [1] * 6)
    groups = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
    majority = np.array([1, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1, 1], dtype=bool)
    assert smallest_recall(labels, groups, majority) == pytest.approx(2 / 3)


def test_a_warm_start_continues_from_the_early_weights(toy):
    settings = replace(SETTINGS, epochs=1, lr=1e-9)  # so small a rate that weights stay put
    options = SpareOptions(separate_at=3, early_lr=0.05, warm_start=True)
    warm, _ = fit(METHODS["spare"], toy, options, settings=settings)
    fresh, _ = fit(METHODS["spare"], toy, replace(options, warm_start=False), settings=settings)
    early, _ = fit(METHODS["erm"], toy, settings=settings)
    gap = (warm.trained.last["head.weight"] - early.trained.last["head.weight"]).abs().max()
    assert gap > 1e-3
    assert fresh.trained.last["head.weight"].allclose(early.trained.last["head.weight"], atol=1e-6)


def test_powers_by_class(toy):
    fitted, _ = fit(METHODS["spare"], toy, SpareOptions(k=2, power=(1.0, 1.5)))
    assert fitted.inferred.groups.powers() == {0: 1.0, 1: 1.5}
    with pytest.raises(InputError, match="one for each of 2 classes"):
        fit(METHODS["spare"], toy, SpareOptions(power=(1.0, 2.0, 3.0)))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [({"separate_at": "soon"}, "'val' or 'auto'"), ({"separate_at": 0}, "separate_at is from 1")],
)
def test_impossible_options_are_refused(wrong, says):
    with pytest.raises(InputError, match=says):
        SpareOptions(**wrong)


def test_cross_fitted_outputs_come_from_models_that_did_not_see_the_example(toy, monkeypatch):
    """Every example is scored by as many models as there are halvings, none trained on it."""
    trained_on, scored = {}, []
    train, outputs = Stages.train, Stages.outputs

    def spy_train(self, name, task, batches, **more):
        fitted = train(self, name, task, batches, **more)
        if name.startswith("early/"):
            trained_on[id(fitted)] = (fitted, set(task.train.inputs.rows.tolist()))
        return fitted

    def spy_outputs(self, fitted, split, **more):
        if id(fitted) in trained_on and hasattr(split.inputs, "rows"):
            rows = getattr(split.inputs, "rows", None)
            if rows is not None and split.inputs.inputs is toy.train.inputs:
                assert not trained_on[id(fitted)][1] & set(rows.tolist())
                scored.extend(rows.tolist())
        return outputs(self, fitted, split, **more)

    monkeypatch.setattr(Stages, "train", spy_train)
    monkeypatch.setattr(Stages, "outputs", spy_outputs)
    options = SpareOptions(cross_fit=3, early_lrs=(0.05,), k=2)
    fitted, stages = fit(METHODS["spare"], toy, options)
    assert np.bincount(scored).tolist() == [3] * len(toy.train)
    # Three halvings are three epochs, and the second training has four.
    assert stages.cost.examples_seen == (3 + SETTINGS.epochs) * len(toy.train)
    assert fitted.inferred.notes["early_lr"] == 0.05
    minority = toy.train.attributes["place"] != toy.train.labels
    assert (~fitted.inferred.groups.in_majority())[minority].mean() > 0.8
    assert set(fitted.inferred.held_out) == {"val", "test"}


def test_cross_fitting_raises_the_rate_until_every_class_falls_apart(toy, monkeypatch):
    clarities = [(0.5, 0.96), (0.89, 0.5), (0.96, 0.5)]
    rates = (0.5, 0.001, 0.05, 0.01)
    found = looking(toy, monkeypatch, clarities, cross_fit=1, early_lrs=rates)
    assert [look.lr for look in found.looks] == [0.001, 0.01, 0.05]
    assert {label: look.lr for label, look in found.chosen.items()} == {0: 0.05, 1: 0.001}


def test_cross_fitting_stops_where_models_only_become_surer_of_themselves(toy, monkeypatch):
    """Their blocks are clear whether there is a shortcut or not, so they are not looked at."""
    monkeypatch.setattr(separation, "CLEAR", 2.0)
    losses = iter([0.5, 0.4, 0.43, 0.45, 0.3])
    monkeypatch.setattr(separation, "loss_over_classes", lambda logits, labels: next(losses))
    options = SpareOptions(cross_fit=1, early_lrs=(0.001, 0.003, 0.01, 0.03, 0.1))
    fitted, _ = fit(METHODS["spare"], toy, options)
    assert fitted.inferred.notes["early_lr"] == 0.01


def test_the_loss_on_what_was_not_seen_counts_every_class_the_same():
    logits = torch.tensor([[9.0, 0.0], [9.0, 0.0], [9.0, 0.0], [0.0, 0.0]])
    loss = separation.loss_over_classes(logits, np.array([0, 0, 0, 1]))
    assert loss == pytest.approx((np.log1p(np.exp(-9)) + np.log(2)) / 2)


@pytest.mark.parametrize(
    "options",
    [{"output": "features"}, {"separate_at": 2, "early_lrs": (0.01,)}],
)
def test_what_cannot_be_cross_fitted(options):
    with pytest.raises(InputError, match="cross_fit=0"):
        SpareOptions(cross_fit=2, **options)


def test_cross_fitting_at_one_rate_looks_after_every_epoch(toy, monkeypatch):
    monkeypatch.setattr(separation, "LEAST_STEPS", 1)
    clarities = [(0.5, 0.96), (0.89, 0.5), (0.96, 0.5)]
    found = looking(toy, monkeypatch, clarities, cross_fit=1, early_budget=1.0)
    assert [look.epoch for look in found.looks] == [1, 2, 3]
    assert found.epochs() == {0: 3, 1: 1}
    assert [len(look.models) for look in found.looks] == [2, 2, 2]


def test_cross_fitted_models_are_continued_from_look_to_look(toy, monkeypatch, stage_calls):
    """So that three looks cost three epochs, and the last is what three epochs would give."""
    monkeypatch.setattr(separation, "LEAST_STEPS", 1)
    monkeypatch.setattr(separation, "CLEAR", 2.0)  # nothing is ever that clear
    step_by_step = SpareOptions(cross_fit=1, early_budget=0.75)
    continued, stages = fit(METHODS["spare"], toy, step_by_step)
    assert stages.cost.examples_seen == (3 + SETTINGS.epochs) * len(toy.train)
    last = f"early/{SETTINGS.lr:g}-3-0"
    step_by_step_weights = stage_calls[last]["trained"].last
    at_once, _ = fit(METHODS["spare"], toy, SpareOptions(cross_fit=1, separate_at=3))
    for name, weights in stage_calls[last]["trained"].last.items():
        assert weights.equal(step_by_step_weights[name]), name
    for fitted in (continued, at_once):
        assert fitted.inferred.early is None  # neither half's model is the early model


HEADS = {"early_layers": "head", "cross_fit": 2, "early_lrs": (0.05, 0.1), "k": 2}


def test_heads_are_asked_about_features_that_the_network_starts_with(trained_toy, stage_calls):
    toy = trained_toy
    fitted, stages = fit(METHODS["spare"], toy, SpareOptions(**HEADS))
    heads = [call["trained"] for name, call in stage_calls.items() if name.startswith("early/")]
    assert heads
    assert all(set(head.last) == {"head.weight", "head.bias"} for head in heads)
    assert heads[0].last["head.weight"].shape == (2, 8)  # the toy network has eight features
    assert set(fitted.trained.last) == set(stages.fresh(toy).state_dict())
    minority = toy.train.attributes["place"] != toy.train.labels
    assert (~fitted.inferred.groups.in_majority())[minority].mean() > 0.8
    assert {name: len(ids) for name, ids in fitted.inferred.held_out.items()} == {
        "val": len(toy.val), "test": len(toy.test),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("deep", "powers"),
    [
        ((0.3, 0.3), {0: 1.0, 1: 1.0}),
        ((0.3, 0.2), {0: 0.0, 1: 0.0}),
        ((0.2, 0.2), {0: 0.0, 1: 0.0}),
    ],
)
def test_mistakes_of_models_that_did_not_see_the_example_have_to_be_deep(
    trained_toy, monkeypatch, deep, powers
):
    monkeypatch.setattr(separation, "depths", lambda logits, labels: dict(enumerate(deep)))
    fitted, _ = fit(METHODS["spare"], trained_toy, SpareOptions(**HEADS))
    assert {label: block.depth for label, block in fitted.inferred.blocks.items()} == {
        label: pytest.approx(depth) for label, depth in enumerate(deep)
    }
    assert fitted.inferred.groups.powers() == powers
    plain, _ = fit(METHODS["erm"], trained_toy)
    same = all(v.equal(plain.trained.last[n]) for n, v in fitted.trained.last.items())
    assert same == (not any(powers.values()))


def test_the_depth_is_that_of_the_models_with_the_lowest_loss(toy, monkeypatch):
    losses, found = iter([0.5, 0.4, 0.42]), iter([0.5, 0.1, 0.5])
    monkeypatch.setattr(separation, "loss_over_classes", lambda logits, labels: next(losses))
    monkeypatch.setattr(separation, "CLEAR", 2.0)  # nothing is ever that clear
    monkeypatch.setattr(
        separation, "depths", lambda logits, labels: dict.fromkeys((0, 1), next(found))
    )
    options = SpareOptions(cross_fit=2, early_lrs=(0.001, 0.01, 0.05))
    fitted, _ = fit(METHODS["spare"], toy, options)
    assert [block.depth for block in fitted.inferred.blocks.values()] == [0.1, 0.1]


def test_heads_count_as_one_pass_through_the_network(trained_toy):
    _, stages = fit(METHODS["spare"], trained_toy, SpareOptions(**HEADS))
    assert stages.cost.examples_seen == (1 + SETTINGS.epochs) * len(trained_toy.train)


def test_heads_on_features_of_random_weights_are_refused(toy, stage_calls):
    with pytest.raises(InputError, match="early_layers=all"):
        fit(METHODS["spare"], toy, SpareOptions(**HEADS))
    assert not stage_calls


def test_heads_on_given_features_are_counted_as_the_trainings_they_are(toy, monkeypatch):
    monkeypatch.setattr(separation, "CLEAR", 2.0)  # so that every rate is tried
    monkeypatch.setattr(separation, "OVERSURE", 100.0)
    identity = torch.nn.Identity()
    linear = replace(toy, build_model=lambda: Classifier(identity, torch.nn.Linear(2, 2)))
    _, stages = fit(METHODS["spare"], linear, SpareOptions(**HEADS))
    assert stages.cost.examples_seen == (2 * 2 + SETTINGS.epochs) * len(toy.train)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"early_layers": "heads"}, "head"),
        ({"early_layers": "head", "output": "features"}, "early_layers=all"),
    ],
)
def test_heads_that_cannot_be_asked_are_refused(wrong, says):
    with pytest.raises(InputError, match=says):
        SpareOptions(**wrong)


def test_rates_are_for_cross_fitting_alone(toy):
    """Otherwise cross_fit=0 could not be said where a preset has rates."""
    fitted, _ = fit(METHODS["spare"], toy, SpareOptions(early_lrs=(0.001, 0.01), separate_at=1))
    assert fitted.inferred.notes["early_lr"] == SETTINGS.lr


@pytest.mark.filterwarnings("ignore:the early model has learned next to nothing")
def test_a_class_of_one_example_can_be_cross_fitted(toy):
    """It cannot be halved, and every model needs an example of every class."""
    others = np.flatnonzero(toy.train.labels == 0)
    alone = np.flatnonzero(toy.train.labels == 1)[:1]
    task = replace(toy, train=toy.train.subset(np.concatenate([others, alone])))
    options = SpareOptions(cross_fit=2, early_lrs=(0.05,), k=2)
    with pytest.warns(SpareWarning, match="only one example"):
        fitted, _ = fit(METHODS["spare"], task, options)
    assert fitted.inferred.groups.evidence[1].sizes == [1]


def test_no_warm_start_from_many_models(toy):
    options = SpareOptions(cross_fit=1, early_lrs=(0.05,), warm_start=True)
    with pytest.raises(InputError, match="one early model to continue from"):
        fit(METHODS["spare"], toy, options)


@pytest.mark.filterwarnings("ignore:the early model has learned next to nothing")
def test_natural_class_mass_is_what_is_sampled(toy, stage_calls):
    uneven = toy.train.labels * (np.arange(400) % 8 < 2)  # 50 of class 1
    task = replace(toy, train=replace(toy.train, labels=uneven))
    shares = {
        mass: sampled_groups(
            METHODS["spare"], task, stage_calls, SpareOptions(class_mass=mass, power=(1.0,))
        )
        for mass in ("equal", "natural")
    }
    assert shares["equal"][2:].sum() == pytest.approx(0.5, abs=0.07)
    assert shares["natural"][2:].sum() == pytest.approx(0.125, abs=0.04)


def test_when_to_look():
    auto = SpareOptions()
    assert auto.looks_after(steps=25, epochs=20) == [1, 2, 3, 4, 5, 6]
    # Where an epoch has few steps, several count as one; there are always two looks.
    assert auto.looks_after(steps=7, epochs=20) == [4, 8]
    assert auto.looks_after(steps=1000, epochs=1) == [1, 2]
    assert SpareOptions(separate_at=2).looks_after(7, 20) == [2]
    by_val = SpareOptions(separate_at="val", candidates=(1, 3))
    assert by_val.looks_after(25, 20) == [1, 3]
    assert by_val.looks_after(7, 20) == [4, 12]


def test_every_learning_rate_that_was_tried_is_counted(toy, monkeypatch):
    monkeypatch.setattr(separation, "CLEAR", 2.0)  # nothing is ever that clear
    options = SpareOptions(cross_fit=2, early_lrs=(0.001, 0.01, 0.05))
    _, stages = fit(METHODS["spare"], toy, options)
    assert stages.cost.examples_seen == (3 * 2 + SETTINGS.epochs) * len(toy.train)


@pytest.mark.parametrize(
    ("right", "says"), [(0.51, "next to nothing .5"), (1.0, "already right on every")]
)
def test_an_early_model_that_learned_nothing_or_everything_is_said(toy, monkeypatch, right, says):
    labels = toy.train.labels
    shown = np.where(np.arange(len(labels)) < round(right * len(labels)), labels, 1 - labels)
    monkeypatch.setattr(separation.Separation, "predicted", lambda self: shown)
    with pytest.warns(SpareWarning, match=says):
        fit(METHODS["spare"], toy)
