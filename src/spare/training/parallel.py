"""One training step shared out among processes, with the gradient of the whole batch.

Each process passes its share of a batch through the network. What the layers before the head give
is gathered, so that every process has the rows of the whole batch, in order, and computes the same
loss of them: an objective that compares the examples of a batch, or remembers something of them,
sees what it would see in one process. Then gradients are averaged.

Why the average is exact: the loss L is computed in each of W processes. Of a weight after the
gathering, each has the whole gradient of L, and so has their mean. Of a weight before it, each has
the part that goes through its own rows, times W (see `_Gather`), and the mean of these is the sum
of the parts. Batch normalization takes its statistics over the whole batch; what is random in the
network (dropout) is drawn anew for each share. All processes have the same weights, to the bit,
after every step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from spare.errors import InputError
from spare.models import Classifier
from spare.models.classifier import device_of, hash_state, torch_seed
from spare.processes.world import World
from spare.training.device import HOST, random_state, set_random_state

#: On a device, processes agree to stop only every so many steps, because asking waits for it.
STOP_EVERY = 50


class Together:
    """What a training loop does with the other processes; alone, nothing.

    Parameters
    ----------
    networks
        All that batches are passed through.
    """

    def __init__(self, world: World, networks: list[nn.Module]):
        self.world = world
        self.networks = networks
        self._lengths: list[int] = []
        self._key: Sequence[int] = ()
        self._passes = 0
        self._stop = False
        self._steps = 0

    def check_alike(self) -> None:
        """Refuse processes whose networks do not have the same weights to begin with."""
        if self.world.size > 1:
            digest = hashlib.sha256()
            for network in self.networks:
                hash_state(digest, network.state_dict())
            self.world.agree("initial weights", digest.hexdigest()[:16])

    @contextmanager
    def training(self) -> Iterator[None]:
        """Within it, networks give the outputs of a whole batch for a share of it."""
        if self.world.size == 1:
            yield
            return
        hooks: list[Any] = []
        normalizing: list[_BatchNorm] = []
        for network in self.networks:
            shared = network.features if isinstance(network, Classifier) else network
            state = _Forked(device_of(network), self.world)
            hooks.append(shared.register_forward_pre_hook(partial(self._before, state)))
            hooks.append(shared.register_forward_hook(partial(self._after, state)))
            normalizing += [m for m in network.modules() if isinstance(m, _BatchNorm)]
        for module in normalizing:
            module.forward = partial(_normalized, module, self.world)  # type: ignore[method-assign]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            for module in normalizing:
                del module.forward

    @contextmanager
    def batch(self, count: int, key: Sequence[int]) -> Iterator[None]:
        """Within it, inputs are this process's share of a batch of so many.

        Parameters
        ----------
        key
            Seeds what is random in the networks.
        """
        self._lengths = self.world.lengths(count)
        self._key, self._passes = key, 0
        try:
            yield
        finally:
            self._lengths = []

    def average_gradients(
        self, parameters: list[nn.Parameter], should_stop: Callable[[], bool]
    ) -> None:
        """The mean over processes of every gradient; and whether one of them is to stop."""
        if self.world.size == 1:
            return
        stop = should_stop()
        gradients = [weight.grad for weight in parameters if weight.grad is not None]
        first = gradients[0]
        asked = first.new_full((1,), float(stop))
        flat = torch.cat([*(g.reshape(-1) for g in gradients), asked])
        self.world.add_up(flat)
        self._steps += 1
        if first.device.type == HOST.type or self._steps % STOP_EVERY == 0:
            self._stop = self._stop or bool(flat[-1] > 0)
        flat /= self.world.size
        start = 0
        for gradient in gradients:
            mean = flat[start : start + gradient.numel()]
            gradient.copy_(mean.view(gradient.shape))
            start += gradient.numel()

    def should_stop(self, alone: Callable[[], bool]) -> bool:
        """Whether all processes are to stop after this step; alone, whether this one is."""
        return alone() if self.world.size == 1 else self._stop

    def _before(self, state: _Forked, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if self._lengths:
            mine = self._lengths[self.world.rank]
            if len(inputs[0]) != mine:
                raise InputError(
                    f"this objective passes {len(inputs[0])} inputs through the network where its "
                    f"share of the batch has {mine}: across processes it must pass its batch as it "
                    f"is; train it in one process."
                )
            self._passes += 1
            state.fork((*self._key, self._passes))

    def _after(
        self, state: _Forked, module: nn.Module, inputs: tuple[Any, ...], outputs: Tensor
    ) -> Tensor | None:
        if not self._lengths:
            return None
        state.restore()
        whole: Tensor = _Gather.apply(outputs, self.world, self._lengths)
        return whole


class _Forked:
    """Random numbers of a process's own, while its share passes through a network.

    Afterwards the generators are where they were, as in all other processes, so that a checkpoint,
    and an objective that draws random numbers, need not know how many there are.
    """

    def __init__(self, device: torch.device, world: World):
        self._device, self._rank = device, world.rank
        self._kept: dict[str, Tensor] = {}

    def fork(self, key: tuple[int, ...]) -> None:
        self._kept = random_state(self._device)
        torch.manual_seed(torch_seed((*key, self._rank)))

    def restore(self) -> None:
        set_random_state(self._kept, self._device)


class _Gather(torch.autograd.Function):
    """The rows of all processes; backward, the gradient of this process's own, times all."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, world: World, lengths: list[int]) -> Tensor:
        start = sum(lengths[: world.rank])
        ctx.mine, ctx.size = slice(start, start + lengths[world.rank]), world.size
        return world.gather(rows, lengths)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return gradients[0][ctx.mine] * ctx.size, None, None


