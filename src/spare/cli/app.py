"""The command line: parse, call one library function, print, exit.

Nothing heavy is imported before a verb needs it, so `spare --help` is quick.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from cyclopts import App, CycloptsError, Parameter

import spare
from spare.cli.console import (
    Bars,
    Lines,
    emit,
    percent,
    print_bench,
    print_discovery,
    print_json,
    print_scores,
    print_table,
    show,
    speak,
)
from spare.errors import InputError, Interrupted, SpareError

app = App(
    name="spare",
    help="Find the shortcuts a classifier learns early, and train one without them.",
    version=spare.__version__,
)
data_app = App(name="data", help="Fetch data sets, or see which are there.")
app.command(data_app)

Task = Annotated[
    str, Parameter(help="A task (see 'spare list tasks'), or the path of your own data.")
]
Out = Annotated[Path | None, Parameter(help="Folder to write to.")]
Data = Annotated[
    Path | None,
    Parameter(help="Folder of data sets, one sub-folder each; also SPARE_DATA."),
]
Set = Annotated[
    list[str] | None,
    Parameter(name="--set", negative="", help="key=value; see 'spare list settings'."),
]
Threads = Annotated[int, Parameter(help="Threads to compute with; 0 for all.")]
Json = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON for machines.")]


def option(help: str) -> Any:
    return Parameter(help=help, negative="")


@Parameter(name="*")
@dataclass(frozen=True)
class OwnData:
    """Options that stand for settings, because people reach for them first."""

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

    def given(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value}

    def overrides(self, set: list[str] | None) -> dict[str, str]:
        """Together with what `--set` says."""
        from spare.runs.plan import parse_overrides

        found = parse_overrides(set or [])
        twice = next((key for key in self.given() if key in found), None)
        if twice is not None:
            raise InputError(f"{twice} is given twice: as an option and with --set.")
        return {key: str(value) for key, value in self.given().items()} | found

    def words(self) -> list[str]:
        """The same options as they were typed."""
        found: list[str] = []
        for key, value in self.given().items():
            found.append(f"--{key.replace('_', '-')}")
            found += [] if value is True else [str(value)]
        return found


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    try:
        app(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        print(f"spare: error: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(1)
    except Interrupted as error:
        print(f"spare: {error}", file=sys.stderr)
        sys.exit(130)
    except SpareError as error:
        print(f"spare: error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("spare: stopped.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has gone, as in `spare list | head`
        sys.stderr.close()
        sys.exit(1)
    sys.exit(0)


@app.command
def demo(*, out: Out = None, json: Json = False) -> None:
    """Coloured digits, nothing to download: plain training against SPARE, in under a minute."""
    folder = out or Path("runs/demo")
    speak(
        "Coloured digits: in training 95 % of the digits 0-4 are orange and of 5-9 blue;\n"
        "in the test set the colour is a coin toss. Who learned digits, and who colours?\n",
        quiet=json,
    )
    with Bars() as bars:
        from spare.files import read_json
        from spare.report.write import remake_report
        from spare.runs.grid import bench
        from spare.runs.run import stop_on_signal

        with stop_on_signal() as should_stop:
            summary = bench(
                "digits",
                ["erm", "spare"],
                [0],
                folder,
                report=bars.bench_report,
                say=bars.say,
                should_stop=should_stop,
            )
        page = remake_report(folder / "spare-seed0", report=bars.report, say=bars.say)
    runs = {m: read_json(folder / f"{m}-seed0" / "run.json") for m in ("erm", "spare")}
    if json:
        print_json({"table": summary, "runs": runs, "report": str(page)})
        return
    rows = []
    for name, run in runs.items():
        scores = run["scores"]["test"]["selected"]
        low, high = scores["worst_group_interval"]
        rows.append(
            [
                {"erm": "plain training (ERM)", "spare": "SPARE"}[name],
                percent(scores["worst_group"]),
                f"{percent(low)} to {percent(high)}",
                scores["worst_group_name"],
                scores["worst_group_size"],
                percent(scores["average"]),
            ]
        )
    heads = ["method", "worst group %", "95 % interval", "which", "test examples", "average %"]
    print_table(heads, rows)
    rule = runs["spare"]["selection"]
    print(f"\nOne seed; epoch selected by {rule}. Test split, scored once.")
    print_discovery(runs["spare"])
    print(f"\nOpen in a browser to see them: {page}")
    print("Run folders:")
    for name in runs:
        print(f"  {folder / f'{name}-seed0'}")


@data_app.command(name="get")
def data_get(name: str, *, data: Data = None) -> None:
    """Fetch a data set and check it, or say where to get it and where to put it."""
    from spare.datasets import data_root, source_named

    source = source_named(name)
    if not hasattr(source, "get"):
        there = source.present(data_root(data))
        print(f"{name} is there" if there else source.where(data_root(data)))
        return
    with Bars() as bars:

        def say(line: str) -> None:
            bars.say(line)
            bars.report(line, 0, 1)

        folder = source.get(data_root(data), say)
    print(f"{name} is in {folder}, and was checked")


@data_app.command(name="list")
def data_list(*, data: Data = None, json: Json = False) -> None:
    """Which data sets there are, and which are on this machine."""
    from spare.datasets import SOURCES, data_root, source_named

    root = data_root(data)
    found = {name: source_named(name).present(root) for name in SOURCES}
    if json:
        print_json({"root": str(root), "present": found})
        return
    print(f"data folder: {root}")
    rows = [[n, SOURCES[n], "there" if ok else f"spare data get {n}"] for n, ok in found.items()]
    print_table(["name", "what", "here"], rows)


@data_app.command(name="draw")
def data_draw(
    name: Literal["urbancars", "waterbirds", "celeba", "restricted_imagenet"],
    *,
    out: Annotated[
        Path | None, Parameter(help="Folder to draw into; else the data folder's own place for it.")
    ] = None,
    data: Data = None,
    set: Set = None,
) -> None:
    """Draw pictures in a benchmark's layout: two shortcuts at once (urbancars), or tiny sets."""
    from spare.datasets import data_root
    from spare.runs.plan import parse_overrides
    from spare.synthetic.layouts import DRAWN, draw

    folder = out or data_root(data) / name
    with Bars() as bars:
        draw(
            DRAWN[name],
            folder,
            parse_overrides(set or []),
            report=lambda done, total: bars.report("drawing", done, total),
        )
    print(f"a drawn {name} is in {folder}")


