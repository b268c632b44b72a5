"""Allreduce, residual and normalisation in one call: Communicator.all_reduce_norm.

docs/user/inference.md describes the arithmetic, and how engines use it.
"""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Optional

from . import _declarations as c
from ._buffers import Buffer, describe, shape_of
from ._library import default_of, lib
from .errors import InvalidError

if TYPE_CHECKING:
    from .communicator import Communicator

_KINDS = {"rms": c.NormKind.WEIR_NORM_RMS, "layer": c.NormKind.WEIR_NORM_LAYER}
_OUTPUTS = {"": c.NormOutput.WEIR_NORM_PLAIN, "tensor": c.NormOutput.WEIR_NORM_FP8_TENSOR,
            "token": c.NormOutput.WEIR_NORM_FP8_TOKEN, "block": c.NormOutput.WEIR_NORM_FP8_BLOCK}
QUANTISATIONS = tuple(name for name in _OUTPUTS if name)
BLOCK = int(c.WEIR_NORM_BLOCK)


def _choice(names: dict[str, Any], name: str, what: str) -> int:
    if name not in names:
        raise InvalidError(f"{what} '{name}': expected one of {', '.join(repr(one) for one in names)}")
    return int(names[name])


def _member(comm: "Communicator", array: Any, name: str, dtype: int, count: int, is_written: bool) -> int:
    """The address of an array of the call; 0 for None."""
    if array is None:
        return 0
    buffer: Buffer = describe(array)
    comm._place(buffer, name)
    if buffer.dtype != dtype:
        raise InvalidError(f"{name} has elements of another type than the call needs ({c.Dtype(dtype).name})")
    if buffer.nbytes != count * buffer.itemsize:
        raise InvalidError(f"{name} has {buffer.nbytes // buffer.itemsize} elements; expected {count}")
    if is_written and buffer.readonly:
        raise InvalidError(f"{name} is read-only; pass a writable array")
    return buffer.pointer


def scale_count(quantise: str, rows: int, hidden: int) -> int:
    """How many scales a quantised output has."""
    return {"": 0, "tensor": 1, "token": rows, "block": rows * (hidden // BLOCK)}[quantise]


def all_reduce_norm(comm: "Communicator", data: Any, out: Any, weight: Any, residual: Any, bias: Any, scales: Any,
                    kind: str, quantise: str, epsilon: float, stream: Any, algo: Optional[str]) -> Any:
    shape = shape_of(data)
    if not shape:
        raise InvalidError("data needs at least one axis, the elements of a row")
    source = comm._data(data, True)
    hidden, count = int(shape[-1]), source.nbytes // source.itemsize
    rows = count // hidden if hidden else 0
    args = default_of("weir_norm_args")
    args.kind, args.output = _choice(_KINDS, kind, "kind"), _choice(_OUTPUTS, quantise, "quantise")
    result_type = int(c.Dtype.WEIR_FP8_E4M3) if quantise else source.dtype
    args.dtype, args.rows, args.hidden, args.epsilon = source.dtype, rows, hidden, epsilon
    setattr(args, "in", source.pointer)
    args.residual = _member(comm, residual, "residual", source.dtype, count, True)
    args.weight = _member(comm, weight, "weight", source.dtype, hidden, False)
    args.bias = _member(comm, bias, "bias", source.dtype, hidden, False)
    args.out = _member(comm, out, "out", result_type, count, True)
    args.scales = _member(comm, scales, "scales", int(c.Dtype.WEIR_FLOAT), scale_count(quantise, rows, hidden),
                          quantise != "tensor")
    args.stream = comm._stream(data, stream)
    args.algo_name = comm._algo_address(algo) if algo is not None else None
    with comm._lock:
        handle = comm._live()
        status = lib.weir_allreduce_norm(handle, ctypes.byref(args))
    if status:
        comm._fail(status)
    return out
