"""What is printed, on whatever it is printed to."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import numpy as np
import pytest

from spare.cli import console, main

ESCAPES = "cat\x1b[2J\x1b]0;x\x07\r\n\u202edog\x9b1m"


def printed(stream: io.TextIOWrapper) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode(stream.encoding)


def test_plus_minus_on_an_ascii_terminal(monkeypatch):
    out, errors = (io.TextIOWrapper(io.BytesIO(), encoding="ascii") for _ in range(2))
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", errors)
    console.open_streams()
    console.write("80.0 ± 1.2 Sjö 猫")
    console.complain("± x")
    assert printed(out) == "80.0 +/- 1.2 Sj\\xf6 \\u732b\n"
    assert printed(errors) == "+/- x\n"


def test_json_is_plain_ascii_and_never_nan(capsys):
    value = {"name": ESCAPES, "bytes": "\udcff", "umlaut": "ö"}
    console.write_json(value)
    out = capsys.readouterr().out
    assert json.loads(out) == value
    assert out.isascii()
    assert all(line.isprintable() for line in out.splitlines())
    with pytest.raises(ValueError, match="Out of range"):
        console.write_json({"x": float("nan")})


def test_terminal_escapes_in_class_names_are_not_printed_raw(capfd, tmp_path, monkeypatch):
    """In class names, attribute values, file names, warnings and errors."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    labels = np.arange(80) % 2
    np.savez(
        "data.npz",
        features=rng.normal(size=(80, 3)) + labels[:, None],
        label=np.array([ESCAPES, "b\x1b[31m"])[labels],
        place=np.array(["sea\x1b[1m", "land\n\x1b[2m"])[rng.integers(0, 2, 80)],
    )
    words = ["train", "data.npz", "--attributes", "place", "--set", "epochs=1"]
    for arguments in ([*words, "--out", "run\x1b[5m"], ["train", f"no{ESCAPES}"]):
        with pytest.raises(SystemExit):
            main(arguments)
    said = capfd.readouterr()
    assert "cat\\x1b[2J" in said.out
    assert "run\\x1b[5m" in said.out
    assert said.err.startswith(("warning", "spare: error"))
    assert "no" in said.err.splitlines()[-1]
    for text in (said.out, said.err):
        assert all(line.isprintable() for line in text.split("\n"))


def test_progress_bars_show_names_as_they_are(monkeypatch):
    pytest.importorskip("rich")
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "200")
    with console.Bars() as bars:
        bars.report("[red]x\x1b]0;y\x07:smile:/train", 1, 2)
        bars.say("[bold]\x1b[2J:smile:")
    shown = terminal.getvalue()
    assert "[red]x\\x1b]0;y\\x07:smile:: training" in shown
    assert "[bold]\\x1b[2J:smile:" in shown
    assert "\x1b]0;" not in shown


@pytest.mark.parametrize(
    ("redirection", "errors"),
    [
        (
            ">/dev/full",
            "spare: error: standard output cannot be written (No space left on device): what was "
            "made is kept.\n",
        ),
        (">&-", "spare: error: standard output is closed: what was made is kept.\n"),
        (">&- 2>&- <&-", ""),
        ("nosuch 2>/dev/full", ""),
        ("| true", ""),
    ],
)
def test_output_that_cannot_be_written_is_one_sentence(redirection, errors):
    words = f'"{sys.executable}" -m spare list rules {redirection}; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True)
    assert done.stderr == errors
    assert done.returncode in ((0, 1) if "|" in redirection else (1,))


def test_a_file_that_the_system_refuses_is_one_sentence(capfd, monkeypatch):
    def refuse(what, task, method):
        raise PermissionError(13, "Permission denied", "x\ny")

    monkeypatch.setattr("spare.cli.listing.listing", refuse)
    with pytest.raises(SystemExit) as ended:
        main(["list"])
    assert ended.value.code == 1
    assert capfd.readouterr().err == "spare: error: 'x\\ny': Permission denied.\n"
