"""The page: what it says, that nothing hostile runs in it, and that odd records still make one."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from torch import nn

from spare.data.inputs import TensorInputs
from spare.data.task import Split, Task
from spare.data.transforms import scale_bytes
from spare.errors import InputError, RunError
from spare.files.reading import read_json
from spare.files.writing import write_json
from spare.findings.describe import describe_groups
from spare.findings.verdict import verdict_of
from spare.groups.blocks import Block, blocks_of, clusters_of
from spare.groups.result import groups_from_parts
from spare.groups.weights import importance_weights
from spare.methods.outputs import early_outputs
from spare.models import Classifier
from spare.models.small import small_cnn
from spare.progress import Progress
from spare.records.groups_file import read_recorded_groups, write_groups
from spare.records.layout import DISCOVERY
from spare.records.record import read_record
from spare.report.page import write_page
from spare.report.saliency_panels import Pictured
from spare.report.write import write_report
from tests.recorded import discovery_record

HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>'",
    "</style></script>{{ 7*7 }}&amp;",
    "‮right to left‬ 🐦‍⬛",
    "long" * 2500,
)


def folder_of(path, *, classes=("cat", "dog"), n=60, clusters=2, pictures=True, **more):
    """Write the folder of a discovery; returns the task that its pictures come from."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(len(classes)), n)
    parts = np.tile(np.arange(n) % 10 == 0, len(classes)) * (clusters - 1)
    probabilities = rng.dirichlet(np.ones(len(classes)), len(labels)).astype(np.float32) / 10
    probabilities[np.arange(len(labels)), (labels + (parts > 0)) % len(classes)] += 0.9
    pixels = torch.tensor(rng.integers(0, 255, (len(labels), 3, 8, 8)), dtype=torch.uint8)
    inputs = TensorInputs(torch.rand(len(labels), 4))
    if pictures:
        inputs = TensorInputs(pixels, finish=scale_bytes())
    task = Task(
        name="mine",
        train=Split(inputs, labels, None),
        val=None,
        test=None,
        class_names=tuple(classes),
        attribute_values={},
        names={"train": [f"{classes[label][:50]}/{i}.png" for i, label in enumerate(labels)]},
    )
    groups = groups_from_parts(parts, labels)
    sampling = importance_weights(groups, labels)
    early = (
        early_outputs(1, probabilities[::-1].copy()),
        early_outputs(2, probabilities),
        early_outputs(2, probabilities, labels),
    )
    blocks = blocks_of(clusters_of(groups), labels, probabilities.argmax(1))
    path.mkdir()
    write_groups(
        path, task, groups, {}, sampling, predicted=early[-1].predicted,
        confidence=early[-1].confidence, points=early[-1].points,
    )  # fmt: skip
    record = discovery_record(
        discovery=describe_groups(task, groups, sampling, early),
        verdict=verdict_of(task, blocks, 2),
        notes={"separated_at": 2, "warnings": []},
    )
    record |= more
    write_json(path / DISCOVERY, record)
    return task


class Checked(HTMLParser):
    """Collects elements and attributes, and that what is opened is closed."""

    VOID = ("meta", "circle", "rect", "path", "polyline", "br", "img")

    def __init__(self, page):
        super().__init__()
        self.open, self.elements, self.attributes, self.text = [], [], [], []
        self.feed(page)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def page_at(path, pictured=None):
    """Writes the page of a folder from what the folder holds."""
    record = read_record(path)
    return write_page(path, record, read_recorded_groups(path, record["discovery"]), pictured)


def page_of(path, task=None, networks=None):
    pictured = None if task is None else Pictured(task, networks or {})
    return page_at(path, pictured).read_text()


def test_one_file_says_what_was_found(tmp_path):
    task = folder_of(tmp_path / "found")
    page = page_of(tmp_path / "found", task)
    seen = Checked(page)
    text = " ".join(seen.text)
    assert "After 2 epochs of plain training" in text
    assert "spare discover mine" in text
    assert seen.elements.count("svg") == 2 * 3  # for each class: its points, and two curves
    assert page.count("data:image/webp") == 2
    record = json.loads((tmp_path / "found" / "discovery.json").read_text())
    for name, groups in record["discovery"].items():
        for cluster in groups["clusters"]:
            assert f"{100 * cluster['accuracy']:.1f}" in text
        assert f"<bdi>{name}</bdi>" in page


