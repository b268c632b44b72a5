"""Checks of functions of NCCL 2.29 to 2.32 over libweir_nccl.so on host memory, run by
cli/nccl_calls.sh: collectives with options, parameters, growing, suspending, memory statistics,
encryption, creation in the background, and the device interface. Prints TAP. The jobs are those of
nccl_checks.py.
"""
import ctypes
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nccl_checks import *  # noqa: E402,F403 pylint: disable=wildcard-import,unused-wildcard-import
from nccl_library import *  # noqa: E402,F403 pylint: disable=wildcard-import,unused-wildcard-import
from nccl_onesided import Window, open_comm, put, wait  # noqa: E402

# ------------------------------------------------------------------------ options

def collectives_with_options(r):
    """Each collective with options, and with NULL, equals the plain one."""
    lib, comm, n, count = r.lib, r.comm(), r.nranks, 301
    block = lambda rank: [rank * 50 + i for i in range(count)]  # noqa: E731
    total = [sum(rank * 50 + i for rank in range(n)) for i in range(count)]
    every = [x for rank in range(n) for x in block(rank)]
    options = CollConfig(minCTAs=1, maxCTAs=8, nvlsCTAs=4, cgaClusterSize=2, CTAPolicy=1,
                         userProfilerTag=77, algSelection=b"NONE,PACKET", forceAlgSelection=0)
    for config in (None, ctypes.byref(options), ctypes.byref(CollConfig(algSelection=b""))):
        out, whole = buffer(INT32, [0] * count), buffer(INT32, [0] * count * n)
        mine = buffer(INT32, block(r.rank))
        lib.AllReduceConfig(mine, out, count, INT32, SUM, comm, None, config)
        demand(holds(out, INT32, total), "allreduce")
        lib.BroadcastConfig(mine, out, count, INT32, 1, comm, None, config)
        demand(holds(out, INT32, block(1)), "broadcast")
        lib.ReduceConfig(mine, out, count, INT32, SUM, 0, comm, None, config)
        demand(holds(out, INT32, total if r.rank == 0 else block(1)), "reduce")
        lib.AllGatherConfig(mine, whole, count, INT32, comm, None, config)
        demand(holds(whole, INT32, every), "allgather")
        lib.ReduceScatterConfig(whole, out, count, INT32, SUM, comm, None, config)
        demand(holds(out, INT32, [n * x for x in block(r.rank)]), "reduce_scatter")
        sent = buffer(INT32, [x + 1000 * peer for peer in range(n) for x in block(r.rank)])
        lib.AlltoAllConfig(sent, whole, count, INT32, comm, None, config)
        demand(holds(whole, INT32, [x + 1000 * r.rank for rank in range(n) for x in block(rank)]))
        lib.GatherConfig(mine, whole, count, INT32, 1, comm, None, config)
        demand(r.rank != 1 or holds(whole, INT32, every), "gather")
        lib.ScatterConfig(whole, out, count, INT32, 1, comm, None, config)
        demand(holds(out, INT32, block(r.rank)), "scatter")
    lib.CommDestroy(comm)


def refused_options(r):
    lib, comm, data = r.lib, r.comm(), buffer(INT32, [1])

    def tried(name="AllReduce", *extra, **options):
        arguments = extra or (data, data, 1, INT32, SUM, comm, None)
        return lib.try_(name + "Config", *arguments, ctypes.byref(CollConfig(**options)))
    for bad in ({"magic": 1}, {"size": 8}, {"minCTAs": 0}, {"maxCTAs": 0}, {"nvlsCTAs": -1},
                {"minCTAs": 5, "maxCTAs": 4}, {"cgaClusterSize": 9}, {"CTAPolicy": 64},
                {"forceAlgSelection": 2}, {"algSelection": b"RING_LL128"},
                {"algSelection": b"packet2x,,"}):
        demand(tried(**bad) == ARGUMENT, f"{bad}: {lib.last_error()}")
    demand("algSelection" in lib.last_error(), lib.last_error())
    demand(tried("Gather", data, data, 1, INT32, 0, comm, None, algSelection=b"packet") == ARGUMENT,
           "gather has no algorithms to select")
    demand(tried(launchCompletionEvent=64) == USAGE, "there are no events without GPUs")
    demand(tried("AllReduce", data, data, 1, INT32, SUM, None, None) == ARGUMENT)
    lib.GroupStart()
    demand(tried(minCTAs=0) == ARGUMENT)
    demand(lib.try_("GroupEnd") == ARGUMENT)
    demand(tried(algSelection=b"no such,packet", size=48) == OK, "of two names the second exists")
    demand(holds(data, INT32, [r.nranks]), "a shorter structure has defaults")
    lib.CommDestroy(comm)


