"""The extension module of gradwire, for the limited API of Python 3.11: one build for it and all later versions."""
import glob
import os
import shlex
import subprocess

from setuptools import Extension, setup

HERE = os.path.dirname(os.path.abspath(__file__))


def flags_of(kind: str) -> list[str]:
    """Returns the flags for an installed gradwire."""
    return shlex.split(subprocess.check_output(["pkg-config", kind, "gradwire"], text=True))


core = Extension("gradwire._core", sources=sorted(os.path.relpath(f, HERE) for f in
                                                  glob.glob(os.path.join(HERE, "gradwire", "core", "*.c"))),
                 depends=["gradwire/core/core.h"], define_macros=[("_GNU_SOURCE", "")],
                 extra_compile_args=["-std=c11", "-fvisibility=hidden", *flags_of("--cflags")],
                 extra_link_args=flags_of("--libs"), py_limited_api=True)

setup(ext_modules=[core], options={"bdist_wheel": {"py_limited_api": "cp311"}})
