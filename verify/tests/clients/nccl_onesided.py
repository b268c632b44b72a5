"""Checks of NCCL's one-sided calls and windows over libweir_nccl.so on host memory, run by
cli/nccl_calls.sh. Prints TAP. The jobs are those of nccl_checks.py.
"""
import ctypes
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nccl_checks import *  # noqa: E402,F403 pylint: disable=wildcard-import,unused-wildcard-import
from nccl_library import *  # noqa: E402,F403 pylint: disable=wildcard-import,unused-wildcard-import

BYTES = 1 << 16


def open_comm(r, key="id", **config):
    """Creates a communicator with a configuration."""
    comm = ctypes.c_void_p()
    identity, settings = r.identity(key), FullConfig(**config)
    r.lib.CommInitRankConfig(ctypes.byref(comm), r.nranks, identity, r.rank,
                             ctypes.byref(settings))
    return comm


class Window:
    """Memory of ncclMemAlloc, or of the process, registered as a window."""

    def __init__(self, r, comm, size=BYTES, plain=False, flags=1):
        self.r, self.comm, self.size, self.window = r, comm, size, ctypes.c_void_p()
        self.kept = ctypes.create_string_buffer(size + 1) if plain else None
        self.at = ctypes.c_void_p(ctypes.addressof(self.kept) if plain else None)
        if not plain:
            r.lib.MemAlloc(ctypes.byref(self.at), size)
        ctypes.memset(self.at, 0xee, size)
        r.lib.CommWindowRegister(comm, self.at, size, ctypes.byref(self.window), flags)

    def read(self, at, count):
        return ctypes.string_at(self.at.value + at, count)

    def close(self):
        self.r.lib.CommWindowDeregister(self.comm, self.window)
        if not self.kept:
            self.r.lib.MemFree(self.at)


def put(r, comm, data, count, peer, window, at, signal=0, context=0):
    r.lib.PutSignal(data, count, UINT8, peer, window.window, at, signal, context, 0, comm, None)


def wait(r, comm, *waits):
    """Waits for (count, peer[, signal, context])."""
    descs = (Wait * len(waits))(*[Wait(*one) for one in waits])
    r.lib.WaitSignal(len(waits), descs, comm, None)


def all_to_all_puts(r, plain):
    """Every rank puts into every window, its own too, and waits for all signals at once."""
    comm = r.comm()
    window = Window(r, comm, BYTES * r.nranks, plain)
    for turn in range(3):
        for peer in range(r.nranks):
            data = outgoing(10 * turn + 3 * r.rank + peer, BYTES - 5)
            put(r, comm, data, BYTES - 5, peer, window, BYTES * r.rank + turn)
        wait(r, comm, *[(1, peer) for peer in range(r.nranks)])
        for peer in range(r.nranks):
            demand(window.read(BYTES * peer + turn, BYTES - 5) ==
                   pattern(10 * turn + 3 * peer + r.rank, BYTES - 5), f"from {peer}, turn {turn}")
        demand(sum_of(r, comm, 1) == r.nranks, "a collective between")
    window.close()
    r.lib.CommDestroy(comm)


def puts(r):
    all_to_all_puts(r, plain=False)


def puts_into_unregistered_memory(r):
    all_to_all_puts(r, plain=True)


def ring(r):
    """Signals order puts: each rank passes on what it was put, in many short steps."""
    comm, n = r.comm(), r.nranks
    window, right, left = Window(r, comm), (r.rank + 1) % n, (r.rank - 1) % n
    for step in range(200):
        value = ctypes.create_string_buffer(bytes([step % 256, r.rank, (step * 7) % 256, 1]), 4)
        put(r, comm, value, 4, right, window, 64 * (step % 16))
        wait(r, comm, (1, left))
        demand(window.read(64 * (step % 16), 4) == bytes([step % 256, left, (step * 7) % 256, 1]),
               f"step {step}")
    window.close()
    r.lib.CommDestroy(comm)


