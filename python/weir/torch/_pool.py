"""GPU tensors in registered memory: a torch.cuda.MemPool whose allocator is weir_mem_alloc.

The allocator's functions are C functions of the extension module (native/pool.c), because PyTorch calls them
without the interpreter lock.
"""
from __future__ import annotations

import ctypes
from contextlib import contextmanager
from typing import Any, Iterator, Optional

import torch

from .. import _fast
from .._library import check, lib
from ..communicator import Communicator
from ..errors import InvalidError, MismatchError, OutOfMemoryError, UnsupportedError
from ._groups import Group
from ._groups import group as group_of


class Pool:
    """The pool of one group."""

    def __init__(self, comm: Communicator) -> None:
        self.comm = comm
        self.number: int = _fast.native.pool_open(comm._live(), comm.device)
        if self.number < 0:
            raise OutOfMemoryError("use_pool: this process has 16 groups with a pool; destroy one of them")
        allocator = torch.cuda.memory.CUDAPluggableAllocator(
            _fast.native.__file__, f"weir_pool_alloc_{self.number}", f"weir_pool_free_{self.number}")
        self.allocator = allocator.allocator()
        self.mem_pool: Any = torch.cuda.MemPool(self.allocator)
        self._symmetric: set[int] = set()

    def memories(self) -> list[tuple[int, int]]:
        """Returns the (weir_mem, address) pairs, in order of their allocation."""
        found: list[tuple[int, int]] = _fast.native.pool_memories(self.number)
        return found

    def holds(self, address: int) -> bool:
        return any(start <= address < start + lib.weir_mem_bytes(mem) for mem, start in self.memories())

    def make_symmetric(self) -> None:
        """Declares new memory symmetric. Collective."""
        new = [mem for mem, _ in self.memories() if mem not in self._symmetric]
        table = (ctypes.c_uint64 * self.comm.size)()
        table[self.comm.rank] = len(new)
        check(lib.weir_boot_allgather(lib.weir_comm_boot(self.comm._live()), ctypes.byref(table), 8))
        if len(set(table)) > 1:
            raise MismatchError("use_pool: the ranks allocated " + ", ".join(str(count) for count in table) + " pieces of "
                                "memory; with symmetric=True all must allocate the same tensors in the same order")
        for mem in new:
            check(lib.weir_mem_symmetric(mem))
            self._symmetric.add(mem)

    def close(self) -> None:
        """Returns the memory. InvalidError, and the pool remains, while tensors of it are in use."""
        torch.cuda.synchronize(self.comm.device)
        self.mem_pool = None
        torch.cuda.empty_cache()
        left = len(self.memories())
        if left:
            self.mem_pool = torch.cuda.MemPool(self.allocator)
            raise InvalidError(f"tensors of use_pool are in use ({left} pieces of memory); delete them before the group")
        _fast.native.pool_close(self.number)


def _pool_of(found: Group) -> Pool:
    pool: Optional[Pool] = found.pool
    if pool is None:
        if not torch.cuda.is_available():
            raise UnsupportedError("use_pool: PyTorch has no GPU here; in memory of the process, Communicator.empty "
                                   "returns registered arrays, and torch.from_numpy makes tensors of them")
        if _fast.native is None:
            raise UnsupportedError("use_pool needs the extension module weir._native: install the package with a C "
                                   "compiler and Python's headers (python3-dev), and without WEIR_PYTHON_NATIVE=0")
        pool = found.pool = Pool(found.comm(torch.empty(0, device="cuda")))
    return pool


@contextmanager
def use_pool(group: str = "", symmetric: bool = False) -> Iterator[Any]:
    """Allocates the GPU tensors that this thread creates in the block in registered memory of a group.

    Peers map that memory, so that long calls on it need no staging. Yields the torch.cuda.MemPool. Memory is
    taken in pieces of 2 MiB or more, at most some 500 for each communicator, and kept for other tensors of the pool
    when a tensor is freed. The tensors must be deleted before the group is destroyed, or InvalidError is raised.

    The first use is collective if the group has made no call on a GPU yet. symmetric: the end of the block is
    collective, and all ranks must have allocated the same tensors in the same order (MismatchError). From then on every
    all-reduce, all-gather and all-to-all whose output is such a tensor must have its output at the same place of the
    pool on all ranks; this lets copy engines serve large calls.

    Raises UnsupportedError without a GPU, or if the package has no extension module.
    """
    pool = _pool_of(group_of(group))
    with torch.cuda.use_mem_pool(pool.mem_pool, device=pool.comm.device):
        yield pool.mem_pool
    if symmetric:
        pool.make_symmetric()


def is_registered(tensor: torch.Tensor, group: str = "") -> bool:
    """Returns whether a tensor is in memory of `use_pool` of a group."""
    pool = group_of(group).pool
    return pool is not None and tensor.device.type == "cuda" and pool.holds(tensor.data_ptr())