# --------------------------------------------------------------------- parameters

def parameters(r):
    os.environ.update(WEIR_TIMEOUT_MS="4567", WEIR_SOCKET_STREAMS="300", WEIR_CMA="x")
    os.environ.pop("WEIR_LOG", None)
    lib, handle, text, size = r.lib, ctypes.c_void_p(), ctypes.c_char_p(), ctypes.c_int()

    def bind(name):
        lib.ParamBind(ctypes.byref(handle), name)

    def integer(kind):
        value = lib.INTEGERS[kind](99)
        result = lib.try_("ParamGet" + kind, handle, ctypes.byref(value))
        demand(result == OK or value.value == 99, "nothing is written on failure")
        return value.value if result == OK else result
    bind(b"WEIR_TIMEOUT_MS")
    for kind in ("I16", "I32", "I64", "U16", "U32", "U64"):
        demand(integer(kind) == 4567, kind)
    demand(integer("I8") == ARGUMENT and integer("U8") == ARGUMENT, "4567 needs two bytes")
    raw = ctypes.create_string_buffer(8)
    lib.ParamGet(handle, raw, 8, ctypes.byref(size))
    demand(size.value == 8 and int.from_bytes(raw.raw, sys.byteorder) == 4567)
    demand(lib.try_("ParamGet", handle, raw, 4, ctypes.byref(size)) == ARGUMENT and size.value == 8)
    lib.ParamGetStr(handle, ctypes.byref(text))
    demand(text.value == b"4567")
    os.environ["WEIR_TIMEOUT_MS"] = "-3"
    demand(integer("I8") == -3 and integer("U64") == ARGUMENT, "values are read at each call")
    bind(b"WEIR_SOCKET_STREAMS")
    demand(integer("U8") == ARGUMENT and integer("I16") == 300)
    bind(b"WEIR_CMA")
    demand(integer("I32") == ARGUMENT, "not a number")
    bind(b"WEIR_LOG")
    demand(integer("I64") == ARGUMENT, "a string")
    lib.ParamGetParameter(b"WEIR_LOG", ctypes.byref(text), ctypes.byref(size))
    demand(text.value == b"warn" and size.value == 4, "the default")
    lib.ParamGet(handle, raw, 8, ctypes.byref(size))
    demand(raw.raw[:5] == b"warn\0" and size.value == 5)
    lib.ParamGetParameter(b"WEIR_TUNING", ctypes.byref(text), ctypes.byref(size))
    demand(text.value == b"" and size.value == 0, "no default")
    for bad in (b"WEIR_NOTHING", b"", None):
        demand(lib.try_("ParamBind", ctypes.byref(handle), bad) == ARGUMENT)
        demand(lib.try_("ParamGetParameter", bad, ctypes.byref(text), ctypes.byref(size))
               == ARGUMENT)
    demand(lib.try_("ParamBind", None, b"WEIR_LOG") == ARGUMENT)
    demand(lib.try_("ParamGetI32", None, ctypes.byref(size)) == ARGUMENT)
    demand(lib.try_("ParamGetI32", ctypes.c_void_p(1 << 40), ctypes.byref(size)) == ARGUMENT)
    demand(lib.try_("ParamGetStr", handle, None) == ARGUMENT)
    keys = all_keys(lib)
    demand({"WEIR_LOG", "WEIR_TIMEOUT_MS", "NCCL_SOCKET_IFNAME"} <= keys and "RANK" not in keys)
    os.environ["NCCL_PARAM_DUMP_ALL"] = "TRUE"
    demand(all_keys(lib) > keys and "RANK" in all_keys(lib))


