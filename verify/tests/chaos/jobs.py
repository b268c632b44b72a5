"""What a job is, and how one is drawn from a seed: the programs, how their ranks are started, the
fault, and what must come of it.

shape      fork    ranks that the benchmark starts itself (-g)
           mpirun  ranks of one node
           nodes   mpirun, two emulated nodes that tcp connects over the loopback interface
           hosts   two to four emulated hosts with a cable; ranks are started as torchrun does
           mesh    port channels and proxies between all pairs of ranks (perf/port_mesh.c)
           nccl    ranks of libweir_nccl.so (nccl_rank.py)
           soak    alltoallv with changing splits (fuzz/soak.c), under mpirun
           ib      like nodes, over the RDMA device of ci/rdma-vm; only with --ib
fault      none, kill, stop, pause (stop and continue), jitter (many short pauses), late (a rank that
           starts late), wrong (--inject), shm (/dev/shm is small or becomes full), descriptors,
           net (loss, delay, reordering, rate), cut, glitch (a cut that is repaired)
must       pass    every rank ends with 0, with verified data
           report  the job ends within its deadline + 2 s, and reports exactly the lost ranks
           refuse  it passes, or ends in time with an error message
           wrong   it ends with 1: verification finds the planted fault
"""
import os
import random

import machine

LAUNCHED = ("mpirun", "nodes", "soak", "ib", "fake mpirun")  # shapes that mpirun starts
SHAPES = ("fork", "mpirun", "hosts", "fork", "nccl", "mesh", "fork", "hosts", "nodes", "soak")
FAULTS = {
    "fork": ("none", "kill", "kill", "stop", "stop", "pause", "jitter", "wrong", "shm", "descriptors"),
    "mpirun": ("kill", "kill", "stop", "pause", "wrong"),
    "nodes": ("kill", "stop", "pause", "wrong"),
    "hosts": ("none", "kill", "stop", "cut", "cut", "net", "net", "net", "glitch", "pause", "descriptors",
              "shm", "late"),
    "mesh": ("none", "kill", "stop", "pause", "jitter", "descriptors"),
    "nccl": ("none", "kill", "kill", "stop", "pause", "jitter", "descriptors", "shm"),
    "soak": ("none", "kill", "stop", "pause"),
    "ib": ("none", "kill", "kill", "stop", "pause", "jitter", "wrong"),
}
MUST = {"none": "pass", "pause": "pass", "jitter": "pass", "late": "pass", "net": "pass",
        "glitch": "pass", "wrong": "wrong", "shm": "refuse", "descriptors": "refuse",
        "kill": "report", "stop": "report", "cut": "report"}
COLLECTIVES = ("allreduce", "allgather", "alltoallv", "alltoall", "reduce_scatter", "broadcast", "reduce",
               "sendrecv")
PLANS = ("allreduce_oneshot", "allreduce_twoshot", "allreduce_direct", "allreduce_ring", "allgather_packets",
         "allgather_direct", "allgather_ring", "reduce_scatter_direct", "reduce_scatter_ring",
         "alltoall_packets", "broadcast_direct", "broadcast_chain", "reduce_direct", "reduce_chain")
TYPES = ("float", "half", "bfloat16", "int32", "double", "uint8", "int64")
INJECT = ("flip-bit", "drop-chunk", "replay", "overrun")
ENDLESS = 1 << 20
EMULATED_S = 10  # the deadline on an emulated processor
PATIENT_S = 30  # the deadline of a job that must pass, also on a loaded machine


