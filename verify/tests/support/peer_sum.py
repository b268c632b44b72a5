"""A peer in Python for the tests of --peer py:FILE.py: allreduce of float sums over a shared file. Its
mode names a fault."""
import array
import mmap
import os
import tempfile
import time

name = "pysum"
version = "3"
settings = "PYSUM=1 (file)"
BLOCK = 1 << 16


def create(job):
    mine = tempfile.mkstemp()[1] if job.rank == 0 else ""
    path = job.allgather(mine.encode().ljust(200))[0].strip().decode()
    if job.mode == "memory":
        raise MemoryError("it needs 1 TB")
    if job.mode == "exit" and job.rank == 1:
        os._exit(9)
    with open(path, "r+b") as file:
        file.truncate(4096 + job.nranks * BLOCK)
        job.allgather(b"x")
        job.memory = mmap.mmap(file.fileno(), 4096 + job.nranks * BLOCK)
    job.allgather(b"x")
    if job.rank == 0:
        os.unlink(path)
    job.turn = 0
    return job


def refuses(job, call):
    if call.collective != "allreduce" or call.dtype != "float" or call.op != "sum":
        return "it has only sums of float"
    return None


def barrier(job):
    job.turn += 1
    job.memory[job.rank * 64] = job.turn % 256
    while any(job.memory[rank * 64] not in (job.turn % 256, (job.turn + 1) % 256) for rank in range(job.nranks)):
        time.sleep(0)


def block(job, rank, size):
    values = array.array("f")
    values.frombytes(job.memory[4096 + rank * BLOCK:4096 + rank * BLOCK + size])
    return values


def run(job, call):
    if job.mode == "crash" and call.count > 256:
        os.abort()
    size = call.count * 4
    job.memory[4096 + job.rank * BLOCK:4096 + job.rank * BLOCK + size] = call.input
    barrier(job)
    total = block(job, 0, size)
    for rank in range(1, job.nranks):
        for i, value in enumerate(block(job, rank, size)):
            total[i] += value
    if job.mode == "wrong":
        total[0] += 1
    call.output[:] = total.tobytes()
    barrier(job)
