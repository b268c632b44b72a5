"""The exceptions of weir: one class for each status of the C library.

Every exception is a WeirError, whose text is the library's error line (what failed, on which rank,
what was expected, what to do) and whose `status` is the symbol of the status. Classes also derive
from the closest built-in exception, so that `except ValueError` and `except TimeoutError` work.
"""
from __future__ import annotations

from . import _declarations as c

__all__ = ["AbortedError", "InternalError", "InvalidError", "MismatchError", "OutOfMemoryError",
           "PeerError", "RefusedError", "SystemCallError", "TimedOutError", "UnsupportedError",
           "WeirError"]


class WeirError(RuntimeError):
    """The base of all exceptions of weir. `status` is the symbol, "WEIR_ERR_TIMEOUT" for example."""

    status: str = "WEIR_ERR_INTERNAL"


class InvalidError(WeirError, ValueError):
    """An argument or an environment variable is invalid; nothing was exchanged."""

    status = "WEIR_ERR_INVALID"


class UnsupportedError(WeirError, NotImplementedError):
    """A valid request that this build, node or object does not support."""

    status = "WEIR_ERR_UNSUPPORTED"


class MismatchError(WeirError, ValueError):
    """What ranks passed differs: the counts of a pair, the calls of a group, or what an object is made from."""

    status = "WEIR_ERR_MISMATCH"


class SystemCallError(WeirError, OSError):
    """The operating system, MPI, CUDA or a network reported an error."""

    status = "WEIR_ERR_SYSTEM"


class OutOfMemoryError(WeirError, MemoryError):
    """Memory or an address range could not be allocated."""

    status = "WEIR_ERR_NO_MEMORY"


class RefusedError(WeirError, ConnectionRefusedError):
    """A peer refused the connection."""

    status = "WEIR_ERR_REFUSED"


class PeerError(WeirError, ConnectionError):
    """The process of another rank has ended. The communicator is aborted."""

    status = "WEIR_ERR_PEER"


class TimedOutError(WeirError, TimeoutError):
    """A deadline passed. The communicator is aborted."""

    status = "WEIR_ERR_TIMEOUT"


class AbortedError(WeirError):
    """The communicator was aborted, by this rank or another."""

    status = "WEIR_ERR_ABORTED"


class InternalError(WeirError):
    """A defect of weir; please report it."""

    status = "WEIR_ERR_INTERNAL"


_CLASSES: dict[int, type[WeirError]] = {
    int(c.Status[found.status]): found
    for found in (InvalidError, UnsupportedError, MismatchError, SystemCallError, OutOfMemoryError,
                  RefusedError, PeerError, TimedOutError, AbortedError, InternalError)}


def error_of(status: int, text: str) -> WeirError:
    """Returns the exception for a status of the library and its error line."""
    return _CLASSES.get(status, InternalError)(text)
