"""The command line: parse, call one library function, print, exit.

Nothing is imported here that takes time, because signals are listened to first; and nothing heavy
is imported before a verb needs it, so `spare --help` is quick.

Exit codes: 0 done; 1 refused or failed, with one sentence on standard error; 130 stopped by Ctrl-C
or SIGTERM.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from spare.runs.signals import stop_on_signal

STOPPED = 130


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    code = STOPPED
    # The interrupt that is suppressed comes in the last moment, when handlers are put back.
    with contextlib.suppress(KeyboardInterrupt), stop_on_signal() as should_stop:
        try:
            from spare.cli.program import run

            code = run(arguments, should_stop)
        except BaseException as error:
            # An import that is broken off may end in any error.
            if not (should_stop() or isinstance(error, KeyboardInterrupt)):
                raise
            with contextlib.suppress(OSError):
                os.write(2, b"spare: stopped.\n")
    if arguments is None:  # a process of its own, which ends here
        _end(code)
    sys.exit(code)


def _end(code: int) -> NoReturn:
    """End the process as it is: Python would need another 100 MB to take torch apart first.

    Threads of other libraries, which may not have noticed that work was stopped, end with it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # everything is done, and said
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if code != STOPPED:
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or never open
            stream.flush()
    os._exit(code)
