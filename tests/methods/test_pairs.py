"""Any inference with any trainer."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from spare.errors import InputError, SpareWarning
from spare.methods import INFERENCES, METHODS, TRAINERS, method_named
from spare.methods.method import NoOptions, joined
from spare.training.stages import Stages
from tests.conftest import sampled_rows
from tests.methods.test_methods import SETTINGS, fit, stages_for

PAIRS = [f"{first}+{second}" for first in ("spare", "jtt", "xrm", "truth") for second in TRAINERS]
NAMED = {tuple(half.name for half in m.halves) for m in METHODS.values() if m.halves}
PAIRS = [pair for pair in PAIRS if tuple(pair.split("+")) not in NAMED]


@pytest.mark.filterwarnings("ignore:pgi continues from one early model")
@pytest.mark.parametrize("name", PAIRS)
def test_every_pair_trains(toy, name):
    method = method_named(name)
    fitted, _ = fit(method, toy)
    assert len(fitted.probabilities) == len(toy.train)
    assert fitted.probabilities.sum() == pytest.approx(1)
    assert method.sees(method.options()) == ("train" if name.startswith("truth") else "none")


def test_the_first_half_names_the_groups_and_the_second_uses_them(toy, stage_calls):
    """JTT's repeating on SPARE's groups repeats all but the largest cluster of each class."""
    method = method_named("spare+jtt")
    fitted, _ = fit(method, toy, method.options(k=2, upweight=5))
    times = np.bincount(sampled_rows(stage_calls["train"]), minlength=len(toy.train))
    assert (times == np.where(fitted.inferred.groups.in_majority(), 1, 6)).all()
    assert not fitted.inferred.groups.in_majority().all()


def test_a_pair_that_has_a_name_is_called_by_it():
    with pytest.raises(InputError, match=r"spare\+spare is the method spare"):
        method_named("spare+spare")
    with pytest.raises(InputError, match=r"before '\+'.*did you mean 'spare'"):
        method_named("spear+gdro")
    with pytest.raises(InputError, match=r"after '\+'.*did you mean 'gdro'"):
        method_named("spare+gdr")


def test_the_halves_of_the_published_methods():
    halves = {name: tuple(h.name for h in m.halves) for name, m in METHODS.items() if m.halves}
    assert halves["spare"] == ("spare", "spare")
    assert halves["jtt"] == ("jtt", "jtt")
    assert halves["eiil"] == ("eiil", "gdro")
    assert halves["xrm"] == ("xrm", "gdro")
    assert halves["gb"] == ("truth", "gb")
    assert halves["gdro"] == ("truth", "gdro")
    assert set(INFERENCES) >= {"spare", "jtt", "eiil", "truth"}


def test_options_of_both_halves_and_their_checks():
    @dataclasses.dataclass(frozen=True)
    class A:
        a: int = 1

        def __post_init__(self):
            if self.a < 0:
                raise InputError("a")

    @dataclasses.dataclass(frozen=True)
    class B:
        b: int = 2

        def __post_init__(self):
            if self.b < 0:
                raise InputError("b")

    both = joined(A, B)
    assert dataclasses.asdict(both()) == {"a": 1, "b": 2}
    for wrong in ("a", "b"):
        with pytest.raises(InputError, match=wrong):
            both(**{wrong: -1})
    assert joined(A, NoOptions) is A
    assert joined(NoOptions, NoOptions) is NoOptions


@pytest.mark.parametrize("name", ["spare", "jtt", "eiil", "george", "xrm", "spare+gdro"])
def test_epochs_can_be_selected_by_inferred_groups_of_validation(toy, name):
    judged = []

    def judge(epoch):
        judged.append(epoch.inferred_groups)
        return {}, {}

    method = method_named(name)
    options = method.options(**{"eiil": {"environment_steps": 0}}.get(name, {}))
    fitted = method.fit(
        toy.as_seen_by("none"), Stages(seed=0, settings=SETTINGS, judge=judge), options
    )
    assert len(judged) == SETTINGS.epochs  # of the second training alone
    assert all(groups is fitted.inferred.held_out["val"] for groups in judged)


@pytest.mark.parametrize("per_class", [False, True])
def test_eiil_takes_the_worst_case_over_its_environments(toy, per_class):
    options = METHODS["eiil"].options(environment_steps=0, per_class=per_class)
    inferred = INFERENCES["eiil"].infer(toy.as_seen_by("none"), stages_for(), options)
    assert len(np.unique(inferred.worst_case_over)) == (4 if per_class else 2)
    minority = toy.train.attributes["place"] != toy.train.labels
    assert minority[~inferred.groups.in_majority()].mean() > 0.7


def test_pgi_continues_from_the_reference_model(toy, stage_calls):
    fit(METHODS["pgi"], toy, METHODS["pgi"].options(environment_steps=0))
    start, reference = stage_calls["train"]["start"], stage_calls["early/reference"]["trained"].last
    assert all(start[name].equal(value) for name, value in reference.items())


def test_pgi_says_so_where_there_is_no_early_model_to_continue(trained_toy, stage_calls):
    method = method_named("spare+pgi")
    heads = {"early_layers": "head", "cross_fit": 1, "early_lrs": (0.05, 0.1)}
    with pytest.warns(SpareWarning, match="starts from fresh weights"):
        fit(method, trained_toy, method.options(**heads))
    assert stage_calls["train"]["start"] is None