def order(r):
    """A signal arrives after all earlier puts of its rank, in other contexts, too."""
    comm = open_comm(r, numRmaCtx=2, numRmaSig=3)
    window = Window(r, comm)
    for turn in range(30):
        if r.rank == 0:
            for part in range(20):  # one signal for 20 puts
                put(r, comm, outgoing(turn + part, 3000), 3000, 1, window, 3000 * part, part % 3,
                    1)
            r.lib.Signal(1, 2, 0, 0, comm, None)
            wait(r, comm, (1, 1))
        elif r.rank == 1:
            wait(r, comm, (1, 0, 2, 0))
            for part in range(20):
                demand(window.read(3000 * part, 3000) == pattern(turn + part, 3000),
                       f"turn {turn}, part {part}")
            wait(r, comm, (7, 0, 0, 1), (7, 0, 1, 1), (6, 0, 2, 1))
            r.lib.Signal(0, 0, 0, 0, comm, None)
    demand(sum_of(r, comm, 1) == r.nranks)
    window.close()
    r.lib.CommDestroy(comm)


def passive(r):
    """The target of a put makes no call; the put completes, and its data are there."""
    comm = r.comm()
    window = Window(r, comm)
    if r.rank == 0:
        data = outgoing(5, BYTES)
        put(r, comm, data, BYTES, 1, window, 0)
        ctypes.memset(data, 0, BYTES)  # the source may be changed
        r.store.set("put", b"")
    elif r.rank == 1:
        started = time.monotonic()
        r.store.get("put")
        demand(time.monotonic() - started < 10, "the put did not wait for its target")
        wait(r, comm, (1, 0))
        demand(window.read(0, BYTES) == pattern(5, BYTES))
    demand(sum_of(r, comm, 1) == r.nranks)
    window.close()
    r.lib.CommDestroy(comm)


def counts_of_signals(r):
    """Signals are counted: several waits share them, and one wait takes several."""
    comm, peer = r.comm(), 1 - r.rank
    if "WEIR_HOSTID" in os.environ:  # between nodes signals need a window
        demand(r.lib.try_("Signal", peer, 0, 0, 0, comm, None) == USAGE)
        demand("register a window" in r.lib.last_error(), r.lib.last_error())
        kept = Window(r, comm)
    for _ in range(6):
        r.lib.Signal(peer, 0, 0, 0, comm, None)
    for count in (1, 3, 2):
        wait(r, comm, (count, peer))
    wait_for = threading.Thread(target=lambda: wait(r, comm, (1, peer)))
    demand(sum_of(r, comm, 1) == 2)
    if r.rank == 0:
        wait_for.start()
        time.sleep(0.2)
        demand(wait_for.is_alive(), "no signal is counted twice")
        r.store.set("waits", b"")
        wait_for.join()
    else:
        r.store.get("waits")
        r.lib.Signal(peer, 0, 0, 0, comm, None)
    if "WEIR_HOSTID" in os.environ:
        kept.close()
    r.lib.CommDestroy(comm)


def in_groups(r):
    """Calls of a group run at its end, in order, before sends and receives."""
    lib, comm, peer = r.lib, r.comm(), 1 - r.rank
    window, out, total = Window(r, comm), incoming(9), buffer(INT32, [1])
    long_, short = outgoing(r.rank, 100), outgoing(r.rank, 9)
    lib.GroupStart()
    put(r, comm, long_, 100, peer, window, 0)
    wait(r, comm, (1, peer))
    lib.AllReduce(total, total, 1, INT32, SUM, comm, None)
    lib.Send(short, 9, UINT8, peer, comm, None)
    lib.Recv(out, 9, UINT8, peer, comm, None)
    r.store.set("grouped%d" % r.rank, b"")
    r.store.get("grouped%d" % peer)
    demand(window.read(0, 1) == b"\xee", "nothing runs before the end of the group")
    r.store.set("seen%d" % r.rank, b"")
    r.store.get("seen%d" % peer)
    lib.GroupEnd()
    demand(window.read(0, 100) == pattern(peer, 100) and has(out, peer, 9))
    demand(holds(total, INT32, [2]))
    lib.GroupStart()
    put(r, comm, short, 4, peer, window, 0)
    demand(lib.try_("Signal", 7, 0, 0, 0, comm, None) == ARGUMENT)
    demand(lib.try_("GroupEnd") == ARGUMENT, "a refused call fails the group")
    about = SimInfo()
    lib.GroupStart()
    put(r, comm, short, 4, peer, window, 0)
    wait(r, comm, (1, peer))
    lib.GroupSimulateEnd(ctypes.byref(about))
    lib.GroupStart()
    put(r, comm, short, 4, peer, window, 0)
    demand(sum_of_in_thread(r, comm) == 2)
    lib.CommWindowDeregister(comm, window.window)
    demand(lib.try_("GroupEnd") == ARGUMENT, "a window that is gone when the group ends")
    demand("deregistered" in lib.last_error(), lib.last_error())
    lib.MemFree(window.at)
    lib.CommDestroy(comm)


