"""Checks an installation: python -m weir.check

Prints the version, the libraries, the array packages that it finds, and whether the extension module
is in use, and runs every collective on 2 and 4 ranks of this node, on memory of the process and, where
a GPU, PyTorch and a library with CUDA are there, on GPUs. Exit code: 0 if all is right, 1 if a check
failed.
"""
from __future__ import annotations

import argparse
import array
import ctypes
import sys
from importlib import util
from typing import Any, Callable, Optional

from ._fast import native
from ._library import library_path, version
from ._spawn import spawn
from .communicator import Communicator


def _floats(*values: float) -> "array.array[float]":
    return array.array("f", values)


def host_collectives(comm: Communicator) -> list[str]:
    """Runs every collective without any array package; returns the names of those that are wrong."""
    n, me = comm.size, comm.rank
    total = float(sum(range(n)))
    wrong = []

    def expect(name: str, found: "array.array[float]", right: list[float]) -> None:
        if list(found) != right:
            wrong.append(f"{name}: got {list(found)}, expected {right}")

    expect("all_reduce", comm.all_reduce(_floats(me, 1)), [total, n])
    expect("all_gather", comm.all_gather(_floats(me), _floats(*[0] * n)), [float(r) for r in range(n)])
    expect("reduce_scatter", comm.reduce_scatter(_floats(*range(n)), _floats(0)), [float(n * me)])
    expect("all_to_all", comm.all_to_all(_floats(*(10 * me + r for r in range(n))), _floats(*[0] * n)),
           [10.0 * r + me for r in range(n)])
    expect("all_to_all_v", comm.all_to_all_v(_floats(*[me] * n), [1] * n, _floats(*[0] * n)),
           [float(r) for r in range(n)])
    expect("broadcast", comm.broadcast(_floats(me), root=n - 1), [n - 1.0])
    result = comm.reduce(_floats(me), _floats(-1), root=0)
    expect("reduce", result, [total if me == 0 else -1.0])
    out = _floats(-1)
    comm.sendrecv(_floats(me), (me + 1) % n, out, (me - 1) % n)
    expect("sendrecv", out, [float((me - 1) % n)])
    if me < 2 <= n:
        (comm.send(_floats(7), 1) if me == 0 else expect("send and recv", comm.recv(_floats(0), 0), [7.0]))
    part = comm.split(me % 2)
    assert part is not None
    expect("split", part.all_reduce(_floats(1)), [float(part.size)])
    part.destroy()
    comm.barrier()
    return wrong


def gpu_collectives(comm: Communicator) -> list[str]:
    """The same in short on the tensors of a GPU."""
    import torch
    tensor = torch.full((1000,), comm.rank + 1.0, device=f"cuda:{comm.device}")
    comm.all_reduce(tensor)
    right = comm.size * (comm.size + 1) / 2
    return [] if bool((tensor == right).all()) else [f"all_reduce: got {tensor[0]}, expected {right}"]


def gpus() -> int:
    """Returns the number of GPUs that the driver reports; 0 without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    return count.value if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0


NAMES = ("all_reduce, all_gather, reduce_scatter, all_to_all, all_to_all_v, broadcast, reduce, sendrecv, send and recv, "
         "split, barrier")


def main(arguments: Optional[list[str]] = None) -> int:
    """Returns the exit code."""
    argparse.ArgumentParser(prog="python -m weir.check", description=__doc__,
                            formatter_class=argparse.RawDescriptionHelpFormatter).parse_args(arguments)
    print(f"{version()}\n  library {library_path()}\n  nccl    {library_path('libweir_nccl.so')}")
    print(f"  Python  {sys.version.split()[0]}; " + ", ".join(
        f"{name}: {'yes' if util.find_spec(name) else 'no'}" for name in ("numpy", "torch", "cupy", "jax", "pandas")))
    print(f"  module  weir._native: {'in use' if native else 'not in use; calls through ctypes take longer'}")
    cases: list[tuple[str, int, Callable[..., Any], dict[str, Any]]] = [
        (f"host memory, {n} ranks: {NAMES}", n, host_collectives, {"backend": "host"}) for n in (2, 4)]
    failed = 0
    present = gpus()
    if present and util.find_spec("torch"):
        cases.append((f"GPUs, {min(present, 8)} ranks: all_reduce", min(present, 8), gpu_collectives,
                      {"backend": "cuda", "method": "spawn"}))
    for name, size, body, options in cases:
        try:
            wrong = [line for found in spawn(body, size, timeout_s=60, **options) for line in found]
        except Exception as error:
            wrong = [str(error).splitlines()[0]]
        failed += bool(wrong)
        print(f"  {'FAIL' if wrong else 'ok':7} {name}" + "".join(f"\n          {line}" for line in wrong))
    if not present:
        print("  --      GPUs: none")
    elif len(cases) == 2:
        print("  --      GPUs: not checked, which needs PyTorch")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
