"""Methods by name: each is a short recipe on the shared training loop.

Adding one: a file with a `METHOD`, and its name in the list below; the common tests find it. A file
may also have an `INFERENCE` and a `TRAINER`, which then go with every other: "eiil+spare".
"""

from __future__ import annotations

from dataclasses import replace

from spare.errors import InputError, unknown
from spare.imports import import_object
from spare.methods import (
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
    pgi,
    spare,
    ssa,
)
from spare.methods.method import Fitted, Inference, Method, Trainer, combined

_FILES = (
    erm,
    cb,
    pgi,
    eiil,
    lff,
    jtt,
    cnc,
    george,
    spare,
    bridge,
    ssa,
    dfr_val,
    gb,
    gdro,
    dfr,
    given,
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


def method_named(name: str) -> Method:
    """A method; INFERENCE+TRAINER; or, as `package.module:METHOD`, someone's own."""
    if ":" in name:
        found = import_object("method", name, lambda value: isinstance(value, Method))
        return replace(found, name=name)
    if "+" not in name:
        if name not in METHODS:
            raise unknown("method", name, METHODS)
        return METHODS[name]
    first, _, second = name.partition("+")
    if first not in INFERENCES:
        raise unknown("inference (the part before '+')", first, INFERENCES)
    if second not in TRAINERS:
        raise unknown("trainer (the part after '+')", second, TRAINERS)
    halves = (INFERENCES[first], TRAINERS[second])
    for method in METHODS.values():
        if method.halves == halves:
            raise InputError(f"{name} is what {method.name} is: name it {method.name}.")
    return combined(*halves)


def with_given_groups(name: str) -> str:
    """The pair that trains as this method does, with groups from a file."""
    method = method_named(name)
    if method.halves is None:
        raise InputError(
            f"{name} does not train with groups: --groups goes with {', '.join(TRAINERS)}."
        )
    return f"given+{method.halves[1].name}"


__all__ = [
    "INFERENCES",
    "METHODS",
    "TRAINERS",
    "Fitted",
    "Method",
    "method_named",
    "with_given_groups",
]
