"""What is computed from a sample, against the same from everything; engines.py calls these."""

from __future__ import annotations

import argparse
import json

import numpy as np
from made_up import in_memory


def silhouettes(options: argparse.Namespace) -> dict:
    """Clusters of many shapes and sizes, scored from about 2,000 anchors and from all points."""
    from spare.groups.silhouettes import silhouettes as scores_of

    rows = options.rows or 50_000
    errors, within, stated = [], [], []
    for case in range(options.cases):
        rng = np.random.default_rng(case)
        k, d = int(rng.integers(2, 6)), int(rng.integers(2, 11))
        shares = rng.dirichlet(np.full(k, 0.5)) * 0.99 + 0.01 / k
        labels = rng.choice(k, rows, p=shares / shares.sum())
        labels[:k] = np.arange(k)
        spread = rng.uniform(0.05, 1.5, k)
        points = rng.normal(0, 1, (k, d))[labels] + rng.normal(size=(rows, d)) * spread[
            labels, None
        ] / np.sqrt(d)
        exact = scores_of(points, [labels], exact_limit=rows)[0].mean
        estimate = scores_of(points, [labels], seed=case)[0]
        errors.append(abs(estimate.mean - exact))
        stated.append(estimate.error)
        within.append(errors[-1] <= 1.96 * estimate.error)
    result = {
        "rows": rows,
        "cases": options.cases,
        "largest_error": max(errors),
        "mean_error": float(np.mean(errors)),
        "share_below_0.005": float(np.mean(np.array(errors) < 0.005)),
        "interval_covers": float(np.mean(within)),
        "largest_stated_error": max(stated),
    }
    print(json.dumps(result))
    return result


def medoids(options: argparse.Namespace) -> dict:
    """What each way saves, as a share of what greedy in one place with all points to pick from
    does; 20 shares, 10 cases.
    """
    import torch

    from spare.groups import medoids as m
    from spare.groups.distances import frame_of
    from spare.groups.points import Points

    rows = options.rows or 6_000
    rounds, passes, sampled = [], [], []
    some = m.CANDIDATES
    for case in range(min(options.cases, 10)):
        outputs, labels = in_memory(rows)
        array = outputs[labels == 0][: rows // 2].astype(np.float64)
        array = array[np.random.default_rng(case).permutation(len(array))]
        points = Points(array)
        frame = frame_of(points)
        sampled.append(m.value(points, frame, m.greedy(points, frame, 5, case)))
        m.CANDIDATES = len(array)
        central = m.value(points, frame, m.greedy(points, frame, 5, case))
        m.CANDIDATES = some
        sampled[-1] /= central
        picked = [m.greedy(Points(array[i::20]), frame, 5, i, together=False) for i in range(20)]
        found = m.best_of(points, frame, torch.cat(picked), 5)
        rounds.append(m.value(points, frame, found) / central)
        scaled = frame.scaled(array)
        sieved = m.sieve(scaled.split(8192), scaled[:2000], 5)
        passes.append(m.value(points, frame, sieved) / central)
    result = {
        "rows": len(array),
        "shares": 20,
        "sampled_candidates": {"least": min(sampled), "mean": float(np.mean(sampled))},
        "two_rounds": {"least": min(rounds), "mean": float(np.mean(rounds))},
        "one_pass": {"least": min(passes), "mean": float(np.mean(passes))},
    }
    print(json.dumps(result))
    return result
