"""Checks of monitoring on host memory, run by cli/monitor.sh: the RAS service as a scraper asks it,
files of metrics, reports of stragglers, and that nothing is there when nothing is asked for. Prints
TAP. `monitor_checks.py FUNCTION...` runs only these checks.

Each check starts a job over libweir_nccl.so (nccl_checks.py) whose ranks make calls until the check
ends them.
"""
import contextlib
import ctypes
import glob
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import prometheus_reader  # noqa: E402
import ras_client  # noqa: E402
from free_port import free_port  # noqa: E402
from nccl_checks import Store, demand, run_rank  # noqa: E402
from nccl_library import FLOAT, MAX, buffer, integrity_check  # noqa: E402

COUNT = 4096  # elements of the large calls: above the smallest message in metrics
WAIT_S = 15


def free_address():
    return "localhost:%d" % free_port()


def until(read, what, holds=bool):
    """Waits until holds(read()) is true, and returns what was read."""
    end = time.monotonic() + WAIT_S
    while True:
        value = read()
        if holds(value):
            return value
        demand(time.monotonic() < end, f"{what}: not seen in {WAIT_S} s")
        time.sleep(0.02)


def stop(pid):
    """Stops a child. kill() alone returns while threads of it still run."""
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)


class Named(ctypes.Structure):
    """ncclConfig_t up to commName."""
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint),
                ("numbers", ctypes.c_int * 4), ("netName", ctypes.c_char_p),
                ("share", ctypes.c_int * 2), ("commName", ctypes.c_char_p),
                ("rest", ctypes.c_int * 6)]

    def __init__(self, name):
        unset = -2**31
        super().__init__(ctypes.sizeof(Named), 0xcafebeef, 22809, (unset,) * 4, None, (unset,) * 2,
                         name, (unset,) * 6)


def loop(r, comm, before=lambda number: None, large=True):
    """Makes calls until the store has "end", which rank 0 passes on. Returns how many rounds."""
    flag, data, number = buffer(FLOAT, [0]), buffer(FLOAT, [1] * COUNT), 0
    end = os.path.join(r.store.folder, "end")
    while True:
        before(number)
        value = 1 if r.rank == 0 and os.path.exists(end) else 0
        ctypes.memmove(flag, buffer(FLOAT, [value]), 4)
        r.lib.AllReduce(flag, flag, 1, FLOAT, MAX, comm, None)
        if flag.raw[:4] != b"\0\0\0\0":
            return number
        if large:
            r.lib.AllReduce(data, data, COUNT, FLOAT, MAX, comm, None)
        number += 1


def plain(r):
    comm = r.comm()
    r.store.set("ready%d" % r.rank, b"1")
    loop(r, comm)
    r.lib.CommDestroy(comm)


class Job:
    """Ranks that run body until end() is called. env: variables of all ranks."""

    def __init__(self, body, ranks, **env):
        self.body, self.ranks, self.env, self.pids = body, ranks, env, []
        self.count = ranks if isinstance(ranks, int) else len(ranks)

    def __enter__(self):
        sys.stdout.flush()
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = self.temporary.name
        for rank in range(self.count):
            child = os.fork()
            if child == 0:
                os.environ.update(self.env)
                run_rank(self.body, rank, self.ranks, self.folder, "nccl")
            self.pids.append(child)
        for rank in range(self.count):
            until(lambda rank=rank: os.path.exists(f"{self.folder}/ready{rank}"), "ready")
        return self

    def end(self):
        """Ends the loops and returns whether all ranks succeeded."""
        Store(self.folder).set("end", b"1")
        results = [os.waitpid(pid, 0)[1] == 0 for pid in self.pids]
        self.pids = []
        return all(results)

    def __exit__(self, *error):
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        self.temporary.cleanup()


def only_comm(address, **options):
    document = ras_client.status(address, "json", **options)
    demand(document["communicators_count"] == len(document["communicators"]) == 1, document)
    return document["communicators"][0]


def missing(comm):
    return [rank["rank"] for rank in comm["missing_ranks"]]


# ------------------------------------------------------------------ RAS service