class Job:
    """Plain data, all drawn from the seed."""

    def __init__(self, seed, build, ib=False):
        draw = self.draw = random.Random(seed)
        self.seed, self.build, self.launcher = seed, build, "Open MPI"
        self.shape = "ib" if ib else SHAPES[seed % len(SHAPES)]
        self.fault = draw.choice(FAULTS[self.shape])
        self.must = MUST[self.fault]
        self.nranks = draw.randint(2, 8 if self.shape in ("fork", "mesh") else 4)
        self.nhosts = draw.randint(2, min(4, self.nranks)) if self.shape == "hosts" else 1
        self.rank = draw.randrange(self.nranks)
        self.deadline_s = 2 if not ib else EMULATED_S
        if self.must in ("pass", "wrong"):
            self.deadline_s = PATIENT_S if not ib else 2 * PATIENT_S
        self.is_endless = self.must == "report"
        whens_s = (0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2)  # later, finite jobs may have ended
        self.at_s = draw.choice(whens_s[:None if self.is_endless else 5]) * draw.uniform(0.5, 1.5)
        self.at_s *= 10 if ib else 1  # of the emulated processor
        self.for_s = draw.uniform(0.05, 0.6)
        self.shm_bytes, self.fill_shm, self.descriptors = 256 << 20, False, None
        self.network = self.draw_network()
        self.inject = draw.choice(INJECT)
        self.limits()
        self.program = self.draw_program()

    def missing(self):
        """Returns what the job lacks on this machine, or None."""
        if self.shape in LAUNCHED and not self.launcher:
            return "no mpirun"
        if self.shape == "hosts" and not machine.has_taps():
            return "/dev/net/tun cannot be opened"
        program = f"{self.build}/tests/port_mesh" if self.shape == "mesh" else self.program[0]
        return f"{program} is not built" if self.shape != "nccl" and not os.path.exists(program) else None

    def limits(self):
        draw = self.draw
        if self.fault == "shm":
            self.fill_shm = draw.random() < 0.5
            if not self.fill_shm:
                self.shm_bytes = draw.choice((4096, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20))
        if self.fault == "descriptors":
            self.descriptors = draw.randint(4, 40)

    def draw_network(self):
        """The conditions of the cable."""
        draw = self.draw
        kinds = draw.sample(("loss", "delay", "reorder", "rate", "duplicate"), draw.randint(1, 3))
        asked = {}
        if "loss" in kinds:
            asked["loss"] = draw.uniform(0.001, 0.05)
        if "delay" in kinds or "reorder" in kinds:
            asked.update(delay_s=draw.uniform(0.0001, 0.005), jitter_s=draw.uniform(0, 0.003))
        if "reorder" in kinds:
            asked["reorder"] = draw.uniform(0.05, 0.5)
        if "rate" in kinds:
            asked["rate"] = draw.choice((1, 4, 20)) * 1e6
        if "duplicate" in kinds:
            asked["duplicate"] = draw.uniform(0.01, 0.1)
        return asked

    def draw_program(self):
        """Returns the arguments of the program that every rank runs, or of the benchmark."""
        draw = self.draw
        if self.shape == "mesh":
            self.transport = draw.choice(("shm", "tcp"))
            return ["--rounds", str(ENDLESS if self.is_endless else 500), "--transport", self.transport]
        if self.shape == "nccl":
            return [str(ENDLESS if self.is_endless else 300)]
        if self.shape == "soak":
            calls = ENDLESS if self.is_endless else 600
            return [f"{self.build}/tests/soak", "--backend", "host", "--calls", str(calls), "--room", "64K",
                    "--seed", str(self.seed)]
        return self.draw_benchmark()

    def draw_benchmark(self):
        draw = self.draw
        self.plan = draw.choice(PLANS) if self.shape in ("fork", "mpirun") and draw.random() < 0.3 else None
        collective = draw.choice(COLLECTIVES)
        if self.plan:
            collective = max((c for c in COLLECTIVES if self.plan.startswith(c)), key=len)
        largest = draw.choice(("1K", "16K", "256K"))
        words = [f"./bench_{collective}", "-b", "8", "-e", largest, "-f", "8", "-T", str(self.deadline_s),
                 "--quiet", "--backend", "host", "--verify", "exact", "-d", draw.choice(TYPES),
                 "--seed", str(1 + self.seed % 1000)]
        if self.shape in ("hosts", "nodes", "ib"):
            words += ["--transport", "ib" if self.shape == "ib" else "tcp", "-n", "3"]
        else:
            words += ["-n", "20", "--buffers", draw.choice(("weir", "plain"))]
            words += self.draw_algorithm(collective)
        words += ["-w", "1", "-N", "0" if self.is_endless else "2"]
        if self.must == "wrong":
            words += ["--inject", self.inject]
        return words

    def draw_algorithm(self, collective):
        if self.plan:
            return []
        names = {"allreduce": ("fused", "packet", "packet2", "dynamic"), "reduce": ("direct", "packet", "chain", "dynamic")}
        names = names.get(collective, ("direct", "packet"))
        return ["--algo", self.draw.choice(("auto", "auto") + names)]

    @property
    def what(self):
        """One line for people."""
        program = os.path.basename(self.program[0]).replace("bench_", "") if self.shape not in (
            "mesh", "nccl") else self.shape
        where = f"{self.nhosts} hosts" if self.nhosts > 1 else self.shape
        plan = f", plan {self.plan}" if getattr(self, "plan", None) else ""
        if "--algo" in self.program:
            plan = " " + self.program[self.program.index("--algo") + 1]
        return f"{where}, {self.nranks} ranks, {program}{plan}; {self.fault_text()}"

    def fault_text(self):
        texts = {
            "kill": f"rank {self.rank} killed at {self.at_s:.2f} s",
            "stop": f"rank {self.rank} stopped at {self.at_s:.2f} s",
            "pause": f"rank {self.rank} stopped for {self.for_s:.2f} s at {self.at_s:.2f} s",
            "jitter": f"rank {self.rank} stopped again and again",
            "late": f"rank {self.rank} starts {self.for_s:.2f} s late",
            "wrong": f"wrong data planted ({self.inject})",
            "shm": "/dev/shm filled" if self.fill_shm else f"/dev/shm of {self.shm_bytes} bytes",
            "descriptors": f"{self.descriptors} descriptors",
            "net": "network: " + ", ".join(f"{k} {v:.3g}" for k, v in self.network.items()),
            "cut": f"host of rank {self.rank} cut off at {self.at_s:.2f} s",
            "glitch": f"host of rank {self.rank} cut off for {self.for_s:.2f} s at {self.at_s:.2f} s",
        }
        return texts.get(self.fault, "no fault")

    def host_of(self, rank):
        return rank * self.nhosts // self.nranks

    def lost_ranks(self):
        """The ranks that a report must name, as sets of which one is right."""
        if self.fault != "cut":
            return [{self.rank}]
        cut = {rank for rank in range(self.nranks) if self.host_of(rank) == self.host_of(self.rank)}
        return [cut, set(range(self.nranks)) - cut]
