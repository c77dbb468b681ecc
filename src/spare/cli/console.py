"""What a person sees: tables, scores, progress. Verbs live in cli.py."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

SHOWN_ASSOCIATIONS = 8
SHOWN_CLASSES = 10


def show(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def speak(text: str, quiet: bool = False) -> None:
    print(text, file=sys.stderr if quiet else sys.stdout, flush=True)


def emit(event: dict[str, Any]) -> None:
    print(json.dumps(event), flush=True)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Columns as wide as their widest cell; numbers to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(heads), *cells]) for i in range(len(heads))]
    numeric = [bool(cells) and all(is_number(row[i]) for row in cells) for i in range(len(heads))]

    def line(row: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        return "  ".join(padded).rstrip()

    print(line(list(heads)))
    print(line(["-" * width for width in widths]))
    for row in cells:
        print(line(row))


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def print_scores(record: dict[str, Any]) -> None:
    print(f"{record['method']} on {record['task']}, seed {record['seed']}")
    known = record.get("groups_known", True)
    _print_worst(record, "worst group" if known else "worst class", None)
    print(f"selection rule: {record['selection']}; group labels the method saw: {record['sees']}")
    every = [score for scores in record["scores"].values() for score in scores.values()]
    if any("gaps" in score for score in every):
        print("\nWhat each broken shortcut costs, in points of accuracy:")
        _print_gaps(record)
    if not known and any("inferred" in score for score in every):
        print(
            "\nNo true groups are known. By INFERRED groups (clusters of early outputs, which may "
            "not be the real ones; the worst of those with ten held-out examples or more):"
        )
        _print_worst(record, "worst inferred group", "inferred")


def _print_worst(record: dict[str, Any], what: str, part: str | None) -> None:
    rows = []
    for split, scores in record["scores"].items():
        for when, whole in scores.items():
            score = whole if part is None else whole.get(part)
            if score is None:
                continue
            low, high = score["worst_group_interval"]
            epochs = {
                "selected": record["selected_epoch"],
                "own_rule": record.get("own_epoch"),
                "early": record.get("early_epoch"),
                "last": len(record["history"]),
            }
            names = {"own_rule": record.get("own_rule"), "early": "plain, before"}
            rows.append(
                [
                    split,
                    f"{names.get(when, when)} ({epochs[when]})",
                    percent(score["worst_group"]),
                    f"{percent(low)} to {percent(high)}",
                    score["worst_group_name"],
                    score["worst_group_size"],
                    percent(score["average"]),
                    percent(score["adjusted_average"]) if "adjusted_average" in score else "-",
                ]
            )
    heads = ["split", "epoch", f"{what} %", "95 % interval", "which", "examples", "average %"]
    heads.append("adjusted %")
    if all(row[-1] == "-" for row in rows):
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    print_table(heads, rows)


def _print_gaps(record: dict[str, Any]) -> None:
    found = [
        (split, when, score)
        for split, scores in record["scores"].items()
        for when, score in scores.items()
        if "gaps" in score
    ]
    names = list(found[0][2]["gaps"])
    print_table(
        ["split", "epoch", "ID accuracy %", *(f"{name} gap" for name in names), "worst pattern %"],
        [
            [
                split,
                when,
                percent(score["id_accuracy"]),
                *(percent(score["gaps"][name]) for name in names),
                percent(score["worst_pattern"]),
            ]
            for split, when, score in found
        ],
    )


def print_discovery(record: dict[str, Any]) -> None:
    """What was found in each class; recall and precision where the true groups are known."""
    if not record["discovery"]:
        return
    if record.get("sees") == "train":
        print("\nThe true groups of each class, which this method was given:")
    elif "groups_from" in record["notes"]:
        print(f"\nThe groups of each class, from {record['notes']['groups_from']}:")
    elif "separated_at" not in record["notes"]:
        print("\nWhat was found in each class:")
    else:
        epoch = record["notes"]["separated_at"]
        when = "in the given outputs" if epoch is None else f"after epoch {epoch}"
        print(f"\nWhat was found in each class {when}:")
    rows = []
    for name, seen in record["discovery"].items():
        score = "-" if seen["silhouette"] is None else f"{seen['silhouette']:.3f}"
        row = [
            name,
            seen["k"],
            score,
            f"{seen['power']:g}",
            " ".join(map(str, seen["sizes"])),
            " ".join(f"{100 * share:.0f}" for share in seen["shares"]),
        ]
        for key in ("recall", "precision"):
            row.append("-" if seen.get(key) is None else percent(seen[key]))
        rows.append(row)
    heads = ["class", "groups", "silhouette", "power", "sizes", "share of draws %"]
    heads += ["minority recall %", "precision %"]
    if all(row[-2:] == ["-", "-"] for row in rows):  # no true groups to compare with
        heads, rows = heads[:-2], [row[:-2] for row in rows]
    print_table(heads, rows)
    for name, seen in record["discovery"].items():
        if seen["note"]:
            print(f"class {name}: {seen['note']}")
    _print_clusters(record["discovery"])
    _print_verdict(record.get("verdict"))
    _print_associations(record.get("associations", []))


def _print_verdict(found: dict[str, Any] | None) -> None:
    """The answer, and which classes it rests on."""
    if found is None:
        return
    when = "" if found["epoch"] is None else f" (after epoch {found['epoch']})"
    print(f"\nVerdict: {found['overall']}{when}")
    by_word: dict[str, list[str]] = {}
    for name, one in found["classes"].items():
        by_word.setdefault(one["verdict"], []).append(name)
    for word, names in by_word.items():
        more = f" and {len(names) - SHOWN_CLASSES} more" if len(names) > SHOWN_CLASSES else ""
        print(f"  {word}: {', '.join(names[:SHOWN_CLASSES])}{more}")


def _print_associations(found: list[dict[str, Any]]) -> None:
    """The attributes that clusters go with most."""
    if not found:
        return
    print("\nWhat the clusters go with (Cramer's V within classes: 0 nothing, 1 all of it):")
    print_table(
        ["attribute", "V", "95 % interval"],
        [
            [one["attribute"], f"{one['v']:.2f}", "{:.2f} to {:.2f}".format(*one["interval"])]
            for one in found[:SHOWN_ASSOCIATIONS]
        ],
    )


def _print_clusters(discovery: dict[str, Any]) -> None:
    """What an early model says of each cluster, where one was looked at."""
    rows = [
        [
            name,
            place,
            cluster["size"],
            percent(cluster["accuracy"]),
            percent(cluster["confidence"]),
            "-"
            if cluster["mistaken_for"] is None
            else f"{cluster['mistaken_for']} ({percent(cluster['mistaken_share'])} %)",
        ]
        for name, seen in discovery.items()
        for place, cluster in enumerate(seen.get("clusters", []), start=1)
        if cluster["size"]
    ]
    if rows:
        print("\nWhat the early model says of each cluster:")
        heads = ["class", "cluster", "size", "right %", "mean confidence %", "mistaken for"]
        print_table(heads, rows)


def print_bench(summary: dict[str, Any]) -> None:
    def cell(score: dict[str, Any] | None) -> str:
        if score is None:
            return "-"
        spread = f" ± {percent(score['sd'])}" if score["interval"] else ""  # one seed has none
        return f"{percent(score['mean'])}{spread}"

    rows = [
        [
            row["method"],
            cell(row["selected"].get("worst_group")),
            cell(row["selected"].get("average")),
            cell(row["last"].get("worst_group")),
            cell(row["last"].get("average")),
            f"{row['cost']['examples']:.2f}" if "cost" in row else "-",
            f"{row['seconds']:.0f}",
            f"{row['peak_memory_mb']:.0f}",
            row["selection"],
            ",".join(map(str, row["seeds"])),
        ]
        for row in summary["rows"]
    ]
    split = summary["rows"][0]["split"] if summary["rows"] else "test"
    print(
        f"{split} split; mean ± standard deviation over seeds, in %; cost: examples passed through "
        f"a model, relative to erm"
    )
    print_table(
        [
            "method",
            "worst group",
            "average",
            "last epoch: worst",
            "average",
            "cost",
            "seconds",
            "peak MB",
            "selection",
            "seeds",
        ],
        rows,
    )
    compared = [row for row in summary["rows"] if "spare_minus_this" in row]
    if compared:
        print("\nspare minus each, in points, over the seeds that both have (95 % interval):")
        print_table(
            ["method", "worst group", "average", "last epoch: worst", "average", "seeds"],
            [
                [
                    row["method"],
                    *(
                        _difference(row["spare_minus_this"][when][name])
                        for when in ("selected", "last")
                        for name in ("worst_group", "average")
                    ),
                    ",".join(map(str, row["spare_minus_this"]["seeds"])),
                ]
                for row in compared
            ],
        )


def _difference(found: dict[str, Any]) -> str:
    mean = f"{100 * found['mean']:+.1f}"
    if found["interval"] is None:
        return mean
    low, high = found["interval"]
    return f"{mean} ({100 * low:+.1f} to {100 * high:+.1f})"


#: Words for the parts of a run, as a person reads them beside a bar.
PARTS = {
    "starting": "starting",
    "data": "loading data",
    "images": "decoding images",
    "features": "computing features",
    "pictures": "drawing pictures",
    "early": "training a little",
    "outputs": "taking outputs",
    "inference": "clustering",
    "train": "training",
}


class Bars:
    """Progress bars on a terminal; without one, only what `say` is told.

    Opened before the heavy imports, which take seconds themselves.
    """

    def __enter__(self) -> Bars:
        self._progress: Any = None
        self._tasks: dict[str, Any] = {}
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self._progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._progress.start()
            self.report("starting", 0, 1)
        return self

    def __exit__(self, *error: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def report(self, what: str, done: int, total: int) -> None:
        self._show(what, PARTS.get(what, what), done, total)

    def bench_report(self, run: str, what: str, done: int, total: int) -> None:
        if what == "done":
            self.say(f"{run} is done")
            if run in self._tasks:
                self._progress.remove_task(self._tasks.pop(run))
            return
        self._show(run, f"{run}: {PARTS.get(what, what)}", done, total)

    def _show(self, key: str, text: str, done: int, total: int) -> None:
        if self._progress is None:
            return
        if key != "starting" and "starting" in self._tasks:
            self._progress.remove_task(self._tasks.pop("starting"))
        if key not in self._tasks:
            self._tasks[key] = self._progress.add_task(text, total=total)
        self._progress.update(
            self._tasks[key], description=text, completed=done, total=total, visible=done < total
        )

    def say(self, line: str) -> None:
        if self._progress is not None:
            self._progress.console.print(line, markup=False, highlight=False)
        else:
            print(line, file=sys.stderr, flush=True)


class Lines(Bars):
    """Progress as JSON lines for the process that started this one; a few a second at most."""

    def __enter__(self) -> Lines:
        self._last = 0.0
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def report(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if done >= total or now - self._last > 0.5:
            self._last = now
            emit({"what": what, "done": done, "total": total})

    def say(self, line: str) -> None:
        emit({"say": line})