def answers_json():
    address = free_address()
    with Job(plain, 3, NCCL_RAS_ENABLE="1", NCCL_RAS_ADDR=address) as job:
        document = ras_client.status(address, "json")
        demand(document["nccl_version"].split(".")[0] == "2", document)
        comm = document["communicators"][0]
        demand(comm["size"] == comm["ranks_count"] == 3 and comm["missing_ranks_count"] == 0, comm)
        demand([rank["pid"] for rank in comm["ranks"]] == job.pids, "pids")
        for rank in comm["ranks"]:
            demand(rank["status"] == {"init_state": 0, "async_error": 0, "finalize_called": False,
                                      "destroy_flag": False, "abort_flag": False}, rank)
        first = comm["ranks"][0]["collective_counts"]["AllReduce"]
        until(lambda: only_comm(address)["ranks"][0]["collective_counts"]["AllReduce"] > first + 5,
              "counts that grow")
        demand(any("nccl_ras_collectives" in line for line in ras_client.exported(document)))
        demand(job.end(), "the job")
    demand(refuses(address), "the port is closed after the job")


def answers_text():
    address = free_address()
    with Job(plain, 3, WEIR_RAS=address) as job:
        for verbose in (False, True):
            text = ras_client.status(address, verbose=verbose)
            for line in ("Job summary", "Communicators... (", "Errors\n======", "RUNNING",
                         "      1          3            0          3        0\n"):
                demand(line in text, f"{line!r} in {text}")
        demand(job.end(), "the job")


def counts_calls():
    """Each function is counted on each rank; the calls are known."""
    def body(r):
        comm, data, out = r.comm(), buffer(FLOAT, [1] * 64), buffer(FLOAT, [0] * 64)
        for _ in range(7):
            r.lib.AllGather(data, out, 16, FLOAT, comm, None)
        for _ in range(3):
            r.lib.Broadcast(data, out, 64, FLOAT, 0, comm, None)
        r.lib.GroupStart()
        r.lib.Send(data, 64, FLOAT, 1 - r.rank, comm, None)
        r.lib.Recv(out, 64, FLOAT, 1 - r.rank, comm, None)
        r.lib.GroupEnd()
        r.store.set("ready%d" % r.rank, b"1")
        loop(r, comm)
        r.lib.CommDestroy(comm)

    address = free_address()
    with Job(body, 2, WEIR_RAS=address) as job:
        for rank in only_comm(address)["ranks"]:
            counts = rank["collective_counts"]
            demand((counts["AllGather"], counts["Broadcast"], counts["Send"], counts["Recv"],
                    counts["Reduce"]) == (7, 3, 1, 1, 0), counts)
        demand(job.end(), "the job")


def speaks_the_protocol():
    address = free_address()
    with Job(plain, 2, WEIR_RAS=address) as job:
        sock, file = ras_client.connect(address, timeout_s=3)
        with sock:
            for line, answer in (("set format JSON", "OK"), ("SET FORMAT xml", "ERROR: Invalid format"),
                                 ("timeout -1", "ERROR: Invalid timeout"), ("hello", "ERROR: "),
                                 ("timeout 5x", "ERROR: Invalid timeout"), ("MONITOR", "ERROR: weir"),
                                 ("client protocol 9\r", "SERVER PROTOCOL 2")):
                demand(ras_client.exchange(file, line).startswith(answer), line)
            file.write(b"sta")
            time.sleep(0.1)
            file.write(b"tus\r\n")
            document = json.loads(b"".join(iter(lambda: sock.recv(4096), b"")))
            demand(document["communicators_count"] == 1, document)
        host = ras_client.split(address)
        with socket.create_connection(host) as sock:  # as `echo status | nc` does
            sock.sendall(b"status\n")
            sock.shutdown(socket.SHUT_WR)
            demand(b"Job summary" in b"".join(iter(lambda: sock.recv(4096), b"")), "half-closed")
        demand(job.end(), "the job")


def stopped_rank():
    def seen(comm):
        waited = comm["weir"]["waited_for"]
        return missing(comm) == [2] and any(w["longest_wait_sec"] > 0.5 for w in waited)

    address = free_address()
    with Job(plain, 4, WEIR_RAS=address) as job:
        stopped = job.pids[2]
        stop(stopped)
        comm = until(lambda: only_comm(address, patience_s=WAIT_S),
                     "a missing rank that others wait for", seen)
        demand(comm["ranks_count"] == 3, comm)
        lost = comm["missing_ranks"][0]
        demand(lost["pid"] == stopped and lost["status"] == {
            "unresponsive": True, "considered_dead": False, "stopped": True}, lost)
        longest = max(comm["weir"]["waited_for"], key=lambda w: w["longest_wait_sec"])
        demand(longest["rank"] == 2, comm["weir"])
        line = f"The missing rank: 2 -- it was stopped by a signal; process {stopped} on node"
        text = until(lambda: ras_client.status(address, patience_s=WAIT_S), line,
                     lambda text: line in text)
        demand("INCOMPLETE" in text and "Rank 2: " in text, text)
        os.kill(stopped, signal.SIGCONT)
        until(lambda: only_comm(address)["missing_ranks_count"] == 0, "the rank is back")
        demand(job.end(), "the job")


