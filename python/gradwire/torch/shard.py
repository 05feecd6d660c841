"""Loads torch.distributed._shard of PyTorch 1.13 with Python 3.11, which DDP needs.

It has a dataclass whose default is an instance of another dataclass. Python 3.11 refuses defaults that have no hash.
"""
import dataclasses
from typing import Any


def load_shard() -> None:
    """Imports it; a dataclass that is defined meanwhile has a hash."""
    original = dataclasses.dataclass

    def dataclass(cls: Any = None, **keywords: Any) -> Any:
        if cls is None:
            return lambda c: dataclass(c, **keywords)
        made = original(cls, **keywords)
        if made.__hash__ is None:
            made.__hash__ = object.__hash__
        return made

    dataclasses.dataclass = dataclass  # type: ignore[assignment]
    try:
        import torch.distributed._shard.sharded_tensor  # noqa: F401
    except ImportError:
        pass  # another version has no such module
    finally:
        dataclasses.dataclass = original
