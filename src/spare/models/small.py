"""The package's own small networks, for small images and for features."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from spare.errors import InputError
from spare.models.classifier import Classifier


def lenet5(classes: int, *, channels: int = 3, size: int | tuple[int, int] = 32) -> Classifier:
    """LeNet-5 with ReLU and max-pooling; 84 features before the head.

    Pooling comes before ReLU: the maximum of rectified values is the rectified maximum, and there
    are four times fewer of them.
    """
    height, width = (((side - 4) // 2 - 4) // 2 for side in _sides("lenet5", size, 16))
    features = nn.Sequential(
        nn.Conv2d(channels, 6, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(6, 16, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * height * width, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
    )
    return Classifier(features, nn.Linear(84, classes))


def small_cnn(classes: int, *, channels: int = 3, size: int | tuple[int, int] = 16) -> Classifier:
    """Two convolutions for images of a few pixels; 64 features before the head."""
    height, width = (side // 4 for side in _sides("small_cnn", size, 4))
    features = nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * height * width, 64),
        nn.ReLU(),
    )
    return Classifier(features, nn.Linear(64, classes))


def conv4(classes: int, *, channels: int = 3, size: int | tuple[int, int] = 64) -> Classifier:
    """Four convolutions with batch normalization, for images of 32 to 128 pixels on a laptop.

    There are 64 features before the head.
    """
    height, width = (side // 16 for side in _sides("conv4", size, 16))
    layers: list[nn.Module] = []
    for maps in (16, 32, 64, 64):
        layers += [
            nn.Conv2d(channels, maps, 3, padding=1, bias=False),
            nn.BatchNorm2d(maps),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]
        channels = maps
    # Positions are kept, not averaged away: the classes may differ in shape.
    layers += [nn.Flatten(), nn.Linear(64 * height * width, 64), nn.ReLU()]
    return Classifier(nn.Sequential(*layers), nn.Linear(64, classes))


def mlp(classes: int, *, inputs: int, hidden: int = 256) -> Classifier:
    """One hidden layer, for inputs that are features."""
    return Classifier(
        nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU()), nn.Linear(hidden, classes)
    )


def linear(classes: int, *, inputs: int) -> Classifier:
    """The head alone, for inputs that are features."""
    return Classifier(nn.Identity(), nn.Linear(inputs, classes))


OF_IMAGES: dict[str, Callable[..., Classifier]] = {
    "lenet5": lenet5,
    "small_cnn": small_cnn,
    "conv4": conv4,
}
OF_FEATURES: dict[str, Callable[..., Classifier]] = {"mlp": mlp, "linear": linear}


def _sides(name: str, size: int | tuple[int, int], least: int) -> tuple[int, int]:
    sides = (size, size) if isinstance(size, int) else size
    if min(sides) < least:
        raise InputError(
            f"{name} takes images of at least {least} by {least} pixels, and these are "
            f"{sides[0]} by {sides[1]}: use a larger size, or another model."
        )
    return sides
