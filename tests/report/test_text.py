"""Records as text, and as HTML for notebooks."""

from __future__ import annotations

import pytest

from spare.report.html import bench_html, record_html
from spare.report.text import (
    bench_text,
    demo_text,
    discovery_text,
    record_text,
    scores_text,
    table_text,
)
from tests.report.test_page import HOSTILE, Checked


def score(worst=0.5, **more):
    return {
        "worst_group": worst, "worst_group_interval": [worst - 0.1, worst + 0.1],
        "worst_group_name": "cat/water", "worst_group_size": 40, "average": 0.9, "groups": {},
    } | more  # fmt: skip


@pytest.fixture
def run():
    return {
        "task": "mine", "method": "spare", "seed": 3, "sees": "none", "selection": "val_worst",
        "selected_epoch": 4, "paper_rule": "last", "paper_rule_epoch": 6, "early_epoch": 1,
        "history": [{}] * 6, "groups_known": True, "notes": {"separated_at": 1},
        "scores": {
            "val": {"selected": score()},
            "test": {"selected": score(0.8, adjusted_average=0.85), "early": score(0.2),
                     "paper_rule": score(0.7), "last": score(0.6)},
        },
        "discovery": {
            "cat": {
                "k": 2, "silhouette": 0.91, "scores": {"2": 0.91}, "power": 1.0, "sizes": [90, 10],
                "shares": [0.5, 0.5], "note": "a note", "recall": 1.0, "precision": 0.5,
                "clusters": [
                    {"size": 90, "accuracy": 1.0, "confidence": 0.97, "mistaken_for": None,
                     "mistaken_share": 0.0},
                    {"size": 10, "accuracy": 0.1, "confidence": 0.95, "mistaken_for": "dog",
                     "mistaken_share": 0.9},
                ],
            },
            "dog": {
                "k": 1, "silhouette": None, "scores": {}, "power": 1.0, "sizes": [50],
                "shares": [1.0], "note": "",
            },
        },
        "verdict": {
            "overall": "weak evidence", "strength": None, "epoch": 1,
            "classes": {"cat": {"verdict": "shortcut found"}, "dog": {"verdict": "none found"}},
        },
        "associations": [{"attribute": "place", "v": 0.987, "interval": [0.9, 1.0]}],
    }  # fmt: skip


def test_numbers_are_aligned_to_the_right_and_words_to_the_left():
    assert table_text(["name", "n"], [["a", 5], ["bcdef", 10]]).splitlines() == [
        "name    n",
        "-----  --",
        "a       5",
        "bcdef  10",
    ]


def test_the_scores_of_a_run(run):
    lines = scores_text(run).splitlines()
    assert lines[0] == "spare on mine, seed 3"
    assert lines[-1] == "training used: none; selection used: not recorded (val_worst)"
    assert [line.split()[:3] for line in lines[3:-1]] == [
        ["val", "selected", "(4)"],
        ["test", "selected", "(4)"],
        ["test", "plain,", "before"],
        ["test", "last", "(6)"],  # the rule of the method's paper
        ["test", "last", "(6)"],
    ]
    assert "adjusted %" in lines[1]
    assert lines[4].split()[-1] == "85.0"
    del run["scores"]["test"]["selected"]["adjusted_average"]
    assert "adjusted %" not in scores_text(run)


def test_broken_shortcuts_and_inferred_groups_have_tables_of_their_own(run):
    gaps = {"id_accuracy": 0.95, "gaps": {"bg": -0.1, "bg+object": -0.3}, "worst_pattern": 0.65}
    run["scores"]["val"]["selected"] |= gaps
    text = scores_text(run)
    assert "What each broken shortcut costs, in points of accuracy:" in text
    assert "bg gap  bg+object gap" in text
    assert "INFERRED" not in text
    run["groups_known"] = False
    run["scores"]["val"]["selected"]["inferred"] = score(0.3)
    text = scores_text(run)
    assert "worst class %" in text
    assert "No true groups are known. By INFERRED groups" in text
    assert text.splitlines()[-1].split()[:4] == ["val", "selected", "(4)", "30.0"]


def test_what_was_found_in_each_class(run):
    sections = discovery_text(run).split("\n\n")
    assert [section.splitlines()[0] for section in sections] == [
        "What was found in each class after epoch 1:",
        "What the early model says of each cluster:",
        "Verdict: weak evidence (after epoch 1)",
        "What the clusters go with (Cramer's V within classes: 0 nothing, 1 all of it):",
    ]
    assert sections[0].splitlines()[-1] == "class cat: a note"
    assert "dog (90.0 %)" in sections[1]
    assert "  shortcut found: cat" in sections[2]
    assert sections[3].splitlines()[-1].split() == ["place", "0.99", "0.90", "to", "1.00"]
    assert record_text(run) == f"{scores_text(run)}\n\n{discovery_text(run)}"


