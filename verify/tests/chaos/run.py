"""Runs one job in a worker process: encloses it, starts it, injects its fault, waits for its end, and
collects what is left. The result is a dictionary that judge.py reads.
"""
import os
import re
import resource
import signal
import subprocess
import sys
import time
import traceback

import cable
import machine
from jobs import LAUNCHED

TICK_S = 0.03
OVERRUN_S = 10   # past its limit, a job is killed
FAKES_OVERRUN_S = 2
LAUNCH_S = 60    # until all ranks of a job must exist
SETTLE_S = 3     # for the launcher's processes to end after it
LAUNCHER_FILES = ("ompi.", "openmpi-sessions", "open_mpi.", "vader_segment.", "sm_segment.",
                  "mpich_shm_", "prte.", "pmix")  # not weir's
PORT = 29500


def launcher():
    """Returns "Open MPI", which lets ranks report before it ends them (up to version 4), "Hydra" for
    those that do not, or "" if there is none."""
    try:
        text = subprocess.run([os.environ.get("MPIRUN", "mpirun"), "--version"], check=False,
                              capture_output=True, text=True).stdout
    except OSError:
        return ""
    return "Open MPI" if re.search(r"OpenRTE|Open MPI\) [1-4]\.", text) else "Hydra"


class Running:
    """A job that runs, as this process sees it."""

    def __init__(self, job, folder, has_network):
        self.job, self.folder, self.has_network = job, folder, has_network
        self.hosts, self.cable, self.processes = [], None, []
        self.ranks, self.started_late = {}, None
        # When the fault came, the ranks and the job ended, after its start.
        self.hit_s = self.ranks_end_s = self.end_s = None
        # The time of the last look at the job, and when what it found to have ended may have: the driver
        # looks late if it fills /dev/shm, or itself waits for a processor.
        self.looked_s = self.seen_s = 0
        self.waits = machine.Waits()
        self.waited = {}                # process: (at the fault, now) waited for a processor
        self.files = {}

    def open(self, name):
        return open(os.path.join(self.folder, name), "wb")

    # ------------------------------------------------------------------ start

    def environment(self, rank=None):
        job = self.job
        values = dict(os.environ, TMPDIR="/tmp", LC_ALL="C",
                      WEIR_TIMEOUT_MS=str(job.deadline_s * 1000), WEIR_BACKEND="host",
                      OMPI_MCA_orte_tmpdir_base="/tmp", OMPI_MCA_pml="ob1",
                      OMPI_MCA_mpi_yield_when_idle="1",
                      NCCL_SO_PATH=os.path.abspath(f"{job.build}/libweir_nccl.so"))
        if job.descriptors:
            values["CHAOS_DESCRIPTORS"] = str(job.descriptors)
        if rank is not None and self.hosts:
            host = job.host_of(rank)
            local = [r for r in range(job.nranks) if job.host_of(r) == host]
            values.update(machine.torchrun_variables(self.hosts, self.hosts[host], rank, job.nranks, local,
                                                     PORT))
        return values

    def command(self, rank=None):
        """Returns what starts all ranks, or the given one."""
        job = self.job
        if job.shape == "fork":
            return job.program + ["-g", str(job.nranks)]
        if job.shape == "hosts":
            return job.program
        if job.shape == "mesh":
            return [f"{job.build}/tests/port_mesh", "--at", f"lo:127.0.0.1:{PORT}", str(rank),
                    str(job.nranks)] + job.program
        if job.shape == "nccl":
            return [sys.executable, os.path.join(os.path.dirname(__file__), "nccl_rank.py"), str(rank),
                    str(job.nranks), self.folder] + job.program
        if job.shape in ("nodes", "ib"):
            half = (job.nranks + 1) // 2
            part = lambda node, n: ["-np", str(n), "env", f"WEIR_HOSTID={node}"] + job.program  # noqa: E731
            return ["ci/mpirun"] + part("a", half) + [":"] + part("b", job.nranks - half)
        if job.shape.startswith("fake"):
            return job.program
        return ["ci/mpirun", "-np", str(job.nranks)] + job.program

    def prepare(self, rank):
        """Runs in a new process before its program."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self.hosts:
            self.hosts[self.job.host_of(rank)].enter()
        if self.job.descriptors and self.job.shape != "nccl":
            resource.setrlimit(resource.RLIMIT_NOFILE, (self.job.descriptors,) * 2)

    def spawn(self, rank=None):
        name = "all" if rank is None else str(rank)
        with self.open(name + ".out") as out, self.open(name + ".err") as err:
            process = subprocess.Popen(
                self.command(rank), stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                env=self.environment(rank), preexec_fn=lambda: self.prepare(rank))
        process.rank = rank
        self.processes.append(process)

    def plan_file(self):
        """Makes the job's plan."""
        job = self.job
        if getattr(job, "plan", None):
            path = os.path.join(self.folder, "plan.json")
            subprocess.run(["./weir-plan", "make", job.plan, "-n", str(job.nranks), "-o", path], check=True)
            job.program += ["--plan", path]

    def start(self):
        job = self.job
        self.plan_file()
        if job.shape == "hosts":
            self.hosts = [machine.Host(number) for number in range(job.nhosts)]
            self.cable = cable.Cable(self.hosts, job.seed)
            if job.fault == "net":
                self.cable.use(job.network)
        self.start_s = time.monotonic()
        if job.shape not in ("hosts", "mesh", "nccl"):
            self.spawn()
            return
        for rank in range(job.nranks):
            if job.fault == "late" and rank == job.rank:
                self.started_late = self.start_s + job.for_s
            else:
                self.spawn(rank)

    # ------------------------------------------------------------- observation

    def now(self):
        return time.monotonic() - self.start_s

    def find_ranks(self):
        """Completes the process ids of the ranks."""
        job = self.job
        if len(self.ranks) == job.nranks:
            return
        if job.shape in ("hosts", "mesh", "nccl"):
            self.ranks = {p.rank: p.pid for p in self.processes}
        elif job.shape == "fork":
            self.ranks = dict(enumerate(pid for pid in machine.children(self.processes[0].pid)
                                        if machine.program_of(pid).startswith("bench_")))
        elif job.shape != "fake":
            for pid in machine.descendants(self.processes[0].pid):  # a rank before what it starts
                rank = machine.environment(pid, "OMPI_COMM_WORLD_RANK") or machine.environment(pid, "PMI_RANK")
                if rank is not None and machine.program_of(pid) == os.path.basename(job.program[0]):
                    self.ranks.setdefault(int(rank), pid)

    def ready(self):
        """Whether the fault can come: its rank exists. Under a launcher that terminates the job when a
        rank dies, all ranks must have started their watchdogs, or only the launcher can report."""
        if self.job.shape == "fake mpirun":
            return len(self.ranks) == self.job.nranks
        if self.job.shape in LAUNCHED and self.job.must == "report":
            return len(self.ranks) == self.job.nranks and all(
                machine.blocks(pid, signal.SIGTERM) for pid in self.ranks.values())
        return self.job.rank in self.ranks or self.job.shape == "fake"

    def own_processes(self):
        skip = {self.cable.pid} if self.cable else set()
        return [pid for pid in machine.descendants(os.getpid()) if pid not in skip]

    def sample_waits(self):
        cables = [self.cable.pid] if self.cable else []
        for pid in [*self.ranks.values(), *[p.pid for p in self.processes], *cables]:
            wait = self.waits.seconds(pid)
            first, most = self.waited.get(pid, (0, 0))
            if self.job.must == "report" and self.hit_s is None:
                first = wait
            self.waited[pid] = (first, max(most, wait))

    def see_ranks_end(self):
        """A launcher may take longer than its ranks, and to end a stopped one."""
        lost = self.job.rank if self.job.fault in ("kill", "stop") else None
        if self.ranks_end_s is None and len(self.ranks) == self.job.nranks and not any(
                machine.runs(pid) for rank, pid in self.ranks.items() if rank != lost):
            self.ranks_end_s = self.seen_s

    def waited_s(self):
        """For how long the job was kept waiting: its slowest rank, and then what started the ranks or
        carries their frames. A job that must do all its work waits for one rank after another."""
        waits = {pid: most - first for pid, (first, most) in self.waited.items()}
        ranks = set(self.ranks.values())
        of_ranks = [waits[pid] for pid in waits if pid in ranks] or [0]
        of_others = [waits[pid] for pid in waits if pid not in ranks] or [0]
        return (max if self.job.must == "report" else sum)(of_ranks) + max(of_others)

    def ended(self):
        """Whether all processes have ended, without a stopped or killed rank that no launcher ends."""
        codes = [p.poll() for p in self.processes]
        lost = self.job.rank if self.job.fault in ("kill", "stop") else None
        return self.started_late is None and all(
            code is not None or p.rank == lost is not None for code, p in zip(codes, self.processes))

    def limit_s(self):
        """When the job must have ended, after its start: its deadline + 2 s after the fault, plus the
        time for which it waited for processors."""
        if self.job.must != "report":
            return (4 if self.job.shape == "ib" else 1) * LAUNCH_S + self.waited_s()
        since = self.hit_s if self.hit_s is not None else self.job.at_s + LAUNCH_S
        return since + self.job.deadline_s + 2 + self.waited_s()

    # ------------------------------------------------------------------ faults

    def signal_rank(self, number):
        pid = self.ranks[self.job.rank]
        if not machine.runs(pid):
            return False
        os.kill(pid, number)
        return True

    def inject(self):
        """Injects the fault when its time has come. A generator, continued at every tick."""
        job = self.job
        while self.now() < job.at_s or not self.ready():
            yield
        if job.fault == "shm" and job.fill_shm:
            self.fill()
        elif job.fault in ("kill", "stop", "pause"):
            if self.signal_rank(signal.SIGKILL if job.fault == "kill" else signal.SIGSTOP):
                self.hit_s = self.now()
            if job.fault == "pause" and self.hit_s is not None:
                while self.now() < self.hit_s + job.for_s:
                    yield
                self.signal_rank(signal.SIGCONT)
        elif job.fault == "jitter":
            yield from self.jitter()
        elif job.fault in ("cut", "glitch"):
            self.cable.use({"cut": [job.host_of(job.rank)]})
            self.hit_s = self.now()
            while job.fault == "glitch" and self.now() < self.hit_s + job.for_s:
                yield
            if job.fault == "glitch":
                self.cable.use({})
        else:
            self.hit_s = self.now()
            if job.shape.startswith("fake"):
                open("/tmp/hit", "wb").close()

    def jitter(self):
        self.hit_s = self.now()
        for _ in range(10):
            if not self.signal_rank(signal.SIGSTOP):
                return
            yield
            self.signal_rank(signal.SIGCONT)
            for _ in range(self.job.draw.randint(0, 3)):
                yield

    def fill(self):
        with open("/dev/shm/filler", "wb") as file:
            try:
                while True:
                    file.write(b"\0" * (1 << 20))
            except OSError:
                pass
        self.hit_s = self.now()

    # --------------------------------------------------------------------- end

    def look(self):
        """Looks at the job. Returns whether it goes on, within its limit."""
        now = self.now()
        self.seen_s, self.looked_s = min(now, self.looked_s + TICK_S), now
        ended = self.ended()
        if ended:
            self.end_s = self.seen_s
        else:
            self.find_ranks()
            self.sample_waits()
        self.see_ranks_end()
        return not ended and now < self.limit_s() + (
            OVERRUN_S if not self.job.shape.startswith("fake") else FAKES_OVERRUN_S)

    def watch(self):
        fault = self.inject()
        while self.look():
            if self.started_late is not None and time.monotonic() >= self.started_late:
                self.started_late = None
                self.spawn(self.job.rank)
            next(fault, None)
            time.sleep(TICK_S)

    def processes_and_sockets(self):
        """Returns what is left of them. A launcher's sockets can outlive its processes by a moment."""
        left = [f"process {pid} ({machine.program_of(pid)})" for pid in self.own_processes()]
        return left + (machine.sockets_left() if self.has_network and not self.cable else [])

    def clean(self):
        """Ends what the driver itself must end; returns what else is left."""
        if self.end_s is None:
            for pid in self.own_processes():
                os.kill(pid, signal.SIGKILL)
        for process in self.processes:  # the lost rank
            if process.poll() is None:
                process.kill()
            process.wait()
        since = time.monotonic()
        while self.processes_and_sockets() and time.monotonic() < since + SETTLE_S:
            time.sleep(TICK_S)
        left = self.processes_and_sockets()
        for pid in self.own_processes():
            os.kill(pid, signal.SIGKILL)
        if self.cable:
            self.cable.remove()
        for path in ("/dev/shm/filler", "/tmp/hit"):
            if os.path.exists(path):
                os.unlink(path)
        left += machine.files_left(LAUNCHER_FILES, kept_folders(self.folder))
        # weir has no System V objects; Open MPI leaves some if a rank is ended in MPI_Init.
        return left + (machine.objects_left() if self.job.shape not in LAUNCHED else [])

    def text(self, ending):
        """Returns what all processes printed."""
        found = ""
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(ending):
                with open(os.path.join(self.folder, name), encoding="utf-8", errors="replace") as file:
                    found += file.read()
        return found


def kept_folders(folder):
    """Returns what a job sees in /tmp if it is there: the checkout, and the jobs' folders."""
    return [os.getcwd(), os.path.dirname(folder)]


def run_job(job, folder, with_network=True):
    """Encloses this process and runs the job in it. Returns what happened."""
    try:
        machine.enclose(job.shm_bytes, kept_folders(folder), with_network)
    except OSError as error:
        return {"skipped": f"the system allows no namespaces: {error}"}
    running = Running(job, folder, with_network)
    try:
        running.start()
        running.watch()
        left = running.clean()
    except Exception:  # pylint: disable=broad-except
        for pid in running.own_processes():
            os.kill(pid, signal.SIGKILL)
        return {"broken": traceback.format_exc()}
    return {"codes": {p.rank: p.returncode for p in running.processes}, "left": left,
            "out": running.text(".out"), "err": running.text(".err"), "hit_s": running.hit_s,
            "end_s": running.end_s, "ranks_end_s": running.ranks_end_s,
            "limit_s": running.limit_s(), "waited_s": running.waited_s(),
            "launcher_pid": running.processes[0].pid if job.shape in LAUNCHED else None}
