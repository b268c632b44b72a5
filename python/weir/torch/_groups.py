"""Named groups of ranks, with a communicator for CPU tensors and one for GPU tensors."""
from __future__ import annotations

from typing import Any, Optional

import torch

from ..communicator import Communicator
from ..errors import InvalidError


class Group:
    """The ranks of one communicator, for tensors on the CPU and on this rank's GPU.

    The communicator of the other kind of memory is created, collectively, by the first call that needs
    it. Calls of a GPU on different streams are ordered: each waits for the one before. torch.compile must not
    trace the methods (see _opaque.py): their streams and events are those of torch.cuda.
    """

    def __init__(self, comm: Communicator, name: str = "") -> None:
        self.name, self.rank, self.size = name, comm.rank, comm.size
        self._first = comm
        self._host: Optional[Communicator] = comm if comm.device < 0 else None
        self._gpu: Optional[Communicator] = comm if comm.device >= 0 else None
        self._last: Any = None  # the stream of the latest call and its event

    def comm(self, tensor: torch.Tensor) -> Communicator:
        """Returns the communicator for a tensor's device, and orders its stream after earlier calls."""
        if tensor.device.type == "cpu":
            if self._host is None:
                self._host = self._first.split(0, backend="host")
                assert self._host is not None
            return self._host
        if self._gpu is None:
            self._gpu = self._first.split(0, backend="cuda", device=tensor.device.index)
            assert self._gpu is not None
        stream = torch.cuda.current_stream(tensor.device)
        if self._last is not None and self._last[0] != stream and not torch.cuda.is_current_stream_capturing():
            stream.wait_event(self._last[1])
        return self._gpu

    def called(self, tensor: torch.Tensor) -> None:
        """Notes that a call on a tensor was enqueued on the current stream."""
        if tensor.device.type == "cuda" and not torch.cuda.is_current_stream_capturing():
            stream = torch.cuda.current_stream(tensor.device)
            event = self._last[1] if self._last is not None else torch.cuda.Event()
            event.record(stream)
            self._last = stream, event

    def communicators(self) -> list[Communicator]:
        return [one for one in (self._host, self._gpu) if one is not None]

    def destroy(self) -> None:
        """Destroys the communicators. Collective. Waits for the GPU."""
        if self._gpu is not None:
            torch.cuda.synchronize(self._gpu.device)
        for one in self.communicators():
            one.destroy()
        _groups.pop(self.name, None)

    def abort(self) -> None:
        """Aborts the communicators: all waits of all ranks end."""
        for one in self.communicators():
            one.abort()


_groups: dict[str, Group] = {}


def use(comm: Communicator, name: str = "") -> Group:
    """Makes a communicator the group `name` of the operators; "" is their default. Returns the group, whose
    `destroy` also destroys the communicator."""
    found = _groups[name] = Group(comm, name)
    return found


def group(name: str = "") -> Group:
    """Returns a group by name. InvalidError if there is none."""
    found = _groups.get(name)
    if found is None:
        raise InvalidError(f"there is no group '{name}': call torch.distributed.init_process_group('weir') or "
                           "weir.torch.use(weir.init())")
    return found
