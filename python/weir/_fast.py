"""Loads the extension module weir._native, and makes types of arrays known to it.

Without the module, because the package was built without a C compiler or for another interpreter than
CPython, or with WEIR_PYTHON_NATIVE=0, calls take the same way through ctypes, and more time.
"""
from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any, Callable, Optional

from . import _declarations as c
from ._library import lib

if TYPE_CHECKING:
    from ._native import Caller

DECLINED = 1  # what the module's calls return for arrays that Python must examine


def _address(name: str) -> int:
    return ctypes.cast(getattr(lib, name), ctypes.c_void_p).value or 0


def _load() -> Any:
    if os.environ.get("WEIR_PYTHON_NATIVE") == "0":
        return None
    try:
        from . import _native
    except ImportError:
        return None
    names = ("weir_run", "weir_mem_alloc", "weir_mem_pointer", "weir_mem_free")
    if _native.bind({name: _address(name) for name in names}) != ctypes.sizeof(c.weir_call):
        return None  # of another build of the package
    return _native


native: Any = _load()


def caller(handle: int, device: int, size: int, rank: int) -> "Optional[Caller]":
    """Returns an object that makes calls on a communicator; None without the module."""
    return None if native is None else native.Caller(handle, device, size, rank)


def _nothing(_: Any) -> None:
    return None


# Memory of an array as the arguments of _buffers.Buffer, and the current CUDA stream of its library, as a number. None:
# Python must look, or there is none.
read: Callable[[Any], Optional[tuple[int, int, int, int, int, bool]]] = _nothing if native is None else native.read
stream: Callable[[Any], Optional[int]] = _nothing if native is None else native.stream


def learn_arrays(kind: type, dtypes: dict[Any, tuple[int, int]]) -> None:
    """Makes numpy.ndarray known, with its dtype objects."""
    if native is not None:
        native.learn_arrays(kind, [(dtype, number) for dtype, (number, _) in dtypes.items()])


def learn_tensors(kind: type) -> None:
    """Makes a type of tensors known that has DLPack's exchange functions, as PyTorch's from 2.10 on."""
    exchange = getattr(kind, "__dlpack_c_exchange_api__", None)
    if native is not None and exchange is not None:
        native.learn_tensors(kind, exchange)
