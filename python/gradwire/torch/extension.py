"""Loads the extension module that was built for the installed version of PyTorch.

Its file is named by the version, _torch.1.13.cpython-311.so, as PyTorch has no stable interface for agents.
"""
from __future__ import annotations

import importlib.machinery
import importlib.util
import pathlib
import sys
from types import ModuleType

import torch

_HERE = pathlib.Path(__file__).parent


def version() -> str:
    """Returns the version of PyTorch, "1.13"."""
    return ".".join(torch.__version__.split(".")[:2])


def _refuse(built: "list[pathlib.Path]") -> ImportError:
    versions = ", ".join(sorted({".".join(f.name.split(".")[1:3]) for f in built})) or "no version"
    return ImportError(f"gradwire.torch was built for PyTorch {versions}, but PyTorch {version()} is installed; "
                       "`make python-torch` builds it")


def load() -> ModuleType:
    """Returns the module."""
    path = _HERE / f"_torch.{version()}.cpython-{sys.version_info.major}{sys.version_info.minor}.so"
    if not path.exists():
        raise _refuse(list(_HERE.glob("_torch.*.so")))
    name = "gradwire.torch._torch"
    spec = importlib.util.spec_from_loader(name, importlib.machinery.ExtensionFileLoader(name, str(path)))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


module = load()
