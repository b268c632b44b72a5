#!/usr/bin/env python3
"""Runs weir-check --fleet on emulated hosts: fleet.py HOSTS FAULT [options of weir-check]

Prints the report of the first host and exits with its code, or with 77 and the reason where this system
has no emulated hosts. FAULT is none, or

  delay:A-B:SECONDS   frames between hosts A and B take so much longer
  delay:A:SECONDS     frames between A and every other host do
  rate:A-B:BYTES      so many bytes per second between A and B
  stop:A              the process of host A stops after it has joined
  absent:A            host A starts no process
  fewer:A             host A may use one core only

The emulated cable (verify/tests/chaos/cable.py) carries all frames.
"""
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "chaos"))
import cable as cables  # noqa: E402
import machine  # noqa: E402

PORT, JOIN_S, DEADLINE_S = 50200, 2, 170


def conditions(kind, place, value, hosts):
    """Returns what the cable is asked for. Where a host stops, all links are slow, so that the check is
    not over by then."""
    if kind == "stop":
        return {"links": {f"{a}-{b}": {"delay_s": 0.005} for b in range(hosts) for a in range(b)}}
    if kind not in ("delay", "rate"):
        return {}
    name = {"delay": "delay_s", "rate": "rate"}[kind]
    ends = [int(word) for word in place.split("-")]
    others = [ends[1]] if len(ends) == 2 else [h for h in range(hosts) if h != ends[0]]
    pairs = [sorted((ends[0], other)) for other in others]
    return {"links": {f"{a}-{b}": {name: float(value)} for a, b in pairs}}


def start(host, number, hosts, options, fewer):
    environment = {**os.environ, "WEIR_HOSTID": host.name}
    command = ["./weir-check", "--fleet", "--address", f"weir0:10.77.0.1:{PORT}", "--rank", str(number),
               "--nodes", str(hosts), *options]

    def enter():
        host.enter()
        if fewer:
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    output = None if number == 0 else subprocess.DEVNULL
    return subprocess.Popen(command, env=environment, preexec_fn=enter, stdout=output,
                            stdin=subprocess.DEVNULL, stderr=None if number == 0 else subprocess.DEVNULL)


def main():
    hosts = int(sys.argv[1])
    kind, place, value = (sys.argv[2].split(":") + ["", ""])[:3]
    network = machine.emulated_hosts(hosts, 1 << 30, [os.getcwd()])
    cable = cables.Cable(network, 1)
    cable.use(conditions(kind, place, value, hosts))
    processes = {}
    for number in reversed(range(hosts)):
        if not (kind == "absent" and int(place) == number):
            processes[number] = start(network[number], number, hosts, sys.argv[3:],
                                      kind == "fewer" and int(place) == number)
    if kind == "stop":
        time.sleep(JOIN_S)
        processes[int(place)].send_signal(signal.SIGSTOP)
    try:
        code = processes[0].wait(DEADLINE_S)
    except subprocess.TimeoutExpired:
        print("fleet.py: weir-check did not end", file=sys.stderr)
        code = 124
    for process in processes.values():
        process.kill()
    cable.remove()
    return code


sys.exit(main())
