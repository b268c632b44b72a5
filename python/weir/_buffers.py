"""Describes the memory of arrays and tensors: address, length, data type, place.

`describe` accepts NumPy arrays, PyTorch tensors, objects with `__cuda_array_interface__` (CuPy,
Numba), objects with `__dlpack__` (JAX and others), and objects with the buffer protocol (bytes,
bytearray, array.array, ctypes arrays). Memory must be contiguous in C order: other memory is refused,
never copied, because a result that is written to a copy would be lost.
"""
from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
from typing import Any, Callable, ContextManager, Optional

from . import _declarations as c
from . import _fast
from .errors import InvalidError, UnsupportedError

_D = c.Dtype
# NumPy's typestr without the byte order.
_TYPESTR = {"i1": _D.WEIR_INT8, "u1": _D.WEIR_UINT8, "i4": _D.WEIR_INT32, "u4": _D.WEIR_UINT32,
            "i8": _D.WEIR_INT64, "u8": _D.WEIR_UINT64, "f2": _D.WEIR_HALF, "f4": _D.WEIR_FLOAT,
            "f8": _D.WEIR_DOUBLE}
_BY_TYPESTR: dict[str, tuple[int, int]] = {
    order + name: (int(dtype), int(name[1])) for name, dtype in _TYPESTR.items()
    for order in (("|",) if name[1] == "1" else ("<",))}
# Types of ml_dtypes and torch, by their names.
_BY_NAME = {"bfloat16": _D.WEIR_BFLOAT16, "float8_e4m3fn": _D.WEIR_FP8_E4M3,
            "float8_e5m2": _D.WEIR_FP8_E5M2}
DTYPE_BYTES = {_D.WEIR_INT8: 1, _D.WEIR_UINT8: 1, _D.WEIR_INT32: 4, _D.WEIR_UINT32: 4,
               _D.WEIR_INT64: 8, _D.WEIR_UINT64: 8, _D.WEIR_HALF: 2, _D.WEIR_FLOAT: 4,
               _D.WEIR_DOUBLE: 8, _D.WEIR_BFLOAT16: 2, _D.WEIR_FP8_E4M3: 1, _D.WEIR_FP8_E5M2: 1}
DTYPE_NAMES = {**{int(dtype): {"i": "int", "u": "uint", "f": "float"}[name[0]] + str(8 * int(name[1]))
                  for name, dtype in _TYPESTR.items()},
               **{int(dtype): name for name, dtype in _BY_NAME.items()}}
HOST = -1  # the device number of memory of the process
UNTYPED = -1  # a data type that weir does not reduce; calls that only move data accept it


class Buffer:
    """Contiguous memory of one object, which `keep` holds.

    pointer: address (0 if empty). nbytes: length. dtype: a weir_dtype, or UNTYPED. itemsize: bytes
    of one element. device: a CUDA device number, or HOST. readonly: True if it must not be written.
    """

    __slots__ = ("pointer", "nbytes", "dtype", "itemsize", "device", "readonly", "keep")

    def __init__(self, pointer: int, nbytes: int, dtype: int, itemsize: int, device: int,
                 readonly: bool, keep: Any = None) -> None:
        self.pointer, self.nbytes, self.dtype, self.itemsize = pointer, nbytes, dtype, itemsize
        self.device, self.readonly, self.keep = device, readonly, keep


def _refuse_strides(shape: tuple[int, ...], strides: Optional[tuple[int, ...]], unit: int,
                    what: str) -> None:
    """Raises if the strides are not those of C order; `unit` is the stride of the last axis."""
    if strides is None:
        return
    expected = unit
    for length, stride in zip(reversed(shape), reversed(strides)):
        if length == 0:
            return
        if length > 1 and stride != expected:
            raise InvalidError(f"{what} of shape {shape} is not contiguous; expected C order: pass a "
                               "contiguous copy (numpy.ascontiguousarray, tensor.contiguous())")
        expected *= length


def _from_interface(found: dict[str, Any], device: int, name: Optional[str], keep: Any) -> Buffer:
    """From __array_interface__ or __cuda_array_interface__."""
    kind = found["typestr"]
    shape = found["shape"]
    known = _BY_TYPESTR.get(kind)
    if known is not None:
        dtype, itemsize = known
    else:
        dtype, itemsize = _BY_NAME.get(name or "", UNTYPED), int(kind[2:] or 0)
        if kind[1] == "O":
            raise UnsupportedError("object arrays cannot be exchanged; convert the elements to numbers")
        if kind[1] in ("t", "U") or itemsize == 0 or (kind[0] == ">" and itemsize > 1):
            raise UnsupportedError(f"data type '{kind}': weir exchanges numbers in this machine's "
                                   "byte order")
    strides = found.get("strides")
    if strides is not None:
        _refuse_strides(shape, strides, itemsize, "an array")
    count = itemsize
    for length in shape:
        count *= length
    pointer, readonly = found["data"]
    return Buffer(pointer or 0, count, dtype, itemsize, device, readonly, keep)


