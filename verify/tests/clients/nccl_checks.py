"""Checks of libweir_nccl.so on host memory, run by cli/nccl.sh. Prints TAP.

Each check is a job with one process per rank. Ranks bootstrap by a unique id that one of them
writes into a file store. A rank that fails prints a traceback; an alarm ends a rank that hangs. A
job is given its number of ranks, or a string with one letter per rank that names the rank's
emulated node; nodes are connected by tcp. `nccl_checks.py FUNCTION...` runs only these checks.
"""
import ctypes
import os
import signal
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nccl_library import *  # noqa: E402,F403 pylint: disable=wildcard-import,unused-wildcard-import

LIMIT_S = 40


def demand(condition, what="demand"):
    if not condition:
        raise AssertionError(what)


class Store:
    """A key-value store that ranks share: files of a folder. get blocks until the key is set."""

    def __init__(self, folder):
        self.folder = folder

    def set(self, key, data):
        path = os.path.join(self.folder, key)
        with open(path + ".part", "wb") as file:
            file.write(data)
        os.rename(path + ".part", path)

    def get(self, key):
        path = os.path.join(self.folder, key)
        while not os.path.exists(path):
            time.sleep(0.002)
        with open(path, "rb") as file:
            return file.read()


class Rank:
    """The argument of a check: rank, number of ranks, store and library."""

    def __init__(self, rank, nranks, store, prefix):
        self.rank, self.nranks, self.store = rank, nranks, store
        self.lib = Library(prefix=prefix)

    def identity(self, key="id", creator=0):
        if self.rank == creator:
            identity = self.lib.unique_id()
            self.store.set(key, bytes(identity))
            return identity
        return UniqueId.from_buffer_copy(self.store.get(key))

    def comm(self, key="id", creator=0):
        return self.lib.init(self.nranks, self.identity(key, creator), self.rank)


def run_rank(body, rank, ranks, folder, prefix):
    nranks = ranks
    signal.alarm(LIMIT_S)
    if isinstance(ranks, str):
        nranks = len(ranks)
        os.environ.update(WEIR_HOSTID=ranks[rank], WEIR_TRANSPORT="tcp")
    try:
        body(Rank(rank, nranks, Store(folder), prefix))
    except BaseException:  # pylint: disable=broad-except
        sys.stdout.write("# rank %d: %s" % (rank, traceback.format_exc().replace("\n", "\n# ")))
        sys.stdout.write("\n")
        sys.stdout.flush()
        os._exit(1)
    os._exit(0)


def job(body, ranks, prefix="nccl"):
    """Returns whether all ranks succeeded. ranks: their number, or a letter for the node of each."""
    sys.stdout.flush()
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(ranks if isinstance(ranks, int) else len(ranks)):
            child = os.fork()
            if child == 0:
                run_rank(body, rank, ranks, folder, prefix)
            children.append(child)
        return all([os.waitpid(child, 0)[1] == 0 for child in children])


# ------------------------------------------------------------------ correct use

def every_type_and_op(r):
    comm, count = r.comm(), 1031
    results = {SUM: 4, PROD: 3, MAX: 3, MIN: 1, AVG: 2}
    for dtype in range(len(TYPES)):
        for op, result in results.items():
            mine = [1 + 2 * ((i + r.rank) % 2) for i in range(count)]
            data = buffer(dtype, mine)
            r.lib.AllReduce(data, data, count, dtype, op, comm, None)
            demand(holds(data, dtype, [result] * count), f"{TYPES[dtype]} {op}")
    r.lib.CommDestroy(comm)


def custom_ops(r):
    comm, count = r.comm(), 333
    for dtype in range(len(TYPES)):
        for residence in (DEVICE, IMMEDIATE):
            scalar, op = buffer(dtype, [2]), ctypes.c_int()
            r.lib.RedOpCreatePreMulSum(ctypes.byref(op), scalar, dtype, residence, comm)
            mine = buffer(dtype, [1 + 2 * r.rank] * count * 2)
            out = buffer(dtype, [0] * count * 2)
            r.lib.AllReduce(mine, out, count, dtype, op, comm, None)
            demand(holds(out, dtype, [8] * count), TYPES[dtype])
            r.lib.ReduceScatter(mine, out, count, dtype, op, comm, None)
            demand(holds(out, dtype, [8] * count), TYPES[dtype])
            demand(holds(mine, dtype, [1 + 2 * r.rank] * count * 2), "the input is unchanged")
            other = (dtype + 1) % len(TYPES)
            demand(r.lib.try_("AllReduce", mine, out, 1, other, op, comm, None) == ARGUMENT)
            r.lib.RedOpDestroy(op, comm)
            demand(r.lib.try_("AllReduce", mine, out, 1, dtype, op, comm, None) == ARGUMENT)
    r.lib.CommDestroy(comm)


def custom_ops_in_groups(r):
    """An operation may be destroyed after it was passed to a call, and its handle may be reused."""
    lib, comm, n, made = r.lib, r.comm(), r.nranks, []

    def create(factor):
        op = ctypes.c_int()
        lib.RedOpCreatePreMulSum(ctypes.byref(op), buffer(INT32, [factor]), INT32, IMMEDIATE, comm)
        return op

    lib.GroupStart()
    for factor in (2, 10):
        op, data = create(factor), buffer(INT32, [1] * 4)
        lib.AllReduce(data, data, 4, INT32, op, comm, None)
        lib.RedOpDestroy(op, comm)
        made.append((factor, data))
    kept = create(100)
    lib.GroupEnd()
    for factor, data in made:
        demand(holds(data, INT32, [factor * n] * 4), f"multiplied by {factor}")
    many = [create(i) for i in range(150)]
    for i, op in enumerate(many):
        data = buffer(INT32, [1])
        lib.AllReduce(data, data, 1, INT32, op, comm, None)
        demand(holds(data, INT32, [i * n]), f"operation {i} of many")
    for op in many + [kept]:
        lib.RedOpDestroy(op, comm)
    odd = ctypes.create_string_buffer(4 * 9 + 1)
    ctypes.memmove(ctypes.byref(odd, 1), buffer(INT32, [3] * 9), 36)
    lib.AllReduce(ctypes.byref(odd, 1), ctypes.byref(odd, 1), 9, INT32, create(2), comm, None)
    demand(odd.raw[1:37] == bytes(buffer(INT32, [6 * n] * 9)), "a buffer that is not aligned")
    lib.CommDestroy(comm)


