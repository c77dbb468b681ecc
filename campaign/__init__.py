"""The tool, hurt on purpose: every kind of fault, many times, counted.

    python -m campaign                      everything, in the long form: `make check-all`
    python -m campaign --only kills,disks   some of it
    python -m campaign.kills --cases 20     one part alone
    python -m campaign.report               docs/reliability.md, from results/reliability

A part is a module with a `main`; it tries `--cases` cases from `--seed` on, prints what it does,
and writes its counts to `--out`. What parts share is in `campaign.common`.
"""

import sys
from pathlib import Path

# What is hurt is the code of this checkout, whichever is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