_numpy_types: dict[Any, tuple[int, int]] = {}


def _fill_numpy_types() -> None:
    import numpy
    for text, known in _BY_TYPESTR.items():
        _numpy_types[numpy.dtype(text)] = known
    _fast.learn_arrays(numpy.ndarray, _numpy_types)


def _from_numpy(array: Any) -> Buffer:
    if not _numpy_types:
        _fill_numpy_types()
    read = _fast.read(array)
    if read is not None:
        return Buffer(*read)
    found = array.__array_interface__
    name = array.dtype.name if found["typestr"] not in _BY_TYPESTR else None
    return _from_interface(found, HOST, name, None)


_torch_types: dict[Any, tuple[int, int]] = {}


def _fill_torch_types() -> None:
    import torch
    for name, dtype in (("int8", _D.WEIR_INT8), ("uint8", _D.WEIR_UINT8), ("int32", _D.WEIR_INT32),
                        ("uint32", _D.WEIR_UINT32), ("int64", _D.WEIR_INT64),
                        ("uint64", _D.WEIR_UINT64), ("float16", _D.WEIR_HALF),
                        ("float32", _D.WEIR_FLOAT), ("float64", _D.WEIR_DOUBLE),
                        ("bfloat16", _D.WEIR_BFLOAT16), ("float8_e4m3fn", _D.WEIR_FP8_E4M3),
                        ("float8_e5m2", _D.WEIR_FP8_E5M2)):
        if hasattr(torch, name):
            _torch_types[getattr(torch, name)] = (int(dtype), DTYPE_BYTES[dtype])
    for kind in (torch.Tensor, torch.nn.Parameter):
        _fast.learn_tensors(kind)


def _from_torch(tensor: Any) -> Buffer:
    if not _torch_types:
        _fill_torch_types()
    read = _fast.read(tensor)
    if read is not None:
        return Buffer(*read)
    if not tensor.is_contiguous():
        raise InvalidError(f"a tensor of shape {tuple(tensor.shape)} is not contiguous; pass "
                           "tensor.contiguous()")
    known = _torch_types.get(tensor.dtype)
    itemsize = tensor.element_size()
    place = tensor.device
    if place.type == "cpu":
        device = HOST
    elif place.type == "cuda":
        device = place.index
    else:
        raise UnsupportedError(f"a tensor on '{place}'; expected cpu or cuda")
    return Buffer(tensor.data_ptr(), tensor.numel() * itemsize, UNTYPED if known is None else known[0],
                  itemsize, device, False, None)


def _from_cuda_interface(array: Any) -> Buffer:
    device = getattr(array, "device", None)
    number = getattr(device, "id", device)  # CuPy has device.id; JAX and others differ
    return _from_interface(array.__cuda_array_interface__, number if isinstance(number, int) else 0,
                           getattr(getattr(array, "dtype", None), "name", None), None)


# ----------------------------------------------------------------------- DLPack

class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _DLManagedVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _DLTensor)]


_DLPACK_TYPES = {(0, 8): _D.WEIR_INT8, (1, 8): _D.WEIR_UINT8, (0, 32): _D.WEIR_INT32,
                 (1, 32): _D.WEIR_UINT32, (0, 64): _D.WEIR_INT64, (1, 64): _D.WEIR_UINT64,
                 (2, 16): _D.WEIR_HALF, (2, 32): _D.WEIR_FLOAT, (2, 64): _D.WEIR_DOUBLE,
                 (4, 16): _D.WEIR_BFLOAT16, (10, 8): _D.WEIR_FP8_E4M3, (12, 8): _D.WEIR_FP8_E5M2}
_DLPACK_HOST, _DLPACK_CUDA = (1, 3), (2, 13)  # memory of the process, pinned; GPU, managed
_DLPACK_READONLY = 1

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object,
                                                                        ctypes.c_char_p)
_capsule_valid = ctypes.pythonapi.PyCapsule_IsValid
_capsule_valid.restype, _capsule_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)


