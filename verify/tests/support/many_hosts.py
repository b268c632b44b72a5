#!/usr/bin/env python3
"""Runs a program of several ranks on emulated hosts, without a launcher:

  many_hosts.py HOSTS RANKS CONDITIONS program arguments...

RANKS is the number per host. CONDITIONS is a JSON object of what the network does (Cable.use in
verify/tests/chaos/cable.py), such as {"delay_s": 0.002}. The ranks learn their places from torchrun's
variables. Prints what rank 0 prints, and the first error output of another rank that failed. Exits with
the highest code of a rank, with 124 if a rank did not end, or with 77 and the reason where this system
has no emulated hosts.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "chaos"))
import cable as cables  # noqa: E402
import machine  # noqa: E402

PORT, DEADLINE_S, SHM_BYTES = 50300, 240, 1 << 30


def start(hosts, each, rank, program, errors):
    host, first = hosts[rank // each], rank - rank % each
    environment = {**os.environ, **machine.torchrun_variables(
        hosts, host, rank, len(hosts) * each, range(first, first + each), PORT)}
    return subprocess.Popen(program, env=environment, preexec_fn=host.enter, stdin=subprocess.DEVNULL,
                            stdout=None if rank == 0 else subprocess.DEVNULL,
                            stderr=None if rank == 0 else errors)


def wait(processes):
    """Returns the highest exit code; 128 + the number of a signal that ended a rank."""
    end, codes = time.monotonic() + DEADLINE_S, []
    for process in processes:
        try:
            code = process.wait(max(0.01, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            code = 124
            process.kill()
            process.wait()
        codes.append(code if code >= 0 else 128 - code)
    return max(codes)


def main():
    count, each, conditions = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    files = [os.path.dirname(word) for word in sys.argv[4:] if word.startswith("/tmp/")]
    hosts = machine.emulated_hosts(count, SHM_BYTES, [os.getcwd(), *files])  # with a private /tmp
    cable = cables.Cable(hosts, 1)
    cable.use(conditions)
    with tempfile.TemporaryFile("w+") as errors:
        processes = [start(hosts, each, rank, sys.argv[4:], errors) for rank in range(count * each)]
        code = wait(processes)
        errors.seek(0)
        if code:
            print("".join(errors.readlines()[:20]), file=sys.stderr, end="")
    cable.remove()
    return code


sys.exit(main())
