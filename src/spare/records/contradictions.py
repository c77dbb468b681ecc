"""Parts of a record that do not fit together, although each is of its type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

#: The epochs that a record may have scores of.
SCORED = {"selected", "last", "paper_rule", "early"}


def contradictions(record: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """What a type cannot say of a record, each with whether it is so."""
    described: Mapping[str, Any] = record["discovery"] or {}
    for name, groups in described.items():
        sizes, of_class = groups["sizes"], f"class {name[:40]!r}"
        lists = [groups["shares"], groups.get("clusters", sizes)]
        lists += [part for at in groups.get("by_epoch", []) for part in
                  (at["accuracy"], at["confidence"])]  # fmt: skip
        yield f"{of_class} has no examples", sum(sizes) < 1
        yield (
            f"the groups of {of_class} are not {groups['k']}",
            (sum(size > 0 for size in sizes) != groups["k"]),
        )
        yield (
            f"the lists of {of_class} have several lengths",
            any(len(values) != len(sizes) for values in lists),
        )
        known = {"minority", "inferred", "recall", "precision"} & groups.keys()
        yield f"{of_class} has recall without the rest", len(known) not in (0, 4)
    verdict = record.get("verdict")
    for name, judged in {} if verdict is None else verdict["classes"].items():
        yield f"the verdict is on a class {name[:40]!r} without groups", name not in described
        facts = {"small", "learned", "mistaken", "apart"} & judged.keys()
        yield (
            f"the verdict on {name[:40]!r} has no reasons",
            (judged["strength"] is not None and len(facts) != 4),
        )
    associations: list[Any] = record["associations"]
    classes = [set(association["classes"]) for association in associations]
    yield "the associations are of several sets of classes", any(c != classes[0] for c in classes)
    if "scores" not in record:
        return
    total, findings = (record["seconds"].get(name, 0) for name in ("total", "findings"))
    yield "its seconds have no total", not total > 0
    yield "its findings took all of its seconds", not total > findings
    yield "it saw no examples", record["examples_seen"] < 1
    yield (
        "its history has an epoch without its number or loss",
        any(not {"epoch", "loss"} <= epoch.keys() for epoch in record["history"]),
    )
    for split, by_epoch in record["scores"].items():
        yield f"{split[:40]!r} is no split with scores", split not in ("val", "test")
        yield (
            f"the scores on {split} are not of the selected and the last epoch",
            not ({"selected", "last"} <= by_epoch.keys() <= SCORED),
        )
        for when, scores in by_epoch.items():
            for score in (scores, scores.get("inferred", scores)):
                yield (
                    f"the worst group on {split} ({when}) is none of the groups",
                    (score["worst_group_name"] not in score["groups"]),
                )
            broken = {"id_accuracy", "gaps", "worst_pattern"} & scores.keys()
            yield f"the gaps on {split} ({when}) are incomplete", len(broken) not in (0, 3)
        gaps = [set(scores.get("gaps", ())) for scores in by_epoch.values()]
        yield f"the gaps on {split} are of several shortcuts", any(g != gaps[0] for g in gaps)
