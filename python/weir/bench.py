"""Measures collectives called from Python, and prints the table of nccl-tests.

    python -m weir.bench allreduce -b 8 -e 16M -g 4

Without a launcher it starts the ranks itself (-g); under torchrun or mpirun each process is one rank. Each time is
the mean of a loop; whether the node was busy is not examined. -f and -g are 2 by default, unlike those of the C programs.
The benchmarks of the source tree (bench_allreduce, ...) measure the C call with intervals and full
verification; this program measures what a Python program gets, call overhead included.
"""
from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any, Callable, Optional

from . import _declarations as c
from ._boot import init
from ._library import lib, version
from ._spawn import RankError, spawn
from .communicator import OPS, Communicator
from .errors import WeirError

# Name: method, length of input and output in blocks, bus factor for n ranks.
COLLECTIVES: dict[str, tuple[str, str, Callable[[int], float]]] = {
    "allreduce": ("all_reduce", "same", lambda n: 2 * (n - 1) / n),
    "allgather": ("all_gather", "gather", lambda n: (n - 1) / n),
    "reduce_scatter": ("reduce_scatter", "scatter", lambda n: (n - 1) / n),
    "alltoall": ("all_to_all", "same", lambda n: (n - 1) / n),
    "broadcast": ("broadcast", "same", lambda n: 1.0),
    "reduce": ("reduce", "same", lambda n: 1.0)}
TYPES = {"int8": "int8", "uint8": "uint8", "int32": "int32", "uint32": "uint32", "int64": "int64",
         "uint64": "uint64", "half": "float16", "float": "float32", "double": "float64"}


def size_of(text: str) -> int:
    """Converts "16M" to bytes; suffixes K, M, G are powers of 1024."""
    factor = {"K": 10, "M": 20, "G": 30}.get(text[-1:].upper(), 0)
    try:
        number = int(text[:-1] if factor else text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}': expected a number of bytes, as 16M") from None
    if number < 0:
        raise argparse.ArgumentTypeError(f"'{text}': expected a positive size")
    return number << factor


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m weir.bench", description=(__doc__ or "").split("\n")[0],
                                   epilog="Each time is the mean of a loop; a busy node is not reported.")
    made.add_argument("collective", choices=COLLECTIVES)
    made.add_argument("-b", "--minbytes", type=size_of, default=size_of("8"), help="smallest size (8)")
    made.add_argument("-e", "--maxbytes", type=size_of, default=size_of("16M"), help="largest size (16M)")
    made.add_argument("-f", "--stepfactor", type=int, default=2, help="factor between sizes (2)")
    made.add_argument("-n", "--iters", type=int, default=0, help="iterations; 0: by size (0)")
    made.add_argument("-w", "--warmup_iters", type=int, default=5, help="warm-up iterations (5)")
    made.add_argument("-c", "--check", type=int, default=1, help="verify the results (1)")
    made.add_argument("-d", "--datatype", choices=TYPES, default="float", help="float")
    made.add_argument("-o", "--op", choices=OPS, default="sum", help="sum")
    made.add_argument("-r", "--root", type=int, default=0, help="root of broadcast and reduce (0)")
    made.add_argument("-g", "--ranks", type=int, default=2, help="ranks to start without a launcher (2)")
    made.add_argument("-T", "--timeout", type=int, default=600, help="seconds for the whole run (600)")
    return made


