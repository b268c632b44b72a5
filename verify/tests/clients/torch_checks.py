"""What the checks of PyTorch share: this rank and its GPU, values, and how checks run.

Rank 0 prints a line a check: "ok NAME"; the rank that finds a fault "FAIL NAME reason". With
EAGER=1 the group is bound to its device from the start: then PyTorch makes communicators at once,
asks for ones that do not block, and divides them for subgroups.
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
    """What every rank's block holds where each fills its own with its number."""
    return torch.arange(WORLD, device=DEVICE).float().repeat_interleave(count)


def splits_of(turn):
    """Elements from each rank to each, other ones in each turn, some none."""
    return [[(37 * turn + 11 * f + 5 * t) % 9 * 100 for t in range(WORLD)] for f in range(WORLD)]


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
    """Whether it found nothing."""
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
            os._exit(1)  # the others' next call would wait for this rank
    if dist.is_initialized():
        dist.destroy_process_group()
