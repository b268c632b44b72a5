"""nccl4py, NVIDIA's Python binding of NCCL, over libweir_nccl.so on host memory: every function of
nccl.bindings that needs no GPU, and the objects of nccl.core. Prints TAP.

Needs nccl4py (pip install nccl4py cuda-bindings) and NCCL_SO_PATH. What needs a GPU is the last
check: these functions must refuse. The jobs are those of nccl_checks.py.
"""
import ctypes
import functools
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nccl_checks import demand, job  # noqa: E402
from nccl_library import integrity_check  # noqa: E402

INT32, UINT8, SUM, MAX, COUNT = 2, 1, 0, 2, 1000


def load():
    """Imports the binding after our library, whose name it then finds loaded."""
    ctypes.CDLL(os.environ["NCCL_SO_PATH"], mode=ctypes.RTLD_GLOBAL)
    import numpy
    from nccl.bindings import nccl
    return numpy, nccl


def at(array):
    return array.ctypes.data


class Job:
    """One rank of a job over the binding."""

    def __init__(self, r, **settings):
        self.np, self.nccl = load()
        import nccl.core as core
        self.core, self.r, self.n = core, r, r.nranks
        if r.rank == 0:
            r.store.set("id", core.get_unique_id().as_bytes)
        identity = core.UniqueId.from_bytes(r.store.get("id"))
        self.object = core.Communicator.init(nranks=self.n, rank=r.rank, unique_id=identity,
                                             config=core.NCCLConfig(**settings))
        self.comm = self.nccl.Comm(self.object.ptr)

    def array(self, value, count=COUNT):
        return self.np.full(count, value, self.np.int32)

    def sum_is(self, ranks, comm=None):
        """A communicator has so many ranks; by default the job's."""
        value = self.array(1, 1)
        self.nccl.all_reduce(at(value), at(value), 1, INT32, SUM,
                             self.nccl.Comm(comm.ptr) if comm else self.comm, 0)
        demand(value[0] == ranks, f"{value[0]} ranks, expected {ranks}")


def with_job(**settings):
    """Makes a check of a rank's job out of one of a Job, whose communicator ends with the check."""
    def decorate(check):
        @functools.wraps(check)
        def run(r):
            j = Job(r, **settings)
            try:
                check(j)
            except BaseException:
                j.object.abort()  # the other ranks may have failed too, or wait
                raise
            j.object.destroy()
        return run
    return decorate


def version_of_library():
    version = ctypes.c_int()
    demand(ctypes.CDLL(os.environ["NCCL_SO_PATH"]).ncclGetVersion(ctypes.byref(version)) == 0)
    return version.value


def identity_and_errors(r):
    _, nccl = load()
    demand(nccl.get_version() == version_of_library(), nccl.get_version())
    demand(os.path.realpath(nccl.get_library_path()) == os.path.realpath(
        os.environ["NCCL_SO_PATH"]), nccl.get_library_path())
    demand(nccl.get_error_string(4) == "invalid argument", nccl.get_error_string(4))
    try:
        nccl.comm_count(nccl.Comm(12345))
        demand(False, "a bad handle is accepted")
    except nccl.NCCLError as error:
        demand(str(error).startswith("InvalidArgument"), str(error))
    demand("0x3039" in nccl.get_last_error(nccl.Comm()), nccl.get_last_error(nccl.Comm()))
    demand(r.nranks == 1)


@with_job()
def collectives(j):
    nccl, n, rank, comm = j.nccl, j.n, j.r.rank, j.comm
    demand((j.object.nranks, j.object.rank) == (n, rank))
    total, out, one = n * (n + 1) // 2, j.array(0, COUNT * n), j.array(rank + 1)
    each = j.np.repeat(j.np.arange(1, n + 1, dtype=j.np.int32), COUNT)

    def both(name, *arguments):
        """The plain call, then the one with options; each must leave the same in `out`."""
        options = nccl.CollConfig()
        for suffix, more in (("", ()), ("_config", (options.ptr,))):
            out[:] = 0
            getattr(nccl, name + suffix)(*arguments, comm, 0, *more)
            yield out
    for got in both("all_reduce", at(one), at(out), COUNT, INT32, SUM):
        demand((got[:COUNT] == total).all(), "all_reduce")
    for got in both("all_gather", at(one), at(out), COUNT, INT32):
        demand((got == each).all(), "all_gather")
    for got in both("reduce_scatter", at(each), at(out), COUNT, INT32, SUM):
        demand((got[:COUNT] == n * (rank + 1)).all(), "reduce_scatter")
    for got in both("broadcast", at(one), at(out), COUNT, INT32, n - 1):
        demand((got[:COUNT] == n).all(), "broadcast")
    for got in both("reduce", at(one), at(out), COUNT, INT32, MAX, 0):
        demand(rank or (got[:COUNT] == n).all(), "reduce")
    for got in both("allto_all", at(each), at(out), COUNT, INT32):
        demand((got == rank + 1).all(), "allto_all")
    for got in both("gather", at(one), at(out), COUNT, INT32, 0):
        demand(rank or (got == each).all(), "gather")
    for got in both("scatter", at(each), at(out), COUNT, INT32, 0):
        demand((got[:COUNT] == rank + 1).all(), "scatter")
    nccl.bcast(at(one), COUNT, INT32, 0, comm, 0)
    demand((one == 1).all(), "bcast")
    scalar = j.array(3, 1)
    op = nccl.red_op_create_pre_mul_sum(at(scalar), INT32, 1, comm)
    nccl.all_reduce(at(one), at(out), COUNT, INT32, op, comm, 0)
    nccl.red_op_destroy(op, comm)
    demand((out[:COUNT] == 3 * n).all(), "a custom operation")


