"""Sheets of pictures: one file per class."""

from __future__ import annotations

import numpy as np
from PIL import Image

from spare.data.viewing import pictures
from spare.records.groups_file import read_recorded_groups
from spare.records.record import read_record
from spare.report.sheets import COLUMNS, GAP, SIDE, write_sheets
from tests.report.test_page import folder_of


def sheets_of(folder, task):
    record = read_record(folder)
    return write_sheets(folder, task, record, read_recorded_groups(folder, record["discovery"]))


def test_each_class_has_a_sheet_with_one_row_per_cluster(tmp_path):
    task = folder_of(tmp_path / "found", n=200)
    written = sheets_of(tmp_path / "found", task)
    assert written == {"cat": "class-0.png", "dog": "class-1.png"}
    pixels = np.asarray(Image.open(tmp_path / "found" / "class-1.png"))
    assert pixels.shape == (2 * (SIDE + GAP), COLUMNS * (SIDE + GAP), 3)
    shown = {
        pixels[SIDE + GAP : 2 * SIDE + GAP, left : left + SIDE].tobytes()
        for left in range(0, pixels.shape[1], SIDE + GAP)
    }
    minority = np.flatnonzero(np.arange(200) % 10 == 0) + 200
    originals = pictures(task.train.inputs, minority)
    enlarged = originals.repeat_interleave(SIDE // 8, 2).repeat_interleave(SIDE // 8, 3)
    assert shown <= {picture.permute(1, 2, 0).numpy().tobytes() for picture in enlarged}
    assert len(shown) == COLUMNS


def test_data_without_pictures_has_no_sheets(tmp_path):
    task = folder_of(tmp_path / "found", pictures=False)
    assert sheets_of(tmp_path / "found", task) == {}
    assert not list((tmp_path / "found").glob("*.png"))
