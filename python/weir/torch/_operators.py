"""The operators torch.ops.weir.*: implementations, shapes for torch.compile, and gradients.

Out-of-place operators return new tensors and copy inputs that are not contiguous. Operators whose names
end in _ or _into write to an argument, which must be contiguous, and return nothing. `group` is a name
(weir.torch.group).
"""
from __future__ import annotations

from typing import Any, Optional

import torch

from .. import _fast
from ..errors import InvalidError
from ..norm import BLOCK, QUANTISATIONS
from ._groups import callers
from ._groups import group as group_of
from ._opaque import opaque, skip_modules

_library = torch.library.Library("weir", "DEF")
_SCHEMAS = (
    "all_reduce(Tensor data, str op='sum', str group='') -> Tensor",
    "all_reduce_(Tensor(a!) data, str op='sum', str group='') -> ()",
    "all_gather(Tensor data, str group='') -> Tensor",
    "all_gather_into(Tensor(a!) out, Tensor data, str group='') -> ()",
    "reduce_scatter(Tensor data, str op='sum', str group='') -> Tensor",
    "reduce_scatter_into(Tensor(a!) out, Tensor data, str op='sum', str group='') -> ()",
    "broadcast(Tensor data, int root=0, str group='') -> Tensor",
    "broadcast_(Tensor(a!) data, int root=0, str group='') -> ()",
    "all_to_all_single(Tensor data, SymInt[]? output_splits=None, SymInt[]? input_splits=None, "
    "str group='') -> Tensor",
    "all_reduce_rms_norm(Tensor data, Tensor(a!)? residual=None, Tensor? weight=None, float epsilon=1e-06, "
    "str group='') -> Tensor",
    "all_reduce_layer_norm(Tensor data, Tensor(a!)? residual=None, Tensor? weight=None, Tensor? bias=None, "
    "float epsilon=1e-05, str group='') -> Tensor",
    "all_reduce_rms_norm_fp8(Tensor data, Tensor(a!)? residual=None, Tensor? weight=None, float epsilon=1e-06, "
    "str per='token', Tensor? scale=None, str group='') -> (Tensor, Tensor)",
    "all_to_all_single_into(Tensor(a!) out, Tensor data, int[]? output_splits=None, int[]? input_splits=None, "
    "str group='') -> ()")


def all_reduce(data: torch.Tensor, op: str = "sum", group: str = "") -> torch.Tensor:
    data = data.contiguous()
    out = torch.empty_like(data)
    found = group_of(group)
    if not found.run(0, data, out, op):
        found.comm(data).all_reduce(data, out, op)
        found.called(data)
    return out


def all_reduce_(data: torch.Tensor, op: str = "sum", group: str = "") -> None:
    found = group_of(group)
    found.comm(data).all_reduce(data, op=op)
    found.called(data)


def all_gather_into(out: torch.Tensor, data: torch.Tensor, group: str = "") -> None:
    data = data.contiguous()
    found = group_of(group)
    if not found.run(2, data, out):
        found.comm(data).all_gather(data, out)
        found.called(data)


def all_gather(data: torch.Tensor, group: str = "") -> torch.Tensor:
    out = _all_gather_shape(data, group)
    all_gather_into(out, data, group)
    return out


def reduce_scatter_into(out: torch.Tensor, data: torch.Tensor, op: str = "sum", group: str = "") -> None:
    data = data.contiguous()
    found = group_of(group)
    if not found.run(1, data, out, op):
        found.comm(data).reduce_scatter(data, out, op)
        found.called(data)


def reduce_scatter(data: torch.Tensor, op: str = "sum", group: str = "") -> torch.Tensor:
    out = _reduce_scatter_shape(data, op, group)
    reduce_scatter_into(out, data, op, group)
    return out


def broadcast_(data: torch.Tensor, root: int = 0, group: str = "") -> None:
    found = group_of(group)
    found.comm(data).broadcast(data, root=root)
    found.called(data)


def broadcast(data: torch.Tensor, root: int = 0, group: str = "") -> torch.Tensor:
    data = data.contiguous()
    out = torch.empty_like(data)
    found = group_of(group)
    if not found.run(3, data, out, "sum", root):
        found.comm(data).broadcast(data, out, root)
        found.called(data)
    return out


