"""ResNet-50 with ImageNet weights that were trained in Keras, as
`--model benchmarks.resnet50_keras:network`.

    SPARE_RESNET50=resnet50_imagenet.safetensors spare bench waterbirds --model ...

Keras's first version of ResNet-50 differs from torchvision's in two ways: of a stage's first block,
the first convolution has the stride, not the second, and batch normalization adds 0.001 to the
variance. Inputs are normalized as for torchvision's (`normalize=imagenet`, the default).
"""

from __future__ import annotations

import os
from pathlib import Path

from torch import nn

from spare.errors import DataError
from spare.models.stored_weights import load_weights

VARIABLE = "SPARE_RESNET50"


def network(classes: int) -> nn.Module:
    from torchvision.models import resnet50

    file = Path(os.environ.get(VARIABLE, ""))
    if not file.is_file():
        raise DataError(f"there is no file of weights {str(file)!r}: name it in {VARIABLE}.")
    model = resnet50(weights=None, num_classes=classes)
    for stage in (model.layer2, model.layer3, model.layer4):
        stage[0].conv1.stride, stage[0].conv2.stride = (2, 2), (1, 1)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eps = 1e-3
    load_weights(model, file, head="fc")
    return model
