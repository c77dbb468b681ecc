"""The script that compares runs before and after a rebuilding, in its small version."""

from __future__ import annotations

import contextlib
import io
import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.torch import load_file, save_file

from spare.cli import main
from tests.reference import differences, record


def in_this_process(words, folder):
    """What a command prints."""
    printed = io.StringIO()
    typed = pytest.raises(SystemExit)
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed), typed:
        main(words)
    return printed.getvalue()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The same commands twice: typed, and in this process."""
    folders = [tmp_path_factory.mktemp("reference") / name for name in ("typed", "here")]
    record(folders[0], small=True)
    record(folders[1], small=True, type_=in_this_process)
    return folders


def test_the_same_commands_give_the_same_bits(recorded):
    assert list(differences(*recorded)) == []
    assert (recorded[0] / "digits" / "weights.safetensors").is_file()
    assert (recorded[0] / "embeddings-found" / "discovery.json").is_file()


def test_what_they_compute_is_what_it_was(recorded):
    """Numbers of an earlier version; an example or two may differ on another processor."""
    expected = {"selected": (0.0, 0.5), "last": (0.0, 0.5), "early": (0.0, 0.497)}
    scores = json.loads((recorded[0] / "digits" / "run.json").read_text())["scores"]["test"]
    for when, (worst, average) in expected.items():
        assert scores[when]["worst_group"] == pytest.approx(worst, abs=0.02)
        assert scores[when]["average"] == pytest.approx(average, abs=0.02)


def test_a_changed_bit_is_found(recorded, tmp_path):
    old, new = recorded[0], tmp_path / "changed"
    shutil.copytree(old, new)
    run = new / "digits"
    weights = load_file(run / "weights.safetensors")
    weights["last/head.bias"][0] += 1e-7
    save_file(weights, run / "weights.safetensors")
    groups = pq.read_table(run / "groups.parquet")
    clusters = pa.array([1 - int(c == 0) for c in groups["cluster"].to_pylist()])
    index = groups.column_names.index("cluster")
    pq.write_table(groups.set_column(index, "cluster", clusters), run / "groups.parquet")
    said = json.loads((run / "run.json").read_text())
    said["scores"]["test"]["last"]["average"] += 1e-9
    (run / "run.json").write_text(json.dumps(said | {"extra": 1}))
    lines = "\n".join(differences(old, new))
    assert "last/head.bias differs" in lines
    assert "column cluster differs" in lines
    assert "scores.test.last.average" in lines
    assert "extra: added (1)" in lines
    assert lines.count("\n") == 3
