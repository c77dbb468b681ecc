"""Every objective computes where the model is, and keeps in a checkpoint what it kept before."""

from __future__ import annotations

import pytest
import torch

from spare.models import build
from spare.objectives.bridge import pulled_together
from spare.objectives.contrastive import correct_n_contrast
from spare.objectives.failure import LearningFromFailure
from spare.objectives.group_dro import GroupDro
from spare.objectives.invariance import GroupInvariance
from spare.objectives.pseudo_labels import pseudo_label_loss
from spare.objectives.twins import Twins
from spare.training.batches import contrast_pools, contrastive, paired, shuffled
from spare.training.loop import cross_entropy, train
from spare.training.settings import Settings
from tests.conftest import toy_task
from tests.devices import elsewhere, is_elsewhere

TASK = toy_task(n=200)
LABELS = TASK.train.labels
PLACE = TASK.train.attributes["place"]
PARTS = (LABELS != PLACE).astype(int)
SETTINGS = Settings(epochs=2, batch_size=32, lr=0.05)
PLAIN = shuffled(len(LABELS), 32)
OBJECTIVES = {
    "cross_entropy": (lambda: cross_entropy, PLAIN),
    "group_dro": (lambda: GroupDro(LABELS * 2 + PARTS, adjustment=1.0), PLAIN),
    "failure": (lambda: LearningFromFailure(build(TASK.build_model, (5,)), LABELS), PLAIN),
    "twins": (lambda: Twins(build(TASK.build_model, (5,)), LABELS, PLACE), PLAIN),
    "invariance": (lambda: GroupInvariance(PARTS, weight=5.0, grow_steps=3), PLAIN),
    "bridge": (lambda: pulled_together(PARTS, weight=0.5, temperature=0.1), PLAIN),
    "contrastive": (
        lambda: correct_n_contrast(PLACE),
        contrastive(contrast_pools(LABELS, PLACE), size=4),
    ),
    "pseudo_labels": (
        lambda: pseudo_label_loss(LABELS[:50], PLACE[:50], values=2, threshold=0.6),
        paired(50, 150, batch_size=16, steps=10),
    ),
}


def trained_with(objective, batches, model):
    return train(model, TASK.train, SETTINGS, batches=batches, key=(0,), objective=objective)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_training_on_a_device_mixes_nothing_of_the_host_in(name):
    make, batches = OBJECTIVES[name]
    on_host = trained_with(make(), batches, build(TASK.build_model, (1,)))
    with elsewhere() as device:
        model = build(TASK.build_model, (1,)).to(device)
        there = trained_with(make(), batches, model)
        assert all(is_elsewhere(weight) for weight in there.model.parameters())
    assert all(torch.equal(there.last[key], value) for key, value in on_host.last.items())
    assert there.history == on_host.history


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("group_dro", {"q"}),
        ("invariance", {"steps"}),
        ("failure", {"averages", "visited"}),
    ],
)
def test_what_an_objective_was_made_with_moves_with_it_but_is_in_no_checkpoint(name, kept):
    objective = OBJECTIVES[name][0]()
    assert {key for key in objective.state_dict() if not key.startswith("biased.")} == kept
    assert not [value for value in vars(objective).values() if isinstance(value, torch.Tensor)]
    objective.to("meta")
    assert all(buffer.is_meta for buffer in objective.buffers())


def test_the_device_of_these_tests_refuses_what_a_real_one_would():
    with elsewhere() as device:
        here, there = torch.ones(2), torch.ones(2, device=device)
        rows = torch.zeros(1, dtype=torch.long)
        for mixed in (
            lambda: here + there,
            there.numpy,
            lambda: torch.stack([here, there]),
            lambda: here[rows.to(device)],
            lambda: torch.nn.functional.linear(there[None], torch.ones(3, 2)),
        ):
            with pytest.raises((RuntimeError, TypeError), match=r"elsewhere|numpy"):
                mixed()
        assert (there + torch.ones(())).device == there[rows].device != here.device
        assert (here.to(device) + there).cpu().numpy().tolist() == [2, 2]
