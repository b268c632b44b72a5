"""Starts the ranks of a job on this node, for tests, notebooks and tools."""
from __future__ import annotations

import multiprocessing
import time
import traceback
from multiprocessing.connection import Connection, wait
from typing import Any, Callable, Optional

from ._boot import init, unique_id
from .errors import InvalidError, PeerError, TimedOutError, WeirError


def _child(pipe: Connection, function: Callable[..., Any], rank: int, size: int, arguments: tuple[Any, ...],
           options: dict[str, Any]) -> None:
    try:
        with init(id=pipe.recv(), rank=rank, size=size, **options) as comm:
            result = function(comm, *arguments)
        pipe.send((True, result))
    except BaseException as error:
        status = getattr(error, "status", WeirError.status)
        pipe.send((False, (status, f"{type(error).__name__}: {error}\n{traceback.format_exc()}")))
        if not isinstance(error, Exception):
            raise


class RankError(WeirError):
    """A rank that `spawn` started has failed; `rank` is its number, the text its traceback, `status` that
    of its exception."""

    def __init__(self, rank: int, text: str, status: str = WeirError.status) -> None:
        super().__init__(f"rank {rank}: {text}")
        self.rank, self.status = rank, status


def spawn(function: Callable[..., Any], size: int, *arguments: Any, timeout_s: float = 300,
          method: Optional[str] = None, **options: Any) -> list[Any]:
    """Runs function(comm, *arguments) in `size` new processes of this node and returns their results.

    - method: "fork" (the default; function may be any object) or "spawn" (needed if this process uses CUDA
      or other threads; function must be importable).
    - options: those of `init`, for example backend="host".

    Blocks until all ranks have ended. Raises RankError for the first rank that failed, TimedOutError after
    timeout_s; the other ranks are ended then.
    """
    if size < 1:
        raise InvalidError(f"size {size}: expected at least one rank")
    context: Any = multiprocessing.get_context(method or "fork")
    children: list[tuple[Any, Connection]] = []
    try:
        for rank in range(size):
            ours, theirs = context.Pipe()
            child = context.Process(target=_child, daemon=True,
                                    args=(theirs, function, rank, size, arguments, options))
            child.start()
            theirs.close()
            children.append((child, ours))
        # Created after the fork: it starts a thread.
        made = unique_id()
        for _, pipe in children:
            pipe.send(made)
        return _collect(children, time.monotonic() + timeout_s)
    finally:
        for child, pipe in children:
            pipe.close()
            child.join(5 if child.exitcode is None and not _is_failing() else 0.5)
            if child.is_alive():
                child.kill()
                child.join()


def _is_failing() -> bool:
    import sys
    return sys.exc_info()[0] is not None


def _collect(children: list[tuple[Any, Connection]], deadline: float) -> list[Any]:
    results: dict[int, Any] = {}
    failures: list[tuple[int, str, str]] = []  # rank, text, status
    open_pipes: dict[Any, int] = {pipe: rank for rank, (_, pipe) in enumerate(children)}
    while open_pipes:
        # After a failure the others get a moment, so that the cause is found among the failures.
        left = deadline - time.monotonic() if not failures else 1.0
        ready = wait(list(open_pipes), max(0.0, left))
        if not ready:
            break
        for pipe in ready:
            rank = open_pipes.pop(pipe)
            good: bool
            value: Any
            try:
                good, value = children[rank][1].recv()
            except EOFError:
                children[rank][0].join(1)
                good = False
                value = PeerError.status, f"ended with code {children[rank][0].exitcode}"
            if good:
                results[rank] = value
            else:
                failures.append((rank, value[1], value[0]))
    if failures:
        # Ranks that report the death or the abort of another one are not the cause.
        symptoms = (PeerError.__name__, "AbortedError")
        causes = [one for one in failures if not one[1].startswith(symptoms)]
        raise RankError(*(causes or failures)[0])
    if open_pipes:
        raise TimedOutError(f"ranks {sorted(open_pipes.values())} did not end in time")
    return [results[rank] for rank in range(len(children))]
