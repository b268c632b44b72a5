"""Runs a peer in a Python file, in a process next to each rank (candidate_python.c): answers the
rank's commands until the rank closes the socket. Only the peer's function is timed."""
import mmap
import runpy
import socket
import json
import struct
import sys
import time
import types

MESSAGE = struct.Struct("=IId")
ABOUT = struct.Struct("32s32s256si")
PROBE, CREATE, CALL, EXCHANGE, DONE, FAILED = 1, 2, 3, 4, 5, 6


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


def run_call(peer, state, buffers, words):
    """Returns the reason why the peer cannot make the call, and the time of the call."""
    call = types.SimpleNamespace(**json.loads(words))
    refusal = peer["refuses"](state, call) if call.is_trial and "refuses" in peer else None
    if refusal:
        return str(refusal).encode()[:95], 0.0
    call.input = memoryview(buffers[0])[:call.in_bytes]
    call.output = memoryview(buffers[1])[:call.out_bytes]
    began = time.monotonic_ns()
    peer["run"](state, call)
    return b"", (time.monotonic_ns() - began) / 1e3


def serve(link, job, path, buffers):
    peer = state = kind = None

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
                state = peer["create"](job)
            else:
                answer, us = run_call(peer, state, buffers, words)
            send(link, DONE, answer, us)
        except Exception as error:  # pylint: disable=broad-except
            send(link, FAILED, f"{type(error).__name__}: {error}".splitlines()[0].encode()[:95])


def main(path, mode, link, *numbers):
    files, ranks = map(int, numbers[:2]), map(int, numbers[2:])
    job = types.SimpleNamespace(mode=mode, **dict(zip(("rank", "nranks", "local_rank", "nnodes"), ranks)))
    serve(socket.socket(fileno=int(link)), job, path, [mmap.mmap(file, 0) for file in files])


main(*sys.argv[1:])
