"""Keeps torch.compile out of the code that calls the library.

Calls of a process group and of a communicator exchange data, and on GPUs record events on streams: a graph can
hold neither. Without a mark, torch.compile traces such a function where compiled code calls it, also through C++, and
gives it streams and events of the base classes. A marked function runs as it is; compiled code has a graph break
there. The operators torch.ops.weir have none: their graphs hold the operator.

Whole modules are skipped by their file names, which costs nothing in a call. Methods of the process group are marked one
by one, because torch.compile must read its constants.
"""
from __future__ import annotations

import sys
from typing import Any, Callable, TypeVar, cast

import torch

from ..communicator import Communicator

F = TypeVar("F", bound=Callable[..., Any])


def opaque(function: F) -> F:
    """Returns the function with a mark that torch.compile neither traces it nor what it calls."""
    return cast(F, torch.compiler.disable(function))


def mark_methods(kind: type, names: tuple[str, ...]) -> None:
    """Marks methods of a class."""
    for name in names:
        setattr(kind, name, opaque(vars(kind)[name]))


def skip_modules(*names: str) -> bool:
    """Makes torch.compile skip all code of modules. Returns False if this PyTorch has no such list."""
    try:
        from torch._dynamo import trace_rules
        for name in names:
            trace_rules.add(name)
            if not trace_rules.check_file(sys.modules[name].__file__).skipped:
                return False
        return True
    except (ImportError, AttributeError, TypeError):
        return False


if not skip_modules("weir.communicator", "weir._buffers"):
    mark_methods(Communicator, (
        "all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "all_to_all_v", "sendrecv",
        "send", "recv", "barrier", "prepare", "split", "destroy"))
