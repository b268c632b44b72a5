"""Dispatch and combine of mixture-of-experts layers, on arrays and tensors.

    group = weir.moe.Group(comm, experts=8, topk=2, max_tokens=128, hidden=512, dtype="float32")
    got = group.dispatch(x, topk_experts, topk_weights)     # rows of the tokens of this rank's experts
    for e in range(group.local_experts):
        first, count = got.offsets[e], got.counts[e]
        outputs[first:first + count] = expert[e](got.rows[first:first + count])
    y = group.combine(outputs, topk_weights)                # one row for each token

docs/user/moe.md describes layouts, capacities and the backward pass; weir.torch has the same with gradients.
"""
from __future__ import annotations

import ctypes
from typing import Any, Callable, Optional, Sequence, Union

from . import _declarations as c
from . import _interrupt
from ._buffers import Buffer, address_of, allocator, describe, new_array, on_stream, shape_of
from ._library import check, default_of, lib
from .communicator import Communicator
from .errors import InvalidError

_D = c.Dtype
_DTYPES = {"float32": _D.WEIR_FLOAT, "float16": _D.WEIR_HALF, "bfloat16": _D.WEIR_BFLOAT16,
           "float8_e4m3fn": _D.WEIR_FP8_E4M3}
_LAYOUTS = {"expert": 0, "rank": 1, "flat": 2}
_IDS, _FLOAT = (_D.WEIR_INT32, _D.WEIR_INT64), (_D.WEIR_FLOAT,)
# Copied for each call.
_DISPATCH = default_of("weir_moe_dispatch_args")
_COMBINE = default_of("weir_moe_combine_args")


class Received:
    """What a dispatch brought to this rank. N is `Group.recv_rows`, or on the host, for layouts without fixed places,
    the rows that are in use; L is `Group.local_experts`, K is topk.

    Rows between those that are in use have undefined contents, weights 0 and experts -1.
    rows: [N, hidden]. scales: [N, scales_per_row] for fp8, else None. weights: [N] (layout "expert") or [N, K]; None if
    the dispatch had none. experts: [N, K], local experts or -1; None for "expert". counts: [L], tokens of each expert.
    offsets: [L], the first row of each expert; None for other layouts. sources: [ranks], rows from each rank. handle: the
    number under which the group keeps the routing.
    """

    __slots__ = ("rows", "scales", "weights", "experts", "counts", "offsets", "sources", "handle", "_group", "_whole", "_arguments")

    def __init__(self, group: "Group") -> None:
        self.handle = 0
        self._group = group
        self._whole: dict[str, Any] = {}  # the arrays before they are cut
        self._arguments: Any = None  # of the call that they were allocated for
        self.rows: Any = None
        self.scales: Any = None
        self.weights: Any = None
        self.experts: Any = None
        self.counts: Any = None
        self.offsets: Any = None
        self.sources: Any = None


class Pending:
    """A dispatch or combine whose data were sent; `complete` receives and returns the result."""

    def __init__(self, group: "Group", complete: Any, arguments: Any, keep: Any, result: Any) -> None:
        self._group, self._complete, self._arguments = group, complete, arguments
        self._keep, self._result = keep, result

    def complete(self) -> Any:
        """Blocks until the data have arrived. Collective; halves are completed in the order of their sending."""
        if self._complete is None:
            raise InvalidError("this call was completed before")
        complete, self._complete = self._complete, None
        self._group._call(complete)
        if isinstance(self._result, Received):
            self._group._cut(self._result)
        return self._result


