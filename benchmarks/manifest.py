"""How long a million-row manifest takes before the first image is opened.

    python benchmarks/manifest.py [--rows N]

Reads the table, encodes labels and an attribute, takes the splits, and looks for duplicates and for
missing files (a million empty ones are made first). For comparison, the plain way with
csv.DictReader and os.path.exists, which does less.
"""

from __future__ import annotations

import argparse
import csv
import os
import tempfile
import time
from pathlib import Path

from spare.datasets import locate
from spare.datasets.listing import existing_files
from spare.datasets.manifest import ImageColumns, read_listing
from spare.datasets.splits import Shares

FILES_PER_FOLDER = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "list.csv"
        with path.open("w") as file:
            file.write("path,label,split,place\n")
            for i in range(rows):
                name = f"{i // FILES_PER_FOLDER}/{i}.jpg"
                split = ("train", "val", "test")[i % 10 // 8 + (i % 10 == 9)]
                file.write(f"{name},{i % 5},{split},{i % 3}\n")
                if i % FILES_PER_FOLDER == 0:
                    (Path(folder) / name).parent.mkdir()
                os.close(os.open(Path(folder) / name, os.O_CREAT))
        started = time.perf_counter()
        assert locate(str(path)).kind == "manifest"
        listing = read_listing(path, ImageColumns(attributes=("place",)), Shares())
        listing = existing_files(listing, skip_bad=False, allow_outside=False)
        ours = time.perf_counter() - started

        started = time.perf_counter()
        with path.open(newline="") as file:
            listed = list(csv.DictReader(file))
        for row in listed:
            os.path.exists(os.path.join(folder, row["path"]))
        plain = time.perf_counter() - started
    print(f"{len(listing.names):,} rows: {ours:.1f} s before the first image is opened")
    print(f"csv.DictReader and os.path.exists, without labels or splits: {plain:.1f} s")


if __name__ == "__main__":
    main()
