"""Pages made again from what runs left behind, with the data that they were made from."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spare import api
from spare.cli import main
from spare.errors import InputError
from spare.files.reading import read_json
from spare.files.writing import write_json
from spare.progress import Progress
from spare.records.groups_file import read_recorded_groups
from spare.records.labels import labels_used
from spare.records.record import read_record
from spare.report import thumbnails
from spare.report.write import write_comparison_of, write_report
from tests.pictures import picture_folder
from tests.report.test_page import Checked


@pytest.fixture
def runs(digits_bench):
    return digits_bench


def words(path):
    return " ".join("".join(Checked(path.read_text()).text).split())


def test_a_run_shows_the_plain_model_beside_the_trained_one(runs):
    lines = []
    page = write_report(runs / "spare-seed0", progress=Progress(say=lines.append))
    assert lines == []
    text = words(page)
    assert "plain, after epoch" in text
    assert re.search(r"spare, epoch [12]", text)
    record = read_json(runs / "spare-seed0" / "run.json")
    before = record["scores"]["test"]["early"]["worst_group"]
    assert f"had {100 * before:.1f} %" in text
    assert "right % before" in text


def test_a_run_without_clusters_is_shown_on_the_groups_it_is_worst_at(runs):
    page = write_report(runs / "erm-seed0").read_text()
    assert "Random test examples of each group" in page
    assert page.count('class="look"') == 4
    record = read_json(runs / "erm-seed0" / "run.json")
    groups = record["scores"]["test"]["selected"]["groups"]
    worst = min(groups, key=lambda name: groups[name]["accuracy"])
    assert re.search(r'class="look">\s*<figcaption><bdi>([^<]+)', page).group(1) == worst


def test_runs_look_side_by_side_and_a_bench_has_a_page_of_its_own(runs, tmp_path):
    lines = []
    page = write_comparison_of(
        [runs / "erm-seed0", runs / "spare-seed0"], tmp_path, progress=Progress(say=lines.append)
    )
    assert lines == []
    assert page.read_text().count('class="tile"') == 4 * 3 * 3
    page = write_report(runs, progress=Progress(say=lines.append))
    assert lines == []
    assert page == runs / "report.html"
    text = words(page)
    assert "Bench of 2 methods" in text
    for row in read_json(runs / "table.json")["rows"]:
        worst = f"{100 * row['selected']['worst_group']['mean']:.1f}"
        assert f"{row['method']}{''.join(labels_used(row))}{worst}" in text  # in the table
        assert f">{worst}</text>" in page.read_text()  # in the chart
        assert f"{row['cost']['seconds']:.2f}{row['peak_memory_mb']:.0f}" in text
    discovery = read_json(runs / "spare-seed0" / "run.json")["discovery"]
    minority = sum(seen["minority"] for seen in discovery.values())
    assert f"spare{minority}" in text
    assert page.read_text().count('class="tile"') == 4 * 3 * 3


def test_without_the_data_the_numbers_are_there(runs, tmp_path, monkeypatch):
    for name in ("erm-seed0", "spare-seed0"):
        record = read_json(runs / name / "run.json")
        (tmp_path / name).mkdir()
        write_json(tmp_path / name / "run.json", record | {"data": "another"})
    lines = []
    page = write_comparison_of(
        [tmp_path / "erm-seed0", tmp_path / "spare-seed0"],
        tmp_path,
        progress=Progress(say=lines.append),
    )
    assert len(lines) == 2
    assert "does not show where erm looks: digits has changed since." in lines[0]
    assert "Groups on test" in page.read_text()
    assert "data:image" not in page.read_text()


@pytest.mark.parametrize("what", ["model", "method"])
def test_a_folder_of_someone_elses_runs_nothing(runs, tmp_path, monkeypatch, what):
    (tmp_path / "hostile.py").write_text(
        "import pathlib\npathlib.Path('ran').write_text('')\ndef net(classes): pass\n"
    )
    monkeypatch.chdir(tmp_path)
    record = read_json(runs / "erm-seed0" / "run.json")
    if what == "model":
        record["settings"]["model"] = "hostile:net"
    else:
        record["method"] = "hostile:net"
    (tmp_path / "run").mkdir()
    write_json(tmp_path / "run" / "run.json", record)
    lines = []
    write_report(tmp_path / "run", progress=Progress(say=lines.append))
    assert f"its {what} is 'hostile:net', which would be imported: use --trust" in lines[0]
    assert not (tmp_path / "ran").exists()
    write_report(tmp_path / "run", trust=True)
    assert (tmp_path / "ran").exists() == (what == "method")  # the weights are of another model


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"task": "hostile:DATASET"}, "its data set is 'hostile:DATASET', which would be imported"),
        ({"task": "hf:someone/data"}, "its data set is 'hf:someone/data', which might be fetched"),
        ({"selection": "hostile:RULE"}, "its selection rule is 'hostile:RULE'"),
        ({"clusterer": "hostile:C"}, "its clusterer is 'hostile:C'"),
    ],
)
def test_nothing_else_that_a_folder_names_is_imported_or_fetched(runs, tmp_path, change, says):
    shutil.copytree(runs / "spare-seed0", tmp_path / "run")
    record = read_json(tmp_path / "run" / "run.json")
    for key, value in change.items():
        home = next((h for h in ("settings", "options") if key in record[h]), None)
        (record if home is None else record[home])[key] = value
    write_json(tmp_path / "run" / "run.json", record)
    lines = []
    write_report(tmp_path / "run", progress=Progress(say=lines.append))
    assert says in lines[0]


def test_a_bench_trusts_its_own_runs_only(runs, tmp_path, monkeypatch):
    """A folder of someone else's among them names code: it is not imported, and not in the page."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hostile.py").write_text("import pathlib\npathlib.Path('ran').write_text('')\n")
    record = read_json(runs / "erm-seed0" / "run.json")
    record["task"] = "hostile:DATASET"
    (tmp_path / "both" / "aaa").mkdir(parents=True)
    write_json(tmp_path / "both" / "aaa" / "run.json", record)
    labels = np.arange(60) % 2
    data = (labels[:, None] + np.zeros((60, 3)), labels)
    done = api.bench(data, methods=["erm"], seeds=[0], epochs=1, out="both")
    assert not (tmp_path / "ran").exists()
    assert [run.folder.name for run in done.runs] == ["erm-seed0"]