@pytest.mark.parametrize(
    ("sees", "notes", "heading"),
    [
        ("train", {}, "The true groups of each class, which this method was given:"),
        ("none", {"groups_from": "mine.csv"}, "The groups of each class, from mine.csv:"),
        ("none", {}, "What was found in each class:"),
        ("none", {"separated_at": None}, "What was found in each class in the given outputs:"),
    ],
)
def test_where_the_groups_come_from(run, sees, notes, heading):
    assert discovery_text(run | {"sees": sees, "notes": notes}).splitlines()[0] == heading


def test_a_run_that_names_no_groups_has_scores_only(run):
    run["discovery"] = None
    assert discovery_text(run) == ""
    assert record_text(run) == scores_text(run)


def test_a_discovery_has_no_scores(run):
    del run["scores"]
    assert record_text(run) == discovery_text(run)


def test_the_demo_sets_plain_training_beside_spare(run):
    lines = demo_text(run | {"method": "erm"}, run).splitlines()
    assert lines[2].startswith("plain training (ERM)")
    used = "training used: none; selection used: not recorded (val_worst)"
    assert lines[5] == f"One seed; {used}. Test split, scored once."
    assert lines[7] == "What was found in each class after epoch 1:"


def spread(mean, interval=None):
    return {"mean": mean, "sd": 0.01, "interval": interval, "values": [mean]}


@pytest.fixture
def table():
    row = {
        "task": "mine", "selection": "last", "sees": "none", "split": "test", "seeds": [0, 1],
        "seconds": 12.3, "examples_seen": 100, "peak_memory_mb": 456.7,
    }  # fmt: skip
    scores = {"worst_group": spread(0.5, [0.4, 0.6]), "average": spread(0.9)}
    difference = {"worst_group": spread(0.2, [-0.1, 0.5]), "average": spread(0.01)}
    return {
        "rows": [
            row | {"method": "spare", "selected": scores, "last": scores},
            row | {
                "method": "erm", "selected": scores, "last": {"worst_group": spread(0.3)},
                "cost": {"examples": 1.0, "seconds": 1.0},
                "spare_minus_this": {"seeds": [0], "selected": difference, "last": difference},
            },
        ]
    }  # fmt: skip


def test_the_table_of_a_bench(table):
    first, second = bench_text(table).split("\n\n")
    assert first.splitlines()[0].startswith("test split; mean ± standard deviation over seeds")
    spare, erm = (" ".join(line.split()) for line in first.splitlines()[3:])
    assert spare == "spare 50.0 ± 1.0 90.0 50.0 ± 1.0 90.0 - 12 457 none nothing last 0,1"
    assert erm == "erm 50.0 ± 1.0 90.0 30.0 - 1.00 12 457 none nothing last 0,1"
    assert second.splitlines()[0].startswith("spare minus each, in points")
    assert "+20.0 (-10.0 to +50.0)" in second
    assert bench_text({"rows": table["rows"][:1]}).count("\n\n") == 0  # nothing to compare with


def test_notebooks_show_the_same_tables(run, table):
    page = record_html(run)
    text = " ".join(Checked(page).text)
    for cell in ("spare on mine, seed 3", "80.0", "cat/water", "90 10", "dog (90.0 %)",
                 "Verdict: weak evidence (after epoch 1)", "0.99"):  # fmt: skip
        assert cell in text
    assert Checked(page).elements.count("table") == 4
    text = " ".join(Checked(bench_html(table)).text)
    assert "50.0 ± 1.0" in text
    assert "+20.0 (-10.0 to +50.0)" in text


def test_hostile_names_are_shown_as_text_in_notebooks(run, table):
    cat = run["discovery"]["cat"]
    run |= {"task": HOSTILE[0], "method": HOSTILE[1], "selection": HOSTILE[2]}
    run["discovery"] = dict.fromkeys(HOSTILE, cat) | {f"class {i}": cat for i in range(300)}
    table["rows"][0]["method"] = HOSTILE[0]
    for page in (record_html(run), bench_html(table)):
        seen = Checked(page)
        assert not {"script", "img", "style"} & set(seen.elements)
        assert {name for name, _ in seen.attributes} == {"class", "style"}
        assert "<script>alert(1)</script>" in "".join(seen.text)
        assert len(page) < 200_000
    assert "and 245 more rows" in record_html(run)
