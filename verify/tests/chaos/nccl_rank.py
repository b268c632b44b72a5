#!/usr/bin/env python3
"""A rank of libweir_nccl.so for the chaos driver: calls on host memory, every result compared.

    nccl_rank.py RANK RANKS FOLDER ROUNDS

FOLDER is where rank 0 leaves the unique id. Prints "passed" and ends with 0 if all results were
right, with 1 if one was wrong, and with 4 and the library's message if a call failed.
"""
import os
import resource
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))
from nccl_library import (FLOAT, INT32, SUM, UINT8, Failed, Library, UniqueId,  # noqa: E402
                          buffer)


def share_identity(library, rank, folder):
    path = os.path.join(folder, "id")
    if rank == 0:
        identity = library.unique_id()
        with open(path + ".part", "wb") as file:
            file.write(bytes(identity))
        os.rename(path + ".part", path)
        return identity
    end = time.monotonic() + int(os.environ["WEIR_TIMEOUT_MS"]) / 1000
    while not os.path.exists(path):
        if time.monotonic() > end:
            raise Failed("unique id", 4, "rank 0 has left none")
        time.sleep(0.005)
    with open(path, "rb") as file:
        return UniqueId.from_buffer_copy(file.read())


def rounds(library, comm, rank, nranks):
    """Yields (name, result, expected) of one call after the other."""
    right, left = (rank + 1) % nranks, (rank - 1) % nranks
    count, turn = 1000, 0
    total = nranks * (nranks - 1) // 2
    while True:
        base = turn % 50
        turn += 1
        out = buffer(INT32, [0] * count)
        library.AllReduce(buffer(INT32, [base + rank] * count), out, count, INT32, SUM, comm, None)
        yield "allreduce", out, buffer(INT32, [nranks * base + total] * count)
        out = buffer(FLOAT, [0] * nranks * 8)
        library.AllGather(buffer(FLOAT, [base + rank] * 8), out, 8, FLOAT, comm, None)
        yield "allgather", out, buffer(FLOAT, [base + r for r in range(nranks) for _ in range(8)])
        out, data = buffer(UINT8, [0] * count), buffer(UINT8, [base + rank] * count)
        library.GroupStart()
        library.Send(data, count, UINT8, right, comm, None)
        library.Recv(out, count, UINT8, left, comm, None)
        library.GroupEnd()
        yield "ring", out, buffer(UINT8, [base + left] * count)


def main():
    rank, nranks, folder, turns = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    try:
        library = Library()
        identity = share_identity(library, rank, folder)
        if "CHAOS_DESCRIPTORS" in os.environ:  # Python itself has what it needs
            resource.setrlimit(resource.RLIMIT_NOFILE, (int(os.environ["CHAOS_DESCRIPTORS"]),) * 2)
        comm = library.init(nranks, identity, rank)
        for turn, (name, got, expected) in enumerate(rounds(library, comm, rank, nranks)):
            if got.raw != expected.raw:
                print(f"rank {rank}: {name} {turn}: wrong data", file=sys.stderr)
                return 1
            if turn == turns:
                break
        library.CommDestroy(comm)
    except Failed as failed:
        print(f"rank {rank}: {failed}", file=sys.stderr, flush=True)
        return 4
    print("passed")
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # an aborted communicator is not destroyed