VERBS = {
    "report": ["report", "."],
    "compare": ["compare", ".", ".", "--out", "both"],
    "figure": ["figure", "saliency", ".", ".", "--out", "saliency.png"],
}


@pytest.fixture
def trap(runs, tmp_path, monkeypatch):
    """A run folder with a timm.py beside its record, in which a person stands."""
    shutil.copytree(runs / "spare-seed0", tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    code = "import pathlib\npathlib.Path('ran').write_text('')\n"
    (tmp_path / "run" / "timm.py").write_text(code)
    return tmp_path / "run"


@pytest.mark.parametrize("verb", VERBS)
def test_a_method_that_a_folder_names_is_not_imported_even_as_timm(trap, verb, monkeypatch, capsys):
    write_json(trap / "run.json", read_json(trap / "run.json") | {"method": "timm:METHOD"})
    monkeypatch.syspath_prepend(str(trap))
    with pytest.raises(SystemExit):
        main(VERBS[verb])
    assert "use --trust if it is yours" in capsys.readouterr().err
    assert not (trap / "ran").exists()


def test_a_file_in_the_current_folder_never_stands_in_for_a_package(trap):
    """A model of timm's is timm's own, whatever lies in the folder; in a process of its own."""
    record = read_json(trap / "run.json")
    record["settings"]["model"] = "timm:resnet18"
    write_json(trap / "run.json", record)
    words = [sys.executable, "-m", "spare", *VERBS["report"]]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0
    assert "the stored weights do not fit the model" in done.stderr
    assert not (trap / "ran").exists()


def test_weights_that_do_not_fit_are_said_and_the_rest_is_there(runs, tmp_path):
    from shutil import copytree

    copytree(runs / "spare-seed0", tmp_path / "run")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    record["settings"]["model"] = "lenet5"
    write_json(tmp_path / "run" / "run.json", record)
    lines = []
    page = write_report(tmp_path / "run", progress=Progress(say=lines.append))
    assert "does not show where the model looks: " in lines[0]
    assert "data:image" in page.read_text()


@pytest.mark.parametrize("layers", [{"frozen": "true"}, {"frozen_until": "0.1"}])
def test_frozen_layers_are_looked_through(tmp_path, monkeypatch, layers):
    """Pictures and saliency of data of which something was computed once."""
    monkeypatch.setenv("SPARE_CACHE", str(tmp_path / "cache"))
    root = picture_folder(tmp_path / "pets", {"cat": 24, "dog": 24})
    small = {"model": "small_cnn", "resize": "16", "crop": "16", "epochs": "4", "lr": "0.1",
             "cross_fit": "0"}  # fmt: skip
    api.discover(str(root), out=tmp_path / "found", **small, **layers)
    page = (tmp_path / "found" / "report.html").read_text()
    assert "Where it looks" in page
    assert page.count("data:image/webp") == 3
    assert write_report(tmp_path / "found").read_text() == page


def test_missing_pictures_are_gray_squares_and_the_others_are_the_right_ones(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARE_CACHE", str(tmp_path / "cache"))
    root = picture_folder(tmp_path / "pets", {"cat": 24, "dog": 24})
    small = {"model": "small_cnn", "resize": "16", "crop": "16", "epochs": "2"}
    api.discover(str(root), out=tmp_path / "found", **small)
    examples = read_recorded_groups(
        tmp_path / "found", read_record(tmp_path / "found")["discovery"]
    )
    names, labels = examples.names, examples.labels
    gone = names[::4]
    for name in gone:
        (root / name).unlink()
    sprites = []
    make_sprite = thumbnails.make_sprite

    def spy(shown, side):
        sprites.append(shown)
        return make_sprite(shown, side)

    monkeypatch.setattr("spare.report.thumbnails.make_sprite", spy)
    lines = []
    text = words(write_report(tmp_path / "found", progress=Progress(say=lines.append)))
    assert f"pictures are looked up by their names: {root} has changed since." in lines[0]
    assert f"{len(gone)} pictures could not be read and are shown as gray squares" in text
    assert "Where it looks" in text
    by_class = sorted(sprites[:2], key=_redness)[::-1]
    for class_name, shown in zip(sorted(set(labels)), by_class, strict=True):
        gone_of_class = [
            name for name, label in zip(names, labels, strict=True)
            if name in gone and label == class_name
        ]  # fmt: skip
        assert sum(picture is None for picture in shown) == len(gone_of_class)


def _redness(shown):
    """Cats are red, dogs are blue."""
    there = [picture.float() for picture in shown if picture is not None]
    return sum(float(picture[0].mean() - picture[2].mean()) for picture in there)


def test_a_discovery_without_its_groups_has_a_page_without_clusters(digits_bench, tmp_path):
    api.discover("digits", out=tmp_path / "found", separate_at=1, report=False)
    (tmp_path / "found" / "groups.parquet").unlink()
    assert "Where it looks" not in write_report(tmp_path / "found").read_text()


CHANGES = [
    ("other sizes", "cluster", lambda ids: [0] * len(ids)),
    ("other classes", "label", lambda labels: ["unknown", *labels[1:]]),
    ("a predicted class", "predicted", lambda classes: ["<script>", *classes[1:]]),
    ("a point has no finite coordinates", "x", lambda x: [float("nan"), *x[1:]]),
    ("not the numbers from 0", "cluster", lambda ids: [-1, *ids[1:]]),
    ("not the numbers from 0", "cluster", lambda ids: [10**15, *ids[1:]]),
    ("must be whole numbers", "cluster", lambda ids: [0.5, *ids[1:]]),
    ("must be whole numbers", "cluster", lambda ids: ["one", *map(str, ids[1:])]),
    ("must hold numbers", "x", lambda x: ["left", *map(str, x[1:])]),
    ("no column 'label'", "label", None),
    ("Parquet", None, None),
]


@pytest.mark.parametrize(("why", "column", "change"), CHANGES)
def test_groups_that_are_not_the_records_are_one_sentence(runs, tmp_path, why, column, change):
    """Someone may have changed or mixed up files, or mean harm: none of it reaches a page."""
    folder = tmp_path / "run"
    shutil.copytree(runs / "spare-seed0", folder)
    path = folder / "groups.parquet"
    table = pq.read_table(path)
    if column is None:
        path.write_bytes(b"no table")
    elif change is None:
        pq.write_table(table.drop_columns([column]), path)
    else:
        changed = pa.array(change(table[column].to_pylist()))
        pq.write_table(table.set_column(table.column_names.index(column), column, changed), path)
    (folder / "report.html").write_text("the page as it was")
    with pytest.raises(InputError, match=re.escape(why)) as refused:
        write_report(folder)
    assert str(refused.value).count("\n") == 0
    assert "run its command again." in str(refused.value)
    assert (folder / "report.html").read_text() == "the page as it was"
