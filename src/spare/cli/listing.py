"""`spare list`: what there is, and what can be set."""

from __future__ import annotations

from typing import Any, Literal

from spare.cli.app import Json, app
from spare.cli.console import write_json, write_text


@app.command(name="list")
def list_(
    what: Literal["methods", "halves", "clusterers", "tasks", "rules", "settings"] = "methods",
    *,
    task: str = "cmnist",
    method: str = "spare",
    json: Json = False,
) -> None:
    """What there is: methods, the halves that go together as INFERENCE+TRAINER, clusterers, tasks,
    selection rules, or the settings of a task and method."""
    heads, rows = listing(what, task, method)
    if json:
        write_json([dict(zip(heads, row, strict=True)) for row in rows])
        return
    from spare.report.text import table_text

    write_text(table_text(heads, rows))


def listing(what: str, task: str, method: str) -> tuple[list[str], list[list[Any]]]:
    if what == "tasks":
        from spare.datasets import DATASETS

        return ["task", "what"], [[name, title] for name, title in DATASETS.items()]
    if what == "rules":
        from spare.training.selection import RULES

        rows = [[rule.name, rule.needs, rule.description] for rule in RULES.values()]
        return ["rule", "looks at", "keeps"], rows
    if what == "clusterers":
        from spare.groups.clusterers import CLUSTERERS

        rows = [[name, make.__doc__ or ""] for name, make in CLUSTERERS.items()]
        return ["clusterer", "what it is"], rows
    if what == "settings":
        from spare.datasets import locate
        from spare.methods import method_named
        from spare.runs.plan import make_plan
        from spare.runs.values import written

        plan = make_plan(locate(task), method_named(method), {})
        rows = [[key, written(v), "training or data"] for key, v in plan.flat_settings().items()]
        rows += [[key, written(v), f"{method} option"] for key, v in plan.flat_options().items()]
        return ["setting", "value", "of"], rows
    from spare.methods import INFERENCES, METHODS, TRAINERS

    if what == "halves":
        rows = [
            [half.name, "names groups", half.sees(half.options())] for half in INFERENCES.values()
        ]
        rows += [[half.name, "trains with them", "-"] for half in TRAINERS.values()]
        return ["half", "what it does", "group labels it sees"], rows
    rows = [[m.name, m.title, m.paper, m.sees(m.options()), m.cost] for m in METHODS.values()]
    return ["method", "what", "paper", "group labels it sees", "cost"], rows
