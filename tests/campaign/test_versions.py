from __future__ import annotations

import sys

import pytest

from campaign.common import ROOT
from campaign.versions import interpreter, lower_bounds


def test_every_dependency_has_a_lower_bound(tmp_path):
    bounds = lower_bounds(ROOT / "pyproject.toml")
    assert any(bound.startswith("torch==2.") for bound in bounds)
    assert any(bound.startswith("timm==") for bound in bounds)  # of an extra
    project = tmp_path / "pyproject.toml"
    project.write_text('[project]\ndependencies = ["numpy<3"]\n[project.optional-dependencies]\n')
    with pytest.raises(ValueError, match=r"numpy<3 .* has no lower bound"):
        lower_bounds(project)


def test_the_running_python_is_found_and_a_missing_one_is_not():
    major, minor = sys.version_info[:2]
    assert str(interpreter(f"{major}.{minor}")) == sys.executable
    assert interpreter("3.2") is None
