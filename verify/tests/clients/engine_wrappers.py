"""Checks that the NCCL wrappers of vLLM and SGLang work over libweir_nccl.so, on host memory.

    VLLM_WRAPPER=FILE SGLANG_WRAPPER=FILE python3 verify/tests/clients/engine_wrappers.py libweir_nccl.so

A wrapper is the file pynccl_wrapper.py of an installed engine, or the one that the variable names (in the engine's folder
distributed/device_communicators). It is loaded alone: the engine's other modules are replaced by empty ones, except vLLM's
utils/nccl.py, which finds the library by VLLM_NCCL_SO_PATH. Every function that it lists must be in the library; an
all-reduce, and what else the wrapper has, run on 2 ranks. Prints a line for each check, or why an engine was skipped. Exit
code: 0 if all passed or were skipped, 1 otherwise.
"""
import ctypes
import importlib.util
import multiprocessing
import os
import sys
import types

ENGINES = {"vllm": ("VLLM_WRAPPER", "VLLM_NCCL_SO_PATH", "vllm"),
           "sglang": ("SGLANG_WRAPPER", "SGLANG_NCCL_SO_PATH", "sglang/srt")}
BESIDE = os.path.join("distributed", "device_communicators", "pynccl_wrapper.py")


class Anything(types.ModuleType):
    """A module whose attributes accept every use, and are false."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name)

    def __call__(self, *arguments, **named):
        return Anything("result")

    def __bool__(self):
        return False


def find_wrapper(engine):
    """Returns the path of an engine's wrapper; None if there is none."""
    variable, _, package = ENGINES[engine]
    if os.environ.get(variable):
        return os.environ[variable]
    try:
        found = importlib.util.find_spec(engine)
    except ValueError:
        found = None
    folder = os.path.dirname(found.submodule_search_locations[0]) if found else ""
    path = os.path.join(folder, package, BESIDE)
    return path if found and os.path.exists(path) else None


