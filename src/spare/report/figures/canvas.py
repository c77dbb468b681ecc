"""What all figures share: what was asked for, colors, and an empty canvas."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spare.errors import InputError
from spare.files.writing import write_atomic
from spare.progress import SILENT, Progress
from spare.report.charts import shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: In an order that people with color blindness can tell apart.
COLORS = ("#4269b8", "#c2410c", "#0f766e", "#86198f", "#a16207", "#be123c", "#475569", "#65a30d")
MOST_GROUPS = 6
#: Matplotlib draws at most 65,536 points in a direction.
MOST_INCHES = 400
FORMATS = (".png", ".svg")


@dataclass(frozen=True)
class FigureRequest:
    """What a figure is plotted of, and how."""

    #: A task, or folders of runs and discoveries.
    of: tuple[str, ...]
    class_name: str = ""
    data: Path | None = None
    layer: str = ""
    #: Whether someone's own code that a folder names may be imported.
    trust: bool = False
    overrides: Mapping[str, Any] = field(default_factory=dict)
    progress: Progress = SILENT

    @property
    def folder(self) -> Path:
        """The one folder that the figure is of."""
        if len(self.of) != 1:
            raise InputError("this figure is made of one folder: name just one.")
        return Path(self.of[0])


def canvas(width: float, height: float) -> Figure:
    """An empty figure, in inches."""
    if height > MOST_INCHES:
        raise InputError(
            f"this figure would be {height:,.0f} inches high, and at most {MOST_INCHES} can be "
            f"drawn: it has too many classes or clusters."
        )
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def check_format(out: Path) -> None:
    if out.suffix.lower() not in FORMATS:
        raise InputError(f"a figure is written as {' or '.join(FORMATS)}, not {out.name!r}.")


def save_figure(figure: Figure, out: Path) -> None:
    """Write a figure as the file's name says: .png or .svg."""
    check_format(out)

    def save(temporary: Path) -> None:
        import matplotlib

        # Text stays text, which can be searched and read aloud.
        with warnings.catch_warnings(), matplotlib.rc_context({"svg.fonttype": "none"}):
            warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in another script
            figure.savefig(
                temporary, format=out.suffix[1:].lower(), dpi=150, bbox_inches="tight",
                metadata={"Date": None} if out.suffix.lower() == ".svg" else None,
            )  # fmt: skip

    write_atomic(out, save)


def plain_text(name: str) -> str:
    """A name as it is: a dollar sign begins no formula."""
    return shortened(name, 40).replace("$", r"\$")