def sum_of_in_thread(r, comm):
    """sum_of outside of this thread's group."""
    sums = []
    thread = threading.Thread(target=lambda: sums.append(sum_of(r, comm, 1)))
    thread.start()
    thread.join()
    return sums[0]


def user_pointers(r):
    lib, comm, answer = r.lib, r.comm(), ctypes.c_void_p()
    window, plain = Window(r, comm), Window(r, comm, 100, plain=True, flags=0)
    for one in (window, plain):
        lib.WinGetUserPtr(comm, one.window, ctypes.byref(answer))
        demand(answer.value == one.at.value)
    handle = ctypes.c_void_p()
    lib.CommRegister(comm, window.at, 64, ctypes.byref(handle))
    for bad in (None, handle, ctypes.c_void_p(64)):
        demand(lib.try_("WinGetUserPtr", comm, bad, ctypes.byref(answer)) == ARGUMENT)
    demand(lib.try_("WinGetUserPtr", comm, window.window, None) == ARGUMENT)
    lib.CommDeregister(comm, handle)
    window.close()
    demand(lib.try_("WinGetUserPtr", comm, window.window, ctypes.byref(answer)) == ARGUMENT)
    plain.close()
    lib.CommDestroy(comm)


def refused_puts(r):
    lib, comm, other = r.lib, r.comm(), r.comm("other")
    window, foreign = Window(r, comm, 1000 + r.rank), Window(r, other)
    data = outgoing(1, 2000)

    def tried(count=1, dtype=UINT8, peer=0, win=window.window, at=0, signal=0, context=0, flags=0,
              source=data, handle=comm):
        return lib.try_("PutSignal", source, count, dtype, peer, win, at, signal, context, flags,
                        handle, None)
    last = r.nranks - 1
    for bad in ({"peer": -1}, {"peer": r.nranks}, {"signal": 1}, {"signal": -1}, {"context": 1},
                {"context": -1}, {"flags": 1}, {"win": None}, {"win": foreign.window},
                {"win": ctypes.c_void_p(8)}, {"dtype": 12}, {"count": 1001}, {"at": 1001},
                {"at": 1000, "count": 1}, {"at": (1 << 64) - 1}, {"count": 1 << 61, "dtype": 5},
                {"source": None}, {"handle": None}, {"handle": ctypes.c_void_p(7)}):
        demand(tried(**bad) == ARGUMENT, f"{bad}: {lib.last_error()}")
        demand(lib.last_error(), f"{bad}")
    demand(tried(peer=last, count=1000 + last) == OK, "the peer's size counts")
    demand(tried(peer=last, count=1001 + last) == ARGUMENT)
    demand(tried(peer=0, at=1000, count=0, source=None) == OK, "nothing is put at the end")
    for name, bad in (("Signal", (r.nranks, 0, 0, 0)), ("Signal", (0, 1, 0, 0)),
                      ("Signal", (0, 0, -1, 0)), ("Signal", (0, 0, 0, 2))):
        demand(lib.try_(name, *bad, comm, None) == ARGUMENT, f"{name} {bad}")
    for bad in (Wait(0, 0, 0, 0), Wait(-1, 0, 0, 0), Wait(1, r.nranks, 0, 0), Wait(1, -1, 0, 0),
                Wait(1, 0, 1, 0), Wait(1, 0, 0, 1)):
        demand(lib.try_("WaitSignal", 1, ctypes.byref(bad), comm, None) == ARGUMENT)
    demand(lib.try_("WaitSignal", 0, ctypes.byref(Wait(1, 0)), comm, None) == ARGUMENT)
    demand(lib.try_("WaitSignal", 1, None, comm, None) == ARGUMENT)
    demand(lib.try_("WaitSignal", 1, ctypes.byref(Wait(9, r.rank)), comm, None) == USAGE,
           "a rank cannot wait for a signal that it has not made")
    demand(sum_of(r, comm, 1) == r.nranks, "the communicator still works")
    window.close()
    demand(tried() == ARGUMENT and "deregistered" in lib.last_error(), "a stale window")
    foreign.close()
    lib.CommDestroy(other)
    lib.CommDestroy(comm)
    demand(tried() == ARGUMENT, "a destroyed communicator")


