"""A TCP port for a test, which stays free until the test uses it.

A port that bind(0) or connect() gives to other programs lies in the kernel's range of local ports. This one
lies below that range, so that no other test is given it in between; the search starts at a place that
depends on the process, so that two tests that search at once find two ports.

    python3 verify/tests/support/free_port.py     # prints one
"""

import os
import pathlib
import socket

FIRST = 10000  # services of the system listen below


def free_port():
    """A port at which nobody listens on any address, below the kernel's range of local ports."""
    end = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    count = end - FIRST if end > FIRST + 1000 else 20000
    for attempt in range(count):
        port = FIRST + (os.getpid() * 7 + free_port.calls * 3 + attempt) % count
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        free_port.calls += 1
        return port
    raise OSError(f"no free port from {FIRST} to {FIRST + count - 1}")


free_port.calls = 0

if __name__ == "__main__":
    print(free_port())
