"""One page for all studies of a folder: what the theory says, what was measured, the figure."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from spare.errors import DataError
from spare.files.reading import read_bytes, read_json
from spare.files.writing import write_text
from spare.report.frame import page_environment
from spare.report.sections import Section, numeric_columns

#: The studies, in the order in which they are shown.
ORDER = ("growth", "separability", "dominance", "linear", "reliance", "nsr", "predict")
PAGE = "report.html"
#: A figure is smaller.
MOST_BYTES = 20_000_000


def write_page(folder: Path) -> Path:
    """Make the page of the studies that a folder holds."""
    studies = [
        _read(folder / f"{name}.json") for name in ORDER if (folder / f"{name}.json").exists()
    ]
    for study in studies:
        picture = read_bytes(folder / f"{study['name']}.png", MOST_BYTES)
        study["figure"] = base64.b64encode(picture).decode()
    text = page_environment().get_template("theory.html.j2").render(
        title="The theory, running", studies=studies
    )  # fmt: skip
    write_text(folder / PAGE, text)
    return folder / PAGE


def _read(path: Path) -> dict[str, Any]:
    """What a study wrote, with its tables as text."""
    try:
        study: dict[str, Any] = dict(read_json(path))
        sections = [Section(**section) for section in study["sections"]]
        name = path.name.removesuffix(".json")
        shown = {key: str(study[key]) for key in ("title", "claim")}
        tables: list[dict[str, Any]] = [
            {
                "heading": section.heading,
                "heads": section.heads,
                "rows": [[str(cell) for cell in row] for row in section.rows],
                "notes": section.notes,
            }
            for section in sections
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} is not what 'spare theory' writes: remove it and run the command again."
        ) from error
    for table in tables:
        table["numeric"] = numeric_columns(table["rows"], len(table["heads"]))
    return {"name": name, **shown, "tables": tables, "settings": study.get("settings", {})}
