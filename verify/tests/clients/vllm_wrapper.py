"""Checks that vLLM's NCCL wrapper works over libweir_nccl.so, on host memory.

    VLLM_WRAPPER=pynccl_wrapper.py python3 verify/tests/clients/vllm_wrapper.py libweir_nccl.so

The wrapper is the file of an installed vLLM, or the one that VLLM_WRAPPER names (it is in vLLM's
repository, vllm/distributed/device_communicators). It is loaded alone: vLLM's other modules are replaced by
empty ones. Every function that it lists must be in the library; an all-reduce and what else it has of
ncclAllGather, ncclReduceScatter, ncclBroadcast, ncclSend and ncclRecv run on 2 ranks. Prints a line for each
check, or why it was skipped. Exit code: 0 if all passed or skipped, 1 otherwise.
"""
import ctypes
import importlib.util
import multiprocessing
import os
import sys
import types


class Anything(types.ModuleType):
    """A module whose attributes accept every use."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *arguments, **named: Anything(name)


def find_wrapper():
    path = os.environ.get("VLLM_WRAPPER")
    if path:
        return path
    try:
        found = importlib.util.find_spec("vllm")
    except ValueError:
        found = None
    folder = found.submodule_search_locations[0] if found else ""
    path = os.path.join(folder, "distributed", "device_communicators", "pynccl_wrapper.py")
    return path if os.path.exists(path) else None


def load(path):
    for name in ("vllm", "vllm.envs", "vllm.logger", "vllm.utils", "vllm.platforms", "vllm.utils.nccl",
                 "vllm.distributed", "vllm.distributed.device_communicators"):
        sys.modules[name] = Anything(name)
    spec = importlib.util.spec_from_file_location("pynccl_wrapper", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["pynccl_wrapper"] = module
    spec.loader.exec_module(module)
    return module


HELD = []


def floats(*values):
    """Returns an array that lives as long as the process, as calls take addresses."""
    HELD.append((ctypes.c_float * len(values))(*values))
    return HELD[-1]


def at(array):
    return ctypes.c_void_p(ctypes.addressof(array))


def rank_main(path, library, rank, unique, results):
    """One rank: the calls that the wrapper has; puts the names of those that are wrong."""
    module = load(path)
    nccl = module.NCCLLibrary(library)
    identity = module.ncclUniqueId()
    ctypes.memmove(ctypes.byref(identity), unique, len(unique))
    comm = nccl.ncclCommInitRank(2, identity, rank)
    kind, total = module.ncclDataTypeEnum.ncclFloat, module.ncclRedOpTypeEnum.ncclSum
    wrong, ran, none = [], [], ctypes.c_void_p(0)

    def expect(name, array, *right):
        ran.append(name)
        if list(array) != list(right):
            wrong.append(f"{name}: {list(array)}")

    out = floats(0, 0)
    nccl.ncclAllReduce(at(floats(rank + 1, 2)), at(out), 2, kind, total, comm, none)
    expect("ncclAllReduce", out, 3, 4)
    if hasattr(nccl, "ncclAllGather"):
        nccl.ncclAllGather(at(floats(rank)), at(out), 1, kind, comm, none)
        expect("ncclAllGather", out, 0, 1)
    if hasattr(nccl, "ncclReduceScatter"):
        one = floats(0)
        nccl.ncclReduceScatter(at(floats(5, 7)), at(one), 1, kind, total, comm, none)
        expect("ncclReduceScatter", one, 14 if rank else 10)
    if hasattr(nccl, "ncclBroadcast"):
        nccl.ncclBroadcast(at(floats(rank, 9)), at(out), 2, kind, 1, comm, none)
        expect("ncclBroadcast", out, 1, 9)
    one = floats(0)
    if rank == 0:
        nccl.ncclSend(at(floats(6)), 1, kind, 1, comm, none)
    else:
        nccl.ncclRecv(at(one), 1, kind, 0, comm, none)
        expect("ncclSend, ncclRecv", one, 6)
    nccl.ncclCommDestroy(comm)
    results.put((rank, ran, wrong))


def main():
    library = os.path.realpath(sys.argv[1] if len(sys.argv) > 1 else "build/libweir_nccl.so")
    path = find_wrapper()
    if importlib.util.find_spec("torch") is None or path is None:
        print("vllm: skipped: no " + ("pynccl_wrapper.py; install vllm or set VLLM_WRAPPER" if path is None
                                      else "torch"))
        return 0
    os.environ.update(WEIR_BACKEND="host", VLLM_NCCL_SO_PATH=library)
    module = load(path)
    exported = ctypes.CDLL(library)
    names = [function.name for function in module.NCCLLibrary.exported_functions]
    missing = [name for name in names if not hasattr(exported, name)]
    print(f"{'FAIL' if missing else 'ok'} {len(names)} functions of the wrapper are exported {' '.join(missing)}")
    identity = module.NCCLLibrary(library).ncclGetUniqueId()
    unique = ctypes.string_at(ctypes.byref(identity), ctypes.sizeof(identity))
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    jobs = [context.Process(target=rank_main, args=(path, library, rank, unique, results)) for rank in range(2)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(60)
    failed = bool(missing) or any(job.exitcode != 0 for job in jobs)
    for job in jobs:
        if job.is_alive():
            job.kill()
    while not results.empty():
        rank, ran, wrong = results.get()
        failed |= bool(wrong)
        print(f"{'FAIL' if wrong else 'ok'} rank {rank}: {', '.join(ran)} {' '.join(wrong)}")
    print(f"vllm: {'FAILED' if failed else 'all passed'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
