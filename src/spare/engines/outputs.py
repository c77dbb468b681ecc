"""Groups of a file of outputs, by an engine: what `spare discover FILE --engine NAME` does.

    groups.parquet   one row per example: id (its row), label, cluster, probability; of Spark, a
                     folder of such files, their rows in any order
    clusters.json    what was found in each class, and by which engine

These are the files' own rows in their order; nothing is divided into splits, and nothing trained.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spare.engines import streaming
from spare.engines.files import OutputFiles, output_files
from spare.files.building import no_empty_folders
from spare.files.paths import path_given
from spare.files.writing import cannot_write, scratch_folder, write_atomic, write_json
from spare.groups.arrays import one_of
from spare.groups.clusterers import DEFAULT, check_name
from spare.groups.clusters import silhouette_power
from spare.groups.result import ClassClusters, ClassEvidence
from spare.groups.weights import Power, power_of
from spare.limits import Range, check_seed, half_of_memory, whole_number
from spare.progress import SILENT, Progress
from spare.records.layout import GROUPS

FILE_ENGINES = ("auto", "local", "streaming", "spark")
CLUSTERS = "clusters.json"
#: Clustering in memory takes so many times the size of the files.
ROOM = 4


@dataclass(frozen=True)
class ClusteredOutputs:
    """The groups of a file of outputs, as they lie in a folder.

    Attributes
    ----------
    folder : Path
        Holds groups.parquet (one row per example) and clusters.json.
    engine : str
    evidence : dict of class label to ClassEvidence

    Examples
    --------
    >>> evidence = {"cat": ClassEvidence([90, 10], 2.0, scores={2: 0.8})}
    >>> print(ClusteredOutputs(Path("found"), "local", evidence))
    100 examples, engine local
    cat: 90, 10, silhouette 0.800, power 2
    """

    folder: Path
    engine: str
    evidence: dict[Any, ClassEvidence]

    @property
    def groups(self) -> Path:
        return self.folder / GROUPS

    def as_json(self) -> dict[str, Any]:
        classes = {str(label): asdict(each) for label, each in self.evidence.items()}
        return {"engine": self.engine, "folder": str(self.folder), "classes": classes}

    def __str__(self) -> str:
        rows = sum(sum(evidence.sizes) for evidence in self.evidence.values())
        lines = [f"{rows:,} examples, engine {self.engine}"]
        for label, evidence in self.evidence.items():
            score = evidence.silhouette
            error = max(evidence.errors.values(), default=0.0)
            said = "" if score is None else f", silhouette {score:.3f}"
            said += f" ± {error:.3f}" if error else ""
            sizes = ", ".join(f"{size:,}" for size in evidence.sizes)
            lines.append(f"{label}: {sizes}{said}, power {evidence.power:g}")
        return "\n".join(lines)


def cluster_outputs(
    path: Path | str,
    *,
    label: str = "",
    k: int | None = None,
    k_max: int = 5,
    power: Power | None = None,
    clusterer: str = DEFAULT,
    seed: int = 0,
    engine: str = "auto",
    master: str = "local[*]",
    out: Path | str,
    progress: Progress = SILENT,
) -> ClusteredOutputs:
    """Cluster the outputs in a file that may be larger than memory.

    Parameters
    ----------
    path : Path
        A Parquet file or a folder of such files, with a column of labels and the outputs in the
        other columns of numbers; or a .npy file, with the labels in a second one.
    label : str
        The column of labels, by default the first that has a usual name; or the second .npy file.
    k, k_max, power, clusterer, seed
        As in `infer_groups`.
    engine : str
        "local", "streaming" (from disk), "spark", or "auto": local if there is room in memory,
        else streaming.
    master : str
        Spark's master URL.
    out : Path
        Folder to write to.
    progress : Progress, optional
        Receives progress and messages.

    Returns
    -------
    ClusteredOutputs

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, pyarrow as pa, pyarrow.parquet as pq
    >>> folder = tempfile.mkdtemp()
    >>> outputs = pa.table({"a": [0.9, 0.8, 0.9, 0.1], "b": [0.1, 0.2, 0.1, 0.9], "y": ["a"] * 4})
    >>> pq.write_table(outputs, f"{folder}/outputs.parquet")
    >>> found = cluster_outputs(f"{folder}/outputs.parquet", out=f"{folder}/found", k=2)
    >>> found.evidence["a"].sizes
    [3, 1]
    """
    source, folder = path_given("path", path), path_given("out", out)
    one_of("engine", engine, FILE_ENGINES)
    check_name(clusterer)
    options: dict[str, Any] = {
        "k": None if k is None else whole_number("k", k, Range(1)),
        "k_max": whole_number("k_max", k_max, Range(2)) if k is None else k_max,
        "clusterer": clusterer,
        "seed": check_seed(seed),
    }
    if not isinstance(power, Mapping | None):
        power_of(power, None)  # one for all classes is refused before anything is clustered
    files = output_files(source, label)
    if engine == "auto":
        engine = "streaming" if too_large(*files.parts) else "local"
    with no_empty_folders(folder / GROUPS):
        folder.mkdir(parents=True, exist_ok=True)
        if engine == "spark":
            evidence = _with_spark(files, folder, options, power, master)
        else:
            evidence = _from_disk(files, folder, options, power, engine, progress)
        found = ClusteredOutputs(folder, engine, evidence)
        write_json(folder / CLUSTERS, found.as_json())
    return found


def put_in_place(new: Path, place: Path) -> None:
    """Move a file or a folder to where either may be: Spark writes a folder, the others a file."""
    try:
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        elif new.is_dir():
            place.unlink(missing_ok=True)
        new.replace(place)
    except OSError as error:
        raise cannot_write(place, error) from error


def too_large(*parts: Path) -> bool:
    """Whether outputs in these files would take more than half of the memory to be clustered."""
    return ROOM * sum(part.stat().st_size for part in parts) > half_of_memory()


def _from_disk(
    files: OutputFiles,
    folder: Path,
    options: dict[str, Any],
    power: Power | None,
    engine: str,
    progress: Progress,
) -> dict[Any, ClassEvidence]:
    with scratch_folder(folder, ".divided-") as scratch:
        divided = streaming.divide(files, scratch, progress)
        local = engine == "local"
        clusters = streaming.cluster(divided, options, progress, in_memory=local)
        evidence = evidence_of(clusters, power)
        written = scratch / GROUPS
        write_atomic(written, lambda path: _write_groups(path, divided, clusters, evidence))
        put_in_place(written, folder / GROUPS)
    return evidence


def _with_spark(
    files: OutputFiles, folder: Path, options: dict[str, Any], power: Power | None, master: str
) -> dict[Any, ClassEvidence]:
    from spare.engines import spark

    with scratch_folder(folder, ".spark-") as scratch:
        together, clusters = spark.cluster(files, scratch, options, master)
        evidence = evidence_of(clusters, power)
        likely = probabilities_of(evidence)
        table = [
            (label, code, each.first_id + code, float(likely[label][code]))
            for label, each in evidence.items()
            for code in range(len(each.sizes))
        ]
        spark.write_groups(together, scratch / GROUPS, table)
        put_in_place(scratch / GROUPS, folder / GROUPS)
    return evidence


def evidence_of(
    clusters: Mapping[Any, ClassClusters], power: Power | None
) -> dict[Any, ClassEvidence]:
    """What was found in each class, with ids numbered from one class to the next."""
    evidence: dict[Any, ClassEvidence] = {}
    first = 0
    for label, clustered in clusters.items():
        sizes = clustered.all_sizes or tuple(np.bincount(clustered.codes).tolist())
        chosen = silhouette_power(clustered) if power is None else power_of(power, label)
        evidence[label] = ClassEvidence(
            list(sizes), chosen, clustered.scores, clustered.errors, clustered.note, first
        )
        first += len(sizes)
    return evidence


def probabilities_of(evidence: Mapping[Any, ClassEvidence]) -> dict[Any, np.ndarray]:
    """By class, how likely an example of each of its clusters is sampled."""
    return {
        label: np.asarray(each.shares) / np.asarray(each.sizes) / len(evidence)
        for label, each in evidence.items()
    }


def _write_groups(
    path: Path,
    divided: streaming.Divided,
    clusters: Mapping[Any, ClassClusters],
    evidence: Mapping[Any, ClassEvidence],
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = None
    writer = None
    try:
        for columns in _group_columns(divided, clusters, evidence):
            table = pa.table(columns, schema=schema)
            schema = table.schema
            writer = writer or pq.ParquetWriter(path, schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


def _group_columns(
    divided: streaming.Divided,
    clusters: Mapping[Any, ClassClusters],
    evidence: Mapping[Any, ClassEvidence],
) -> Iterator[dict[str, np.ndarray]]:
    """The columns of groups.parquet, some rows at a time, in the order of the file."""
    likely = probabilities_of(evidence)
    cursors = [0] * len(divided.classes)
    names = np.asarray(divided.classes)
    for start in range(0, len(divided.codes), 1 << 20):
        codes = divided.codes[start : start + (1 << 20)]
        cluster = np.empty(len(codes), dtype=np.int32)
        probability = np.empty(len(codes))
        for code in np.unique(codes).tolist():
            rows = codes == code
            label = divided.classes[code]
            count = int(rows.sum())
            ranks = clusters[label].codes[cursors[code] : cursors[code] + count]
            cursors[code] += count
            cluster[rows] = ranks.astype(np.int32) + evidence[label].first_id
            probability[rows] = likely[label][ranks]
        yield {
            "id": np.arange(start, start + len(codes)),
            "label": names[codes].astype(str).astype(object),
            "cluster": cluster,
            "probability": probability,
        }
