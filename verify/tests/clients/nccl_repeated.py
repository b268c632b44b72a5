"""Checks of one-sided calls that threads repeat, over libweir_nccl.so on host memory, run by
cli/nccl_calls.sh: what a thread keeps of its latest calls is never used after a window or a
communicator has ended, nor in a forked child; and ended ones leave no memory. Prints TAP. The jobs are those of nccl_checks.py.
"""
import ctypes
import gc
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nccl_checks import *  # noqa: E402,F403 pylint: disable=wildcard-import,unused-wildcard-import
from nccl_library import *  # noqa: E402,F403 pylint: disable=wildcard-import,unused-wildcard-import
from nccl_onesided import Window, open_comm, put, wait  # noqa: E402

ROUNDS = 50


def trips(r, comm, window, first, signal=0, context=0, rounds=ROUNDS):
    """Puts of growing values go there and back; each must have arrived with its signal."""
    peer = 1 - r.rank
    for turn in range(rounds):
        for rank in (0, 1):
            data = outgoing(first + 2 * turn + rank, 40)
            if rank == r.rank:
                put(r, comm, data, 40, peer, window, turn, signal, context)
            else:
                wait(r, comm, (1, peer, signal, context))
                demand(window.read(turn, 40) == pattern(first + 2 * turn + rank, 40), turn)


def tried(r, comm, window, peer=None):
    return r.lib.try_("PutSignal", outgoing(1, 8), 8, UINT8, 1 - r.rank if peer is None else peer,
                      window, 0, 0, 0, 0, comm, None)


def stale(r):
    """After each end of a window or communicator the same calls with the old handles are refused, and
    those with the new ones reach the new memory."""
    comm = r.comm()
    for turn in range(4):
        window = Window(r, comm)
        trips(r, comm, window, turn)
        old = ctypes.c_void_p(window.window.value)
        window.close()
        demand(tried(r, comm, old) == ARGUMENT, "a stale window")
        demand("deregistered" in r.lib.last_error(), r.lib.last_error())
    for turn in range(4):
        window = Window(r, comm)
        trips(r, comm, window, 100 + turn)
        old = ctypes.c_void_p(comm.value)
        kept = ctypes.c_void_p(window.window.value)
        window.close()
        r.lib.CommDestroy(comm)
        demand(tried(r, old, kept) == ARGUMENT, "a destroyed communicator")
        demand(r.lib.try_("Signal", 1 - r.rank, 0, 0, 0, old, None) == ARGUMENT)
        demand(r.lib.try_("WaitSignal", 1, ctypes.byref(Wait(1, 1 - r.rank)), old, None) == ARGUMENT)
        comm = r.comm("id%d" % turn)
    r.lib.CommDestroy(comm)


def stale_signals(r):
    """The same without windows, whose ends would be noticed."""
    for turn in range(3):
        comm = r.comm("id%d" % turn)
        for _ in range(ROUNDS):
            r.lib.Signal(1 - r.rank, 0, 0, 0, comm, None)
            wait(r, comm, (1, 1 - r.rank))
        old = ctypes.c_void_p(comm.value)
        r.lib.CommDestroy(comm)
        demand(r.lib.try_("Signal", 1 - r.rank, 0, 0, 0, old, None) == ARGUMENT)
        demand(r.lib.try_("WaitSignal", 1, ctypes.byref(Wait(1, 1 - r.rank)), old, None) == ARGUMENT)


def one_context_each(r, comm):
    """Repeated calls of one rank match those of the other that are not repeated: several waits in
    one call, and signals of a group."""
    for _ in range(3):
        if r.rank == 0:
            for context in (0, 1, 1, 2):
                r.lib.Signal(1, 0, context, 0, comm, None)
            for context, count in ((0, 1), (1, 2), (2, 1)):
                wait(r, comm, (count, 1, 0, context))
        else:
            wait(r, comm, (1, 0, 0, 0), (2, 0, 0, 1), (1, 0, 0, 2))
            r.lib.GroupStart()
            for context in (2, 1, 1, 0):
                r.lib.Signal(0, 0, context, 0, comm, None)
            r.lib.GroupEnd()


