"""PyTorch's symmetric memory as a peer of the benchmarks on GPUs of one node (written for torch 2.11):

    bench_allreduce -g 2 --backend cuda -G 20 --peer py:peer_torch.py:one_shot --peer py:peer_torch.py:two_shot

Modes: one_shot reads the input of all ranks in symmetric memory. one_shot_copy and two_shot also copy
the input into symmetric memory, as calls on ordinary tensors need (two_shot overwrites it).
TORCH_SYMM_MEM_DISABLE_MULTICAST=1 keeps PyTorch off NVLink multicast."""
import os
import socket

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

name = "torch-symm"
version = torch.__version__.split("+")[0]
DTYPES = {"float": torch.float32, "half": torch.float16, "bfloat16": torch.bfloat16}
MODES = ("one_shot", "one_shot_copy", "two_shot")
MOST_BYTES = 1 << 27
VARIABLE = "TORCH_SYMM_MEM_DISABLE_MULTICAST"
settings = f"{VARIABLE}={os.environ.get(VARIABLE, '0')} ({'environment' if VARIABLE in os.environ else 'default'})"


def create(job):
    if job.device < 0:
        raise RuntimeError("it works on GPUs; give --backend cuda")
    if (job.mode or "one_shot") not in MODES:
        raise RuntimeError("its modes are " + ", ".join(MODES))
    torch.cuda.set_device(job.device)
    torch.cuda.set_stream(torch.cuda.ExternalStream(job.stream))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(job.allgather(b"%5d" % free.getsockname()[1])[0])
    store = dist.TCPStore("127.0.0.1", port, job.nranks, job.rank == 0)
    dist.init_process_group("nccl", store=store, rank=job.rank, world_size=job.nranks)
    job.group = dist.group.WORLD.group_name
    job.symmetric = symm_mem.empty(MOST_BYTES, dtype=torch.uint8, device=f"cuda:{job.device}")
    symm_mem.rendezvous(job.symmetric, dist.group.WORLD)
    return job


def refuses(job, call):
    if call.collective != "allreduce" or call.op != "sum":
        return "this peer has only sums by allreduce"
    if call.dtype not in ("float", "bfloat16"):
        return "it has only float and bfloat16"
    if call.in_bytes > MOST_BYTES:
        return "this peer's memory holds 128 MiB"
    if call.in_bytes % (16 * job.nranks if job.mode == "two_shot" else 4):
        return "its messages are multiples of 16 B for each rank"
    return None


def prepare(job, call):
    job.input, job.output = (torch.as_tensor(memory, device=f"cuda:{job.device}").view(DTYPES[call.dtype])
                             for memory in (call.input, call.output))
    job.shared = job.symmetric[:call.in_bytes].view(DTYPES[call.dtype])
    job.shared.copy_(job.input)


def run(job, _):
    if job.mode == "two_shot":
        job.shared.copy_(job.input)
        torch.ops.symm_mem.two_shot_all_reduce_out(job.shared, "sum", job.group, job.output)
    elif job.mode == "one_shot_copy":
        torch.ops.symm_mem.one_shot_all_reduce_copy_out(job.shared, job.input, "sum", job.group, job.output)
    else:
        torch.ops.symm_mem.one_shot_all_reduce_out(job.shared, "sum", job.group, job.output)