def no_contexts(r):
    """numRmaCtx 0 means no one-sided calls; configurations are checked, and must agree."""
    lib, comm = r.lib, open_comm(r, numRmaCtx=0)
    demand(lib.try_("Signal", 0, 0, 0, 0, comm, None) == USAGE and "numRmaCtx" in lib.last_error())
    demand(sum_of(r, comm, 1) == r.nranks)
    lib.CommDestroy(comm)
    for bad in ({"numRmaCtx": -2}, {"numRmaSig": 0}, {"numRmaCtx": 64, "numRmaSig": 65},
                {"blocking": 2}, {"maxCTAs": 0}, {"minCTAs": 0}, {"CTAPolicy": 4},
                {"minCTAs": 5, "maxCTAs": 4}):
        try:
            open_comm(r, "none%s" % len(bad), **bad)
            demand(False, f"{bad}")
        except Failed as error:
            demand(error.result == ARGUMENT and list(bad)[-1] in error.text, error.text)
    try:
        open_comm(r, "differ", numRmaSig=1 + r.rank)
        demand(False, "they differ")
    except Failed as error:
        demand(error.result == USAGE and "numRmaSig" in error.text, error.text)
    try:
        open_comm(r, "blocks", maxCTAs=1 + r.rank)
        demand(False, "maxCTAs differ")
    except Failed as error:
        demand("max_blocks differs" in error.text, error.text)
    os.environ["NCCL_CTA_POLICY"] = ("ZERO", "2")[r.rank % 2]
    lib.CommDestroy(open_comm(r, "zero"))
    os.environ["NCCL_CTA_POLICY"] = "NCCL_CTA_POLICY_EFFICIENCY|few"
    try:
        open_comm(r, "few")
        demand(False, "the policy is unknown")
    except Failed as error:
        demand("expected DEFAULT, EFFICIENCY, ZERO" in error.text, error.text)
    del os.environ["NCCL_CTA_POLICY"]
    comm = open_comm(r, "most", numRmaCtx=64, numRmaSig=64)
    lib.Signal(r.rank, 63, 63, 0, comm, None)
    wait(r, comm, (1, r.rank, 63, 63))
    lib.CommDestroy(comm)


def unreachable(r):
    """Unregistered memory to which ranks may not write is refused with the reason; signals work."""
    os.environ["WEIR_CMA"] = "0"
    comm, data = r.comm(), outgoing(1, 8)
    window, other = Window(r, comm, plain=True), Window(r, comm)
    demand(r.lib.try_("PutSignal", data, 8, UINT8, 1 - r.rank, window.window, 0, 0, 0, 0, comm, None)
           == USAGE)
    demand("ncclMemAlloc" in r.lib.last_error(), r.lib.last_error())
    put(r, comm, data, 8, 1 - r.rank, other, 0)
    wait(r, comm, (1, 1 - r.rank))
    demand(other.read(0, 8) == pattern(1, 8))
    window.close()
    other.close()
    r.lib.CommDestroy(comm)


def death_of_a_signaller(r):
    """A wait for a rank that has died ends with an error."""
    comm = r.comm()
    window = Window(r, comm)
    if r.rank == 1:
        os._exit(0)
    one = Wait(1, 1, 0, 0)
    demand(r.lib.try_("WaitSignal", 1, ctypes.byref(one), comm, None) == REMOTE)
    text = r.lib.last_error()
    demand("rank 1" in text and ("has died" in text or "is gone" in text), text)
    demand(r.lib.try_("Signal", 1, 0, 0, 0, comm, None) == REMOTE, "the communicator has ended")
    window.close()
    r.lib.CommAbort(comm)


