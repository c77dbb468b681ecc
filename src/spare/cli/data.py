"""`spare data`: fetch data sets, draw some, see which are there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from spare.cli.app import Data, Json, Set, app, settings_of
from spare.cli.console import Bars, write, write_json, write_text

data_app = App(name="data", help="Fetch data sets, or see which are there.")
app.command(data_app)


@data_app.command(name="get")
def get(name: str, *, data: Data = None) -> None:
    """Fetch a data set and check it, or say where to get it and where to put it."""
    from spare.datasets import data_root, source_named

    source = source_named(name)
    if not hasattr(source, "get"):
        there = source.present(data_root(data))
        write(f"{name} is there" if there else source.where(data_root(data)))
        return
    with Bars() as bars:

        def say(line: str) -> None:
            bars.say(line)
            bars.report(line, 0, 1)

        folder = source.get(data_root(data), say)
    write(f"{name} is in {folder}, and was checked")


@data_app.command(name="list")
def list_(*, data: Data = None, json: Json = False) -> None:
    """Which data sets there are, and which are on this machine."""
    from spare.datasets import SOURCES, data_root, source_named
    from spare.report.text import table_text

    root = data_root(data)
    present = {name: source_named(name).present(root) for name in SOURCES}
    if json:
        write_json({"root": str(root), "present": present})
        return
    write(f"data folder: {root}")
    rows = [[n, SOURCES[n], "there" if ok else f"spare data get {n}"] for n, ok in present.items()]
    write_text(table_text(["name", "what", "here"], rows))


@data_app.command(name="draw")
def draw(
    name: Literal["urbancars", "waterbirds", "celeba", "restricted_imagenet"],
    *,
    out: Annotated[
        Path | None, Parameter(help="Folder to draw into; by default its place in the data folder.")
    ] = None,
    data: Data = None,
    set: Set = None,
) -> None:
    """Draw pictures in a benchmark's layout: two shortcuts at once (urbancars), or tiny sets."""
    with Bars() as bars:
        from spare.datasets import data_root
        from spare.files.building import no_empty_folders
        from spare.files.paths import path_given
        from spare.synthetic.layouts import DRAWN

        options = drawing_options(DRAWN[name], settings_of(set))
        folder = data_root(data) / name if out is None else path_given("--out", out)
        with no_empty_folders(folder):
            DRAWN[name](folder, **options, progress=bars.progress())
    write(f"a drawn {name} is in {folder}")


def drawing_options(layout: Callable[..., Path], words: dict[str, str]) -> dict[str, Any]:
    """The options of a layout, from text."""
    from spare.errors import unknown
    from spare.runs.values import convert
    from spare.synthetic.layouts import options_of

    known = options_of(layout)
    for key in words:
        if key not in known:
            raise unknown("option", key, known)
    return {key: convert(key, word, known[key]) for key, word in words.items()}


@data_app.command(name="cache")
def cache(
    *,
    clear: Annotated[bool, Parameter(negative="", help="Remove it.")] = False,
    json: Json = False,
) -> None:
    """How large the cache of decoded images is, and where; --clear removes it."""
    from spare.images import cache

    folder = cache.cache_folder()
    usage = cache.clear(folder) if clear else cache.entries(folder)
    if json:
        write_json({"folder": str(folder), "entries": usage.entries, "bytes": usage.bytes})
        return
    what = "removed" if clear else "in the cache"
    write(f"{usage.entries} data sets {what}, {usage.bytes / 1e6:,.0f} MB: {folder}")
