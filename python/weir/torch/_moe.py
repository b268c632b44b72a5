"""Dispatch and combine of mixture-of-experts layers with gradients.

The gradient of dispatch is a combine without weights, and the gradient of combine is a dispatch by the same routing, so
every rank must run the backward pass of every layer, in the same order.
"""
from __future__ import annotations

from typing import Any, Optional

import torch

from ..errors import InvalidError
from ..moe import Group, Received


def _gradients_of_rows(moe: Group, gradient: torch.Tensor, handle: int) -> torch.Tensor:
    """Brings the gradients of tokens to the rows of their experts; rows without a token are zero."""
    rows = gradient.new_zeros((moe.recv_rows, moe.hidden))
    back: torch.Tensor = moe.dispatch(gradient.contiguous(), handle=handle, rows=rows).rows
    return back


class _Dispatch(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    @staticmethod
    def forward(ctx: Any, moe: Group, handle: int, x: torch.Tensor, topk_experts: torch.Tensor,
                topk_weights: Optional[torch.Tensor], held: list[Received]) -> Any:
        rows = x.new_zeros((moe.recv_rows, moe.hidden)) if moe._has_places or x.is_cuda else None
        got = moe.dispatch(x.contiguous(), topk_experts.contiguous(),
                           None if topk_weights is None else topk_weights.contiguous(), handle=handle, rows=rows)
        held.append(got)
        ctx.moe, ctx.handle, ctx.has_weights = moe, handle, topk_weights is not None
        ctx.set_materialize_grads(True)
        weights = got.weights
        if weights is None:
            weights = x.new_zeros(0, dtype=torch.float32)
        return got.rows, weights

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        rows, weights = gradients
        if not ctx.has_weights:
            return None, None, ctx.moe.combine(rows.contiguous(), handle=ctx.handle), None, None, None
        x, back = ctx.moe.combine(rows.contiguous(), handle=ctx.handle, row_weight_grads=weights.contiguous())
        return None, None, x, None, back, None


class _Combine(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    @staticmethod
    def forward(ctx: Any, moe: Group, handle: int, outputs: torch.Tensor, topk_weights: Optional[torch.Tensor],
                row_weights: Optional[torch.Tensor]) -> Any:
        ctx.moe, ctx.handle = moe, handle
        ctx.save_for_backward(*((outputs, row_weights) if row_weights is not None else ()))
        return moe.combine(outputs.contiguous(), topk_weights, handle=handle)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        rows = _gradients_of_rows(ctx.moe, gradients[0], ctx.handle)
        if not ctx.saved_tensors:
            return None, None, rows, None, None
        outputs, row_weights = ctx.saved_tensors
        rows = rows[:outputs.shape[0]]
        weights = torch.einsum("nh,nh->n", rows.float(), outputs.float())
        return None, None, (rows.float() * row_weights[:, None]).to(rows.dtype), None, weights


def moe_dispatch(moe: Group, x: torch.Tensor, topk_experts: torch.Tensor, topk_weights: Optional[torch.Tensor] = None,
                 handle: int = 0) -> Received:
    """Like `weir.moe.Group.dispatch`, with gradients of x and, through the weights of the result, of topk_weights.

    A handle may be used again after the backward pass of its layer. Rows without a token are zero in layouts with fixed places.
    InvalidError for a group with fp8 rows, which have no gradient.
    """
    if moe.scales_per_row:
        raise InvalidError(f"rows of type {moe.dispatch_dtype} have no gradient; use weir.moe.Group.dispatch")
    held: list[Received] = []
    rows, weights = _Dispatch.apply(moe, handle, x, topk_experts, topk_weights, held)  # type: ignore[no-untyped-call, unused-ignore]
    got = held[0]
    got.rows = rows
    if topk_weights is not None:
        got.weights = weights
    return got


def moe_combine(moe: Group, outputs: torch.Tensor, got: Received, topk_weights: Optional[torch.Tensor] = None) -> torch.Tensor:
    """Like `weir.moe.Group.combine`, with gradients of outputs, and of topk_weights through `got`, which `moe_dispatch`
    returned and which must have weights if topk_weights are passed. outputs: as many rows as got.rows."""
    if topk_weights is not None and (moe.layout != "expert" or got.weights is None):
        raise InvalidError("topk_weights: expected layout 'expert' and a dispatch with weights; in other layouts add the "
                           "weighted outputs of a row's experts before combine")
    if tuple(outputs.shape) != tuple(got.rows.shape):
        raise InvalidError(f"outputs has shape {tuple(outputs.shape)}; expected that of the received rows, {tuple(got.rows.shape)}")
    back: torch.Tensor = _Combine.apply(  # type: ignore[no-untyped-call, unused-ignore]
        moe, got.handle, outputs, None if topk_weights is None else topk_weights.detach().contiguous(),
        None if topk_weights is None else got.weights)
    return back
