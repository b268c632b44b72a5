"""Named groups of ranks, with a communicator for CPU tensors and one for GPU tensors."""
from __future__ import annotations

from typing import Any, Optional

import torch

from ..communicator import Communicator
from ..errors import InvalidError

# Names of groups and the objects that make calls on them without Python (weir._native.Caller), by device type.
callers: dict[str, dict[str, Any]] = {"cpu": {}, "cuda": {}}


class Group:
    """The ranks of one communicator, for tensors on the CPU and on this rank's GPU.

    The communicator of the other kind of memory is created, collectively, by the first call that needs
    it. Calls of a GPU on different streams are ordered: each waits for the one before.
    """

    def __init__(self, comm: Communicator, name: str = "") -> None:
        self.name, self.rank, self.size = name, comm.rank, comm.size
        self._first = comm
        self._host: Optional[Communicator] = comm if comm.device < 0 else None
        self._gpu: Optional[Communicator] = comm if comm.device >= 0 else None
        self._stream: Any = None  # of the latest call
        self._event: Any = None
        self._is_recorded = False  # the event was recorded after the latest call
        self.pool: Any = None  # of use_pool
        for one in self.communicators():
            self._add_caller(one)

    def _add_caller(self, comm: Communicator) -> Communicator:
        if comm._caller is not None:
            callers["cpu" if comm.device < 0 else "cuda"][self.name] = comm._caller
        return comm

    def comm(self, tensor: torch.Tensor) -> Communicator:
        """Returns the communicator for a tensor's device, and orders its stream after earlier calls."""
        if tensor.device.type == "cpu":
            if self._host is None:
                self._host = self._split("host", None)
            return self._host
        if self._gpu is None:
            self._gpu = self._split("cuda", tensor.device.index)
        if self._stream is not None and not torch.cuda.is_current_stream_capturing():
            stream = torch.cuda.current_stream(tensor.device)
            if stream != self._stream:
                self._wait_for_latest(stream)
        return self._gpu

    def _split(self, backend: str, device: Optional[int]) -> Communicator:
        made = self._first.split(0, backend=backend, device=device)
        assert made is not None
        return self._add_caller(made)

    def _wait_for_latest(self, stream: Any) -> None:
        """Makes a stream wait for the latest call. If the other stream is being captured, its calls run later."""
        if not self._is_recorded:
            with torch.cuda.stream(self._stream):
                if torch.cuda.is_current_stream_capturing():
                    return
            self._record()
        stream.wait_event(self._event)

    def _record(self) -> None:
        if self._event is None:
            self._event = torch.cuda.Event()
        self._event.record(self._stream)
        self._is_recorded = True

    def called(self, tensor: torch.Tensor) -> None:
        """Notes that a call on a tensor was enqueued on the current stream."""
        if tensor.device.type != "cuda" or torch.cuda.is_current_stream_capturing():
            return
        self._stream, self._is_recorded = torch.cuda.current_stream(tensor.device), False
        # A stream that PyTorch does not own may be gone when the next call wants to wait for it.
        is_own = self._stream.cuda_stream == 0 or self._stream.stream_id != self._stream.cuda_stream
        if not is_own:
            self._record()
        if self._gpu is not None and self._gpu._caller is not None:
            self._gpu._caller.follow(self._stream.cuda_stream if is_own else None)

    def run(self, collective: int, data: torch.Tensor, out: torch.Tensor, op: str = "sum", root: int = 0) -> bool:
        """Makes a call whose tensors need no examination, on the stream of the latest call; returns False if
        it must be made through `comm`."""
        caller = callers[data.device.type].get(self.name)
        status = 1 if caller is None else caller.run(collective, data, out, op, root, True)
        if status < 0:
            self.fail(data.device.type, status)
        return bool(status == 0)

    def fail(self, kind: str, status: int) -> None:
        """Raises the exception of a call on tensors of a kind of device."""
        comm = self._host if kind == "cpu" else self._gpu
        assert comm is not None
        comm._fail(status)

    def communicators(self) -> list[Communicator]:
        return [one for one in (self._host, self._gpu) if one is not None]

    def destroy(self) -> None:
        """Destroys the communicators. Collective. Waits for the GPU. InvalidError, and nothing is destroyed, while
        tensors of `use_pool` are in use."""
        if self.pool is not None:
            self.pool.close()
            self.pool = None
        if self._gpu is not None:
            torch.cuda.synchronize(self._gpu.device)
        for one in self.communicators():
            one.destroy()
        for kind in callers.values():
            kind.pop(self.name, None)
        _groups.pop(self.name, None)

    def abort(self) -> None:
        """Aborts the communicators: all waits of all ranks end."""
        for one in self.communicators():
            one.abort()


_groups: dict[str, Group] = {}


def use(comm: Communicator, name: str = "") -> Group:
    """Makes a communicator the group `name` of the operators; "" is their default. Returns the group, whose
    `destroy` also destroys the communicator."""
    for kind in callers.values():
        kind.pop(name, None)
    found = _groups[name] = Group(comm, name)
    return found


def group(name: str = "") -> Group:
    """Returns a group by name. InvalidError if there is none."""
    found = _groups.get(name)
    if found is None:
        raise InvalidError(f"there is no group '{name}': call torch.distributed.init_process_group('weir') or "
                           "weir.torch.use(weir.init())")
    return found