def many_indices(r):
    """Windows, contexts and signals in turn; each call finds its own."""
    os.environ["WEIR_TIMEOUT_MS"] = "5000"
    comm = open_comm(r, numRmaCtx=3, numRmaSig=2)
    windows = [Window(r, comm) for _ in range(12)]
    for turn in range(10):
        for at_, window in enumerate(windows):
            trips(r, comm, window, 7 * at_ + turn, rounds=1)
        for index in range(6):
            trips(r, comm, windows[0], turn + index, index % 2, index % 3, rounds=1)
    one_context_each(r, comm)
    for bad in ((2, 0), (0, 3), (-1, 0), (0, -1)):
        demand(r.lib.try_("Signal", 1 - r.rank, *bad, 0, comm, None) == ARGUMENT, bad)
    demand(r.lib.try_("PutSignal", outgoing(1, 8), 8, UINT8, 1 - r.rank, windows[0].window, 1 << 16,
                      1, 2, 0, comm, None) == ARGUMENT, "beyond the window")
    for window in windows:
        window.close()
    r.lib.CommDestroy(comm)


def suspended(r):
    comm = r.comm()
    window = Window(r, comm)
    for turn in range(3):
        trips(r, comm, window, turn)
        r.lib.CommSuspend(comm, 1)
        demand(tried(r, comm, window.window) == USAGE, "a suspended communicator")
        r.lib.CommResume(comm)
    trips(r, comm, window, 9)
    window.close()
    r.lib.CommDestroy(comm)


def forked(r):
    """A child of a rank that repeats calls may not use its communicator; the rank goes on."""
    comm = r.comm()
    window = Window(r, comm)
    trips(r, comm, window, 0)
    child = os.fork()
    if child == 0:
        os._exit(tried(r, comm, window.window) != ARGUMENT)
    demand(os.waitpid(child, 0)[1] == 0, "the child was refused")
    trips(r, comm, window, 1)
    window.close()
    r.lib.CommDestroy(comm)


def ended_under_threads(r):
    """Threads repeat calls until the communicator is aborted; the abort waits for all of them, and
    nothing of the communicator is used afterwards."""
    for turn in range(6):
        comm = r.comm("turn%d" % turn)
        window = Window(r, comm)
        results, counts = [], [0] * 3

        def repeat(own, comm=comm, window=window, results=results, counts=counts):
            result = OK
            while result == OK:
                result = tried(r, comm, window.window) if own else r.lib.try_(
                    "Signal", 1 - r.rank, 0, 0, 0, comm, None)
                counts[own] += 1
            results.append(result)
        threads = [threading.Thread(target=repeat, args=(own,)) for own in range(3)]
        for one in threads:
            one.start()
        time.sleep(0.02)
        r.store.set("ready%d-%d" % (turn, r.rank), b"")
        r.store.get("ready%d-%d" % (turn, 1 - r.rank))
        r.lib.CommAbort(comm)
        for one in threads:
            one.join()
        demand(all(result in (ARGUMENT, REMOTE) for result in results) and min(counts) > 1,
               (results, counts))
        r.lib.MemFree(window.at)


class Mallinfo(ctypes.Structure):
    """struct mallinfo2 of glibc 2.33 and later."""
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks",
        "keepcost")]


def bytes_in_use():
    """Of malloc, in all arenas; 0 if this C library does not tell."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        return 0
    gc.collect()
    library.mallinfo2.restype = Mallinfo
    info = library.mallinfo2()
    return info.uordblks + info.hblkhd


def ended(r):
    """Windows and communicators that have ended leave no memory."""
    used = []
    for turn in range(12):
        comm = r.comm("turn%d" % turn)
        window = Window(r, comm)
        trips(r, comm, window, turn, rounds=3)
        window.close()
        r.lib.CommDestroy(comm)
        used.append(bytes_in_use())
    demand(used[-1] - used[3] < 8 * 2048, used)


CHECKS = [
    ("repeated calls with stale windows and communicators are refused", stale, 2, "nccl"),
    ("repeated signals to destroyed communicators are refused", stale_signals, 2, "nccl"),
    ("repeated calls find their window, context and signal", many_indices, 2, "nccl"),
    ("repeated calls are refused while a communicator is suspended", suspended, 2, "nccl"),
    ("a forked child may not repeat its parent's calls", forked, 2, "nccl"),
    ("an abort waits for threads that repeat calls", ended_under_threads, 2, "nccl"),
    ("ended communicators leave no memory", ended, 2, "nccl"),
    ("ended communicators of two nodes leave no memory", ended, "ab", "nccl"),
]


if __name__ == "__main__":
    all_checks = Report()
    all_checks.run(CHECKS, sys.argv[1:])
    all_checks.end()