def test_nothing_comes_from_outside_and_no_foreign_script_runs(tmp_path):
    task = folder_of(tmp_path / "found")
    page = page_of(tmp_path / "found", task)
    seen = Checked(page)
    assert seen.elements.count("script") == 2  # its data and its own script
    for name, value in seen.attributes:
        assert not name.startswith("on"), name
        if name in ("src", "href", "xlink:href"):
            assert value.startswith("#"), value
    assert not re.search(r"url\((?!data:)", page)
    assert "default-src 'none'" in page


def test_hostile_names_are_shown_as_text_and_cut(tmp_path):
    task = folder_of(
        tmp_path / "found",
        classes=HOSTILE,
        notes={"separated_at": 1, "warnings": list(HOSTILE)},
        associations=[
            {
                "attribute": name, "v": 0.5, "interval": [0.4, 0.6],
                "classes": dict.fromkeys(HOSTILE, 0.5), "clusters": {},
            }
            for name in HOSTILE
        ],
        command=HOSTILE[0],
    )  # fmt: skip
    page = page_of(tmp_path / "found", task)
    seen = Checked(page)
    assert "img" not in seen.elements
    assert seen.elements.count("script") == 2
    assert not any(name.startswith("on") for name, _ in seen.attributes)
    assert "<script>alert(1)</script>" in "".join(seen.text)  # shown, as text
    assert "longlong" in page
    assert "long" * 200 not in page
    assert "49" not in re.findall(r"</style></script>(\d+)", "".join(seen.text))
    assert len(page) < 1_500_000


def test_pictures_that_cannot_be_read_are_counted_and_the_rest_are_shown(tmp_path):
    task = folder_of(tmp_path / "found")

    class Broken:
        in_memory = True

        def __len__(self):
            return 120

        def take(self, indices, rng=None):
            if indices[0] % 2:
                raise OSError("gone")
            return task.train.inputs.take(indices)

    broken = Task(**{**vars(task), "train": Split(Broken(), task.train.labels, None)})
    page = page_of(tmp_path / "found", broken)
    counted = re.search(r"(\d+) pictures could not be read and are shown as gray squares", page)
    assert 50 <= int(counted.group(1)) <= 70
    assert page.count("data:image/webp") == 2


def test_the_verdict_is_given_with_the_numbers_behind_it(tmp_path):
    task = folder_of(tmp_path / "made")
    clear = Block(10, 0.1, right=0.1, learned=1.0, silhouette=0.93, taken_for=1, taken_share=0.9)
    blocks = {0: clear, 1: replace(clear, size=0)}
    folder_of(tmp_path / "found", verdict=verdict_of(task, blocks, 1, alike={0: 0.84}))
    text = " ".join("".join(Checked(page_of(tmp_path / "found")).text).split())
    assert "Verdict: weak evidence (after epoch 1)" in text
    assert (
        "Verdict on this class: weak evidence: 10 examples (10.0 % of the class) lie outside the "
        "largest cluster, and 10.0 % of them are right; 90.0 % are taken for dog. Silhouette "
        "0.930, resemblance to dog 0.84 (0.5 is none). All this makes a strength of 0.87; a "
        "shortcut is found where two classes have 0.56 or more." in text
    )
    assert "Verdict on this class: none found: one cluster." in text


def test_clusters_are_described_by_what_they_have_more_of_and_true_groups_are_colored(tmp_path):
    associations = [
        {
            "attribute": name, "v": 0.5, "interval": [0.4, 0.6], "classes": {"cat": 0.5, "dog": 0},
            "clusters": {"1": {"value": "night", "share": share, "class_share": 0.1}},
        }
        for name, share in (("time", 0.9), ("place", 0.2))
    ]  # fmt: skip
    task = folder_of(tmp_path / "found", associations=associations)
    page = page_of(tmp_path / "found", task)
    text = " ".join("".join(Checked(page).text).split())
    assert text.count("has more:") == 1
    assert "Cluster 2 has more: time = night (90.0 % of it, 10.0 % of the class)." in text
    assert "by true group" not in text
    place = np.arange(len(task.train)) % 10 == 0
    known = replace(
        task,
        train=replace(task.train, attributes={"place": place.astype(int)}),
        attribute_values={"place": ("land", "water")},
    )
    text = " ".join("".join(Checked(page_of(tmp_path / "found", known)).text).split())
    assert "The same points by true group, which discovery did not see: cat/land, cat/water" in text


