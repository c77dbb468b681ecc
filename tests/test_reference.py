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
from tests.walks import run


def in_this_process(words, folder):
    """What a command prints; a bench is so many trainings, one after the other."""
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        if words[0] == "bench":
            for method in words[words.index("--methods") + 1].split(","):
                run("digits", method, 0, f"digits/{method}-seed0", overrides={"epochs": "2"})
        else:
            with pytest.raises(SystemExit):
                main(words)
    return printed.getvalue()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The same twice: typed, with a bench's workers, and in this process."""
    folders = [tmp_path_factory.mktemp("reference") / name for name in ("typed", "here")]
    record(folders[0], small=True)
    record(folders[1], small=True, type_=in_this_process)
    return folders


def test_the_same_commands_give_the_same_bits(recorded):
    one, _ = recorded
    lines = [line for line in differences(*recorded) if not line.startswith("digits.printed")]
    assert lines == ["digits/table.json: only in the old record"]
    assert len(list(one.rglob("run.json"))) == 3
    assert (one / "digits" / "spare-seed0" / "weights.safetensors").is_file()


def test_what_they_compute_is_what_it_was(recorded):
    """Numbers of an earlier version; an example or two may differ on another processor."""
    expected = {"erm": (0.0, 0.497), "spare": (0.0, 0.5), "jtt": (0.0, 0.503)}
    for method, (worst, average) in expected.items():
        path = recorded[0] / "digits" / f"{method}-seed0" / "run.json"
        scores = json.loads(path.read_text())["scores"]["test"]["selected"]
        assert scores["worst_group"] == pytest.approx(worst, abs=0.02)
        assert scores["average"] == pytest.approx(average, abs=0.02)


def test_a_changed_bit_is_found(recorded, tmp_path):
    old, new = recorded[0], tmp_path / "changed"
    shutil.copytree(old, new)
    run = new / "digits" / "spare-seed0"
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
