"""The records that run.json and discovery.json hold, and their one reader.

Accuracies are fractions of 1. Records that older versions wrote are upgraded when they are read,
and every record is checked: a folder may be damaged, or anyone's.

It has more than 300 lines because every field of a record is declared here, and nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict, TypeGuard, cast

import msgspec

from spare.errors import InputError, RunError
from spare.files.reading import read_json
from spare.records.checks import (
    Asked,
    Count,
    Fraction,
    NotNegative,
    Number,
    Seed,
    Silhouette,
    check_type,
    damaged,
)
from spare.records.contradictions import contradictions
from spare.records.layout import DISCOVERY, RUN
from spare.records.older import completed, from_format_1

#: Raised when what is written changes its meaning.
FORMAT = 2

Interval = Annotated[list[Fraction], msgspec.Meta(min_length=2, max_length=2)]


class GroupScore(TypedDict):
    accuracy: Fraction
    n: Count


class Scores(TypedDict):
    """How a model does on one split, by group; a group is a class where no attribute is known."""

    worst_group: Fraction
    worst_group_interval: Interval
    worst_group_name: str
    worst_group_size: Count
    average: Fraction
    groups: dict[str, GroupScore]
    #: Each group's accuracy weighted by its share of the training set.
    adjusted_average: NotRequired[Fraction]
    #: With several shortcuts: accuracy in the training distribution, and what breaking each costs.
    id_accuracy: NotRequired[Fraction]
    gaps: NotRequired[dict[str, Number]]
    worst_pattern: NotRequired[Fraction]
    #: The same by inferred groups.
    inferred: NotRequired[Scores]


class Cluster(TypedDict):
    """What an early model says of one cluster."""

    size: Count
    accuracy: Fraction | None
    confidence: Fraction | None
    mistaken_for: str | None
    mistaken_share: Fraction


class ClustersAtEpoch(TypedDict):
    epoch: Count | None
    accuracy: list[Fraction | None]
    confidence: list[Fraction | None]


class ClassGroups(TypedDict):
    """The groups of one class, the majority first."""

    k: Count
    silhouette: Silhouette | None
    scores: dict[str, Silhouette]
    power: Number
    sizes: list[Count]
    #: The share of the class's samples that each group gets.
    shares: list[Fraction]
    note: str
    clusters: NotRequired[list[Cluster]]
    by_epoch: NotRequired[list[ClustersAtEpoch]]
    #: Where the true groups are known: the true minority, and how well it was found.
    minority: NotRequired[Count]
    inferred: NotRequired[Count]
    recall: NotRequired[Fraction | None]
    precision: NotRequired[Fraction | None]


class Likeness(TypedDict):
    """Something measured in pictures, of which a cluster has more or less than its class."""

    what: str
    more: bool
    #: In standard deviations of all pictures.
    by: Number


class TakenBlock(TypedDict):
    """A cluster that is taken for another class as a whole, and looks like that class."""

    #: Its number within its class, from 1.
    cluster: Count
    size: Count
    of: Count
    taken_for: str
    share: Fraction
    alike: list[Likeness]


class ClassVerdict(TypedDict):
    verdict: str
    strength: Number | None
    #: Examples outside the largest cluster.
    block: Count
    small: NotRequired[Fraction]
    learned: NotRequired[Fraction]
    mistaken: NotRequired[Fraction]
    apart: NotRequired[Silhouette]
    #: How deep the class's mistakes lie, where early models were asked about what they did not see.
    deep: NotRequired[Number]
    #: The class that most of the block is taken for, and how much of it.
    taken_for: NotRequired[str | None]
    taken_share: NotRequired[Fraction]
    #: How much the block looks like that class: 0.5 is no more than the rest of its own class does.
    alike: NotRequired[Fraction]
    taken: NotRequired[TakenBlock]


class Verdict(TypedDict):
    overall: str
    strength: Number | None
    epoch: Count | None
    classes: dict[str, ClassVerdict]


class Excess(TypedDict):
    """The value that a cluster has most beyond what its class has."""

    value: str
    share: Fraction
    class_share: Fraction


class Association(TypedDict):
    """How much the clusters go with one attribute."""

    attribute: str
    v: Fraction
    interval: Interval
    #: V over all examples, of the attribute with being in an inferred minority.
    over_all: NotRequired[Fraction]
    classes: dict[str, Fraction]
    clusters: dict[str, Excess]


class Code(TypedDict):
    """Which code made a record."""

    version: str
    #: Of a checkout; it ends in "-dirty" if files differed from that commit.
    commit: NotRequired[str]


class Request(TypedDict):
    """What was asked for: two folders with the same request hold the same numbers."""

    format: int
    task: str
    #: Stands for the content of someone's own data, and of the weights that they named.
    data: str
    method: str
    seed: Seed
    settings: dict[str, Any]
    options: dict[str, Any]


class Findings(TypedDict):
    """What was found in the inferred groups."""

    discovery: dict[str, ClassGroups] | None
    verdict: NotRequired[Verdict]
    associations: list[Association]


class DiscoveryRecord(Request, Findings):
    """discovery.json."""

    kind: str
    sees: str
    #: Examples by split.
    splits: dict[str, Count]
    notes: dict[str, Any]
    seconds: dict[str, NotNegative]
    examples_seen: Count
    peak_memory_mb: NotNegative
    threads: Count
    versions: dict[str, str]
    #: Records of the first version do not have it.
    code: NotRequired[Code]
    command: str


class Training(TypedDict):
    """How a model was trained, and how it does."""

    selection: str
    #: What that rule looks at (labels.py); the first records do not say.
    selection_used: NotRequired[str]
    selected_epoch: Count
    #: The rule of the method's paper, and the epoch that it selects.
    paper_rule: NotRequired[str]
    paper_rule_epoch: NotRequired[Count]
    #: The epoch of the plain model that the groups come from.
    early_epoch: NotRequired[Count]
    #: By split, then by "selected", "last", "paper_rule" and "early".
    scores: dict[str, dict[str, Scores]]
    #: False where a "group" in the scores is a class; the first records do not say.
    groups_known: NotRequired[bool]
    history: list[dict[str, int | float]]


class RunRecord(DiscoveryRecord, Training):
    """run.json: what a discovery has, and what was trained with it."""


class Notes(TypedDict, total=False):
    """What reports read of a method's notes; a method may write more."""

    separated_at: Count | None
    groups_from: str
    warnings: list[str]


