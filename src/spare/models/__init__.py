"""From a name, or a network of anyone's, to a classifier that parts features from head."""

from __future__ import annotations

from spare.models.classifier import Classifier, build, torch_seed
from spare.models.heads import as_classifier
from spare.models.named import ModelChoice, builder

__all__ = ["Classifier", "ModelChoice", "as_classifier", "build", "builder", "torch_seed"]
