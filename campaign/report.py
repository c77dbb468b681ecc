"""docs/reliability.md, from the counts in results/reliability and nothing else.

python -m campaign.report           write the page
python -m campaign.report --check   exit with 1 if the page is not what would be written
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from campaign.common import ROOT

RESULTS = ROOT / "results" / "reliability"
PAGE = ROOT / "docs" / "reliability.md"


class Part(NamedTuple):
    """What is said of a part, and how it is called in the long form."""

    title: str
    what: str
    long: tuple[str, ...]


PARTS = {
    "kills": Part(
        "Kills at random moments",
        "`kill -9`, SIGTERM and SIGINT at random moments of `train` (with every method there "
        "was at the time), `discover`, `bench` (itself or a worker), `report` and `data`; the same "
        "command is given again, perhaps killed again, and must end with the numbers of an "
        "undisturbed run, nothing blocked and nothing stray. A case is one kill.",
        ("--cases", "200"),
    ),
    "inputs": Part(
        "Hostile inputs",
        "Generated files, tables, images, settings and names that no one should bring: each must "
        "be used or refused in one sentence, without a traceback, a signal, a minute's wait or "
        "more memory than stated.",
        ("--cases", "2000"),
    ),
    "folders": Part(
        "Damaged and malicious folders",
        "Run folders with files that are cut, changed, exchanged or made to deceive: one sentence "
        "each, nothing imported, nothing read or written outside.",
        ("--cases", "500"),
    ),
    "properties": Part(
        "Properties of public functions and readers",
        "Hypothesis draws arguments: only documented errors are raised, and probabilities are "
        "finite, not negative and sum to 1.",
        ("--cases", "10000"),
    ),
    "fuzz": Part(
        "Fuzzing of every reader",
        "atheris, guided by coverage, changes bytes of valid files, for half an hour altogether: "
        "no crash, no hang, nothing raised but our own errors. A case is one execution.",
        ("--seconds", "1800"),
    ),
    "disks": Part(
        "Full and read-only disks, data that goes away",
        "A disk that is full at a random write, read-only media, a cache that is full or damaged, "
        "pictures that are removed or changed during a run: one sentence, earlier results intact, "
        "and the same command ends well when all is mended.",
        ("--cases", "60"),
    ),
    "grid": Part(
        "A bench of which a fifth fails",
        "A random fifth of the runs raises, crashes, exits or returns nonsense: the others finish, "
        "the table says which failed and why, and the same command does only those. A case is one "
        "run.",
        ("--cases", "100"),
    ),
    "endurance": Part(
        "Long training",
        "Thousands of epochs of the demo in one process, whose memory must stay flat; and the peak "
        "memory of an ordinary run.",
        ("--epochs", "2000"),
    ),
    "versions": Part(
        "Other versions",
        "The default tests with every dependency at its oldest allowed version, and on every "
        "Python with the newest, each in a fresh environment. A case is one environment.",
        (),
    ),
}
#: After the name of a kind of input, in the counts: those that were used and not refused.
ACCEPTED = " accepted"
INTRODUCTION = """# Reliability

What happens when things go wrong: the process is killed, the disk is full, the input is damaged or
made to do harm. Each kind of fault is tried many times by a script in [campaign/](../campaign), and
this page has the counts. It is made from the files in `results/reliability` alone; a test checks
that it is up to date. Short forms of all parts are in `make test`.

```console
$ make check-all
```

