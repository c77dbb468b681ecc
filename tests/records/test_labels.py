"""Which labels training used, and which labels selection used."""

from __future__ import annotations

import re

import pytest

from spare.records.bench_table import read_table, write_table
from spare.records.labels import RULES as OLDER_RULES
from spare.records.labels import labels_used
from spare.report.bench_sections import bench_sections
from spare.report.comparison import render as comparison_page
from spare.report.table import render as bench_page
from spare.runs.table import table
from spare.training.selection import RULES
from tests.recorded import run_record


def test_training_and_selection_are_told_apart():
    assert labels_used(run_record(sees="train")) == ("train groups", "nothing")
    by_groups = run_record(sees="none", selection="val_worst_group")
    assert labels_used(by_groups) == ("none", "val groups")
    mine = run_record(sees="val", selection="mine:RULE")
    assert labels_used(mine) == ("val groups", "not recorded")
    assert labels_used(mine | {"selection_used": "inferred groups"}).selection == "inferred groups"


def test_the_rules_of_older_records_are_what_they_were():
    assert {name: RULES[name].needs for name in OLDER_RULES} == OLDER_RULES


@pytest.fixture
def runs():
    erm = run_record(selection="val_worst_group", selection_used="val groups")
    return [erm, {**erm, "method": "gb", "sees": "train"}]


def test_a_table_has_both_columns(runs):
    rows = table(runs)["rows"]
    used = [(row["training_used"], row["selection_used"]) for row in rows]
    assert used == [("none", "val groups"), ("train groups", "val groups")]
    section = bench_sections({"rows": rows})[0]
    at = section.heads.index("training used")
    assert section.heads[at + 1] == "selection used"
    assert [tuple(cells[at : at + 2]) for cells in section.rows] == used


def test_pages_have_both_columns_and_promise_no_freedom_from_group_labels(runs):
    rows = table(runs)["rows"]
    by_method = {record["method"]: [record] for record in runs}
    for page in (bench_page({"rows": rows}, by_method), comparison_page(runs)):
        text = re.sub(r"<[^>]+>", " ", page)
        assert re.search(r"training used\s+selection used", text)
        assert re.search(r"train groups\s+val groups", text)
        assert "no group labels" not in text
    text = bench_page({"rows": rows}, by_method)
    assert "(training used: none; selection used: val groups)" in text


def test_a_table_without_them_is_read(tmp_path, runs):
    rows = table(runs)["rows"]
    for row in rows:
        del row["training_used"], row["selection_used"]
    write_table(tmp_path, {"rows": rows})
    assert [labels_used(row) for row in read_table(tmp_path)["rows"]] == [
        ("none", "val groups"),
        ("train groups", "val groups"),
    ]
