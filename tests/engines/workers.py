"""What processes of a job do in tests, and how several are started."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import warnings

import numpy as np
import torch.distributed as dist

import spare
from spare.errors import SpareError

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["spare.engines.processes", "sklearn.cluster", __name__])


def run(work, count, tmp_path, *arguments):
    """What each of `count` processes returned, or the error that it ended with."""
    queue = CONTEXT.Queue()
    store = str(tmp_path / f"store-{time.monotonic_ns()}")
    processes = [
        CONTEXT.Process(target=_process, args=(work, rank, count, store, queue, arguments))
        for rank in range(count)
    ]
    for process in processes:
        process.start()
    results = {}
    while len(results) < count:
        rank, result = queue.get(timeout=120)
        results[rank] = result
    for process in processes:
        process.join(60)
    return [results[rank] for rank in range(count)]


def of_survivors(work, count, tmp_path, *arguments):
    """By process, what all but the last returned: that one does not live to return anything."""
    queue, store = CONTEXT.Queue(), str(tmp_path / "store")
    processes = [
        CONTEXT.Process(target=_process, args=(work, rank, count, store, queue, arguments))
        for rank in range(count)
    ]
    for process in processes:
        process.start()
    results = dict(queue.get(timeout=120) for _ in range(count - 1))
    for process in processes:
        process.join(60)
    return results


def _process(work, rank, count, store, queue, arguments):
    # Tests that are started in the background ignore it, and the watch interrupts by it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=count)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            queue.put((rank, work(rank, count, *arguments)))
    except SpareError as error:
        queue.put((rank, f"{type(error).__name__}: {error}"))
    finally:
        queue.close()
        queue.join_thread()
        os._exit(0)


def share_of(outputs, labels, rank, count):
    return outputs[rank::count], labels[rank::count]


def clustered(rank, count, outputs, labels, options):
    groups = spare.infer_groups(
        *share_of(outputs, labels, rank, count), engine="processes", **options
    )
    others = groups.assign(outputs[:50], labels[:50])
    return groups.ids, groups.evidence, others


def dies(rank, count, outputs, labels):
    """The last process ends in the middle of clustering."""
    from spare.engines import processes

    if rank == count - 1:
        whole = processes.SharedPoints.total
        calls = iter(range(5))

        def total(self, values):
            if next(calls, None) is None:
                os._exit(1)
            return whole(self, values)

        processes.SharedPoints.total = total
        queue_told = outputs[rank::count]
        spare.infer_groups(queue_told, labels[rank::count], engine="processes")
    started = time.monotonic()
    try:
        spare.infer_groups(*share_of(outputs, labels, rank, count), engine="processes")
    except SpareError as error:
        return str(error), time.monotonic() - started
    return "", 0.0


def different(rank, count, what):
    outputs, labels = np.eye(4).repeat(5, 0)[:, : 4 if what != "width" else 4 - rank], [0, 1] * 10
    k = 2 + rank if what == "options" else 2
    if what == "input" and rank == 1:
        outputs = outputs * np.nan
    if what == "flat" and rank == 1:
        outputs = outputs[:, 0] * np.nan
    if what == "empty" and rank == 1:
        outputs = outputs[:, :0]
    power = -1.0 if what == "power" and rank == 1 else 1.0
    return spare.infer_groups(outputs, labels, k=k, power=power, engine="processes").ids