def all_keys(lib):
    table, count = ctypes.POINTER(ctypes.c_char_p)(), ctypes.c_int()
    lib.ParamGetAllParameterKeys(ctypes.byref(table), ctypes.byref(count))
    return {table[i].decode() for i in range(count.value)}


def encryption(r):
    lib = r.lib

    def tried(*arguments, **more):
        return lib.try_("SetEncryption", ctypes.byref(Encryption(*arguments, **more)))
    demand(lib.try_("SetEncryption", None) == OK and tried() == OK)
    for bad in ((1,), (2,), (1, b"short"), (1, b"x" * 31)):
        demand(tried(*bad) == ARGUMENT, f"{bad}")
    demand(tried(magic=1) == ARGUMENT and tried(size=8) == ARGUMENT)
    demand(tried(1, b"x" * 32) == USAGE and "not encrypted" in lib.last_error(), lib.last_error())


# ------------------------------------------------------------------------ growing

def grow(r):
    """Two ranks become four; then the first communicator is used, and grows again to three."""
    lib, old, made = r.lib, r.rank < 2, ctypes.c_void_p()
    comm = lib.init(2, r.identity(), r.rank) if old else None
    for key, nranks, coordinator in (("four", 4, 1), ("three", 3, 0)):
        identity = None
        if r.rank == coordinator:
            identity = UniqueId()
            lib.CommGetUniqueId(comm, ctypes.byref(identity))
            demand(lib.try_("CommGetUniqueId", comm, ctypes.byref(UniqueId())) == USAGE,
                   "an id that is not used yet")
            r.store.set(key, bytes(identity))
        elif not old and r.rank < nranks:
            identity = UniqueId.from_buffer_copy(r.store.get(key))
        if r.rank < nranks:
            lib.CommGrow(comm, nranks, ctypes.byref(identity) if identity else None,
                         -1 if old else r.rank, ctypes.byref(made), None)
            demand(query(lib, "CommUserRank", made) == r.rank)
            demand(query(lib, "CommCount", made) == nranks)
            demand(sum_of(r, made, 1 + r.rank) == nranks * (nranks + 1) // 2)
            window = Window(r, made)
            put(r, made, outgoing(r.rank, 10), 10, (r.rank + 1) % nranks, window, 0)
            wait(r, made, (1, (r.rank - 1) % nranks))
            demand(window.read(0, 10) == pattern((r.rank - 1) % nranks, 10))
            window.close()
            lib.CommDestroy(made)
        if old:
            demand(sum_of(r, comm, 1) == 2, "the old communicator still works")
    if old:
        lib.CommDestroy(comm)


def refused_growth(r):
    """Wrong ids and arguments; then the right id still works."""
    lib, old, made = r.lib, r.rank < 2, ctypes.c_void_p(1)
    comm = lib.init(2, r.identity(), r.rank) if old else None
    right, wrong = UniqueId(), UniqueId.from_buffer_copy(bytes(range(128)))

    def tried(parent, nranks, identity, rank):
        return lib.try_("CommGrow", parent, nranks, ctypes.byref(identity) if identity else None,
                        rank, ctypes.byref(made), None)
    if not old:
        demand(tried(None, 3, None, 2) == ARGUMENT and not made.value, "no id")
        for rank in (-1, 0, 3):
            demand(tried(None, 3, wrong, rank) == ARGUMENT, f"rank {rank} of 3")
        demand(tried(None, 3, wrong, 2) == ARGUMENT and "unique id" in lib.last_error())
        right = UniqueId.from_buffer_copy(r.store.get("right"))
        demand(tried(None, 3, right, 2) == OK, lib.last_error())
        demand(sum_of(r, made, 1) == 3)
        lib.CommDestroy(made)
        demand(tried(None, 3, right, 2) == REMOTE, "the id is used up")
        r.store.set("tried", b"")
        return
    demand(lib.try_("CommGrow", comm, 3, None, -1, None, None) == ARGUMENT)
    for nranks, rank in ((2, -1), (0, -1), (3, 0), (3, r.rank)):
        demand(tried(comm, nranks, None, rank) == ARGUMENT, f"{nranks} ranks, rank {rank}")
    demand(tried(comm, 3, None, -1) == USAGE, "no rank passes an id")
    demand(lib.try_("CommGetUniqueId", comm, None) == ARGUMENT)
    demand(lib.try_("CommGetUniqueId", None, ctypes.byref(right)) == ARGUMENT)
    mine = wrong if r.rank == 0 else None
    demand(tried(comm, 3, mine, -1) == ARGUMENT and "the id is not" in lib.last_error(),
           "an id that no rank has created: " + lib.last_error())
    if r.rank == 0:
        lib.CommGetUniqueId(comm, ctypes.byref(right))
    mine = right if r.rank == 0 else None
    demand(tried(comm, 3 + r.rank, mine, -1) == ARGUMENT and "nRanks" in lib.last_error())
    demand(tried(comm, 3, wrong if r.rank == 0 else None, -1) == ARGUMENT)
    if r.rank == 0:
        r.store.set("right", bytes(right))
    demand(tried(comm, 3, mine, -1) == OK, lib.last_error())
    demand(sum_of(r, made, 1) == 3)
    lib.CommDestroy(made)
    demand(tried(comm, 4, mine, -1) == ARGUMENT, "an id that was used")
    r.store.get("tried")
    lib.CommDestroy(comm)


# --------------------------------------------------------------------- suspending

def statistic(lib, comm, which):
    value = ctypes.c_uint64(7)
    lib.CommMemStats(comm, which, ctypes.byref(value))
    return value.value


def resident_kib():
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))


