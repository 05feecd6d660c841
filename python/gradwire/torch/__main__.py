"""Runs a program of torch.distributed.rpc with gradwire, without a change: python3 -m gradwire.torch train.py ARGS.

Processes that the program itself spawns import torch on their own: in these, call gradwire.torch.use_for_all().
"""
import runpy
import sys

from . import use_for_all
from .shard import load_shard


def main() -> None:
    """Runs the program that the arguments name: a file, or -m and a module."""
    if len(sys.argv) < 2 or sys.argv[1:] == ["-m"]:
        sys.exit("usage: python3 -m gradwire.torch FILE [ARGS...], or -m MODULE [ARGS...]")
    load_shard()
    use_for_all()
    del sys.argv[0]
    if sys.argv[0] == "-m":
        del sys.argv[0]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")


main()
