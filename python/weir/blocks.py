"""Transfers of many blocks, such as the pages of a KV cache, between the pools of two ranks.

    pool = comm.empty((pages, 4096), "uint8")
    blocks = weir.blocks.Blocks(comm, pool)
    blocks.put(1, [[0, 8192], [4096, 0]], block_bytes=4096, slot=3, tag=17)     # rank 0
    blocks.wait(0, 3, 17)                                                       # rank 1: the blocks are there

<weir/blocks.h> defines lists, tags and errors.
"""
from __future__ import annotations

import ctypes
from typing import Any, Optional, Sequence

from . import _declarations as c
from . import _interrupt
from ._buffers import describe
from ._library import check, default_of, lib
from .communicator import Communicator
from .errors import InvalidError

_ARGS = default_of("weir_blocks_args")
_WORDS = (c.Dtype.WEIR_INT64, c.Dtype.WEIR_UINT64)


class Blocks:
    """The pools of all ranks of a communicator. Collective. `close` it before the communicator is destroyed.

    pool: a contiguous array or tensor of this rank, of any type and of a size of its own. Peers map arrays of
    `Communicator.empty`, and on GPUs whole allocations; other host memory is copied by the kernel. slots: tag slots for
    each source rank, 0: 64.
    """

    def __init__(self, comm: Communicator, pool: Any, slots: int = 0) -> None:
        self.comm = comm
        self._array, buffer = pool, describe(pool)
        self._memory, self._handle = ctypes.c_void_p(), ctypes.c_void_p()
        config = default_of("weir_blocks_config")
        config.slots = slots

        def create() -> None:
            with comm._lock:
                live = comm._live()
                check(lib.weir_mem_register(live, buffer.pointer, buffer.nbytes, ctypes.byref(self._memory)))
                check(lib.weir_blocks_create(live, self._memory, ctypes.byref(config), ctypes.byref(self._handle)))

        _interrupt.interruptible(create)

    def close(self) -> None:
        """Collective; blocks until every rank has called it."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        if handle:
            _interrupt.interruptible(lambda: lib.weir_blocks_free(handle))
            lib.weir_mem_free(self._memory)
            self._array = None

    def __enter__(self) -> "Blocks":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.close()

    def put(self, peer: int, entries: Any, *, block_bytes: int = 0, dims: Sequence[Sequence[int]] = (),
            slot: int = 0, tag: int = 0, stream: Any = None) -> None:
        """Copies blocks from this rank's pool into the peer's, and then stores the tag, unless it is 0.

        entries: rows of 2 numbers, offsets in the source and the destination, or with block_bytes 0 of 3, the last one the
        length; all in bytes. A list, or an array of int64 or uint64; on GPUs a tensor on this GPU, which must not change before
        the stream has passed the call. dims: up to 4 of (count, source stride, destination stride), which repeat the list.
        Blocks on the host; on GPUs enqueued on stream, by default PyTorch's current one. Raises InvalidError that names
        the entry, on GPUs from `check`.
        """
        self._call(lib.weir_blocks_put, peer, entries, block_bytes, dims, slot, tag, stream)

    def get(self, peer: int, entries: Any, *, block_bytes: int = 0, dims: Sequence[Sequence[int]] = (),
            slot: int = 0, tag: int = 0, stream: Any = None) -> None:
        """Copies blocks from the peer's pool into this rank's, and then stores the tag at the peer. As `put`."""
        self._call(lib.weir_blocks_get, peer, entries, block_bytes, dims, slot, tag, stream)

    def wait(self, source: int, slot: int, tag: int, timeout_s: Optional[float] = None) -> None:
        """Blocks until this rank's slot of a source rank holds the tag or a larger one. Raises TimeoutError after timeout_s
        (None: the communicator's), PeerError if the source has ended."""
        milliseconds = 0 if timeout_s is None else max(1, int(timeout_s * 1000))
        _interrupt.interruptible(lambda: check(lib.weir_blocks_wait(self._live(), source, slot, tag, milliseconds)))

    def wait_on(self, source: int, slot: int, tag: int, stream: Any = None) -> None:
        """Makes a stream wait for a tag, by default PyTorch's current one; on the host as `wait`."""
        check(lib.weir_blocks_wait_on(self._live(), source, slot, tag, self.comm._stream(self._array, stream)))

    def tag(self, source: int, slot: int) -> int:
        """Returns the tag that a slot holds, 0 at first."""
        return int(lib.weir_blocks_tag(self._live(), source, slot))

    def check(self) -> None:
        """GPUs: raises what a kernel has found wrong in a list; synchronise the stream before."""
        check(lib.weir_blocks_check(self._live()))

    def _live(self) -> Any:
        if not self._handle:
            raise InvalidError("these blocks are closed")
        self.comm._live()
        return self._handle

    def _call(self, call: Any, peer: int, entries: Any, block_bytes: int, dims: Sequence[Sequence[int]], slot: int, tag: int,
              stream: Any) -> None:
        words = 2 if block_bytes else 3
        if isinstance(entries, (list, tuple)):
            flat = [int(word) for entry in entries for word in entry]
            if any(len(entry) != words for entry in entries):
                raise InvalidError(f"entries: expected {words} numbers in each")
            data: Any = (ctypes.c_uint64 * max(1, len(flat)))(*flat)
            pointer, count = ctypes.addressof(data), len(entries)
        else:
            data = describe(entries)
            if data.dtype not in _WORDS or data.nbytes % (8 * words):
                raise InvalidError(f"entries: expected an array of int64 or uint64 with rows of {words}")
            pointer, count = data.pointer, data.nbytes // (8 * words)
        rows = (c.weir_blocks_dim * max(1, len(dims)))(*(c.weir_blocks_dim(*map(int, dim)) for dim in dims))
        args = type(_ARGS).from_buffer_copy(_ARGS)
        args.peer, args.slot, args.tag, args.list, args.count = peer, slot, tag, pointer, count
        args.block_bytes, args.ndims, args.dims = block_bytes, len(dims), ctypes.addressof(rows)
        args.stream = self.comm._stream(self._array, stream)
        with self.comm._lock:
            check(call(self._live(), ctypes.byref(args)))