def suspend(r):
    """Memory is freed and comes back; windows, signals and custom operations survive."""
    lib, comm, n = r.lib, r.comm(), r.nranks
    right, left = (r.rank + 1) % n, (r.rank - 1) % n
    window, op = Window(r, comm), ctypes.c_int()
    lib.RedOpCreatePreMulSum(ctypes.byref(op), buffer(INT32, [3]), INT32, IMMEDIATE, comm)
    data = outgoing(r.rank, 5000)
    put(r, comm, data, 5000, right, window, 0)
    lib.Signal(right, 0, 0, 0, comm, None)
    demand(sum_of(r, comm, 1) == n)
    used = statistic(lib, comm, 0)
    demand(used > 100000 and statistic(lib, comm, 3) == used + statistic(lib, comm, 2))
    for turn in range(3):
        before = resident_kib()
        lib.CommSuspend(comm, 1)
        demand(statistic(lib, comm, 1) == 1 and statistic(lib, comm, 0) == 0)
        demand(statistic(lib, comm, 3) == statistic(lib, comm, 2))
        demand(turn or before - resident_kib() > 20, f"memory is given back: {before}")
        refused_while_suspended(r, comm, window)
        lib.CommResume(comm)
        demand(statistic(lib, comm, 1) == 0 and statistic(lib, comm, 0) == used)
        demand(sum_of(r, comm, 1) == n, "a collective after resuming")
    demand(window.read(0, 5000) == pattern(left, 5000), "contents of windows are kept")
    wait(r, comm, (2, left))  # signals made before
    put(r, comm, data, 100, left, window, 8000)
    wait(r, comm, (1, right))
    demand(window.read(8000, 100) == pattern(right, 100), "windows are mapped again")
    value = buffer(INT32, [1])
    lib.AllReduce(value, value, 1, INT32, op, comm, None)
    demand(holds(value, INT32, [3 * n]), "custom operations are kept")
    demand(lib.try_("CommResume", comm) == USAGE and "not suspended" in lib.last_error())
    demand(lib.try_("CommSuspend", comm, 2) == ARGUMENT and lib.try_("CommSuspend", comm, 0) == OK)
    demand(sum_of(r, comm, 1) == n, "flags 0 suspends nothing")
    window.close()
    lib.CommDestroy(comm)


