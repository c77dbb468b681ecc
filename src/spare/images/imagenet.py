"""Restricted ImageNet's nine super-classes, as ranges of ImageNet's sorted folders (wnids)."""

from __future__ import annotations

WNIDS = 1000
#: First and last index, inclusive, among the sorted wnids.
RANGES = {
    "dog": (151, 268),
    "cat": (281, 285),
    "frog": (30, 32),
    "turtle": (33, 37),
    "bird": (80, 100),
    "primate": (365, 382),
    "fish": (389, 397),
    "crab": (118, 121),
    "insect": (300, 319),
}
