"""A communicator for inference engines, with the methods of vLLM's and SGLang's.

    weir_ar = weir.engines.EngineCommunicator(cpu_group, device)

It has the methods of their custom all-reduce (`should_custom_ar`, `custom_all_reduce`, `capture`) and of
their PyNccl communicator (`all_reduce`, `all_gather`, `reduce_scatter`, `broadcast`, `send`, `recv`,
`change_state`), so that it can take the place of either. docs/user/vllm.md has the recipes.
"""
from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator, Optional, Sequence, Union

import torch
import torch.distributed as dist

from ._boot import init, unique_id
from .communicator import Communicator
from .errors import UnsupportedError, WeirError

_OPS = {dist.ReduceOp.SUM: "sum", dist.ReduceOp.PRODUCT: "prod", dist.ReduceOp.MAX: "max",
        dist.ReduceOp.MIN: "min", dist.ReduceOp.AVG: "avg"}
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def _op_name(op: Any) -> str:
    if op is dist.ReduceOp.SUM:
        return "sum"
    for known, name in _OPS.items():
        if op == known:
            return name
    raise UnsupportedError(f"{op}: expected SUM, PRODUCT, MAX, MIN or AVG")


def _share_id(group: Any) -> tuple[bytes, int, int]:
    """Returns the unique id of rank 0, this rank, and the number of ranks of an engine's group: a process
    group of PyTorch, or vLLM's StatelessProcessGroup."""
    if hasattr(group, "broadcast_obj"):
        rank, size = int(group.rank), int(group.world_size)
        return bytes(group.broadcast_obj(unique_id() if rank == 0 else None, src=0)), rank, size
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    held: list[Any] = [unique_id() if rank == 0 else None]
    root = dist.get_process_group_ranks(group if group is not None else dist.group.WORLD)[0]
    dist.broadcast_object_list(held, src=root, group=group)
    return held[0], rank, size