Kind = Literal["run", "discovery"]
FILES: dict[Kind, str] = {"run": RUN, "discovery": DISCOVERY}


def read_record(folder: Path) -> DiscoveryRecord | RunRecord:
    """The record of a run or of a discovery."""
    for name in FILES.values():
        if os.path.lexists(folder / name):
            return read_record_file(folder / name)
    raise InputError(
        f"{folder} holds neither a run nor a discovery: name a folder that 'spare train' or "
        f"'spare discover' wrote."
    )


def read_run(folder: Path) -> RunRecord:
    """The record of a run."""
    record = read_record(folder)
    if not is_run(record):
        raise InputError(f"{folder} is a discovery, which has no scores: name a run's folder.")
    return record


def is_run(record: DiscoveryRecord) -> TypeGuard[RunRecord]:
    return "scores" in record


def read_record_file(path: Path) -> DiscoveryRecord | RunRecord:
    """The record in a file: upgraded, and checked to be what its type says."""
    record = upgraded(read_json(path), path.parent)
    check_record(record, path)
    return record


def read_request(path: Path) -> Mapping[str, Any]:
    """What settings.json says was asked for."""
    request = upgraded(read_json(path), path.parent)
    check_type(request, Request, path, DELETE)
    return request


def check_record(record: Mapping[str, Any], path: Path) -> None:
    """Refuse a record with other types, or with parts that do not fit together."""
    trains = path.name == RUN or "scores" in record
    check_type(record, RunRecord if trains else DiscoveryRecord, path, DELETE)
    check_type(record, Asked, path, DELETE)
    check_type(record["notes"], Notes, path, DELETE)
    wrong = next((why for why, is_wrong in contradictions(record) if is_wrong), "")
    if wrong:
        raise damaged(path, wrong, DELETE)


def upgraded(record: Any, folder: Path | str) -> DiscoveryRecord | RunRecord:
    """A record as this version writes it; one of a newer version is refused."""
    written = record.get("format", 0) if isinstance(record, dict) else None
    parts = {} if written is None else {key: record.get(key) for key in ("settings", "options")}
    if (
        not isinstance(written, int)
        or not record.keys() >= NEEDED
        or not all(isinstance(part, dict) for part in parts.values())
    ):
        raise RunError(f"{folder} does not hold a record that spare-ml wrote: name another folder.")
    if written > FORMAT:
        raise RunError(f"{folder} was written by a newer version of spare-ml: upgrade to read it.")
    if written < FORMAT:
        record = from_format_1(record) | {"format": FORMAT}
    return cast(RunRecord, completed(record))


def training_seconds(record: RunRecord) -> float:
    """What training took; the findings are for people, and no part of a method's cost."""
    return record["seconds"]["total"] - record["seconds"].get("findings", 0.0)


def same_request(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one.get(part, "") == other.get(part, "") for part in REQUESTED)


#: The parts of a request that decide a run's numbers.
REQUESTED = ("task", "data", "method", "seed", "settings", "options")
#: What can be done about a record that is damaged.
DELETE = "run its command again in another folder, or delete this one"
#: What every record has had from the first.
NEEDED = Request.__required_keys__ - {"format", "data"}
