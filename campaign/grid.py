"""A bench of many runs of which a random fifth fails, in every way that a run can.

    python -m campaign.grid --cases 100 --seed 0

A case is one run. The method is someone's own, in a file beside the data: it trains as `erm` does,
but for chosen seeds it raises, is killed, exits, or returns nonsense. The others must finish; the
table, the printed table and the page must name those that failed, and why; the same command must
try only those again; and when the method is mended, all must be there.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from pathlib import Path

import numpy as np

from campaign.common import Tally, arguments_of, call_spare, scratch, strays

#: What a run that fails does, and a part of what the table must say of it.
FAULTS = {
    "raises": "no luck today",
    "segfaults": "SIGSEGV",
    "is killed": "SIGKILL",
    "exits": "ended with code 3",
    "exits well": "ended with code 0",
    "returns nonsense": "NoneType",
    "refuses": "this method does not like the data",
}
METHOD = """
import json, os, signal, sys
from dataclasses import replace
from pathlib import Path
from spare.errors import InputError
from spare.methods import method_named

HERE = Path(__file__).parent
plain = method_named("erm")

def fit(task, stages, options):
    with open(HERE / "tried.txt", "a") as file:
        file.write(f"{stages.seed}\\n")
    fault = json.loads((HERE / "faults.json").read_text()).get(str(stages.seed))
    if fault == "raises":
        raise ValueError("no luck today")
    if fault == "segfaults":
        os.kill(os.getpid(), signal.SIGSEGV)
    if fault == "is killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "exits":
        os._exit(3)
    if fault == "exits well":
        os._exit(0)
    if fault == "returns nonsense":
        return None
    if fault == "refuses":
        raise InputError("this method does not like the data.")
    return plain.fit(task, stages, options)

METHOD = replace(plain, name="faulty", fit=fit)
"""


def main(words: list[str] | None = None) -> int:
    options = arguments_of(__doc__, cases=100, words=words)
    rng = random.Random(options.seed)
    seeds = list(range(options.cases))
    failing = sorted(rng.sample(seeds, max(1, options.cases // 5)))
    kinds = [list(FAULTS)[number % len(FAULTS)] for number in range(len(failing))]
    rng.shuffle(kinds)
    faults = dict(zip(failing, kinds, strict=True))
    tally = Tally("grid", {"runs": len(seeds), "failing": len(faults), "runs tried": {}})
    tally.details["faults"] = {kind: kinds.count(kind) for kind in FAULTS if kind in kinds}
    with scratch("grid") as folder:
        problems = try_grid(folder, seeds, faults, tally)
        records = [json.loads(path.read_text()) for path in folder.glob("out/*/run.json")]
        took = {record["seed"]: record["seconds"]["total"] for record in records}
    again = f"python -m campaign.grid --cases {options.cases} --seed {options.seed}"
    for seed in seeds:
        what = f"a run that {faults[seed]}" if seed in faults else "a run that must not be hurt"
        problem = problems.get(seed, "")
        tally.add(f"seed {seed}, {what}", problem, again=again, seconds=took.get(seed, 0.0))
    tally.peak_memory_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    for problem in problems.get(-1, "").split("\n"):
        if problem:
            tally.add("the bench as a whole", problem, again=again)
    return tally.finish(options.out)


def try_grid(
    folder: Path, seeds: list[int], faults: dict[int, str], tally: Tally
) -> dict[int, str]:
    """What is wrong, by seed; -1 for the bench as a whole."""
    problems: dict[int, str] = {}

    def wrong(seed: int, what: str) -> None:
        problems[seed] = "\n".join(filter(None, [problems.get(seed, ""), what]))

    labels = np.arange(60) % 2
    features = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    np.savez(folder / "data.npz", x=features + labels[:, None], y=labels)
    (folder / "faulty.py").write_text(METHOD)
    words = ["bench", "data.npz", "--methods", "faulty:METHOD", "--out", "out"]
    words += ["--seeds", ",".join(map(str, seeds)), "--set", "epochs=1"]
    out = folder / "out"

    def bench(which: dict[int, str], what: str) -> tuple[str, set[int]]:
        """Give the command; returns what it printed, and which seeds it tried."""
        (folder / "faults.json").write_text(json.dumps(which))
        (folder / "tried.txt").write_text("")
        started = time.monotonic()
        ended = call_spare(words, cwd=folder, seconds=60 + 20 * len(seeds))
        print(f"{what}: code {ended.code} after {time.monotonic() - started:.0f} s", flush=True)
        if ended.traceback():
            wrong(-1, f"a traceback ({what}): {ended.err[-500:]!r}")
        if ended.code != (1 if which else 0):
            wrong(-1, f"code {ended.code} ({what}): {ended.err[-500:]!r}")
        if which and sum(line.startswith("spare: ") for line in ended.err.splitlines()) != 1:
            wrong(-1, f"it did not end with one sentence ({what}): {ended.err[-500:]!r}")
        tried = [int(line) for line in (folder / "tried.txt").read_text().split()]
        for seed in {seed for seed in tried if tried.count(seed) > 1}:
            wrong(seed, f"it was tried {tried.count(seed)} times ({what})")
        return ended.out, set(tried)

    def check(which: dict[int, str], what: str, printed: str) -> None:
        table = json.loads((out / "table.json").read_text())
        done = {seed for row in table["rows"] for seed in row["seeds"]}
        failed = {run["seed"]: run["why"] for run in table.get("failures", [])}
        page = (out / "report.html").read_text()
        lines = [line.split() for line in printed.splitlines()]
        for seed in seeds:
            if (seed in done) != (seed not in which):
                wrong(seed, f"{'not ' if seed not in done else ''}in a row of the table ({what})")
            if (seed in failed) != (seed in which):
                wrong(seed, f"the table says {failed.get(seed, 'nothing')!r} ({what})")
            if seed in which:
                why = FAULTS[which[seed]]
                if why not in failed.get(seed, ""):
                    wrong(seed, f"the reason is {failed.get(seed)!r}, not {why!r} ({what})")
                if not any(cells[:2] == ["faulty:METHOD", str(seed)] for cells in lines):
                    wrong(seed, f"the printed table does not name it ({what})")
                if f'<td class="number">{seed}</td>' not in page:
                    wrong(seed, f"the page does not name it ({what})")

    printed, tried = bench(faults, "first")
    tally.details["runs tried"]["at first"] = len(tried)
    check(faults, "first", printed)
    kept = {path: path.read_bytes() for path in out.glob("*/run.json")}

    half = dict(list(faults.items())[::2])
    printed, tried = bench(half, "with half of them mended")
    tally.details["runs tried"]["when half were mended"] = len(tried)
    if tried != set(faults):
        wrong(-1, f"given again it tried {sorted(tried)}, not those that had failed")
    check(half, "with half of them mended", printed)

    printed, tried = bench({}, "with all of them mended")
    tally.details["runs tried"]["when all were mended"] = len(tried)
    if tried != set(half):
        wrong(-1, f"given again it tried {sorted(tried)}, not those that had failed twice")
    check({}, "with all of them mended", printed)
    if any(path.read_bytes() != content for path, content in kept.items()):
        wrong(-1, "a run that was complete was changed")
    left = strays(out)
    if left:
        wrong(-1, f"left behind: {', '.join(left)}")
    return problems


if __name__ == "__main__":
    sys.exit(main())
