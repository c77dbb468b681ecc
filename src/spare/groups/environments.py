"""EIIL's group inference: the two environments between which a model's loss varies most.

Creager, Jacobsen, Zemel: Environment Inference for Invariant Learning, ICML 2021. With z the logits
of a frozen model, l_i(w) the cross-entropy of w z_i, and one weight s_i in (0, 1) per example:

    maximize  (d/dw mean_i s_i l_i(w))^2 + (d/dw mean_i (1 - s_i) l_i(w))^2   at w = 1
    environment of i = s_i > 1/2

The derivative of l_i at w = 1 is d_i = sum_k p_ik z_ik - z_i,yi. The objective is convex in s, so
its maximum is at a corner, and the corner that gradient ascent finds is the sign of d_i: where
d_i > 0 the model would do better with smaller logits. d_i > 0 implies a mistake; with two classes
it is the same as one. `steps=0` takes that corner at once; otherwise s is optimized as published.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from spare.groups.arrays import checked_outputs, class_numbers, number
from spare.limits import Range, check_seed, whole_number


def scale_gradients(logits: Any, labels: Any) -> np.ndarray:
    """d_i: how fast each example's loss grows with the scale of its logits.

    >>> scale_gradients([[2.0, 0.0], [2.0, 0.0]], [0, 1]).round(3).tolist()
    [-0.238, 1.762]
    """
    points = checked_outputs(logits, "logits")
    z, class_of = torch.as_tensor(points), torch.as_tensor(class_numbers(labels, *points.shape))
    expected = (z.softmax(1) * z).sum(1)
    return (expected - z.gather(1, class_of[:, None])[:, 0]).numpy()


def environments(
    logits: Any, labels: Any, *, steps: int = 10_000, lr: float = 1e-3, seed: int = 0
) -> np.ndarray:
    """Environment 1 where the model's confidence hurts, 0 where it helps.

    Parameters
    ----------
    logits : array or tensor of shape (examples, classes)
        Of a model that was trained plainly, and only a little.
    labels : array of shape (examples,)
    steps : int
        Steps of Adam on the weights s, which start at random; 0 for the maximum itself.
    lr : float
        Learning rate of these steps.
    seed : int
        Seeds the random start.

    Examples
    --------
    >>> environments([[2.0, 0.0], [2.0, 0.0]], [0, 1], steps=0).tolist()
    [0, 1]
    """
    steps = whole_number("steps", steps, Range(0, 1_000_000_000))
    lr = number("lr", lr, Range(0, 1e9, open_low=True))
    seed = check_seed(seed)
    gradients = torch.as_tensor(scale_gradients(logits, labels))
    if steps == 0:
        second = gradients > 0
    else:
        rng = torch.Generator().manual_seed(seed)
        free = torch.randn(len(gradients), generator=rng, dtype=torch.float64)
        optimizer = torch.optim.Adam([free], lr=lr, maximize=True, fused=True)
        for _ in range(steps):
            inside = free.sigmoid()
            slope = torch.dot(inside, gradients) / len(free)
            other_slope = gradients.mean() - slope
            # By hand what autograd would take three times as long for.
            free.grad = (slope - other_slope) / len(free) * gradients * inside * (1 - inside)
            optimizer.step()
        second = free > 0
        if gradients[second].mean() < gradients[~second].mean():  # which one is 1 is chance
            second = ~second
    return second.numpy().astype(np.int64)
