"""weir for PyTorch: operators for torch.compile and autograd, and a backend of torch.distributed.

    import torch.distributed, weir.torch
    torch.distributed.init_process_group("weir")                # CPU and GPU tensors
    total = torch.ops.weir.all_reduce(tensor)                   # differentiable, compilable

Importing this module registers both. The operators use a group by its name: "" is the default process
group of the backend weir, or the group that `use` set. `weir.Communicator` itself takes tensors, too, with the
least overhead.
"""
from __future__ import annotations

from ._groups import Group, group, use
from ._backend import ProcessGroupWeir
from ._moe import moe_combine, moe_dispatch
from ._pool import is_registered, use_pool
from . import _operators

__all__ = ["Group", "ProcessGroupWeir", "group", "is_registered", "moe_combine", "moe_dispatch", "use", "use_pool"]
del _operators
