"""Settings from presets/<data set>.toml: the layer between the code's defaults and `--set`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any

from spare.datasets import Source
from spare.methods import Method
from spare.models.small import OF_IMAGES
from spare.runs.values import typed_fields


def from_scratch(
    preset: Mapping[str, Any], overrides: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Options of a method whose network starts without weights that someone has trained."""
    chosen = {**preset.get("settings", {}), **overrides}
    if chosen.get("weights") != "none" and chosen.get("model") not in OF_IMAGES:
        return {}
    return {key: value for key, value in preset.get("from_scratch", {}).items() if key in options}


def method_preset(
    preset: Mapping[str, Any], method: Method, kinds: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """A method's own part of a preset. A pair without a name of its own infers groups as the method
    that the first half comes from does, and trains as that of the second half; where the preset
    says nothing of the second, with the settings of the first, so that both halves of a comparison
    are trained alike."""
    parts: Mapping[str, dict[str, Any]] = preset.get("methods", {})
    if method.preset_from:
        return parts.get(method.preset_from, {}) | parts.get(method.name, {})
    if method.name in parts or method.halves is None:
        return parts.get(method.name, {})
    inference, trainer = method.halves
    inferring = typed_fields(inference.options)
    training = {
        **typed_fields(trainer.options),
        **kinds["settings"],
        **kinds["model"],
        **kinds["choices"],
    }
    first = parts.get(inference.name, {})
    second = parts.get(trainer.name, first)
    return {key: value for key, value in first.items() if key in inferring} | {
        key: value for key, value in second.items() if key in training
    }


def preset_of(source: Source) -> tuple[str, Mapping[str, Any]]:
    """Where a source's preset is, and what it says."""
    if source.own_preset:
        settings = dict(source.own_preset)
        methods = settings.pop("methods", {})
        return source.name, {"settings": settings, "methods": methods}
    return f"presets/{source.preset}.toml", read_preset(source.preset)


def read_preset(name: str) -> dict[str, Any]:
    file = resources.files("spare") / "presets" / f"{name}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