@data_app.command(name="cache")
def data_cache(
    *,
    clear: Annotated[bool, Parameter(negative="", help="Remove it.")] = False,
    json: Json = False,
) -> None:
    """How large the cache of decoded images is, and where; --clear removes it."""
    from spare.images import cache

    folder = cache.cache_folder()
    usage = cache.clear(folder) if clear else cache.entries(folder)
    if json:
        print_json({"folder": str(folder), "entries": usage.entries, "bytes": usage.bytes})
        return
    what = "removed" if clear else "in the cache"
    print(f"{usage.entries} data sets {what}, {usage.bytes / 1e6:,.0f} MB: {folder}")


@app.command
def discover(
    task: Task,
    *,
    seed: int = 0,
    out: Out = None,
    data: Data = None,
    own: OwnData | None = None,
    set: Set = None,
    threads: Threads = 1,
    json: Json = False,
) -> None:
    """Train a little on a task or on your own data, and show the groups that fall apart."""
    with Bars() as bars:
        from spare.datasets import locate
        from spare.runs.discover import discover as look
        from spare.runs.run import stop_on_signal

        given = (own or OwnData()).overrides(set)
        folder = out or Path("runs") / f"discover-{locate(task, data, given).label}-seed{seed}"
        with stop_on_signal() as should_stop:
            record = look(
                task,
                seed,
                folder,
                data=data,
                overrides=given,
                threads=threads or None,
                report=bars.report,
                say=bars.say,
                should_stop=should_stop,
            )
    if json:
        print_json(record | {"folder": str(folder)})
        return
    print_discovery(record)
    print(f"\nReport, to be opened in a browser: {folder / 'report.html'}")
    print(f"One row an example: {folder / 'groups.parquet'}")
    for name, sheet in record["sheets"].items():
        print(f"Pictures of {name}, a row a cluster: {folder / sheet}")
    options = (own or OwnData()).words()
    options += [] if data is None else ["--data", str(data)]
    for pair in set or []:
        options += ["--set", pair]
    if record["kind"] != "arrays" or record["notes"]["separated_at"] is not None:
        found = ["--groups", str(folder / "groups.parquet")]
        print(f"Next: {shlex.join(['spare', 'train', task, *found, *options])}")


