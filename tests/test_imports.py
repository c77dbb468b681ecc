"""Code of the user's own is known by its content: the same code by the same digits."""

from __future__ import annotations

import functools
import subprocess
import sys

import pytest

from spare.imports import code_digest

MODULE = """
WIDTH = 3

def helper():
    return WIDTH

class Base:
    def size(self):
        return helper()

class Net(Base):
    def __call__(self):
        return self.size()

def make(classes, depth=2):
    return [Net() for _ in range(depth)]
"""


def digest_in(folder, text):
    (folder / "module_of_a_test.py").write_text(text)
    code = (
        "from functools import partial; from spare.imports import code_digest;"
        "from module_of_a_test import *;"
        "made = make, partial(make, 3), partial(partial(make)), Net, Net(), Net().size;"
        "print(*map(code_digest, made))"
    )
    path = [str(folder), *sys.path]
    done = subprocess.run(
        [sys.executable, "-B", "-c", f"import sys; sys.path[:] = {path}; {code}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.split()


def test_what_code_uses_of_its_own_module_is_part_of_it(tmp_path):
    before = digest_in(tmp_path, MODULE)
    assert len(set(before)) == 6
    assert digest_in(tmp_path, MODULE) == before  # in another process too
    assert digest_in(tmp_path, MODULE + "\ndef unused():\n    pass\n") == before
    after = digest_in(tmp_path, MODULE.replace("WIDTH = 3", "WIDTH = 4"))
    assert not set(after) & set(before)
    after = digest_in(tmp_path, MODULE.replace("depth=2", "depth=3"))
    assert not set(after[:3]) & set(before)
    assert after[3:] == before[3:]


class Maker:
    def __init__(self, width):
        self.width = width

    def __call__(self):
        return self.width


def closure(width):
    def make():
        return width

    return make


@pytest.mark.parametrize(
    "make", [closure, Maker, lambda width: functools.partial(closure, width=width),
             lambda width: Maker(width).__call__]
)  # fmt: skip
def test_values_that_a_callable_was_made_with_count(make):
    assert code_digest(make(2)) == code_digest(make(2)) != code_digest(make(3))


def test_two_lambdas_of_one_line_differ():
    first, second, third = (lambda x: x in {1, 2}), (lambda x: x in {1, 3}), (lambda x: x in {2, 1})
    assert code_digest(first) != code_digest(second)
    assert code_digest(first) == code_digest(third)


def test_state_that_changes_does_not_count():
    calls = []

    def make():
        calls.append(1)

    before = code_digest(make)
    make()
    assert code_digest(make) == before


def test_code_without_source_is_known_by_what_was_compiled():
    def compiled(text):
        names = {"__name__": "typed"}
        exec(text, names)
        return code_digest(names["make"])

    text = "def make():\n    return [1 for _ in range(2)]"
    assert compiled(text) == compiled(text) != compiled(text.replace("2", "5"))


def test_anything_has_a_digest():
    assert code_digest(3) == code_digest(4)
    assert code_digest(len)
