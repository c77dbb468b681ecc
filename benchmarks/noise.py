"""The full sweep of `spare theory nsr`: five noises, five methods, all 50,000 images, 20 epochs.

    python benchmarks/noise.py run --out FOLDER [--data FOLDER] [--seeds 0 1 2] [--jobs 2]
    python benchmarks/noise.py take --out FOLDER --records FILE

`run` is `spare theory nsr` with the settings of the preset instead of its small ones. It can be
stopped at any time and started again: finished runs are kept in FOLDER/runs, and an unfinished one
continues where it was. The preset's 1,000 copies for JTT are for clean colors, where its first
model makes few mistakes; with the most noise it is wrong on thousands of images, and an epoch would
have millions. So JTT has 20 copies of each here, as in the small sweep.

`take` writes the records of all finished runs into one JSON file; it works for the folder of `spare
theory nsr`, too.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from measured import keep

from spare.api.theory import RUNS, run_study
from spare.files.reading import read_json

FULL: dict[str, Any] = {
    "noises": (0.0, 0.1, 0.25, 0.5, 1.0),
    "methods": ("erm", "jtt", "eiil", "gb", "spare"),
    "p_corr": 0.995,
    "train_size": 0,
    "epochs": 20,
    "upweight": 20,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("run", "take"))
    parser.add_argument("--out", type=Path, required=True, help="folder of the sweep")
    parser.add_argument("--data", type=Path, help="folder of data sets, which holds MNIST")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=0, help="runs at a time; 0 for all cores")
    parser.add_argument("--records", type=Path, help="file to write the records to")
    given = parser.parse_args()
    if given.what == "run":
        settings = {**FULL, "seeds": tuple(given.seeds), "jobs": given.jobs}
        print(run_study("nsr", out=given.out, data=given.data, settings=settings).study)
        return
    if given.records is None:
        parser.error("take needs --records FILE")
    records = taken(given.out / RUNS)
    keep(given.records, {"runs": records})
    print(f"{len(records)} runs are in {given.records}")


def taken(runs: Path) -> list[dict[str, Any]]:
    """The records of all finished runs, by noise, method and seed."""
    records = [read_json(path) for path in runs.glob("noise-*/*/run.json")]
    return sorted(records, key=lambda r: (r["settings"]["color_noise"], r["method"], r["seed"]))


if __name__ == "__main__":
    main()
