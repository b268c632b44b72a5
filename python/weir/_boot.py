"""Creates communicators: from the environment of a launcher, an MPI communicator, or a unique id."""
from __future__ import annotations

import ctypes
import os
import stat
import time
from typing import Any, Callable, Optional

from . import _declarations as c
from . import _interrupt
from ._library import check, lib
from .communicator import Communicator, _Boot, _config
from .errors import InvalidError, SystemCallError, TimedOutError

UniqueId = bytes


def unique_id() -> UniqueId:
    """Creates the id of one job: 128 bytes, to be sent to every rank by any means.

    This process, which need not be a rank, listens for the ranks until all have joined. An id serves
    one `init`.
    """
    made = c.weir_unique_id()
    check(lib.weir_unique_id_create(ctypes.byref(made)))
    return ctypes.string_at(ctypes.addressof(made), ctypes.sizeof(made))


def _timeout_s() -> float:
    text = os.environ.get("WEIR_TIMEOUT_MS", "")
    return int(text) / 1000 if text.isdecimal() and int(text) > 0 else 30.0


def _boot_of(create: Callable[[Any], int]) -> _Boot:
    handle = ctypes.c_void_p()
    check(create(ctypes.byref(handle)))
    return _Boot(handle)


def _from_id(made: UniqueId, rank: int, size: int) -> _Boot:
    if len(made) != c.WEIR_UNIQUE_ID_BYTES:
        raise InvalidError(f"id has {len(made)} bytes; expected the {c.WEIR_UNIQUE_ID_BYTES} of unique_id()")
    held = c.weir_unique_id.from_buffer_copy(made)
    return _boot_of(lambda boot: int(lib.weir_boot_tcp_create(ctypes.byref(held), rank, size, boot)))


def _from_mpi(mpi: Any) -> _Boot:
    """Over mpi4py: rank 0 creates a unique id and broadcasts it."""
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


# Launchers that number their processes: rank, size, ranks of this node, name of the job.
_LAUNCHERS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "PMI_JOBID"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE", "PMI_ID"))


def _read_own_file(path: str) -> bytes:
    """Reads a file if it belongs to this user; empty if it is not there yet."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        about = os.fstat(file)
        if about.st_uid != os.getuid() or not stat.S_ISREG(about.st_mode) or about.st_mode & 0o077:
            return b""
        return os.read(file, 4096)
    finally:
        os.close(file)


def _from_file(rank: int, size: int, job: str) -> _Boot:
    """On one node without another way: rank 0 leaves a unique id in a file that only the user can read.

    The name contains the launcher's process, which all ranks have as their parent, so that a file of
    an earlier job is not taken for this one's.
    """
    folder = "/dev/shm" if os.path.isdir("/dev/shm") else "/tmp"
    path = os.path.join(folder, f"weir-python-{os.getuid()}-" + "".join(
        letter if letter.isalnum() else "_" for letter in job)[-64:] + f"-{os.getppid()}")
    if rank == 0:
        made = unique_id()
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        file = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        os.write(file, made)
        os.close(file)
        os.rename(path + ".new", path)
        try:
            return _from_id(made, rank, size)
        finally:
            os.unlink(path)
    deadline = time.monotonic() + _timeout_s()
    while time.monotonic() < deadline:
        made = _read_own_file(path)
        if len(made) == c.WEIR_UNIQUE_ID_BYTES:
            return _from_id(made, rank, size)
        time.sleep(0.005)
    raise TimedOutError(f"rank {rank}: rank 0 left no {path} within {_timeout_s():g} s")


def _launcher_ranks() -> Optional[tuple[int, int, bool, str]]:
    """Returns rank, size, whether all ranks are on this node, and the job's name, from an MPI launcher."""
    for rank, size, local, job in _LAUNCHERS:
        if rank in os.environ and size in os.environ:
            return (int(os.environ[rank]), int(os.environ[size]),
                    os.environ.get(local) == os.environ[size], os.environ.get(job, "job"))
    return None