def dead_rank():
    def body(r):
        comm = r.comm()
        r.store.set("ready%d" % r.rank, b"1")
        try:
            loop(r, comm)
        except RuntimeError:
            r.store.get("seen")
        r.lib.CommAbort(comm)

    address = free_address()
    with Job(body, 3, WEIR_RAS=address) as job:
        os.kill(job.pids[1], signal.SIGKILL)
        comm = until(lambda: only_comm(address), "the dead rank", lambda c: c["missing_ranks"] and
                     c["ranks"][0]["status"]["abort_flag"])
        demand(missing(comm) == [1] and comm["missing_ranks"][0]["status"]["considered_dead"], comm)
        demand("ABORT" in ras_client.status(address), "text")
        Store(job.folder).set("seen", b"1")
        for rank in (0, 2):
            os.waitpid(job.pids[rank], 0)
        os.waitpid(job.pids[1], 0)
        job.pids = []


def straggler():
    def late(r):
        comm = r.comm()
        r.store.set("ready%d" % r.rank, b"1")
        loop(r, comm, lambda number: time.sleep(0.004) if r.rank == 2 else None)
        r.lib.CommDestroy(comm)

    address = free_address()
    with Job(late, 3, WEIR_RAS=address, WEIR_MONITOR_CALLS="32") as job:
        found = until(lambda: only_comm(address)["weir"]["straggler"], "a straggler",
                      lambda s: s and s["timed_calls"] == 32 and s["rank"] == 2)
        demand(found["calls_last"] >= 12 and found["waited_sec"] > 0.03 and
               found["longest_wait_sec"] >= 0.003, found)
        demand("STRAGGLER\n  Rank 2: in the last 32" in ras_client.status(address), "text")
        demand(job.end(), "the job")


def straggler_between_nodes():
    def late(r):
        comm = r.comm()
        r.store.set("ready%d" % r.rank, b"1")
        loop(r, comm, lambda number: time.sleep(0.005) if r.rank == 2 else None, large=False)
        r.lib.CommDestroy(comm)

    address = free_address()
    with Job(late, "aab", WEIR_RAS=address) as job:
        until(lambda: (only_comm(address)["weir"]["straggler"] or {}).get("rank") == 2,
              "a straggler on another node")
        demand(job.end(), "the job")


def bad_clients():
    """Silent clients, garbage, lines without end: calls go on, and others are answered."""
    address = free_address()
    host = ras_client.split(address)
    with Job(plain, 2, WEIR_RAS=address) as job, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(host)) for _ in range(300)]
        for data in (bytes(range(256)) * 64, b"\n" * 1000, b"x" * 100000, b"\0\n\0\n", b"STATUS",
                     b"set format " + b"%n%s" * 1000 + b"\n", b"weir records 1 2 3\n", b"\xff\n"):
            with contextlib.suppress(OSError):
                sock = stack.enter_context(socket.create_connection(host))
                sock.sendall(data)
        unread = stack.enter_context(socket.create_connection(host))
        with contextlib.suppress(OSError):
            unread.sendall(b"hello\n" * 50000)  # whose answers are not read
        start = time.monotonic()
        first = only_comm(address)["ranks"][0]["collective_counts"]["AllReduce"]
        demand(time.monotonic() - start < 3, "the answer is quick")
        until(lambda: only_comm(address)["ranks"][0]["collective_counts"]["AllReduce"] > first + 50,
              "calls that go on")
        demand(len(silent) == 300 and job.end(), "the job")


