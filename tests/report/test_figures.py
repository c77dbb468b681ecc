"""The paper's figures: each from one folder, with what it should show, as PNG and as SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from spare import api
from spare.errors import InputError
from spare.files.reading import read_json
from spare.files.writing import write_json
from spare.report.figures import FIGURES, plot_figure
from tests.pictures import picture_folder
from tests.report.test_page import HOSTILE, folder_of


def texts(path):
    return [e.text for e in ET.parse(path).iter("{http://www.w3.org/2000/svg}text") if e.text]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("found")
    api.discover("digits", out=folder / "digits", separate_at="1", report=False)
    return folder / "digits"


def sources(bench, found):
    return {
        "samples": ["digits"],
        "outputs": [str(bench / "spare-seed0")],
        "recovery": [str(bench)],
        "attributes": [str(found)],
        "saliency": [str(bench / "erm-seed0"), str(bench / "spare-seed0")],
        "clusters": [str(bench / "spare-seed0")],
    }


@pytest.mark.parametrize("what", FIGURES)
def test_each_is_plotted_as_png_and_as_svg(digits_bench, found, tmp_path, what):
    of = sources(digits_bench, found)[what]
    pixels = np.asarray(Image.open(plot_figure(what, of, tmp_path / "a.png")).convert("L"))
    assert pixels.std() > 10
    assert min(pixels.shape) > 100
    assert texts(plot_figure(what, of, tmp_path / "b.svg"))
    again = plot_figure(what, of, tmp_path / "c.svg").read_text()
    assert len(again) == len((tmp_path / "b.svg").read_text())


def test_outputs_are_colored_by_true_group(digits_bench, tmp_path):
    of = [str(digits_bench / "spare-seed0")]
    lines = texts(plot_figure("outputs", of, tmp_path / "a.svg", class_name="5-9"))
    assert any(line.startswith("5-9/blue (") for line in lines)
    assert any(line.startswith("5-9/orange (") for line in lines)
    counts = [int(line.partition("(")[2][:-1]) for line in lines if line.startswith("5-9/")]
    sizes = read_json(digits_bench / "spare-seed0" / "run.json")["discovery"]["5-9"]["sizes"]
    assert sum(counts) == sum(sizes)
    with pytest.raises(InputError, match="unknown class '5-8': did you mean '5-9'"):
        plot_figure("outputs", of, tmp_path / "a.svg", class_name="5-8")


def test_clusters_and_samples_say_how_many_there_are(digits_bench, tmp_path):
    lines = texts(plot_figure("clusters", [str(digits_bench / "spare-seed0")], tmp_path / "a.svg"))
    record = read_json(digits_bench / "spare-seed0" / "run.json")
    for groups in record["discovery"].values():
        for cluster in groups["clusters"]:
            assert f"{cluster['size']:,}" in lines
            assert f"{100 * cluster['accuracy']:.0f}" in lines
    lines = texts(plot_figure("samples", ["digits"], tmp_path / "b.svg"))
    assert [line.partition(" ")[0] for line in lines] == [
        "0-4/orange", "0-4/blue", "5-9/blue", "5-9/orange"
    ]  # fmt: skip


def test_attributes_are_in_the_order_of_their_strength(found, tmp_path):
    lines = texts(plot_figure("attributes", [str(found)], tmp_path / "a.svg"))
    associations = read_json(found / "discovery.json")["associations"]
    ranked = [e["attribute"] for e in sorted(associations, key=lambda each: -each["over_all"])]
    assert [line for line in lines if line in ranked] == ranked


def test_attributes_of_several_runs_have_a_panel_each_with_v_over_all(
    digits_bench, found, tmp_path
):
    other = str(digits_bench / "spare-seed0")
    lines = texts(plot_figure("attributes", [str(found), other], tmp_path / "a.svg"))
    assert lines.count("color") == 2
    assert {"over all examples", "within classes (95 % interval)"} <= set(lines)
    first = read_json(found / "discovery.json")["associations"][0]
    assert first["attribute"] == "color"
    assert 0 < first["over_all"] <= 1


def test_recovery_counts_the_missed_and_has_the_share_of_the_majority(digits_bench, tmp_path):
    of = [str(digits_bench)]
    lines = texts(plot_figure("recovery", of, tmp_path / "a.svg"))
    groups = read_json(digits_bench / "spare-seed0" / "run.json")["discovery"].values()
    minority = sum(each["minority"] for each in groups)
    assert f"minority examples taken for majority, of {minority} (one dot per seed)" in lines
    assert "% of the majority taken for minority (one dot per seed)" in lines
    assert lines.count("spare") == 1
    both = texts(plot_figure("recovery", of * 2, tmp_path / "b.svg"))
    assert both.count("spare") == both.count("digits") == 2


def test_one_run_is_shown_early_and_late(digits_bench, tmp_path):
    run = str(digits_bench / "spare-seed0")
    lines = texts(plot_figure("saliency", [run], tmp_path / "a.svg"))
    assert any(line.startswith("plain, after epoch") for line in lines)
    assert any(line.startswith("spare, epoch") for line in lines)


def test_hostile_names_are_shown_as_text(tmp_path):
    folder_of(tmp_path / "found", classes=["$\\frac{", *HOSTILE])
    lines = texts(plot_figure("clusters", [str(tmp_path / "found")], tmp_path / "a.svg"))
    assert any("<script>alert(1)</script>" in line for line in lines)
    assert any("$\\frac{" in line.replace("\\$", "$") for line in lines)
    assert plot_figure("clusters", [str(tmp_path / "found")], tmp_path / "a.png").is_file()


def test_own_pictures_without_attributes(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARE_CACHE", str(tmp_path / "cache"))
    root = picture_folder(tmp_path / "pets", {"cat": 9, "dog": 9})
    lines = texts(plot_figure("samples", [str(root)], tmp_path / "a.svg"))
    assert [line.partition(" ")[0] for line in lines] == ["cat", "dog"]


def test_what_cannot_be_plotted_is_refused_in_one_sentence(digits_bench, tmp_path):
    run = str(digits_bench / "erm-seed0")
    cases = [
        (("outputs", [run], "a.jpg"), "written as .png or .svg, not 'a.jpg'"),
        (("outptus", [run], "a.png"), "unknown figure 'outptus': did you mean 'outputs'"),
        (("outputs", [], "a.png"), "name what 'outputs' is to be plotted of"),
        (("outputs", [run], "a.png"), "no outputs of an early model to plot"),
        (("outputs", [run, run], "a.png"), "made of one folder"),
        (("recovery", [run], "a.png"), "is no bench"),
        (("attributes", [run], "a.png"), "knows no attributes"),
        (("saliency", [run], "a.png"), "no early model to compare with"),
        (("clusters", [run], "a.png"), "has no clusters"),
        (("samples", [run, run], "a.png"), "of one task"),
    ]
    for (what, of, name), message in cases:
        with pytest.raises(InputError, match=message):
            plot_figure(what, of, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_bench_without_inferred_groups_has_no_recovery(digits_bench, tmp_path):
    table = read_json(digits_bench / "table.json")
    (tmp_path / "erm-seed0").mkdir()
    write_json(
        tmp_path / "erm-seed0" / "run.json", read_json(digits_bench / "erm-seed0" / "run.json")
    )
    rows = [row for row in table["rows"] if row["method"] == "erm"]
    write_json(tmp_path / "table.json", {"rows": rows})
    with pytest.raises(InputError, match="inferred groups of data whose true groups are known"):
        plot_figure("recovery", [str(tmp_path)], tmp_path / "a.png")
