"""The command line: parse, call one library function, print, exit.

Nothing heavy is imported before a verb needs it, so `spare --help` is quick.
"""

from spare.cli import data, running, pages, listing  # noqa: F401, I001  (each adds its verbs)
from spare.cli.app import app, main

__all__ = ["app", "main"]
