"""What must hold of the readers for any input: used as it is, or refused in one sentence.

`tests/datasets/test_properties.py` tries a few cases of each, `campaign/properties.py` thousands.
"""

from __future__ import annotations

import io
import json
import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from spare.datasets import locate
from spare.datasets.folder import read_mapping
from spare.errors import SpareError
from spare.images.decode import BadImage, decode
from spare.methods import METHODS, method_named
from spare.progress import SILENT
from spare.records.groups_file import read_groups
from spare.records.record import read_record_file
from spare.runs.plan import known_settings, make_plan
from spare.runs.values import convert
from tests.groups.properties import Property

NAMES = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
WORDS = st.one_of(NAMES, st.sampled_from(["nan", "NaN", "inf", "-0", "01", "1", "1.0", "1e3", ""]))
DTYPES = st.one_of(
    arrays.scalar_dtypes(),
    arrays.byte_string_dtypes(max_len=4),
    arrays.unicode_string_dtypes(max_len=4),
    st.sampled_from([np.dtype("O"), np.dtype([("a", "i4"), ("b", "f8")])]),
)


@contextmanager
def one_sentence() -> Iterator[None]:
    """Within it, a refusal must be ours, on one line, and say something."""
    try:
        yield
    except SpareError as error:
        _check_line(str(error))


def _check_line(sentence: str) -> None:
    assert len(sentence.splitlines()) == 1, repr(sentence)


@contextmanager
def file_with(content: bytes, name: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        yield path


def load(data: Any, **settings: Any) -> Any:
    plan = make_plan(locate(data, None, settings), method_named("erm"), settings)
    return plan.load_task(0, SILENT)


def is_whole(task: Any, rows: int | None = None) -> None:
    """Every example is in one split, with a class that has a name of its own."""
    assert len(set(task.class_names)) == len(task.class_names)
    splits = task.splits().values()
    assert rows is None or sum(map(len, splits)) == rows
    for split in splits:
        assert len(split.inputs) == len(split.labels)
        assert set(np.unique(split.labels)) <= set(range(len(task.class_names)))
        assert torch.isfinite(split.inputs.take(np.arange(len(split))).float()).all()


@st.composite
def strange_arrays(draw: Callable[..., Any]) -> Any:
    shape = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6)
    one = arrays.arrays(DTYPES, shape, fill=st.nothing())
    values = st.one_of(one, st.lists(st.one_of(WORDS, st.integers(), st.floats(), st.none())))
    return draw(values), draw(values)


def arrays_are_used_or_refused(case: Any) -> None:
    with one_sentence():
        is_whole(load(case))


#: Half of them numbers, half of them words; none of them missing.
LABELS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=4, max_size=30),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=4, max_size=30),
    st.lists(WORDS.filter(bool), min_size=4, max_size=30),
)


def classes_never_merge(labels: list[Any]) -> None:
    """As many classes as there are different labels, and the same ones again in another order."""
    distinct = sorted({0.0 if label == 0 else label for label in labels})
    labels = labels + distinct * 8  # every class has training examples
    features = np.arange(2.0 * len(labels)).reshape(-1, 2)
    with one_sentence():
        task = load((features, labels), treat_as="embeddings")
        is_whole(task, len(labels))
        assert len(task.class_names) == len(distinct)
        again = load((features, labels[::-1]), treat_as="embeddings")
        assert again.class_names == task.class_names


@st.composite
def delimited(draw: Callable[..., Any]) -> bytes:
    """Text that may be a table, or nearly."""
    columns = draw(st.integers(1, 4))
    cell = st.one_of(WORDS, st.floats().map(repr), st.integers().map(str), st.just('"a""b"'))
    width = (
        st.integers(max(1, columns - 1), columns + 1) if draw(st.booleans()) else st.just(columns)
    )
    rows = draw(st.lists(width.flatmap(lambda n: st.lists(cell, min_size=n, max_size=n))))
    head = draw(st.one_of(st.just(["x", "label", "y", "split"][:columns]), st.lists(cell)))
    text = "\n".join(draw(st.sampled_from([",", "\t", ";"])).join(row) for row in [head, *rows])
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf", b"\xff\xfe"])) + text.encode()