def refused_while_suspended(r, comm, window):
    lib, data, made = r.lib, buffer(INT32, [1]), ctypes.c_void_p()
    calls = [("AllReduce", (data, data, 1, INT32, SUM, comm, None)),
             ("Send", (data, 1, INT32, 0, comm, None)), ("Signal", (0, 0, 0, 0, comm, None)),
             ("PutSignal", (data, 1, UINT8, 0, window.window, 0, 0, 0, 0, comm, None)),
             ("CommSplit", (comm, 0, 0, ctypes.byref(made), None)),
             ("CommGetUniqueId", (comm, ctypes.byref(UniqueId()))), ("CommSuspend", (comm, 1)),
             ("Gather", (data, data, 1, INT32, 0, comm, None)),
             ("CommRegister", (comm, data, 4, ctypes.byref(made)))]
    for name, arguments in calls:
        demand(lib.try_(name, *arguments) == USAGE, name)
        demand("is suspended" in lib.last_error(), f"{name}: {lib.last_error()}")
    lib.GroupStart()
    demand(lib.try_(*((calls[0][0],) + calls[0][1])) == USAGE)
    demand(lib.try_("GroupEnd") == USAGE)
    demand(query(lib, "CommCount", comm) == r.nranks)
    demand(query(lib, "CommGetAsyncError", comm) == OK)
    answer = ctypes.c_void_p()
    lib.WinGetUserPtr(comm, window.window, ctypes.byref(answer))
    demand(answer.value == window.at.value)


def suspend_many(r):
    """Of two communicators one is suspended; suspended ones can be destroyed and aborted."""
    lib, comm, other, third = r.lib, r.comm(), r.comm("other"), r.comm("third")
    lib.CommSuspend(comm, 1)
    lib.GroupStart()
    lib.CommSuspend(third, 1)
    lib.GroupEnd()
    demand(sum_of(r, other, 1) == r.nranks)
    lib.CommDestroy(comm)
    lib.CommAbort(third)
    demand(lib.try_("CommResume", comm) == ARGUMENT and lib.try_("CommResume", third) == ARGUMENT)
    for bad in (-1, 4):
        demand(lib.try_("CommMemStats", other, bad, ctypes.byref(ctypes.c_uint64())) == ARGUMENT)
    demand(lib.try_("CommMemStats", other, 0, None) == ARGUMENT)
    lib.CommDestroy(other)


# ------------------------------------------------------------------ in the background

def background(r):
    """blocking 0: creation returns at once, and the state says in progress until it has ended."""
    lib, config, comm = r.lib, FullConfig(blocking=0), ctypes.c_void_p()
    identity, data = r.identity(), buffer(INT32, [1])
    if r.rank == 1:
        r.store.get("early")
    started = time.monotonic()
    result = lib.try_("CommInitRankConfig", ctypes.byref(comm), r.nranks, identity, r.rank,
                      ctypes.byref(config))
    demand(result in (OK, IN_PROGRESS) and comm.value and time.monotonic() - started < 2)
    if r.rank == 0:
        demand(query(lib, "CommGetAsyncError", comm) == IN_PROGRESS, "rank 1 is not there")
        demand(lib.try_("AllReduce", data, data, 1, INT32, SUM, comm, None) == ARGUMENT)
        demand("still being created" in lib.last_error(), lib.last_error())
        r.store.set("early", b"")
    ready(lib, comm)
    demand(sum_of(r, comm, 1) == r.nranks and query(lib, "CommUserRank", comm) == r.rank)
    parts = [ctypes.c_void_p() for _ in range(2)]
    lib.GroupStart()
    for part in parts:
        demand(lib.try_("CommSplit", comm, 0, -r.rank, ctypes.byref(part), None) == OK)
    demand(lib.try_("GroupEnd") == IN_PROGRESS, "splits inherit the configuration")
    for part in parts:
        ready(lib, part)
        demand(sum_of(r, part, 1) == r.nranks)
        lib.CommDestroy(part)
    lib.CommDestroy(comm)


def ready(lib, comm):
    while query(lib, "CommGetAsyncError", comm) == IN_PROGRESS:
        time.sleep(0.01)
    demand(query(lib, "CommGetAsyncError", comm) == OK, lib.last_error())


