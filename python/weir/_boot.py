"""Creates communicators: from the environment of a launcher, an MPI communicator, or a unique id."""
from __future__ import annotations

import ctypes
import os
import sys
from typing import Any, Callable, Optional

from . import _declarations as c
from . import _interrupt
from ._library import check, lib
from .communicator import Communicator, _Boot, _config
from .errors import InvalidError, SystemCallError

UniqueId = bytes


def unique_id() -> UniqueId:
    """Creates the id of one job: 128 bytes, to be sent to every rank by any means.

    This process, which need not be a rank, listens for the ranks until all have joined. An id serves
    one `init`.
    """
    made = c.weir_unique_id()
    check(lib.weir_unique_id_create(ctypes.byref(made)))
    return ctypes.string_at(ctypes.addressof(made), ctypes.sizeof(made))


def _boot_of(create: Callable[[Any], int]) -> _Boot:
    handle = ctypes.c_void_p()
    check(create(ctypes.byref(handle)))
    return _Boot(handle)


def _from_id(made: UniqueId, rank: int, size: int) -> _Boot:
    if len(made) != c.WEIR_UNIQUE_ID_BYTES:
        raise InvalidError(f"id has {len(made)} bytes; expected the {c.WEIR_UNIQUE_ID_BYTES} of unique_id()")
    held = c.weir_unique_id.from_buffer_copy(made)
    return _boot_of(lambda boot: int(lib.weir_boot_tcp_create(ctypes.byref(held), rank, size, boot)))


def _check_launcher(mpi: Any) -> None:
    """Refuses an MPI that sees fewer processes than the launcher started: of another MPI, it makes each process
    a job of one rank. The variables of the innermost launcher come first, as in lib/boot/mpi.c."""
    module = sys.modules.get("mpi4py.MPI")
    if module is None or not isinstance(mpi, module.Comm):
        return
    world = module.COMM_WORLD.Get_size()
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"):
        launched = os.environ.get(name, "")
        if not launched:
            continue
        if launched.isdecimal() and int(launched) > world:
            library = module.Get_library_version().split(",")[0].split("\n")[0]
            raise SystemCallError(f"the launcher started {launched} processes ({name}), but MPI sees {world}; use the "
                                  f"mpirun of the MPI that mpi4py uses ({library})")
        return


def _from_mpi(mpi: Any) -> _Boot:
    """Over mpi4py: rank 0 creates a unique id and broadcasts it."""
    _check_launcher(mpi)
    rank, size = mpi.Get_rank(), mpi.Get_size()
    made, failure = b"", ""
    if rank == 0:
        try:
            made = unique_id()
        except Exception as error:  # the other ranks must not wait for the id
            failure = str(error)
    made, failure = mpi.bcast((made, failure), root=0)
    if failure:
        raise SystemCallError(f"rank 0 could not create a unique id: {failure}")
    return _from_id(made, rank, size)


def _is_step_of_one_task() -> bool:
    """Returns whether this process is the only task of a Slurm step, which the library takes for no launcher."""
    here = os.environ
    return bool(here.get("SLURM_PROCID") and here.get("SLURM_STEP_NODELIST")
                and (here.get("SLURM_STEP_NUM_TASKS") or here.get("SLURM_NTASKS")) == "1")


def _from_environment() -> _Boot:
    """Joins the launcher that the library finds. A Slurm step of one task is a job of one rank."""
    named = os.environ.get("WEIR_LAUNCHER") or "auto"
    if named == "mpi":
        from mpi4py import MPI
        return _from_mpi(MPI.COMM_WORLD)
    boot = _boot_of(lambda boot: int(lib.weir_boot_launcher_create(boot)))
    if boot.handle.value is None and named == "auto" and _is_step_of_one_task():
        boot = _boot_of(lambda boot: int(lib.weir_boot_slurm_create(boot)))
    if boot.handle.value is None:
        raise InvalidError("the environment names no job: start the program with torchrun, mpirun or srun, or "
                           "pass an mpi4py communicator, or id=, rank= and size=; weir.spawn starts ranks on "
                           "this node itself")
    return boot