runs every part in the long form and writes this page again: some hours on two cores.
`make check-all ONLY=kills,disks` runs some of them, and `python -m campaign.kills --cases 20
--seed 1` one, with other cases. Which inputs may be hostile, and what is promised, is in
[SECURITY.md](../SECURITY.md).
"""


def page() -> str:
    """The whole page."""
    results = {name: _read(name) for name in PARTS}
    lines = [INTRODUCTION, *_summary(results), ""]
    for name, part in PARTS.items():
        lines += [f"## {part.title}", "", part.what, ""]
        lines += _details(name, results[name])
    return "\n".join(lines).rstrip() + "\n"


def _read(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _summary(results: dict[str, dict[str, Any] | None]) -> list[str]:
    rows = [["fault", "cases", "failures", "slowest case", "peak memory", "date", "commit"]]
    for name, result in results.items():
        title = f"[{PARTS[name].title}](#{_anchor(PARTS[name].title)})"
        if result is None:
            rows.append([title, "not run yet", *[""] * 5])
            continue
        slowest, peak = (_number(result, key) for key in ("slowest_seconds", "peak_memory_mb"))
        rows.append(
            [
                title,
                f"{result['cases']:,}",
                f"{result['failures']:,}",
                f"{slowest:,.1f} s" if slowest else "-",
                f"{peak:,.0f} MB" if peak else "-",
                result.get("date", "-"),
                f"`{result['commit']}`" if "commit" in result else "-",
            ]
        )
    return _table(rows)


def _number(result: dict[str, Any], key: str) -> float:
    value = result.get(key, result.get("details", {}).get(key))
    return float(value) if isinstance(value, int | float) else 0.0


def _details(name: str, result: dict[str, Any] | None) -> list[str]:
    if result is None:
        return [f"Not run yet: `make check-all ONLY={name}`.", ""]
    minutes = result["seconds"] / 60
    took = f"{minutes:,.0f} minute{'s' if round(minutes) != 1 else ''}"
    lines = [f"{result['cases']:,} cases in {took}.", ""]
    if result.get("slowest"):
        lines += [f"The slowest was: {_cell(result['slowest'])}.", ""]
    details = {
        key: value
        for key, value in result.get("details", {}).items()
        if key not in ("slowest_seconds", "peak_memory_mb") and not isinstance(value, list)
    }
    lines += _single_values({k: v for k, v in details.items() if not isinstance(v, dict)})
    for key, value in details.items():
        if isinstance(value, dict) and value:
            lines += [f"{_words(key)}:", "", *_table(_rows(value)), ""]
    for failed in result.get("failed", []):
        failed = failed if isinstance(failed, dict) else {"case": str(failed)}
        lines.append(f"- **failed**: {_cell(failed.get('case', ''))}: "
                     f"{_cell(failed.get('problem', ''))}")  # fmt: skip
        if failed.get("again"):
            lines.append(f"  Repeat it with `{_cell(failed['again'])}`.")
    return [*lines, ""] if lines[-1] else lines


def _words(key: str) -> str:
    return key.capitalize().replace("_", " ")


def _single_values(values: dict[str, Any]) -> list[str]:
    """One sentence each; or, where those that were accepted are counted too, one table."""
    if not any(key.endswith(ACCEPTED) for key in values):
        return [
            line
            for key, value in values.items()
            for line in (f"{_words(key)}: {_cell(value)}.", "")
        ]
    rows = [
        [_words(key), _cell(value), _cell(values.get(f"{key}{ACCEPTED}", ""))]
        for key, value in values.items()
        if not key.endswith(ACCEPTED)
    ]
    return [*_table([["", "cases", "accepted"], *rows]), ""]


def _rows(values: dict[str, Any]) -> list[list[str]]:
    """A table of one value, or of several by name, for each key."""
    if all(isinstance(value, dict) for value in values.values()):
        names = list(dict.fromkeys(name for value in values.values() for name in value))
        return [["", *names]] + [
            [_cell(key), *(_cell(value.get(name, "")) for name in names)]
            for key, value in values.items()
        ]
    return [["", ""], *([_cell(key), _cell(value)] for key, value in values.items())]


def _cell(value: Any) -> str:
    """As one short line that a table of Markdown can hold."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_cell(part)}" for key, part in value.items())
    text = " ".join(str(value).split()).replace("|", "\\|").replace("<", "&lt;")
    return text if len(text) <= 400 else f"{text[:400]}..."


def _anchor(title: str) -> str:
    return title.lower().replace(",", "").replace(" ", "-")


def _table(rows: list[list[str]]) -> list[str]:
    marked = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return ["| " + " | ".join(cells) + " |" for cells in marked]


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args(words).check:
        current = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
        return int(page() != current)
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {Path(PAGE).relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