Maybe = Optional[torch.Tensor]


def all_reduce_rms_norm(data: torch.Tensor, residual: Maybe = None, weight: Maybe = None, epsilon: float = 1e-6,
                        group: str = "") -> torch.Tensor:
    data, found = data.contiguous(), group_of(group)
    out = torch.empty_like(data)
    found.comm(data).all_reduce_norm(data, out, weight, residual, epsilon=epsilon)
    found.called(data)
    return out


def all_reduce_layer_norm(data: torch.Tensor, residual: Maybe = None, weight: Maybe = None, bias: Maybe = None,
                          epsilon: float = 1e-5, group: str = "") -> torch.Tensor:
    data, found = data.contiguous(), group_of(group)
    out = torch.empty_like(data)
    found.comm(data).all_reduce_norm(data, out, weight, residual, bias=bias, kind="layer", epsilon=epsilon)
    found.called(data)
    return out


def all_reduce_rms_norm_fp8(data: torch.Tensor, residual: Maybe = None, weight: Maybe = None, epsilon: float = 1e-6,
                            per: str = "token", scale: Maybe = None, group: str = ""
                            ) -> tuple[torch.Tensor, torch.Tensor]:
    data, found = data.contiguous(), group_of(group)
    out, scales = _fp8_shapes(data, residual, weight, epsilon, per, scale, group)
    if per == "tensor":
        scales.copy_(scale)
    found.comm(data).all_reduce_norm(data, out, weight, residual, quantise=per, scales=scales, epsilon=epsilon)
    found.called(data)
    return out, scales


Splits = Optional[list[int]]


def all_to_all_single_into(out: torch.Tensor, data: torch.Tensor, output_splits: Splits = None,
                           input_splits: Splits = None, group: str = "") -> None:
    data = data.contiguous()
    found = group_of(group)
    comm = found.comm(data)
    if output_splits is None and input_splits is None:
        comm.all_to_all(data, out)
    else:
        comm.all_to_all_v(data, _even(input_splits, data, found.size), out, _even(output_splits, out, found.size))
    found.called(data)


def all_to_all_single(data: torch.Tensor, output_splits: Splits = None, input_splits: Splits = None,
                      group: str = "") -> torch.Tensor:
    out = _all_to_all_shape(data, output_splits, input_splits, group)
    all_to_all_single_into(out, data, output_splits, input_splits, group)
    return out


