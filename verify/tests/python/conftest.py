"""Fixtures of the tests of the installed package.

`ranks` starts a function on several ranks of this node and returns their results. SOURCE_TREE names
the source tree, for tests of the generator.
"""
import os
import sys

import pytest
import weir

SOURCE = os.environ.get("SOURCE_TREE", os.path.join(os.path.dirname(__file__), "../../.."))
sys.path.insert(0, os.path.join(SOURCE, "verify", "tests", "support"))  # free_port
HERE = os.path.realpath(weir.__file__)


def pytest_report_header():
    return f"weir: {HERE}, {weir.version()}"


@pytest.fixture
def ranks():
    def start(function, size=3, *arguments, **options):
        options.setdefault("backend", "host")
        options.setdefault("timeout_ms", 20000)
        return weir.spawn(function, size, *arguments, timeout_s=60, **options)
    return start


@pytest.fixture
def alone():
    """A communicator of this process alone."""
    comm = weir.init(id=weir.unique_id(), rank=0, size=1, backend="host")
    yield comm
    comm.destroy()


@pytest.fixture
def source():
    path = os.path.realpath(SOURCE)
    if not os.path.exists(os.path.join(path, "python", "generate.py")):
        pytest.skip(f"no source tree in {path}")
    return path


@pytest.fixture
def python():
    """The interpreter with the installed package, for subprocesses."""
    return sys.executable
