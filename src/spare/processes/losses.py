"""What is said where a process of the job is gone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from spare.errors import Interrupted, RunError, SpareError, reason


class Lost(RunError):
    """Another process of the job is gone."""

    SAID = "another process of the job has ended or did not answer in time"

    def __init__(self, error: BaseException):
        why = re.sub(r"^\[[^\]]*\] *", "", reason(error))  # a place in the code of gloo
        super().__init__(f"{self.SAID} ({why[:80]}): see what it said, and start the job again.")


def looks_like_a_loss(error: BaseException) -> bool:
    """Whether it is the watch's interrupt, or an error such as torch.distributed raises.

    Any other error is this process's own, and perhaps what made the others end.
    """
    return isinstance(error, Interrupted | KeyboardInterrupt | RuntimeError)


@contextmanager
def told_of_losses() -> Iterator[None]:
    """A process that has died or does not answer is one sentence in all others."""
    try:
        yield
    except SpareError:
        raise
    except RuntimeError as error:
        raise Lost(error) from error
