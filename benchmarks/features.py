"""Embeddings of a data set's images by a network, as a user's own embeddings file would be.

    python benchmarks/features.py waterbirds --data FOLDER --model benchmarks.lite0:network \\
        --size 224 --normalize half --out waterbirds-lite0.npz

All splits, without augmentation, as float16. The file has the arrays features, label, split
and one for each attribute; `spare bench FILE --label label --attributes place` reads it. Run it
from the project's root.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from spare.datasets import locate
from spare.methods import METHODS
from spare.models import build
from spare.progress import SILENT
from spare.runs.plan import make_plan, with_model
from spare.training.outputs import outputs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--normalize", default="imagenet")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    settings = {
        "model": given.model,
        "resize": given.size,
        "crop": given.size,
        "normalize": given.normalize,
        "augment": "none",
        "eval_batch_size": 50,
        "workers": 0,
        "cache": "off",
    }
    plan = make_plan(locate(given.task, given.data, {}), METHODS["erm"], settings)
    task = with_model(plan.load_task(0, SILENT), plan, SILENT)
    model = build(task.build_model, (0,))
    parts: dict[str, list[np.ndarray]] = {}
    for name in ("train", "val", "test"):
        split = getattr(task, name)
        if split is None:
            continue
        made = outputs(
            model, split, plan.settings, features=True, on_step=lambda step, of: print(step, of)
        )
        columns = {
            "features": made.features.numpy().astype(np.float16),
            "label": np.asarray(task.class_names)[np.asarray(split.labels)],
            "split": np.full(len(split), name),
        }
        for attribute, values in (split.attributes or {}).items():
            columns[attribute] = np.asarray(task.attribute_values[attribute])[np.asarray(values)]
        for column, values in columns.items():
            parts.setdefault(column, []).append(values)
    np.savez_compressed(given.out, **{name: np.concatenate(each) for name, each in parts.items()})


if __name__ == "__main__":
    main()
