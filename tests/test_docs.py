"""The documentation is true: its code runs, its commands parse, its tables are current."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from spare.cli import main
from spare.cli.program import app
from spare.datasets import locate
from spare.methods import METHODS
from spare.records.record import FORMAT
from spare.runs.plan import make_plan
from spare.runs.values import parse_overrides

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def test_the_own_loop_page_runs_as_it_stands(capsys):
    namespace: dict = {}
    for block in blocks(ROOT / "docs" / "own-loop.md", "python"):
        exec(compile(block, "docs/own-loop.md", "exec"), namespace)
    assert "worst group: plain" in capsys.readouterr().out


def test_the_page_on_scale_runs_as_it_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict = {}
    for block in blocks(ROOT / "docs" / "scale.md", "python"):
        exec(compile(block, "docs/scale.md", "exec"), namespace)
    assert namespace["found"].groups.is_file()


def test_the_readmes_two_lines_run():
    import numpy as np

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200)
    outputs = np.where(labels[:, None] == [0, 1], 0.9, 0.1) + rng.normal(0, 0.02, (200, 2))
    names = {"outputs": outputs, "labels": labels}
    (block,) = blocks(ROOT / "README.md", "python")
    exec(compile(block, "README.md", "exec"), names)
    assert len(names["sampler"]) == 200


def typed(line: str, capsys) -> str:
    """What a command of the docs prints, here."""
    with pytest.raises(SystemExit) as end:
        main(shlex.split(line.removeprefix("$ spare ")))
    out, err = capsys.readouterr()
    assert end.value.code == 0, (line, err)
    return out


def test_the_own_data_page_leads_from_a_folder_to_a_comparison(tmp_path, monkeypatch, capsys):
    """Its first four commands, as they stand, in a fresh folder."""
    page = ROOT / "docs" / "own-data.md"
    (mapping,) = blocks(page, "json")
    (tmp_path / "classes.json").write_text(mapping)
    commands = [block.strip() for block in blocks(page, "console")][:4]
    assert [command.split()[2] for command in commands] == ["data", "discover", "train", "bench"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPARE_CACHE", str(tmp_path / "cache"))
    said = [typed(command, capsys) for command in commands]
    assert (tmp_path / "found" / "class-0.png").is_file()
    assert (tmp_path / "found" / "groups.parquet").is_file()
    assert "INFERRED groups" in said[2]
    assert "erm" in said[3]
    assert (tmp_path / "compared" / "report.html").is_file()


def test_the_page_on_adding_a_method_adds_one(tmp_path):
    """Its file and its first command, as they stand, in a fresh folder."""
    page = ROOT / "docs" / "adding-a-method.md"
    (file,) = blocks(page, "python")
    (tmp_path / "mine.py").write_text(file)
    command = blocks(page, "console")[0].strip().removeprefix("$ ")
    words = [sys.executable, "-m", *shlex.split(command), "--json"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    rows = {row["method"]: row for row in json.loads(done.stdout)["rows"]}
    assert rows["mine:METHOD"]["options"]["sharpness"] == 2.0
    assert rows["mine:METHOD"]["cost"]["examples"] == pytest.approx(1.25)
    assert rows["mine:METHOD"]["seeds"] == [0, 1]
    assert (tmp_path / "runs" / "mine" / "mine-METHOD-seed1" / "run.json").is_file()


def test_the_page_on_adding_a_data_set_adds_one(tmp_path):
    """Its file and its command, as they stand, in a fresh folder."""
    page = ROOT / "docs" / "adding-a-data-set.md"
    (file,) = blocks(page, "python")
    (tmp_path / "mine.py").write_text(file)
    command = blocks(page, "console")[0].strip().removeprefix("$ ")
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(command), "--json"],
        cwd=tmp_path, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = {row["method"]: row for row in json.loads(done.stdout)["rows"]}
    assert set(rows) == {"erm", "spare"}
    assert rows["spare"]["settings"]["p_corr"] == 0.95
    assert rows["spare"]["options"]["separate_at"] == 2
    assert (tmp_path / "runs" / "mine" / "report.html").is_file()


def test_the_python_page_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace: dict = {"__name__": "notebook"}
    for block in blocks(ROOT / "docs" / "python.md", "python"):
        exec(compile(block, "docs/python.md", "exec"), namespace)
    printed = capsys.readouterr().out
    assert "shortcut found" in printed
    plain, robust = re.search(r"worst group: plain ([\d.]+), SPARE ([\d.]+)", printed).groups()
    assert float(robust) > float(plain) + 0.3
    assert namespace["found"].report.is_file()
    assert "train" in namespace["seen"]


def test_the_page_on_reports_makes_what_it_shows(tmp_path, monkeypatch, capsys):
    """All of its commands, in order, in a fresh folder; training is cut short."""
    page = ROOT / "docs" / "reading-a-report.md"
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    verbs = [line.split()[2] for line in lines]
    assert verbs == ["discover", "train", "report", "bench", *["figure"] * 7]
    for line, verb in zip(lines, verbs, strict=True):
        shorter = " --set epochs=2" if verb in ("train", "bench") else ""
        typed(line.replace("--seeds 0,1,2", "--seeds 0") + shorter, capsys)
    figures = {line.split()[-1] for line in lines if " figure " in line}
    assert {path.name for path in tmp_path.glob("*.png")} == figures
    for folder in ("found", "trained", "both"):
        assert (tmp_path / folder / "report.html").stat().st_size > 20_000


COMMANDS = [
    (page.name, line.removeprefix("$ spare "))
    for page in PAGES
    for block in blocks(page, "console")
    for line in block.splitlines()
    if line.startswith("$ spare ")
]


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_every_command_in_the_docs_parses(page, command):
    app.parse_args(shlex.split(command), exit_on_error=False, print_error=False)


def test_the_docs_have_commands():
    assert len(COMMANDS) >= 8


def test_what_the_page_on_departures_names_exists():
    """Methods, and settings that each of them has."""
    page = (ROOT / "docs" / "departures.md").read_text()
    rows = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) > 20
    source = locate("cmnist")
    for first, *_, way in rows:
        given = [pair for pair in re.findall(r"--set (\S+?)(?=[`\s])", way) if "..." not in pair]
        for name in re.findall(r"`(\w+)`", first):
            make_plan(source, METHODS[name], parse_overrides(given))


def test_make_targets_in_the_docs_exist():
    makefile = (ROOT / "Makefile").read_text()
    for page in PAGES:
        for target in re.findall(r"^\$ make ([\w-]+)", page.read_text(), re.MULTILINE):
            assert f"\n{target}:" in makefile


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not link.startswith("http"):
            assert (page.parent / link).exists(), link


def test_made_pages_are_what_the_results_give():
    script = ROOT / "docs" / "make_results.py"
    assert subprocess.run([sys.executable, script, "--check"]).returncode == 0


#: Numbers that no run of ours gives: hyperparameters, bounds, and what the paper says in words.
NO_SCORES = {"0.001", "0.01", "7.6", "3.7", "1.9", "1.06", "91.6", "86.2", "87.6"}


@pytest.mark.parametrize("template", sorted((ROOT / "docs").glob("*.md.j2")), ids=lambda p: p.stem)
def test_every_score_of_a_made_page_comes_from_a_record(template):
    """Its source has no decimals of its own, but for the part on cost, which has commands."""
    text = template.read_text().partition("\n## Cost\n")[0]
    text = re.sub(r"\{\{.*?\}\}", "", text, flags=re.DOTALL)
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"\d+\.\d+", text)) <= NO_SCORES


STUDIES = sorted(path.parent for path in (ROOT / "results").glob("*/about.json"))


def test_results_hold_studies_and_measurements_only():
    for path in (ROOT / "results").rglob("*"):
        if path.parent in STUDIES:
            known = ("about.json", "runs.jsonl", "seeds.csv")
            assert path.name in known, f"{path} does not belong in a study"
        else:
            known = path.is_dir() or path.suffix in (".json", ".csv")
            assert known, f"{path} does not belong in results/"


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_a_study_has_one_line_per_run_in_the_present_format(study):
    about = json.loads((study / "about.json").read_text())
    assert about["command"].startswith("spare ")
    lines = (study / "runs.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert {record["format"] for record in records} == {FORMAT}
    runs = [(position(record["method"]), record["method"], record["seed"]) for record in records]
    assert runs == sorted(runs)
    assert len(runs) == len(set(runs)) > 0
    assert all(record["scores"] and record["settings"] for record in records)


def position(method: str) -> int:
    """Where a method is shown; pairs, which have no name of their own, come last."""
    names = list(METHODS)
    return names.index(method) if method in names else len(names)
