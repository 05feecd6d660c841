"""Prints what cmake/python.cmake needs to build for the installed PyTorch: version;suffix;folder of libraries;includes.

Prints nothing if PyTorch, its headers or those of pybind11 are not installed. PyTorch itself is not imported, which
takes seconds.
"""
import importlib.util
import os
import pathlib
import re
import sys

spec = importlib.util.find_spec("torch")
if spec is None or not spec.origin:
    raise SystemExit(0)
root = pathlib.Path(spec.origin).parent
version = re.search(r"version.*?= *['\"](\d+\.\d+)", (root / "version.py").read_text(), re.S | re.I)
# The headers are in the package (a wheel), or in the system's folder (Debian, which links to it).
includes = [root / "include", root / "include/torch/csrc/api/include", pathlib.Path("/usr/include"),
            pathlib.Path("/usr/include/torch/csrc/api/include")]
includes = [i for i in includes if i.exists()]
headers = ["torch/csrc/distributed/rpc/rpc_agent.h", "pybind11/pybind11.h"]
if version and all(any((i / h).exists() for i in includes) for h in headers):
    libraries = root / "lib" if (root / "lib").exists() else pathlib.Path("/usr/lib")
    suffix = f".cpython-{sys.version_info.major}{sys.version_info.minor}.so"
    shown = [str(i) for i in includes if os.path.realpath(i) != "/usr/include"]
    print(version[1], suffix, libraries, *shown, sep=";")