def test_where_networks_look_is_shown_of_every_cluster(tmp_path):
    task = folder_of(tmp_path / "found")
    torch.manual_seed(0)
    networks = {name: small_cnn(2, size=8) for name in ("plain, after epoch 2", HOSTILE[0])}
    page = page_of(tmp_path / "found", task, networks)
    seen = Checked(page)
    assert seen.elements.count("script") == 2
    text = "".join(seen.text)
    assert "Where they look" in text
    assert page.count('class="look"') == 4  # two classes of two clusters
    assert page.count('class="tile"') == 4 * 3 * 3  # three examples: a picture, two networks
    assert len(re.findall(r"predicted (cat|dog)\"", page)) == 4 * 3 * 2
    assert len(re.findall(r"(cat|dog) *\d+ %", text)) >= 4 * 3 * 2
    assert "Where" not in "".join(Checked(page_of(tmp_path / "found", task)).text)


def test_a_network_without_saliency_does_not_cost_the_page(tmp_path):
    task = folder_of(tmp_path / "found")
    flat = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(192, 4)), nn.Linear(4, 2))
    text = " ".join(
        "".join(Checked(page_of(tmp_path / "found", task, {"flat": flat})).text).split()
    )
    assert "This cannot be shown: Sequential has no layer that gives maps of the picture" in text
    with pytest.raises(InputError, match="unknown layer"):
        page_at(tmp_path / "found", Pictured(task, {"flat": flat}, layer="conv"))


@pytest.mark.parametrize("kind", ["embeddings", "no task"])
def test_without_pictures_the_rest_is_shown(tmp_path, kind):
    task = folder_of(tmp_path / "found", pictures=False)
    page = page_of(tmp_path / "found", task if kind == "embeddings" else None)
    assert "data:image" not in page
    assert Checked(page).elements.count("svg") == 6


def test_hundreds_of_classes_one_class_and_one_cluster(tmp_path):
    folder_of(tmp_path / "many", classes=[f"class {i}" for i in range(300)], n=12)
    page = page_of(tmp_path / "many")
    seen = Checked(page)
    assert seen.elements.count("article") == 12
    assert "288 more classes are in the table only" in page
    assert len(page) < 2_000_000
    folder_of(tmp_path / "one", classes=["only"], clusters=1)
    assert "No class has a cluster that is mostly mistaken for another class" in page_of(
        tmp_path / "one"
    )


def test_a_folder_that_cannot_be_shown_is_refused_in_one_sentence(tmp_path):
    with pytest.raises(InputError, match="neither a run nor a discovery"):
        write_report(tmp_path)
    folder_of(tmp_path / "newer", format=99)
    with pytest.raises(RunError, match="newer version of spare-ml: upgrade"):
        write_report(tmp_path / "newer")


def test_a_report_is_made_again_without_the_data_and_says_so(tmp_path):
    folder_of(tmp_path / "found")
    lines = []
    path = write_report(tmp_path / "found", progress=Progress(say=lines.append))
    assert "the report has no pictures" in lines[0]
    assert "data:image" not in path.read_text()


def test_galleries_keep_the_numbers_of_their_clusters(tmp_path):
    """A method may leave a group of a class empty: those after it keep their numbers."""
    task = folder_of(tmp_path / "found", clusters=3)  # the second of three is empty
    galleries = re.findall(r"<figcaption>(cluster \d)", page_of(tmp_path / "found", task))
    assert set(galleries) == {"cluster 1", "cluster 2"}
    parts = np.tile(np.arange(60) % 10 == 0, 2) * 2
    groups = groups_from_parts(parts, task.train.labels, rank_names=("right", "unsure", "wrong"))
    sampling = importance_weights(groups, task.train.labels)
    record = read_json(tmp_path / "found" / DISCOVERY)
    record["discovery"] = describe_groups(task, groups, sampling)
    write_json(tmp_path / "found" / DISCOVERY, record)
    write_groups(tmp_path / "found", task, groups, {}, sampling)
    galleries = re.findall(r"<figcaption>(cluster \d)", page_of(tmp_path / "found", task))
    assert set(galleries) == {"cluster 1", "cluster 3"}


def test_the_commit_of_the_code_is_named(tmp_path):
    folder_of(tmp_path / "found", code={"version": "1", "commit": "abc123"})
    assert "Made with spare 1, commit abc123." in page_of(tmp_path / "found")
