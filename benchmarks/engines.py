"""How clustering grows: time, memory, rare clusters, estimates, engines. Ratios and CPU seconds.

python benchmarks/engines.py growth            10k, 100k, 1M (10M: --large) x 10, two classes
python benchmarks/engines.py streaming         20M x 10 on disk (--rows for fewer), peak memory
python benchmarks/engines.py rare              12 points in 10M (--rows), by every engine here
python benchmarks/engines.py silhouettes       estimate against exact, 50,000 points, 100 cases
python benchmarks/engines.py medoids           two rounds and one pass against greedy in one place
python benchmarks/engines.py spark             5M x 10 (--rows) with Spark, local[2]
python benchmarks/engines.py shapes            200,000 (--rows) with more columns, or more clusters

Each writes what it measured to results/engines/, if --write is given.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from inference import status_mb
from made_up import chunks, in_memory
from measured import keep
from sampled import medoids, silhouettes

CGROUP = "SPARE_CGROUP"


def start_measuring() -> float:
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    return status_mb("VmRSS")


def one_size(rows: int) -> dict:
    """In a process of its own: seconds, and peak memory above the input."""
    import spare

    outputs, labels = in_memory(rows)
    spare.infer_groups(outputs[:30_000], labels[:30_000], power=1)
    before = start_measuring()
    cpu, wall = time.process_time(), time.perf_counter()
    groups = spare.infer_groups(outputs, labels)
    return {
        "rows": rows,
        "cpu_seconds": time.process_time() - cpu,
        "wall_seconds": time.perf_counter() - wall,
        "input_mb": outputs.nbytes / 2**20,
        "memory_above_input_mb": status_mb("VmHWM") - before,
        "sizes": [evidence.sizes for evidence in groups.evidence.values()],
        "largest_error": max(max(e.errors.values()) for e in groups.evidence.values()),
    }


def in_own_process(name: str, *arguments: object) -> dict:
    command = [sys.executable, __file__, "--one", name, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def growth(options: argparse.Namespace) -> dict:
    sizes = [10_000, 100_000, 1_000_000] + [10_000_000] * options.large
    runs = []
    for rows in sizes:
        runs.append(in_own_process("size", rows))
        print(json.dumps(runs[-1]), flush=True)
    above = [run for run in runs if run["rows"] >= 100_000]
    slope = np.polyfit(
        np.log([run["rows"] for run in above]), np.log([run["cpu_seconds"] for run in above]), 1
    )[0]
    print(f"CPU time grows as n^{slope:.2f} from 100,000 on")
    return {"runs": runs, "exponent_above_100k": float(slope)}


def write_parquet(path: Path, rows: int, **options) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for outputs, labels in chunks(rows, **options):
        columns = {f"p{i}": column for i, column in enumerate(outputs.T)} | {"y": labels}
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def streamed(path: str) -> dict:
    group = os.environ.get(CGROUP)
    if group:
        Path(group, "cgroup.procs").write_text(str(os.getpid()))  # before anything large is loaded
    import spare

    cpu, wall = time.process_time(), time.perf_counter()
    with tempfile.TemporaryDirectory(dir=Path(path).parent) as out:
        start_measuring()
        found = spare.cluster_outputs(path, engine="streaming", out=f"{out}/found")
        import pyarrow.parquet as pq

        peak = status_mb("VmHWM")
        first = next(pq.ParquetFile(found.groups).iter_batches(1_000_000))
        np.save(f"{path}.clusters.npy", first["cluster"].to_numpy())
        limit = Path(group, "memory.limit_in_bytes").read_text() if group else "0"
        return {
            "cpu_seconds": time.process_time() - cpu,
            "wall_seconds": time.perf_counter() - wall,
            "peak_resident_mb": peak,
            "capped_at_mb": int(limit) / 2**20,
            "sizes": [evidence.sizes for evidence in found.evidence.values()],
        }


def streaming(options: argparse.Namespace) -> dict:
    """Peak resident memory of the whole process, libraries included; capped where SPARE_CGROUP
    names a memory control group (version 1) with a limit.
    """
    from sklearn.metrics import adjusted_rand_score

    import spare

    rows = options.rows or 20_000_000
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        path = Path(folder) / "outputs.parquet"
        write_parquet(path, rows)
        run = {"rows": rows} | in_own_process("streamed", path)
        count = min(rows, 1_000_000)
        outputs, labels = in_memory(count)
        here = spare.infer_groups(outputs, labels)
        clusters = np.load(f"{path}.clusters.npy")[:count]
        run["ari_with_local_on_1m"] = min(
            float(adjusted_rand_score(clusters[labels == c], here.ids[labels == c])) for c in (0, 1)
        )
        run["k"] = {"local": [e.k for e in here.evidence.values()]}
    print(json.dumps(run))
    return run


def with_rare_points(rows: int, count: int = 12) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    points = rng.standard_normal((rows, 10), dtype=np.float32) * np.float32(2e-4)
    rare = np.sort(rng.choice(rows, count, replace=False))
    points[rare, 0] += 1
    return points, rare


def rare(options: argparse.Namespace) -> dict:
    import pyarrow as pa
    import pyarrow.parquet as pq

    import spare

    rows = options.rows or 10_000_000
    points, places = with_rare_points(rows)
    labels = np.zeros(rows, dtype=np.int64)
    groups = spare.infer_groups(points, labels)
    result: dict = {"rows": rows, "rare": len(places)}
    result["local"] = bool((np.flatnonzero(groups.ids == 1) == places).all())
    result["local_sizes"] = groups.evidence[0].sizes
    print(json.dumps(result), flush=True)
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        path = Path(folder) / "outputs.parquet"
        table = pa.table({f"p{i}": column for i, column in enumerate(points.T)} | {"y": labels})
        pq.write_table(table, path)
        del table
        for engine in ("streaming", *(["spark"] if options.spark else [])):
            found = spare.cluster_outputs(
                path, engine=engine, out=f"{folder}/{engine}", master="local[2]"
            )
            clusters = pq.read_table(found.groups)
            ids = clusters["id"].to_numpy()[clusters["cluster"].to_numpy() == 1]
            result[engine] = bool(np.array_equal(np.sort(ids), places))
            print(json.dumps(result), flush=True)
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        queue = context.Queue()
        ranks = [
            context.Process(target=rare_share, args=(rank, rows, f"{folder}/store", queue))
            for rank in (0, 1)
        ]
        for process in ranks:
            process.start()
        found_rows = np.sort(np.concatenate([queue.get() for _ in ranks]))
        for process in ranks:
            process.join()
    result["processes"] = bool(np.array_equal(found_rows, places))
    print(json.dumps(result))
    return result


def rare_share(rank: int, rows: int, store: str, queue) -> None:
    import torch.distributed as dist

    import spare

    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    points = with_rare_points(rows)[0][rank::2].copy()
    groups = spare.infer_groups(points, np.zeros(len(points), dtype=int), engine="processes")
    queue.put(np.flatnonzero(groups.ids == 1) * 2 + rank)
    dist.destroy_process_group()


def spark(options: argparse.Namespace) -> dict:
    import pyarrow.parquet as pq
    from sklearn.metrics import adjusted_rand_score

    import spare

    rows = options.rows or 5_000_000
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        path = Path(folder) / "outputs.parquet"
        write_parquet(path, rows)
        started = time.perf_counter()
        found = spare.cluster_outputs(path, engine="spark", master="local[2]", out=f"{folder}/out")
        seconds = time.perf_counter() - started
        clusters = np.empty(rows, dtype=np.int32)
        table = pq.read_table(found.groups, columns=["id", "cluster"])
        clusters[table["id"].to_numpy()] = table["cluster"].to_numpy()
    outputs, labels = in_memory(rows)
    here = spare.infer_groups(outputs, labels)
    result = {
        "rows": rows,
        "wall_seconds": seconds,
        "ari_with_local": float(adjusted_rand_score(clusters, here.ids)),
        "sizes": [evidence.sizes for evidence in found.evidence.values()],
    }
    print(json.dumps(result))
    return result


def shapes(options: argparse.Namespace) -> dict:
    """CPU seconds by the number of columns d and the largest k, and a fit of what they cost."""
    import spare

    rows = options.rows or 200_000
    first, of_first = next(chunks(30_000))
    spare.infer_groups(first, of_first)  # imports are not measured
    runs = []
    for columns, k_max in ((10, 3), (10, 5), (10, 9), (40, 3), (40, 5)):
        blocks = list(chunks(rows, columns=columns))
        outputs = np.concatenate([block for block, _ in blocks])
        labels = np.concatenate([of_block for _, of_block in blocks])
        cpu = time.process_time()
        spare.infer_groups(outputs, labels, k_max=k_max)
        seconds = time.process_time() - cpu
        centers = sum(range(2, k_max + 1))  # of all k that are tried
        runs.append({"d": columns, "k_max": k_max, "centers": centers, "cpu_seconds": seconds})
        print(json.dumps(runs[-1]), flush=True)
    terms = np.array([[1, run["centers"], run["d"] * run["centers"]] for run in runs])
    micro = 1e6 * np.array([run["cpu_seconds"] for run in runs]) / rows
    found, *_ = np.linalg.lstsq(terms / micro[:, None], np.ones(len(runs)), rcond=None)
    fit = dict(zip(("constant", "centers", "d_centers"), found.tolist(), strict=True))
    off = np.abs(terms @ found / micro - 1).max()
    print(f"microseconds per example: {fit}, off by at most {off:.0%}")
    return {"rows": rows, "runs": runs, "microseconds_per_example": fit, "largest_error": off}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=sorted(MEASURED))
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--scratch", default=None, help="folder for files of outputs")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, argument = options.one
        print(json.dumps(one_size(int(argument)) if name == "size" else streamed(argument)))
        return
    if options.what is None:
        parser.error("say what to measure")
    measured = MEASURED[options.what](options)
    if options.write:
        keep(options.what, measured)


MEASURED = {
    "growth": growth,
    "medoids": medoids,
    "spark": spark,
    "streaming": streaming,
    "rare": rare,
    "shapes": shapes,
    "silhouettes": silhouettes,
}

if __name__ == "__main__":
    main()
