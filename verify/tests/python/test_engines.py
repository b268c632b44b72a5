"""The wheel's libweir_nccl.so under the engines' NCCL wrappers: clients/engine_wrappers.py.

VLLM_WRAPPER and SGLANG_WRAPPER name an engine's file pynccl_wrapper.py; without them, or the installed engine, those tests
are skipped. A short wrapper of the same form shows that the client finds faults.
"""
import os
import subprocess

import pytest
import weir

WRAPPER = '''
import ctypes
from vllm.utils.nccl import find_nccl_library


class ncclUniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class ncclDataTypeEnum:
    ncclFloat = 7


class ncclRedOpTypeEnum:
    ncclSum = 0


class Function:
    def __init__(self, name, *kinds):
        self.name, self.kinds = name, kinds


P, N, I = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int


class NCCLLibrary:
    exported_functions = [Function("ncclGetUniqueId", P), Function("ncclCommInitRank", P, I, ncclUniqueId, I),
                          Function("ncclAllReduce", P, P, N, I, I, P, P), Function("ncclSend", P, N, I, I, P, P),
                          Function("ncclRecv", P, N, I, I, P, P), Function("ncclCommDestroy", P)]

    def __init__(self):
        library, self.functions = ctypes.CDLL(find_nccl_library()), {}
        for one in self.exported_functions:
            function = self.functions[one.name] = getattr(library, one.name)
            function.argtypes = one.kinds

    def call(self, name, *arguments):
        if self.functions[name](*arguments) != 0:
            raise RuntimeError(name)

    def ncclGetUniqueId(self):
        identity = ncclUniqueId()
        self.call("ncclGetUniqueId", ctypes.addressof(identity))
        return identity

    def ncclCommInitRank(self, size, identity, rank):
        comm = ctypes.c_void_p()
        self.call("ncclCommInitRank", ctypes.addressof(comm), size, identity, rank)
        return comm

    def ncclAllReduce(self, *arguments):
        self.call("ncclAllReduce", *arguments)

    def ncclSend(self, *arguments):
        self.call("ncclSend", *arguments)

    def ncclRecv(self, *arguments):
        self.call("ncclRecv", *arguments)

    def ncclCommDestroy(self, comm):
        self.call("ncclCommDestroy", comm)
'''


def run(python, source, **variables):
    environment = {name: value for name, value in os.environ.items() if name not in ("VLLM_WRAPPER", "SGLANG_WRAPPER")}
    return subprocess.run([python, os.path.join(source, "verify", "tests", "clients", "engine_wrappers.py"),
                           weir.library_path("libweir_nccl.so")], env=dict(environment, **variables), capture_output=True,
                          text=True, timeout=100)


@pytest.mark.parametrize("engine, variable", [("vllm", "VLLM_WRAPPER"), ("sglang", "SGLANG_WRAPPER")])
def test_the_engines_own_wrapper(python, source, engine, variable):
    named = {variable: os.environ[variable]} if os.environ.get(variable) else {}
    done = run(python, source, **named)
    reason = [line for line in done.stdout.splitlines() if line.startswith(f"{engine}: skipped")]
    if reason:
        pytest.skip(reason[0].partition("skipped: ")[2])
    assert done.returncode == 0 and f"{engine}: all passed" in done.stdout, done.stdout + done.stderr


def test_a_wrapper_of_the_same_form(python, source, tmp_path):
    file = tmp_path / "wrapper.py"
    file.write_text(WRAPPER)
    done = run(python, source, VLLM_WRAPPER=str(file))
    assert done.returncode == 0 and "vllm: all passed" in done.stdout, done.stdout + done.stderr
    assert "ok 6 functions" in done.stdout and "ok rank 1: ncclAllReduce, ncclSend, ncclRecv" in done.stdout


@pytest.mark.parametrize("old, new, words", [
    ('Function("ncclCommDestroy", P)]', 'Function("ncclCommDestroy", P), Function("ncclFly", P)]', "except ncclFly"),
    ("ncclSum = 0", "ncclSum = 2", "expected [3.0, 4.0]"),  # the largest in place of the sum
    ('self.call("ncclCommDestroy", comm)', 'raise RuntimeError("fault")', "vllm: FAILED")])
def test_faults_are_found(python, source, tmp_path, old, new, words):
    file = tmp_path / "wrapper.py"
    assert old in WRAPPER
    file.write_text(WRAPPER.replace(old, new))
    done = run(python, source, VLLM_WRAPPER=str(file))
    assert done.returncode == 1 and words in done.stdout and "vllm: FAILED" in done.stdout, done.stdout + done.stderr
