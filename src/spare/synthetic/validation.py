"""What the validation split of a made-up data set is like."""

from __future__ import annotations

from typing import Annotated

from spare.errors import unknown

#: `test`: the shortcut is independent of the class, so validation shows who relies on it. `train`:
#: it holds as often as in training, which is what people have who do not know of it.
ValLike = Annotated[str, "test or train"]
NAMES = ("test", "train")


def is_biased(val_like: str) -> bool:
    """Whether the shortcut holds in validation as often as in training."""
    if val_like not in NAMES:
        raise unknown("kind of validation split (val_like)", val_like, NAMES)
    return val_like == "train"
