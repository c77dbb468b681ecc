"""`spare theory`: the paper's results on early training, run and plotted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from spare.cli.app import Common, Data, Json, Out, Set, Task, Threads, app, settings_of
from spare.cli.console import Bars, write, write_json, write_text

if TYPE_CHECKING:
    from pathlib import Path

    from spare.api.theory import Studied

theory_app = App(name="theory", help="When and why shortcuts are learned first, as experiments.")
app.command(theory_app)


@theory_app.command
def growth(
    *, out: Out = None, seed: int = 0, threads: Threads = 0, set: Set = None, json: Json = False
) -> None:
    """How fast a network learns each feature, against the first theorem's lines."""
    _study("growth", out, seed, threads, set, json)


@theory_app.command
def separability(
    *, out: Out = None, seed: int = 0, threads: Threads = 0, set: Set = None, json: Json = False
) -> None:
    """When the groups of a class part, and how many examples obey the corollary's bounds."""
    _study("separability", out, seed, threads, set, json)


@theory_app.command
def dominance(
    *, out: Out = None, seed: int = 0, threads: Threads = 0, set: Set = None, json: Json = False
) -> None:
    """How little of the core feature is learned beside a cleaner spurious one."""
    _study("dominance", out, seed, threads, set, json)


@theory_app.command
def linear(
    *,
    out: Out = None,
    data: Data = None,
    seed: int = 0,
    threads: Threads = 0,
    set: Set = None,
    json: Json = False,
) -> None:
    """The network beside the linear model that it begins as, on Colored MNIST."""
    _study("linear", out, seed, threads, set, json, data)


@theory_app.command
def reliance(
    *,
    out: Out = None,
    data: Data = None,
    seed: int = 0,
    threads: Threads = 0,
    set: Set = None,
    json: Json = False,
) -> None:
    """How the output moves when only the color, or only the digit, is left of an image."""
    _study("reliance", out, seed, threads, set, json, data)


@theory_app.command
def nsr(
    *,
    out: Out = None,
    data: Data = None,
    seed: int = 0,
    threads: Threads = 0,
    set: Set = None,
    json: Json = False,
) -> None:
    """Worst groups of several methods as the colors of Colored MNIST become noisy. Resumable."""
    _study("nsr", out, seed, threads, set, json, data)


@theory_app.command
def predict(
    task: Task,
    *,
    watched: Annotated[int, Parameter(help="Epochs to train before predicting.")] = 3,
    seed: int = 0,
    threads: Threads = 0,
    common: Common | None = None,
    json: Json = False,
) -> None:
    """When the classes of your own data should separate, from the first epochs of training."""
    with Bars() as bars:
        from spare.api.theory import run_prediction

        arguments = (common or Common()).arguments()
        done = run_prediction(
            task, watched=watched, seed=seed, threads=threads, progress=bars.progress(), **arguments
        )
    _print(done, json)


@theory_app.command(name="all")
def all_(
    *, out: Out = None, data: Data = None, seed: int = 0, threads: Threads = 0, json: Json = False
) -> None:
    """Every study at its usual size, and one report: a quarter of an hour on two cores."""
    with Bars() as bars:
        from spare.api.theory import run_all

        studies = run_all(seed=seed, out=out, data=data, threads=threads, progress=bars.progress())
        done = list(studies)
    if json:
        write_json([_facts(each) for each in done])
        return
    for each in done:
        _print(each, json)


def _study(
    name: str,
    out: Path | None,
    seed: int,
    threads: int,
    pairs: list[str] | None,
    json: bool,
    data: Path | None = None,
) -> None:
    with Bars() as bars:
        from spare.api.theory import run_study

        done = run_study(
            name,
            seed=seed,
            out=out,
            data=data,
            threads=threads,
            progress=bars.progress(),
            settings=settings_of(pairs),
        )
    _print(done, json)


def _print(done: Studied, json: bool) -> None:
    if json:
        write_json(_facts(done))
        return
    write_text(f"{done.study}\n")
    write(f"Figure: {done.folder / done.study.name}.png")
    write(f"Tables: {done.folder / done.study.name}-*.csv")
    write(f"Report, to be opened in a browser: {done.page}")


def _facts(done: Studied) -> dict[str, Any]:
    from spare.theory.study import plain

    facts = plain(done.study.facts)
    return {"study": done.study.name, "facts": facts, "folder": str(done.folder)}
