"""`spare theory`: the paper's results on early training, run and plotted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from spare.cli.app import Common, Data, Json, Out, Task, Threads, app, settings_of
from spare.cli.console import Bars, write, write_json, write_text

if TYPE_CHECKING:
    from spare.api.theory import Studied

theory_app = App(name="theory", help="When and why shortcuts are learned first, as experiments.")
app.command(theory_app)

Seed = Annotated[int, Parameter(help="Decides everything random.")]
#: A study has settings of its own, which `spare list settings` does not know.
OwnSettings = Annotated[
    list[str] | None,
    Parameter(
        name="--set",
        negative="",
        help="key=value: a size or a setting of this study; a name that it does not have is "
        "answered with those that it has.",
    ),
]


@Parameter(name="*")
@dataclass(frozen=True)
class Simulation:
    """What every study takes."""

    out: Out = None
    seed: Seed = 0
    threads: Threads = 0
    set: OwnSettings = None
    json: Json = False


@Parameter(name="*")
@dataclass(frozen=True)
class OnData(Simulation):
    """What a study takes that trains on a data set."""

    data: Data = None


@theory_app.command
def growth(*, options: Simulation | None = None) -> None:
    """How fast a network learns each feature, against the first theorem's lines."""
    _study("growth", options or Simulation())


@theory_app.command
def separability(*, options: Simulation | None = None) -> None:
    """When the groups of a class separate, and how many examples obey the corollary's bounds."""
    _study("separability", options or Simulation())


@theory_app.command
def dominance(*, options: Simulation | None = None) -> None:
    """How little of the core feature is learned beside a cleaner spurious one."""
    _study("dominance", options or Simulation())


@theory_app.command
def linear(*, options: OnData | None = None) -> None:
    """The network beside the linear model that it begins as, on Colored MNIST."""
    _study("linear", options or OnData())


@theory_app.command
def reliance(*, options: OnData | None = None) -> None:
    """How the output moves when only the color, or only the digit, is left of an image."""
    _study("reliance", options or OnData())


@theory_app.command
def nsr(*, options: OnData | None = None) -> None:
    """Worst groups of several methods as the colors of Colored MNIST become noisy.

    Finished runs are kept in the folder 'runs' of --out, and are not made again.
    """
    _study("nsr", options or OnData())


@theory_app.command
def predict(
    task: Task,
    *,
    watched: Annotated[int, Parameter(help="Epochs to train before predicting.")] = 3,
    seed: Seed = 0,
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
    *, out: Out = None, data: Data = None, seed: Seed = 0, threads: Threads = 0, json: Json = False
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


def _study(name: str, options: Simulation) -> None:
    with Bars() as bars:
        from spare.api.theory import run_study

        done = run_study(
            name,
            seed=options.seed,
            out=options.out,
            data=options.data if isinstance(options, OnData) else None,
            threads=options.threads,
            progress=bars.progress(),
            settings=settings_of(options.set),
        )
    _print(done, options.json)


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
