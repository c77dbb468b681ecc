"""From a name, or anyone's network, to a classifier that is divided into features and head."""

from __future__ import annotations

from spare.models.classifier import Classifier, build, drawn_at_random, torch_seed
from spare.models.heads import as_classifier
from spare.models.named import ModelChoice, builder, check_model, model_description

__all__ = [
    "Classifier",
    "ModelChoice",
    "as_classifier",
    "build",
    "builder",
    "check_model",
    "drawn_at_random",
    "model_description",
    "torch_seed",
]
