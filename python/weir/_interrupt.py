"""Makes blocking calls of the library end on Ctrl-C.

Python runs signal handlers between bytecodes, so a KeyboardInterrupt would wait until a collective
returns, at the latest at its deadline. When the first communicator is created in the main thread,
a socket becomes Python's wakeup descriptor (signal.set_wakeup_fd), and a daemon thread reads it. If a
communicator is still in the same call a moment after SIGINT, the thread aborts the communicator: the
call then returns on every rank, and Python raises KeyboardInterrupt here. Calls that end by themselves
are not disturbed.

A program that sets another wakeup descriptor afterwards, such as an asyncio loop in the main thread,
replaces this one; bytes are passed on to a descriptor that was set before.
"""
from __future__ import annotations

import os
import signal
import socket
import threading
import time
import weakref
from typing import Any, Callable, Optional, TypeVar

T = TypeVar("T")
GRACE_S = 0.3

# All communicators of this process.
communicators: "weakref.WeakSet[Any]" = weakref.WeakSet()
_watching: Optional[tuple[socket.socket, socket.socket]] = None
_lock = threading.Lock()


def _abort_blocked() -> None:
    """Aborts the communicators that are in the same call before and after a moment."""
    before = [(one, one._progress()) for one in list(communicators) if one._is_busy()]
    if not before:
        return
    time.sleep(GRACE_S)
    for one, calls in before:
        if one._is_busy() and one._progress() == calls:
            one.abort()


def _watch(reader: socket.socket, former: int) -> None:
    while True:
        try:
            data = reader.recv(64)
        except OSError:
            return
        if not data:
            return
        if former >= 0:
            try:
                os.write(former, data)
            except OSError:
                pass
        if signal.SIGINT in data:
            _abort_blocked()


def watch() -> None:
    """Starts watching, once; does nothing in other threads than the main thread."""
    global _watching
    with _lock:
        if _watching is not None or threading.current_thread() is not threading.main_thread():
            return
        if not callable(signal.getsignal(signal.SIGINT)):
            return
        reader, writer = socket.socketpair()
        writer.setblocking(False)
        former = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        _watching = reader, writer
        threading.Thread(target=_watch, args=(reader, former), name="weir-interrupt",
                         daemon=True).start()


def interruptible(function: Callable[[], T]) -> T:
    """Runs a blocking function that cannot be aborted so that Ctrl-C ends the wait for it.

    Outside the main thread, which gets no KeyboardInterrupt, it simply runs the function. After an
    interrupt the function goes on in its thread until its deadline; its result is dropped.
    """
    if threading.current_thread() is not threading.main_thread():
        return function()
    results: list[T] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def body() -> None:
        try:
            results.append(function())
        except BaseException as error:  # passed on to the caller
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=body, name="weir-setup", daemon=True).start()
    while not done.wait(1.0):
        pass
    if errors:
        raise errors[0]
    return results[0]


def _forget_in_child() -> None:
    """In a forked child the thread does not exist, and communicators belong to the parent."""
    global _watching, _lock
    _lock = threading.Lock()
    if _watching is not None:
        try:
            signal.set_wakeup_fd(-1)
        except ValueError:
            pass
        for end in _watching:
            end.close()
        _watching = None
    for one in list(communicators):
        one._forget("was created before this process was forked; create one in the child")


os.register_at_fork(after_in_child=_forget_in_child)