def init(mpi: Any = None, *, id: Optional[UniqueId] = None, rank: Optional[int] = None,
         size: Optional[int] = None, backend: str = "auto", device: Optional[int] = None,
         timeout_ms: int = 0, scratch_bytes: int = 0, invariant: bool = False) -> Communicator:
    """Creates the communicator of all ranks of a job. Collective; blocks until all ranks have joined.

    - mpi: an mpi4py communicator.
    - id, rank, size: a `unique_id()`, this rank, the number of ranks.
    - backend: "host" (arrays in host memory), "cuda" (on this rank's GPU) or "auto": the environment variable
      WEIR_BACKEND, else cuda if every rank can have a GPU.
    - device: the CUDA device number; None: by local rank.
    - timeout_ms: the deadline of every wait; 0: WEIR_TIMEOUT_MS, else 30 s.
    - scratch_bytes: the library's memory per rank on the host; 0: the default.
    - invariant: reductions have bits that depend only on the contributions and the number of ranks, not on size,
      algorithm, memory or nodes (WEIR_INVARIANT=1 has the same effect).

    Without mpi and id, the variables of the launcher identify the job, as for `weir_boot_launcher_create` in C. A Slurm
    step of one task is a job of one rank. WEIR_LAUNCHER (torchrun, slurm, pmix, mpi) selects a launcher if the variables
    of several are set; mpi needs mpi4py.

    Raises InvalidError if arguments or environment do not identify the job, TimedOutError if ranks do not
    join, UnsupportedError if the backend cannot serve these ranks.
    """
    config = _config(backend, device, timeout_ms, scratch_bytes, invariant)
    if id is not None or rank is not None or size is not None:
        if id is None or rank is None or size is None or mpi is not None:
            raise InvalidError("id, rank and size belong together, and exclude an MPI communicator")
        made, this, count = id, rank, size

        def create() -> _Boot:
            return _from_id(made, this, count)
    elif mpi is not None:
        def create() -> _Boot:
            return _from_mpi(mpi)
    else:
        create = _from_environment
    handle = ctypes.c_void_p()

    def body() -> _Boot:
        boot = create()
        check(lib.weir_comm_create(boot.handle, ctypes.byref(config), ctypes.byref(handle)))
        return boot

    boot = body() if mpi is not None else _interrupt.interruptible(body)
    assert handle.value is not None
    return Communicator(handle.value, boot)


# ------------------------------------------------------------------------ pairs

class _PairBoot:
    """The bootstrap of two ranks of a communicator, over the communicator's bootstrap. The lower rank is
    rank 0. Messages of one pair are in order, so both directions are enough for an allgather."""

    TAG = 0x7072

    def __init__(self, comm: Communicator, peer: int) -> None:
        self.comm, self.peer, self.first = comm, peer, comm.rank < peer
        self.boot = lib.weir_comm_boot(comm._live())
        kinds: Any = dict(c.weir_boot_ops._fields_)  # type: ignore[arg-type]
        self.name = ctypes.create_string_buffer(b"pair")
        self.callbacks = {name: kinds[name](getattr(self, "on_" + name))
                          for name in ("allgather", "send", "recv", "barrier", "destroy")}
        self.ops = c.weir_boot_ops(name=ctypes.addressof(self.name), **self.callbacks)

    def on_send(self, context: Any, data: Any, length: int, peer: int, tag: int) -> int:
        return int(lib.weir_boot_send(self.boot, data, length, self.peer, tag))

    def on_recv(self, context: Any, data: Any, length: int, peer: int, tag: int) -> int:
        return int(lib.weir_boot_recv(self.boot, data, length, self.peer, tag))

    def on_allgather(self, context: Any, all: Any, length: int) -> int:
        mine = (all or 0) + (0 if self.first else length)
        theirs = (all or 0) + (length if self.first else 0)
        steps = [(lib.weir_boot_send, mine), (lib.weir_boot_recv, theirs)]
        for function, data in steps if self.first else reversed(steps):
            status = int(function(self.boot, data, length, self.peer, self.TAG))
            if status:
                return status
        return 0

    def on_barrier(self, context: Any) -> int:
        word = ctypes.create_string_buffer(2)
        return self.on_allgather(context, ctypes.addressof(word), 1)

    def on_destroy(self, context: Any) -> None:
        return None


def pair_boot(comm: Communicator, peer: int) -> _Boot:
    """Returns a bootstrap of this rank and a peer of a communicator. Local."""
    pair = _PairBoot(comm, peer)
    handle = ctypes.c_void_p()
    check(lib.weir_boot_create(ctypes.byref(pair.ops), None, 0 if pair.first else 1, 2,
                               ctypes.byref(handle)))
    return _Boot(handle, pair)
