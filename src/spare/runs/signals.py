"""Ctrl-C and SIGTERM: the work ends after its step, or at once where there are no steps.

Nothing heavy is imported here, so that the command line listens from its first moment on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

#: Names the process that a worker must not outlive.
PARENT = "SPARE_PARENT"
#: Work that asks more rarely than every so many seconds is not asked to finish its step.
GRACE = 3.0
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def stop_on_signal(
    signals: Sequence[signal.Signals] = SIGNALS,
) -> Iterator[Callable[[], bool]]:
    """Within it, a signal is told to whoever asks, as training does after each of its steps.

    Where nobody asks (imports, loading, clustering), it is a KeyboardInterrupt: at once if nobody
    asked for some seconds, else when nobody did for some seconds more; and again while it has no
    effect, because code of others may swallow it.

    A worker process (SPARE_PARENT in its environment) also stops when its parent is gone.
    """
    received: list[int] = []  # not an Event: a second signal while it is being set would lock up
    asked = -GRACE
    busy = False
    parent = int(os.environ.get(PARENT, 0))

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal busy
        if busy:  # signals that come faster than they are handled must not pile up
            return
        busy = True
        received.append(number)
        signal.setitimer(signal.ITIMER_REAL, GRACE, GRACE)
        nobody_asks = time.monotonic() - asked > GRACE
        busy = False
        if nobody_asks:
            raise KeyboardInterrupt

    def should_stop() -> bool:
        nonlocal asked
        asked = time.monotonic()
        if received:  # who asked knows now, and has the time that it needs
            signal.setitimer(signal.ITIMER_REAL, 0)
        return bool(received) or (parent != 0 and os.getppid() != parent)

    numbers = (*signals, signal.SIGALRM)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield should_stop
    finally:
        if received:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
