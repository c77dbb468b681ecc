"""Records of older versions, as the next one wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: What settings and options that did not exist yet stood for.
_NEW_SETTINGS = {"optimizer": "sgd", "device": "cpu", "precision": "float32"}
_RENAMED = {"normalise": "normalize", "standardise": "standardize"}
#: Choices of a data set that came after format 2, and what it was before there was a choice.
_NEW_CHOICES: dict[str, dict[str, Any]] = {
    "cmnist": {"val_like": "test"},
    "digits": {"val_like": "test"},
    "celeba": {
        "split": "official",
        "center": 178,
        "val_share": 0.15,
        "test_share": 0.15,
        "split_seed": 0,
    },
}


def completed(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record of format 2, with what the first ones of that format did not say."""
    choices = next((new for task, new in _NEW_CHOICES.items() if record["task"] == task), {})
    if "frozen" in record["settings"]:
        choices = {"frozen_until": "", **choices}
    if "precision" in record["settings"]:
        choices = {"compile": False, **choices}
    return {**record, "settings": {**choices, **record["settings"]}}


def from_format_1(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record of version 0.1, as format 2 has it."""
    new = dict(record)
    settings = {_RENAMED.get(key, key): value for key, value in record["settings"].items()}
    new["settings"] = settings | {
        key: value for key, value in _NEW_SETTINGS.items() if key not in settings
    }
    if "k_max" in record["options"]:
        new["options"] = {"clusterer": "kmeans", **record["options"]}
    for old, name in (("own_rule", "paper_rule"), ("own_epoch", "paper_rule_epoch")):
        if old in record:
            new[name] = new.pop(old)
    if isinstance(record.get("notes"), dict) and "initial" in record["notes"]:
        notes = dict(record["notes"])
        notes["weight_seed"] = notes.pop("initial")
        new["notes"] = notes
    if isinstance(record.get("scores"), dict):
        new["scores"] = {
            split: {("paper_rule" if when == "own_rule" else when): s for when, s in each.items()}
            if isinstance(each, dict)
            else each
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
