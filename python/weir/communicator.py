"""The communicator: a group of ranks, and their collectives on arrays and tensors."""
from __future__ import annotations

import ctypes
import struct
import threading
import warnings
import weakref
from typing import Any, Callable, NoReturn, Optional, Sequence, TypeVar, Union

from . import _declarations as c
from . import _fast, _interrupt
from ._buffers import DTYPE_BYTES, DTYPE_NAMES, HOST, UNTYPED, Buffer, describe, empty_like, shape_of, stream_of
from ._library import check, default_of, lib
from .errors import AbortedError, InvalidError, UnsupportedError, error_of

A = TypeVar("A")
Op = Union[str, int]

QUANTISATIONS = {"fp8": int(c.Quantization.WEIR_QUANTIZED_FP8), "int8": int(c.Quantization.WEIR_QUANTIZED_INT8)}
OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}
_KINDS = {ctypes.c_size_t: "N", ctypes.c_int: "i", ctypes.c_void_p: "P"}
# 0P: padding at the end, as in C.
_CALL = struct.Struct("@" + "".join(_KINDS[kind] for _, kind in c.weir_call._fields_) + "0P")  # type: ignore[misc]
_CALL_BYTES = ctypes.sizeof(c.weir_call)
assert _CALL.size == _CALL_BYTES, "the layout of weir_call"
# The members up to splits; the others are 0, except for the name of an algorithm.
_NAMES = [name for name, *_ in c.weir_call._fields_]
_HEAD = struct.Struct(_CALL.format[:2 + _NAMES.index("splits")])
_AFTER_NAME = (0,) * (len(_NAMES) - _NAMES.index("algo_name") - 1)
_pack_head = _HEAD.pack_into
_C = c.Collective
_run = lib.weir_run
# Statuses after which a communicator is aborted.
_ABORTING = tuple(int(c.Status[name]) for name in ("WEIR_ERR_MISMATCH", "WEIR_ERR_PEER",
                                                   "WEIR_ERR_TIMEOUT", "WEIR_ERR_ABORTED"))


def _decline(*_: Any) -> int:
    return _fast.DECLINED


def _op_number(op: Op) -> int:
    try:
        return OPS[op] if isinstance(op, str) else int(c.Op(op))
    except (KeyError, ValueError):
        raise InvalidError(f"op {op!r}: expected one of {', '.join(OPS)}") from None


def _config(backend: str, device: Optional[int], timeout_ms: int, scratch_bytes: int, invariant: bool) -> Any:
    """Returns a weir_comm_config."""
    names = {"host": 0, "cuda": 1, "auto": 2}
    if backend not in names:
        raise InvalidError(f"backend '{backend}': expected host, cuda or auto")
    config = default_of("weir_comm_config")
    config.backend, config.timeout_ms, config.scratch_bytes = names[backend], timeout_ms, scratch_bytes
    config.device, config.invariant = -1 if device is None else device, int(invariant)
    return config


class _Boot:
    """A bootstrap, which lives as long as a communicator that was created from it."""

    def __init__(self, handle: Any, keep: Any = None) -> None:
        self.handle, self.keep = handle, keep

    def __del__(self) -> None:
        if self.handle:
            lib.weir_boot_destroy(self.handle)
            self.handle = None