@with_job()
def groups(j):
    nccl, rank = j.nccl, j.r.rank
    next_, last = (rank + 1) % j.n, (rank - 1) % j.n
    mine, got = j.array(rank), j.array(-1)
    nccl.group_start()
    nccl.send(at(mine), COUNT, INT32, next_, j.comm, 0)
    nccl.recv(at(got), COUNT, INT32, last, j.comm, 0)
    nccl.group_end()
    demand((got == last).all(), "a ring")
    nccl.group_start()
    nccl.all_reduce(at(mine), at(got), COUNT, INT32, SUM, j.comm, 0)
    nccl.group_simulate_end()
    demand((got == last).all(), "a simulated call does not run")


@with_job(num_rma_ctx=2, num_rma_sig=3)
def one_sided(j):
    nccl, n, rank = j.nccl, j.n, j.r.rank
    memory = nccl.mem_alloc(4 * COUNT * n)
    window = nccl.comm_window_register(j.comm, memory, 4 * COUNT * n, 1)
    demand(nccl.win_get_user_ptr(j.comm, window) == memory)
    mine = j.array(rank + 7)
    waits = bytearray()
    for peer in range(n):
        nccl.put_signal(at(mine), COUNT, INT32, peer, window, 4 * COUNT * rank, 2, 1, 0, j.comm, 0)
        nccl.signal(peer, 2, 1, 0, j.comm, 0)
        wait = nccl.WaitSignalDesc()
        wait.peer, wait.op_cnt, wait.sig_idx, wait.ctx = peer, 2, 2, 1
        waits += bytes(wait)
    nccl.wait_signal(n, waits, j.comm, 0)
    got = j.np.ctypeslib.as_array((ctypes.c_int32 * (COUNT * n)).from_address(memory))
    demand((got == j.np.repeat(j.np.arange(n) + 7, COUNT)).all(), "what the others have put")
    nccl.comm_window_deregister(j.comm, window)
    handle = nccl.comm_register(j.comm, memory, 4 * COUNT * n)
    nccl.comm_deregister(j.comm, handle)
    nccl.mem_free(memory)


@with_job()
def managed(j):
    """nccl.core: splitting, shrinking, growing, suspending; parameters."""
    r, n, grown, rest = j.r, j.n, None, None
    half = j.object.split(color=r.rank % 2, key=r.rank)
    j.sum_is(n // 2, half)
    if r.rank < n - 1:
        rest = j.object.shrink(exclude_ranks=[n - 1])
        j.sum_is(n - 1, rest)
        identity = rest.get_unique_id() if r.rank == 0 else None
        if identity:
            r.store.set("grow", identity.as_bytes)
        grown = rest.grow(n, unique_id=identity)
    else:
        identity = j.core.UniqueId.from_bytes(r.store.get("grow"))
        grown = j.core.Communicator().grow(n, unique_id=identity, rank=n - 1)
    j.sum_is(n, grown)
    demand(grown.properties.rank == grown.rank, "properties")
    demand(j.nccl.comm_mem_stats(j.nccl.Comm(grown.ptr), 3) > 0, "bytes in total")
    grown.suspend()
    grown.resume()
    j.sum_is(n, grown)
    demand(grown.get_async_error() == 0)
    grown.finalize()
    for comm in (grown, half, rest):
        if comm:
            comm.destroy()
    demand(j.nccl.param_get_all_keys(), "parameters")


@with_job()
def refusals(j):
    """Functions that need a GPU or NCCL's device code refuse, and the communicator stays usable."""
    nccl = j.nccl
    memory = nccl.mem_alloc(4096)
    window = nccl.comm_window_register(j.comm, memory, 4096, 1)
    requirements = nccl.DevCommRequirements()
    tries = {"dev_comm_create": (j.comm, requirements.ptr),
             "get_lsa_device_pointer": (window, 0, 0), "get_peer_device_pointer": (window, 0, 0),
             "get_lsa_multimem_device_pointer": (window, 0)}
    for name, arguments in tries.items():
        try:
            getattr(nccl, name)(*arguments)
        except nccl.NCCLError as error:
            demand(str(error).startswith("InvalidUsage"), f"{name}: {error}")
            continue
        demand(False, f"{name} is accepted")
    nccl.comm_window_deregister(j.comm, window)
    j.sum_is(j.n)
    nccl.mem_free(memory)


CHECKS = [
    ("version, library, errors", identity_and_errors, 1),
    ("all collectives, with and without options; custom operations", collectives, 4),
    ("groups of sends and receives; estimates", groups, 3),
    ("windows, puts, signals, waits; registrations", one_sided, 3),
    ("nccl.core: communicators split, shrink, grow, suspend, resume", managed, 4),
    ("the device interface refuses", refusals, 2),
]


def main():
    integrity_check(os.environ["NCCL_SO_PATH"])
    os.environ.pop("WEIR_NCCL_FALLBACK", None)  # which has what weir refuses
    try:
        from nccl.bindings import nccl  # noqa: F401 pylint: disable=unused-import
    except ImportError as error:
        print(f"1..0 # SKIP {error}; pip install nccl4py cuda-bindings")
        return 0
    results = []
    for name, body, ranks in CHECKS:
        results.append(job(body, ranks))
        print("%s %d - nccl4py: %s" % ("ok" if results[-1] else "not ok", len(results), name),
              flush=True)
    print("1..%d" % len(results))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
