"""Plans: collectives described as data, in the JSON format of MSCCL++'s DSL.

    plan = weir.plan.read("ring.json")
    plan.check()                                   # proves it for every length, or raises
    with weir.plan.Executor(comm) as executor:
        executor.run(plan, data, out)

A plan comes from a file, from text, or from a Builder. docs/user/plans.md describes the format and what
the checker proves.
"""
from __future__ import annotations

import ctypes
import os
from typing import Any, Callable, Optional, Sequence, Union

from . import _declarations as c
from ._buffers import UNTYPED, Buffer, describe
from ._library import check, lib
from .communicator import Communicator, Op, _op_number
from .errors import InvalidError

# The fences of weir_plan_sync, for the last argument of Builder.signal and the like.
UNSYNCED = int(c.PlanSync.WEIR_PLAN_UNSYNCED)
BEFORE = int(c.PlanSync.WEIR_PLAN_BEFORE)
AFTER = int(c.PlanSync.WEIR_PLAN_AFTER)
BOTH = int(c.PlanSync.WEIR_PLAN_BOTH)
_NO_LIMIT = 2**64 - 1  # of weir_plan_range


class Violation:
    """One error of a plan. fault: "result", "deadlock", "race", "balance" or "barrier"; rank; block and op:
    where, or None; text: the counter-example."""

    def __init__(self, found: Any) -> None:
        self.fault: str = lib.weir_plan_fault_name(found.fault).decode()
        self.rank: int = found.rank
        self.block: Optional[int] = None if found.block == c.WEIR_PLAN_NOWHERE else found.block
        self.op: Optional[int] = None if found.op == c.WEIR_PLAN_NOWHERE else found.op
        self.text: str = found.text.decode(errors="replace")

    def __repr__(self) -> str:
        return f"<{self.fault} on rank {self.rank}: {self.text}>"


class PlanError(InvalidError):
    """A plan that is wrong; `violations` has what the checker found."""

    def __init__(self, text: str, violations: Sequence[Violation]) -> None:
        super().__init__(text)
        self.violations = list(violations)


