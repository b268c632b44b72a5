"""Example: calls weir/weir.h and weir/algo.h by ctypes and selects an algorithm by size.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python3 python/weir_ctypes.py

Needs only the standard library. Buffers are passed as addresses: of host memory with the backend
HOST, of GPU memory with CUDA (for tensors see weir_torch.py). Ranks bootstrap by the environment
variables that torchrun sets. Run as a program, it checks allreduce and allgather on host memory,
each size with the algorithm of its table, and ends with 1 if a result is wrong, 2 if the
environment does not identify the rank. LIBWEIR names the library (default: build/libweir.so).
"""
import ctypes
import os
import sys

INT8, UINT8, INT32, UINT32, INT64, UINT64, HALF, FLOAT, DOUBLE, BFLOAT16 = range(10)
SUM, PROD, MAX, MIN, AVG = range(5)
ALLREDUCE, REDUCE_SCATTER, ALLGATHER = range(3)
HOST, CUDA = range(2)


class Config(ctypes.Structure):
    """struct weir_comm_config, as far as the fields that are set here."""
    _fields_ = [("size", ctypes.c_size_t), ("scratch_bytes", ctypes.c_size_t), ("timeout_ms", ctypes.c_int),
                ("backend", ctypes.c_int), ("device", ctypes.c_int)]


def load():
    """Opens the library and declares the functions that are used."""
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.environ.get("LIBWEIR", os.path.join(here, "../build/libweir.so"))
    library = ctypes.CDLL(path)
    v, s, i, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_char_p
    for name, result, arguments in (
            ("weir_boot_torchrun_create", i, (v,)), ("weir_boot_destroy", None, (v,)),
            ("weir_comm_create", i, (v, v, v)), ("weir_comm_destroy", i, (v,)),
            ("weir_comm_last_algo", text, (v,)), ("weir_last_error", text, ()),
            ("weir_algo_collection_create", i, (v, v, v)),
            ("weir_algo_collection_destroy", None, (v,)), ("weir_algo_find", i, (v, i, text, v)),
            ("weir_algo_execute_args", i, (v, v, v, v, s, s, i, i, v, v, i, i, v)),
            ("weir_alltoallv_device", i, (v, v, s, v, v, v, s, v, v, i, v))):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Communicator:
    """A communicator of all ranks with a table of algorithms.

    algorithms: per collective, pairs of a size in bytes and the name of the algorithm that runs up
    to that size. Above all sizes, and for other collectives, weir selects the algorithm. Creation
    and close are collective. Errors raise RuntimeError with the text of weir_last_error.
    """

    def __init__(self, backend, device=-1, algorithms=None):
        self.library = load()
        self.boot, self.comm, self.collection = (ctypes.c_void_p() for _ in range(3))
        self.check(self.library.weir_boot_torchrun_create(ctypes.byref(self.boot)))
        config = Config(size=ctypes.sizeof(Config), backend=backend, device=device)
        self.check(self.library.weir_comm_create(self.boot, ctypes.byref(config),
                                                 ctypes.byref(self.comm)))
        self.check(self.library.weir_algo_collection_create(self.comm, None,
                                                            ctypes.byref(self.collection)))
        self.table = {collective: [(most, self.find(collective, name))
                                   for most, name in sorted(pairs)]
                      for collective, pairs in (algorithms or {}).items()}

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.library.weir_last_error().decode())

    def find(self, collective, name):
        algorithm = ctypes.c_void_p()
        self.check(self.library.weir_algo_find(self.collection, collective, name.encode(),
                                               ctypes.byref(algorithm)))
        return algorithm

    def choose(self, collective, size_bytes):
        pairs = self.table.setdefault(collective, [])
        if not pairs or pairs[-1][0] < float("inf"):
            pairs.append((float("inf"), self.find(collective, "auto")))
        return next(algorithm for most, algorithm in pairs if size_bytes <= most)

    def execute(self, collective, data, out, in_bytes, out_bytes, dtype, op=SUM, stream=None):
        """Collective; data and out are addresses. Every rank must pass the same sizes."""
        algorithm = self.choose(collective, max(in_bytes, out_bytes))
        self.check(self.library.weir_algo_execute_args(algorithm, self.comm, data, out, in_bytes,
                                                  out_bytes, dtype, op, stream, None, 0, 0, None))

    def algorithm(self):
        """Returns the name of the algorithm that ran the last call."""
        return self.library.weir_comm_last_algo(self.comm).decode()

    def close(self):
        """Collective. All calls must have completed."""
        self.library.weir_algo_collection_destroy(self.collection)
        self.library.weir_comm_destroy(self.comm)
        self.library.weir_boot_destroy(self.boot)


def check_all_reduce(communicator, rank, world, count):
    data = (ctypes.c_int32 * count)(*((rank + 1) * (i % 7) for i in range(count)))
    out = (ctypes.c_int32 * count)()
    bytes_ = ctypes.sizeof(data)
    for op, factor in ((SUM, world * (world + 1) // 2), (MAX, world)):
        communicator.execute(ALLREDUCE, ctypes.addressof(data), ctypes.addressof(out), bytes_,
                             bytes_, INT32, op)
        if list(out) != [factor * (i % 7) for i in range(count)]:
            return "wrong"
    return communicator.algorithm()


def check_all_gather(communicator, rank, world, count):
    data = (ctypes.c_uint8 * count)(*([rank + 1] * count))
    out = (ctypes.c_uint8 * (count * world))()
    communicator.execute(ALLGATHER, ctypes.addressof(data), ctypes.addressof(out), count,
                         count * world, UINT8)
    right = all(out[r * count + i] == r + 1 for r in range(world) for i in range(count))
    return communicator.algorithm() if right else "wrong"


def rank_and_world():
    """Returns both from torchrun's environment; ends with 2 (usage error) if it is incomplete."""
    port = "WEIR_BOOT_PORT" if os.environ.get("WEIR_BOOT_PORT") else "MASTER_PORT"
    numbers = [name for name in ("RANK", "WORLD_SIZE", port)
               if not os.environ.get(name, "").isdecimal()]
    if numbers or not os.environ.get("MASTER_ADDR"):
        wrong = ", ".join(numbers or ["MASTER_ADDR"])
        print(f"{sys.argv[0]}: expected in the environment, as torchrun sets it: {wrong}; start every "
              "rank by torchrun, or with RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 "
              "MASTER_PORT=29500 and the like before it", file=sys.stderr)
        sys.exit(2)
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def main():
    rank, world = rank_and_world()
    communicator = Communicator(HOST, algorithms={ALLREDUCE: [(4096, "packet"), (65536, "packet2")]})
    found = [check_all_reduce(communicator, rank, world, count) for count in (1, 1000, 10000)]
    found += [check_all_gather(communicator, rank, world, count) for count in (1, 333)]
    try:
        communicator.find(ALLREDUCE, "fastest")
        found.append("found an unknown algorithm")
    except RuntimeError as error:
        found.append("named" if "packet2" in str(error) else str(error))
    communicator.close()
    if rank == 0:
        print(" ".join(found))
    return found[:3] != ["packet", "packet", "packet2"] or "wrong" in found or found[-1] != "named"


if __name__ == "__main__":
    sys.exit(main())