class EngineCommunicator:
    """The ranks of one tensor-parallel group.

    group: the engine's CPU group (backend gloo), or a StatelessProcessGroup. device: of this rank: a
    torch.device, its name, or the number of a GPU. max_size: the largest tensor, in bytes, that
    `should_custom_ar` accepts. Creation is collective. If weir cannot serve the group, for example because
    it spans nodes and the tensors are on GPUs, `disabled` is True on all ranks, `reason` says why, and the engine
    uses its other communicators; nothing is raised.

    Attributes, as the engines read them: rank, world_size, device, available, disabled.
    """

    def __init__(self, group: Any, device: Union[int, str, torch.device], max_size: int = 64 << 20,
                 **options: Any) -> None:
        """options: those of weir.init, for example timeout_ms, or invariant for the same bits at every batch size."""
        self.group, self.max_size, self.reason = group, max_size, ""
        self.device = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
        self.available, self.disabled = False, True
        self._is_capturing = False
        self.stream: Any = None
        self.comm: Optional[Communicator] = None
        made, self.rank, self.world_size = _share_id(group)
        if self.world_size == 1:
            self.reason = "one rank"
            return
        is_gpu = self.device.type == "cuda"
        try:
            comm = init(id=made, rank=self.rank, size=self.world_size, backend="cuda" if is_gpu else "host",
                        device=self.device.index if is_gpu else None, **options)
        except WeirError as error:  # all ranks get the same status
            self.reason = str(error)
            return
        if is_gpu and comm.nodes > 1:
            self.reason = f"{comm.nodes} nodes: calls on GPU memory between nodes cannot be captured in graphs"
            comm.destroy()
            return
        self.comm, self.available, self.disabled = comm, True, False

    # ------------------------------------------------------- custom all-reduce

    def should_custom_ar(self, inp: torch.Tensor) -> bool:
        """Returns whether `custom_all_reduce` serves a tensor: contiguous, on this device, float32, float16 or
        bfloat16, of at most max_size bytes. The same on all ranks for tensors of the same shape and type."""
        return (not self.disabled and inp.dtype in _FLOATS and inp.device == self.device
                and inp.is_contiguous() and 0 < inp.numel() * inp.element_size() <= self.max_size)

    should_allreduce = should_custom_ar
    should_weir_allreduce = should_custom_ar

    def custom_all_reduce(self, input: torch.Tensor) -> Optional[torch.Tensor]:
        """Returns the sum over all ranks in a new tensor; None if this call is not for weir.
        Also in the warm-up before a capture weir runs, which creates what the graph needs."""
        if not self.should_custom_ar(input):
            return None
        return self.all_reduce(input)

    @contextmanager
    def capture(self) -> Iterator[None]:
        """Surrounds the capture of CUDA graphs. weir needs no registration of buffers after it."""
        self._is_capturing = True
        try:
            yield
        finally:
            self._is_capturing = False

    def register_graph_buffers(self) -> None:
        """Does nothing: graphs hold what they need."""

    # ------------------------------------------------------------------ PyNccl

    def _live(self) -> Communicator:
        if self.comm is None:
            raise UnsupportedError(f"this communicator is disabled: {self.reason or 'it was closed'}")
        return self.comm

    def _stream(self, stream: Any) -> Any:
        return (stream if stream is not None else self.stream) if self.device.type == "cuda" else None

    def all_reduce(self, in_tensor: torch.Tensor, out_tensor: Optional[torch.Tensor] = None,
                   op: Any = dist.ReduceOp.SUM, stream: Any = None, *, out: Optional[torch.Tensor] = None,
                   registered: bool = False) -> Optional[torch.Tensor]:
        """Combines the tensors of all ranks into out_tensor (None: a new one), which it returns; None, without
        doing anything, while the communicator is disabled. stream None: the current one."""
        if self.disabled:
            return None
        result = out_tensor if out_tensor is not None else out
        if result is None:
            result = torch.empty_like(in_tensor)
        return self._live().all_reduce(in_tensor, result, _op_name(op), stream=self._stream(stream))

    def all_gather(self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, stream: Any = None) -> None:
        """Gathers the tensors of all ranks in rank order."""
        if not self.disabled:
            self._live().all_gather(input_tensor, output_tensor, stream=self._stream(stream))

    def reduce_scatter(self, output_tensor: torch.Tensor, input_tensor: torch.Tensor,
                       op: Any = dist.ReduceOp.SUM, stream: Any = None) -> None:
        """Combines the tensors of all ranks; each gets its part."""
        if not self.disabled:
            self._live().reduce_scatter(input_tensor, output_tensor, _op_name(op), stream=self._stream(stream))

    def all_gatherv(self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, sizes: Sequence[int],
                    stream: Any = None) -> None:
        """Gathers tensors with different numbers of rows: sizes[r] of rank r."""
        if not self.disabled:
            rows = input_tensor.shape[0]
            repeated = input_tensor.repeat(self.world_size, *[1] * (input_tensor.dim() - 1))
            self._live().all_to_all_v(repeated, [rows] * self.world_size, output_tensor, sizes,
                                      stream=self._stream(stream))

    def broadcast(self, tensor: torch.Tensor, src: int, stream: Any = None) -> None:
        """Copies the tensor of rank src of the group to all ranks."""
        if not self.disabled:
            self._live().broadcast(tensor, root=src, stream=self._stream(stream))

    def send(self, tensor: torch.Tensor, dst: int, stream: Any = None) -> None:
        """Sends to rank dst of the group, which calls recv."""
        if not self.disabled:
            self._live().send(tensor, dst, stream=self._stream(stream))

    def recv(self, tensor: torch.Tensor, src: int, stream: Any = None) -> None:
        """Receives from rank src of the group."""
        if not self.disabled:
            self._live().recv(tensor, src, stream=self._stream(stream))

    @contextmanager
    def change_state(self, enable: Optional[bool] = None, stream: Any = None) -> Iterator[None]:
        """Enables or disables the communicator, and sets the stream of its calls, for a block of code."""
        former = self.disabled, self.stream
        self.disabled = not (self.available if enable is None else enable and self.available)
        self.stream = stream if stream is not None else self.stream
        try:
            yield
        finally:
            self.disabled, self.stream = former

    def close(self) -> None:
        """Destroys the communicator. Collective."""
        comm, self.comm, self.available, self.disabled = self.comm, None, False, True
        if comm is not None:
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
            comm.destroy()

    destroy = close