def _dlpack_capsule(array: Any, stream: Optional[int]) -> Any:
    arguments: dict[str, Any] = {} if stream is None else {"stream": stream or 1}
    try:
        return array.__dlpack__(max_version=(1, 1), **arguments)
    except TypeError:  # an exporter of an older version
        return array.__dlpack__(**arguments)


def _from_dlpack(array: Any, stream: Optional[int] = None) -> Buffer:
    kind, number = array.__dlpack_device__()
    if kind not in _DLPACK_HOST + _DLPACK_CUDA:
        raise UnsupportedError(f"a DLPack array on device type {int(kind)}; expected CPU or CUDA")
    is_host = kind in _DLPACK_HOST
    capsule = _dlpack_capsule(array, None if is_host else stream)
    # Exporters that are older than the flag, JAX among them, have immutable arrays.
    readonly = True
    if _capsule_valid(capsule, b"dltensor_versioned"):
        managed = _DLManagedVersioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        tensor, readonly = managed.tensor, bool(managed.flags & _DLPACK_READONLY)
    else:
        tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    if type(array).__module__.partition(".")[0] in ("jax", "jaxlib"):
        readonly = True
    if tensor.lanes != 1 or tensor.bits % 8:
        raise UnsupportedError(f"a DLPack array with elements of {tensor.lanes} x {tensor.bits} bits")
    itemsize = tensor.bits // 8
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    if tensor.strides:
        _refuse_strides(shape, tuple(tensor.strides[i] for i in range(tensor.ndim)), 1,
                        "a DLPack array")
    nbytes = itemsize
    for length in shape:
        nbytes *= length
    return Buffer((tensor.data or 0) + tensor.byte_offset, nbytes,
                  int(_DLPACK_TYPES.get((tensor.code, tensor.bits), UNTYPED)), itemsize,
                  HOST if is_host else int(number), readonly, capsule)


# -------------------------------------------------------------- buffer protocol

class _PyBuffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = (ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int)
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = (ctypes.POINTER(_PyBuffer),)
_PYBUF_ND_FORMAT = 0x0004 | 0x0008 | 0x0010  # format, shape, strides
_FORMATS = {"b": _D.WEIR_INT8, "B": _D.WEIR_UINT8, "c": _D.WEIR_UINT8, "i": _D.WEIR_INT32,
            "I": _D.WEIR_UINT32, "l": _D.WEIR_INT64, "L": _D.WEIR_UINT64, "q": _D.WEIR_INT64,
            "Q": _D.WEIR_UINT64, "e": _D.WEIR_HALF, "f": _D.WEIR_FLOAT, "d": _D.WEIR_DOUBLE}


class _View:
    """Holds a buffer of the buffer protocol until it is dropped."""

    def __init__(self, holder: Any) -> None:
        self.view = _PyBuffer()
        _get_buffer(holder, ctypes.byref(self.view), _PYBUF_ND_FORMAT)

    def __del__(self) -> None:
        if self.view.obj:
            _release_buffer(ctypes.byref(self.view))


def _from_buffer_protocol(holder: Any) -> Buffer:
    with memoryview(holder) as seen:
        form = seen.format
        if not seen.c_contiguous:
            raise InvalidError(f"a buffer of shape {seen.shape} is not contiguous; pass a copy")
    found = _View(holder)
    view = found.view
    dtype = _FORMATS.get(form.lstrip("@<=") if form[:1] in "@<=" else form)
    if dtype is not None and DTYPE_BYTES[dtype] != view.itemsize:
        dtype = None
    return Buffer(view.buf or 0, view.len, UNTYPED if dtype is None else int(dtype), view.itemsize,
                  HOST, bool(view.readonly), found)


# -------------------------------------------------------------------- selection

_READERS: dict[type, Callable[[Any], Buffer]] = {}


def _reader_of(kind: type, value: Any) -> Callable[[Any], Buffer]:
    """Selects how objects of a type are read. Subclasses of known types are read in the same way."""
    names = {f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in kind.__mro__}
    if "numpy.ndarray" in names:
        return _from_numpy
    if "torch.Tensor" in names:
        return _from_torch
    if hasattr(value, "__cuda_array_interface__"):
        return _from_cuda_interface
    if hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__"):
        return _from_dlpack
    try:
        memoryview(value).release()
    except TypeError:
        raise TypeError(f"'{kind.__module__}.{kind.__name__}' is no array: expected an object with the "
                        "buffer protocol, __cuda_array_interface__ or __dlpack__, such as numpy.asarray(it)") from None
    return _from_buffer_protocol


