"""One worker of a test: worker.py MODULE FUNCTION OPTIONS joins the job, calls FUNCTION with its rank, and shuts down.

Functions that other workers call are in MODULE, which both import by its name.
"""
import importlib
import json
import sys

import gradwire as gw


def main() -> None:
    module, name, options = sys.argv[1:4]
    body = getattr(importlib.import_module(module), name)
    if getattr(body, "joins_itself", False):
        body()
        return
    gw.init(**json.loads(options))
    body(gw.rank())
    gw.shutdown()


def joins_itself(body):
    """Marks a body that calls init and shutdown itself."""
    body.joins_itself = True
    return body


if __name__ == "__main__":
    main()
