"""The console scripts: they run the C programs that a wheel contains."""
import os
import sys


def _run(name: str, arguments: "list[str]") -> None:
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")
    program = os.path.join(folder, "weir-bench")
    if not os.path.exists(program):
        sys.exit(f"{os.path.basename(sys.argv[0])}: this installation of the Python package has no benchmarks: it was built "
                 "without hwloc. Install a wheel that has them (ci/packages wheel), or use python -m weir.bench")
    os.execv(program, [name, *arguments])


def bench() -> None:
    """`weir-bench allreduce -b 8`: a benchmark of the C library, with all its options."""
    _run("weir-bench", sys.argv[1:])


def check() -> None:
    """`weir-check`: is this node healthy and fast?"""
    _run("weir-check", sys.argv[1:])
