"""Checks of how the driver observes jobs. Each returns None, what is wrong, or "# SKIP" and a reason."""
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import machine
import run


class Observed:
    """What run.py reads of a job of forked ranks."""
    shape, must, fault, nranks, rank = "fork", "report", "stop", 6, 5


def running(process, folder):
    found = run.Running(Observed(), folder, False)
    found.processes = [process]
    return found


def numbered_ranks(folder):
    """Starts ranks whose process ids wrap around, in this process's namespace. Returns the process ids that the
    driver found, and those that the benchmark printed, in the order of ranks."""
    with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
        last = int(file.read()) - 4
    with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as file:
        file.write(str(last))
    with subprocess.Popen(["./bench_allreduce", "-g", "6", "-b", "8", "-e", "8", "-n", "2", "-N", "0",
                           "--backend", "host"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True) as process:
        printed = []
        for line in process.stdout:
            printed += [int(pid) for pid in re.findall(r"^#  Rank .* Pid +(\d+) ", line)]
            if len(printed) == Observed.nranks:
                break
        found = running(process, folder)
        found.find_ranks()
        process.kill()
    return [found.ranks.get(rank) for rank in range(Observed.nranks)], printed


def enter_processes(path):
    """In a new process: enters a namespace of processes, and writes what numbered_ranks finds there, or why it
    cannot be entered."""
    try:
        if os.geteuid() != 0:
            machine.become_root_of_namespace()
        machine.call("unshare", machine.CLONE_NEWPID | machine.CLONE_NEWNS)
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            return
        machine.call("mount", b"none", b"/", None, machine.MS_REC | machine.MS_PRIVATE, None)
        machine.call("mount", b"proc", b"/proc", b"proc", 0, None)
        result = numbered_ranks(os.path.dirname(path))
    except OSError as error:
        result = str(error)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file)


def ranks_are_numbered():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ranks")
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            try:
                enter_processes(path)
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
    if isinstance(result, str):
        return f"# SKIP no namespace whose process ids can be set: {result}"
    found, printed = result
    if printed == sorted(printed):
        return f"the process ids {printed} have not wrapped around"
    return None if found == printed else f"found {found}, printed {printed}"


def lasting_waits_count():
    """A process of the lowest priority shares a processor with another one, and hardly runs."""
    cpu = min(os.sched_getaffinity(0))

    def prepare():
        os.sched_setaffinity(0, {cpu})

    def prepare_idle():
        prepare()
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))

    waits, waited_s, looks, processes = machine.Waits(), 0, 20, []
    try:
        for prepares in (prepare, prepare_idle):
            processes.append(subprocess.Popen(["bash", "-c", "while :; do :; done"], preexec_fn=prepares))
        start = time.monotonic()
        for _ in range(looks):
            waited_s = waits.seconds(processes[1].pid)
            took_s = time.monotonic() - start
            time.sleep(run.TICK_S)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return None if waited_s > took_s / 2 else f"only {waited_s:.2f} s of {took_s:.2f} s are counted"


CHECKS = (
    ("ranks of -g are found in their order when process ids wrap around", ranks_are_numbered),
    ("a wait for a processor counts while it lasts", lasting_waits_count),
)
