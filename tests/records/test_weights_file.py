"""Weights by the name of their epoch."""

from __future__ import annotations

import torch

from spare.files.reading import read_tensors
from spare.records.layout import WEIGHTS
from spare.records.weights_file import read_weights, selected_weights, write_weights


def test_weights_are_read_as_they_were_written(tmp_path):
    assert read_weights(tmp_path) == {}
    states = {
        name: {"head.weight": torch.full((2, 3), float(i)), "a/b": torch.zeros(1)}
        for i, name in enumerate(("early", "last", "selected"))
    }
    write_weights(tmp_path, states)
    stored = read_weights(tmp_path)
    assert stored.keys() == states.keys()
    assert all(
        torch.equal(stored[name]["head.weight"], states[name]["head.weight"]) for name in stored
    )
    selected = selected_weights(read_tensors(tmp_path / WEIGHTS)[0])
    assert selected.keys() == {"head.weight", "a/b"}
    assert selected["head.weight"].unique().tolist() == [2.0]


def test_other_tensors_have_no_selected_weights():
    assert selected_weights({"selected": torch.zeros(1), "head.weight": torch.zeros(1)}) is None
    assert selected_weights({"last/head.weight": torch.zeros(1)}) is None