class Plan:
    """An immutable plan, from `read`, `parse` or `Builder.build`. Threads may share it."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        low, high = ctypes.c_uint64(), ctypes.c_uint64()
        lib.weir_plan_range(handle, ctypes.byref(low), ctypes.byref(high))
        self.name: str = lib.weir_plan_name(handle).decode()
        self.collective: str = lib.weir_plan_collective(handle).decode()
        """The collective's name as written in the plan."""
        self.size: int = lib.weir_plan_nranks(handle)
        """The number of ranks."""
        self.in_place: bool = bool(lib.weir_plan_in_place(handle))
        self.min_bytes: int = low.value
        """The smallest message that it serves: bytes of the input, for an allgather of the output."""
        self.max_bytes: Optional[int] = None if high.value == _NO_LIMIT else high.value
        """The largest message; None if the plan sets no limit."""

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            lib.weir_plan_free(self._handle)
            self._handle = None

    def __repr__(self) -> str:
        return f"<weir plan '{self.name}': {self.collective} of {self.size} ranks>"

    def check(self) -> int:
        """Proves for every message length that the plan computes its collective, ends, has no data race and
        can be launched repeatedly. Returns the number of message divisions that were executed.

        Raises PlanError with the violations; UnsupportedError if the plan is too large for the checker.
        """
        report = c.weir_plan_report()
        status = lib.weir_plan_check(self._handle, ctypes.byref(report))
        if status == c.Status.WEIR_ERR_INVALID:
            raise PlanError(lib.weir_last_error().decode(errors="replace"),
                            [Violation(report.violations[i])
                             for i in range(min(report.nviolations, c.WEIR_PLAN_VIOLATIONS_MAX))])
        check(status)
        return int(report.nworlds)

    def to_json(self) -> str:
        """Returns the plan in the JSON format of MSCCL++'s DSL."""
        text, length = ctypes.c_void_p(), ctypes.c_size_t()
        check(lib.weir_plan_print(self._handle, ctypes.byref(text), ctypes.byref(length)))
        try:
            return ctypes.string_at(text.value or 0, length.value).decode()
        finally:
            _free(text)

    def write(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the JSON to a file, which is replaced."""
        check(lib.weir_plan_write(self._handle, os.fsencode(path)))


_free = ctypes.CDLL(None).free
_free.argtypes, _free.restype = (ctypes.c_void_p,), None


def _made(create: Callable[[Any], int]) -> Plan:
    handle = ctypes.c_void_p()
    check(create(ctypes.byref(handle)))
    return Plan(handle)


def read(path: Union[str, "os.PathLike[str]"]) -> Plan:
    """Reads a plan from a file. InvalidError with the position if the structure is wrong."""
    return _made(lambda plan: int(lib.weir_plan_read(os.fsencode(path), plan)))


def parse(text: Union[str, bytes], name: str = "text") -> Plan:
    """Reads a plan from JSON text, such as MSCCL++'s DSL writes; `name` stands in error lines."""
    data = text.encode() if isinstance(text, str) else text
    return _made(lambda plan: int(lib.weir_plan_parse(data, len(data), name.encode(), plan)))


class Builder:
    """Builds a plan call by call, as MSCCL++'s Python DSL does.

        from weir.plan import AFTER, BEFORE, UNSYNCED, Builder

        builder = Builder("swap", "alltoall", 2)      # chunk r of a rank's input is for rank r
        for rank in range(2):
            peer, block = 1 - rank, 0                 # a thread block
            channel = builder.memory_channel(rank, peer)
            mine, out, theirs = builder.input(rank), builder.output(rank), builder.output(peer)
            builder.copy(builder.slice(out, rank, 1), builder.slice(mine, rank, 1), block)
            builder.relaxed_signal(channel, block, UNSYNCED)    # this rank's launch began
            builder.relaxed_wait(channel, block, AFTER)         # the peer's launch began
            builder.put(channel, builder.slice(theirs, rank, 1), builder.slice(mine, peer, 1), block)
            builder.signal(channel, block, BEFORE)              # this rank's data have been put
            builder.wait(channel, block, AFTER)                 # the peer's data have arrived
        plan = builder.build()

    Buffers of a broadcast, reduce or sendrecv have `chunk_factor` chunks, those of an allreduce, and those
    that hold a block for each rank, `size` times as many. `op` is the operation of its reductions; "sum"
    leaves it to the caller. Properties, all optional, are the other members of weir_plan_spec of
    <weir/plan.h>: chunk_factor (1), in_place (0 or 1), instances (copies of each thread block; 1),
    double_scratch (launches alternate between two scratch buffers; 0), nthreads (of a block; 1024), alignment
    (bytes; 16), min_bytes, max_bytes (0: no limit), reuse_resources (no effect) and flags (transformations to
    omit).

    Methods are the functions weir_plan_NAME of <weir/plan.h> with the same arguments, and the builder
    itself left out; `build` raises for the first wrong call. Signals, waits, flushes, acquisitions and
    releases take one of the fences UNSYNCED, BEFORE, AFTER and BOTH of weir.plan, which are the values
    WEIR_PLAN_NAME of the header.
    """

    def __init__(self, name: str, collective: str, size: int, *, op: Op = "sum", **properties: int) -> None:
        numbers = {lib.weir_collective_name(n).decode(): n for n in range(c.Collective.WEIR_COLL_COUNT)}
        if collective not in numbers:
            raise InvalidError(f"collective '{collective}': expected one of {', '.join(numbers)}")
        known = {field[0] for field in c.weir_plan_spec._fields_}
        for wrong in set(properties) - known:
            raise InvalidError(f"property '{wrong}': expected one of {', '.join(sorted(known))}")
        held = ctypes.create_string_buffer(name.encode())
        spec = c.weir_plan_spec(name=ctypes.addressof(held), collective=numbers[collective], nranks=size,
                                op=_op_number(op), **properties)
        self._handle: Any = ctypes.c_void_p()
        check(lib.weir_plan_builder_create(ctypes.byref(spec), ctypes.byref(self._handle)))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        entry = c.FUNCTIONS.get("weir_plan_" + name)
        if entry is None or name.startswith(("builder", "executor")) or name in ("read", "parse", "check"):
            raise AttributeError(f"Builder has no method '{name}'")
        function, kinds = getattr(lib, "weir_plan_" + name), entry[1]
        takes_builder = kinds[0] is ctypes.c_void_p

        def call(*arguments: Any) -> Any:
            if self._handle is None:
                raise InvalidError("the builder has built its plan")
            return function(*((self._handle,) if takes_builder else ()), *map(_argument, arguments))

        return call

    def build(self) -> Plan:
        """Completes the plan and ends the builder, even if it fails."""
        if self._handle is None:
            raise InvalidError("the builder has built its plan")
        handle, self._handle = self._handle, None
        return _made(lambda plan: int(lib.weir_plan_build(handle, plan)))

    def __del__(self) -> None:
        if self.__dict__.get("_handle"):
            lib.weir_plan_builder_free(self._handle)
            self._handle = None


def _argument(value: Any) -> Any:
    """Sequences of structures or numbers become C arrays."""
    if isinstance(value, (list, tuple)) and value:
        kind = ctypes.c_int if isinstance(value[0], int) else type(value[0])
        return ctypes.cast((kind * len(value))(*value), ctypes.c_void_p)
    return value


class Executor:
    """Runs plans on the ranks of a communicator. Creation and `destroy` are collective."""

    def __init__(self, comm: Communicator, checks: bool = True) -> None:
        """checks: prove each plan before its first run."""
        self._comm, self._handle = comm, ctypes.c_void_p()
        check(lib.weir_executor_create(comm._live(), ctypes.byref(self._handle)))
        lib.weir_executor_set_checks(self._handle, int(checks))

    def run(self, plan: Plan, data: Any, out: Any = None, op: Op = "sum", *, stream: Any = None) -> Any:
        """Runs a plan. Collective: every rank passes an equal plan, lengths, type and operation.

        data, out: arrays as the plan's collective needs them; out None: in place. Returns out.
        """
        comm = self._comm
        source = comm._data(data, True)
        target: Buffer = source if out is None else describe(out)
        comm._check_out(source, target)
        assert source.dtype != UNTYPED
        with comm._lock:
            if not self._handle:
                raise InvalidError("the executor was destroyed")
            comm._calls += 1
            comm._live()
            status = lib.weir_executor_run(self._handle, plan._handle, source.pointer, target.pointer,
                                           source.nbytes, target.nbytes, source.dtype, _op_number(op),
                                           comm._stream(data, stream))
        if status:
            comm._fail(status)
        return data if out is None else out

    def destroy(self) -> None:
        """Destroys the executor; before its communicator."""
        if self._handle and self._comm._handle is not None:
            lib.weir_executor_destroy(self._handle)
        self._handle = ctypes.c_void_p()

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.destroy()
