"""Notices within seconds that a process of the job has ended, whatever this one is busy with.

Every process listens to the one before it, in a thread and on connections of its own, and tells the
one after it how it ended. A process that is killed closes its connections, which its neighbor
hears at once; it ends too, and so does the next.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import sys
import threading
from datetime import timedelta
from typing import Any

#: Seconds that the work is given to notice a lost process by itself; then it is interrupted.
GRACE = 3.0
#: Seconds after which a process that could not be interrupted is ended, if that is allowed.
LAST_GRACE = 20.0
#: Seconds that a process which ends waits for the one before it to end.
LEAVING = 10.0
#: Seconds in which the next process hears what it is told; one that is gone never does.
TELLING = 5.0
GOOD, BAD = 1, 2


class Watch:
    """Listens from its making until `leave`.

    exits   whether a process that cannot be interrupted may be ended
    """

    def __init__(self, *, exits: bool):
        import torch.distributed as dist

        self._group: Any = dist.new_group(backend="gloo", timeout=timedelta(days=30))
        self._rank, self._size = dist.get_rank(), dist.get_world_size()
        self._exits = exits
        self._lost = False
        self._teller: threading.Thread | None = None
        self._telling = threading.Lock()
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        """Whether nobody listens on the connections any more."""
        threads = (self._thread, self._teller)
        return not any(thread is not None and thread.is_alive() for thread in threads)

    def leave(self, *, well: bool) -> bool:
        """Tell the next process that this one ends, and how; True if another had ended before."""
        lost = self._lost
        self._left.set()
        self._tell(GOOD if well else BAD)
        self._thread.join(LEAVING)
        return lost

    def _tell(self, how: int) -> None:
        """Tell the next process, once: it listens once."""
        with self._telling:
            if self._teller is None:
                # In a thread, because sending to a process that has just died may take forever.
                self._teller = threading.Thread(target=self._send, args=(how,), daemon=True)
                self._teller.start()
        self._teller.join(TELLING)

    def _send(self, how: int) -> None:
        import torch
        import torch.distributed as dist

        with contextlib.suppress(RuntimeError):  # it is gone already
            dist.send(torch.tensor([how]), (self._rank + 1) % self._size, self._group)

    def _listen(self) -> None:
        import torch
        import torch.distributed as dist

        told = torch.tensor([BAD])
        try:
            dist.recv(told, (self._rank - 1) % self._size, group=self._group)
        except RuntimeError:  # the connection was closed
            told.fill_(BAD)
        if told.item() == GOOD:
            return
        self._lost = True
        self._tell(BAD)
        if self._left.wait(GRACE):
            return
        _thread.interrupt_main()
        if not self._left.wait(LAST_GRACE) and self._exits:
            print("spare: error: another process of the job has ended.", file=sys.stderr)
            sys.stderr.flush()
            os._exit(1)
