"""The program itself, and the options that verbs share."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

import spare
from spare.errors import InputError

app = App(
    name="spare",
    help="Find the shortcuts a classifier learns early, and train one without them.",
    version=spare.__version__,
)


def option(help: str) -> Any:
    return Parameter(help=help, negative="")


Task = Annotated[
    str,
    Parameter(help="A task (see 'spare list tasks'), the path of your own data, or mine:DATASET."),
]
Out = Annotated[Path | None, Parameter(help="Folder to write to.")]
Data = Annotated[
    Path | None,
    Parameter(help="Folder of data sets (for a report, the data itself). [default: SPARE_DATA]"),
]
Set = Annotated[
    list[str] | None,
    Parameter(name="--set", negative="", help="key=value; see 'spare list settings'."),
]
Threads = Annotated[int, Parameter(help="Threads to compute with; 0 for all.")]
Json = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON for machines.")]
Layer = Annotated[str, option("Layer at which saliency is taken; by default it is chosen.")]
Trust = Annotated[bool, option("Import the code and read the files that the run names.")]

Device = Annotated[str | None, option("Where to compute: auto, cpu, cuda, cuda:1, mps, ...")]


@Parameter(name="*")
@dataclass(frozen=True)
class Common:
    """What all verbs that train take; settings that people reach for first have a name here."""

    out: Out = None
    data: Data = None
    label: Annotated[str | None, option("Column or array with the classes.")] = None
    path: Annotated[str | None, option("Column with the images' paths.")] = None
    split: Annotated[str | None, option("Column that says train, val or test.")] = None
    attributes: Annotated[
        str | None, option("Columns, separated by commas, that are used only to score.")
    ] = None
    classes: Annotated[str | None, option("File that merges folders into classes.")] = None
    model: Annotated[
        str | None, option("A name (resnet18, timm:NAME, mlp, ...) or package.module:function.")
    ] = None
    skip_bad: Annotated[bool, option("Leave out images that are missing or unreadable.")] = False
    allow_outside: Annotated[
        bool, option("Accept paths and links that lead out of the data's folder.")
    ] = False
    device: Device = None
    set: Set = None

    def arguments(self) -> dict[str, Any]:
        """As the library's functions take them."""
        places = {"out": self.out, "data": self.data}
        named = {
            key: str(value)
            for key, value in asdict(self).items()
            if value and key not in (*places, "set")
        }
        settings = settings_of(self.set)
        twice = next((key for key in named if key in settings), None)
        if twice is not None:
            raise InputError(f"{twice} is given twice: as an option and with --set.")
        return places | named | settings


def settings_of(pairs: list[str] | None) -> dict[str, str]:
    """What `--set` says."""
    from spare.runs.values import parse_overrides

    return parse_overrides(pairs or [])
