"""How many images each group of the drawn UrbanCars gets."""

from __future__ import annotations

from collections.abc import Sequence

from spare.errors import InputError


def group_counts(per_class: int, background: float, co_object: float) -> list[int]:
    """How many images of a split each group gets, in the order of group ids (class, bg, object)."""
    shares = [
        background_share * object_share
        for background_share in (background, 1 - background)
        for object_share in (co_object, 1 - co_object)
    ]
    urban = _rounded(per_class, shares)
    return urban + urban[::-1]  # what agrees with urban cars disagrees with country cars


def _rounded(total: int, shares: Sequence[float]) -> list[int]:
    """Integers that sum to `total`, nearest to the shares, at least 1 where a share is not 0."""
    ideal = [round(share * total, 6) for share in shares]
    if sum(share > 0 for share in ideal) > total:
        raise InputError(f"per_class={total} is too few for one image in every group: give more.")
    counts = [max(int(share), int(share > 0)) for share in ideal]
    while sum(counts) != total:
        step = 1 if sum(counts) < total else -1
        lacking = [step * (share - count) for share, count in zip(ideal, counts, strict=True)]
        allowed = [i for i, count in enumerate(counts) if ideal[i] > 0 and count + step > 0]
        counts[max(allowed, key=lambda i: lacking[i])] += step
    return counts