def tables_are_used_or_refused(content: bytes) -> None:
    with file_with(content, "table.csv") as path, one_sentence():
        is_whole(load(str(path)))


def bytes_are_used_or_refused(case: tuple[str, bytes]) -> None:
    suffix, content = case
    with file_with(content, f"data{suffix}") as path, one_sentence():
        is_whole(load(str(path), label="label"))


MAGIC = {
    ".npy": b"\x93NUMPY\x01\x00",
    ".npz": b"PK\x03\x04",
    ".safetensors": b"\x10\x00\x00\x00\x00\x00\x00\x00",
    ".parquet": b"PAR1",
    ".tsv": b"x\tlabel\n",
}


@st.composite
def raw_files(draw: Callable[..., Any]) -> tuple[str, bytes]:
    suffix = draw(st.sampled_from(list(MAGIC)))
    return suffix, (MAGIC[suffix] if draw(st.booleans()) else b"") + draw(st.binary(max_size=300))


def _small_picture(kind: str) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (5, 4), (10, 200, 30)).save(stream, kind)
    return stream.getvalue()


PICTURES = [_small_picture(kind) for kind in ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")]


@st.composite
def pictures(draw: Callable[..., Any]) -> bytes:
    content = bytearray(draw(st.sampled_from(PICTURES)))
    for _ in range(draw(st.integers(0, 4))):
        content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
    return bytes(content[: draw(st.integers(0, len(content)))] if draw(st.booleans()) else content)


def pictures_are_decoded_or_bad(content: bytes) -> None:
    try:
        pixels = decode(content)
    except BadImage as error:
        _check_line(str(error))
        return
    assert pixels.dtype == torch.uint8
    assert pixels.ndim == 3
    assert pixels.shape[0] == 3


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), NAMES),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)
KEYS = ("format", "task", "data", "method", "seed", "settings", "options", "scores", "discovery")
RECORDS = st.one_of(JSON, st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, JSON)))


def records_are_read_or_refused(value: Any) -> None:
    with file_with(json.dumps(value).encode(), "run.json") as path, one_sentence():
        assert isinstance(read_record_file(path), dict)


def mappings_are_read_or_refused(value: Any) -> None:
    with file_with(json.dumps(value).encode(), "classes.json") as path, one_sentence():
        assert all(isinstance(word, str) for pair in read_mapping(path).items() for word in pair)


def groups_files_are_read_or_refused(content: bytes) -> None:
    head = b"id,cluster,label\n"
    with file_with(head + content.partition(b"\n")[2], "groups.csv") as path, one_sentence():
        table = read_groups(path)
        assert len(table.ids) == len(table.clusters)


_KINDS = {
    key: kind
    for method in METHODS.values()
    for kinds in known_settings(locate("digits"), method).values()
    for key, kind in kinds.items()
}
SETTINGS = st.tuples(
    st.sampled_from(sorted(_KINDS)), st.one_of(JSON, WORDS, st.integers(), st.floats())
)


def settings_are_converted_or_refused(case: tuple[str, Any]) -> None:
    key, value = case
    with one_sentence():
        given = convert(key, value, _KINDS[key])
        for number in given if isinstance(given, tuple) else (given,):
            assert not isinstance(number, float) or math.isfinite(number)


PROPERTIES = [
    Property("arrays", strange_arrays(), arrays_are_used_or_refused),
    Property("classes never merge", LABELS, classes_never_merge),
    Property("tables", delimited(), tables_are_used_or_refused),
    Property("bytes of files", raw_files(), bytes_are_used_or_refused),
    Property("pictures", pictures(), pictures_are_decoded_or_bad),
    Property("records", RECORDS, records_are_read_or_refused),
    Property("mappings", JSON, mappings_are_read_or_refused),
    Property("files of groups", delimited(), groups_files_are_read_or_refused),
    Property("settings", SETTINGS, settings_are_converted_or_refused),
]
