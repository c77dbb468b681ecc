"""What a model says about every example of a split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from spare.data.task import Split
from spare.errors import unknown
from spare.models import Classifier
from spare.models.classifier import device_of
from spare.processes.world import World, current
from spare.training.device import enough_memory, in_precision, to_host
from spare.training.loading import evaluation_batches
from spare.training.settings import Settings

#: What can be clustered, by the name that people use for it.
OUTPUTS = {"softmax": "probabilities", "logits": "logits", "features": "features"}


@dataclass(frozen=True)
class Outputs:
    """What a model says about examples of a split, in order; on the host.

    These are all of them or, where processes share them out, those of this process (`share_of`).
    """

    logits: Tensor
    #: What passes into the last layer, where it was asked for.
    hidden: Tensor | None = None

    @property
    def features(self) -> Tensor:
        assert self.hidden is not None, "features have to be asked for"
        return self.hidden

    @property
    def probabilities(self) -> Tensor:
        return self.logits.softmax(1)

    def named(self, name: str) -> Tensor:
        """Softmax outputs, logits or features, by the name that people use for them."""
        if name not in OUTPUTS:
            raise unknown("output", name, OUTPUTS)
        chosen: Tensor = getattr(self, OUTPUTS[name])
        return chosen


def outputs(
    model: nn.Module,
    split: Split,
    settings: Settings,
    *,
    features: bool = False,
    shared: bool = False,
    on_step: Callable[[int, int], None] | None = None,
) -> Outputs:
    """What a model says of every example: in eval mode, un-augmented, in order.

    Several processes compute whole batches each.

    Parameters
    ----------
    features
        Whether to keep what passes into the last layer too, which may take much more room.
    shared
        Whether each process keeps what it computed; otherwise all have the outputs of all examples.
    """
    world, size = current(), settings.eval_batch_size
    parts = [_rows(len(split), size, world, rank) for rank in range(world.size)]
    mine = parts[world.rank]
    # A process without a batch takes one example, of which nothing is kept: for the shape.
    device = device_of(model)
    count, batches = evaluation_batches(split, size, settings.workers, device, mine or range(1))
    logits: list[Tensor] = []
    kept: list[Tensor] = []
    was_training = model.training
    model.eval()
    with (
        torch.inference_mode(),
        in_precision(settings.precision, device),
        enough_memory(device, *evaluation_memory(settings.eval_batch_size)),
    ):
        for step, x in enumerate(batches, start=1):
            hidden = model.features(x) if isinstance(model, Classifier) else x
            head = model.head if isinstance(model, Classifier) else model
            if features:
                kept.append(to_host(hidden.clone()))
            logits.append(to_host(head(hidden)))
            if on_step is not None:
                on_step(step, count)
    model.train(was_training)
    lengths = [len(part) for part in parts]

    def joined(batches: list[Tensor]) -> Tensor:
        here = torch.cat(batches)[: len(mine)]
        return here if shared else world.gather(here, lengths)

    return Outputs(joined(logits), joined(kept) if features else None)


def share_of(split: Split, settings: Settings) -> slice:
    """The examples of a split that this process evaluates; alone, all of them."""
    world = current()
    mine = _rows(len(split), settings.eval_batch_size, world, world.rank)
    return slice(mine.start, mine.stop)


def _rows(count: int, batch_size: int, world: World, rank: int) -> range:
    """The examples of the batches that a process evaluates."""
    share = world.share(-(-count // batch_size), rank)
    return range(share.start * batch_size, min(share.stop * batch_size, count))


def evaluation_memory(batch_size: int) -> tuple[str, str]:
    """What an evaluation is made of, and what to lower if that is too much."""
    return f"the outputs of {batch_size} examples at a time", "lower eval_batch_size"


def as_clustered(given: Tensor, output: str) -> Tensor:
    """Outputs that someone brings, as the named output: rows that sum to 1 are probabilities."""
    if output not in OUTPUTS:
        raise unknown("output", output, OUTPUTS)
    are_shares = bool((given >= 0).all()) and torch.allclose(given.sum(1), torch.ones(len(given)))
    return given if are_shares or output != "softmax" else given.softmax(1)
