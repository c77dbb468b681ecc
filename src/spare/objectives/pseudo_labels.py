"""SSA's loss: an attribute learned from few examples that have it and many that do not.

Nam, Kim, Lee, Shin: Spread Spurious Attribute: Improving Worst-group Accuracy with Spurious
Attribute Estimation, ICLR 2022. A batch holds examples with their attribute and others without; a
group is a class with an attribute value, and the model's softmax over attribute values is p:

    the attribute of an unlabeled x is guessed as argmax p(x); how sure that is, is max p(x)
    rarest group r of the labeled: its guesses that are at least tau sure
    any other group g: its m surest guesses,  m = max(0, labeled_r + guesses_r - labeled_g)
    loss = mean cross-entropy of the labeled + mean cross-entropy of these guesses

so that the groups come as close in number as the guesses allow. No gradient through guesses. A
group without a labeled example anywhere is never guessed; one that is only missing from the batch
counts as 0 there. Of groups that are equally rare in the batch, the one that is rarer among all
labeled examples counts as the rarest.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from spare.training.loop import Objective


def pseudo_label_loss(
    labels: np.ndarray, attributes: np.ndarray, values: int, threshold: float
) -> Objective:
    """The loss for a training split whose first rows are the labeled examples.

    Parameters
    ----------
    labels, attributes
        Of the labeled examples.
    values
        How many values the attribute can have: the model's outputs.
    threshold
        tau.
    """
    known = torch.as_tensor(np.asarray(attributes, dtype=np.int64))
    names, sizes = np.unique(np.asarray(labels) * values + attributes, return_counts=True)
    groups = torch.as_tensor(names[np.argsort(sizes, kind="stable")])

    def loss(model: nn.Module, x: Tensor, y: Tensor, index: np.ndarray) -> Tensor:
        logits = model(x)
        has_attribute = index < len(known)
        truth = known[index[has_attribute]].to(x.device)
        labeled = torch.as_tensor(has_attribute, device=x.device)
        total = nn.functional.cross_entropy(logits[labeled], truth)
        guessable = groups.to(x.device)
        counts = (y[labeled, None] * values + truth[:, None] == guessable).sum(0)
        unlabeled = logits[~labeled]
        chosen, guesses = confident(unlabeled.detach(), y[~labeled], guessable, counts, threshold)
        if len(chosen) == 0:
            return total
        return total + nn.functional.cross_entropy(unlabeled[chosen], guesses)

    return loss


def confident(
    logits: Tensor, labels: Tensor, groups: Tensor, counts: Tensor, threshold: float
) -> tuple[Tensor, Tensor]:
    """Which unlabeled examples are trained on: their rows, and the attribute guessed for each.

    Parameters
    ----------
    groups
        Those that may be guessed, as class x number of attribute values + attribute value.
    counts
        How many labeled examples of each of these the batch has.
    """
    sure, guesses = logits.softmax(1).max(1)
    guessed = labels * logits.shape[1] + guesses
    rarest = int(counts.argmin())
    chosen = [torch.nonzero((guessed == groups[rarest]) & (sure >= threshold))[:, 0]]
    target = int(counts[rarest]) + len(chosen[0])
    for number, (group, count) in enumerate(zip(groups.tolist(), counts.tolist(), strict=True)):
        if number != rarest:
            members = torch.nonzero(guessed == group)[:, 0]
            surest = sure[members].argsort(descending=True, stable=True)
            chosen.append(members[surest[: max(0, target - count)]])
    rows = torch.cat(chosen)
    return rows, guesses[rows]
