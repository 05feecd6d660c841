"""Jobs for tests: each test starts a few processes under gradwire run, which call a function of the test's module."""
from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Callable, Optional

import pytest

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("GW_BUILD_DIR", HERE.parent.parent / "build")).resolve()

# Ends hangs; no test judges the time. The harness that runs pytest has a limit that adapts to the load.
LIMIT_S = 900


@dataclass
class Ended:
    """A job that has ended."""

    code: int
    output: str
    errors: str


def environment(**variables: str) -> dict[str, str]:
    """Returns the environment of a worker."""
    paths = [str(BUILD / "python"), str(HERE), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p), "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONFAULTHANDLER": "1", **variables}


def command(body: Callable[..., Any], **options: Any) -> list[str]:
    """Returns the command of one worker that runs |body|."""
    return [sys.executable, str(HERE / "worker.py"), body.__module__, body.__name__, json.dumps(options)]


def launcher(count: int, *options: str) -> list[str]:
    """Returns the command that starts |count| workers."""
    return [str(BUILD / "bin" / "gradwire"), "run", "-n", str(count), *options, "--"]


def finish(process: "subprocess.Popen[str]") -> Ended:
    """Waits for a job, and ends one that hangs."""
    try:
        output, errors = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate()
        pytest.fail(f"the job hangs\n{output}\n{errors}")
    return Ended(process.returncode, output, errors)


def start(arguments: list[str], **variables: str) -> "subprocess.Popen[str]":
    """Starts a process whose output the test reads."""
    return subprocess.Popen(arguments, env=environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


@pytest.fixture
def job() -> Callable[..., Ended]:
    """job(2, body): runs body(rank) on two workers. The job must end without an error, unless |code| is given."""

    def run(count: int, body: Callable[..., Any], *, code: Optional[int] = 0, run_options: tuple[str, ...] = (),
            variables: Optional[dict[str, str]] = None, **options: Any) -> Ended:
        ended = finish(start(launcher(count, *run_options) + command(body, **options), **(variables or {})))
        if code is not None and ended.code != code:
            pytest.fail(f"the job ended with {ended.code}\n{ended.output}\n{ended.errors}")
        return ended

    return run
