"""What tests of models find on the machine: a cache of weights, a user's own file."""

from __future__ import annotations

import sys
from urllib.error import URLError

import pytest
import torch

MODULE = """
import torch
from torch import nn

def plain(classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, classes))

def named(width=6, *, num_classes=10):
    return nn.Sequential(nn.Flatten(), nn.Linear(12, width), nn.Linear(width, num_classes))

def fixed(width=6):
    return nn.Sequential(nn.Flatten(), nn.Linear(12, width), nn.Linear(width, 10))

def lazy():
    import beside
    return beside.network()

def broken(classes):
    raise RuntimeError("no idea\\nsecond line")

def none():
    return None

number = 3
"""


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """An empty cache, and no network unless a test brings one."""
    monkeypatch.setattr(torch.hub, "_hub_dir", None)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))

    def no_network(request):
        raise URLError("no route to host")

    monkeypatch.setattr(torch.hub, "urlopen", no_network)
    return tmp_path / "hub" / "checkpoints"


@pytest.fixture
def user_folder(tmp_path, monkeypatch):
    package = tmp_path / "mynets_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "nets.py").write_text(MODULE)
    (package / "bad.py").write_text("import a_package_that_is_not_there\n")
    (tmp_path / "beside.py").write_text(
        "from torch import nn\ndef network():\n    return nn.Linear(7, 2)\n"
    )
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    yield "mynets_of_a_test.nets"
    assert sys.path == before
    for name in [name for name in sys.modules if name.startswith(("mynets_of", "beside"))]:
        del sys.modules[name]
