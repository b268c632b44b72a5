"""weir: collectives for ranks that share a node, its GPUs or a network.

    import numpy, weir
    comm = weir.init()                      # under torchrun, mpirun or srun
    data = numpy.ones(1000, "float32")
    comm.all_reduce(data)                   # in place; also on tensors of PyTorch, CuPy, ...
    comm.destroy()

`init` creates a Communicator; `spawn` starts ranks on this node. Submodules: `weir.torch` (operators
and a backend of torch.distributed), `weir.engines` (communicators for inference engines), `weir.plan`,
`weir.results`; programs: `python -m weir.bench`, `python -m weir.check`.
"""
from __future__ import annotations

from . import _declarations as _c
from ._boot import init, unique_id
from ._library import library_path, version
from ._spawn import RankError, spawn
from .communicator import Communicator
from .errors import (AbortedError, InternalError, InvalidError, MismatchError, OutOfMemoryError,
                     PeerError, RefusedError, SystemCallError, TimedOutError, UnsupportedError,
                     WeirError)

__version__: str = _c.WEIR_VERSION

__all__ = ["AbortedError", "Communicator", "InternalError", "InvalidError", "MismatchError",
           "OutOfMemoryError", "PeerError", "RankError", "RefusedError", "SystemCallError",
           "TimedOutError", "UnsupportedError", "WeirError", "__version__", "init", "library_path",
           "spawn", "unique_id", "version"]
