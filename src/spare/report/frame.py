"""What all pages share: templates with their style and script, titles, and data for the script."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from spare.records.labels import labels_used
from spare.report.charts import shortened
from spare.report.sections import alike


def page_environment() -> Environment:
    """Templates with a page's style and script; whatever is filled in is escaped."""
    environment = Environment(
        loader=PackageLoader("spare.report", "."), autoescape=True, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["percent"] = lambda value: "–" if value is None else f"{100 * value:.1f}"
    environment.filters["short"] = shortened
    environment.filters["labels_used"] = labels_used
    environment.filters["alike"] = alike
    environment.globals.update(style=_file("style.css"), script=_file("script.js"))
    return environment


def page_title(record: Mapping[str, Any]) -> str:
    """The name of the task; of someone's own data, the last part of its path."""
    return shortened(Path(record["task"]).name or str(record["task"]))


def script_data(value: Any) -> Markup:
    """JSON in which nothing looks like the end of the script element that it is in."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _file(name: str) -> Markup:
    return Markup((resources.files("spare.report") / name).read_text(encoding="utf-8"))