def execute(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load(path):
    """Loads a wrapper with empty modules around it."""
    for name in ("vllm", "vllm.envs", "vllm.logger", "vllm.utils", "vllm.platforms", "vllm.utils.nccl",
                 "vllm.distributed", "vllm.distributed.device_communicators"):
        sys.modules[name] = Anything(name)
    sys.modules["vllm"].envs = sys.modules["vllm.envs"]
    sys.modules["vllm.envs"].VLLM_NCCL_SO_PATH = os.environ.get("VLLM_NCCL_SO_PATH")
    finder = os.path.join(path[:-len(BESIDE)], "utils", "nccl.py")
    if path.endswith(BESIDE) and os.path.exists(finder):
        execute("vllm.utils.nccl", finder)
    elif not path.endswith(BESIDE):
        sys.modules["vllm.utils.nccl"].find_nccl_library = lambda: os.environ["VLLM_NCCL_SO_PATH"]
        sys.modules["vllm.utils"].find_nccl_library = lambda: os.environ["VLLM_NCCL_SO_PATH"]
    return execute("pynccl_wrapper", path)


HELD = []


def floats(*values):
    """Returns an array that lives as long as the process, as calls take addresses."""
    HELD.append((ctypes.c_float * len(values))(*values))
    return HELD[-1]


def at(array):
    return ctypes.c_void_p(ctypes.addressof(array))


class Rank:
    """The calls of one rank, as far as the wrapper has them."""

    def __init__(self, module, rank, unique):
        self.nccl, self.rank, self.ran, self.wrong = module.NCCLLibrary(), rank, [], []
        identity = module.ncclUniqueId()
        ctypes.memmove(ctypes.byref(identity), unique, len(unique))
        self.comm = self.nccl.ncclCommInitRank(2, identity, rank)
        self.kind, self.sum, self.none = module.ncclDataTypeEnum.ncclFloat, module.ncclRedOpTypeEnum.ncclSum, ctypes.c_void_p(0)

    def expect(self, name, array, *right):
        self.ran.append(name)
        if list(array) != list(right):
            self.wrong.append(f"{name}: {list(array)}, expected {[float(one) for one in right]}")

    def has(self, name):
        has_symbol = getattr(self.nccl, "has_symbol", None)
        return hasattr(self.nccl, name) and (has_symbol is None or has_symbol(name))

    def collectives(self):
        nccl, rank, kind, comm, none, out = self.nccl, self.rank, self.kind, self.comm, self.none, floats(0, 0)
        nccl.ncclAllReduce(at(floats(rank + 1, 2)), at(out), 2, kind, self.sum, comm, none)
        self.expect("ncclAllReduce", out, 3, 4)
        if self.has("ncclAllGather"):
            nccl.ncclAllGather(at(floats(rank)), at(out), 1, kind, comm, none)
            self.expect("ncclAllGather", out, 0, 1)
        if self.has("ncclReduceScatter"):
            one = floats(0)
            nccl.ncclReduceScatter(at(floats(5, 7)), at(one), 1, kind, self.sum, comm, none)
            self.expect("ncclReduceScatter", one, 14 if rank else 10)
        if self.has("ncclBroadcast"):
            nccl.ncclBroadcast(at(floats(rank, 9)), at(out), 2, kind, 1, comm, none)
            self.expect("ncclBroadcast", out, 1, 9)
        if self.has("ncclReduce"):
            one = floats(-1)
            nccl.ncclReduce(at(floats(rank + 1)), at(one), 1, kind, self.sum, 0, comm, none)
            self.expect("ncclReduce", one, -1 if rank else 3)

    def messages(self):
        nccl, rank, kind, comm, none, one = self.nccl, self.rank, self.kind, self.comm, self.none, floats(0)
        if rank == 0:
            nccl.ncclSend(at(floats(6)), 1, kind, 1, comm, none)
        else:
            nccl.ncclRecv(at(one), 1, kind, 0, comm, none)
            self.expect("ncclSend, ncclRecv", one, 6)
        if self.has("ncclGroupStart"):
            nccl.ncclGroupStart()
            nccl.ncclSend(at(floats(rank + 7)), 1, kind, 1 - rank, comm, none)
            nccl.ncclRecv(at(one), 1, kind, 1 - rank, comm, none)
            nccl.ncclGroupEnd()
            self.expect("ncclGroupStart, ncclGroupEnd", one, 8 - rank)


def rank_main(path, rank, unique, results):
    """Puts what one rank ran, and what was wrong."""
    one = Rank(load(path), rank, unique)
    one.collectives()
    one.messages()
    one.nccl.ncclCommDestroy(one.comm)
    results.put((rank, one.ran, one.wrong))


def run_ranks(path, unique):
    """Returns whether a run of 2 ranks failed; prints a line for each."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    jobs = [context.Process(target=rank_main, args=(path, rank, unique, results)) for rank in range(2)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(60)
    failed = any(job.exitcode != 0 for job in jobs)
    for job in jobs:
        if job.is_alive():
            job.kill()
    while not results.empty():
        rank, ran, wrong = results.get()
        failed |= bool(wrong)
        print(f"{'FAIL' if wrong else 'ok'} rank {rank}: {', '.join(ran)} {' '.join(wrong)}")
    return failed


def check(engine, library):
    """Returns whether an engine's wrapper failed."""
    variable, so_path, _ = ENGINES[engine]
    path = find_wrapper(engine)
    if path is None:
        print(f"{engine}: skipped: no {engine}; install it or set {variable} to its pynccl_wrapper.py")
        return False
    path = os.path.realpath(path)
    os.environ.update({"WEIR_BACKEND": "host", so_path: library})
    try:
        module = load(path)
    except ModuleNotFoundError as error:
        print(f"{engine}: skipped: its wrapper needs {error.name}")
        return False
    exported = ctypes.CDLL(library)
    names = [function.name for function in module.NCCLLibrary.exported_functions]
    missing = [name for name in names if not hasattr(exported, name)]
    print(f"{'FAIL' if missing else 'ok'} {len(names)} functions of the wrapper are exported"
          + (f", except {' '.join(missing)}" if missing else ""))
    try:
        identity = module.NCCLLibrary().ncclGetUniqueId()
    except AttributeError as error:
        print(f"FAIL the wrapper refuses the library: {error}\n{engine}: FAILED")
        return True
    unique = ctypes.string_at(ctypes.byref(identity), ctypes.sizeof(identity))
    failed = run_ranks(path, unique) or bool(missing)
    print(f"{engine}: {'FAILED' if failed else 'all passed'}")
    return failed


def main():
    library = os.path.realpath(sys.argv[1] if len(sys.argv) > 1 else "build/libweir_nccl.so")
    return int(any([check(engine, library) for engine in ENGINES]))


if __name__ == "__main__":
    sys.exit(main())
