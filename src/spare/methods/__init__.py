"""Methods by name: each is a short recipe on the shared training loop.

Adding one: a file with a `METHOD`, and its name in the list below; the common tests find it.
"""

from __future__ import annotations

from spare.errors import unknown
from spare.methods import cb, erm, gb, jtt, spare
from spare.methods.method import Fitted, Method

METHODS: dict[str, Method] = {
    module.METHOD.name: module.METHOD for module in (erm, cb, gb, jtt, spare)
}


def method_named(name: str) -> Method:
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]


__all__ = ["METHODS", "Fitted", "Method", "method_named"]