def _even(splits: Splits, data: torch.Tensor, size: int) -> list[int]:
    if splits is not None and len(splits) > 0:
        return list(splits)
    if data.shape[0] % size:
        raise InvalidError(f"a tensor of {data.shape[0]} rows cannot be divided between {size} ranks; pass splits")
    return [data.shape[0] // size] * size


# ------------------------------------------------------------------------ shapes

def _same_shape(data: torch.Tensor, *others: Any, **named: Any) -> torch.Tensor:
    return torch.empty_like(data, memory_format=torch.contiguous_format)


def _fp8_shapes(data: torch.Tensor, residual: Maybe = None, weight: Maybe = None, epsilon: float = 1e-6,
                per: str = "token", scale: Maybe = None, group: str = "") -> tuple[torch.Tensor, torch.Tensor]:
    if per not in QUANTISATIONS or (per == "tensor") != (scale is not None):
        raise InvalidError(f"per '{per}': expected tensor, with a scale, or token or block, without one")
    last = data.shape[-1]
    counts = {"tensor": (), "token": (*data.shape[:-1], 1), "block": (*data.shape[:-1], last // BLOCK)}
    out = data.new_empty(data.shape, dtype=torch.float8_e4m3fn)
    return out, data.new_empty(counts[per], dtype=torch.float32)


def _nothing(*arguments: Any, **named: Any) -> None:
    return None


def _all_gather_shape(data: torch.Tensor, group: str = "") -> torch.Tensor:
    rows = data.shape[0] if data.dim() else 1
    return data.new_empty((rows * group_of(group).size, *data.shape[1:]))


def _reduce_scatter_shape(data: torch.Tensor, op: str = "sum", group: str = "") -> torch.Tensor:
    size = group_of(group).size
    if data.dim() == 0 or data.shape[0] % size:
        raise InvalidError(f"data of shape {tuple(data.shape)}: the first axis must be a multiple of {size} ranks")
    return data.new_empty((data.shape[0] // size, *data.shape[1:]))


def _all_to_all_shape(data: torch.Tensor, output_splits: Splits = None, input_splits: Splits = None,
                      group: str = "") -> torch.Tensor:
    if output_splits is None:
        return _same_shape(data)
    return data.new_empty((sum(output_splits), *data.shape[1:]))


# --------------------------------------------------------------------- gradients

def _scaled(gradient: torch.Tensor, op: str, size: int) -> torch.Tensor:
    """The gradient of a sum or an average; others have none."""
    if op not in ("sum", "avg"):
        raise InvalidError(f"the operation '{op}' has no gradient; use sum or avg")
    return gradient if op == "sum" else gradient / size


def _keep_op(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.op, ctx.group = inputs[1], inputs[2]


def _all_reduce_back(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    _scaled(gradient, ctx.op, 1)
    return torch.ops.weir.all_reduce(gradient, ctx.op, ctx.group), None, None


def _reduce_scatter_back(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    scaled = _scaled(gradient, ctx.op, group_of(ctx.group).size)
    return torch.ops.weir.all_gather(scaled, ctx.group), None, None


def _keep_gather(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.group, ctx.shape = inputs[1], inputs[0].shape


def _all_gather_back(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    return torch.ops.weir.reduce_scatter(gradient, "sum", ctx.group).reshape(ctx.shape), None


def _keep_root(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.root, ctx.group = inputs[1], inputs[2]


def _broadcast_back(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    total = torch.ops.weir.all_reduce(gradient, "sum", ctx.group)
    return total if group_of(ctx.group).rank == ctx.root else torch.zeros_like(total), None, None


def _keep_splits(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    _, ctx.output_splits, ctx.input_splits, ctx.group = inputs


def _all_to_all_back(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    back = torch.ops.weir.all_to_all_single(gradient, ctx.input_splits, ctx.output_splits, ctx.group)
    return back, None, None, None


# ------------------------------------------------------------------ registration

_SHAPES = {"all_reduce": _same_shape, "broadcast": _same_shape, "all_gather": _all_gather_shape,
           "reduce_scatter": _reduce_scatter_shape, "all_to_all_single": _all_to_all_shape,
           "all_reduce_rms_norm": _same_shape, "all_reduce_layer_norm": _same_shape,
           "all_reduce_rms_norm_fp8": _fp8_shapes}
_GRADIENTS = {"all_reduce": (_all_reduce_back, _keep_op), "reduce_scatter": (_reduce_scatter_back, _keep_op),
              "all_gather": (_all_gather_back, _keep_gather), "broadcast": (_broadcast_back, _keep_root),
              "all_to_all_single": (_all_to_all_back, _keep_splits)}


# Operators that only write to an argument, and their collectives: kernels that need no Python (native/operator.c).
_NATIVE = {"all_reduce_": 0, "reduce_scatter_into": 1, "all_gather_into": 2, "broadcast_": 3}


def _kernel(name: str, kind: str) -> Any:
    """Returns the implementation of an operator for a kind of device."""
    function = globals()[name] if _is_skipped else opaque(globals()[name])
    if _fast.native is None or name not in _NATIVE:
        return function

    def fail(group: str, status: int) -> None:
        group_of(group).fail(kind, status)

    return _fast.native.Operator(_NATIVE[name], callers[kind], function, fail)


def _register() -> None:
    for schema in _SCHEMAS:
        name = schema.partition("(")[0]
        _library.define(schema)
        for key in ("CPU", "CUDA"):
            _library.impl(name, _kernel(name, key.lower()), key)
        torch.library.register_fake(f"weir::{name}", _SHAPES.get(name, _nothing), lib=_library)
        if name in _GRADIENTS:
            backward, keep = _GRADIENTS[name]
            torch.library.register_autograd(f"weir::{name}", backward, setup_context=keep, lib=_library)


_is_skipped = skip_modules("weir.torch._groups", __name__)
_register()
