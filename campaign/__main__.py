"""Everything in the long form, one part after the other: `make check-all`.

    python -m campaign                      all parts: some hours on two cores
    python -m campaign --only kills,disks   some of them

A part that fails does not keep the others from being tried. Each leaves a file in
results/reliability, with its date and the commit; docs/reliability.md is then made from these.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

from campaign import report
from campaign.common import ROOT, environment
from campaign.report import PARTS, RESULTS


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names of parts, separated by commas")
    only = parser.parse_args(words).only
    names = [name for name in only.split(",") if name] or list(PARTS)
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    commit = _commit()  # before any file is written that belongs to it
    failed = []
    for name in names:
        print(f"\n=== {name}: {PARTS[name].title}", flush=True)
        if not run_part(name, commit):
            failed.append(name)
    report.main([])
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nno part failed")
    return 1 if failed else 0


def run_part(name: str, commit: str) -> bool:
    """One part in a process of its own; whether it went well."""
    if importlib.util.find_spec(f"campaign.{name}") is None:
        print(f"there is no campaign/{name}.py")
        return False
    out = RESULTS / f"{name}.json"
    out.unlink(missing_ok=True)
    command = [sys.executable, "-m", f"campaign.{name}", *PARTS[name].long, "--out", str(out)]
    ended = subprocess.run(command, cwd=ROOT, env=environment())
    if not out.is_file():
        problem = f"the script itself ended with code {ended.returncode} and wrote nothing"
        again = f"python -m campaign.{name} {' '.join(PARTS[name].long)}"
        failed = [{"case": "all", "problem": problem, "again": again}]
        result = {"name": name, "cases": 0, "failures": 1, "failed": failed, "seconds": 0}
        stamp(out, result, commit)
        return False
    stamp(out, json.loads(out.read_text(encoding="utf-8")), commit)
    return ended.returncode == 0


def stamp(out: Path, result: dict[str, object], commit: str) -> None:
    """Write a result with the day and the commit that it is of."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    out.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**result, "date": today, "commit": commit}, indent=2, ensure_ascii=False)
    out.write_text(text + "\n", encoding="utf-8")


def _commit() -> str:
    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
