#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
toolkit=/usr/local/cuda/lib64
ls "$toolkit"/libcudnn.so.9 "$toolkit"/libcublas.so.13 >/dev/null 2>&1 || lacks "no CUDA 13 toolkit with cuDNN, which PyTorch's wheel is linked with"
python_packages --no-deps torch==2.15.0 nvidia-nccl-cu13==2.30.7 nvidia-nvshmem-cu13==3.7.2 nvidia-cusparselt-cu13==0.8.1 nvidia-cufile==1.20.0.107 \
    numpy==2.4.6 typing_extensions==4.16.0 filelock==4.3.1 sympy==1.14.0 mpmath==1.3.0 networkx==3.6.1 jinja2==3.1.6 markupsafe==3.0.4 fsspec==2026.9.0
LD_LIBRARY_PATH=$toolkit:$(find venv -path '*/nvidia/*' -name lib -type d | sed "s|^|$work/|" | paste -sd:)
export LD_LIBRARY_PATH
says "PyTorch's profiler records a reduce_scatter of gloo as an allreduce of the whole input, two coalesced allreduces as one event, and no event names the group"
cat >trace.py <<'P'
import json
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.profiler import ProfilerActivity, profile


def work(rank, store):
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        dist.reduce_scatter_tensor(torch.empty(4), torch.ones(8))
        dist.all_to_all_single(torch.empty([3, 7][rank]), torch.ones([4, 6][rank]), [[1, 2], [3, 4]][rank], [[1, 3], [2, 4]][rank])
        with dist._coalescing_manager():
            dist.all_reduce(torch.ones(3))
            dist.all_reduce(torch.ones(5))
    if rank == 0:
        profiler.export_chrome_trace("trace.json")
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.start_processes(work, args=(os.path.abspath("store"),), nprocs=2, start_method="fork")
    with open("trace.json", encoding="utf-8") as file:
        events = sorted((e for e in json.load(file)["traceEvents"] if e.get("ph") == "X"), key=lambda e: e["ts"])
    for event in events:
        if event["name"].startswith("gloo:"):
            print(event["name"], str(event["args"].get("Input Dims")).replace(" ", ""))
    print(sum("Process Group" in key or "Group" in key for event in events for key in event.get("args", {})))
    print(sum(event["name"] == "record_param_comms" for event in events))
    print(*(event["args"]["Concrete Inputs"][3:5] for event in events if event["name"] == "c10d::alltoall_base_"))
P
timeout 200 python3 trace.py >out 2>log || { tail -n 2 log; exit 2; }
expect "reduce_scatter_tensor of 8 elements" "gloo:all_reduce [[8]]" "$(sed -n 1p out)"
expect "all_to_all_single" "gloo:all_to_all [[4]]" "$(sed -n 2p out)"
expect "two coalesced allreduces" "gloo:all_reduce [[3],[5]]" "$(sed -n 3p out)"
expect "arguments that name a group, record_param_comms events" "0 0" "$(sed -n 4,5p out | xargs)"
expect "splits, in the arguments of c10d's event only" "['[1, 2]', '[1, 3]']" "$(sed -n 6p out)"
finish