@app.command
def train(
    task: Task,
    *,
    method: str = "spare",
    groups: Annotated[
        Path | None, Parameter(help="Groups from a file, such as discover's groups.parquet.")
    ] = None,
    seed: int = 0,
    out: Out = None,
    data: Data = None,
    own: OwnData | None = None,
    set: Set = None,
    threads: Threads = 1,
    json: Json = False,
    lines: Annotated[bool, Parameter(show=False, negative="")] = False,
) -> None:
    """Train one method on a task or your own data and score it. Broken off, it goes on."""
    try:
        with Lines() if lines else Bars() as bars:
            from spare.datasets import locate
            from spare.methods import with_given_groups
            from spare.runs.run import run, run_name, stop_on_signal

            given = (own or OwnData()).overrides(set)
            label = locate(task, data, given).label
            if groups is not None:
                method = with_given_groups(method)
                given["groups"] = str(groups)
            folder = out or Path("runs") / f"{label}-{run_name(method, seed)}"
            with stop_on_signal() as should_stop:
                record = run(
                    task,
                    method,
                    seed,
                    folder,
                    data=data,
                    overrides=given,
                    threads=threads or None,
                    report=bars.report,
                    say=bars.say,
                    should_stop=should_stop,
                )
    except SpareError as error:
        if lines:
            emit({"end": True, "error": str(error)})
        raise
    if lines:
        emit({"end": True})
    elif json:
        print_json(record | {"folder": str(folder)})
    else:
        print_scores(record)
        print_discovery(record)
        print(f"\nRun folder: {folder}")
        print(f"To see it in a browser: {shlex.join(['spare', 'report', str(folder)])}")


@app.command
def bench(
    task: Task,
    *,
    methods: Annotated[
        str, Parameter(help="Names, or pairs such as eiil+spare, separated by commas; or all.")
    ] = "erm,spare",
    seeds: Annotated[str, Parameter(help="Numbers separated by commas.")] = "0,1,2",
    out: Out = None,
    data: Data = None,
    own: OwnData | None = None,
    set: Set = None,
    jobs: Annotated[int, Parameter(help="Runs at a time, one thread each; 0 for all cores.")] = 0,
    json: Json = False,
) -> None:
    """Run several methods with several seeds and print the table. Resumable."""
    with Bars() as bars:
        from spare import bench as grid
        from spare.datasets import locate
        from spare.runs.run import stop_on_signal

        given = (own or OwnData()).overrides(set)
        folder = out or Path("runs") / f"bench-{locate(task, data, given).label}"
        failed: grid.RunsFailed | None = None
        with stop_on_signal() as should_stop:
            try:
                summary = grid.bench(
                    task,
                    words(methods),
                    [whole_number(seed) for seed in words(seeds)],
                    folder,
                    data=data,
                    overrides=given,
                    jobs=jobs or None,
                    report=bars.bench_report,
                    say=bars.say,
                    should_stop=should_stop,
                )
            except grid.RunsFailed as error:  # the others are shown first
                failed, summary = error, error.summary
                if not summary["rows"]:
                    raise
        from spare.report.write import remake_report

        page = remake_report(folder, data=data, trust=True, report=bars.report, say=bars.say)
    if json:
        print_json(summary | {"report": str(page)})
    else:
        print_bench(summary)
        print(f"\nReport, to be opened in a browser: {page}")
        print(f"Run folders and table.json: {folder}")
    if failed is not None:
        raise failed


Layer = Annotated[str, option("Layer at which saliency is taken; else it is found.")]
Trust = Annotated[
    bool, option("Import the model or method of your own that the run names: runs its code.")
]


