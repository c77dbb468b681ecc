"""Clustering with Spark: outputs in Parquet, wherever a cluster of machines can read them.

Classes are the natural partition. Those that fit a worker are clustered there by our own
`cluster_class`, whole classes at a time; larger ones by spark_large.py. Nothing that comes back to
the driver grows with the number of examples.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spare.engines.files import OutputFiles
from spare.engines.spark_large import CODE, ID, LABEL, large_class, points_of
from spare.errors import DataError, InputError, RunError, SpareError
from spare.groups.one_class import cluster_class
from spare.groups.result import ClassClusters

#: Bytes of one class's outputs, as float64, that a worker clusters by itself.
FITS = 2**29
OLDEST_JAVA = 17
ABOUT = "about"


def check_java() -> None:
    """One sentence where Java is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = f"install Java {OLDEST_JAVA} (Debian: openjdk-17-jre-headless) or set JAVA_HOME"
    try:
        if java is None:
            raise FileNotFoundError
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError):
        raise InputError(f"engine 'spark' needs Java, and there is none: {advice}.") from None
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is None or int(found[1]) < OLDEST_JAVA:
        version = found[1] if found else "unknown"
        raise InputError(
            f"engine 'spark' needs Java {OLDEST_JAVA} or later, and {java} is version {version}: "
            f"{advice}."
        )


def session(master: str) -> Any:
    """A Spark session whose workers run this Python."""
    check_java()
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise InputError("engine 'spark' needs pyspark: pip install 'spare-ml[spark]'.") from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        return (
            SparkSession.builder.master(master)
            .appName("spare")
            .config("spark.log.level", "OFF")  # what fails is said in one sentence, below
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.execution.arrow.pyspark.enabled", "true")
            .config("spark.sql.session.timeZone", "UTC")
            .getOrCreate()
        )
    except Exception as error:  # Py4J's, of many kinds
        raise RunError(
            f"Spark could not start with master {master!r} ({_first_line(error)}): check the URL."
        ) from error


def cluster(
    files: OutputFiles, scratch: Path, options: dict[str, Any], master: str
) -> tuple[Any, dict[Any, ClassClusters]]:
    """A DataFrame of id, label and code, and what was found in each class (without its codes)."""
    spark = session(master)
    with _as_sentences():
        examples = _examples(spark, files)
        rows = examples.groupBy(LABEL).count().collect()
        counts = {row[LABEL]: row["count"] for row in rows}
        if None in counts:
            raise DataError(f"column {files.label!r} has rows without a label: remove them.")
        width = len(examples.select("outputs").first()[0])
        most = FITS // (8 * width)
        large = sorted(label for label, count in counts.items() if count > most)
        small = examples.filter(~examples[LABEL].isin(large)) if large else examples
        done = small.groupBy(LABEL).applyInPandas(
            # No partial function: pyspark would warn that it finds no types in it.
            lambda table: _class_codes(table, options=options),
            f"{ID} long, {LABEL} {dict(examples.dtypes)[LABEL]}, {CODE} int, {ABOUT} string",
        )
        done.write.mode("overwrite").parquet(str(scratch / "small"))
        parts = [spark.read.parquet(str(scratch / "small"))]
        told = parts[0].filter(parts[0][ABOUT].isNotNull()).select(LABEL, ABOUT).collect()
        clusters = {row[LABEL]: _clusters_told(row[ABOUT]) for row in told}
        for number, label in enumerate(large):
            of_class = examples.filter(examples[LABEL] == label).select(ID, LABEL, "outputs")
            codes, clusters[label] = large_class(of_class, counts[label], width, options)
            codes.write.mode("overwrite").parquet(str(scratch / f"large-{number}"))
            parts.append(spark.read.parquet(str(scratch / f"large-{number}")))
        together = parts[0].select(ID, LABEL, CODE)
        for part in parts[1:]:
            together = together.unionByName(part.select(ID, LABEL, CODE))
    return together, {label: clusters[label] for label in sorted(clusters)}