def all_communicators():
    """Every process reports also communicators in which it has no rank."""
    def body(r):
        world, part = r.comm(), ctypes.c_void_p()
        r.lib.CommSplit(world, r.rank // 2, r.rank, ctypes.byref(part), None)
        r.store.set("ready%d" % r.rank, b"1")
        loop(r, world)
        r.lib.CommDestroy(part)
        r.lib.CommDestroy(world)

    address = free_address()
    with Job(body, 4, WEIR_RAS=address) as job:
        for _ in range(10):
            comms = ras_client.status(address, "json")["communicators"]
            demand(sorted(c["size"] for c in comms) == [2, 2, 4] and
                   all(c["missing_ranks_count"] == 0 for c in comms), comms)
        demand(job.end(), "the job")


def other_nodes():
    """Ranks of other nodes are asked; ranks that do not answer are missing."""
    def all_have_calls(comm):
        return all(rank["collective_counts"]["AllReduce"] for rank in comm["ranks"])

    address = free_address()
    with Job(plain, "aabb", WEIR_RAS=address) as job:
        comm = until(lambda: only_comm(address), "calls of all ranks", all_have_calls)
        demand(comm["weir"]["nodes"] == 2 and comm["missing_ranks_count"] == 0, comm)
        stop(job.pids[3])
        until(lambda: missing(only_comm(address, timeout_s=1, patience_s=WAIT_S)) == [3],
              "the stopped rank of one of the nodes")
        stop(job.pids[2])

        # The port is shared: a running process of node a must have answered.
        document = until(
            lambda: ras_client.status(address, "json", timeout_s=1, patience_s=WAIT_S),
            "both ranks of the node", lambda d: missing(d["communicators"][0]) == [2, 3])
        states = [rank["status"] for rank in document["communicators"][0]["missing_ranks"]]
        demand(all(s["unresponsive"] and not s["considered_dead"] for s in states), states)
        demand(document["ras"]["timeouts_count"] > 0, document["ras"])
        for rank in (2, 3):
            os.kill(job.pids[rank], signal.SIGCONT)
        demand(job.end(), "the job")


def names():
    def body(r):
        comm, config = ctypes.c_void_p(), Named(b'data "parallel"\n0')
        r.lib.CommInitRankConfig(ctypes.byref(comm), r.nranks, r.identity(), r.rank,
                                 ctypes.byref(config))
        r.store.set("ready%d" % r.rank, b"1")
        loop(r, comm)
        r.lib.CommDestroy(comm)

    address = free_address()
    name = "data ?parallel??0"
    with tempfile.TemporaryDirectory() as folder, Job(
            body, 2, WEIR_RAS=address, WEIR_METRICS="prom,json", WEIR_METRICS_DIR=folder,
            WEIR_METRICS_MIN_BYTES="0") as job:
        demand(only_comm(address)["weir"]["name"] == name, only_comm(address))
        demand(job.end(), "the job")
        metrics = prom_files(folder)
        demand({labels["comm_name"] for each in metrics.values() for labels, _ in each} == {name}, metrics)
        for path in glob.glob(f"{folder}/*.log"):
            with open(path, encoding="utf-8") as file:
                demand(all(json.loads(line)["header"]["comm_name"] == name for line in file), path)


def forked_child():
    """A child that a rank forks does not keep the port."""
    def body(r):
        comm = r.comm()
        child = os.fork()
        if child == 0:
            r.store.get("released")
            os._exit(0)
        r.store.set("ready%d" % r.rank, b"1")
        loop(r, comm)
        r.lib.CommDestroy(comm)
        r.store.set("destroyed%d" % r.rank, b"1")
        os.waitpid(child, 0)

    address = free_address()
    with Job(body, 2, WEIR_RAS=address) as job:
        only_comm(address)
        Store(job.folder).set("end", b"1")
        for rank in range(2):
            until(lambda rank=rank: os.path.exists(f"{job.folder}/destroyed{rank}"), "destroyed")
        closed = refuses(address)
        Store(job.folder).set("released", b"1")
        demand(job.end() and closed, "the port is closed while the children live")


# ------------------------------------------------------------------ off by default

def refuses(address):
    try:
        socket.create_connection(ras_client.split(address), timeout=1).close()
        return False
    except ConnectionRefusedError:
        return True


def traces(pid, folder):
    """What monitoring would leave: threads, sockets that listen, files."""
    sockets = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            sockets.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    listening = 0
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/net/{table}", encoding="ascii") as file:
            for line in list(file)[1:]:
                words = line.split()
                listening += words[3] == "0A" and f"socket:[{words[9]}]" in sockets
    return len(os.listdir(f"/proc/{pid}/task")), listening, len(os.listdir(folder))


def in_folder(folder):
    def body(r):
        os.chdir(folder)
        plain(r)
    return body


def off_by_default():
    """Of three jobs, one without variables, one with RAS=0, one with everything on."""
    found = []
    for env in ({}, {"WEIR_RAS": "0", "NCCL_RAS_ENABLE": "1", "WEIR_METRICS": "0",
                     "NCCL_INSPECTOR_ENABLE": "1"},
                {"NCCL_RAS_ENABLE": "1", "NCCL_RAS_ADDR": free_address(), "WEIR_METRICS": "prom",
                 "WEIR_METRICS_INTERVAL_MS": "20"}):
        with tempfile.TemporaryDirectory() as folder, Job(in_folder(folder), 2, **env) as job:
            if len(found) == 2:
                until(lambda folder=folder: os.listdir(folder), "files")
            found.append(traces(job.pids[0], folder))
            demand(job.end(), "the job")
    demand(found[0] == found[1], found)
    demand(found[0][2] == 0 and found[2][0] == found[0][0] + 2 and
           found[2][1] == found[0][1] + 2 and found[2][2] > 0, found)


def switched_off():
    address = free_address()
    with Job(plain, 2, NCCL_RAS_ENABLE="0", NCCL_RAS_ADDR=address) as job:
        demand(refuses(address), "NCCL_RAS_ENABLE=0 wins over NCCL_RAS_ADDR")
        demand(job.end(), "the job")


# ------------------------------------------------------------------ metrics

def prom_files(folder):
    """Reads all Prometheus files of a folder: one list of (labels, value) for each metric."""
    metrics = {}
    for path in sorted(glob.glob(f"{folder}/*.prom")):
        with open(path, encoding="utf-8") as file:
            for name, samples in prometheus_reader.read(file.read()).items():
                metrics.setdefault(name, []).extend((dict(k), v) for k, v in samples.items())
    return metrics


def known_calls(r):
    comm, data, out = r.comm(), buffer(FLOAT, [1] * COUNT), buffer(FLOAT, [0] * COUNT * r.nranks)
    r.store.set("ready%d" % r.rank, b"1")
    for _ in range(20):
        time.sleep(0.001)  # calls that are far apart are all timed
        r.lib.AllReduce(data, data, COUNT, FLOAT, MAX, comm, None)
        r.lib.AllGather(data, out, COUNT, FLOAT, comm, None)
        r.lib.AllReduce(data, data, 2, FLOAT, MAX, comm, None)
    peer = 1 - r.rank
    r.lib.GroupStart()
    r.lib.Send(data, COUNT, FLOAT, peer, comm, None)
    r.lib.Recv(out, COUNT, FLOAT, peer, comm, None)
    r.lib.GroupEnd()
    r.lib.CommDestroy(comm)


def check_prom(metrics):
    for name, value in (("nccl_bus_bandwidth_gbs", 1000), ("weir_calls_total", 41),
                        ("nccl_collective_exec_time_microseconds", 1e6)):
        demand(all(0 < v < value for _, v in metrics[name]), (name, metrics[name]))
    times = metrics["nccl_collective_exec_time_microseconds"]
    demand(sorted((labels["rank"], labels["collective"], labels["message_size"])
                  for labels, _ in times) ==
           sorted((str(rank), name, "16-17KB") for rank in (0, 1)
                  for name in ("AllReduce", "AllGather")), times)
    for labels, microseconds in times:
        demand(labels["nranks"] == "2" and labels["n_nodes"] == "1" and labels["gpu"] == "none" and
               labels["algo_proto"] != "unknown" and labels["comm"].startswith("0x"), labels)
        speed = [v for k, v in metrics["nccl_bus_bandwidth_gbs"] if k == labels][0]
        traffic = COUNT * 4 * (1 if labels["collective"] == "AllReduce" else 2)
        factor = 1 if labels["collective"] == "AllReduce" else 0.5
        # A mean of times and a geometric mean of bandwidths: equal if times are, else at least.
        demand(speed >= 0.99 * factor * traffic / microseconds / 1e3, (labels, speed, microseconds))
    totals = {(k["rank"], k["function"]): v for k, v in metrics["weir_calls_total"]}
    demand(all(totals[(rank, name)] == count for rank in "01" for name, count in
               (("AllReduce", 40), ("AllGather", 20), ("Send", 1), ("Recv", 1))), totals)


def metrics_prom():
    with tempfile.TemporaryDirectory() as folder, Job(
            known_calls, 2, NCCL_INSPECTOR_ENABLE="1", NCCL_INSPECTOR_PROM_DUMP="1",
            NCCL_INSPECTOR_DUMP_DIR=f"{folder}/a/b") as job:
        demand(job.end(), "the job")
        metrics = prom_files(f"{folder}/a/b")
        check_prom(metrics)
        demand(sorted((k["rank"], k["p2p_operation"]) for k, _ in
                      metrics["nccl_p2p_exec_time_microseconds"]) ==
               [(r, o) for r in "01" for o in ("Recv", "Send")], metrics)


def metrics_json():
    with tempfile.TemporaryDirectory() as folder, Job(
            known_calls, 2, WEIR_METRICS="json", WEIR_METRICS_DIR=folder,
            WEIR_METRICS_MIN_BYTES="0") as job:
        pids = list(job.pids)
        demand(job.end(), "the job")
        for rank, pid in enumerate(pids):
            with open(glob.glob(f"{folder}/*-pid{pid}.log")[0], encoding="utf-8") as file:
                lines = [json.loads(line) for line in file]
            colls = [line["coll_perf"] for line in lines if "coll_perf" in line]
            demand(len(lines) == 62 and len(colls) == 60, len(lines))
            demand(all(line["header"]["rank"] == rank and line["header"]["n_ranks"] == 2 and
                       line["metadata"]["pid"] == pid for line in lines), lines[0])
            demand([c["coll_sn"] for c in colls] == list(range(1, 61)), "serial numbers")
            demand({c["coll_msg_size_bytes"] for c in colls} == {COUNT * 4, 8}, colls[0])
            for c in colls:
                traffic = c["coll_msg_size_bytes"] * (2 if c["coll"] == "AllGather" else 1)
                speed = traffic / c["coll_exec_time_us"] / 1e3
                demand(abs(c["coll_algobw_gbs"] / speed - 1) < 1e-3 and
                       c["coll_timing_source"] == "collective_cpu" and c["coll_algo"], c)
            demand({line["p2p_perf"]["p2p_peer"] for line in lines if "p2p_perf" in line} ==
                   {1 - rank}, "peers")


def metrics_of_plans():
    """Calls that a tuning table gives to a plan are counted and timed like others."""
    program = next(path for path in ("./weir-plan", os.environ.get("O", "build") + "/weir-plan")
                   if os.access(path, os.X_OK))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "make", "allreduce_oneshot", "-n", "2", "-o", f"{folder}/plan"],
                       check=True)
        with open(f"{folder}/table", "w", encoding="utf-8") as file:
            file.write("allreduce 2 any - plan:plan\n")
        with Job(known_calls, 2, WEIR_METRICS="prom,json", WEIR_METRICS_DIR=folder,
                 WEIR_TUNING=f"{folder}/table") as job:
            pids = list(job.pids)
            demand(job.end(), "the job")
        check_prom(prom_files(folder))
        for pid in pids:
            with open(glob.glob(f"{folder}/*-pid{pid}.log")[0], encoding="utf-8") as file:
                colls = [json.loads(line).get("coll_perf") for line in file]
            found = {(c["coll"], c["coll_algo"].startswith("plan:")) for c in colls if c}
            demand(found == {("AllReduce", True), ("AllGather", False)}, found)


