"""Builds the package: the libraries by the project's Makefile, the declarations from its headers.

The wheel contains libweir.so and libweir_nccl.so, the benchmarks where hwloc and Expat are, and the extension module weir._native where there is a C
compiler with Python's headers. The module uses CPython's stable ABI, and the package works without it, so one
wheel serves every Python from 3.9 on: its tag is py3-none-PLATFORM. Environment variables:

    WEIR_LIBRARIES   a folder with libraries that are already built, as an absolute path; make is not run. Where it has
                     the program weir-bench, the wheel has the benchmarks, and their plug-in for NCCL's tuner
    WEIR_MAKE_FLAGS  arguments of make (default: -jN; CUDA=0 omits the GPU kernels)
"""
import os
import re
import shlex
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
INCLUDE = os.path.join(ROOT, "lib", "include", "weir")
LIBRARIES = ["libweir.so", "libweir_nccl.so"]
# All benchmarks and weir-check are one program, which goes to the folder of Python's programs: it starts without
# Python. A wheel has no links, so the programs' own names are scripts.
PROGRAM = "weir-bench"
# In lib/weir of the environment, where the benchmarks look for it.
TUNER = "libnccl-tuner-weir.so"
SCRIPT = """#!/bin/sh
exec "${0%/*}/weir-bench" NAME "$@"
"""


def version():
    path = os.path.join(INCLUDE, "weir.h")
    if not os.path.exists(path):
        sys.exit(f"python/setup.py: no {path}: build the package in weir's source tree")
    with open(path, encoding="utf-8") as file:
        return re.search(r'#define WEIR_VERSION "(.*)"', file.read()).group(1)


def built_libraries():
    """Returns the folder of the libraries, after building them unless WEIR_LIBRARIES is set."""
    folder = os.environ.get("WEIR_LIBRARIES")
    if not folder:
        flags = shlex.split(os.environ.get("WEIR_MAKE_FLAGS", f"-j{os.cpu_count()}"))
        # The flags of a make that runs pip are not for this one.
        clean = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
        subprocess.run(["make", "-C", ROOT, "lib", PROGRAM, *flags], check=True, env=clean)
        folder = os.path.join(ROOT, "build")
    folder = os.path.abspath(folder)  # relative to python/, where pip runs this program
    missing = [name for name in LIBRARIES if not os.path.exists(os.path.join(folder, name))]
    if missing:
        sys.exit(f"python/setup.py: {folder} has no {', '.join(missing)}; run make in {ROOT}")
    return folder


class Build(build_py):
    """Adds the libraries and the generated declarations to the package."""

    def run(self):
        super().run()
        package = os.path.join(self.build_lib, "weir")
        os.makedirs(os.path.join(package, "lib"), exist_ok=True)
        folder = built_libraries()
        for name in LIBRARIES:
            shutil.copy(os.path.realpath(os.path.join(folder, name)), os.path.join(package, "lib", name))
        if os.path.exists(os.path.join(folder, PROGRAM)):
            self.distribution.data_files = [("bin", self.programs(os.path.join(folder, PROGRAM))),
                                            ("lib/weir", [os.path.join(folder, TUNER)])]
        subprocess.run([sys.executable, os.path.join(HERE, "generate.py"), INCLUDE,
                        os.path.join(package, "_declarations.py")], check=True)

    def programs(self, program):
        """Returns the paths of the program and of the scripts, which are made."""
        folder = os.path.join(os.path.abspath(self.build_lib), "..", "programs")
        os.makedirs(folder, exist_ok=True)
        paths = [shutil.copy(program, folder)]
        usage = subprocess.run([program, "--help"], check=True, capture_output=True, text=True).stdout
        for name in usage.split("Programs:")[1].splitlines()[0].split():
            paths.append(os.path.join(folder, "weir-check" if name == "check" else f"bench_{name}"))
            with open(paths[-1], "w", encoding="utf-8") as file:
                file.write(SCRIPT.replace("NAME", name))
            os.chmod(paths[-1], 0o755)
        return paths


class Wheel(bdist_wheel):
    """Any Python 3, this platform."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


# Py_LIMITED_API: that of 3.11, which declares the buffer protocol; older CPythons have the same functions.
SOURCES = sorted(os.path.join("native", name) for name in os.listdir(os.path.join(HERE, "native")) if name.endswith(".c"))
NATIVE = Extension("weir._native", SOURCES, include_dirs=[os.path.dirname(INCLUDE)],
                   depends=["native/native.h"], define_macros=[("Py_LIMITED_API", "0x030B0000")],
                   extra_compile_args=["-O2", "-fvisibility=hidden"], py_limited_api=True, optional=True)

setup(version=version(), cmdclass={"build_py": Build, "bdist_wheel": Wheel}, ext_modules=[NATIVE])