def collectives(r):
    comm, n, lib, count = r.comm(), r.nranks, r.lib, 997
    ints = lambda values: buffer(INT32, values)  # noqa: E731
    block = lambda rank, salt=0: [rank * 100 + salt + i for i in range(count)]  # noqa: E731
    total = [sum(rank * 100 + i for rank in range(n)) for i in range(count)]
    out, whole = ints([0] * count), ints([0] * count * n)
    lib.Reduce(ints(block(r.rank)), out, count, INT32, SUM, 1, comm, None)
    demand(holds(out, INT32, total if r.rank == 1 else [0] * count), "reduce")
    lib.Broadcast(ints(block(r.rank)), out, count, INT32, 2, comm, None)
    demand(holds(out, INT32, block(2)), "broadcast")
    out = ints(block(r.rank))
    lib.Bcast(out, count, INT32, 0, comm, None)
    demand(holds(out, INT32, block(0)), "bcast")
    everything = [x for rank in range(n) for x in block(rank)]
    lib.AllGather(ints(block(r.rank)), whole, count, INT32, comm, None)
    demand(holds(whole, INT32, everything), "allgather")
    whole = ints([0] * (r.rank * count) + block(r.rank) + [0] * ((n - 1 - r.rank) * count))
    lib.AllGather(at(whole, 4 * count * r.rank), whole, count, INT32, comm, None)
    demand(holds(whole, INT32, everything), "allgather in place")
    lib.ReduceScatter(whole, at(whole, 4 * count * r.rank), count, INT32, SUM, comm, None)
    mine = ctypes.create_string_buffer(whole.raw[4 * count * r.rank:4 * count * (r.rank + 1)])
    demand(holds(mine, INT32, [n * x for x in block(r.rank)]), "reduce_scatter in place")
    sent = ints([x for peer in range(n) for x in block(r.rank, 1000 * peer)])
    lib.AlltoAll(sent, whole, count, INT32, comm, None)
    demand(holds(whole, INT32, [x for peer in range(n) for x in block(peer, 1000 * r.rank)]),
           "alltoall")
    sent = ints([x for peer in range(n) for x in block(r.rank, 1000 * peer)])
    lib.AlltoAll(sent, sent, count, INT32, comm, None)
    demand(sent.raw == whole.raw, "alltoall in place")
    gather_and_scatter(r, comm, count, block, everything)
    lib.CommDestroy(comm)