def metrics_selection():
    """Small messages, and pairs if they are switched off, are left out."""
    with tempfile.TemporaryDirectory() as folder, Job(
            known_calls, 2, NCCL_INSPECTOR_ENABLE="1", NCCL_INSPECTOR_DUMP_DIR=folder,
            NCCL_INSPECTOR_ENABLE_P2P="0", NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES="16384") as job:
        demand(job.end(), "the job")
        lines = []
        for path in glob.glob(f"{folder}/*.log"):
            with open(path, encoding="utf-8") as file:
                lines += [json.loads(line) for line in file]
        demand(len(lines) == 80 and all("coll_perf" in line for line in lines), len(lines))


def metrics_in_intervals():
    def counted():  # no call is counted in a file that is written before the first one
        return sum(v for _, v in prom_files(folder).get("weir_calls_total", ()))

    with tempfile.TemporaryDirectory() as folder, Job(
            plain, 2, WEIR_METRICS="prom", WEIR_METRICS_DIR=folder,
            WEIR_METRICS_INTERVAL_MS="50") as job:
        until(lambda: len(glob.glob(f"{folder}/*.prom")) == 2, "a file per process")
        first = until(counted, "calls")
        for _ in range(50):  # always whole, while they are replaced
            prom_files(folder)
        until(counted, "growth", lambda now: now > first)
        demand(job.end(), "the job")
        demand(len(os.listdir(folder)) == 4, os.listdir(folder))  # two files and their locks


