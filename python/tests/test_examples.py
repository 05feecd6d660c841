"""The examples run, and learn."""
import pathlib
import re
import sys

import conftest

FOLDER = pathlib.Path(__file__).resolve().parent.parent


def test_the_parameter_server_learns():
    script = str(FOLDER / "examples" / "parameter_server.py")
    ended = conftest.finish(conftest.start(conftest.launcher(3) + [sys.executable, script, "--steps", "400"]))
    assert ended.code == 0, ended.errors
    losses = [float(x) for x in re.findall(r"worker\d: loss ([\d.]+)", ended.output)]
    assert len(losses) == 2 and max(losses) < 0.05, ended.output


def test_the_first_program_of_the_manual_prints_what_it_says(tmp_path):
    page = (FOLDER.parent / "docs" / "PYTHON.md").read_text()
    program = re.search(r"`train.py`:\n\n```python\n(.*?)```", page, re.DOTALL).group(1)
    (tmp_path / "train.py").write_text(program)
    ended = conftest.finish(conftest.start(conftest.launcher(2) + [sys.executable, str(tmp_path / "train.py")]))
    assert ended.code == 0, ended.errors
    printed = [line for line in re.findall(r"# (\[ 0\..*)", program)]
    printed += re.findall(r"by its name: (.*)", program)
    assert len(printed) == 2 and all(f"[0] {line}" in ended.output for line in printed), ended.output
