"""Checks of the functions of NCCL 2.29 to 2.32 over libweir_nccl.so on GPU memory. Prints TAP and, of
two ranks, the time of a put with a signal there and back.

Needs a GPU and libcudart (CUDART_SO_PATH, else libcudart.so). With WEIR_ALLOW_SHARED_GPU=1 all ranks
use one GPU. Only the ranks, which are forked, initialise CUDA. `nccl_gpu.py FUNCTION...` runs only
these checks; `nccl_gpu.py beside` checks WEIR_NCCL_FALLBACK, and skips that if the library there
lacks the functions of its device interface.
"""
import ctypes
import os
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nccl_checks import *  # noqa: E402,F403 pylint: disable=wildcard-import,unused-wildcard-import
from nccl_library import *  # noqa: E402,F403 pylint: disable=wildcard-import,unused-wildcard-import

LENGTHS = (0, 1, 5000, 65531, (1 << 20) + 3)  # the last is copied in the stream
ROOM = 1 << 21


class Cuda:
    """The CUDA runtime by ctypes, on one device; each call must succeed."""
    V, S = ctypes.c_void_p, ctypes.c_size_t
    ARGUMENTS = {
        "SetDevice": (ctypes.c_int,), "GetDeviceCount": (V,), "StreamCreate": (V,),
        "StreamSynchronize": (V,), "Memcpy": (V, V, S, ctypes.c_int), "Malloc": (V, S),
        "MemGetInfo": (V, V), "DeviceSynchronize": (), "EventCreate": (V,), "EventQuery": (V,),
        "StreamBeginCapture": (V, ctypes.c_int), "StreamEndCapture": (V, V),
        "GraphInstantiate": (V, V, ctypes.c_ulonglong), "GraphLaunch": (V, V),
    }
    PER_THREAD = ctypes.c_void_p(2)

    def __init__(self, rank):
        self.library = ctypes.CDLL(os.environ.get("CUDART_SO_PATH", "libcudart.so"))
        count = ctypes.c_int()
        self.GetDeviceCount(ctypes.byref(count))
        self.SetDevice(rank % count.value)
        self.stream = self.make("StreamCreate")

    def __getattr__(self, name):
        function = getattr(self.library, "cuda" + name)
        function.argtypes = self.ARGUMENTS[name]

        def call(*arguments):
            error = function(*arguments)
            demand(error == 0, f"cuda{name}: error {error}")
        return call

    def make(self, name, *arguments):
        """Returns what a function writes to its first argument."""
        made = ctypes.c_void_p()
        getattr(self, name)(ctypes.byref(made), *arguments)
        return made

    def memory(self, data):
        """Returns device memory with a copy of bytes."""
        made = self.make("Malloc", max(1, len(data)))
        self.write(made, 0, data)
        return made

    def write(self, to, at, data):
        self.Memcpy(ctypes.c_void_p(to.value + at), data, len(data), 4)

    def read(self, from_, at, count):
        data = ctypes.create_string_buffer(count + 1)
        self.Memcpy(data, ctypes.c_void_p(from_.value + at), count, 4)
        return data.raw[:count]

    def free_bytes(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.MemGetInfo(ctypes.byref(free), ctypes.byref(total))
        return free.value


class Window:
    """Memory of ncclMemAlloc, registered as a window."""

    def __init__(self, r, comm, size=ROOM):
        self.r, self.comm, self.at, self.window = r, comm, ctypes.c_void_p(), ctypes.c_void_p()
        r.lib.MemAlloc(ctypes.byref(self.at), size)
        r.lib.CommWindowRegister(comm, self.at, size, ctypes.byref(self.window), 1)

    def close(self):
        self.r.lib.CommWindowDeregister(self.comm, self.window)
        self.r.lib.MemFree(self.at)


def waits(*each):
    return len(each), (Wait * len(each))(*[Wait(*one) for one in each])


def meet(r, key):
    """Waits until every rank has come here; on the host only."""
    r.store.set(f"{key}{r.rank}", b"")
    for rank in range(r.nranks):
        r.store.get(f"{key}{rank}")


def sum_on_gpu(r, cuda, comm, value, stream=None):
    data = cuda.memory(value.to_bytes(4, "little"))
    r.lib.AllReduce(data, data, 1, INT32, SUM, comm, stream or cuda.stream)
    cuda.StreamSynchronize(stream or cuda.stream)
    return int.from_bytes(cuda.read(data, 0, 4), "little")


def puts(r):
    """Every rank puts into all windows, with lengths that a kernel or a copy moves."""
    cuda = Cuda(r.rank)
    comm = r.comm()
    window, n = Window(r, comm, ROOM * r.nranks), r.nranks
    for turn, count in enumerate(LENGTHS):
        for peer in range(n):
            data = cuda.memory(pattern(r.rank * 7 + peer + turn, count))
            r.lib.PutSignal(data, count, UINT8, peer, window.window, ROOM * r.rank + turn, 0, 0, 0,
                            comm, cuda.stream)
        r.lib.WaitSignal(*waits(*[(1, peer) for peer in range(n)]), comm, cuda.stream)
        cuda.StreamSynchronize(cuda.stream)
        for peer in range(n):
            demand(cuda.read(window.at, ROOM * peer + turn, count) ==
                   pattern(peer * 7 + r.rank + turn, count), f"{count} bytes from {peer}")
        demand(sum_on_gpu(r, cuda, comm, 1) == n, "a collective between")
    window.close()
    r.lib.CommDestroy(comm)


def order(r):
    """One signal follows many puts; a signal without data, and waits for several at once."""
    cuda = Cuda(r.rank)
    comm = r.comm()
    window = Window(r, comm)
    for turn in range(10):
        if r.rank == 0:
            for part in range(20):
                data = cuda.memory(pattern(turn + part, 3000))
                r.lib.PutSignal(data, 3000, UINT8, 1, window.window, 3000 * part, 0, 0, 0, comm,
                                cuda.stream)
            r.lib.WaitSignal(*waits((1, 1)), comm, cuda.stream)
        else:
            r.lib.WaitSignal(*waits((12, 0), (8, 0)), comm, cuda.stream)
            cuda.StreamSynchronize(cuda.stream)
            for part in range(20):
                demand(cuda.read(window.at, 3000 * part, 3000) == pattern(turn + part, 3000))
            r.lib.Signal(0, 0, 0, 0, comm, cuda.stream)
    cuda.StreamSynchronize(cuda.stream)
    window.close()
    r.lib.CommDestroy(comm)


def replayed(r):
    """A captured put, wait and group can be replayed with other data."""
    cuda = Cuda(r.rank)
    comm, peer = r.comm(), 1 - r.rank
    window, graph = Window(r, comm), ctypes.c_void_p()
    data = cuda.memory(pattern(0, 100000))

    def round_():
        r.lib.GroupStart()
        r.lib.PutSignal(data, 100000, UINT8, peer, window.window, 64, 0, 0, 0, comm, cuda.stream)
        r.lib.PutSignal(data, 16, UINT8, peer, window.window, 0, 0, 0, 0, comm, cuda.stream)
        r.lib.WaitSignal(*waits((2, peer)), comm, cuda.stream)
        r.lib.GroupEnd()
    round_()  # loads the kernels
    cuda.StreamSynchronize(cuda.stream)
    cuda.StreamBeginCapture(cuda.stream, 1)
    round_()
    cuda.StreamEndCapture(cuda.stream, ctypes.byref(graph))
    runs = cuda.make("GraphInstantiate", graph, 0)
    for turn in range(1, 6):
        meet(r, f"turn{turn}")  # the window has been read
        cuda.write(data, 0, pattern(turn, 100000))
        cuda.GraphLaunch(runs, cuda.stream)
        cuda.StreamSynchronize(cuda.stream)
        demand(cuda.read(window.at, 64, 100000) == pattern(turn, 100000), f"replay {turn}")
        demand(cuda.read(window.at, 0, 16) == pattern(turn, 16))
    meet(r, "read")
    round_()  # outside of the graph again
    cuda.StreamSynchronize(cuda.stream)
    window.close()
    r.lib.CommDestroy(comm)


def suspended(r):
    """Device memory is given back and comes back; windows and signals are kept."""
    cuda = Cuda(r.rank)
    comm, lib, right = r.comm(), r.lib, (r.rank + 1) % r.nranks
    window, value = Window(r, comm), ctypes.c_uint64()
    data = cuda.memory(pattern(r.rank, 5000))
    lib.PutSignal(data, 5000, UINT8, right, window.window, 0, 0, 0, 0, comm, cuda.stream)
    demand(sum_on_gpu(r, cuda, comm, 1) == r.nranks)
    lib.CommMemStats(comm, 0, ctypes.byref(value))
    for turn in range(2):
        meet(r, f"full{turn}")
        before = cuda.free_bytes()
        meet(r, f"measured{turn}")
        lib.CommSuspend(comm, 1)
        meet(r, f"empty{turn}")
        freed = cuda.free_bytes() - before
        if r.rank == 0:
            print(f"# {value.value >> 20} MiB by ncclCommMemStats, {freed >> 20} MiB freed on the "
                  "GPU by the ranks that use it", flush=True)
        demand(freed >= value.value * 9 // 10, "as much as the statistics say")
        demand(lib.try_("Signal", right, 0, 0, 0, comm, cuda.stream) == USAGE)
        meet(r, f"resume{turn}")
        lib.CommResume(comm)
        demand(sum_on_gpu(r, cuda, comm, 1) == r.nranks)
    left = (r.rank - 1) % r.nranks
    demand(cuda.read(window.at, 0, 5000) == pattern(left, 5000))
    lib.WaitSignal(*waits((1, left)), comm, cuda.stream)  # from before
    lib.PutSignal(data, 5000, UINT8, right, window.window, 8192, 0, 0, 0, comm, cuda.stream)
    lib.WaitSignal(*waits((1, left)), comm, cuda.stream)
    cuda.StreamSynchronize(cuda.stream)
    demand(cuda.read(window.at, 8192, 5000) == pattern(left, 5000), "the window is mapped again")
    window.close()
    lib.CommDestroy(comm)


def grown(r):
    """Two ranks become four."""
    cuda = Cuda(r.rank)
    lib, old, made, identity = r.lib, r.rank < 2, ctypes.c_void_p(), UniqueId()
    comm = lib.init(2, r.identity(), r.rank) if old else None
    if r.rank == 0:
        lib.CommGetUniqueId(comm, ctypes.byref(identity))
        r.store.set("grow", bytes(identity))
    elif not old:
        identity = UniqueId.from_buffer_copy(r.store.get("grow"))
    lib.CommGrow(comm, 4, None if r.rank == 1 else ctypes.byref(identity), -1 if old else r.rank,
                 ctypes.byref(made), None)
    demand(sum_on_gpu(r, cuda, made, 1 + r.rank) == 10)
    lib.CommDestroy(made)
    if old:
        demand(sum_on_gpu(r, cuda, comm, 1) == 2)
        lib.CommDestroy(comm)


def options(r):
    cuda = Cuda(r.rank)
    comm, event = r.comm(), cuda.make("EventCreate")
    data = cuda.memory(b"\1\0\0\0")
    for selection in (None, b"packet"):
        config = CollConfig(launchCompletionEvent=event, algSelection=selection)
        r.lib.AllReduceConfig(data, data, 1, INT32, SUM, comm, cuda.stream, ctypes.byref(config))
        cuda.StreamSynchronize(cuda.stream)
        cuda.EventQuery(event)
    demand(int.from_bytes(cuda.read(data, 0, 4), "little") == r.nranks ** 2)
    r.lib.CommDestroy(comm)


def per_thread_streams(r):
    """Two threads call in turn, each in its cudaStreamPerThread."""
    cuda = Cuda(r.rank)
    comm, data, problems = r.comm(), cuda.memory(b"\1\0\0\0"), []
    turns = [threading.Event() for _ in range(41)]

    def work(first):
        try:
            cuda.SetDevice(0)
            for turn in range(first, 40, 2):
                turns[turn].wait()
                r.lib.AllReduce(data, data, 1, INT32, SUM if turn < 10 else MAX, comm,
                                cuda.PER_THREAD)
                turns[turn + 1].set()
        except BaseException as error:  # pylint: disable=broad-except
            problems.append(error)
            for turn in turns:
                turn.set()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for one in threads:
        one.start()
    turns[0].set()
    for one in threads:
        one.join()
    cuda.DeviceSynchronize()
    demand(not problems, problems)
    demand(int.from_bytes(cuda.read(data, 0, 4), "little") == r.nranks ** 10)
    r.lib.CommDestroy(comm)


def background(r):
    cuda = Cuda(r.rank)
    lib, comm, state = r.lib, ctypes.c_void_p(), ctypes.c_int(7)
    config, identity = FullConfig(blocking=0), r.identity()
    demand(lib.try_("CommInitRankConfig", ctypes.byref(comm), r.nranks, identity, r.rank,
                    ctypes.byref(config)) in (0, 7))
    while state.value == 7:
        lib.CommGetAsyncError(comm, ctypes.byref(state))
        time.sleep(0.01)
    demand(state.value == OK, lib.last_error())
    demand(sum_on_gpu(r, cuda, comm, 1) == r.nranks)
    lib.CommDestroy(comm)


def round_trip(r):
    """Prints the time of a put of 8 bytes with its signal, there and back. The source is in the
    window, as NCCL's own library demands, so that it can be measured as well."""
    cuda, steps = Cuda(r.rank), 500
    comm = r.comm()
    window = Window(r, comm)
    cuda.write(window.at, ROOM // 2, pattern(1, 8))
    data = ctypes.c_void_p(window.at.value + ROOM // 2)

    def trips(count):
        for _ in range(count):
            if r.rank == 1:
                r.lib.WaitSignal(*waits((1, 0)), comm, cuda.stream)
            r.lib.PutSignal(data, 8, UINT8, 1 - r.rank, window.window, 0, 0, 0, 0, comm,
                            cuda.stream)
            if r.rank == 0:
                r.lib.WaitSignal(*waits((1, 1)), comm, cuda.stream)
        cuda.StreamSynchronize(cuda.stream)
    trips(20)
    started = time.monotonic()
    trips(steps)
    if r.rank == 0:
        print("# put of 8 bytes and signal, there and back: %.1f us"
              % ((time.monotonic() - started) / steps * 1e6), flush=True)
    window.close()
    r.lib.CommDestroy(comm)


def listener(folder):
    """Builds nvtx_listener.c, and makes NVTX load it into this process; returns the library."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    path = os.path.join(folder, "listener.so")
    subprocess.run(["cc", "-std=gnu11", "-shared", "-fPIC", "-o", path,
                    "-I", os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/include",
                    os.path.join(root, "support", "nvtx_listener.c")], check=True)
    os.environ["NVTX_INJECTION64_PATH"] = path
    library = ctypes.CDLL(path)
    library.nvtx_listener_text.restype = ctypes.c_char_p
    return library


def heard(r):
    """Returns the NVTX ranges of a few calls, as a profiler sees them."""
    with tempfile.TemporaryDirectory() as folder:
        profiler = listener(folder)
        cuda = Cuda(r.rank)
        comm = r.comm()
        window, data = Window(r, comm), cuda.memory(bytes(24))
        demand(sum_on_gpu(r, cuda, comm, 3) == 3 * r.nranks, "a sum")
        r.lib.GroupStart()
        r.lib.Send(data, 24, UINT8, 1 - r.rank, comm, cuda.stream)
        r.lib.Recv(data, 24, UINT8, 1 - r.rank, comm, cuda.stream)
        r.lib.GroupEnd()
        r.lib.PutSignal(data, 24, UINT8, 1 - r.rank, window.window, 0, 0, 0, 0, comm, cuda.stream)
        r.lib.WaitSignal(*waits((1, 1 - r.rank)), comm, cuda.stream)
        cuda.StreamSynchronize(cuda.stream)
        window.close()
        r.lib.CommDestroy(comm)
        return profiler.nvtx_listener_text().decode().splitlines()


def ranges(r):
    """A profiler sees each call as a range with its bytes."""
    expected = []
    for call in ("ncclAllReduce 4", "ncclGroup of sends and receives 0", "ncclPutSignal 24",
                 "ncclWaitSignal 0"):
        expected += ["begin NCCL " + call, "end NCCL"]
    found = heard(r)
    demand(found == expected, f"a profiler saw {found}")


def no_ranges(r):
    """NCCL_NVTX_DISABLE leaves them out."""
    os.environ["NCCL_NVTX_DISABLE"] = "1"
    found = heard(r)
    demand(not found, f"a profiler saw {found}")


def beside(r):
    """With WEIR_NCCL_FALLBACK a real library serves the device interface beside weir."""
    cuda = Cuda(r.rank)
    comm = r.comm()
    window = Window(r, comm)
    function = r.lib.library.ncclGetLsaDevicePointer
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
    address = ctypes.c_void_p()
    result = function(window.window, 16, 0, ctypes.byref(address))
    demand(result == OK and address.value, f"{result}: {r.lib.last_error()}")
    demand(sum_on_gpu(r, cuda, comm, 5) == 5 * r.nranks, "weir runs collectives")
    window.close()
    r.lib.CommDestroy(comm)


def lacks(path, name):
    """Why a check that needs a function of a library is left out, or None: the library has it. The
    library is opened in another process."""
    code = ("import ctypes, sys; library = ctypes.CDLL(sys.argv[1]); v = ctypes.c_int(); "
            "library.ncclGetVersion(ctypes.byref(v)); print(v.value, hasattr(library, sys.argv[2]))")
    if not path:
        return "WEIR_NCCL_FALLBACK is not set"
    found = subprocess.run([sys.executable, "-c", code, path, name], check=False, text=True,
                           capture_output=True)
    if found.returncode != 0:
        raise RuntimeError(f"{path} cannot be opened: {found.stderr.strip().splitlines()[-1:]}")
    version, has = found.stdout.split()[-2:]
    return None if has == "True" else f"{path} is version {version} and has no {name}"


def check_beside():
    """Prints TAP of one check, and returns whether it passed or was skipped."""
    reason = lacks(os.environ.get("WEIR_NCCL_FALLBACK"), "ncclGetLsaDevicePointer")
    if reason:
        print(f"ok 1 - the device interface beside weir # SKIP {reason}\n1..1")
        return True
    passed = job(beside, 1)
    print("%s 1 - the device interface beside weir\n1..1" % ("ok" if passed else "not ok"))
    return passed


CHECKS = [
    ("puts reach the windows of 2 ranks", puts, 2, "nccl"),
    ("puts reach the windows of 4 ranks", puts, 4, "nccl"),
    ("a signal arrives after all earlier puts", order, 2, "nccl"),
    ("captured puts and waits can be replayed", replayed, 2, "nccl"),
    ("suspending gives device memory back", suspended, 2, "nccl"),
    ("a communicator grows from 2 to 4 ranks", grown, 4, "nccl"),
    ("options: an event and an algorithm", options, 2, "nccl"),
    ("calls in the streams of threads are ordered", per_thread_streams, 2, "nccl"),
    ("communicators are created in the background", background, 2, "nccl"),
    ("a profiler sees NVTX ranges of calls", ranges, 2, "nccl"),
    ("NCCL_NVTX_DISABLE leaves them out", no_ranges, 2, "nccl"),
    ("puts and signals go there and back", round_trip, 2, "nccl"),
]

if __name__ == "__main__":
    if sys.argv[1:] == ["beside"]:
        sys.exit(0 if check_beside() else 1)
    all_checks = Report()
    all_checks.run(CHECKS, sys.argv[1:])
    all_checks.end()
