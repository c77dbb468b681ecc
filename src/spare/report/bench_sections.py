"""What is said of a bench, in sections."""

from __future__ import annotations

from spare.records.bench_table import BenchTable, Spread
from spare.records.labels import labels_used
from spare.report.sections import Section, percent


def bench_sections(table: BenchTable) -> list[Section]:
    """Every method over its seeds, how far SPARE is above each, and the runs that failed."""
    rows = table["rows"]
    split = rows[0]["split"] if rows else "test"
    sections = [
        Section(
            f"{split} split; mean ± standard deviation over seeds, in %; cost: examples passed "
            f"through a model, relative to erm",
            ["method", "worst group", "average", "last epoch: worst", "average", "cost", "seconds",
             "peak MB", "training used", "selection used", "rule", "seeds"],
            [
                [
                    row["method"],
                    mean_text(row["selected"].get("worst_group")),
                    mean_text(row["selected"].get("average")),
                    mean_text(row["last"].get("worst_group")),
                    mean_text(row["last"].get("average")),
                    f"{row['cost']['examples']:.2f}" if "cost" in row else "-",
                    f"{row['seconds']:.0f}",
                    f"{row['peak_memory_mb']:.0f}",
                    *labels_used(row),
                    row["selection"],
                    ",".join(map(str, row["seeds"])),
                ]
                for row in rows
            ],
        )
    ]  # fmt: skip
    compared = [
        [
            row["method"],
            *(
                difference_text(row["spare_minus_this"][when][name])
                for when in ("selected", "last")
                for name in ("worst_group", "average")
            ),
            ",".join(map(str, row["spare_minus_this"]["seeds"])),
        ]
        for row in rows
        if "spare_minus_this" in row
    ]
    if compared:
        sections.append(
            Section(
                "spare minus each, in points, over the seeds that both have (95 % interval):",
                ["method", "worst group", "average", "last epoch: worst", "average", "seeds"],
                compared,
            )
        )
    failures = table.get("failures", [])
    if failures:
        sections.append(
            Section(
                "runs that failed, and are in no row; the same command tries them again:",
                ["method", "seed", "why"],
                [[run["method"], str(run["seed"]), run["why"]] for run in failures],
            )
        )
    return sections


def mean_text(score: Spread | None) -> str:
    """Mean and standard deviation in percent; one seed has no deviation."""
    if score is None:
        return "-"
    return percent(score["mean"]) + (f" ± {percent(score['sd'])}" if score["interval"] else "")


def difference_text(score: Spread) -> str:
    """A difference in points, with its interval where there is one."""
    mean = f"{100 * score['mean']:+.1f}"
    if score["interval"] is None:
        return mean
    low, high = score["interval"]
    return f"{mean} ({100 * low:+.1f} to {100 * high:+.1f})"
