"""Methods by name: each is a short recipe on the shared training loop.

Adding one: a file with a `METHOD`, and its name in the list below; the common tests find it. A file
may also have an `INFERENCE` and a `TRAINER`, which then go with every other: "eiil+spare".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from spare.errors import InputError, unknown
from spare.imports import check_text, import_object
from spare.methods import (
    afr,
    bridge,
    cb,
    cnc,
    dfr,
    dfr_val,
    eiil,
    erm,
    gb,
    gdro,
    george,
    given,
    jtt,
    lff,
    outputs,
    pgi,
    spare,
    spare_paper,
    ssa,
    xrm,
)
from spare.methods.method import Fitted, Inference, Method, Trainer, combined

if TYPE_CHECKING:
    from spare.data.task import Task
    from spare.training.stages import Stages

Half = TypeVar("Half", Inference, Trainer)

_FILES = (
    erm,
    cb,
    pgi,
    eiil,
    lff,
    jtt,
    cnc,
    george,
    spare_paper,
    xrm,
    spare,
    bridge,
    afr,
    ssa,
    dfr_val,
    gb,
    gdro,
    dfr,
    given,
    outputs,
)
METHODS: dict[str, Method] = {
    file.METHOD.name: file.METHOD for file in _FILES if hasattr(file, "METHOD")
}
INFERENCES: dict[str, Inference] = {
    file.INFERENCE.name: file.INFERENCE for file in _FILES if hasattr(file, "INFERENCE")
}
TRAINERS: dict[str, Trainer] = {
    file.TRAINER.name: file.TRAINER for file in _FILES if hasattr(file, "TRAINER")
}


def method_named(name: str | Method) -> Method:
    """A method; INFERENCE+TRAINER; or, as `package.module:METHOD`, someone's own.

    Either half of a pair may be someone's own too: `package.module:INFERENCE+gdro`. A `Method`
    object is returned as it is.
    """
    if isinstance(name, Method):
        return name
    check_text("method", name, objects="Method")
    if "+" in name:
        return _pair(name)
    if ":" in name:
        method: Method = import_object("method", name, lambda value: isinstance(value, Method))
        return replace(method, name=name)
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]


def _pair(name: str) -> Method:
    first, _, second = name.partition("+")
    halves = (
        _half("inference (the part before '+')", first, INFERENCES, Inference),
        _half("trainer (the part after '+')", second, TRAINERS, Trainer),
    )
    for method in METHODS.values():
        if method.halves == halves:
            raise InputError(f"{name} is the method {method.name}: call it {method.name}.")
    return combined(*halves)


def _half(what: str, name: str, known: Mapping[str, Half], kind: type[Half]) -> Half:
    """A half of the list or, as `package.module:NAME`, someone's own under that name."""
    if ":" in name:
        half: Half = import_object(what, name, lambda value: isinstance(value, kind))
        return replace(half, name=name)
    if name not in known:
        raise unknown(what, name, known)
    return known[name]


def with_given_groups(name: str | Method) -> str:
    """The pair that trains as this method does, with groups from a file."""
    method = method_named(name)
    if method.halves is None:
        raise InputError(
            f"{method.name} does not train with groups: use --groups with {', '.join(TRAINERS)}."
        )
    trainer = method.halves[1].name
    if trainer not in TRAINERS and ":" not in trainer:
        raise InputError(
            f"the trainer of {method.name}, {trainer!r}, is not known by name: with --groups, use "
            f"the method given+package.module:TRAINER."
        )
    return f"given+{trainer}"


def discovery_with(inference: str | Inference) -> Method:
    """The recipe of `spare discover --inference NAME`: infers groups, and stops there.

    It has the options, and so the presets, of the method that would train with these groups as
    SPARE does; how that would sample them is what its probabilities say. An inference is named, as
    `package.module:INFERENCE` where it is someone's own, or given as an object.

    >>> discovery_with("eiil").name, discovery_with("spare").name, discovery_with("jtt").trains
    ('eiil+spare', 'spare', False)
    """
    if isinstance(inference, Inference):
        half = inference
    else:
        check_text("inference", inference, objects="Inference")
        half = _half("inference", inference, INFERENCES, Inference)

    def fit(task: Task, stages: Stages, options: Any) -> Fitted:
        inferred = half.infer(task, stages, options)
        return Fitted(None, inferred, spare.sampling_probabilities(inferred.groups, options))

    pair = spare.METHOD if half is spare.INFERENCE else combined(half, spare.TRAINER)
    return replace(
        pair, title=f"groups as {half.name} infers them, without training", fit=fit, trains=False
    )


__all__ = [
    "INFERENCES",
    "METHODS",
    "TRAINERS",
    "Fitted",
    "Inference",
    "Method",
    "discovery_with",
    "method_named",
    "with_given_groups",
]