@app.command
def report(
    run: Path, *, data: Data = None, layer: Layer = "", trust: Trust = False, json: Json = False
) -> None:
    """Make the report of a run, a discovery or a bench again: one HTML file that works offline."""
    with Bars() as bars:
        from spare.report.write import remake_report

        path = remake_report(
            run, data=data, layer=layer, trust=trust, report=bars.report, say=bars.say
        )
    if json:
        print_json({"report": str(path)})
    else:
        print(f"Report: {path}")


@app.command
def compare(
    *runs: Path,
    out: Out = None,
    data: Data = None,
    layer: Layer = "",
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Several runs of one task side by side, as one HTML file: accuracy by group, cost, and where
    each looks."""
    with Bars() as bars:
        from spare.report.write import compare as side_by_side

        path = side_by_side(
            runs, out or Path("runs"), data=data, layer=layer, trust=trust, report=bars.report,
            say=bars.say,
        )  # fmt: skip
    if json:
        print_json({"report": str(path)})
    else:
        print(f"Comparison: {path}")


@app.command
def figure(
    what: Literal["samples", "outputs", "recovery", "attributes", "saliency", "clusters"],
    *of: Annotated[
        str, Parameter(help="A task or the path of your own data, or folders that spare wrote.")
    ],
    out: Annotated[
        Path | None, Parameter(help="File to write, .png or .svg; else runs/WHAT.png.")
    ] = None,
    of_class: Annotated[str, Parameter(name="--class", help="The class of 'outputs'.")] = "",
    data: Data = None,
    set: Set = None,
    layer: Layer = "",
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Draw one of the paper's figures: samples of a task; outputs, attributes or clusters of a
    folder; recovery of a bench; saliency of runs."""
    with Bars() as bars:
        from spare.report.figures import draw
        from spare.runs.plan import parse_overrides

        path = draw(
            what,
            of,
            out or Path("runs") / f"{what}.png",
            class_name=of_class,
            data=data,
            layer=layer,
            trust=trust,
            overrides=parse_overrides(set or []),
            report=bars.report,
            say=bars.say,
        )
    if json:
        print_json({"figure": str(path)})
    else:
        print(f"Figure: {path}")


@app.command(name="list")
def list_(
    what: Literal["methods", "halves", "tasks", "rules", "settings"] = "methods",
    *,
    task: str = "cmnist",
    method: str = "spare",
    json: Json = False,
) -> None:
    """What there is: methods, the halves that go together as INFERENCE+TRAINER, tasks, selection
    rules, or the settings of a task and method."""
    heads, rows = listing(what, task, method)
    if json:
        print_json([dict(zip(heads, row, strict=True)) for row in rows])
    else:
        print_table(heads, rows)


def listing(what: str, task: str, method: str) -> tuple[list[str], list[list[Any]]]:
    if what == "tasks":
        from spare.datasets import DATASETS

        return ["task", "what"], [[name, about] for name, about in DATASETS.items()]
    if what == "rules":
        from spare.training.selection import RULES

        return ["rule", "looks at", "keeps"], [[r.name, r.needs, r.says] for r in RULES.values()]
    if what == "settings":
        from spare.datasets import locate
        from spare.methods import method_named
        from spare.runs.plan import plan

        planned = plan(locate(task), method_named(method), {})
        rows = [[key, show(v), "training or data"] for key, v in planned.flat_settings().items()]
        rows += [[key, show(v), f"{method} option"] for key, v in planned.flat_options().items()]
        return ["setting", "value", "of"], rows
    from spare.methods import INFERENCES, METHODS, TRAINERS

    if what == "halves":
        rows = [[one.name, "names groups", one.sees(one.options())] for one in INFERENCES.values()]
        rows += [[one.name, "trains with them", "-"] for one in TRAINERS.values()]
        return ["half", "what it does", "group labels it sees"], rows
    rows = [[m.name, m.title, m.paper, m.sees(m.options()), m.cost] for m in METHODS.values()]
    return ["method", "what", "paper", "group labels it sees", "cost"], rows


def words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def whole_number(text: str) -> int:
    if not text.isdigit():
        raise InputError(f"a seed is a whole number of at least 0, not {text!r}.")
    return int(text)
