"""What must hold of the public functions for any input: cases, and a check of each.

`tests/groups/test_properties.py` tries a few cases of each, `campaign/properties.py` thousands.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import hypothesis
import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import silhouette_score

import spare
from spare.errors import InputError, SpareWarning
from spare.groups.environments import environments
from spare.groups.mistakes import mistakes
from spare.groups.result import groups_from_parts, parts_by_size
from spare.groups.strata import infer_strata
from spare.limits import Range, check_seed, whole_number
from spare.text import printable


class Property(NamedTuple):
    name: str
    cases: st.SearchStrategy[Any]
    check: Callable[[Any], None]


def try_cases(what: Property, examples: int, seed: int) -> tuple[int, Exception | None]:
    """Check a property for so many cases: how many there were, and what the failing one raised."""
    tried = 0

    @hypothesis.seed(seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(what.cases)
    def check(case: Any) -> None:
        nonlocal tried
        tried += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SpareWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            what.check(case)

    try:
        check()
    except Exception as error:  # the property does not hold, or the code broke
        return tried, error
    return tried, None


# Cases

seeds = st.integers(0, 2**32 - 1)


@st.composite
def points_and_classes(draw):
    """Outputs of every kind of array, some of them equal, and labels with gaps or as text."""
    rng = np.random.default_rng(draw(seeds))
    n, d = draw(st.integers(1, 40)), draw(st.integers(1, 5))
    points = rng.normal(0, draw(st.sampled_from([1e-200, 1e-4, 1.0, 1e6])), (n, d))
    if draw(st.booleans()):
        points = points[rng.integers(0, max(1, n // 3), n)]
    kind = draw(st.sampled_from(["<f8", ">f8", "f4", "f2", "tensor", "bfloat16", "list"]))
    if kind == "list":
        outputs = points.tolist()
    elif kind in ("tensor", "bfloat16"):
        outputs = torch.tensor(points, dtype=torch.bfloat16 if kind == "bfloat16" else None)
    else:
        outputs = np.clip(points, -6e4, 6e4).astype(kind)
    names = draw(
        st.one_of(
            st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4, unique=True),
            st.lists(
                st.text(max_size=4).filter(lambda text: not text.endswith("\0")),
                min_size=1,
                max_size=4,
                unique=True,
            ),
        )
    )
    return outputs, [names[i] for i in rng.integers(0, len(names), n)]


@st.composite
def separated(draw):
    """Clear clusters around far corners, in one or two classes, and how many there are in each."""
    rng = np.random.default_rng(draw(seeds))
    k = draw(st.integers(2, 4))
    parts = [(c, i) for c in range(draw(st.integers(1, 2))) for i in range(k)]
    sizes = [draw(st.integers(4, 20)) for _ in parts]
    points = [rng.normal(50 * np.eye(4)[i], 1, (s, 4)) for (_, i), s in zip(parts, sizes)]  # noqa: B905
    return np.concatenate(points), np.repeat([c for c, _ in parts], sizes), k


@st.composite
def grouped(draw):
    """Group ids that are unique across classes, their labels, and any power."""
    rng = np.random.default_rng(draw(seeds))
    groups, labels, next_id = [], [], draw(st.sampled_from([0, -(2**62), 2**62]))
    for label in draw(st.lists(st.integers(-50, 50), min_size=1, max_size=4, unique=True)):
        for size in draw(st.lists(st.integers(1, 60), min_size=1, max_size=4)):
            groups += [next_id] * size
            labels += [label] * size
            next_id += draw(st.integers(1, 3))
    order = rng.permutation(len(groups))
    power = draw(st.floats(0, allow_nan=False, allow_infinity=False))
    mass = draw(st.sampled_from(["equal", "natural"]))
    return np.array(groups)[order], np.array(labels)[order], power, mass


@st.composite
def clusterings(draw):
    """Points on very different scales, some of them equal, in clusters that may be tiny."""
    rng = np.random.default_rng(draw(seeds))
    n, d = draw(st.integers(4, 120)), draw(st.integers(1, 5))
    scale = draw(st.sampled_from([1e-60, 1e-3, 1.0, 1e3, 1e60]))
    points = rng.normal(0, scale, (n, d))
    if draw(st.booleans()):
        points = points[rng.integers(0, max(2, n // 3), n)]
    labels = rng.integers(0, draw(st.integers(2, min(5, n - 1))), n)
    labels[:3] = [0, 1, 0]
    return points, labels, scale * draw(st.sampled_from([0.0, 1.0, -10.0]))


@st.composite
def samplers(draw):
    groups, labels, power, mass = draw(grouped())
    replicas = draw(st.integers(1, 5))
    return {
        "groups": groups,
        "labels": labels,
        "power": power,
        "class_mass": mass,
        "num_samples": draw(st.integers(1, 90)),
        "seed": draw(seeds),
        "num_replicas": replicas,
    }, draw(st.integers(0, 2**32 - 1)), draw(st.integers(0, 90))  # fmt: skip


class Unreadable:
    """Raises wherever it is touched."""

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise KeyError("no array")

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


ARRAY = np.arange(12.0).reshape(6, 2)
STRANGE_ARRAYS: list[Any] = [
    ARRAY, ARRAY[:, 0], ARRAY[:0], ARRAY[None], ARRAY + 1j, ARRAY * np.nan, np.full((6, 2), np.inf),
    ARRAY * 1e300, ARRAY.astype(str), ARRAY.astype(object), ARRAY.astype("M8[s]"),
    ARRAY.astype(">f4"), ARRAY > 4, np.ma.masked_greater(ARRAY, 4), np.ma.array(ARRAY),
    np.zeros(6, dtype=[("a", "f8"), ("b", "i4")]), np.zeros((6, 2), "V4"), np.eye(6),
    np.full(6, 2**64 - 1, dtype=np.uint64), np.array(3.0), np.array([b"a"] * 6),
    torch.ones(6, 2).to_sparse(), torch.ones(6, 2, device="meta"), torch.ones(6, 2).bfloat16(),
    torch.ones(6, 2).to(torch.float8_e4m3fn), torch.ones(6, 2) * 1j,
    [[1], [1, 2]], [0, 0, 0, 1, 1, 1], [0, "0", 1, 1, 1, 1], ["a", "a\0"] * 3, [b"\xff"] * 6,
    [b"a", b"b"] * 3, [None] * 6, [10**400] * 6, [np.nan, "a"] * 3, [True, False] * 3,
    ["\udc80", "nan"] * 3, [], {}, {1, 2}, None, 3, 2.5, "abc", b"abc", iter([1]), Unreadable(),
    [Unreadable()] * 6,
]  # fmt: skip
STRANGE_VALUES: list[Any] = [
    0, 1, 3, -1, -5, 2**32, 2**64, 10**5000, 2.5, 1e308, -0.0, math.nan, math.inf, True, "3", "",
    b"1", None, 1j, np.int8(2), np.float32(1.5), np.bool_(True), np.array(2), np.array([2]),
    np.array([1, 2]), torch.tensor(2), torch.tensor([1, 2]), torch.tensor(True), [], [1], {},
    {0: 1}, {0: math.nan, 1: 1}, {0: "1", 1: 1}, {"a": 1}, {0: 1, 1: 1e308}, print, Unreadable(),
    "equal", "kmeans", "nowhere:there",
]  # fmt: skip
LABELS, GROUPS = [0, 0, 0, 1, 1, 1], [0, 0, 1, 2, 2, 3]
STATE = {"seed": 0, "epoch": 0, "position": 0, "num_samples": 6, "num_replicas": 1}


def _sampler(**options: Any) -> spare.ImportanceSampler:
    return spare.ImportanceSampler(**{"groups": GROUPS} | options)


def _inferred() -> spare.Groups:
    return spare.infer_groups(ARRAY, LABELS, k=2)


#: Every public function: how it is called, and the arguments that it works with.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "infer_groups": (
        spare.infer_groups,
        {"outputs": ARRAY, "labels": LABELS, "k": 2, "k_max": 3, "power": 1, "seed": 0,
         "clusterer": "kmeans", "engine": "local", "map": map},
    ),
    "importance_weights": (
        spare.importance_weights,
        {"groups": GROUPS, "labels": LABELS, "power": 1, "class_mass": "equal"},
    ),
    "ImportanceSampler": (
        lambda **options: list(_sampler(**options))[:9],
        {"groups": GROUPS, "labels": LABELS, "power": 1, "class_mass": "equal", "seed": 0,
         "num_samples": 6, "num_replicas": 1, "rank": 0},
    ),
    "set_epoch": (lambda epoch: _sampler().set_epoch(epoch), {"epoch": 1}),
    "load_state_dict": (lambda state: _sampler().load_state_dict(state), {"state": STATE}),
    "state": (lambda **state: _sampler().load_state_dict(state), dict(STATE)),
    "silhouette": (
        spare.silhouette, {"points": ARRAY, "labels": LABELS, "metric": "euclidean"},
    ),
    "assign": (
        lambda outputs, labels: _inferred().assign(outputs, labels),
        {"outputs": ARRAY, "labels": LABELS},
    ),
    "with_powers": (lambda powers: _inferred().with_powers(powers), {"powers": {0: 1}}),
    "in_majority": (lambda ids: _inferred().in_majority(ids), {"ids": GROUPS}),
    "names": (lambda class_names: _inferred().names(class_names), {"class_names": ["a", "b"]}),
    "groups_from_parts": (groups_from_parts, {"parts": GROUPS, "labels": LABELS, "power": 1.0}),
    "parts_by_size": (parts_by_size, {"kinds": GROUPS, "labels": LABELS}),
    "mistakes": (mistakes, {"outputs": ARRAY, "labels": LABELS}),
    "environments": (
        environments, {"logits": ARRAY, "labels": LABELS, "steps": 2, "lr": 0.1, "seed": 0},
    ),
    "infer_strata": (
        infer_strata,
        {"features": ARRAY, "labels": LABELS, "losses": np.ones(6), "val": (ARRAY, LABELS),
         "scaling": "standard", "reduction": "pca", "strata_max": 2, "seed": 0},
    ),
    "check_seed": (check_seed, {"seed": 0}),
    "whole_number": (lambda value: whole_number("k", value, Range(1)), {"value": 1}),
}  # fmt: skip
#: With these, a number as large as someone likes is taken at its word, and would take long.
PATIENT = {("environments", "steps"), ("ImportanceSampler", "num_samples")}


@st.composite
def strange_calls(draw):
    """A public function with one or two of its arguments replaced by something strange."""
    name = draw(st.sampled_from(sorted(CALLS)))
    usual = CALLS[name][1]
    count = draw(st.integers(1, min(2, len(usual))))
    replaced = draw(st.permutations(sorted(usual)))[:count]
    strange = st.sampled_from(range(len(STRANGE_ARRAYS) + len(STRANGE_VALUES)))
    return name, {argument: draw(strange) for argument in replaced}


# Checks


def _refusal(call: Callable[[], Any]) -> str:
    """What the documented error says; empty where the call worked. Other errors are not caught."""
    try:
        call()
    except InputError as error:
        return str(error)
    return ""


def only_documented_errors(case: Any) -> None:
    name, replaced = case
    function, usual = CALLS[name]
    strange = [*STRANGE_ARRAYS, *STRANGE_VALUES]
    given = {argument: strange[number] for argument, number in replaced.items()}
    if any(
        (name, argument) in PATIENT and isinstance(value, int) and value > 1000
        for argument, value in given.items()
    ):
        return
    said = _refusal(lambda: function(**usual | given))
    assert "\n" not in said
    assert said == "" or said.endswith((".", "?"))


def groups_are_whole(case: Any) -> None:
    outputs, labels = case
    groups = spare.infer_groups(outputs, labels)
    assert set(groups.evidence) == set(labels)
    every = [i for evidence in groups.evidence.values() for i in evidence.ids]
    assert every == list(range(len(every)))  # unique across classes
    for label, evidence in groups.evidence.items():
        of_class = groups.ids[[other == label for other in labels]]
        assert [int((of_class == i).sum()) for i in evidence.ids] == evidence.sizes
        assert all(-1 <= score <= 1 for score in evidence.scores.values())
        assert math.isclose(sum(evidence.shares), 1, abs_tol=1e-9)
    assert sum(sum(evidence.sizes) for evidence in groups.evidence.values()) == len(labels)
    are_probabilities(spare.importance_weights(groups, labels))
    assigned = groups.assign(outputs, labels)
    assert [groups.evidence[label].ids.count(i) for label, i in zip(labels, assigned.tolist())] == [  # noqa: B905
        1
    ] * len(labels)


def clear_clusters_are_found_and_assigned_to(case: Any) -> None:
    points, labels, k = case
    groups = spare.infer_groups(points, labels)
    assert [evidence.k for evidence in groups.evidence.values()] == [k] * len(groups.evidence)
    assert (groups.assign(points, labels) == groups.ids).all()
    renamed = spare.infer_groups(points, [f"class {label}" for label in labels])
    assert (renamed.ids == groups.ids).all()


def are_probabilities(values: np.ndarray) -> None:
    assert np.isfinite(values).all()
    assert (values >= 0).all()
    assert abs(values.sum() - 1) <= 1e-9


def weights_are_probabilities(case: Any) -> None:
    groups, labels, power, mass = case
    weights = spare.importance_weights(groups, labels, power, class_mass=mass)
    are_probabilities(weights)
    for label in set(labels.tolist()):
        share = (labels == label).mean() if mass == "natural" else 1 / len(set(labels.tolist()))
        assert math.isclose(weights[labels == label].sum(), share, abs_tol=1e-9)
    assert all(len(set(weights[groups == g].tolist())) == 1 for g in set(groups.tolist()))


def samplers_agree_divide_and_resume(case: Any) -> None:
    options, epoch, stop = case
    replicas = options["num_replicas"]
    parts = []
    for rank in range(replicas):
        sampler = spare.ImportanceSampler(**options, rank=rank)
        sampler.set_epoch(epoch)
        parts.append(list(sampler))
        started = iter(sampler)
        before = [next(started) for _ in range(min(stop, len(sampler)))]
        resumed = spare.ImportanceSampler(**options | {"seed": 0}, rank=rank)
        resumed.load_state_dict(sampler.state_dict())
        assert before + list(resumed) == parts[-1]
    assert {len(part) for part in parts} == {-(-options["num_samples"] // replicas)}
    total = len(parts[0]) * replicas
    alone = spare.ImportanceSampler(**options | {"num_samples": total, "num_replicas": 1})
    alone.set_epoch(epoch)
    # The strides of one sample: together they are all of it, and no draw is in two of them.
    assert [index for row in zip(*parts, strict=True) for index in row] == list(alone)
    assert set(alone) <= set(range(len(options["groups"])))


def silhouettes_are_those_of_scikit_learn(case: Any) -> None:
    points, labels, shift = case
    for metric, power in (("euclidean", 1), ("sqeuclidean", 2)):
        ours = spare.silhouette(points, labels, metric)
        assert -1 <= ours <= 1
        # The coefficient has no unit; scikit-learn's distances would overflow or vanish.
        distances = cdist(points, points) / np.abs(points).max()
        theirs = silhouette_score(distances**power, labels, metric="precomputed")
        assert abs(ours - theirs) <= 1e-6
        assert abs(spare.silhouette(points + shift, labels, metric) - ours) <= 1e-6
        named = [f"cluster {label}" for label in labels]
        assert abs(spare.silhouette(points, named, metric) - ours) <= 1e-9


def text_is_one_safe_line(case: Any) -> None:
    line = printable(case)
    assert all(c.isprintable() or c in "\u200c\u200d" for c in line)
    assert len(line.splitlines()) <= 1
    assert printable(line) == line
    line.encode()  # no half of a surrogate pair is left


def ranges_say_what_they_hold(case: Any) -> None:
    low, high, open_low, open_high, value = case
    range_ = Range(low, high, open_low, open_high)
    above = value > low if open_low else value >= low
    below = value < high if open_high else value <= high
    inside = above and below and abs(value) != math.inf
    said = _refusal(lambda: range_.check("it", value))
    assert said == "" if inside else said.startswith(f"it is {range_}, not ")


NUMBERS = st.one_of(st.floats(), st.integers(), st.integers(-(10**400), 10**400))
PROPERTIES = [
    Property("documented errors only", strange_calls(), only_documented_errors),
    Property("groups are whole", points_and_classes(), groups_are_whole),
    Property("clear clusters", separated(), clear_clusters_are_found_and_assigned_to),
    Property("weights are probabilities", grouped(), weights_are_probabilities),
    Property("samplers", samplers(), samplers_agree_divide_and_resume),
    Property("silhouettes", clusterings(), silhouettes_are_those_of_scikit_learn),
    Property("text", st.text(st.characters()), text_is_one_safe_line),
    Property(
        "ranges",
        st.tuples(st.floats(), st.floats(), st.booleans(), st.booleans(), NUMBERS),
        ranges_say_what_they_hold,
    ),
]