class Group:
    """The experts of a layer, divided evenly among the ranks of a communicator. Collective.

    experts: on all ranks together. topk: choices of each token. max_tokens: the most that a rank dispatches in one
    call. hidden: elements of a row, whose length is a multiple of 16 bytes. dtype: "bfloat16", "float16" or "float32", of
    tokens, expert outputs and results. dispatch_dtype: of received rows, None: as dtype, or "float8_e4m3fn". layout:
    "expert", "rank" or "flat". alignment, expert_capacity, recv_capacity, max_blocks: as in <weir/moe.h>. handles: how many
    routings are kept. registered: tokens and outputs are in registered memory.

    Every rank makes the same calls in the same order. `close` it before the communicator is destroyed. Raises
    InvalidError for values out of range, MismatchError if ranks differ, with the field's name, UnsupportedError where
    the library has no expert parallelism: on GPUs in a build without CUDA, or with too many choices.

    Attributes: local_experts (of each rank), first_expert (of this rank), recv_rows (of the receive buffer),
    scales_per_row, memory_bytes (that this rank holds).
    """

    def __init__(self, comm: Communicator, experts: int, topk: int, max_tokens: int, hidden: int, *,
                 dtype: str = "bfloat16", dispatch_dtype: Optional[str] = None, layout: str = "expert", alignment: int = 0,
                 expert_capacity: int = 0, recv_capacity: int = 0, handles: int = 2, registered: bool = False,
                 max_blocks: int = 0) -> None:
        self.comm, self.topk, self.hidden, self.max_tokens, self.layout = comm, topk, hidden, max_tokens, layout
        self.dtype, self.dispatch_dtype, self.handles = dtype, dispatch_dtype or dtype, handles
        self._handle: Optional[int] = None
        config = default_of("weir_moe_config")
        if layout not in _LAYOUTS:
            raise InvalidError(f"layout '{layout}': expected {', '.join(_LAYOUTS)}")
        for name, value in (("dtype", dtype), ("dispatch_dtype", self.dispatch_dtype)):
            if value not in _DTYPES:
                raise InvalidError(f"{name} '{value}': expected one of {', '.join(_DTYPES)}")
            setattr(config, name, int(_DTYPES[value]))
        for name in ("experts", "topk", "max_tokens", "hidden", "alignment", "expert_capacity", "recv_capacity", "handles",
                     "registered", "max_blocks"):
            setattr(config, name, int(locals()[name]))
        config.layout = _LAYOUTS[layout]
        made = ctypes.c_void_p()

        def create() -> None:
            with comm._lock:
                check(lib.weir_moe_create(comm._live(), ctypes.byref(config), ctypes.byref(made)))

        _interrupt.interruptible(create)
        self._handle = made.value
        comm._parts.add(self)
        info = lib.weir_moe_get_info(made)
        self.local_experts: int = info.local_experts
        self.first_expert: int = info.first_expert
        self.recv_rows: int = info.recv_rows
        self.expert_stride: int = info.expert_stride
        self.scales_per_row: int = info.scales_per_row
        self._recv_bytes: int = info.recv_bytes
        self.memory_bytes: int = info.memory_bytes
        self._alignment = max(1, alignment)
        self._has_places = layout == "rank" or bool(expert_capacity)
        self._has_gaps = self._has_places or self._alignment > 1 or comm.device >= 0
        self._dtypes = ((_DTYPES[dtype],), (_DTYPES[self.dispatch_dtype],))
        self._tokens: dict[int, int] = {}  # of each handle
        self._has_weights: dict[int, bool] = {}
        self._allocators: dict[Any, list[tuple[str, str, Callable[[], Any]]]] = {}

    # -------------------------------------------------------------------------- calls

    def dispatch(self, x: Any, topk_experts: Any = None, topk_weights: Any = None, *, handle: int = 0, rows: Any = None,
                 out: Optional[Received] = None, stream: Any = None) -> Received:
        """Sends tokens to the ranks of their experts. Collective; on the host it blocks until the rows are there.

        x: [tokens, hidden]. topk_experts: [tokens, topk] int32 or int64, negative: none; None: the routing of the latest
        dispatch on the handle, for as many tokens. topk_weights: [tokens, topk] float32, on all ranks or on none. rows: where
        to receive, [recv_rows, hidden]; None: allocated, with all else that is returned, by the library of x. out: what an
        earlier dispatch of this group has returned; its arrays are used again, and it is returned: a call takes less
        time, and a captured graph finds them at the same addresses.

        Raises InvalidError on every rank if one rank's arguments are wrong or a capacity is exceeded; the group remains
        usable.
        """
        arguments, keep, got = self._dispatch_arguments(x, topk_experts, topk_weights, handle, rows, out, stream)
        self._call(lib.weir_moe_dispatch, arguments)
        self._cut(got)
        return got

    def dispatch_send(self, x: Any, topk_experts: Any = None, topk_weights: Any = None, *, handle: int = 0, rows: Any = None,
                      out: Optional[Received] = None, stream: Any = None) -> Pending:
        """The first half of `dispatch`; compute before `complete`. The arrays must not be changed until then."""
        arguments, keep, got = self._dispatch_arguments(x, topk_experts, topk_weights, handle, rows, out, stream)
        self._call(lib.weir_moe_dispatch_send, arguments)
        return Pending(self, lib.weir_moe_dispatch_complete, arguments, keep, got)

    def combine(self, rows: Any, weights: Any = None, *, handle: int = 0, row_weight_grads: Any = None, out: Any = None,
                stream: Any = None) -> Any:
        """Brings the experts' outputs back to their tokens and adds them. Collective; blocks like `dispatch`.

        rows: one for each received row, in their layout. weights: [tokens, topk] float32, for layout "expert"; None: rows
        are added without weights. row_weight_grads: of the backward pass, [N] or [N, topk] float32, on all ranks or on
        none. out: [tokens, hidden]; None: allocated. Returns out; with row_weight_grads, (out, weight_grads).
        """
        arguments, keep, result = self._combine_arguments(rows, weights, handle, row_weight_grads, out, stream)
        self._call(lib.weir_moe_combine, arguments)
        return result

    def combine_send(self, rows: Any, weights: Any = None, *, handle: int = 0, row_weight_grads: Any = None,
                     out: Any = None, stream: Any = None) -> Pending:
        """The first half of `combine`."""
        arguments, keep, result = self._combine_arguments(rows, weights, handle, row_weight_grads, out, stream)
        self._call(lib.weir_moe_combine_send, arguments)
        return Pending(self, lib.weir_moe_combine_complete, arguments, keep, result)

    def locate(self, token: int, choice: int, handle: int = 0) -> tuple[int, int]:
        """Returns the rank of a token's expert and the row there. Local. InvalidError if there is none."""
        rank, row = ctypes.c_int(), ctypes.c_int()
        check(lib.weir_moe_locate(self._live(), handle, token, choice, ctypes.byref(rank), ctypes.byref(row)))
        return rank.value, row.value

    def check(self) -> None:
        """Raises what kernels of earlier calls found, after their stream was synchronised. On the host calls raise
        themselves. Local."""
        if hasattr(lib, "weir_moe_check"):
            check(lib.weir_moe_check(self._live()))
        else:
            self.comm.check()

    def close(self) -> None:
        """Releases the group. Collective; waits for all ranks. A second call does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self.comm._parts.discard(self)
            with self.comm._lock:
                if self.comm._handle is not None:
                    lib.weir_moe_free(handle)

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is not None:
            self.comm.abort()  # the other ranks may not close the group
        self.close()

    # ------------------------------------------------------------------------ helpers

    def _live(self) -> int:
        if self._handle is None:
            raise InvalidError("the group was closed")
        self.comm._live()
        return self._handle

    def _call(self, function: Any, arguments: Any = None) -> None:
        handle, comm = self._live(), self.comm
        with comm._lock:
            comm._calls += 1
            status = function(handle) if arguments is None else function(handle, ctypes.byref(arguments))
        if status:
            comm._fail(status)

    def _cut(self, result: Received) -> None:
        """Cuts the receive buffer to the rows that are in use, where the host knows them."""
        if self.comm.device >= 0 or self._has_places:
            return
        if self.layout == "expert":
            used = int(result.offsets[-1]) + -(-int(result.counts[-1]) // self._alignment) * self._alignment
        else:
            used = int(sum(int(count) for count in result.sources))
        used = min(used, self.recv_rows)
        for name in ("rows", "scales", "weights", "experts"):
            value = result._whole.get(name)
            if value is not None:
                setattr(result, name, value[:used])

    def _array(self, value: Any, what: str, dtypes: Sequence[int], shape: tuple[Optional[int], ...], is_written: bool = False
               ) -> Buffer:
        """Returns the memory of an argument after a check of its type, place and shape (None: any length)."""
        found, seen = describe(value), shape_of(value)
        self.comm._place(found, what)
        if found.dtype not in dtypes:
            raise InvalidError(f"{what} has the wrong type; expected "
                               + " or ".join(_D(number).name[5:].lower() for number in dtypes))
        if seen != shape and (len(seen) != len(shape) or shape[0] is not None or seen[1:] != shape[1:]):
            raise InvalidError(f"{what} has shape {seen}; expected "
                               f"({', '.join('any' if want is None else str(want) for want in shape)})")
        if is_written and found.readonly:
            raise InvalidError(f"{what} is read-only; pass a writable array")
        return found

    def _handle_number(self, handle: int) -> int:
        if not 0 <= handle < self.handles:
            raise InvalidError(f"handle {handle}: expected 0 to {self.handles - 1}")
        return handle

    def _dispatch_arguments(self, x: Any, topk_experts: Any, topk_weights: Any, handle: int, rows: Any, out: Optional[Received],
                            stream: Any) -> tuple[Any, Any, Received]:
        sent = self._array(x, "x", self._dtypes[0], (None, self.hidden))
        tokens, keep = shape_of(x)[0], [x, topk_experts, topk_weights, sent]
        self._handle_number(handle)
        has_weights = self._has_weights.get(handle, False) if topk_experts is None else topk_weights is not None
        if out is None:
            arguments, got = self._received(x, sent.device, rows, has_weights, stream)
        else:
            arguments, got = self._received_again(out, rows, has_weights, stream), out
        got.handle = arguments.handle = handle
        arguments.tokens, arguments.x = tokens, sent.pointer or None
        if topk_experts is not None:
            chosen = self._array(topk_experts, "topk_experts", _IDS, (tokens, self.topk))
            arguments.topk_experts, arguments.topk_dtype = chosen.pointer or _nothing(keep), chosen.dtype
        if topk_weights is not None:
            given = self._array(topk_weights, "topk_weights", _FLOAT, (tokens, self.topk))
            arguments.topk_weights = given.pointer or _nothing(keep)
        arguments.stream = self.comm._stream(x, stream) or None
        self._tokens[handle], self._has_weights[handle] = tokens, has_weights
        return arguments, (keep, got), got

    def _received(self, x: Any, device: int, rows: Any, has_weights: bool, stream: Any) -> tuple[Any, Received]:
        """Allocates what a dispatch returns, in arrays of the library of x. Returns a call's arguments with their addresses."""
        key = type(x), device, has_weights
        allocators = self._allocators.get(key)
        if allocators is None:
            allocators = self._allocators[key] = self._make_allocators(x, has_weights)
        arguments, got = c.weir_moe_dispatch_args.from_buffer_copy(_DISPATCH), Received(self)
        arguments.rows_bytes = self._recv_bytes
        if rows is not None:
            self._array(rows, "rows", self._dtypes[1], (self.recv_rows, self.hidden), True)
        with on_stream(x, stream):
            for member, name, allocate in allocators:
                made = rows if rows is not None and name == "rows" else allocate()
                got._whole[name] = made
                setattr(got, name, made)
                setattr(arguments, member, address_of(made))
        got._arguments = arguments
        return arguments, got

    def _received_again(self, out: Received, rows: Any, has_weights: bool, stream: Any) -> Any:
        """Returns the arguments of a call that receives into the arrays of an earlier one."""
        if rows is not None:
            raise InvalidError("rows and out are given; out has rows")
        if not isinstance(out, Received) or out._group is not self:
            raise InvalidError("out was not returned by a dispatch of this group")
        if ("weights" in out._whole) != has_weights:
            raise InvalidError(f"out has {'no ' if has_weights else ''}weights, unlike this dispatch")
        for name, value in (("weights", 0), ("experts", -1)):
            if self._has_gaps and name in out._whole:
                with on_stream(out._whole[name], stream):
                    out._whole[name][...] = value
        return c.weir_moe_dispatch_args.from_buffer_copy(out._arguments)

    def _make_allocators(self, x: Any, has_weights: bool) -> list[tuple[str, str, Callable[[], Any]]]:
        """Returns member of the arguments, name in the result, and what allocates."""
        each = (self.recv_rows,) if self.layout == "expert" else (self.recv_rows, self.topk)
        wanted: list[tuple[str, str, tuple[int, ...], str, Optional[int]]] = [
            ("rows", "rows", (self.recv_rows, self.hidden), self.dispatch_dtype, None),
            ("expert_counts", "counts", (self.local_experts,), "int32", None),
            ("source_counts", "sources", (self.comm.size,), "int32", None)]
        if has_weights:
            wanted.append(("row_weights", "weights", each, "float32", 0 if self._has_gaps else None))
        if self.layout == "expert":
            wanted.append(("expert_offsets", "offsets", (self.local_experts,), "int32", None))
        else:
            wanted.append(("row_experts", "experts", each, "int32", -1 if self._has_gaps else None))
        if self.scales_per_row:
            wanted.append(("row_scales", "scales", (self.recv_rows, self.scales_per_row), "float32", None))
        return [(member, name, allocator(x, shape, dtype, fill)) for member, name, shape, dtype, fill in wanted]

    def _combine_arguments(self, rows: Any, weights: Any, handle: int, row_weight_grads: Any, out: Any, stream: Any
                           ) -> tuple[Any, Any, Any]:
        arguments = c.weir_moe_combine_args.from_buffer_copy(_COMBINE)
        if self._handle_number(handle) not in self._tokens:
            raise InvalidError(f"handle {handle} holds no routing; dispatch on it first")
        tokens = self._tokens[handle]
        outputs = self._array(rows, "rows", self._dtypes[0], (None, self.hidden))
        keep = [rows, weights, row_weight_grads, outputs]
        arguments.handle, arguments.rows = handle, outputs.pointer or _nothing(keep)
        if weights is not None:
            given = self._array(weights, "weights", _FLOAT, (tokens, self.topk))
            arguments.weights = given.pointer or _nothing(keep)
        allocates = out is None or row_weight_grads is not None
        with on_stream(rows, stream if allocates else None):
            result = new_array(rows, (tokens, self.hidden), self.dtype) if out is None else out
            weight_grads = None if row_weight_grads is None else new_array(rows, (tokens, self.topk), "float32")
        target = self._array(result, "out", self._dtypes[0], (tokens, self.hidden), True)
        arguments.out, arguments.out_bytes = target.pointer or _nothing(keep), target.nbytes
        back: Any = result
        if row_weight_grads is not None:
            shape: tuple[Optional[int], ...] = (None,) if self.layout == "expert" else (None, self.topk)
            grads = self._array(row_weight_grads, "row_weight_grads", _FLOAT, shape)
            arguments.row_weight_grads = grads.pointer or _nothing(keep)
            arguments.weight_grads = address_of(weight_grads) or _nothing(keep)
            back = result, weight_grads
        arguments.stream = self.comm._stream(rows, stream) or None
        return arguments, (keep, result, target), back


def _nothing(keep: list[Any]) -> int:
    """Returns the address of memory that stands for an empty array: NULL has another meaning."""
    keep.append(ctypes.create_string_buffer(64))
    return ctypes.addressof(keep[-1])


__all__ = ["Group", "Pending", "Received"]