class Communicator:
    """A group of ranks. `weir.init()` creates one; `split` divides it.

    Every rank must make the same collective calls in the same order, with the same sizes, data type, operation
    and root. Arrays are contiguous, in host memory on the backend "host", and in this rank's GPU memory on
    "cuda". On the host a call returns when its result is complete. On a GPU a call enqueues its work on
    `stream` (see `all_reduce`) and returns; the arrays must live until the stream has completed the call.

    Threads: calls of one communicator from several threads are serialised, in an order that must be
    the same on every rank. Fork: a child must not use its parent's communicators, whose methods
    raise an exception there. Ctrl-C: a call that blocks in the main thread ends with KeyboardInterrupt,
    and the communicator is aborted.

    Raises InvalidError for wrong arguments, before anything was sent. After MismatchError, PeerError (a rank
    has died), TimedOutError or AbortedError the communicator is aborted, and can only be destroyed. All these
    exceptions derive from `weir.WeirError`.
    """

    def __init__(self, handle: int, boot: Optional[_Boot], parent: Optional["Communicator"] = None
                 ) -> None:
        self._handle: Optional[int] = handle
        self._usable: Optional[int] = handle  # None once it is destroyed or aborted
        self._boot, self._parent = boot, parent
        self._why = ""
        self._calls = 0
        self._call = ctypes.create_string_buffer(_CALL_BYTES)
        self._call_at = ctypes.addressof(self._call)
        self._pairs: dict[int, Communicator] = {}
        self._memories = 0
        self._parts: set[Any] = set()  # open groups of weir.moe
        self._names: dict[str, Any] = {}
        self.rank: int = lib.weir_comm_rank(handle)
        """This rank, 0 to size - 1."""
        self.size: int = lib.weir_comm_nranks(handle)
        """The number of ranks."""
        self.local_rank: int = lib.weir_comm_local_rank(handle)
        """This rank's index among the ranks of its node."""
        self.local_size: int = lib.weir_comm_local_nranks(handle)
        """The number of ranks of this node."""
        self.nodes: int = lib.weir_comm_nnodes(handle)
        """The number of nodes."""
        self.invariant = bool(lib.weir_comm_is_invariant(handle))
        """Whether reductions have the same bits at every size (`weir.init`)."""
        self.backend: str = lib.weir_backend_name(lib.weir_comm_backend(handle)).decode()
        """Where arrays are: "host" or "cuda"."""
        self.device: int = lib.weir_comm_device(handle)
        """This rank's CUDA device number; -1 on the backend "host"."""
        self.transport: str = lib.weir_transport_name(lib.weir_comm_transport(handle)).decode()
        """The transport of the collectives by its name, such as "shm" or "tcp"."""
        # Calls that need no examination of their arrays; it is also the lock of the others.
        self._caller = _fast.caller(handle, self.device, self.size, self.rank)
        self._run = _decline if self._caller is None else self._caller.run
        self._lock: Any = self._caller or threading.Lock()
        _interrupt.communicators.add(self)
        _interrupt.watch()

    # ------------------------------------------------------------------ life

    def _is_busy(self) -> bool:
        return bool(self._lock.locked())

    def _progress(self) -> int:
        """Returns the number of calls so far."""
        return self._calls + (self._caller.calls if self._caller is not None else 0)

    def _stop(self) -> None:
        """Makes later calls raise."""
        self._usable = None
        if self._caller is not None:
            self._caller.close()

    def _forget(self, why: str) -> None:
        """Makes this object unusable without touching the library."""
        self._handle = None
        self._stop()
        self._why = why
        self._lock = threading.Lock()
        if self._boot is not None:
            self._boot.handle = None
        for pair in self._pairs.values():
            pair._forget(why)

    def _exists(self) -> int:
        """Returns the handle of a communicator that may have been aborted."""
        if self._handle is None:
            raise InvalidError(f"the communicator {self._why or 'was destroyed'}")
        return self._handle

    def _live(self) -> int:
        """Returns the handle of a communicator that can serve calls."""
        if self._usable is None:
            self._exists()
            raise AbortedError(f"rank {self.rank}: the communicator was aborted{self._why}; destroy it")
        return self._usable

    def _fail(self, status: int) -> NoReturn:
        """Raises the exception of a failed call."""
        text = lib.weir_last_error().decode(errors="replace")
        if status in _ABORTING and self._usable is not None:
            self._stop()
            self._why = f" after: {text}"
        raise error_of(status, text)

    def destroy(self) -> None:
        """Destroys the communicator. Collective; blocks until every rank has called it. A second call
        does nothing.

        Raises InvalidError, and destroys nothing, while arrays of `empty` are in use; TimedOutError or
        PeerError if other ranks did not call it (the communicator is gone nevertheless).
        """
        handle = self._handle
        if handle is None:
            return
        if self._memories:
            raise InvalidError(f"arrays of registered memory in use: {self._memories}; delete them before the communicator")
        if self._parts:
            raise InvalidError(f"groups of weir.moe open: {len(self._parts)}; close them before the communicator")
        for pair in self._pairs.values():
            pair._destroy_quietly()
        self._pairs.clear()
        with self._lock:
            self._handle = None
            self._stop()
            self._why = "was destroyed"

        def body() -> None:
            status = lib.weir_comm_destroy(handle)
            if status != c.Status.WEIR_ERR_ABORTED:
                check(status)

        _interrupt.interruptible(body)
        self._boot = self._parent = None

    def _destroy_quietly(self) -> None:
        try:
            self.destroy()
        except Exception:
            pass

    def abort(self) -> None:
        """Ends every wait of every rank with AbortedError. Local; any thread may call it, even while
        another thread is in a collective. Afterwards the communicator can only be destroyed."""
        handle = self._handle
        if handle is not None:
            self._stop()
            lib.weir_comm_abort(handle)
            for pair in list(self._pairs.values()):
                pair.abort()

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is not None:
            self.abort()
            self._memories = 0
            for part in list(self._parts):
                part.close()
            self._destroy_quietly()
        else:
            self.destroy()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            warnings.warn(f"rank {self.rank} of {self.size} dropped a communicator without destroy(); "
                          "its memory is kept until the process ends", ResourceWarning, stacklevel=2)
            if self._boot is not None and self._parent is None:
                self._boot.handle = None  # the communicator, which is still there, uses it

    def __repr__(self) -> str:
        state = "" if self._usable is not None else f", {self._why or 'was aborted'}"
        return f"<weir.Communicator rank {self.rank} of {self.size}, {self.backend}{state}>"

    # ------------------------------------------------------------------ calls

    def _place(self, buffer: Buffer, what: str) -> None:
        if buffer.device != self.device and buffer.nbytes:
            def name(device: int) -> str:
                return "memory of the process" if device == HOST else f"GPU {device}"
            raise InvalidError(f"{what} is in {name(buffer.device)}, the communicator of rank "
                               f"{self.rank} uses {name(self.device)}")

    def _check_out(self, data: Buffer, out: Buffer) -> None:
        self._place(out, "out")
        if out.readonly:
            raise InvalidError("out is read-only; pass a writable array")
        if out.dtype != data.dtype or out.itemsize != data.itemsize:
            raise InvalidError(f"out has {_type_name(out)} elements, data has {_type_name(data)}")

    def _check_overlap(self, data: Buffer, out: Buffer, place: Optional[int] = None) -> None:
        """Refuses an out that shares memory with data, unless it begins `place` bytes after data, as in a call
        in place."""
        apart = out.pointer - data.pointer
        if -out.nbytes < apart < data.nbytes and data.nbytes and out.nbytes and apart != place:
            raise InvalidError("out shares memory with data, and is not where a call in place has it; pass a "
                               "separate array")

    def _fast(self, collective: int, data: Any, out: Any, op: Any = "sum", root: int = 0) -> bool:
        """Makes a call whose arrays need no examination; returns False if they do."""
        status = self._run(collective, data, out, op, root, False)
        if status < 0:
            self._fail(status)
        return status == 0

    def _start(self, collective: int, data: Buffer, out: Buffer, count: int, *, op: int = 0,
               root: int = 0, destination: int = -1, source: int = -1, recv_count: int = 0,
               stream: int = 0, splits: int = 0, algo: Optional[str] = None) -> None:
        """Makes one call; counts are in elements of `data`."""
        dtype = data.dtype
        if dtype == UNTYPED:  # bytes
            dtype, count, recv_count = 1, count * data.itemsize, recv_count * data.itemsize
        if algo is not None:
            self._start_named(algo, collective, data, out, count, dtype, op, root, destination, source,
                              recv_count, stream, splits)
            return
        with self._lock:
            handle = self._usable
            if handle is None:
                self._live()
            self._calls += 1
            _pack_head(self._call, 0, _CALL_BYTES, collective, dtype, op, root, destination, source,
                       data.pointer, out.pointer, count, recv_count, stream, splits)
            status = _run(handle, self._call_at)
        if status:
            self._fail(status)

    def _start_named(self, algo: str, collective: int, data: Buffer, out: Buffer, count: int, dtype: int,
                     *members: int) -> None:
        """Makes one call with an algorithm by name."""
        op, root, destination, source, recv_count, stream, splits = members
        call = ctypes.create_string_buffer(_CALL_BYTES)
        _CALL.pack_into(call, 0, _CALL_BYTES, collective, dtype, op, root, destination, source,
                        data.pointer, out.pointer, count, recv_count, stream, splits, 0, 0, 0,
                        self._algo_address(algo), *_AFTER_NAME)
        with self._lock:
            handle = self._live()
            self._calls += 1
            status = _run(handle, ctypes.addressof(call))
        if status:
            self._fail(status)

    def _algo_address(self, name: str) -> int:
        held = self._names.get(name)
        if held is None:
            held = self._names[name] = ctypes.create_string_buffer(name.encode())
        return ctypes.addressof(held)

    def _data(self, data: Any, reduces: bool) -> Buffer:
        if self._usable is None:
            self._live()
        buffer = describe(data)
        if buffer.device != self.device:
            self._place(buffer, "data")
        if reduces and buffer.dtype == UNTYPED:
            raise UnsupportedError(
                f"{getattr(data, 'dtype', f'an unknown type of {buffer.itemsize} bytes')} cannot be reduced; "
                "weir reduces int8, uint8, int32, uint32, int64, uint64, float16, float32, float64, "
                "bfloat16, float8_e4m3fn and float8_e5m2; convert them")
        return buffer

    def _stream(self, data: Any, stream: Any) -> int:
        if self.device < 0:
            if stream is not None:
                raise InvalidError("stream: the backend host has none; pass None")
            return 0
        return stream_of(data, stream)

    def all_reduce(self, data: A, out: Optional[A] = None, op: Op = "sum", *, stream: Any = None,
                   algo: Optional[str] = None, quantise: Optional[str] = None) -> A:
        """Combines the arrays of all ranks element by element; every rank gets the result.

        - data: an array of any shape.
        - out: an array of as many elements of the same type, which shares no memory with data; None: in place.
        - op: "sum", "prod", "max", "min" or "avg".
        - stream: on GPUs, a CUDA stream as a number or as an object of PyTorch or CuPy; None: the current
          stream of the array's library.
        - algo: an algorithm by name, the same on all ranks; None: selected by size.
        - quantise: "fp8" or "int8": float32, float16 or bfloat16 travel quantised, for op "sum" or "avg", without algo.
          None: exactly.

        Returns out, or data.
        """
        if algo is None and stream is None and quantise is None and self._fast(0, data, out, op):
            return data if out is None else out
        source = self._data(data, True)
        number = _op_number(op)
        if out is None or out is data:
            out, target = data, source
            if source.readonly:
                raise InvalidError("data is read-only and out is None; pass out=")
        else:
            target = describe(out)
            self._check_out(source, target)
            self._check_overlap(source, target, 0)
            _expect(target.nbytes, source.nbytes, "out", source)
        if quantise is not None:
            self._start_quantized(source, target, number, self._stream(data, stream), algo, quantise)
            return out
        self._start(0, source, target, source.nbytes // source.itemsize, op=number,
                    stream=self._stream(data, stream), algo=algo)
        return out

    def _start_quantized(self, data: Buffer, out: Buffer, op: int, stream: int, algo: Optional[str], quantise: str) -> None:
        if quantise not in QUANTISATIONS:
            raise InvalidError(f"quantise {quantise!r}: expected one of {', '.join(QUANTISATIONS)}")
        if algo is not None:
            raise InvalidError("algo: a quantised allreduce has no algorithms; leave it out")
        with self._lock:
            handle = self._live()
            status = lib.weir_allreduce_quantized(handle, data.pointer, out.pointer, data.nbytes // data.itemsize,
                                                  data.dtype, op, QUANTISATIONS[quantise], stream)
        if status:
            self._fail(status)

    def all_reduce_norm(self, data: A, out: A, weight: Any = None, residual: Any = None, *, bias: Any = None,
                        kind: str = "rms", quantise: str = "", scales: Any = None, epsilon: float = 1e-6,
                        stream: Any = None, algo: Optional[str] = None) -> A:
        """Adds up the arrays of all ranks, adds the residual, and normalises each row, along the last axis.

        - data: float32, float16 or bfloat16, of shape (..., hidden).
        - out: an array of as many elements: of the same type, which may be data; with quantise, float8_e4m3fn.
        - weight, bias: of shape (hidden,) and the type of data; None: 1 and 0. Only kind "layer" has a bias.
        - residual: like data, updated to the sum of both; None: there is none.
        - kind: "rms" or "layer".
        - quantise: "tensor", "token" or "block" for outputs in fp8, divided by scales (float32): one, which the
          caller sets; one for each row; or one for each 128 elements. "": out has the type of data.
        - epsilon: added to the mean square, or the variance.
        - stream, algo: as in `all_reduce`.

        Returns out.
        """
        from . import norm
        return norm.all_reduce_norm(self, data, out, weight, residual, bias, scales, kind, quantise, epsilon, stream,
                                    algo)

    def reduce(self, data: A, out: Optional[A] = None, root: int = 0, op: Op = "sum", *,
               stream: Any = None, algo: Optional[str] = None) -> A:
        """Like `all_reduce`, but only `root` gets the result: out of the other ranks is not written,
        and may be None there."""
        if algo is None and stream is None and self._fast(4, data, out, op, root):
            return data if out is None else out
        source = self._data(data, True)
        result, target = self._same_size(data, out, source, self.rank == self._rank(root, "root"))
        self._start(_C.WEIR_COLL_REDUCE, source, target, source.nbytes // source.itemsize,
                    op=_op_number(op), root=root, stream=self._stream(data, stream), algo=algo)
        return result

    def broadcast(self, data: A, out: Optional[A] = None, root: int = 0, *, stream: Any = None,
                  algo: Optional[str] = None) -> A:
        """Copies the array of `root` to all ranks: into out, or if that is None into data."""
        if algo is None and stream is None and self._fast(3, data, out, "sum", root):
            return data if out is None else out
        source = self._data(data, False)
        self._rank(root, "root")
        result, target = self._same_size(data, out, source, out is not None or self.rank != root)
        self._start(_C.WEIR_COLL_BROADCAST, source, target, source.nbytes // source.itemsize,
                    root=root, stream=self._stream(data, stream), algo=algo)
        return result

    def _same_size(self, data: A, out: Optional[A], source: Buffer, is_written: bool
                   ) -> tuple[A, Buffer]:
        """Returns out and its memory, for calls whose in-place form is out is data."""
        if out is None or out is data:
            if is_written and source.readonly:
                raise InvalidError("data is read-only and out is None; pass out=")
            return data, source
        target = describe(out)
        self._check_out(source, target)
        _expect(target.nbytes, source.nbytes, "out", source)
        if is_written:
            self._check_overlap(source, target, 0)
        return out, target

    def all_gather(self, data: A, out: Optional[A] = None, *, stream: Any = None,
                   algo: Optional[str] = None) -> A:
        """Gathers the arrays of all ranks, in rank order, along the first axis.

        data: shape (m, ...), equal on all ranks. out: size * m rows; None: allocated. In place if data
        is this rank's part of out. Returns out, of shape (size * m, ...).
        """
        if out is not None and algo is None and stream is None and self._fast(2, data, out):
            return out
        source = self._data(data, False)
        if out is None:
            shape = shape_of(data) or (1,)
            out = empty_like(data, (shape[0] * self.size,) + shape[1:], stream)
        target = describe(out)
        self._check_out(source, target)
        self._check_overlap(source, target, -self.rank * source.nbytes)
        _expect(target.nbytes, source.nbytes * self.size, "out", source)
        self._start(_C.WEIR_COLL_ALLGATHER, source, target, source.nbytes // source.itemsize,
                    stream=self._stream(data, stream), algo=algo)
        return out

    def reduce_scatter(self, data: A, out: Optional[A] = None, op: Op = "sum", *, stream: Any = None,
                       algo: Optional[str] = None) -> A:
        """Combines the arrays of all ranks and gives each rank one part of the result.

        data: shape (size * m, ...). out: m rows; None: allocated. Returns out: rows rank * m to
        (rank + 1) * m of the result.
        """
        if out is not None and algo is None and stream is None and self._fast(1, data, out, op):
            return out
        source = self._data(data, True)
        if out is None:
            shape = shape_of(data)
            if not shape or shape[0] % self.size:
                raise InvalidError(f"data of shape {shape}: the first axis must be a multiple of "
                                   f"{self.size} ranks")
            out = empty_like(data, (shape[0] // self.size,) + shape[1:], stream)
        target = describe(out)
        self._check_out(source, target)
        self._check_overlap(source, target, self.rank * target.nbytes)
        _expect(source.nbytes, target.nbytes * self.size, "data", source)
        self._start(_C.WEIR_COLL_REDUCE_SCATTER, source, target, target.nbytes // source.itemsize,
                    op=_op_number(op), stream=self._stream(data, stream), algo=algo)
        return out

    def all_to_all(self, data: A, out: Optional[A] = None, *, stream: Any = None,
                   algo: Optional[str] = None) -> A:
        """Sends the r-th part of data to rank r. data: shape (size * m, ...); out: the same shape, but not data
        itself; None: allocated. Returns out: its r-th part comes from rank r."""
        if out is not None and algo is None and stream is None and self._fast(5, data, out):
            return out
        source = self._data(data, False)
        if out is None:
            out = empty_like(data, shape_of(data), stream)
        target = describe(out)
        self._check_out(source, target)
        self._check_overlap(source, target)
        _expect(target.nbytes, source.nbytes, "out", source)
        count, rest = divmod(source.nbytes // source.itemsize, self.size)
        if rest:
            raise InvalidError(f"data has {source.nbytes // source.itemsize} elements; expected a "
                               f"multiple of {self.size} ranks")
        self._start(_C.WEIR_COLL_ALLTOALL, source, target, count, stream=self._stream(data, stream),
                    algo=algo)
        return out

    def all_to_all_v(self, data: A, send_counts: Sequence[int], out: Optional[A] = None,
                     recv_counts: Optional[Sequence[int]] = None, *, stream: Any = None,
                     algo: Optional[str] = None) -> A:
        """Sends blocks of different lengths to all ranks.

        - data: shape (sum(send_counts), ...), one block for each rank in rank order.
        - send_counts: rows of the first axis for each rank.
        - recv_counts: rows from each rank; None: the ranks exchange their counts first (on host memory).
        - out: sum(recv_counts) rows; None: allocated.

        Returns out. MismatchError if the counts of two ranks differ.
        """
        source = self._data(data, False)
        shape = shape_of(data)
        row = 1
        for length in shape[1:]:
            row *= length
        sent = self._counts(send_counts, "send_counts")
        if recv_counts is None:
            recv_counts = self._exchange_counts(sent)
        received = self._counts(recv_counts, "recv_counts")
        row_bytes = row * source.itemsize
        bytes_sent = sum(sent) * row_bytes
        if bytes_sent > source.nbytes:
            raise InvalidError(f"send_counts add up to {sum(sent)} rows, data has {shape[:1]}")
        if out is None:
            out = empty_like(data, (sum(received),) + shape[1:], stream)
        target = describe(out)
        self._check_out(source, target)
        bytes_received = sum(received) * row_bytes
        if bytes_received > target.nbytes:
            raise InvalidError(f"recv_counts add up to {sum(received)} rows, out has {shape_of(out)[:1]}")
        if -bytes_received < target.pointer - source.pointer < bytes_sent:
            self._check_overlap(source, target)
        unit = row_bytes if source.dtype == UNTYPED else row
        splits = _Splits(self.size, sent, received, unit)
        self._start(_C.WEIR_COLL_ALLTOALLV, source, target, 0, stream=self._stream(data, stream),
                    splits=splits.address, algo=algo)
        return out

    def _counts(self, counts: Sequence[int], what: str) -> list[int]:
        found = [int(count) for count in counts]
        if len(found) != self.size or min(found) < 0:
            raise InvalidError(f"{what} {found}: expected {self.size} numbers of rows, one for each rank")
        return found

    def _exchange_counts(self, sent: Sequence[int]) -> list[int]:
        """Returns what each rank sends to this one: all counts of all ranks, over the bootstrap."""
        table = (ctypes.c_uint64 * (self.size * self.size))()
        table[self.rank * self.size:(self.rank + 1) * self.size] = list(sent)
        with self._lock:
            status = lib.weir_boot_allgather(lib.weir_comm_boot(self._live()), ctypes.byref(table),
                                             8 * self.size)
        check(status)
        return [int(table[rank * self.size + self.rank]) for rank in range(self.size)]

    def sendrecv(self, data: Optional[A], destination: int, out: Optional[A], source: int, *,
                 stream: Any = None) -> Optional[A]:
        """Every rank sends to one rank and receives from one. Collective: all ranks must call it.
        destination or source is -1 for a rank that sends or receives nothing. data: the array to send; None
        with destination -1. out: where to receive; None with source -1. Returns out. MismatchError if a
        sender's and a receiver's sizes differ."""
        nothing = Buffer(0, 0, 1, 1, self.device, False)
        sent = nothing if data is None else self._data(data, False)
        target = nothing
        if out is not None:
            target = self._data(out, False)
            if target.readonly:
                raise InvalidError("out is read-only; pass a writable array")
            if data is not None and (target.dtype, target.itemsize) != (sent.dtype, sent.itemsize):
                raise InvalidError("data and out have different types")
            self._check_overlap(sent, target)
        for rank, array, what in ((destination, data, "destination"), (source, out, "source")):
            if rank != -1:
                self._rank(rank, what)
            if (rank == -1) != (array is None):
                raise InvalidError(f"{what} {rank} with {'no' if array is None else 'an'} array; expected "
                                   "-1 and None together")
        kind = sent if data is not None else target
        unit = kind.itemsize
        call = Buffer(sent.pointer, sent.nbytes, kind.dtype, unit, self.device, False, sent)
        self._start(_C.WEIR_COLL_SENDRECV, call, target, sent.nbytes // unit, destination=destination,
                    source=source, recv_count=target.nbytes // unit,
                    stream=self._stream(data if data is not None else out, stream)
                    if (data is not None or out is not None) else 0)
        return out

    def send(self, data: Any, destination: int, *, stream: Any = None) -> None:
        """Sends to one rank, which must call `recv` with this rank as source. Only the two ranks take part. On
        the host a short message is copied, and the call returns without waiting for the receiver or seeing its
        errors; a long message blocks until the receiver has the data. The first message between two ranks
        connects them, which blocks until both have called. Two ranks that send to each other at the same time
        may wait for each other: use `sendrecv`.

        Raises MismatchError (only `recv`), TimedOutError, AbortedError. Then `send` and `recv` between these
        two ranks fail, and other calls of the communicator still work."""
        self._pair(destination, "destination")._one_way(data, None, stream)

    def recv(self, out: A, source: int, *, stream: Any = None) -> A:
        """Receives from one rank into out; see `send`. Blocks on the host until the data are there.
        MismatchError if the sizes differ; the sender of a short message does not see this error."""
        self._pair(source, "source")._one_way(None, out, stream)
        return out

    def _one_way(self, data: Any, out: Any, stream: Any) -> None:
        other = 1 - self.rank
        self.sendrecv(data, other if data is not None else -1, out, other if out is not None else -1,
                      stream=stream)

    def _pair(self, peer: int, what: str) -> "Communicator":
        """Returns the communicator of this rank and a peer, which the first call creates."""
        self._live()
        if self._rank(peer, what) == self.rank:
            raise InvalidError(f"{what} {peer} is this rank; copy the array instead")
        found = self._pairs.get(peer)
        if found is None:
            from ._boot import pair_boot
            boot = pair_boot(self, peer)
            config = _config(self.backend, self.device, 0, 0, False)
            handle = ctypes.c_void_p()

            def body() -> None:
                check(lib.weir_comm_create(boot.handle, ctypes.byref(config), ctypes.byref(handle)))

            _interrupt.interruptible(body)
            assert handle.value is not None
            found = self._pairs[peer] = Communicator(handle.value, boot, self)
        return found

    def barrier(self) -> None:
        """Blocks until every rank has called it. Collective. It does not wait for GPU streams."""
        with self._lock:
            handle = self._live()
            self._calls += 1
            status = lib.weir_comm_barrier(handle)
        if status:
            self._fail(status)

    def _rank(self, rank: int, what: str) -> int:
        if not 0 <= rank < self.size:
            raise InvalidError(f"{what} {rank}: expected a rank, 0 to {self.size - 1}")
        return rank

    # -------------------------------------------------------------- prepared calls

    def prepare(self, collective: str, data: Any, out: Any = None, *, op: Op = "sum", root: int = 0,
                stream: Any = None, algo: Optional[str] = None) -> Callable[[], None]:
        """Returns a function that makes the same call each time, without examining its arrays again.

        collective: "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce" or "all_to_all".
        out None: in place (all_reduce, broadcast, reduce). The arrays must not be resized. The function
        holds the arrays; it raises like the method of the same name. Use it where microseconds count.
        """
        names = {"all_reduce": 0, "reduce_scatter": 1, "all_gather": 2, "broadcast": 3, "reduce": 4,
                 "all_to_all": 5}
        if collective not in names:
            raise InvalidError(f"collective '{collective}': expected one of {', '.join(names)}")
        number = names[collective]
        source = self._data(data, number in (0, 1, 4))
        target = source if out is None else describe(out)
        self._check_out(source, target)
        self._check_overlap(source, target, {1: self.rank * target.nbytes, 2: -self.rank * source.nbytes,
                                             5: None}.get(number, 0))
        larger, ratio = {1: (source, self.size), 2: (target, self.size)}.get(number, (source, 1))
        smaller = target if larger is source else source
        _expect(larger.nbytes, smaller.nbytes * ratio, "the larger array", source)
        count = smaller.nbytes // source.itemsize // (self.size if number == 5 else 1)
        dtype = source.dtype
        if dtype == UNTYPED:
            dtype, count = 1, count * source.itemsize
        call = ctypes.create_string_buffer(_CALL_BYTES)
        _CALL.pack_into(call, 0, _CALL_BYTES, number, dtype, _op_number(op), root, -1, -1,
                        source.pointer, target.pointer, count, 0, self._stream(data, stream), 0, 0, 0, 0,
                        0 if algo is None else self._algo_address(algo), *_AFTER_NAME)
        address = ctypes.addressof(call)
        begin = self._begin_here if self._caller is None else self._caller.start

        def start(hold: Any = (call, data, out, source, target)) -> None:
            status = begin(address)
            if status:
                self._end(status)

        return start

    def _begin_here(self, address: int) -> int:
        """Executes the weir_call at an address through ctypes; see Caller.start."""
        with self._lock:
            self._calls += 1
            return int(_run(self._usable or self._live(), address))

    def _end(self, status: int) -> NoReturn:
        """Raises the exception of a prepared call."""
        if status == _fast.DECLINED:
            self._live()
        self._fail(status)

    # ------------------------------------------------------------------ others

    def split(self, color: Optional[int], key: Optional[int] = None, *, backend: Optional[str] = None,
              device: Optional[int] = None, timeout_ms: int = 0) -> Optional["Communicator"]:
        """Divides the ranks: those with the same color form a new communicator, ordered by key (default: this
        rank). Collective over all ranks; color None: joins none, returns None. backend and device None: as this
        communicator. `invariant` is always inherited. Either communicator may be destroyed first."""
        handle = self._live()
        if device is None and self.device >= 0:
            device = self.device
        config = _config(backend or self.backend, device, timeout_ms, 0, self.invariant)
        created = ctypes.c_void_p()

        def body() -> None:
            with self._lock:
                check(lib.weir_comm_split(handle, -1 if color is None else int(color),
                                          self.rank if key is None else int(key), ctypes.byref(config),
                                          ctypes.byref(created)))

        _interrupt.interruptible(body)
        return Communicator(created.value, self._boot, self) if created.value else None

    def empty(self, shape: Union[int, tuple[int, ...]], dtype: Any = "float32") -> Any:
        """Returns a NumPy array in registered memory, which peers access directly: collectives on it
        need no staging. Local. Zeroed. Backend "host". The memory is freed with the last array that
        refers to it, which must be before `destroy`."""
        import numpy
        if self.device >= 0:
            raise UnsupportedError("empty: the backend is cuda; register a tensor of your library")
        wanted = numpy.dtype(dtype)
        lengths = (shape,) if isinstance(shape, int) else tuple(shape)
        count = 1
        for length in lengths:
            count *= length
        memory = ctypes.c_void_p()
        with self._lock:
            check(lib.weir_mem_alloc(self._live(), count * wanted.itemsize, ctypes.byref(memory)))
        held = (ctypes.c_char * (count * wanted.itemsize)).from_address(
            lib.weir_mem_pointer(memory) or 0)
        weakref.finalize(held, _free_memory, weakref.ref(self), memory).atexit = False
        self._memories += 1
        return numpy.frombuffer(held, dtype=wanted, count=count).reshape(lengths)

    def set_algo(self, collective: str, name: str) -> None:
        """Makes later calls use an algorithm by name ("packet", on GPUs "packet:16x64"); "auto" restores
        selection by size. Every rank must make the same call. collective: as in the C library
        ("allreduce", "allgather", ...). InvalidError lists the known names."""
        numbers = {lib.weir_collective_name(n).decode(): n for n in range(_C.WEIR_COLL_COUNT)}
        if collective not in numbers:
            raise InvalidError(f"collective '{collective}': expected one of {', '.join(numbers)}")
        with self._lock:
            check(lib.weir_comm_set_algo(self._live(), numbers[collective], name.encode()))

    @property
    def last_algo(self) -> str:
        """The name of the algorithm of the last collective."""
        text: str = lib.weir_comm_last_algo(self._exists()).decode()
        return text

    def check(self) -> None:
        """Raises if a rank has died, a rank is stopped, a kernel failed, or the communicator was aborted.
        Local, does not wait; any thread may call it."""
        check(lib.weir_comm_check(self._exists()))

    def report(self) -> str:
        """Describes the state of every rank, one line each: dead or stopped, latest collective, and which
        peer it waits for. Local; any thread may call it."""
        text = ctypes.create_string_buffer(1 << 16)
        lib.weir_comm_report(self._exists(), text, len(text))
        return text.value.decode(errors="replace")


class _Splits:
    """A weir_splits with its arrays: blocks that follow one another, counts in rows of `unit` elements."""

    def __init__(self, size: int, sent: Sequence[int], received: Sequence[int], unit: int) -> None:
        arrays = (ctypes.c_size_t * (4 * size))()
        for part, counts in ((0, sent), (2, received)):
            at = 0
            for rank, count in enumerate(counts):
                arrays[part * size + rank] = count * unit
                arrays[(part + 1) * size + rank] = at
                at += count * unit
        start, step = ctypes.addressof(arrays), ctypes.sizeof(ctypes.c_size_t) * size
        self.arrays = arrays
        self.splits = c.weir_splits(start, start + step, start + 2 * step, start + 3 * step)
        self.address = ctypes.addressof(self.splits)


def _type_name(buffer: Buffer) -> str:
    """Returns NumPy's and PyTorch's name of a buffer's type."""
    if buffer.dtype == UNTYPED:
        return f"{buffer.itemsize}-byte"
    return DTYPE_NAMES[buffer.dtype]


def _expect(nbytes: int, expected: int, what: str, data: Buffer) -> None:
    if nbytes != expected:
        raise InvalidError(f"{what} has {nbytes // data.itemsize} elements; expected "
                           f"{expected // data.itemsize}")


def _free_memory(owner: "weakref.ref[Communicator]", memory: Any) -> None:
    comm = owner()
    if comm is not None and comm._handle is not None:
        lib.weir_mem_free(memory)
        comm._memories -= 1


__all__ = ["Communicator", "DTYPE_BYTES", "OPS"]
