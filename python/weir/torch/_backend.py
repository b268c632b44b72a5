"""The backend "weir" of torch.distributed: a process group in Python.

CPU and GPU tensors are served by communicators of the same ranks. Calls on the CPU are complete when
they return, calls on a GPU are enqueued on the current stream; so a returned Work is complete, or its
wait orders the caller's stream after it. asynchronous calls on a GPU do not overlap with the stream that
made them.
"""
from __future__ import annotations

from datetime import timedelta
from typing import Any, Callable, Optional, Sequence

import torch
import torch.distributed as dist

from .._boot import init, unique_id
from ..communicator import Communicator
from ..errors import InvalidError, UnsupportedError
from ._groups import Group, _groups
from ._opaque import mark_methods, opaque

Tensors = Sequence[torch.Tensor]
_OPS = {dist.ReduceOp.SUM: "sum", dist.ReduceOp.PRODUCT: "prod", dist.ReduceOp.MAX: "max",
        dist.ReduceOp.MIN: "min", dist.ReduceOp.AVG: "avg"}


def _op(options: Any) -> str:
    wanted = options.reduceOp
    for known, name in _OPS.items():
        if wanted == known:
            return name
    raise UnsupportedError(f"the backend weir has no operation {wanted}; expected SUM, PRODUCT, MAX, MIN or AVG")


def _one(tensors: Any) -> torch.Tensor:
    """Returns the only tensor of a list; c10d's lists have one entry for each device of a rank."""
    if isinstance(tensors, torch.Tensor):
        return tensors
    if len(tensors) != 1:
        raise UnsupportedError(f"{len(tensors)} tensors in one call; the backend weir takes one")
    found: torch.Tensor = tensors[0]
    return found


def _work(results: list[torch.Tensor]) -> Any:
    """Returns a Work for calls that are complete or enqueued on the current stream."""
    devices = sorted({one.device for one in results if one.device.type == "cuda"}, key=str)
    future: Any = torch.futures.Future(devices=devices) if devices else torch.futures.Future()
    future.set_result(results)
    return torch._C._distributed_c10d._create_work_from_future(future)