def _refuse_contradiction() -> None:
    """Raises if RANK and WORLD_SIZE contradict the variables of an MPI or a PMIx launcher, as a script's that are
    left over. torchrun's own workers may be inside of another launcher's job."""
    here = os.environ
    if not (here.get("RANK") and here.get("WORLD_SIZE")) or here.get("TORCHELASTIC_RUN_ID"):
        return
    known = [row[:2] for row in _LAUNCHERS if row[0] in here and row[1] in here]
    known += [("PMIX_RANK", "")] if "PMIX_RANK" in here else []
    for rank, size in known[:1]:
        if here[rank] != here["RANK"] or (size and here[size] != here["WORLD_SIZE"]):
            others = f"{rank}={here[rank]}" + (f" and {size}={here[size]}" if size else "")
            raise InvalidError(f"RANK={here['RANK']} and WORLD_SIZE={here['WORLD_SIZE']} (torchrun's) contradict {others}: "
                               "unset those that are not of this run, or name the launcher by WEIR_LAUNCHER")


def _detected_launcher() -> str:
    """Returns the launcher whose variables the environment has: what WEIR_LAUNCHER can name, or "file"."""
    _refuse_contradiction()
    here = os.environ
    if {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= here.keys():
        return "torchrun"
    if "SLURM_PROCID" in here and "SLURM_STEP_NODELIST" in here:
        return "slurm"
    ranks = _launcher_ranks()
    if ranks is not None and ranks[2]:
        return "file"
    return "pmix" if "PMIX_RANK" in here else "none"


def _from_environment() -> _Boot:
    """Follows WEIR_LAUNCHER, or else the launcher's variables."""
    named = os.environ.get("WEIR_LAUNCHER", "auto") or "auto"
    launcher = _detected_launcher() if named == "auto" else named
    if launcher in ("torchrun", "slurm", "pmix"):
        create = getattr(lib, f"weir_boot_{launcher}_create")
        return _boot_of(lambda boot: int(create(boot)))
    if launcher == "file":
        found = _launcher_ranks()
        assert found is not None
        return _from_file(found[0], found[1], found[3])
    if launcher == "mpi":
        from mpi4py import MPI
        return _from_mpi(MPI.COMM_WORLD)
    if launcher != "none":
        raise InvalidError(f"WEIR_LAUNCHER={named}: expected auto, none, mpi, pmix, slurm or torchrun")
    raise InvalidError("the environment names no job: start the program with torchrun, mpirun or srun, or "
                       "pass an mpi4py communicator, or id=, rank= and size=; weir.spawn starts ranks on "
                       "this node itself")


def init(mpi: Any = None, *, id: Optional[UniqueId] = None, rank: Optional[int] = None,
         size: Optional[int] = None, backend: str = "auto", device: Optional[int] = None,
         timeout_ms: int = 0, scratch_bytes: int = 0) -> Communicator:
    """Creates the communicator of all ranks of a job. Collective; blocks until all ranks have joined.

    mpi: an mpi4py communicator. id, rank, size: a `unique_id()`, this rank, the number of ranks.
    Without these, the environment identifies the job, in this order: torchrun (RANK, WORLD_SIZE,
    MASTER_ADDR, MASTER_PORT), srun, the launchers of Open MPI, MPICH and MVAPICH on one node, PMIx.
    WEIR_LAUNCHER (torchrun, slurm, pmix, mpi) selects one; mpi needs mpi4py. Without it, RANK and WORLD_SIZE
    must not contradict the variables of an MPI or PMIx launcher.

    backend: "host" (arrays in memory of the process), "cuda" (on this rank's GPU) or "auto" (the
    environment variable WEIR_BACKEND; if that is unset, cuda if every rank can have a GPU). device: the
    CUDA device number; None: by local rank. timeout_ms: the deadline of every wait; 0: WEIR_TIMEOUT_MS,
    else 30 s. scratch_bytes: the library's memory per rank on the host; 0: the default.

    Raises InvalidError if arguments or environment do not identify the job, TimedOutError if ranks do not
    join, UnsupportedError if the backend cannot serve these ranks.
    """
    config = _config(backend, device, timeout_ms, scratch_bytes)
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
