"""The short form of campaign.fuzz: no atheris, but valid files and some that are changed."""

from __future__ import annotations

import contextlib
import json
import random

import pytest

from campaign.fuzz import READERS, _mutated
from spare.errors import SpareError

#: Those that need a training first; the long form has them.
MADE_BY_RUNS = {"run.json", "discovery.json", "table.json", "weights"}
QUICK = sorted(READERS.keys() - MADE_BY_RUNS)
CHANGES = 20


@pytest.mark.filterwarnings("ignore::spare.errors.SpareWarning")
@pytest.mark.parametrize("name", QUICK)
def test_changed_bytes_are_read_or_refused_in_a_sentence(name, tmp_path):
    reader = READERS[name]
    valid = reader.valid()
    file = tmp_path / reader.file
    if file.suffix == ".npy":
        (tmp_path / "labels.npy").write_bytes(valid[1])
    rng = random.Random(name)
    for content in [*valid, *(_changed(rng.choice(valid), rng) for _ in range(CHANGES))]:
        file.write_bytes(content)
        with contextlib.suppress(SpareError):
            reader.read(file)


def _changed(content: bytes, rng: random.Random) -> bytes:
    """A few bytes replaced, or the end cut off."""
    changed = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed[: rng.randrange(len(changed))] if rng.random() < 0.2 else changed)


def test_json_that_is_mutated_is_json():
    rng = random.Random(0)
    value = {"a": [1, {"b": 2}], "c": "d"}
    found = {json.dumps(_mutated(value, rng)) for _ in range(50)}
    assert len(found) > 20
