"""A peer in Python on a GPU for the tests of --peer py:FILE.py with gpu_driver_standin.c, whose memory
is the host's: allreduce of int32 sums through files. Its mode names a fault."""
import array
import ctypes
import os
import time

name = "gpusum"
version = "1"


def create(job):
    job.path = job.allgather(f"{os.environ['TMPDIR']}/sum-{os.getpid()}".encode().ljust(200))[0].strip().decode()
    job.turn = 0
    return job


def refuses(_, call):
    return None if call.collective == "allreduce" and call.dtype == "int32" else "it has only allreduce of int32"


def memory(view):
    interface = view.__cuda_array_interface__
    assert interface["shape"] == (view.nbytes,) and interface["typestr"] == "|u1"
    return (ctypes.c_char * view.nbytes).from_address(interface["data"][0])


def prepare(job, call):
    job.input = bytes(memory(call.input))


def run(job, call):
    assert call.stream and call.stream == job.stream
    if job.mode == "crash" and call.count > 256:
        os.abort()
    job.turn += 1
    mine = f"{job.path}-{job.turn}-"
    with open(mine + f"{job.rank}.new", "wb") as file:
        file.write(job.input)
    os.rename(mine + f"{job.rank}.new", mine + f"{job.rank}")
    total = array.array("I", bytes(call.output.nbytes))
    for rank in range(job.nranks):
        while not os.path.exists(mine + str(rank)):
            time.sleep(0)
        with open(mine + str(rank), "rb") as file:
            for i, value in enumerate(array.array("I", file.read())):
                total[i] = (total[i] + value) % (1 << 32)
    if job.mode == "wrong":
        total[0] ^= 1
    memory(call.output)[:] = total.tobytes()
    if job.turn > 1:
        os.unlink(f"{job.path}-{job.turn - 1}-{job.rank}")
