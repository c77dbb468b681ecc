"""The default tests with the oldest allowed version of every dependency, and on every Python.

    python -m campaign.versions --which oldest,3.12,3.13

Each combination gets a fresh virtual environment (about 6 GB, removed afterwards) and a clone of
the last commit. `oldest` is the oldest Python with every dependency at its lower bound; a number is
that Python with the newest versions.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from campaign.common import ROOT, Tally, arguments_of, environment, scratch

PYTHONS = ("3.11", "3.12", "3.13")
OLDEST = "oldest"
#: What a virtual environment and the packages on their way into it take at most.
ROOM = 12 * 1024**3


def main(words: list[str] | None = None) -> int:
    given = arguments_of(__doc__, cases=0, words=words, which=f"{OLDEST},{','.join(PYTHONS)}")
    tally = Tally("versions", {"combinations": {}, "skipped": {}})
    for which in given.which.split(","):
        python = interpreter(PYTHONS[0] if which == OLDEST else which)
        if python is None:
            _skip(tally, which, f"Python {which} is not on this machine.")
        elif shutil.disk_usage(Path.home()).free < ROOM:
            _skip(tally, which, f"less than {ROOM // 1024**3} GB of disk are free.")
        else:
            started = time.monotonic()
            with scratch("versions") as folder:
                found, problem = try_versions(which, python, folder)
            tally.details["combinations"][which] = found
            again = f"python -m campaign.versions --which {which}"
            tally.add(which, problem, again=again, seconds=time.monotonic() - started)
    return tally.finish(given.out)


def _skip(tally: Tally, which: str, why: str) -> None:
    print(f"{which} is skipped: {why}")
    tally.details["skipped"][which] = why


def interpreter(version: str) -> Path | None:
    """A Python of this version: the one that runs, one on the path, or one that pyenv has."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return Path(sys.executable)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))]
    for candidate in filter(None, candidates):
        words = [str(candidate), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        answer = subprocess.run(words, capture_output=True, text=True)  # a shim may only complain
        if answer.stdout.strip() == version:
            return Path(candidate)
    return None


def lower_bounds(project: Path) -> list[str]:
    """Every dependency and extra of pyproject.toml at its lower bound, as pip's constraints."""
    declared = tomllib.loads(project.read_text())
    wanted = [
        *declared["project"]["dependencies"],
        *(one for extra in declared["project"]["optional-dependencies"].values() for one in extra),
    ]
    bounds = []
    for requirement in wanted:
        match = re.match(r"([\w.-]+)>=([\w.]+)", requirement)
        if match is None:
            raise ValueError(f"{requirement} of {project} has no lower bound")
        bounds.append(f"{match[1]}=={match[2]}")
    return bounds


def try_versions(which: str, python: Path, folder: Path) -> tuple[dict[str, object], str]:
    """Install and test one combination; returns what was tested, and what was wrong."""
    clone, pip_log = folder / "clone", folder / "pip.txt"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    subprocess.run([str(python), "-m", "venv", str(folder / "venv")], check=True)
    inside = folder / "venv" / "bin" / "python"
    pip = [str(inside), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    words = ["--editable", str(clone), "--group", f"{clone / 'pyproject.toml'}:dev"]
    if which == OLDEST:
        constraints = folder / "oldest.txt"
        constraints.write_text("\n".join(lower_bounds(clone / "pyproject.toml")) + "\n")
        words += ["--constraint", str(constraints)]
    with pip_log.open("w") as log:
        newer = subprocess.run([*pip, "--upgrade", "pip>=25.1"], stdout=log, stderr=log)
        done = (
            newer.returncode
            or subprocess.run([*pip, "--no-cache-dir", *words], stdout=log, stderr=log).returncode
        )
    if done:
        errors = [line for line in pip_log.read_text().splitlines() if "ERROR" in line]
        return {"installed": False}, f"it cannot be installed: {' '.join(errors)[:500]}"
    listed = json.loads(
        subprocess.run(
            [*pip[:-2], "list", "--format", "json"], capture_output=True, text=True
        ).stdout
    )
    versions = {one["name"].lower().replace("_", "-"): one["version"] for one in listed}
    versions["python"] = subprocess.run(
        [str(inside), "-c", "import platform; print(platform.python_version())"],
        capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    tested = subprocess.run(
        [str(inside), "-m", "pytest", "-n", "2", "--dist", "worksteal", "-p", "no:cacheprovider"],
        cwd=clone,
        env=environment() | {"PYTHONPATH": ""},
        capture_output=True,
        text=True,
    )
    found = {
        "installed": True,
        "versions": {name: versions[name] for name in _shown(clone / "pyproject.toml", versions)},
        "tests": _counts(tested.stdout),
    }
    if tested.returncode == 0:
        return found, ""
    lines = [line for line in tested.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    found["failed_tests"] = lines[:20]
    print(tested.stdout)
    return found, f"tests fail: {_counts(tested.stdout)} {'; '.join(lines)[:800]}"


def _shown(project: Path, versions: dict[str, str]) -> list[str]:
    names = [bound.split("==")[0] for bound in lower_bounds(project)]
    return ["python", *(name for name in names if name in versions)]


def _counts(said: str) -> str:
    """The last line of pytest, without its decoration."""
    lines = [line for line in said.splitlines() if re.search(r"\d+ (passed|failed|error)", line)]
    return lines[-1].strip("= ") if lines else "no tests ran"


if __name__ == "__main__":
    sys.exit(main())
