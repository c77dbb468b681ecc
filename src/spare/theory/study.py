"""What a study leaves behind: numbers, tables, a figure, and what to say about them."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from spare.errors import InputError, unknown
from spare.files.writing import write_json, write_text
from spare.limits import check_seed
from spare.records.code import code_version
from spare.report.figures.canvas import save_figure
from spare.report.html import sections_html
from spare.report.sections import Section
from spare.report.text import sections_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]
Options = TypeVar("Options")


@dataclass(frozen=True)
class Study:
    """What a command of `spare theory` measured.

    Attributes
    ----------
    name : str
        Of the command.
    title : str
    claim : str
        What the theory says, for someone who has not read it.
    facts : mapping
        The numbers that matter, by name.
    tables : mapping
        All numbers: by name, one mapping per row.
    sections : sequence of Section
        What is shown to people.
    settings : mapping
        What it was made with.
    """

    name: str
    title: str
    claim: str
    facts: Mapping[str, Any]
    tables: Mapping[str, Sequence[Row]]
    sections: Sequence[Section]
    settings: Mapping[str, Any]
    plot: Callable[[], Figure] = field(repr=False)

    def write(self, folder: Path | str) -> Path:
        """Write numbers, tables and the figure into a folder; the path of the figure."""
        folder = Path(folder)
        for table, rows in self.tables.items():
            write_text(folder / f"{self.name}-{table}.csv", _csv(rows))
        save_figure(self.plot(), folder / f"{self.name}.png")
        write_json(
            folder / f"{self.name}.json",
            {
                "name": self.name,
                "title": self.title,
                "claim": self.claim,
                "code": code_version(),
                "settings": plain(self.settings),
                "facts": plain(self.facts),
                "sections": [plain(dataclasses.asdict(section)) for section in self.sections],
            },
        )
        return folder / f"{self.name}.png"

    def __str__(self) -> str:
        return f"{self.title}\n{self.claim}\n\n{sections_text(self.sections)}"

    def _repr_html_(self) -> str:
        return sections_html(self.sections)


def options_of(kind: type[Options], settings: Mapping[str, Any]) -> Options:
    """The options of a study with these settings; a name that is none of them is refused."""
    known = [each.name for each in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for key in settings:
        if key not in known:
            raise unknown("setting of this study", key, known)
    return kind(**settings)


def generator_of(seed: int, *more: int) -> torch.Generator:
    """A generator that these numbers decide."""
    entropy = np.random.SeedSequence([check_seed(seed), *more]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(entropy[0] >> 1))


def exponent(sizes: Sequence[float], errors: Sequence[float]) -> float:
    """The power of the size that the error goes with: the slope in logarithms.

    >>> round(exponent([1, 4, 16], [1, 0.5, 0.25]), 6)
    -0.5
    """
    return float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])


def rms(values: Sequence[float]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def precision_named(name: str) -> torch.dtype:
    known = {"float32": torch.float32, "float64": torch.float64}
    if name not in known:
        raise unknown("precision", name, known)
    return known[name]


def check_entries(**lists: Sequence[Any]) -> None:
    """Refuse an empty list of a study's settings, and one that names something twice."""
    for name, entries in lists.items():
        if not entries:
            raise InputError(f"{name} is empty: name at least one.")
        for entry in entries:
            if entries.count(entry) > 1:
                raise InputError(f"{name} names {entry} more than once: name each once.")


def cell(value: float | None, form: str) -> str:
    """A number of a table, or a dash where there is none.

    >>> cell(0.5, ".2f"), cell(math.nan, ".2f")
    ('0.50', '-')
    """
    return "-" if value is None or math.isnan(value) else format(value, form)


def plain(value: Any) -> Any:
    """As JSON can hold it."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def _csv(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    heads = list(dict.fromkeys(key for row in rows for key in row))
    table = csv.DictWriter(text, heads, lineterminator="\n")
    table.writeheader()
    for row in rows:
        table.writerow(
            {key: f"{each:.8g}" if isinstance(each, float) else each for key, each in row.items()}
        )
    return text.getvalue()