def write_groups(together: Any, path: Path, table: Sequence[tuple[Any, int, int, float]]) -> None:
    """Groups and probabilities as Parquet; `table` has class, code, cluster, probability."""
    spark = together.sparkSession
    kind = dict(together.dtypes)[LABEL]
    with _as_sentences():
        from pyspark.sql import functions as F

        small = spark.createDataFrame(
            list(table), f"{LABEL} {kind}, {CODE} int, cluster int, probability double"
        )
        joined = together.join(F.broadcast(small), [LABEL, CODE])
        chosen = joined.select(
            ID, joined[LABEL].cast("string").alias(LABEL), "cluster", "probability"
        )
        chosen.write.mode("overwrite").parquet(str(path))


def _examples(spark: Any, files: OutputFiles) -> Any:
    """One row per example: its row in the files, its label, and its outputs as a list."""
    import pyarrow.parquet as pq
    from pyspark.sql import functions as F

    if not files.columns:
        raise InputError("engine 'spark' reads Parquet: save the outputs as Parquet.")
    starts, first = [], 0
    for part in files.parts:
        starts.append((part.absolute().name, first))
        first += pq.read_metadata(part).num_rows
    frame = spark.read.parquet(*[str(part.absolute()) for part in files.parts])
    offsets = F.create_map(*[F.lit(value) for pair in starts for value in pair])
    row = offsets[F.col("_metadata.file_name")] + F.col("_metadata.row_index")
    if len(files.columns) == 1 and dict(frame.dtypes)[files.columns[0]].startswith("array"):
        outputs = F.col(files.columns[0]).cast("array<double>")
    else:
        outputs = F.array(*[F.col(f"`{name}`").cast("double") for name in files.columns])
    label = F.col(f"`{files.label}`").alias(LABEL)
    return frame.select(row.cast("long").alias(ID), label, outputs.alias("outputs"))


def _class_codes(table: Any, *, options: dict[str, Any]) -> Any:
    """One class, in a worker: codes, and in the first row what was found."""
    import pandas as pd

    table = table.sort_values(ID)  # Spark's order is chance
    clustered = cluster_class(points_of(table), **options)
    about = json.dumps(
        {
            "scores": clustered.scores,
            "errors": clustered.errors,
            "note": clustered.note,
            "sizes": np.bincount(clustered.codes).tolist(),
        }
    )
    return pd.DataFrame(
        {
            ID: table[ID],
            LABEL: table[LABEL],
            CODE: clustered.codes.astype(np.int32),
            ABOUT: [about] + [None] * (len(table) - 1),
        }
    )


def _clusters_told(about: str) -> ClassClusters:
    told = json.loads(about)
    return ClassClusters(
        np.empty(0, dtype=np.int64),
        {int(k): score for k, score in told["scores"].items()},
        {int(k): error for k, error in told["errors"].items()},
        told["note"],
        all_sizes=tuple(told["sizes"]),
    )


class _as_sentences:
    """What fails in Spark, as one sentence; what a worker refused, in its own words."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if not isinstance(error, Exception) or isinstance(error, SpareError):
            return
        refused = re.search(r"spare\.errors\.\w+Error: (.+)", str(error))
        if refused:
            raise InputError(refused[1].strip()) from error
        raise RunError(
            f"Spark gave up ({_first_line(error)}): its workers' logs say more, and --engine "
            f"streaming needs no Spark."
        ) from error


def _first_line(error: Exception) -> str:
    """What went wrong in a worker, or else the first line of what Spark says."""
    text = str(error).strip() or type(error).__name__
    raised = re.findall(r"^(?:Caused by: )?(\w[\w.]*(?:Error|Exception)\b.*)", text, re.MULTILINE)
    return (raised[-1] if raised else text.splitlines()[0])[:200].rstrip(".")