def aborted_wait(r):
    """An abort from another thread ends a wait for signals."""
    abort(r, lambda r, comm, data: r.lib.try_("WaitSignal", 1, ctypes.byref(Wait(1, 1, 0, 0)), comm,
                                              None))


def in_one_process(r):
    """Ranks of one process put into each other's windows."""
    lib, n = r.lib, 3
    comms, windows = (ctypes.c_void_p * n)(), (ctypes.c_void_p * n)()
    lib.CommInitAll(comms, n, None)
    memory = [ctypes.create_string_buffer(64) for _ in range(n)]
    data = [outgoing(i, 50) for i in range(n)]
    lib.GroupStart()
    for i in range(n):
        lib.CommWindowRegister(comms[i], memory[i], 64, ctypes.byref(windows, 8 * i), 1)
    lib.GroupEnd()
    lib.GroupStart()
    for i in range(n):
        peer = (i + 1) % n
        lib.PutSignal(data[i], 50, UINT8, peer, windows[i], 7, 0, 0, 0, comms[i], None)
    for i in range(n):
        lib.WaitSignal(1, ctypes.byref(Wait(1, (i - 1) % n, 0, 0)), comms[i], None)
    lib.GroupEnd()
    for i in range(n):
        demand(memory[i].raw[7:57] == pattern((i - 1) % n, 50))
    for comm in comms:
        lib.CommDestroy(comm)


def early_signal(r):
    """A signal before its put: this job must fail; it proves that the checks can."""
    comm = r.comm()
    window = Window(r, comm)
    if r.rank == 0:
        r.lib.Signal(1, 0, 0, 0, comm, None)
        r.store.get("read")
        put(r, comm, outgoing(3, 100), 100, 1, window, 0)
    else:
        wait(r, comm, (1, 0))
        r.store.set("read", b"")
        demand(window.read(0, 100) == pattern(3, 100), "the put before the signal")


CHECKS = [
    ("puts reach the windows of all ranks of a node, in memory of ncclMemAlloc", puts, 4, "nccl"),
    ("puts reach windows in unregistered memory", puts_into_unregistered_memory, 3, "mccl"),
    ("puts reach windows within and between nodes", puts, "aabb", "nccl"),
    ("puts reach windows in unregistered memory between nodes", puts_into_unregistered_memory, "abb", "pnccl"),
    ("a ring of puts and signals passes values on", ring, 3, "nccl"),
    ("a ring of puts and signals between nodes passes values on", ring, "aab", "nccl"),
    ("signals arrive after all earlier puts, in every context", order, 2, "nccl"),
    ("signals between nodes arrive after all earlier puts", order, "ab", "nccl"),
    ("a put completes while its target makes no call", passive, 2, "nccl"),
    ("a put to another node completes while its target makes no call", passive, "ab", "nccl"),
    ("signals are counted", counts_of_signals, 2, "nccl"),
    ("signals between nodes are counted", counts_of_signals, "ab", "nccl"),
    ("one-sided calls of a group run at its end", in_groups, 2, "nccl"),
    ("one-sided calls of a group between nodes run at its end", in_groups, "ab", "nccl"),
    ("a window's address can be asked for", user_pointers, 2, "nccl"),
    ("invalid arguments and stale windows are refused", refused_puts, 2, "nccl"),
    ("invalid arguments and stale windows are refused between nodes", refused_puts, "ab", "nccl"),
    ("a window that cannot be written to is refused", unreachable, 2, "nccl"),
    ("numbers of contexts and signals are checked", no_contexts, 2, "nccl"),
    ("the death of a rank ends a wait for its signal", death_of_a_signaller, 2, "nccl"),
    ("the death of a rank ends a wait on another node", death_of_a_signaller, "ab", "nccl"),
    ("an abort from another thread ends a wait for signals", aborted_wait, 2, "nccl"),
    ("ranks of one process put into each other's windows", in_one_process, 1, "nccl"),
]


if __name__ == "__main__":
    all_checks = Report()
    all_checks.run(CHECKS, sys.argv[1:])
    all_checks.add_found("a signal before its put is found by these checks", early_signal)
    all_checks.end()