def background_failure(r):
    """A creation that fails in the background is reported; one that is given up is forgotten."""
    os.environ["WEIR_TIMEOUT_MS"] = "500"
    lib, config, comm = r.lib, FullConfig(blocking=0), ctypes.c_void_p()
    spare = lib.unique_id()

    def begin():
        demand(lib.try_("CommInitRankConfig", ctypes.byref(comm), 2, spare, 0,
                        ctypes.byref(config)) == IN_PROGRESS)
    begin()
    while query(lib, "CommGetAsyncError", comm) == IN_PROGRESS:
        time.sleep(0.01)
    demand(query(lib, "CommGetAsyncError", comm) == REMOTE, "no other rank has come")
    demand(lib.try_("CommRevoke", comm, 0) == REMOTE)
    lib.CommAbort(comm)
    spare = lib.unique_id()
    begin()
    started = time.monotonic()
    lib.CommAbort(comm)
    demand(time.monotonic() - started < 0.3, "an abort does not wait for the creation")
    demand(lib.try_("CommGetAsyncError", comm, ctypes.byref(ctypes.c_int())) == ARGUMENT)
    spare = lib.unique_id()
    lib.GroupStart()
    demand(lib.try_("CommInitRankConfig", ctypes.byref(comm), 2, spare, 0, ctypes.byref(config))
           == OK)
    demand(lib.try_("CommInitRank", ctypes.byref(ctypes.c_void_p()), 0, spare, 0) == ARGUMENT)
    demand(lib.try_("GroupEnd") == ARGUMENT)
    demand(query(lib, "CommGetAsyncError", comm) == USAGE, "its group has failed")
    lib.CommAbort(comm)
    time.sleep(0.8)  # the thread of the second one frees it


# --------------------------------------------------------------- device interface

class Properties(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint),
                ("rank", ctypes.c_int), ("nRanks", ctypes.c_int), ("cudaDev", ctypes.c_int),
                ("nvmlDev", ctypes.c_int), ("deviceApiSupport", ctypes.c_bool),
                ("multimemSupport", ctypes.c_bool), ("ginType", ctypes.c_int),
                ("nLsaTeams", ctypes.c_int), ("hostRmaSupport", ctypes.c_bool),
                ("rest", ctypes.c_ubyte * 127)]


class Team(ctypes.Structure):
    _fields_ = [("nRanks", ctypes.c_int), ("rank", ctypes.c_int), ("stride", ctypes.c_int)]


def team(lib, name, comm):
    function = getattr(lib.library, "nccl" + name)
    function.restype, function.argtypes = Team, (ctypes.c_void_p,)
    got = function(comm)
    return (got.nRanks, got.rank, got.stride)


def no_device_interface(r):
    """Without a fallback library each function says so."""
    lib, comm, made = r.lib, r.comm(), ctypes.create_string_buffer(4096)
    window, address = Window(r, comm), ctypes.c_void_p()
    demand(lib.try_("DevCommCreate", comm, made, made) == USAGE)
    demand("WEIR_NCCL_FALLBACK" in lib.last_error(), lib.last_error())
    demand(lib.try_("DevCommDestroy", comm, made) == USAGE)
    function = lib.library.ncclGetLsaDevicePointer
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
    demand(function(window.window, 0, 0, ctypes.byref(address)) == USAGE and not address.value)
    demand(team(lib, "TeamWorld", comm) == (r.nranks, r.rank, 1))
    demand(team(lib, "TeamLsa", comm) == (1, 0, 1) and "ncclTeamLsa" in lib.last_error())
    about = Properties(ctypes.sizeof(Properties), MAGIC, 23203)
    about.rest[9] = 5
    lib.CommQueryProperties(comm, ctypes.byref(about))
    demand((about.rank, about.nRanks, about.deviceApiSupport, about.hostRmaSupport) ==
           (r.rank, r.nranks, False, True) and about.rest[9] == 0)
    about = Properties(20, MAGIC, 22900)
    about.nRanks = 77
    lib.CommQueryProperties(comm, ctypes.byref(about))
    demand(about.rank == r.rank and about.nRanks == 77, "no more than the caller has")
    for bad in (Properties(200, 1, 0), Properties(8, MAGIC, 0)):
        demand(lib.try_("CommQueryProperties", comm, ctypes.byref(bad)) == ARGUMENT)
    demand(lib.try_("CommQueryProperties", comm, None) == ARGUMENT)
    window.close()
    lib.CommDestroy(comm)