class ProcessGroupWeir(dist.ProcessGroup):  # type: ignore[misc, unused-ignore]
    """What torch.distributed.init_process_group("weir") and new_group(backend="weir") create."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._rank, self._size, self._timeout, self._group_name = rank, size, timeout, ""
        if rank == 0:
            store.set("weir_unique_id", unique_id().hex())
        made = bytes.fromhex(store.get("weir_unique_id").decode())
        milliseconds = min(int(timeout.total_seconds() * 1000), 2 ** 31 - 1)
        comm = init(id=made, rank=rank, size=size, backend="host", timeout_ms=milliseconds)
        # The first group is that of all ranks.
        name = "" if "" not in _groups else f"{id(self):x}"
        self.group = _groups[name] = Group(comm, name)

    # ---------------------------------------------------------------- properties

    def size(self) -> int:
        return self._size

    def rank(self) -> int:
        return self._rank

    def getBackendName(self) -> str:
        return "weir"

    def name(self) -> str:
        return "weir"

    def _set_group_name(self, name: str) -> None:
        self._group_name = name

    @property
    def pg_name(self) -> str:
        return self._group_name

    @property
    def group_name(self) -> str:
        return self._group_name

    def getGroupName(self) -> str:
        return self._group_name

    def _get_backend(self, device: Any) -> "ProcessGroupWeir":
        return self

    def _start_coalescing(self, device: Any) -> None:
        """Calls of a coalesced block are made one by one."""

    def _end_coalescing(self, device: Any) -> Any:
        return _work([])

    def _set_sequence_number_for_group(self) -> None:
        return None

    def shutdown(self) -> None:
        """Destroys the communicators. Collective."""
        self.group.destroy()

    def abort(self) -> None:
        self.group.abort()

    # ------------------------------------------------------------------- helpers

    def _comm(self, tensor: torch.Tensor) -> Communicator:
        return self.group.comm(tensor)

    def _done(self, *results: torch.Tensor) -> Any:
        for one in results[:1]:
            self.group.called(one)
        return _work(list(results))

    def _in_place(self, tensor: torch.Tensor, call: Callable[[Communicator, torch.Tensor], Any]) -> Any:
        """Makes a call on a contiguous tensor, or on a contiguous copy that is copied back."""
        held = tensor if tensor.is_contiguous() else tensor.contiguous()
        call(self._comm(tensor), held)
        self.group.called(held)
        if held is not tensor:
            tensor.copy_(held)
        return _work([tensor])

    # --------------------------------------------------------------- collectives

    def allreduce(self, tensors: Any, opts: Any = dist.AllreduceOptions()) -> Any:
        op = _op(opts)
        return self._in_place(_one(tensors), lambda comm, tensor: comm.all_reduce(tensor, op=op))

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = dist.AllreduceCoalescedOptions()) -> Any:
        op = _op(opts)
        for one in tensors:
            self._in_place(one, lambda comm, tensor: comm.all_reduce(tensor, op=op))
        return _work(list(tensors))

    def broadcast(self, tensors: Any, opts: Any = dist.BroadcastOptions()) -> Any:
        root = opts.rootRank
        return self._in_place(_one(tensors), lambda comm, tensor: comm.broadcast(tensor, root=root))

    def reduce(self, tensors: Any, opts: Any = dist.ReduceOptions()) -> Any:
        op, root = _op(opts), opts.rootRank
        return self._in_place(_one(tensors), lambda comm, tensor: comm.reduce(tensor, root=root, op=op))

    def _allgather_base(self, output: torch.Tensor, data: torch.Tensor, opts: Any = None) -> Any:
        data = data.contiguous()
        self._comm(data).all_gather(data, output)
        return self._done(output)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        outs, data = outputs[0], _one(inputs).contiguous()
        if all(one.shape == data.shape for one in outs):
            whole = data.new_empty((self._size, *data.shape))
            self._comm(data).all_gather(data, whole)
            parts = list(whole)
        else:  # lists of tensors of different lengths
            whole = data.new_empty(sum(one.numel() for one in outs))
            counts = [one.numel() for one in outs]
            self._comm(data).all_to_all_v(data.reshape(-1).repeat(self._size), [data.numel()] * self._size, whole,
                                          counts)
            parts = list(whole.split(counts))
        self.group.called(data)
        for out, part in zip(outs, parts):
            out.copy_(part.view_as(out))
        return _work(list(outs))

    def allgather_into_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Any:
        for output, data in zip(outputs, inputs):
            self._allgather_base(output, data)
        return _work(list(outputs))

    def _reduce_scatter_base(self, output: torch.Tensor, data: torch.Tensor,
                             opts: Any = dist.ReduceScatterOptions()) -> Any:
        data = data.contiguous()
        self._comm(data).reduce_scatter(data, output, _op(opts))
        return self._done(output)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = dist.ReduceScatterOptions()) -> Any:
        output, parts = _one(outputs), inputs[0] if isinstance(inputs[0], (list, tuple)) else inputs
        if all(one.shape == output.shape for one in parts):
            return self._reduce_scatter_base(output, torch.stack(list(parts)), opts)
        for root, part in enumerate(parts):  # different lengths
            held = part.clone(memory_format=torch.contiguous_format)
            self._comm(held).reduce(held, root=root, op=_op(opts))
            self.group.called(held)
            if root == self._rank:
                output.copy_(held.view_as(output))
        return _work([output])

    def reduce_scatter_tensor_coalesced(self, outputs: Tensors, inputs: Tensors,
                                        opts: Any = dist.ReduceScatterOptions()) -> Any:
        for output, data in zip(outputs, inputs):
            self._reduce_scatter_base(output, data, opts)
        return _work(list(outputs))

    def alltoall_base(self, output: torch.Tensor, data: torch.Tensor, output_splits: Sequence[int],
                      input_splits: Sequence[int], opts: Any = None) -> Any:
        data, comm = data.contiguous(), self._comm(data)
        if not output_splits and not input_splits:
            comm.all_to_all(data, output)
        else:
            comm.all_to_all_v(data, list(input_splits) or [data.shape[0] // self._size] * self._size, output,
                              list(output_splits) or [output.shape[0] // self._size] * self._size)
        return self._done(output)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Any:
        data = torch.cat([one.reshape(-1) for one in inputs])
        received = [one.numel() for one in outputs]
        whole = data.new_empty(sum(received))
        self._comm(data).all_to_all_v(data, [one.numel() for one in inputs], whole, received)
        self.group.called(data)
        for out, part in zip(outputs, whole.split(received)):
            out.copy_(part.view_as(out))
        return _work(list(outputs))

    def gather(self, outputs: Any, inputs: Any, opts: Any = dist.GatherOptions()) -> Any:
        data, root = _one(inputs).contiguous(), opts.rootRank
        outs = outputs[0] if self._rank == root else []
        received = [one.numel() for one in outs] or [0] * self._size
        whole = data.new_empty(sum(received))
        sent = [data.numel() if rank == root else 0 for rank in range(self._size)]
        self._comm(data).all_to_all_v(data.reshape(-1), sent, whole, received)
        self.group.called(data)
        for out, part in zip(outs, whole.split(received)):
            out.copy_(part.view_as(out))
        return _work(list(outs))

    def scatter(self, outputs: Any, inputs: Any, opts: Any = dist.ScatterOptions()) -> Any:
        output, root = _one(outputs), opts.rootRank
        is_root = self._rank == root
        data = torch.cat([one.reshape(-1) for one in inputs[0]]) if is_root else output.new_empty(0)
        sent = [one.numel() for one in inputs[0]] if is_root else [0] * self._size
        received = [output.numel() if rank == root else 0 for rank in range(self._size)]
        whole = output.new_empty(output.numel())
        self._comm(data).all_to_all_v(data, sent, whole, received)
        self.group.called(data)
        output.copy_(whole.view_as(output))
        return _work([output])

    def gather_single(self, output: Optional[torch.Tensor], data: torch.Tensor, opts: Any = dist.GatherOptions()) -> Any:
        data, root = data.contiguous(), opts.rootRank
        is_root = self._rank == root
        held = output if is_root and output is not None else data.new_empty(0)
        sent = [data.numel() if rank == root else 0 for rank in range(self._size)]
        received = [data.numel() if is_root else 0] * self._size
        self._comm(data).all_to_all_v(data.reshape(-1), sent, held.view(-1), received)
        self.group.called(data)
        return _work([held])

    # Names of the same calls in PyTorch 2.15.
    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
    all_to_all_single = alltoall_base

    # ------------------------------------------------------------------ messages

    def send(self, tensors: Any, destination: int, tag: int = 0) -> Any:
        tensor = _one(tensors).contiguous()
        self._comm(tensor).send(tensor, destination)
        return self._done(tensor)

    def recv(self, tensors: Any, source: int, tag: int = 0) -> Any:
        return self._in_place(_one(tensors), lambda comm, tensor: comm.recv(tensor, source))

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        raise UnsupportedError("the backend weir receives from a rank; pass src")

    def barrier(self, opts: Any = None) -> Any:
        comm = self.group.communicators()[0]
        gpu = self.group._gpu
        if gpu is not None:
            torch.cuda.synchronize(gpu.device)
        comm.barrier()
        return _work([])

    def monitored_barrier(self, timeout: Optional[timedelta] = None, wait_all_ranks: bool = False) -> None:
        self.barrier()


# What torch.distributed calls, partly from C++; not the constants, which the functional collectives read in a graph.
mark_methods(ProcessGroupWeir, (
    "allreduce", "allreduce_coalesced", "broadcast", "reduce", "_allgather_base", "allgather",
    "allgather_into_tensor_coalesced", "_reduce_scatter_base", "reduce_scatter", "reduce_scatter_tensor_coalesced",
    "alltoall_base", "alltoall", "gather", "gather_single", "scatter", "all_gather_single", "all_gather_single_coalesced",
    "reduce_scatter_single", "reduce_scatter_single_coalesced", "all_to_all_single", "send", "recv", "recv_anysource", "barrier", "monitored_barrier",
    "shutdown", "abort"))


@opaque
def _create(store: Any, rank: int, size: int, timeout: timedelta) -> ProcessGroupWeir:
    return ProcessGroupWeir(store, rank, size, timeout)


def _register() -> None:
    if not dist.is_available():
        raise InvalidError("this PyTorch was built without torch.distributed")
    if not hasattr(dist.Backend, "WEIR"):
        dist.Backend.register_backend("weir", _create, devices=["cpu", "cuda"])


_register()
