"""Loads libweir.so, and turns its statuses into exceptions.

The library is the one in the package, unless the environment variable LIBWEIR names another one. Its
functions are attributes of `lib`, declared as the headers that the package was built from declare
them; a library of another version is refused.
"""
from __future__ import annotations

import ctypes
import os
from typing import Any, Optional

from . import _declarations as c
from .errors import error_of

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")


def library_path(name: str = "libweir.so") -> str:
    """Returns the path of a library of the package ("libweir.so", "libweir_nccl.so")."""
    other = os.environ.get("LIBWEIR")
    if name == "libweir.so" and other:
        return other
    path = os.path.join(FOLDER, name)
    if not os.path.exists(path):
        raise ImportError(f"{path} does not exist: the package was not built; pip install ./python "
                          "in weir's source tree builds it")
    return path


def _load() -> ctypes.CDLL:
    path = library_path()
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"cannot load {path}: {error}") from error
    library.weir_version_string.restype = ctypes.c_char_p
    version = library.weir_version_string().decode()
    if not version.startswith(f"weir {c.WEIR_VERSION} "):
        raise ImportError(f"{path} is {version}, the package was built for weir {c.WEIR_VERSION}; "
                          "unset LIBWEIR or install the package again")
    for name, (result, parameters) in c.FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"{path} lacks {name}, which the headers declare; install the package "
                              "again") from None
        function.restype, function.argtypes = result, parameters
    return library


lib: Any = _load()


def check(status: int, context: Optional[str] = None) -> None:
    """Raises the exception of a status that is not WEIR_OK, with the calling thread's error line."""
    if status != 0:
        text = lib.weir_last_error().decode(errors="replace")
        raise error_of(status, f"{context}: {text}" if context else text)


def version() -> str:
    """Returns the library's version, compiler and build: "weir 0.1.0 (12.2.0, release)"."""
    text: str = lib.weir_version_string().decode()
    return text


def default_of(structure: str) -> Any:
    """Returns a structure that holds what its WEIR_..._INIT says."""
    kind = getattr(c, structure)
    made = kind(ctypes.sizeof(kind))
    for (name, _), value in zip(kind._fields_[1:], c.INITIALISERS[structure]):
        if value is not None:  # a pointer stays NULL
            setattr(made, name, value)
    return made