def metrics_unwritable():
    """A folder that cannot be made costs one warning and nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/file", "wb"):
            pass
        log = os.open(f"{folder}/log", os.O_CREAT | os.O_RDWR)
        kept = os.dup(2)
        os.dup2(log, 2)
        try:
            with Job(known_calls, 2, WEIR_METRICS="prom,json",
                     WEIR_METRICS_DIR=f"{folder}/file/x") as job:
                succeeded = job.end()
        finally:
            os.dup2(kept, 2)
        with open(f"{folder}/log", encoding="utf-8") as file:
            text = file.read()
        demand(succeeded and text.count("metrics: cannot") == 2, text)


def reader_is_strict():
    good = '# TYPE a gauge\na{x="1"} 2\n# TYPE b counter\nb 3\n'
    demand(prometheus_reader.read(good) == {"a": {(("x", "1"),): 2.0}, "b": {(): 3.0}})
    for bad in (good + 'a{x="2"} 1\n', good + "b 4\n", good + "c 1\n", good[:-1],
                '# TYPE a gauge\na{x="1} 2\n', '# TYPE a gauge\na{x="\\q"} 2\n',
                "# TYPE a gauge\na one\n", "# TYPE a gauge\n# TYPE a gauge\n", "# TYPE a rate\n",
                '# TYPE a gauge\na{x="1",x="2"} 2\n', "# TYPE a gauge\na  2\n"):
        try:
            prometheus_reader.read(bad)
        except ValueError:
            continue
        demand(False, f"accepted: {bad!r}")


CHECKS = [
    ("RAS: JSON status has every rank and its counts, and the port closes", answers_json),
    ("RAS: text status has NCCL's sections", answers_text),
    ("RAS: calls are counted by function", counts_calls),
    ("RAS: handshake, formats, time limits and errors of the protocol", speaks_the_protocol),
    ("RAS: a stopped rank is missing, named, and waited for; then it is back", stopped_rank),
    ("RAS: a dead rank is considered dead, and the communicator aborted", dead_rank),
    ("RAS: the rank that others wait for most is the straggler", straggler),
    ("RAS: a straggler on another node is found", straggler_between_nodes),
    ("RAS: silent clients and garbage hold up neither calls nor other clients", bad_clients),
    ("RAS: any process reports the communicators of all", all_communicators),
    ("RAS: ranks of other nodes are asked, and missing if they do not answer", other_nodes),
    ("RAS: names of communicators", names),
    ("RAS: a forked child does not keep the port", forked_child),
    ("off by default: no thread, no socket, no file", off_by_default),
    ("NCCL_RAS_ENABLE=0 switches RAS off", switched_off),
    ("the Prometheus reader is strict", reader_is_strict),
    ("metrics: Prometheus files by NCCL's variables", metrics_prom),
    ("metrics: a JSON line per call", metrics_json),
    ("metrics: calls that plans serve", metrics_of_plans),
    ("metrics: small messages and sends are left out on request", metrics_selection),
    ("metrics: files are replaced at intervals, always whole", metrics_in_intervals),
    ("metrics: a folder that cannot be written costs a warning", metrics_unwritable),
]


def main():
    results, only = [], sys.argv[1:]
    integrity_check(os.environ["NCCL_SO_PATH"])
    for name, body in CHECKS:
        if only and body.__name__ not in only:
            continue
        try:
            body()
            results.append(True)
        except Exception as error:  # pylint: disable=broad-except
            results.append(False)
            print("# %s: %s" % (type(error).__name__, str(error).replace("\n", "\n# ")))
        print("%s %d - %s" % ("ok" if results[-1] else "not ok", len(results), name), flush=True)
    print("1..%d" % len(results))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
