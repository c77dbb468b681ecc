"""What is said of a record, in sections: a heading, a table, and lines below it.

The terminal (text.py) and notebooks (html.py) show the same sections.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spare.findings.verdict import NONE
from spare.records.labels import labels_used
from spare.records.record import (
    Association,
    ClassGroups,
    ClassVerdict,
    DiscoveryRecord,
    RunRecord,
    Scores,
    TakenBlock,
    Verdict,
)

SHOWN_ASSOCIATIONS = 8
SHOWN_CLASSES = 10


@dataclass(frozen=True)
class Section:
    heading: str
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    #: Lines below the table.
    notes: Sequence[str] = ()


def percent(value: float) -> str:
    """A fraction in percent, with one decimal.

    >>> percent(0.12345)
    '12.3'
    """
    return f"{100 * value:.1f}"


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def numeric_columns(rows: Sequence[Sequence[str]], count: int) -> list[bool]:
    """For each column, whether all of its cells are numbers: these are aligned to the right."""
    return [bool(rows) and all(is_number(row[i]) for row in rows) for i in range(count)]


def score_sections(record: RunRecord) -> list[Section]:
    """Accuracies of a run: of its worst group, by broken shortcut, and by inferred group."""
    known = record.get("groups_known", True)
    sections = [
        _worst_groups(
            record,
            f"{record['method']} on {record['task']}, seed {record['seed']}",
            "worst group" if known else "worst class",
            list(_scores(record)),
            notes=[f"{labels_used(record)} ({record['selection']})"],
        )
    ]
    gaps = [row for row in _scores(record) if "gaps" in row[2]]
    if gaps:
        sections.append(_gaps(record, gaps))
    inferred = [(s, when, score["inferred"]) for s, when, score in _scores(record)
                if "inferred" in score]  # fmt: skip
    if inferred and not known:
        heading = (
            "No true groups are known. By INFERRED groups (clusters of early outputs, which may "
            "not be the real ones; the worst of those with ten held-out examples or more):"
        )
        sections.append(_worst_groups(record, heading, "worst inferred group", inferred))
    return sections


def discovery_sections(record: DiscoveryRecord) -> list[Section]:
    """The groups of each class, what early models say of them, the verdict, and associations."""
    described = record["discovery"]
    if not described:
        return []
    sections = [_classes(record, described), *_clusters(described)]
    if "verdict" in record:
        sections.append(_verdict(record["verdict"]))
    return [*sections, *_associations(record.get("associations", []))]


def _scores(record: RunRecord) -> Iterator[tuple[str, str, Scores]]:
    for split, by_epoch in record["scores"].items():
        for when, score in by_epoch.items():
            yield split, when, score


def _worst_groups(
    record: RunRecord,
    heading: str,
    what: str,
    scores: Sequence[tuple[str, str, Scores]],
    notes: Sequence[str] = (),
) -> Section:
    epochs = {
        "selected": record["selected_epoch"],
        "paper_rule": record.get("paper_rule_epoch"),
        "early": record.get("early_epoch"),
        "last": len(record["history"]),
    }
    rows = []
    for split, when, score in scores:
        low, high = score["worst_group_interval"]
        rows.append(
            [
                split,
                f"{_epoch_name(record, when)} ({epochs[when]})",
                percent(score["worst_group"]),
                f"{percent(low)} to {percent(high)}",
                score["worst_group_name"],
                score["worst_group_size"],
                percent(score["average"]),
                percent(score["adjusted_average"]) if "adjusted_average" in score else "-",
            ]
        )
    heads = ["split", "epoch", f"{what} %", "95 % interval", "which", "examples", "average %",
             "adjusted %"]  # fmt: skip
    if all(row[-1] == "-" for row in rows):
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    return Section(heading, heads, rows, notes)


def _epoch_name(record: RunRecord, when: str) -> str:
    return {"paper_rule": record.get("paper_rule", ""), "early": "plain, before"}.get(when, when)


def _gaps(record: RunRecord, scores: Sequence[tuple[str, str, Scores]]) -> Section:
    shortcuts = list(scores[0][2]["gaps"])
    return Section(
        "What each broken shortcut costs, in points of accuracy:",
        ["split", "epoch", "ID accuracy %", *(f"{name} gap" for name in shortcuts),
         "worst pattern %"],
        [
            [
                split,
                _epoch_name(record, when),
                percent(score["id_accuracy"]),
                *(percent(score["gaps"][name]) for name in shortcuts),
                percent(score["worst_pattern"]),
            ]
            for split, when, score in scores
        ],
    )  # fmt: skip


def _classes(record: DiscoveryRecord, described: Mapping[str, ClassGroups]) -> Section:
    """The groups of each class; recall and precision where the true groups are known."""
    rows = []
    for name, groups in described.items():
        recall, precision = groups.get("recall"), groups.get("precision")
        rows.append(
            [
                name,
                groups["k"],
                "-" if groups["silhouette"] is None else f"{groups['silhouette']:.3f}",
                f"{groups['power']:g}",
                " ".join(map(str, groups["sizes"])),
                " ".join(f"{100 * share:.0f}" for share in groups["shares"]),
                "-" if recall is None else percent(recall),
                "-" if precision is None else percent(precision),
            ]
        )
    heads = ["class", "groups", "silhouette", "power", "sizes", "share of samples %",
             "minority recall %", "precision %"]  # fmt: skip
    if all(row[-2:] == ["-", "-"] for row in rows):  # no true groups to compare with
        heads, rows = heads[:-2], [row[:-2] for row in rows]
    notes = [f"class {name}: {groups['note']}" for name, groups in described.items()
             if groups["note"]]  # fmt: skip
    natural = [
        name for name, groups in described.items() if groups["k"] > 1 and not groups["power"]
    ]
    if natural:
        more = f" and {len(natural) - SHOWN_CLASSES} more" if len(natural) > SHOWN_CLASSES else ""
        notes.append(
            f"Power 0, so sampled in natural proportions: "
            f"{', '.join(natural[:SHOWN_CLASSES])}{more}"
        )
    return Section(_where_groups_come_from(record), heads, rows, notes)


def _where_groups_come_from(record: DiscoveryRecord) -> str:
    notes = record["notes"]
    if record.get("sees") == "train":
        return "The true groups of each class, which this method was given:"
    if "groups_from" in notes:
        return f"The groups of each class, from {notes['groups_from']}:"
    if "separated_at" not in notes:
        return "What was found in each class:"
    epoch = notes["separated_at"]
    when = "in the given outputs" if epoch is None else f"after epoch {epoch}"
    return f"What was found in each class {when}:"


def _clusters(described: Mapping[str, ClassGroups]) -> list[Section]:
    """What an early model says of each cluster, where the outputs of one were taken."""
    rows = []
    for name, groups in described.items():
        for number, cluster in enumerate(groups.get("clusters", []), start=1):
            if cluster["accuracy"] is None or cluster["confidence"] is None:  # it is empty
                continue
            mistaken = f"{cluster['mistaken_for']} ({percent(cluster['mistaken_share'])} %)"
            rows.append(
                [
                    name,
                    number,
                    cluster["size"],
                    percent(cluster["accuracy"]),
                    percent(cluster["confidence"]),
                    "-" if cluster["mistaken_for"] is None else mistaken,
                ]
            )
    heads = ["class", "cluster", "size", "right %", "mean confidence %", "mistaken for"]
    return [Section("What the early model says of each cluster:", heads, rows)] if rows else []


def _verdict(verdict: Verdict) -> Section:
    """The answer, and the classes behind it: which of them are taken for which."""
    when = "" if verdict["epoch"] is None else f" (after epoch {verdict['epoch']})"
    by_answer: dict[str, list[str]] = {}
    for name, of_class in verdict["classes"].items():
        by_answer.setdefault(of_class["verdict"], []).append(in_words(name, of_class))
    lines = []
    for answer, classes in by_answer.items():
        separator = ", " if answer == NONE else "; "
        more = f" and {len(classes) - SHOWN_CLASSES} more" if len(classes) > SHOWN_CLASSES else ""
        lines.append(f"  {answer}: {separator.join(classes[:SHOWN_CLASSES])}{more}")
    return Section(f"Verdict: {verdict['overall']}{when}", notes=lines)


def in_words(name: str, verdict: ClassVerdict) -> str:
    """What a verdict says of a class: how many of it are taken for which other class.

    >>> in_words("frog", {"verdict": "weak evidence", "strength": 0.7, "block": 275, "small": 0.25,
    ...                   "taken_for": "insect", "taken_share": 0.88})
    'frog: 275 of 1,100 taken for insect (88.0 %)'
    >>> in_words("frog", {"verdict": "none found", "strength": None, "block": 0})
    'frog'
    >>> block = {"cluster": 3, "size": 200, "of": 1050, "taken_for": "insect", "share": 1.0,
    ...          "alike": [{"what": "sharpness", "more": False, "by": 1.1},
    ...                    {"what": "brightness", "more": True, "by": 0.5}]}
    >>> weak = {"verdict": "weak evidence", "strength": 0.1, "block": 534, "taken": block}
    >>> in_words("frog", weak)
    'frog: 200 of 1,050 taken for insect (100.0 %), with less sharpness and more brightness like it'
    """
    if "taken" in verdict:
        block = verdict["taken"]
        return (
            f"{name}: {block['size']:,} of {block['of']:,} taken for {block['taken_for']} "
            f"({percent(block['share'])} %), with {alike(block)} like it"
        )
    taken_for = verdict.get("taken_for")
    if verdict["verdict"] == NONE or taken_for is None:
        return name
    total = round(verdict["block"] / verdict["small"])
    share = percent(verdict["taken_share"])
    return f"{name}: {verdict['block']:,} of {total:,} taken for {taken_for} ({share} %)"


def alike(block: TakenBlock) -> str:
    """What a cluster has in common with the class that it is taken for, the clearest first."""
    words = [f"{'more' if like['more'] else 'less'} {like['what']}" for like in block["alike"]]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _associations(associations: Sequence[Association]) -> list[Section]:
    """The attributes that the clusters go with most."""
    if not associations:
        return []
    rows = [
        [each["attribute"], f"{each['v']:.2f}", "{:.2f} to {:.2f}".format(*each["interval"])]
        for each in associations[:SHOWN_ASSOCIATIONS]
    ]
    heading = "What the clusters go with (Cramer's V within classes: 0 nothing, 1 all of it):"
    return [Section(heading, ["attribute", "V", "95 % interval"], rows)]
