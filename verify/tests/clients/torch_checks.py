"""Helpers for the checks of PyTorch: this rank and its GPU, test values, and running the checks.

Rank 0 prints one line per check: "ok NAME"; a rank that finds a fault prints "FAIL NAME reason".
With EAGER=1 the process group is bound to its device from the start: then PyTorch creates
communicators at once, asks for nonblocking ones, and splits them for subgroups.
"""
import os

import torch
import torch.distributed as dist

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
DEVICE = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
IS_EAGER = os.environ.get("EAGER") == "1"


def filled(shape, value, dtype=torch.float32):
    return torch.full((shape,) if isinstance(shape, int) else shape, value, dtype=dtype,
                      device=DEVICE)


def by_rank(count):
    """Returns the concatenation of all ranks' blocks, each filled with its rank's number."""
    return torch.arange(WORLD, device=DEVICE).float().repeat_interleave(count)


def splits_of(step):
    """Returns the element counts from each rank to each; they differ between steps, some are 0."""
    return [[(37 * step + 11 * f + 5 * t) % 9 * 100 for t in range(WORLD)] for f in range(WORLD)]


def fail_at(got, expected):
    raise AssertionError(f"got {got.flatten()[:4].tolist()}..., "
                         f"expected {expected.flatten()[:4].tolist()}...")


def demand_equal(got, expected):
    if not torch.equal(got, expected):
        fail_at(got, expected)


def demand_close(got, expected, tolerance):
    if not torch.allclose(got.float(), expected.float(), rtol=tolerance, atol=tolerance):
        fail_at(got, expected)


def run(check):
    """Runs a check; returns whether it passed."""
    why = ""
    try:
        check()
        torch.cuda.synchronize()
    except Exception as error:  # pylint: disable=broad-except
        why = f"rank {RANK}: {type(error).__name__}: {error}".replace("\n", " ")[:300]
    if why:
        print(f"FAIL {check.__name__} {why}", flush=True)
    elif RANK == 0:
        print(f"ok {check.__name__}", flush=True)
    return not why


def main(checks):
    torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl", device_id=DEVICE if IS_EAGER else None)
    for check in checks:
        if not run(check):
            os._exit(1)  # otherwise the other ranks would wait for this one in their next call
    if dist.is_initialized():
        dist.destroy_process_group()
