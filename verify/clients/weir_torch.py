"""weir.h by ctypes for PyTorch: a communicator on tensors, and a drop-in all_to_all_single.

    torchrun --nproc-per-node 4 verify/clients/weir_torch.py

Communicator meets its peers by torchrun's environment (weir_boot_torchrun_create), works on
tensors' data_ptr() in the current stream, and lets weir's tuning, or a table of sizes and
algorithms of the caller's, choose. AllToAll has splits that may change on every call: they lie in
tensors of the GPU that are made once and written in the stream's order, so no call waits for
the host or allocates. Run as a program it checks both against torch.distributed. LIBWEIR names the
library (build/libweir.so).
"""
import ctypes
import os
import sys

import torch
import torch.distributed as dist

DTYPES = {torch.int8: 0, torch.uint8: 1, torch.int32: 2, torch.int64: 4, torch.float16: 6,
          torch.float32: 7, torch.float64: 8, torch.bfloat16: 9}
SUM, PROD, MAX, MIN, AVG = range(5)
ALLREDUCE = 0
CUDA = 1


class Config(ctypes.Structure):
    """weir_comm_config"""
    _fields_ = [("scratch_bytes", ctypes.c_size_t), ("timeout_ms", ctypes.c_int),
                ("backend", ctypes.c_int), ("device", ctypes.c_int)]


def load():
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.environ.get("LIBWEIR", os.path.join(here, "../../build/libweir.so"))
    library = ctypes.CDLL(path)
    v, s, i = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    for name, arguments in {
            "weir_boot_torchrun_create": (v,), "weir_comm_create": (v, v, v),
            "weir_allreduce": (v, v, v, s, i, i, v), "weir_comm_set_algo": (v, i, ctypes.c_char_p),
            "weir_alltoallv_device": (v, v, s, v, v, v, s, v, v, i, v)}.items():
        getattr(library, name).argtypes = arguments
    for name in ("weir_last_error", "weir_comm_last_algo"):
        getattr(library, name).restype = ctypes.c_char_p
    library.weir_comm_last_algo.argtypes = (v,)
    for name in ("weir_comm_destroy", "weir_boot_destroy"):
        getattr(library, name).argtypes, getattr(library, name).restype = (v,), None
    return library


class Communicator:
    """algorithms: pairs of a size in bytes and a name: up to that size, that algorithm."""

    def __init__(self, device, algorithms=()):
        self.library, self.algorithms = load(), sorted(algorithms)
        self.boot, self.comm, self.device = ctypes.c_void_p(), ctypes.c_void_p(), device
        self.check(self.library.weir_boot_torchrun_create(ctypes.byref(self.boot)))
        config = Config(backend=CUDA, device=1 + device.index)
        self.check(self.library.weir_comm_create(self.boot, ctypes.byref(config),
                                                 ctypes.byref(self.comm)))
        self.chosen = "auto"

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.library.weir_last_error().decode())

    def choose(self, size_bytes):
        name = next((name for most, name in self.algorithms if size_bytes <= most), "auto")
        if name != self.chosen:
            self.check(self.library.weir_comm_set_algo(self.comm, ALLREDUCE, name.encode()))
            self.chosen = name

    def all_reduce(self, data, op=SUM):
        """In place, in the current stream. Every rank calls it with the same size."""
        if not data.is_contiguous() or data.device != self.device:
            raise ValueError(f"expected a contiguous tensor on {self.device}")
        self.choose(data.numel() * data.element_size())
        self.check(self.library.weir_allreduce(
            self.comm, data.data_ptr(), data.data_ptr(), data.numel(), DTYPES[data.dtype], op,
            torch.cuda.current_stream(self.device).cuda_stream))

    def algorithm(self):
        return self.library.weir_comm_last_algo(self.comm).decode()

    def close(self):
        torch.cuda.synchronize(self.device)
        self.library.weir_comm_destroy(self.comm)
        self.library.weir_boot_destroy(self.boot)


class AllToAll:
    """all_to_all_single over a Communicator of the whole world."""

    def __init__(self, communicator, world):
        self.communicator, self.world = communicator, world
        self.splits = torch.zeros(4, world, dtype=torch.int64, device=communicator.device)

    @staticmethod
    def displacements(counts):
        return [sum(counts[:i]) for i in range(len(counts))]

    def all_to_all_single(self, output, data, output_split_sizes=None, input_split_sizes=None):
        each = data.shape[0] // self.world
        sent = list(input_split_sizes or [each] * self.world)
        taken = list(output_split_sizes or [output.shape[0] // self.world] * self.world)
        row = data[0].numel() if data.dim() > 1 else 1
        rows = [[row * x for x in part] for part in (sent, self.displacements(sent), taken,
                                                    self.displacements(taken))]
        # Pageable memory: CUDA has taken a copy when this returns, and waits for nothing.
        self.splits.copy_(torch.tensor(rows, dtype=torch.int64), non_blocking=True)
        at = [part.data_ptr() for part in self.splits]
        self.communicator.check(self.communicator.library.weir_alltoallv_device(
            self.communicator.comm, data.data_ptr(), data.numel() * data.element_size(), at[0],
            at[1], output.data_ptr(), output.numel() * output.element_size(), at[2], at[3],
            DTYPES[data.dtype], torch.cuda.current_stream().cuda_stream))


def check_all_reduce(communicator):
    for dtype in DTYPES:
        for count in (1, 4096, 1 << 20, (1 << 22) + 3):
            mine = (torch.arange(count, device=communicator.device) % 5).to(dtype)
            theirs = mine.clone()
            communicator.all_reduce(mine)
            dist.all_reduce(theirs)
            if not torch.equal(mine, theirs):
                return f"{dtype} x {count}"
    return ""


def check_all_to_all(communicator, rank, world):
    exchange = AllToAll(communicator, world)
    for turn in range(50):
        table = [[(31 * turn + 7 * f + 3 * t) % 8 * 64 for t in range(world)] for f in range(world)]
        sent, taken = table[rank], [table[f][rank] for f in range(world)]
        data = torch.randn(sum(sent), 16, device=communicator.device)
        mine = torch.zeros(sum(taken), 16, device=communicator.device)
        theirs = torch.zeros_like(mine)
        exchange.all_to_all_single(mine, data, taken, sent)
        dist.all_to_all_single(theirs, data, taken, sent)
        if not torch.equal(mine, theirs):
            return f"turn {turn}"
    return ""


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    communicator = Communicator(device, [(64 << 10, "packet"), (4 << 20, "ll128")])
    failed = 0
    for name, why in (("weir_all_reduce", check_all_reduce(communicator)),
                      ("weir_all_to_all_single", check_all_to_all(communicator, rank, world))):
        torch.cuda.synchronize()
        failed += bool(why)
        if why:
            print(f"FAIL {name} rank {rank}: {why}", flush=True)
        elif rank == 0:
            print(f"ok {name}", flush=True)
    communicator.close()
    dist.destroy_process_group()
    return failed


if __name__ == "__main__":
    sys.exit(main())