class Trial:
    """One size of one collective: arrays, the prepared call, and its expected result."""

    def __init__(self, comm: Communicator, options: Any, wanted: int, in_place: bool) -> None:
        import numpy
        self.numpy, self.comm, self.options = numpy, comm, options
        method, shape, _ = COLLECTIVES[options.collective]
        n, dtype = comm.size, numpy.dtype(TYPES[options.datatype])
        blocks = n if shape != "same" or options.collective == "alltoall" else 1
        self.part = wanted // dtype.itemsize // blocks
        self.count = self.part * blocks
        self.nbytes = self.count * dtype.itemsize
        larger = comm.empty((self.count,), dtype)
        offset = comm.rank * self.part
        if in_place:
            smaller = larger[offset:offset + self.part] if shape != "same" else larger
        else:
            smaller = comm.empty((self.part if shape != "same" else self.count,), dtype)
        self.data, self.out = (larger, smaller) if shape == "scatter" else (smaller, larger)
        if shape == "same" and not in_place:
            self.data, self.out = smaller, larger
        self.call = comm.prepare(method, self.data, self.out, op=options.op, root=options.root)

    def value(self, rank: int) -> int:
        return rank % 3 + 1

    def expected(self) -> Optional[Any]:
        """Returns the expected output; None if this rank gets none."""
        numpy, n, options = self.numpy, self.comm.size, self.options
        values = [self.value(rank) for rank in range(n)]
        dtype = self.out.dtype
        if options.collective == "broadcast":
            return numpy.full(len(self.out), values[options.root], dtype)
        if options.collective in ("allgather", "alltoall"):
            return numpy.repeat(numpy.array(values, dtype), len(self.out) // n)
        if options.collective == "reduce" and self.comm.rank != options.root:
            return None
        exact = {"sum": sum(values), "prod": int(numpy.prod(values, dtype=object)), "max": max(values),
                 "min": min(values), "avg": sum(values) / n}[options.op]
        if numpy.issubdtype(dtype, numpy.integer):
            exact = int(exact) & ((1 << 8 * dtype.itemsize) - 1)
            return numpy.full(len(self.out), exact, f"u{dtype.itemsize}").view(dtype)
        return numpy.full(len(self.out), exact, dtype)

    def wrong(self) -> int:
        """Runs once on known data; returns the number of wrong elements of all ranks."""
        self.out[:] = 0
        self.data[:] = self.value(self.comm.rank)
        self.call()
        right = self.expected()
        count = 0 if right is None else int((self.out != right).sum())
        return int(self.comm.all_reduce(self.numpy.array([count], "int64"))[0])

    def time_us(self) -> float:
        """Returns the mean time of a call, of the slowest rank."""
        iterations = self.options.iters or max(5, min(2000, int(2e8 / (self.nbytes + 1e5))))
        self.data[:] = 0
        call = self.call
        for _ in range(self.options.warmup_iters):
            call()
        self.comm.barrier()
        start = time.perf_counter()
        for _ in range(iterations):
            call()
        mine = (time.perf_counter() - start) / iterations * 1e6
        return float(self.comm.all_reduce(self.numpy.array([mine]), op="max")[0])


HEADER = """\
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)"""


def print_header(comm: Communicator, options: Any) -> None:
    print(f"# weir.bench {options.collective}, {version()}, Python {sys.version.split()[0]}")
    print(f"# Ranks: {comm.size} on {comm.nodes} node{'s' if comm.nodes > 1 else ''}, backend "
          f"{comm.backend}, transport {comm.transport}")
    print("# Timing: the mean of a loop over prepared calls in Python, of the slowest rank; registered memory; a busy node is not reported")
    print(HEADER, flush=True)


def half_row(comm: Communicator, options: Any, wanted: int, in_place: bool) -> tuple[str, float, int]:
    """Measures one placement; returns its columns, the bus bandwidth, and the wrong elements."""
    if in_place and options.collective == "alltoall":
        return f"{'nan':>9}{'nan':>8}{'nan':>8}{'N/A':>8}", 0.0, 0
    trial = Trial(comm, options, wanted, in_place)
    wrong = trial.wrong() if options.check else 0
    time_us = trial.time_us()
    if wrong:
        return f"{'nan':>9}{'nan':>8}{'nan':>8}{wrong:>8}", 0.0, wrong
    algbw = trial.nbytes / time_us / 1e3
    busbw = algbw * COLLECTIVES[options.collective][2](comm.size)
    return (f"{time_us:9.2f}{algbw:8.2f}{busbw:8.2f}{str(wrong) if options.check else 'N/A':>8}", busbw, wrong)


def measure(comm: Communicator, options: Any) -> int:
    """Runs all sizes; returns the number of wrong elements. Rank 0 prints."""
    if comm.rank == 0:
        print_header(comm, options)
    reduces = options.collective in ("allreduce", "reduce", "reduce_scatter")
    root = options.root if options.collective in ("broadcast", "reduce") else -1
    wanted, total, all_wrong, rows = options.minbytes, 0.0, 0, 0
    itemsize = lib.weir_dtype_bytes(list(TYPES).index(options.datatype))
    while wanted <= options.maxbytes:
        halves = [half_row(comm, options, wanted, in_place) for in_place in (False, True)]
        blocks = comm.size if options.collective not in ("allreduce", "broadcast", "reduce") else 1
        part = wanted // itemsize // blocks
        if comm.rank == 0:
            print(f"{part * blocks * itemsize:12d}  {part if blocks > 1 else part * blocks:12d}"
                  f"{options.datatype:>10}{options.op if reduces else 'none':>8}{root:>8d}"
                  f"{halves[0][0]}{halves[1][0]}", flush=True)
        all_wrong += halves[0][2] + halves[1][2]
        total += sum(half[1] for half in halves) / (1 if options.collective == "alltoall" else 2)
        rows += 1
        wanted = max(wanted * options.stepfactor, wanted + 1)
    if comm.rank == 0:
        print(f"# Out of bounds values : {all_wrong} {'OK' if all_wrong == 0 else 'FAILED'}")
        print(f"# Avg bus bandwidth    : {total / max(rows, 1):.6g}\n#", flush=True)
    return all_wrong


def main(arguments: Optional[list[str]] = None) -> int:
    """Returns the exit code: 0 all right, 1 wrong data, 2 usage, 3 system or environment, 4 deadline."""
    options = parser().parse_args(arguments)
    if options.stepfactor < 2 or options.ranks < 1 or options.iters < 0 or options.warmup_iters < 0:
        parser().error("expected -f of at least 2, -g of at least 1, -n and -w of at least 0")
    launched = {"RANK", "WORLD_SIZE"} <= os.environ.keys() or any(
        name in os.environ for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_STEP_NODELIST"))
    try:
        import numpy  # noqa: F401 - needed by every rank
    except ImportError:
        print("python -m weir.bench: needs NumPy; pip install numpy", file=sys.stderr)
        return 3
    try:
        if launched:
            with init(backend="host") as comm:
                wrong = measure(comm, options)
        else:
            wrong = spawn(measure, options.ranks, options, backend="host", timeout_s=options.timeout)[0]
    except (WeirError, RankError) as error:
        print(f"python -m weir.bench: {str(error).splitlines()[0]}", file=sys.stderr)
        number = getattr(c.Status, error.status, c.Status.WEIR_ERR_SYSTEM)
        return int(lib.weir_status_exit_code(int(number)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
