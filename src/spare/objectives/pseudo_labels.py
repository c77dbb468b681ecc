"""SSA's loss: an attribute learned from few examples that have it and many that do not.

Nam, Kim, Lee, Shin: Spread Spurious Attribute: Improving Worst-group Accuracy with Spurious
Attribute Estimation, ICLR 2022. A batch holds examples with their attribute and others without; a
group is a class with an attribute value, and the model's softmax over attribute values is p:

    the attribute of an unlabelled x is guessed as argmax p(x); how sure that is, is max p(x)
    rarest group r of the labelled: its guesses that are at least tau sure
    any other group g: its m surest guesses,  m = max(0, labelled_r + guesses_r - labelled_g)
    loss = mean cross-entropy of the labelled + mean cross-entropy of these guesses

so that the groups come as close in number as the guesses allow. No gradient through guesses. A
group without a labelled example anywhere is never guessed; one that is only missing from the batch
counts as 0 there. Among equals, the rarer of the whole labelled set is the rarest.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from spare.training.loop import Objective


def pseudo_label_loss(
    labels: np.ndarray, attributes: np.ndarray, values: int, threshold: float
) -> Objective:
    """The loss for a training split whose first rows are the labelled ones, of these attributes.

    values  how many values the attribute can have: the model's outputs.
    """
    known = torch.as_tensor(np.asarray(attributes, dtype=np.int64))
    names, sizes = np.unique(np.asarray(labels) * values + attributes, return_counts=True)
    groups = torch.as_tensor(names[np.argsort(sizes, kind="stable")])

    def loss(model: nn.Module, x: Tensor, y: Tensor, index: np.ndarray) -> Tensor:
        logits = model(x)
        rows = torch.as_tensor(index)
        labelled = rows < len(known)
        truth = known[rows[labelled]]
        total = nn.functional.cross_entropy(logits[labelled], truth)
        counts = (y[labelled, None] * values + truth[:, None] == groups).sum(0)
        others = logits[~labelled]
        chosen, guesses = confident(others.detach(), y[~labelled], groups, counts, threshold)
        if len(chosen) == 0:
            return total
        return total + nn.functional.cross_entropy(others[chosen], guesses)

    return loss


def confident(
    logits: Tensor, labels: Tensor, groups: Tensor, counts: Tensor, threshold: float
) -> tuple[Tensor, Tensor]:
    """Which unlabelled examples are trained on: their rows, and the attribute guessed for each.

    groups  those that may be guessed, as class x number of attribute values + attribute value.
    counts  how many labelled examples of each of them the batch has.
    """
    sure, guesses = logits.softmax(1).max(1)
    guessed = labels * logits.shape[1] + guesses
    rarest = int(counts.argmin())
    chosen = [torch.nonzero((guessed == groups[rarest]) & (sure >= threshold))[:, 0]]
    wanted = int(counts[rarest]) + len(chosen[0])
    for number, (group, count) in enumerate(zip(groups.tolist(), counts.tolist(), strict=True)):
        if number != rarest:
            own = torch.nonzero(guessed == group)[:, 0]
            surest = sure[own].argsort(descending=True, stable=True)
            chosen.append(own[surest[: max(0, wanted - count)]])
    rows = torch.cat(chosen)
    return rows, guesses[rows]
