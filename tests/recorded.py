"""Records as short as they can be, for tests that need only a part of one."""

from __future__ import annotations

from spare.records.record import FORMAT


def discovery_record(**more):
    return {
        "format": FORMAT, "task": "mine", "data": "", "method": "spare", "seed": 0,
        "settings": {}, "options": {}, "kind": "folder", "sees": "none", "splits": {},
        "discovery": None, "associations": [], "notes": {}, "seconds": {"total": 1.0},
        "examples_seen": 100, "peak_memory_mb": 500.0, "threads": 1, "versions": {"spare": "1"},
        "command": "spare discover mine",
    } | more  # fmt: skip


def score(worst=0.5, groups=None):
    groups = groups or {"a": {"accuracy": worst, "n": 50}, "b": {"accuracy": 0.975, "n": 40}}
    return {
        "worst_group": worst,
        "worst_group_interval": [worst / 2, (1 + worst) / 2],
        "worst_group_name": next(iter(groups)),
        "worst_group_size": 50,
        "average": 0.9,
        "groups": groups,
    }


def run_record(worst=0.5, groups=None, **more):
    scores = score(worst, groups)
    record = discovery_record(method="erm", command="spare train erm")
    return record | {
        "selection": "last",
        "selected_epoch": 1,
        "groups_known": True,
        "scores": {"test": {"selected": scores, "last": scores}},
        "history": [{"epoch": 1, "loss": 0.5}],
    } | more  # fmt: skip
