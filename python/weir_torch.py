"""Example: weir by ctypes on PyTorch's tensors, and a replacement for all_to_all_single.

    torchrun --nproc-per-node 4 python/weir_torch.py

TensorCommunicator runs on tensors' data_ptr() in the current stream and selects an algorithm by
size, from the caller's table or else by weir's tuning (see weir_ctypes.py). AllToAll allows splits
that change on every call: they are stored in one GPU tensor that is allocated once and written in
stream order, so that no call synchronises with the host. Run as a program, it checks both against
torch.distributed. LIBWEIR names the library (default: build/libweir.so).
"""
import os
import sys

import torch
import torch.distributed as dist
import weir_ctypes as weir

DTYPES = {torch.int8: weir.INT8, torch.uint8: weir.UINT8, torch.int32: weir.INT32,
          torch.int64: weir.INT64, torch.float16: weir.HALF, torch.float32: weir.FLOAT,
          torch.float64: weir.DOUBLE, torch.bfloat16: weir.BFLOAT16}


class TensorCommunicator(weir.Communicator):
    """algorithms: pairs of a size in bytes and the name of an allreduce algorithm."""

    def __init__(self, device, algorithms=()):
        super().__init__(weir.CUDA, device.index, {weir.ALLREDUCE: algorithms})
        self.device = device

    def all_reduce(self, data, op=weir.SUM):
        """Collective, in place, in the current stream. Every rank must pass the same size."""
        if not data.is_contiguous() or data.device != self.device:
            raise ValueError(f"expected a contiguous tensor on {self.device}")
        size_bytes = data.numel() * data.element_size()
        self.execute(weir.ALLREDUCE, data.data_ptr(), data.data_ptr(), size_bytes, size_bytes,
                     DTYPES[data.dtype], op, torch.cuda.current_stream(self.device).cuda_stream)

    def close(self):
        torch.cuda.synchronize(self.device)
        super().close()


class AllToAll:
    """all_to_all_single over a TensorCommunicator of all ranks; returns without waiting for the GPU."""

    def __init__(self, communicator, world):
        self.communicator, self.world = communicator, world
        self.splits = torch.zeros(4, world, dtype=torch.int64, device=communicator.device)

    @staticmethod
    def displacements(counts):
        return [sum(counts[:i]) for i in range(len(counts))]

    def all_to_all_single(self, output, data, output_split_sizes=None, input_split_sizes=None):
        equal = data.shape[0] // self.world
        sent = list(input_split_sizes or [equal] * self.world)
        received = list(output_split_sizes or [output.shape[0] // self.world] * self.world)
        row = data[0].numel() if data.dim() > 1 else 1
        rows = [[row * x for x in part] for part in (sent, self.displacements(sent), received,
                                                    self.displacements(received))]
        # The source is pageable memory, of which CUDA has made a copy when this returns.
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
    for step in range(50):
        table = [[(31 * step + 7 * f + 3 * t) % 8 * 64 for t in range(world)] for f in range(world)]
        sent, received = table[rank], [table[f][rank] for f in range(world)]
        data = torch.randn(sum(sent), 16, device=communicator.device)
        mine = torch.zeros(sum(received), 16, device=communicator.device)
        theirs = torch.zeros_like(mine)
        exchange.all_to_all_single(mine, data, received, sent)
        dist.all_to_all_single(theirs, data, received, sent)
        if not torch.equal(mine, theirs):
            return f"step {step}"
    return ""


def main():
    rank, world = weir.rank_and_world()
    local = int(os.environ.get("LOCAL_RANK", rank))
    device = torch.device("cuda", local % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    communicator = TensorCommunicator(device, [(64 << 10, "packet"), (4 << 20, "ll128")])
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