def lengths(r):
    """Lengths that divide among ranks and chunks and lengths that do not, as nccl.sh also runs them
    with plans in the tuning table."""
    comm, n, lib = r.comm(), r.nranks, r.lib
    for count in (1, 2, 3, 5, 64, 97, 1001, 4096, 20011):
        for dtype, op, whole in ((INT32, SUM, lambda x: n * x + n * (n - 1) // 2),
                                 (INT32, MAX, lambda x: x + n - 1),
                                 (INT32, AVG, lambda x: (n * x + n * (n - 1) // 2) // n)):
            data = buffer(dtype, [i % 50 + r.rank for i in range(count)])
            out = buffer(dtype, [0] * count)
            expected = [whole(i % 50) for i in range(count)]
            lib.AllReduce(data, out, count, dtype, op, comm, None)
            demand(holds(out, dtype, expected), "allreduce of %d" % count)
            lib.AllReduce(data, data, count, dtype, op, comm, None)
            demand(holds(data, dtype, expected), "allreduce of %d in place" % count)
    lib.CommDestroy(comm)


def gather_and_scatter(r, comm, count, block, everything):
    n, lib, ints = r.nranks, r.lib, lambda values: buffer(INT32, values)
    for root in range(n):
        whole, mine = ints([0] * count * n), ints(block(r.rank))
        lib.Gather(mine, whole if r.rank == root else None, count, INT32, root, comm, None)
        demand(holds(whole, INT32, everything if r.rank == root else [0]), "gather")
        mine = ints([0] * count)
        place = at(whole, 4 * count * root) if r.rank == root else mine
        lib.Scatter(whole if r.rank == root else None, place, count, INT32, root, comm, None)
        demand(r.rank == root or holds(mine, INT32, block(r.rank)), "scatter, in place on root")
        demand(r.rank != root or holds(whole, INT32, everything), "scatter changes no input")


def messages(r):
    comm, n, lib = r.comm(), r.nranks, r.lib
    right, left = (r.rank + 1) % n, (r.rank - 1) % n
    for count in (0, 1, 8191, 8192, 16384, 16385, 100003, 5000001):
        data = ctypes.create_string_buffer(repeated(UINT8, r.rank, count), max(1, count))
        out = ctypes.create_string_buffer(repeated(UINT8, 9, count + 1), count + 1)
        lib.GroupStart()
        lib.Send(data, count, UINT8, right, comm, None)
        lib.Recv(out, count, UINT8, left, comm, None)
        lib.GroupEnd()
        demand(out.raw == repeated(UINT8, left, count) + repeated(UINT8, 9, 1), f"ring of {count}")
    if r.rank == 0:  # rank 1 takes no part
        for value in range(5):
            lib.Send(buffer(INT32, [value] * 50000), 50000, INT32, 2, comm, None)
    if r.rank == 2:
        for value in range(5):
            out = buffer(INT32, [0] * 50000)
            lib.Recv(out, 50000, INT32, 0, comm, None)
            demand(holds(out, INT32, [value] * 50000), "pair")
    outs = [[buffer(INT32, [0] * 3000) for _ in range(3)] for _ in range(n)]
    data = [[buffer(INT32, [100 * r.rank + 10 * peer + i] * 3000) for i in range(3)]
            for peer in range(n)]
    sums = buffer(INT32, [1])
    lib.GroupStart()  # several to each, itself too, in any order, with a collective
    for peer in range(n):
        for i in reversed(range(3)):
            lib.Recv(outs[peer][2 - i], 3000, INT32, peer, comm, None)
    for i in range(3):
        for peer in range(n):
            lib.Send(data[peer][i], 3000, INT32, peer, comm, None)
    lib.AllReduce(sums, sums, 1, INT32, SUM, comm, None)
    lib.GroupEnd()
    demand(holds(sums, INT32, [n]), "a collective in a group")
    for peer in range(n):
        for i in range(3):
            demand(holds(outs[peer][i], INT32, [100 * peer + 10 * r.rank + i] * 3000),
                   f"message {i} of {peer}")
    lib.CommDestroy(comm)


def pattern(seed, count):
    """Returns bytes that depend on the seed and their position."""
    start, row = seed % 251, bytes(range(251))
    return (row * (count // 251 + 2))[start:start + count]


def outgoing(seed, count):
    return ctypes.create_string_buffer(pattern(seed, count), count + 1)


def incoming(count):
    return ctypes.create_string_buffer(b"\xee" * (count + 1), count + 1)


def has(array, seed, count):
    """Returns whether the array has the pattern and the byte after it is unchanged."""
    return array.raw == pattern(seed, count) + b"\xee"


LONG = 3 << 20  # exceeds what two ranks buffer between them


def all_to_all(r):
    """Several blocks of different sizes, some large, some empty, between every pair of ranks."""
    comm, n, lib = r.comm(), r.nranks, r.lib
    size = lambda a, b, i: (0, 1, 4099, LONG + 1000 * a, 300000 + b)[(a + 2 * b + i) % 5]  # noqa: E731
    seed = lambda a, b, i: 100 * a + 10 * b + i  # noqa: E731
    messages = [(peer, i) for peer in range(n) for i in range(2)]
    data = {(p, i): outgoing(seed(r.rank, p, i), size(r.rank, p, i)) for p, i in messages}
    outs = {(p, i): incoming(size(p, r.rank, i)) for p, i in messages}
    lib.GroupStart()
    for peer, i in messages:
        lib.Send(data[peer, i], size(r.rank, peer, i), UINT8, peer, comm, None)
    for peer, i in sorted(messages, key=lambda m: (-m[0], m[1])):
        lib.Recv(outs[peer, i], size(peer, r.rank, i), UINT8, peer, comm, None)
    lib.GroupEnd()
    for peer, i in messages:
        demand(has(outs[peer, i], seed(peer, r.rank, i), size(peer, r.rank, i)),
               f"message {i} of {peer}")
    lib.CommDestroy(comm)


def chain(r):
    """Rank 0's group exchanges with two ranks, the second of which first waits for the first."""
    comm, lib = r.comm(), r.lib
    data = outgoing(r.rank, LONG)
    outs = [incoming(LONG) for _ in range(r.nranks)]

    def move(*peers):  # a negative number is the complement of the peer to receive from
        for peer in peers:
            if peer < 0:
                lib.Recv(outs[~peer], LONG, UINT8, ~peer, comm, None)
            else:
                lib.Send(data, LONG, UINT8, peer, comm, None)
    for first, second in ((1, 2), (2, 1)):
        if r.rank == 0:
            lib.GroupStart()
            move(1, ~1, 2, ~2)
            lib.GroupEnd()
        elif r.rank == first:
            move(~0, second, 0)
        else:
            move(~first, ~0, 0)
    senders = {0: (1, 2), 1: (0, 2), 2: (0, 1)}[r.rank]
    demand(all(has(outs[peer], peer, LONG) for peer in senders), "what the others sent")
    lib.CommDestroy(comm)


def only_two_ranks(r):
    """Sends and receives involve only two ranks: the others need not call, and a collective may run
    between a short send and its receive."""
    comm, lib, last, count = r.comm(), r.lib, r.nranks - 1, 1000
    if r.rank in (0, last):
        for i in range(20):
            peer = last - r.rank
            data, out = outgoing(r.rank + i, count), incoming(count)
            lib.GroupStart()
            lib.Send(data, count, UINT8, peer, comm, None)
            lib.Recv(out, count, UINT8, peer, comm, None)
            lib.GroupEnd()
            demand(has(out, peer + i, count), f"exchange {i}")
        r.store.set("finished%d" % r.rank, b"")
    r.store.get("finished0")
    r.store.get("finished%d" % last)
    if r.rank == 0:
        for peer in range(1, r.nranks):
            lib.Send(outgoing(peer, count), count, UINT8, peer, comm, None)
    demand(sum_of(r, comm, 1) == r.nranks, "a collective between")
    if r.rank > 0:
        out = incoming(count)
        lib.Recv(out, count, UINT8, 0, comm, None)
        demand(has(out, r.rank, count), "a message sent before the collective")
    lib.CommDestroy(comm)


def sum_of(r, comm, value):
    data = buffer(INT32, [value])
    r.lib.AllReduce(data, data, 1, INT32, SUM, comm, None)
    return int.from_bytes(data.raw[:4], "little")


def query(lib, name, comm):
    answer = ctypes.c_int(-7)
    getattr(lib, name)(comm, ctypes.byref(answer))
    return answer.value


def several_communicators(r):
    lib, comm, second = r.lib, r.comm(), r.comm("second")
    half, none, rest = ctypes.c_void_p(), ctypes.c_void_p(1), ctypes.c_void_p()
    lib.CommSplit(comm, r.rank % 2, -r.rank, ctypes.byref(half), None)
    members = list(range(r.rank % 2, r.nranks, 2))
    demand(query(lib, "CommCount", half) == len(members))
    demand(query(lib, "CommUserRank", half) == members[::-1].index(r.rank), "ranks by key")
    lib.CommSplit(comm, 5 if r.rank else -1, 0, ctypes.byref(none), None)
    demand(bool(none.value) == (r.rank > 0), "a rank without a color gets no communicator")
    demand(sum_of(r, half, 1 + r.rank) == sum(1 + member for member in members))
    demand(sum_of(r, comm, 1) == r.nranks and sum_of(r, second, 2) == 2 * r.nranks)
    if r.rank != 1:
        lib.CommShrink(comm, (ctypes.c_int * 1)(1), 1, ctypes.byref(rest), None, 0)
        demand(sum_of(r, rest, 1) == r.nranks - 1, "shrunk")
    order = (comm, second) if r.rank % 2 else (second, comm)
    started = time.monotonic()
    for one in order:
        lib.CommDestroy(one)
    demand(time.monotonic() - started < 10, "destroyed in different orders")


def one_process(r):
    lib, n = r.lib, 3
    comms, values = (ctypes.c_void_p * n)(), [buffer(INT32, [i + 1] * 7) for i in range(n)]
    lib.CommInitAll(comms, n, None)
    lib.GroupStart()
    for i in range(n):
        lib.AllReduce(values[i], values[i], 7, INT32, SUM, comms[i], None)
        lib.Send(values[i], 7, INT32, (i + 1) % n, comms[i], None)
    outs = [buffer(INT32, [0] * 7) for _ in range(n)]
    for i in range(n):
        lib.Recv(outs[i], 7, INT32, (i - 1) % n, comms[i], None)
    lib.GroupEnd()
    demand(all(holds(out, INT32, [6] * 7) for out in outs), "ranks of one thread")
    for comm in comms:
        lib.CommDestroy(comm)
    identity, sums = lib.unique_id(), [0] * n

    def thread(rank):
        comm = lib.init(n, identity, rank)
        sums[rank] = sum_of(r, comm, rank)
        lib.CommDestroy(comm)
    threads = [threading.Thread(target=thread, args=(rank,)) for rank in range(n)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    demand(sums == [3] * n, "one thread per rank")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        lib.CommInitAll(comms, n, None)
        lib.CommAbort(comms[0])
        for comm in comms[1:]:
            lib.CommDestroy(comm)
    demand(len(os.listdir("/proc/self/fd")) < before + 5, "siblings of an aborted rank are freed")


def memory(r):
    lib, comm = r.lib, r.comm()
    pointer, handle, window = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    lib.MemAlloc(ctypes.byref(pointer), 1 << 16)
    demand(pointer.value % 4096 == 0)
    lib.CommRegister(comm, pointer, 1 << 16, ctypes.byref(handle))
    others = (ctypes.c_void_p * 2)()
    lib.GroupStart()  # several on one communicator
    lib.CommWindowRegister(comm, pointer, 1 << 16, ctypes.byref(window), 1)
    for i in range(2):
        lib.CommSplit(comm, i, 0, ctypes.byref(others, 8 * i), None)
    lib.GroupEnd()
    demand(lib.try_("CommDeregister", others[0], handle) == ARGUMENT, "of another communicator")
    for other in others:
        lib.CommDestroy(other)
    ctypes.memset(pointer, 1, 1 << 16)
    lib.AllReduce(pointer, pointer, 1 << 16, UINT8, SUM, comm, None)
    demand(ctypes.string_at(pointer, 1 << 16) == bytes([r.nranks]) * (1 << 16))
    lib.CommWindowDeregister(comm, window)
    demand(lib.try_("CommWindowDeregister", comm, window) == ARGUMENT)
    lib.CommDeregister(comm, handle)
    lib.MemFree(pointer)
    demand(lib.try_("MemFree", pointer) == ARGUMENT and lib.try_("MemFree", None) == OK)
    lib.CommDestroy(comm)


# ------------------------------------------------------------------ faults and misuse

def abort(r, call=lambda r, comm, data: r.lib.try_("AllReduce", data, data, 1, INT32, SUM, comm,
                                                    None)):
    lib, comm, data = r.lib, r.comm(), buffer(INT32, [1])
    demand(query(lib, "CommGetAsyncError", comm) == OK)
    if r.rank == 0:
        results = []
        stuck = threading.Thread(target=lambda: results.append(call(r, comm, data)))
        stuck.start()
        time.sleep(0.3)
        demand(stuck.is_alive(), "it waits for rank 1")
        started = time.monotonic()
        lib.CommAbort(comm)
        stuck.join()
        demand(time.monotonic() - started < 1, "an abort takes less than a second")
        demand(results == [REMOTE], f"results {results}")
        demand(lib.try_("AllReduce", data, data, 1, INT32, SUM, comm, None) == ARGUMENT)
        demand("destroyed or aborted" in lib.last_error())
    else:
        while query(lib, "CommGetAsyncError", comm) == OK:
            time.sleep(0.01)
        demand(lib.try_("AllReduce", data, data, 1, INT32, SUM, comm, None) == REMOTE)
        lib.CommAbort(comm)


def abort_receive(r):
    abort(r, lambda r, comm, data: r.lib.try_("Recv", data, 1, INT32, 1, comm, None))


def no_peer(r):
    """Rank 1 sends slowly, in total longer than the deadline, which must succeed; then nothing,
    which must time out."""
    os.environ["WEIR_TIMEOUT_MS"] = "700"
    lib, comm = r.lib, r.comm()
    outs = [incoming(9) for _ in range(3)]
    if r.rank == 0:
        lib.GroupStart()
        for out in outs:
            lib.Recv(out, 9, UINT8, 1, comm, None)
        lib.GroupEnd()
        r.store.set("received", b"")
    for i in range(3 if r.rank == 1 else 0):
        time.sleep(0.4 if i else 0)
        lib.Send(outgoing(i, 9), 9, UINT8, 0, comm, None)
    r.store.get("received")
    if r.rank == 0:
        demand(lib.try_("Recv", incoming(9), 9, UINT8, 1, comm, None) == REMOTE)
    elif r.rank == 2:
        demand(lib.try_("Send", outgoing(0, LONG), LONG, UINT8, 1, comm, None) == REMOTE)
    if r.rank != 1:  # the first rank to time out ends the other's wait
        phase, text = ("receive", "send")[r.rank // 2], lib.last_error()
        demand(f"in {phase}, waiting for rank 1: expected" in text, text)
        r.store.set("text%d" % r.rank, text.encode())
        texts = r.store.get("text0") + r.store.get("text2")
        demand(b"deadline of 700 ms passed" in texts, texts)
    while query(lib, "CommGetAsyncError", comm) == OK:
        time.sleep(0.01)
    lib.CommDestroy(comm)


def revoke(r):
    lib, comm, data = r.lib, r.comm(), buffer(INT32, [1])
    if r.rank == 0:
        lib.CommRevoke(comm, 0)
        demand(query(lib, "CommGetAsyncError", comm) == 0,
               "the rank that revoked sees no asynchronous error")
        demand(lib.try_("CommFinalize", comm) == USAGE)
    while r.rank and query(lib, "CommGetAsyncError", comm) != REMOTE:
        time.sleep(0.01)
    demand(lib.try_("Send", data, 1, INT32, 1 - r.rank, comm, None) == REMOTE)
    lib.CommDestroy(comm)


def counts(r):
    lib, comm, data = r.lib, r.comm(), buffer(INT32, [1] * 8)
    if r.rank == 0:
        lib.Send(data, 5, INT32, 1, comm, None)
        while query(lib, "CommGetAsyncError", comm) == OK:
            time.sleep(0.01)
    else:
        demand(lib.try_("Recv", data, 6, INT32, 0, comm, None) == USAGE)
        demand("24 bytes from rank 0, which sends 20" in lib.last_error(), lib.last_error())
    lib.CommDestroy(comm)


def called(r):
    """A rank that calls something else is named with both calls, whichever rank it is."""
    os.environ["NCCL_CHECK_MODE"] = "DEBUG_GLOBAL"
    lib, data, out = r.lib, buffer(INT32, [1] * 16), buffer(INT32, [0] * 64)
    planted = (
        ("allgather int32 4", lambda c: lib.try_("AllGather", data, out, 4, INT32, c, None)),
        ("allreduce int32 4 max", lambda c: lib.try_("AllReduce", data, out, 4, INT32, MAX, c, None)),
        ("allreduce float 4 sum", lambda c: lib.try_("AllReduce", data, out, 4, FLOAT, SUM, c, None)),
        ("allreduce int32 5 sum", lambda c: lib.try_("AllReduce", data, out, 5, INT32, SUM, c, None)),
        ("broadcast int32 4 root 1", lambda c: lib.try_("Broadcast", data, out, 4, INT32, 1, c, None)))
    for bad in range(r.nranks):
        for i, (text, wrong) in enumerate(planted):
            comm, result, tries = r.comm("id%d-%d" % (bad, i)), OK, 0
            while result == OK and tries < 9:
                right = lib.try_("AllReduce", data, out, 4, INT32, SUM, comm, None) if tries != 2 or \
                    r.rank != bad else wrong(comm)
                if right == OK and r.rank < 2:  # sends of which the others do not know
                    lib.try_("Send" if r.rank else "Recv", data, 1, INT32, 1 - r.rank, comm, None)
                result, tries = right, tries + 1
            error = lib.last_error()
            demand(result == USAGE and " as its 3rd call, rank " in error, error)
            demand("rank %d calls %s" % (bad, text) in error or
                   "rank %d %s" % (bad, text) in error, error)
            lib.CommAbort(comm)


def id_creators(r):
    """Unique ids created by each rank; one that its creator does not use; and one used twice."""
    lib, data, made = r.lib, buffer(INT32, [r.rank]), ctypes.c_void_p()
    for creator in range(r.nranks):
        comm = r.comm(f"id{creator}", creator)
        lib.AllReduce(data, data, 1, INT32, MAX, comm, None)
        demand(holds(data, INT32, [r.nranks - 1]))
        lib.CommDestroy(comm)
    spare = r.identity("spare", r.nranks - 1)
    if r.rank < r.nranks - 1:
        lib.CommDestroy(lib.init(r.nranks - 1, spare, r.rank))
        r.store.set(f"done{r.rank}", b"")
    for rank in range(r.nranks - 1):
        r.store.get(f"done{rank}")  # the creator of an id runs until all have joined
    if r.rank == 0:
        demand(lib.try_("CommInitRank", ctypes.byref(made), 1, spare, 0) == REMOTE)
        demand("unique id" in lib.last_error(), lib.last_error())


def refusals(r):
    lib, comm, data = r.lib, r.comm(), buffer(INT32, [7] * 8)
    made, answer = ctypes.c_void_p(), ctypes.c_int()
    wrong = UniqueId.from_buffer_copy(bytes(range(128)))
    demand(lib.try_("CommInitRank", ctypes.byref(made), 1, wrong, 0) == ARGUMENT)
    demand("unique id" in lib.last_error() and not made.value)
    for rank, nranks in ((2, 2), (-1, 2), (0, 0)):
        demand(lib.try_("CommInitRank", ctypes.byref(made), nranks, wrong, rank) == ARGUMENT)
    config = Config(size=80, magic=1)
    demand(lib.try_("CommInitRankConfig", ctypes.byref(made), 1, wrong, 0, ctypes.byref(config))
           == ARGUMENT)
    for handle in (None, 1, 8, 0xdeadbeef, ctypes.addressof(data), (1 << 64) - 1):
        demand(lib.try_("CommCount", handle, ctypes.byref(answer)) == ARGUMENT, f"{handle}")
        demand(lib.try_("AllReduce", data, data, 1, INT32, SUM, handle, None) == ARGUMENT)
        demand(not handle or lib.try_("CommDestroy", handle) == ARGUMENT)
    reduce = lambda *a: lib.try_("AllReduce", *a, comm, None)  # noqa: E731
    demand(reduce(data, data, 1, 12, SUM) == ARGUMENT and "data type 12" in lib.last_error())
    demand(reduce(data, data, 1, INT32, 5) == ARGUMENT and "operation" in lib.last_error())
    demand(reduce(None, data, 1, INT32, SUM) == ARGUMENT and "sendbuff is NULL" in lib.last_error())
    demand(reduce(data, None, 1, INT32, SUM) == ARGUMENT and "recvbuff is NULL" in lib.last_error())
    demand(lib.try_("CommInitRank", None, 1, wrong, 0) == ARGUMENT and "comm is NULL" in lib.last_error())
    demand(lib.try_("CommSplit", comm, 0, 0, None, None) == ARGUMENT
           and "newcomm is NULL" in lib.last_error())
    demand(reduce(data, data, 1 << 62, INT32, SUM) == ARGUMENT)
    demand(reduce(None, None, 0, INT32, SUM) == OK)
    demand(lib.try_("Reduce", data, data, 1, INT32, SUM, 2, comm, None) == ARGUMENT)
    demand("root 2, but the communicator has ranks 0 to" in lib.last_error())
    demand(lib.try_("Send", data, 1, INT32, -1, comm, None) == ARGUMENT)
    demand("peer -1, but the communicator has ranks 0 to" in lib.last_error())
    demand(lib.try_("Send", data, 1, INT32, r.rank, comm, None) == USAGE)
    for name in ("CommCount", "CommCuDevice", "CommUserRank"):  # an error names its function
        demand(lib.try_(name, comm, None) == ARGUMENT and f"nccl{name}" in lib.last_error())
    for name in ("CommDeregister", "CommWindowDeregister"):
        demand(lib.try_(name, comm, 0x1001) == ARGUMENT and f"nccl{name}:" in lib.last_error())
    demand(lib.try_("GetVersion", None) == ARGUMENT and lib.try_("GetUniqueId", None) == ARGUMENT)
    lib.CommAbort(comm)


def estimates(r):
    lib, comm, data, other = r.lib, r.comm(), buffer(INT32, [1] * 4096), buffer(INT32, [2] * 4096)

    def estimate(*calls):
        about = SimInfo()
        lib.GroupStart()
        for call in calls:
            call()
        lib.GroupSimulateEnd(ctypes.byref(about))
        demand(lib.try_("GroupEnd") == USAGE, "a simulated end closes the group")
        return about.estimatedTime

    def reduce(count):
        return lambda: lib.AllReduce(data, data, count, INT32, SUM, comm, None)
    short, long_ = estimate(reduce(1)), estimate(reduce(4096))
    both = estimate(reduce(1), reduce(4096))
    if "WEIR_HOSTID" in os.environ:
        demand(short == long_ == -1, "there are no estimates for networks")
    else:
        demand(0 < short < long_ < 1000 and abs(both - short - long_) < 1e-3, (short, long_, both))
        right, left = (r.rank + 1) % r.nranks, (r.rank - 1) % r.nranks
        one = estimate(lambda: lib.Send(data, 4096, INT32, right, comm, None),
                       lambda: lib.Recv(other, 4096, INT32, left, comm, None))
        two = estimate(lambda: lib.Send(data, 4096, INT32, right, comm, None),
                       lambda: lib.Send(data, 4096, INT32, right, comm, None))
        demand(0 < one < two < long_ * 10, "messages in opposite directions overlap")
    demand(estimate() == 0, "an empty group takes no time")
    demand(holds(data, INT32, [1] * 4096) and holds(other, INT32, [2] * 4096),
           "an estimated group has not run")
    for bad in (None, ctypes.byref(SimInfo(magic=7)), ctypes.byref(SimInfo(size=4))):
        lib.GroupStart()
        reduce(1)()
        demand(lib.try_("GroupSimulateEnd", bad) == ARGUMENT)
    demand(lib.try_("GroupSimulateEnd", bad) == USAGE, "no group")
    about = SimInfo(time=-7.0)
    lib.GroupStart()
    lib.GroupStart()
    reduce(1)()
    lib.GroupSimulateEnd(ctypes.byref(about))
    demand(about.estimatedTime == -7, "an inner simulated end gives no estimate")
    lib.GroupEnd()
    demand(holds(data, INT32, [r.nranks] + [1] * 4095), "the outermost end runs the calls")
    lib.CommDestroy(comm)


def groups(r):
    lib, comm, data = r.lib, r.comm(), buffer(INT32, [1])
    demand(lib.try_("GroupEnd") == USAGE and "ncclGroupStart" in lib.last_error())
    lib.GroupStart()
    demand(lib.try_("AllReduce", data, data, 1, INT32, SUM, comm, None) == OK)
    demand(lib.try_("AllReduce", data, data, 1, 99, SUM, comm, None) == ARGUMENT)
    demand(lib.try_("GroupEnd") == ARGUMENT, "a refused call fails the group")
    demand(holds(data, INT32, [1]), "no call of a failed group runs")
    lib.GroupStart()
    lib.GroupStart()
    lib.AllReduce(data, data, 1, INT32, SUM, comm, None)
    lib.GroupEnd()
    demand(holds(data, INT32, [1]), "an inner end does not run the group")
    lib.GroupEnd()
    demand(holds(data, INT32, [r.nranks]))
    demand(lib.try_("Send", data, 1, INT32, r.rank, comm, None) == USAGE,
           "a send to itself without a receive")
    demand(sum_of(r, comm, 1) == r.nranks, "the communicator still works")
    made = (ctypes.c_void_p * 2)()
    ids = [r.identity("a"), r.identity("b")]
    lib.GroupStart()
    for i in range(2):
        lib.CommInitRank(ctypes.byref(made, 8 * i), r.nranks, ids[i], r.rank)
    lib.GroupEnd()
    demand(sum_of(r, made[0], 1) == r.nranks and sum_of(r, made[1], 2) == 2 * r.nranks)
    lib.GroupStart()
    lib.AllReduce(data, data, 1, INT32, SUM, made[0], None)
    lib.CommDestroy(made[0])
    demand(lib.try_("GroupEnd") == ARGUMENT, "a communicator destroyed in a group that uses it")
    lib.CommDestroy(made[1])
    for name in ("CommFinalize", "CommDestroy", "CommAbort"):
        demand(lib.try_(name, None) == OK, f"{name} of NULL")
    lib.CommFinalize(comm)
    demand(lib.try_("CommFinalize", comm) == ARGUMENT, "finalized twice")
    lib.CommDestroy(comm)


def death(r):
    comm, data = r.comm(), buffer(INT32, [1])
    if r.rank == 1:
        os._exit(0)
    demand(r.lib.try_("Recv", data, 1, INT32, 1, comm, None) == REMOTE)
    demand("rank 1 has died" in r.lib.last_error(), r.lib.last_error())


def survivors(r):
    """Two ranks die one after the other; the surviving ranks continue after CommShrink."""
    lib, comm = r.lib, r.comm()
    rank, nranks = r.rank, r.nranks
    while nranks > 2:
        demand(sum_of(r, comm, 1) == nranks)
        if rank == 1:
            os._exit(0)
        data = buffer(INT32, [1])
        demand(lib.try_("AllReduce", data, data, 1, INT32, SUM, comm, None) == REMOTE)
        demand("rank 1" in lib.last_error(), lib.last_error())
        rest = ctypes.c_void_p()
        lib.CommShrink(comm, (ctypes.c_int * 1)(1), 1, ctypes.byref(rest), None, 1)
        lib.CommDestroy(comm)
        comm, rank, nranks = rest, rank - (rank > 1), nranks - 1
        demand(query(lib, "CommUserRank", comm) == rank and query(lib, "CommCount", comm) == nranks)
    demand(sum_of(r, comm, 1) == 2)
    lib.CommDestroy(comm)


def fallback(r):
    """The simulated library, support/nccl_standin.c, writes 42."""
    lib, comm, data = r.lib, r.comm(), buffer(UINT8, [1] * 4)
    lib.AllReduce(data, data, 4, UINT8, SUM, comm, None)
    demand(holds(data, UINT8, [42] * 4), "the fallback library runs the allreduce")
    lib.GroupStart()
    lib.Send(data, 2, UINT8, 1 - r.rank, comm, None)
    lib.Recv(data, 2, UINT8, 1 - r.rank, comm, None)
    lib.GroupEnd()
    demand(holds(data, UINT8, [43, 43, 42, 42]), "the fallback library runs send and receive")
    demand(lib.try_("CommSplit", comm, 0, 0, ctypes.byref(ctypes.c_void_p()), None) == USAGE)
    lib.CommDestroy(comm)


def no_fallback(r):
    made = ctypes.c_void_p()
    identity = r.identity()
    demand(r.lib.try_("CommInitRank", ctypes.byref(made), r.nranks, identity, r.rank) == USAGE)
    text = r.lib.last_error()
    demand("cuda" in text or "own library" in text, text)


def early_end(r):
    """A rank that exits after its part, without CommDestroy, causes no error on the others."""
    comm = r.comm()
    demand(sum_of(r, comm, 1) == 2)
    if r.rank == 1:
        os._exit(0)
    started = time.monotonic()
    while time.monotonic() - started < 0.3:
        demand(query(r.lib, "CommGetAsyncError", comm) == OK)
    r.lib.CommDestroy(comm)
    demand(time.monotonic() - started < 5)


def pipeline(r):
    """A rank that has sent, destroyed its communicator and exited causes no error on the others."""
    lib, comm, data = r.lib, r.comm(), buffer(INT32, [7 if r.rank == 0 else 0])
    if r.rank:
        lib.Recv(data, 1, INT32, r.rank - 1, comm, None)
    if r.rank == 1:
        time.sleep(1.5)
    if r.rank < r.nranks - 1:
        lib.Send(data, 1, INT32, r.rank + 1, comm, None)
    demand(holds(data, INT32, [7]))
    lib.CommDestroy(comm)


def abort_after(r):
    """An abort after a collective does not affect the collective."""
    for i in range(20):
        comm = r.comm("id%d" % i)
        demand(sum_of(r, comm, 1) == r.nranks, "a collective before the abort")
        r.lib.CommAbort(comm)


def abort_two(r):
    """Two communicators of a group that hangs are aborted one after the other."""
    lib, comms, data = r.lib, [r.comm("a"), r.comm("b")], buffer(INT32, [1])
    if r.rank == 1:
        r.store.get("aborted")
        os._exit(0)

    def stuck():
        lib.GroupStart()
        lib.try_("AllReduce", data, data, 1, INT32, SUM, comms[0], None)
        lib.try_("Recv", data, 1, INT32, 1, comms[1], None)
        lib.try_("GroupEnd")
    thread = threading.Thread(target=stuck)
    thread.start()
    time.sleep(0.3)
    started = time.monotonic()
    for comm in comms:
        lib.CommAbort(comm)
    thread.join()
    r.store.set("aborted", b"")
    demand(time.monotonic() - started < 2, "both aborts take less than two seconds")


def abort_split(r):
    """An abort ends a split that waits for a rank which does not call it."""
    lib, comm, made = r.lib, r.comm(), ctypes.c_void_p()
    if r.rank == 1:
        r.store.get("aborted")
        lib.CommAbort(comm)
        return
    thread = threading.Thread(target=lib.try_, args=(
        "CommSplit", comm, 0, 0, ctypes.byref(made), None))
    thread.start()
    time.sleep(0.3)
    started = time.monotonic()
    lib.CommAbort(comm)
    thread.join()
    r.store.set("aborted", b"")
    demand(time.monotonic() - started < 1)


def wrong_data(r):
    """One contribution is wrong. This job must fail; it proves that the checks can."""
    comm, data = r.comm(), buffer(INT32, [1 + r.rank])
    r.lib.AllReduce(data, data, 1, INT32, SUM, comm, None)
    demand(holds(data, INT32, [2]), "a wrong sum")


CHECKS = [
    ("every type and operation is correct, by MCCL's names", every_type_and_op, 2, "mccl"),
    ("custom operations are correct for every type", custom_ops, 2, "nccl"),
    ("custom operations may be destroyed in groups, and there may be many",
     custom_ops_in_groups, 2, "nccl"),
    ("collectives are correct, out of place and in place", collectives, 3, "nccl"),
    ("allreduces of any length are correct", lengths, 3, "nccl"),
    ("sends and receives are correct, alone and in groups", messages, 3, "mccl"),
    ("sends and receives are correct within and between nodes", messages, "aab", "nccl"),
    ("collectives, gather and scatter are correct between nodes", collectives, "aab", "nccl"),
    ("all-to-all by sends and receives is correct on 2 nodes", all_to_all, "aab", "nccl"),
    ("all-to-all by sends and receives is correct on 3 nodes", all_to_all, "abbcca", "nccl"),
    ("all-to-all by sends and receives is correct on 4 nodes", all_to_all, "abcd", "nccl"),
    ("sends and receives of a group progress in any order", chain, "aab", "nccl"),
    ("sends and receives involve only two ranks", only_two_ranks, "aabb", "nccl"),
    ("several communicators can be split, shrunk and destroyed in different orders",
     several_communicators, 4, "nccl"),
    ("ranks of one process work in one thread and in several", one_process, 1, "nccl"),
    ("memory is allocated, registered and deregistered", memory, 2, "nccl"),
    ("an abort from another thread ends a waiting call", abort, 2, "nccl"),
    ("an abort ends a receive from another node", abort_receive, "ab", "nccl"),
    ("a slow peer causes no timeout, a missing one does", no_peer, "abb", "nccl"),
    ("a revoked communicator fails on every rank", revoke, 2, "nccl"),
    ("counts of send and receive that differ are reported", counts, 2, "nccl"),
    ("counts of send and receive that differ between nodes are reported", counts, "ab", "nccl"),
    ("a rank that calls something else is named", called, 3, "nccl"),
    ("a rank that calls something else is named across nodes", called, "aab", "nccl"),
    ("any rank may create the unique id, which is used once", id_creators, 3, "nccl"),
    ("a rank on any node may create the unique id, which is used once", id_creators, "abc", "nccl"),
    ("invalid arguments are rejected", refusals, 2, "nccl"),
    ("groups run at their outermost end, and misuse is rejected", groups, 2, "nccl"),
    ("groups give time estimates without running", estimates, 2, "nccl"),
    ("groups across nodes give no time estimates", estimates, "ab", "nccl"),
    ("the death of a rank is reported to a waiting rank", death, 2, "nccl"),
    ("surviving ranks recover with CommShrink after two deaths", survivors, 4, "nccl"),
    ("surviving ranks recover with CommShrink across nodes", survivors, "aabc", "nccl"),
    ("a rank that exits after its last call causes no error", early_end, 2, "nccl"),
    ("a pipeline whose first stage exits first completes", pipeline, 3, "nccl"),
    ("a pipeline across nodes whose first stage exits first completes", pipeline, "abc", "nccl"),
    ("an abort after a collective does not affect it", abort_after, 2, "nccl"),
    ("an abort ends a waiting split", abort_split, 2, "nccl"),
    ("aborts of two communicators end their group", abort_two, 2, "nccl"),
]


class Report:
    """TAP lines of checks, which are named like those of the lists."""

    def __init__(self):
        self.results = []

    def add(self, name, passed):
        self.results.append(passed)
        print("%s %d - %s" % ("ok" if passed else "not ok", len(self.results), name), flush=True)

    def run(self, checks, only):
        """Runs a list of checks, or only those of these functions."""
        for name, body, ranks, prefix in checks:
            if not only or body.__name__ in only:
                self.add(name, job(body, ranks, prefix))

    def add_found(self, name, body, ranks=2):
        """Adds a check that passes if a job with a planted fault fails."""
        kept = os.dup(1)
        os.dup2(os.open("/dev/null", os.O_WRONLY), 1)  # hides the failures that are expected
        found = not job(body, ranks)
        os.dup2(kept, 1)
        self.add(name, found)

    def end(self):
        print("1..%d" % len(self.results))
        sys.exit(0 if all(self.results) else 1)


def main():
    only, report = sys.argv[1:], Report()
    for one in (fallback, no_fallback):  # need the environment that nccl.sh sets
        if only == [one.__name__]:
            sys.exit(0 if job(one, 2) else 1)
    path = os.environ["NCCL_SO_PATH"]
    version = ctypes.c_int()
    integrity_check(path)
    library = Library(path)
    library.GetVersion(ctypes.byref(version))
    report.add("the library opens in a child process and has version 2.32",
               23200 <= version.value < 23300)
    report.add("every result code has an error string",
               all(library.error_string(i) for i in range(-1, 10)))
    report.run(CHECKS, only)
    report.add_found("wrong data is found by these checks", wrong_data)
    report.end()


if __name__ == "__main__":
    main()