class _Sum(torch.autograd.Function):
    """The sum over all processes; every one of them adds to the gradient of each."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, world: World) -> Tensor:
        ctx.world = world
        return world.add_up(values.clone())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.world.add_up(gradients[0].contiguous().clone()), None


def _normalized(module: _BatchNorm, world: World, x: Tensor) -> Tensor:
    """Batch normalization over the examples of all processes, as one process would do it."""
    if not module.training:
        return type(module).forward(module, x)
    module._check_input_dim(x)  # type: ignore[no-untyped-call]
    added: Callable[[Tensor], Tensor] = partial(_added, world)
    dims = [0, *range(2, x.ndim)]
    shape = (1, -1, *(1,) * (x.ndim - 2))
    values = x.float()
    # The count travels with the sums, as one more number.
    here = values.new_full((1,), values.numel() // x.shape[1])
    sums = added(torch.cat([values.sum(dims), here]))
    count = sums[-1].detach()
    mean = sums[:-1] / count
    centered = values - mean.view(shape)
    variance = added(centered.square().sum(dims)) / count
    if module.track_running_stats:
        _remember(module, mean.detach(), variance.detach() * count / (count - 1).clamp(min=1))
    normal = centered * (variance + module.eps).rsqrt().view(shape)
    if module.affine:
        normal = normal * module.weight.view(shape) + module.bias.view(shape)
    return normal.to(x.dtype)


def _added(world: World, values: Tensor) -> Tensor:
    total: Tensor = _Sum.apply(values, world)
    return total


def _remember(module: _BatchNorm, mean: Tensor, variance: Tensor) -> None:
    """Move the running statistics, as torch does."""
    batches, of_mean, of_variance = (
        module.num_batches_tracked, module.running_mean, module.running_var,
    )  # fmt: skip
    assert batches is not None
    assert of_mean is not None
    assert of_variance is not None
    batches += 1
    momentum = 1 / float(batches) if module.momentum is None else module.momentum
    of_mean.lerp_(mean.to(of_mean.dtype), momentum)
    of_variance.lerp_(variance.to(of_variance.dtype), momentum)
