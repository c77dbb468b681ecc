"""The records that run.json and discovery.json hold, and their one reader.

Accuracies are fractions of 1. Records that older versions wrote are upgraded when they are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict, TypeGuard, cast

from spare.errors import InputError, RunError
from spare.files import read_json
from spare.records.layout import DISCOVERY, RUN

#: Raised when what is written changes its meaning.
FORMAT = 2

Interval = list[float]


class GroupScore(TypedDict):
    accuracy: float
    n: int


class Scores(TypedDict):
    """How a model does on one split, by group; a group is a class where no attribute is known."""

    worst_group: float
    worst_group_interval: Interval
    worst_group_name: str
    worst_group_size: int
    average: float
    groups: dict[str, GroupScore]
    #: Each group's accuracy weighted by its share of the training set.
    adjusted_average: NotRequired[float]
    #: With several shortcuts: accuracy in the training distribution, and what breaking each costs.
    id_accuracy: NotRequired[float]
    gaps: NotRequired[dict[str, float]]
    worst_pattern: NotRequired[float]
    #: The same by inferred groups.
    inferred: NotRequired[Scores]


class Cluster(TypedDict):
    """What an early model says of one cluster."""

    size: int
    accuracy: float | None
    confidence: float | None
    mistaken_for: str | None
    mistaken_share: float


class ClustersAtEpoch(TypedDict):
    epoch: int | None
    accuracy: list[float | None]
    confidence: list[float | None]


class ClassGroups(TypedDict):
    """The groups of one class, the majority first."""

    k: int
    silhouette: float | None
    scores: dict[str, float]
    power: float
    sizes: list[int]
    #: The share of the class's draws that each group gets.
    shares: list[float]
    note: str
    clusters: NotRequired[list[Cluster]]
    by_epoch: NotRequired[list[ClustersAtEpoch]]
    #: Where the true groups are known: the true minority, and how well it was found.
    minority: NotRequired[int]
    inferred: NotRequired[int]
    recall: NotRequired[float | None]
    precision: NotRequired[float | None]


class ClassVerdict(TypedDict):
    verdict: str
    strength: float | None
    #: Examples outside the largest cluster.
    block: int
    small: NotRequired[float]
    learned: NotRequired[float]
    mistaken: NotRequired[float]
    apart: NotRequired[float]


class Verdict(TypedDict):
    overall: str
    strength: float | None
    epoch: int | None
    classes: dict[str, ClassVerdict]


class Excess(TypedDict):
    """The value that a cluster has most beyond what its class has."""

    value: str
    share: float
    class_share: float


class Association(TypedDict):
    """How much the clusters go with one attribute."""

    attribute: str
    v: float
    interval: Interval
    classes: dict[str, float]
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
    #: Stands for the content of someone's own data.
    data: str
    method: str
    seed: int
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
    splits: dict[str, int]
    notes: dict[str, Any]
    seconds: dict[str, float]
    examples_seen: int
    peak_memory_mb: float
    threads: int
    versions: dict[str, str]
    code: Code
    command: str


class Training(TypedDict):
    """How a model was trained, and how it does."""

    selection: str
    selected_epoch: int
    #: The rule of the method's paper, and the epoch that it selects.
    paper_rule: NotRequired[str]
    paper_rule_epoch: NotRequired[int]
    #: The epoch of the plain model that the groups come from.
    early_epoch: NotRequired[int]
    #: By split, then by "selected", "last", "paper_rule" and "early".
    scores: dict[str, dict[str, Scores]]
    #: False where a "group" in the scores is a class.
    groups_known: bool
    history: list[dict[str, Any]]


class RunRecord(DiscoveryRecord, Training):
    """run.json: what a discovery has, and what was trained with it."""


Kind = Literal["run", "discovery"]
FILES: dict[Kind, str] = {"run": RUN, "discovery": DISCOVERY}


def read_record(folder: Path) -> DiscoveryRecord | RunRecord:
    """The record of a run or of a discovery."""
    for name in FILES.values():
        if (folder / name).is_file():
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
    return upgraded(read_json(path), path.parent)


def upgraded(record: Any, folder: Path | str) -> DiscoveryRecord | RunRecord:
    """A record as this version writes it; one of a newer version is refused."""
    written = record.get("format", 0) if isinstance(record, dict) else None
    if not isinstance(written, int) or not record.keys() >= NEEDED:
        raise RunError(f"{folder} does not hold a record that spare-ml wrote: name another folder.")
    if written > FORMAT:
        raise RunError(f"{folder} was written by a newer version of spare-ml: upgrade to read it.")
    if written < FORMAT:
        record = _from_format_1(record)
    return cast(RunRecord, record)


#: What every record has had from the first.
NEEDED = Request.__required_keys__ - {"format", "data"}
#: What settings and options that did not exist yet stood for.
_NEW_SETTINGS = {"optimizer": "sgd", "device": "cpu", "precision": "float32"}
_RENAMED = {"normalise": "normalize", "standardise": "standardize"}


def _from_format_1(record: Mapping[str, Any]) -> dict[str, Any]:
    new = dict(record) | {"format": FORMAT}
    settings = {_RENAMED.get(key, key): value for key, value in record["settings"].items()}
    new["settings"] = settings | {
        key: value for key, value in _NEW_SETTINGS.items() if key not in settings
    }
    if "k_max" in record["options"]:
        new["options"] = {"clusterer": "kmeans", **record["options"]}
    if "own_rule" in record:
        new["paper_rule"], new["paper_rule_epoch"] = new.pop("own_rule"), new.pop("own_epoch")
    if "notes" in record and "initial" in record["notes"]:
        notes = dict(record["notes"])
        notes["weight_seed"] = notes.pop("initial")
        new["notes"] = notes
    if "scores" in record:
        new["scores"] = {
            split: {("paper_rule" if when == "own_rule" else when): s for when, s in each.items()}
            for split, each in record["scores"].items()
        }
    for key, value in {
        "data": "",
        "sees": "none",
        "associations": [],
        "kind": "",
        "splits": {},
    }.items():
        new.setdefault(key, value)
    return new
