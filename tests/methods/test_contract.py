"""What a method may be: phases and options of its own, and a file outside the package."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest

from spare.errors import InputError
from spare.methods import discovery_with, method_named, with_given_groups
from spare.methods.method import Fitted, Inference, Method, Trainer, combined, sees
from spare.methods.spare import INFERENCE as SPARE
from spare.training.batches import shuffled
from tests.methods.test_methods import SETTINGS, fit, stages_for


def test_a_method_may_have_phases_of_its_own(toy):
    """Its final training is called "finetune", and it times a phase of another name."""

    def finetune(task, stages, options):
        batches = shuffled(len(task.train), stages.settings.batch_size)
        early = stages.train("early/warmup", task, batches)
        with stages.timed("packing"):
            start = dict(early.last)
        return Fitted(stages.train("finetune", task, batches, start=start))

    kept = []
    method = Method("tiny", "fine-tuning", "-", sees("none"), finetune)
    fitted, stages = fit(method, toy, keep=kept.append)
    assert [trained.name for trained in kept] == ["finetune"]
    assert set(kept[0].kept) == {"average"}  # an epoch was selected
    assert fitted.trained.name == "finetune"
    seconds = stages.cost.seconds
    assert set(seconds) == {"early", "outputs", "inference", "train", "packing", "finetune"}
    assert seconds["finetune"] > 0
    assert seconds["packing"] > 0
    assert seconds["train"] == 0
    assert stages.cost.examples_seen == 2 * SETTINGS.epochs * len(toy.train)


@pytest.mark.parametrize("name", ["lr", "epochs", "weights", "selection"])
def test_an_option_with_the_name_of_a_setting_is_refused_when_it_is_declared(name):
    options = dataclass(frozen=True)(type("Options", (), {"__annotations__": {name: int}, name: 1}))
    says = f"mine has an option called '{name}', which is the name of a setting"
    with pytest.raises(InputError, match=says):
        Method("mine", "-", "-", sees("none"), fit=None, options=options)
    with pytest.raises(InputError, match=says):
        Inference("mine", sees("none"), infer=None, options=options)
    with pytest.raises(InputError, match=says):
        Trainer("mine", train=None, options=options)


OUTSIDE = """
from dataclasses import dataclass

from spare.methods.method import Fitted, Method, sees
from spare.training.batches import shuffled


@dataclass(frozen=True)
class Options:
    #: How many copies of the data an epoch has.
    copies: int = 2


def fit(task, stages, options):
    n, size = len(task.train), stages.settings.batch_size
    batches = shuffled(n, size)
    return Fitted(
        stages.train("train", task, lambda rng: batches(rng) * options.copies),
        notes={"copies": options.copies},
    )


METHOD = Method("copies", "every example several times", "-", sees("none"), fit, Options)
"""


def test_a_method_from_outside_the_package_is_one_file(toy, tmp_path, monkeypatch):
    (tmp_path / "my_copies_method.py").write_text(OUTSIDE)
    monkeypatch.chdir(tmp_path)
    method = method_named("my_copies_method:METHOD")
    assert method.name == "my_copies_method:METHOD"
    fitted, stages = fit(method, toy, method.options(copies=3))
    assert fitted.notes == {"copies": 3}
    assert stages.cost.examples_seen == 3 * SETTINGS.epochs * len(toy.train)
    with pytest.raises(InputError, match="did you mean 'METHOD'"):
        method_named("my_copies_method:METHODS")


def test_a_trainer_of_ones_own_goes_with_any_inference(toy):
    def train(task, stages, inferred, options):
        batches = shuffled(len(task.train), stages.settings.batch_size)
        return Fitted(stages.train("train", task, batches), inferred)

    method = combined(SPARE, Trainer("plain", train))
    assert method.name == "spare+plain"
    fitted, stages = fit(method, toy, method.options(separate_at=1))
    assert fitted.inferred.notes["separated_at"] == 1
    assert stages.cost.seconds["inference"] > 0


HALVES = """
import numpy as np

from spare.groups.result import groups_from_parts
from spare.methods.method import Fitted, Inference, Inferred, Trainer, combined, sees
from spare.training.batches import shuffled


def infer(task, stages, options):
    parts = np.arange(len(task.train)) % 4 == 0
    return Inferred(groups_from_parts(parts, task.train.labels), notes={"parts": 2})


def train(task, stages, inferred, options):
    batches = shuffled(len(task.train), stages.settings.batch_size)
    return Fitted(stages.train("train", task, batches), inferred)


INFERENCE = Inference("quarters", sees("none"), infer, names_held_out=False)
TRAINER = Trainer("plain", train)
METHOD = combined(INFERENCE, TRAINER)
"""


@pytest.fixture
def my_halves(tmp_path, monkeypatch):
    (tmp_path / "my_halves.py").write_text(HALVES)
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("my_halves", None)


@pytest.mark.usefixtures("my_halves")
def test_halves_from_outside_the_package_go_with_all_others(toy):
    for name in ("my_halves:INFERENCE+gdro", "truth+my_halves:TRAINER"):
        method = method_named(name)
        assert method.name == name
        assert fit(method, toy)[0].trained.name == "train"
    with pytest.raises(InputError, match=r"before '\+'.*did you mean 'INFERENCE'"):
        method_named("my_halves:INFERENCES+gdro")
    with pytest.raises(InputError, match="unknown inference of my_halves 'TRAINER'"):
        discovery_with("my_halves:TRAINER")


@pytest.mark.usefixtures("my_halves")
def test_an_inference_from_outside_the_package_is_discovered_with(toy):
    method = discovery_with("my_halves:INFERENCE")
    assert not method.trains
    assert method.halves[0].name == "my_halves:INFERENCE"  # what a record has, and a command
    fitted, stages = fit(method, toy)
    assert fitted.inferred.notes == {"parts": 2}
    assert stages.cost.examples_seen == 0


def test_python_objects_are_taken_as_they_are():
    inference = Inference("mine", sees("none"), infer=None)
    assert discovery_with(inference).halves[0] is inference
    method = Method("mine", "-", "-", sees("none"), fit=None)
    assert method_named(method) is method
    with pytest.raises(InputError, match="or an object of type Method; got one of type Inference"):
        method_named(inference)
    with pytest.raises(InputError, match="or an object of type Inference; got one of type Method"):
        discovery_with(method)


@pytest.mark.usefixtures("my_halves")
def test_groups_from_a_file_go_with_a_trainer_that_has_a_name():
    assert with_given_groups("truth+my_halves:TRAINER") == "given+my_halves:TRAINER"
    with pytest.raises(InputError, match=r"'plain', is not known by name.* given\+package.module"):
        with_given_groups("my_halves:METHOD")


def test_stages_of_one_phase_are_sampled_alike_and_others_differently(toy):
    def batches_of(name):
        stages, rows = stages_for(), []

        def batches(rng):
            rows.extend(rng.permutation(10).tolist())
            return shuffled(len(toy.train), 100)(rng)

        stages.train(name, toy, batches)
        return rows

    assert batches_of("early/a") == batches_of("early/b") != batches_of("train")
