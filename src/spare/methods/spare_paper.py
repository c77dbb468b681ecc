"""SPARE as published: groups after a fixed epoch, and powers by the silhouette alone.

What differs from `spare` (spare.py): the early epochs are given, or chosen by validation groups
(separate_at=val); the early model's outputs are clustered as they are; a class whose silhouette is
below 0.9 gets power 2, whatever its clusters are. The paper's tables use this one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from spare.limits import Count
from spare.methods import spare
from spare.methods.method import combined
from spare.methods.separation import SeparationOptions


@dataclass(frozen=True)
class PaperOptions(SeparationOptions):
    separate_at: Count | str = 2
    weigh: str = "silhouette"
    match_classes: bool = False


INFERENCE = replace(spare.INFERENCE, name="spare_paper", options=PaperOptions)
METHOD = combined(
    INFERENCE,
    spare.TRAINER,
    name="spare_paper",
    title="SPARE as published: fixed early epochs, powers by the silhouette",
    paper="Yang et al. 2024",
    preset_from="spare",
    cost="1x + T/epochs",
)
