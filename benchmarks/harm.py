"""Does the default do harm? SPARE and bridge beside plain training, on what is planted in pictures.

    python benchmarks/harm.py --images FOLDER [--kinds tint,texture] [--seeds 0,1,2] [--out FOLDER]

For each kind of shortcut (planted.py; `none` for pictures as they are), each seed and each method:
one run with everything by default, on two classes of natural pictures. `gb`, which is given what
was planted, shows what is possible. Finished runs are kept, so it can be interrupted; prints a
table and writes harm.json.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from measured import keep
from planted import KINDS, planted, write

import spare

METHODS = ("erm", "spare", "bridge", "gb")
NOTHING = "none"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--kinds", default=",".join([NOTHING, *KINDS]))
    parser.add_argument("--classes", default="dog,insect")
    parser.add_argument("--agreement", type=float, default=0.95)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--count", type=int, default=1500, help="pictures of each class")
    parser.add_argument("--side", type=int, default=48)
    parser.add_argument("--faint", type=int, default=8, help="how bright a texture is")
    parser.add_argument("--model", default="small_cnn")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--out", type=Path, default=Path("runs/harm"))
    given = parser.parse_args()
    print(f"kind       seed  {'  '.join(f'{m:>6}' for m in METHODS)}   recall  precision  verdict")
    rows = []
    for kind in given.kinds.split(","):
        for seed in map(int, given.seeds.split(",")):
            row = measured(kind, seed, given)
            rows.append(row)
            found = row["found"]
            print(
                f"{kind:10} {seed:4}  "
                + "  ".join(f"{100 * row['worst_group'][m]:6.1f}" for m in METHODS)
                + f"   {found['recall']:6.2f}  {found['precision']:9.2f}  {found['verdict']}",
                flush=True,
            )
            about = {key: value for key, value in vars(given).items() if not _is_place(value)}
            keep(given.out / "harm.json", about | {"rows": rows})
    for method in ("spare", "bridge"):
        least = min(row["worst_group"][method] - row["worst_group"]["erm"] for row in rows)
        print(f"{method} minus plain training, at least: {100 * least:+.1f}")


def measured(kind: str, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """The worst group on test of every method, and what SPARE found."""
    name = f"{kind}-{given.agreement:g}-{given.faint}-{seed}"
    data = given.out / "data" / name
    first, second = given.classes.split(",")
    if not (data / "data.csv").exists():
        planting = "" if kind == NOTHING else kind
        made = planted(
            given.images, planting, given.agreement if planting else 0.5, seed,
            classes=(first, second), count=given.count, side=given.side, faint=given.faint,
        )  # fmt: skip
        write(data, *made, (first, second))
    bench = spare.bench(
        data / "data.csv", methods=METHODS, seeds=[seed], out=given.out / name, jobs=1,
        report=False, model=given.model, attributes="planted", resize=given.side, crop=given.side,
        **dict(pair.split("=", 1) for pair in given.set),
    )  # fmt: skip
    records = {run.record["method"]: run.record for run in bench.runs}
    classes = records["spare"]["discovery"].values()
    return {
        "kind": kind,
        "seed": seed,
        "worst_group": {m: records[m]["scores"]["test"]["last"]["worst_group"] for m in METHODS},
        "average": {m: records[m]["scores"]["test"]["last"]["average"] for m in METHODS},
        "found": {
            "recall": min(each["recall"] or 0.0 for each in classes),
            "precision": min(each["precision"] or 0.0 for each in classes),
            "verdict": records["spare"]["verdict"]["overall"],
        },
        "early_epochs": records["spare"]["notes"]["early_epochs"],
    }


def _is_place(value: Any) -> bool:
    return isinstance(value, Path)


if __name__ == "__main__":
    main()
