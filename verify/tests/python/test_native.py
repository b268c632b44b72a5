"""The extension module: which calls it makes, which it leaves to Python, and the package without it."""
import os
import subprocess
import threading

import numpy
import pytest
import weir
from weir import _fast

needs_module = pytest.mark.skipif(_fast.native is None, reason="the wheel was built without a C compiler or Python's headers")


def test_the_module_is_in_the_wheel(source):
    """Where there are a compiler and headers, a wheel without the module is a fault of the build."""
    import shutil
    import sysconfig
    if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")) or not shutil.which("cc"):
        pytest.skip("no Python.h or no C compiler")
    if os.environ.get("WEIR_PYTHON_NATIVE") == "0":
        pytest.skip("WEIR_PYTHON_NATIVE=0")
    assert _fast.native is not None


def made(comm, call):
    """Returns how many calls the module made."""
    before = comm._caller.calls
    call()
    return comm._caller.calls - before


@needs_module
def test_which_calls_the_module_makes(alone):
    data, out = numpy.ones((4, 4), "float32"), numpy.ones((4, 4), "float32")
    alone.all_reduce(data)  # makes NumPy's types known
    served = [lambda: alone.all_reduce(data), lambda: alone.all_reduce(data, out, "max"), lambda: alone.broadcast(data),
              lambda: alone.reduce(data, out), lambda: alone.all_gather(data, out), lambda: alone.reduce_scatter(data, out),
              lambda: alone.all_to_all(data, out), lambda: alone.all_reduce(bytearray(8)), alone.prepare("all_reduce", data),
              lambda: alone.all_reduce(numpy.ones(3, "int64"))]
    assert [made(alone, call) for call in served] == [1] * len(served)
    left = [lambda: alone.all_reduce(data, algo="packet"), lambda: alone.all_reduce(numpy.ones(0)), lambda: alone.all_gather(data),
            lambda: alone.all_reduce(data, op=0), lambda: alone.broadcast(numpy.ones(3, "bool"))]
    assert [made(alone, call) for call in left] == [0] * len(left)


@needs_module
def test_the_module_leaves_faults_to_python(alone):
    data = numpy.ones((4, 6), "float32")
    alone.all_reduce(data)
    before = alone._caller.calls
    for call, words in ((lambda: alone.all_reduce(data.T), "not contiguous"), (lambda: alone.all_reduce(data, numpy.ones(24)), "float64"),
                        (lambda: alone.all_reduce(data, data[:2]), "elements"), (lambda: alone.all_reduce(data, op="mean"), "op 'mean'"),
                        (lambda: alone.broadcast(data, root=1), "root 1"), (lambda: alone.broadcast(data, root=1 << 40), "root"),
                        (lambda: alone.all_reduce(b"12345678"), "read-only"), (lambda: alone.all_reduce(data, b"1" * 96), "read-only")):
        with pytest.raises(weir.InvalidError, match=words):
            call()
    assert alone._caller.calls == before


@needs_module
def test_a_failed_call_stops_the_module(ranks):
    def body(comm):
        data = numpy.ones(4)
        comm.all_reduce(data)
        if comm.rank == 0:
            with pytest.raises(weir.TimedOutError, match="deadline of 500 ms"):
                comm.all_reduce(data)
            with pytest.raises(weir.AbortedError, match="aborted after: .*deadline"):
                comm.all_reduce(data)
            return comm._caller.run(0, data, None, "sum", 0, False)
        threading.Event().wait(1.2)
        return 1
    assert ranks(body, 2, timeout_ms=500) == [1, 1]


@needs_module
def test_memory_is_released_after_a_call(alone):
    """A buffer that is exported cannot be resized."""
    data = bytearray(16)
    alone.all_reduce(data)
    data.extend(b"more")
    alone.all_reduce(data, bytearray(20))
    data.extend(b"more")


@needs_module
def test_what_the_module_reads(alone):
    from weir import _declarations as c
    from weir._buffers import describe
    array = numpy.ones((3, 4), "float32")
    describe(array)  # makes NumPy's types known
    assert _fast.read(array) == (array.ctypes.data, 48, c.Dtype.WEIR_FLOAT, 4, -1, False)
    array.flags.writeable = False
    assert _fast.read(array)[5] is True
    for left in (array.T, numpy.ones(3, "bool"), 7, None):
        assert _fast.read(left) is None
    assert _fast.stream(array) is None and _fast.stream(None) is None


@needs_module
def test_pools_are_numbered(alone):
    native = _fast.native
    taken = [native.pool_open(alone._live(), -1) for _ in range(17)]
    assert sorted(taken[:16]) == list(range(16)) and taken[16] == -1
    for pool in taken[:16]:
        assert native.pool_memories(pool) == []
        native.pool_close(pool)
    assert native.pool_open(alone._live(), -1) == 0
    native.pool_close(0)
    with pytest.raises(ValueError, match="pool 16"):
        native.pool_close(16)


@needs_module
def test_a_pool_allocates_registered_memory(alone):
    """The functions that PyTorch calls, on memory of the process."""
    import ctypes
    native = _fast.native
    library = ctypes.CDLL(native.__file__)
    pool = native.pool_open(alone._live(), -1)
    take, give = getattr(library, f"weir_pool_alloc_{pool}"), getattr(library, f"weir_pool_free_{pool}")
    take.restype, take.argtypes = ctypes.c_void_p, (ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
    give.restype, give.argtypes = None, (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
    first, second = take(4096, -1, None), take(100, -1, None)
    assert first and second and take(64, 0, None) is None  # another device
    assert [pointer for _, pointer in native.pool_memories(pool)] == [first, second]
    give(first, 4096, -1, None)
    assert [pointer for _, pointer in native.pool_memories(pool)] == [second]
    native.pool_close(pool)
    assert take(64, -1, None) is None
    give(second, 100, -1, None)
    assert native.pool_memories(pool) == []


def test_the_package_works_without_the_module(python, source):
    # A short run leaves out the faults; python.sh says so.
    names = ["test_collectives.py"] + ["test_faults.py"] * (os.environ.get("TEST_LONG") == "1")
    files = [os.path.join(os.path.dirname(__file__), name) for name in names]
    done = subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-x", *files, "-k", "not interrupt and not fork"],
                          env=dict(os.environ, WEIR_PYTHON_NATIVE="0", SOURCE_TREE=source), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout[-2000:]
    check = "import weir._fast as f; assert f.native is None"
    assert subprocess.run([python, "-c", check], env=dict(os.environ, WEIR_PYTHON_NATIVE="0")).returncode == 0