def device_interface(r):
    """With support/nccl_standin.c as the fallback library, whose windows and device communicators
    are recognisable. Collectives stay weir's."""
    lib, comm, data = r.lib, r.comm(), buffer(INT32, [1])
    demand(team(lib, "TeamLsa", comm) == (1, 0, 1) and "register a" in lib.last_error())
    made, wanted = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    window = Window(r, comm)
    demand(window.window.value % 4096 == 64, "the library's handle")
    plain = Window(r, comm, flags=0)
    demand(plain.window.value % 4096 != 64, "only symmetric windows are the library's")
    lib.DevCommCreate(comm, wanted, made)
    demand(made.raw[:7] == b"standin")
    demand(team(lib, "TeamLsa", comm) == (r.nranks, r.rank, 4))
    lib.AllReduce(data, data, 1, INT32, SUM, comm, None)
    demand(holds(data, INT32, [r.nranks]), "weir runs collectives")
    put(r, comm, outgoing(1, 9), 9, 1 - r.rank, window, 3)
    wait(r, comm, (1, 1 - r.rank))
    demand(window.read(3, 9) == pattern(1, 9), "weir puts into windows")
    address = ctypes.c_void_p()
    function = lib.library.ncclGetLsaDevicePointer
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
    demand(function(window.window, 8, 1, ctypes.byref(address)) == OK)
    demand(address.value == window.window.value + 9)
    demand(function(plain.window, 0, 0, ctypes.byref(address)) == ARGUMENT)
    demand(lib.try_("CommSuspend", comm, 1) == USAGE, "the library cannot be suspended")
    lib.WinGetUserPtr(comm, window.window, ctypes.byref(address))
    demand(address.value == window.at.value)
    lib.DevCommDestroy(comm, made)
    demand(lib.try_("DevCommCreate", comm, None, made) == ARGUMENT)
    window.close()
    demand(function(window.window, 8, 1, ctypes.byref(address)) == ARGUMENT, "deregistered")
    plain.close()
    lib.CommDestroy(comm)


IN_PROGRESS = 7


def wrong_growth(r):
    """A rank that expects another sum. This job must fail; it proves that the checks can."""
    lib, old, made = r.lib, r.rank == 0, ctypes.c_void_p()
    comm = lib.init(1, lib.unique_id(), 0) if old else None
    identity = UniqueId()
    if old:
        lib.CommGetUniqueId(comm, ctypes.byref(identity))
        r.store.set("grown", bytes(identity))
    else:
        identity = UniqueId.from_buffer_copy(r.store.get("grown"))
    lib.CommGrow(comm, 2, ctypes.byref(identity), -1 if old else 1, ctypes.byref(made), None)
    demand(sum_of(r, made, 1) == 1, "as if it had not grown")


CHECKS = [
    ("collectives with options equal the plain ones", collectives_with_options, 3, "nccl"),
    ("collectives with options equal the plain ones between nodes", collectives_with_options,
     "aab", "mccl"),
    ("invalid options are refused", refused_options, 2, "nccl"),
    ("parameters are found, converted and listed", parameters, 1, "nccl"),
    ("encryption is refused with the reason", encryption, 1, "nccl"),
    ("a communicator grows from 2 to 4 and to 3 ranks", grow, 4, "nccl"),
    ("a communicator grows across nodes", grow, "abab", "nccl"),
    ("growing with a wrong id or wrong arguments is refused", refused_growth, 3, "nccl"),
    ("suspending gives memory back, and resuming restores all", suspend, 3, "nccl"),
    ("suspending and resuming works across nodes", suspend, "aab", "nccl"),
    ("suspended communicators can be destroyed and aborted", suspend_many, 2, "nccl"),
    ("with blocking 0 creation returns at once", background, 2, "nccl"),
    ("with blocking 0 creation returns at once, across nodes", background, "ab", "nccl"),
    ("a creation that fails in the background is reported", background_failure, 1, "nccl"),
    ("without a fallback library the device interface is refused", no_device_interface, 2, "nccl"),
]


if __name__ == "__main__":
    only = sys.argv[1:]
    if only == ["device_interface"]:  # needs the environment that nccl_calls.sh sets
        sys.exit(0 if job(device_interface, 2) else 1)
    all_checks = Report()
    all_checks.run(CHECKS, only)
    all_checks.add_found("a communicator that has not grown is found by these checks",
                         wrong_growth)
    all_checks.end()
