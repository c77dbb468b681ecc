"""`spare data draw`: options from text."""

from __future__ import annotations

import pytest

from spare.cli.data import drawing_options
from spare.errors import InputError
from spare.synthetic.layouts import draw_urbancars


def test_options_as_text(tmp_path):
    words = {"size": "32", "per_class": "4", "held_out": "1", "background": ".5", "co_object": ".5"}
    draw_urbancars(tmp_path / "cars", **drawing_options(draw_urbancars, words))
    assert (tmp_path / "cars" / "bg-0.5_co_occur_obj-0.5" / "train").is_dir()
    assert len(list(tmp_path.rglob("*.jpg"))) == 8 + 16


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"heldout": "1"}, "did you mean 'held_out'"),
        ({"size": "big"}, "size is a whole number, not 'big'"),
        ({"size": "1e9"}, "size is a whole number, not '1e9'"),
        ({"size": "100000"}, "size is from 16 to 2,000, not 100000"),
        ({"background": "nan"}, "background is a number, not 'nan'"),
        ({"seed": "4294967296"}, "seed is from 0 to 4,294,967,295"),
        ({"progress": "1"}, "unknown option 'progress'"),
    ],
)
def test_options_out_of_range_are_one_sentence(words, says):
    with pytest.raises(InputError, match=says):
        drawing_options(draw_urbancars, words)