def describe(value: Any) -> Buffer:
    """Returns the memory of an array or tensor.

    Raises TypeError for other objects, InvalidError (a ValueError) for memory that is not contiguous,
    UnsupportedError for devices and data types that weir cannot exchange.
    """
    kind = type(value)
    reader = _READERS.get(kind)
    if reader is None:
        reader = _READERS[kind] = _reader_of(kind, value)
    return reader(value)


def address_of(value: Any) -> int:
    """Returns the address of an array that was allocated here; 0 if it is empty."""
    read = _fast.read(value)
    return describe(value).pointer if read is None else read[0]


def stream_of(value: Any, stream: Any) -> int:
    """Returns the CUDA stream of a call as a number: `stream`, else the current stream of the library
    that the array comes from, else the legacy default stream.

    stream: None, a number, or an object with `cuda_stream` (PyTorch), `ptr` (CuPy), `handle` (Numba)
    or `__cuda_stream__`.
    """
    if stream is None:
        current = _fast.stream(value)
        if current is not None:
            return current
        module = type(value).__module__.partition(".")[0]
        if module == "torch":
            import torch
            current = torch.cuda.current_stream(value.device)
            if hasattr(current, "cuda_stream"):
                return int(current.cuda_stream)
            # Frames that torch.compile resumes may get a stream of the base class.
            return int(torch._C._cuda_getCurrentRawStream(value.device.index))
        if module == "cupy":
            import cupy
            return int(cupy.cuda.get_current_stream().ptr)
        return 0
    if isinstance(stream, int):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        found = stream.__cuda_stream__
        return int((found() if callable(found) else found)[1])
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    handle = getattr(stream, "handle", None)
    if handle is not None:
        return int(getattr(handle, "value", handle) or 0)
    raise TypeError(f"stream: {stream!r}; expected a number or a stream object of PyTorch, CuPy or Numba")


_CURRENT: ContextManager[Any] = contextlib.nullcontext()


def on_stream(value: Any, stream: Any) -> ContextManager[Any]:
    """Returns a context in which the library of an array allocates and fills on a stream, as `stream_of` takes it; None:
    its current stream remains."""
    if stream is None:
        return _CURRENT
    module = type(value).__module__.partition(".")[0]
    if module not in ("torch", "cupy"):
        return _CURRENT
    number, library = stream_of(value, stream), importlib.import_module(module)
    if module == "cupy":
        external: ContextManager[Any] = library.cuda.ExternalStream(number)
        return external
    made: ContextManager[Any] = library.cuda.stream(library.cuda.ExternalStream(number, device=value.device))
    return made


def empty_like(value: Any, shape: tuple[int, ...], stream: Any) -> Any:
    """Allocates an array of the kind, data type and device of `value` with another shape, for a call on a stream."""
    module = type(value).__module__.partition(".")[0]
    if module not in ("numpy", "cupy", "torch"):
        raise TypeError(f"no result can be allocated for '{type(value).__name__}'; pass out=")
    with on_stream(value, stream):
        if module == "torch":
            return value.new_empty(shape)
        return importlib.import_module(module).empty(shape, value.dtype)


def allocator(value: Any, shape: tuple[int, ...], dtype: str, fill: Optional[int] = None) -> Callable[[], Any]:
    """Returns a function that allocates an array of the library and on the device of `value`.

    dtype: a data type by its name. fill: of each element; None: the contents are undefined.
    """
    module = type(value).__module__.partition(".")[0]
    if module not in ("numpy", "cupy", "torch"):
        raise TypeError(f"no result can be allocated for '{type(value).__name__}'; expected an array of NumPy, CuPy or PyTorch")
    library = importlib.import_module(module)
    options: dict[str, Any] = {"dtype": dtype}
    if module == "torch":
        options = {"dtype": getattr(library, dtype), "device": value.device}
    elif dtype in _BY_NAME and value.dtype.name == dtype:
        options = {"dtype": value.dtype}
    elif dtype in _BY_NAME:
        try:
            options = {"dtype": getattr(importlib.import_module("ml_dtypes"), dtype)}
        except ImportError:
            raise UnsupportedError(f"NumPy has no type {dtype}; pip install ml_dtypes") from None
    if fill:
        return functools.partial(library.full, shape, fill, **options)
    return functools.partial(library.empty if fill is None else library.zeros, shape, **options)


def new_array(value: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Allocates an array of the library and on the device of `value`, of a data type by its name."""
    return allocator(value, shape, dtype)()


def shape_of(value: Any) -> tuple[int, ...]:
    """Returns the shape of an array; a flat one for objects without a shape."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        return tuple(shape)
    with memoryview(value) as seen:
        return tuple(seen.shape) if seen.shape is not None else (seen.nbytes,)
