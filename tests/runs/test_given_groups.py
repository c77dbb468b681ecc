"""Training with groups that a discovery wrote to a file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.torch import load_file

from spare.errors import RunError
from tests.walks import discover, run

FAST = {"epochs": "4", "lr": "0.05", "batch_size": "32", "cross_fit": "0", "separate_at": "2"}


@pytest.fixture
def embeddings(tmp_path):
    rng = np.random.default_rng(0)
    label = np.arange(500) % 2
    split = np.where(np.arange(500) < 300, 0, np.where(np.arange(500) < 400, 1, 2))
    place = np.where(rng.random(500) < np.where(split == 0, 0.9, 0.5), label, 1 - label)
    points = rng.normal(0, 0.5, (500, 4)) + np.stack([label * 1.5, place * 6, label, place], 1)
    path = tmp_path / "own.npz"
    np.savez(path, features=points, label=label, split=split)
    return path


def test_training_with_discovered_groups_is_the_same_as_spare(tmp_path, embeddings):
    discover(str(embeddings), 0, tmp_path / "found", overrides=FAST)
    second = {key: FAST[key] for key in ("epochs", "lr", "batch_size")}
    groups = {"groups": str(tmp_path / "found" / "groups.parquet")}
    at_once = run(str(embeddings), "spare", 0, tmp_path / "spare", overrides=FAST)
    given = run(
        str(embeddings), "given+spare", 0, tmp_path / "given",
        overrides=second | groups | {"weight_decay": "1.0", "class_mass": "natural"},
    )  # fmt: skip
    expected, weights = (
        load_file(tmp_path / name / "weights.safetensors") for name in ("spare", "given")
    )
    assert set(weights) == {name for name in expected if not name.startswith("early/")}
    assert all(value.equal(expected[name]) for name, value in weights.items())
    for split in ("val", "test"):
        scores = [record["scores"][split]["selected"]["inferred"] for record in (at_once, given)]
        assert scores[0] == scores[1]


def test_a_changed_file_is_another_run(tmp_path, embeddings):
    discover(str(embeddings), 0, tmp_path / "found", overrides=FAST)
    path = tmp_path / "found" / "groups.parquet"
    overrides = {"epochs": "1", "groups": str(path)}
    run(str(embeddings), "given+spare", 0, tmp_path / "run", overrides=overrides)
    table = pq.read_table(path)
    pq.write_table(table.set_column(2, "cluster", pa.array(np.arange(300) % 4 // 2)), path)
    with pytest.raises(RunError, match="groups_digest"):
        run(str(embeddings), "given+spare", 0, tmp_path / "run", overrides=overrides)
