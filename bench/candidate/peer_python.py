"""Runs a peer in a Python file, in a process next to each rank (candidate_python.c): answers the
rank's commands until the rank closes the socket. Only the peer's function is timed. On a GPU, input
and output are memory of the rank, and the function is timed by events on a stream."""
import ctypes
import json
import mmap
import runpy
import socket
import struct
import sys
import time
import types

MESSAGE = struct.Struct("=IId")
ABOUT = struct.Struct("32s32s256si")
PROBE, CREATE, CALL, EXCHANGE, DONE, FAILED = 1, 2, 3, 4, 5, 6
LEADING = 3  # operations before those that are timed


def send(link, kind, data=b"", us=0.0):
    link.sendall(MESSAGE.pack(kind, len(data), us) + data)


def receive(link, size):
    data = bytearray()
    while len(data) < size:
        part = link.recv(size - len(data))
        if not part:
            sys.exit(0)
        data += part
    return bytes(data)


class Host:
    """Memory that the rank shares by file descriptors."""

    def __init__(self, files):
        self.stream = None
        self.buffers = [mmap.mmap(int(file), 0) for file in files]

    def view(self, which, offset, size):
        return memoryview(self.buffers[which])[offset:offset + size]

    def time_us(self, _, enqueue):
        began = time.monotonic_ns()
        enqueue()
        return (time.monotonic_ns() - began) / 1e3

    def finish(self):
        pass


class Gpu:
    """Memory that the rank exports, and a stream, through the driver, so that the peer may use any
    package for GPUs or none."""

    class Handle(ctypes.Structure):
        _fields_ = [("bytes", ctypes.c_ubyte * 64)]

    def __init__(self, handles, device):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.do("cuInit", 0)
        self.do("cuCtxSetCurrent", self.make("cuDevicePrimaryCtxRetain", self.make("cuDeviceGet", device, type=ctypes.c_int)))
        self.queue = self.make("cuStreamCreate", 1)  # not blocked by the default stream
        self.events = [self.make("cuEventCreate", 0) for _ in range(2)]
        self.stream = self.queue.value
        self.buffers = [self.make("cuIpcOpenMemHandle_v2", self.Handle.from_buffer_copy(bytes.fromhex(handle)), 1,
                                  type=ctypes.c_uint64).value for handle in handles]

    def do(self, name, *arguments):
        error = getattr(self.driver, name)(*arguments)
        if error:
            raise RuntimeError(f"{name} returns {error}")

    def make(self, name, *arguments, type=ctypes.c_void_p):  # pylint: disable=redefined-builtin
        """What a function writes to its first argument."""
        made = type()
        self.do(name, ctypes.byref(made), *arguments)
        return made

    def view(self, which, offset, size):
        return types.SimpleNamespace(nbytes=size, __cuda_array_interface__={
            "shape": (size,), "typestr": "|u1", "data": (self.buffers[which] + offset, False), "version": 3,
            "stream": None})

    def finish(self):
        self.do("cuStreamSynchronize", self.queue)

    def graph(self, operations, enqueue):
        self.do("cuStreamBeginCapture_v2", self.queue, 2)  # relaxed
        captured = ctypes.c_void_p()
        try:
            for _ in range(operations):
                enqueue()
        finally:
            self.do("cuStreamEndCapture", self.queue, ctypes.byref(captured))
        graph = self.make("cuGraphInstantiateWithFlags", captured, ctypes.c_uint64(0))
        self.do("cuGraphDestroy", captured)
        return graph

    def time_us(self, call, enqueue):
        """The time of an operation on the stream; of a single one, the time until it has ended."""
        if call.operations <= 1 and not call.is_graph:
            began = time.monotonic_ns()
            enqueue()
            self.finish()
            return (time.monotonic_ns() - began) / 1e3
        graph = self.graph(call.operations, enqueue) if call.is_graph else None

        def batch(operations):
            if graph:
                self.do("cuGraphLaunch", graph, self.queue)
            for _ in range(0 if graph else operations):
                enqueue()

        batch(min(LEADING, call.operations))
        self.do("cuEventRecord", self.events[0], self.queue)
        batch(call.operations)
        self.do("cuEventRecord", self.events[1], self.queue)
        self.finish()
        if graph:
            self.do("cuGraphExecDestroy", graph)
        took = self.make("cuEventElapsedTime", *self.events, type=ctypes.c_float)
        return took.value * 1e3 / call.operations


def run_call(peer, state, memory, words):
    """Returns the reason why the peer cannot make the call, and the time of the call."""
    call = types.SimpleNamespace(**json.loads(words), stream=memory.stream)
    refusal = peer["refuses"](state, call) if not call.operations and "refuses" in peer else None
    if refusal:
        return str(refusal).encode()[:95], 0.0
    call.input = memory.view(*call.in_at, call.in_bytes)
    call.output = memory.view(*call.out_at, call.out_bytes)
    if "prepare" in peer:
        peer["prepare"](state, call)
        memory.finish()
    return b"", memory.time_us(call, lambda: peer["run"](state, call))


def serve(link, job, path, open_memory):
    peer = state = kind = memory = None

    def allgather(mine):
        if kind != CREATE:
            raise RuntimeError("job.allgather is for create only")
        send(link, EXCHANGE, bytes(mine))
        every = receive(link, job.nranks * len(mine))
        return [every[i * len(mine):(i + 1) * len(mine)] for i in range(job.nranks)]

    job.allgather = allgather
    while True:
        kind, size, _ = MESSAGE.unpack(receive(link, MESSAGE.size))
        words = receive(link, size)
        answer, us = b"", 0.0
        try:
            if kind == PROBE:
                peer = runpy.run_path(path, run_name="weir_peer")
                texts = (str(peer.get(key, "")).encode() for key in ("name", "version", "settings"))
                answer = ABOUT.pack(*texts, bool(peer.get("has_threads")))
            elif kind == CREATE:
                memory = open_memory()
                job.stream = memory.stream
                state = peer["create"](job)
            else:
                answer, us = run_call(peer, state, memory, words)
            send(link, DONE, answer, us)
        except Exception as error:  # pylint: disable=broad-except
            send(link, FAILED, f"{type(error).__name__}: {error}".splitlines()[0].encode()[:95])


def main(path, mode, link, *arguments):
    shared, numbers = arguments[:2], map(int, arguments[2:])
    job = types.SimpleNamespace(mode=mode, **dict(zip(("rank", "nranks", "local_rank", "nnodes", "device"), numbers)))
    serve(socket.socket(fileno=int(link)), job, path,
          lambda: Gpu(shared, job.device) if len(shared[0]) == 2 * ctypes.sizeof(Gpu.Handle) else Host(shared))


main(*sys.argv[1:])
