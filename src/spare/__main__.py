import os
import sys

# `python -m` puts the current folder first on the path, where a file could shadow a package.
if sys.path and sys.path[0] in ("", os.getcwd()):
    del sys.path[0]

from spare.cli import main

main()
