"""The example of torch.distributed.rpc learns with both backends."""
import pathlib
import re
import sys

import conftest
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("gradwire.torch", reason="the backend is not built")

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "examples" / "torch_parameter_server.py"


@pytest.mark.parametrize("backend", ["gradwire", "tensorpipe"])
def test_the_parameter_server_of_torch_learns(backend):
    ended = conftest.finish(conftest.start(
        conftest.launcher(3) + [sys.executable, str(SCRIPT), "--backend", backend, "--steps", "200"]))
    assert ended.code == 0, ended.errors
    losses = [float(x) for x in re.findall(r"trainer\d: loss ([\d.]+)", ended.output)]
    assert len(losses) == 2 and max(losses) < 0.2, ended.output
