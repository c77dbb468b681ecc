"""SPARE as SpuCo has it, on SpuCo's own Colored MNIST: one early epoch, then twenty.

    PYTHON benchmarks/spuco_job.py --data FOLDER --out FILE

For a Python of an environment with spuco==2.0.3, which `job.py spuco` starts; nothing of ours is
imported. Its settings are those of SpuCo's example of this job, but with the powers that its own
rule finds.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds mnist")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()

    import matplotlib
    import matplotlib.cm

    if not hasattr(matplotlib.cm, "get_cmap"):  # which SpuCo calls, and newer versions lack
        matplotlib.cm.get_cmap = matplotlib.colormaps.get_cmap

    import torch
    from spuco.datasets import SpuCoMNIST, SpuriousFeatureDifficulty
    from spuco.evaluate import Evaluator
    from spuco.group_inference import SpareInference
    from spuco.models import model_factory
    from spuco.robust_train import SpareTrain
    from spuco.utils import Trainer, set_seed

    set_seed(0)

    def made(split: str, **more: float) -> SpuCoMNIST:
        data = SpuCoMNIST(
            root=str(arguments.data / "mnist"),
            spurious_feature_difficulty=SpuriousFeatureDifficulty.MAGNITUDE_LARGE,
            classes=[[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]],
            split=split,
            download=False,
            **more,
        )
        data.initialize()
        return data

    train, val = made("train", spurious_correlation_strength=0.995), made("val")
    model = model_factory("lenet", train[0][0].shape, train.num_classes, pretrained=False)

    def optimizer() -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=1e-3, weight_decay=1e-2, momentum=0.9)

    early = Trainer(trainset=train, model=model, batch_size=32, optimizer=optimizer())
    early.train(num_epochs=1)
    inference = SpareInference(
        logits=early.get_trainset_outputs().softmax(1), class_labels=train.labels, max_clusters=5
    )
    groups = inference.infer_groups()

    def scored(data: SpuCoMNIST, network: torch.nn.Module) -> Evaluator:
        return Evaluator(
            testset=data,
            group_partition=data.group_partition,
            group_weights=data.group_weights,
            batch_size=32,
            model=network,
        )

    training = SpareTrain(
        model=model,
        trainset=train,
        group_partition=groups,
        sampling_powers=inference.sampling_powers,
        batch_size=32,
        optimizer=optimizer(),
        num_epochs=arguments.epochs,
        val_evaluator=scored(val, model),
    )
    training.train()
    test = scored(made("test"), training.best_model)
    test.evaluate()
    found = {
        "worst_group": float(test.worst_group_accuracy[1]) / 100,
        "average": float(test.average_accuracy) / 100,
        "examples": len(train),
    }
    arguments.out.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
