"""The driver's self-test: jobs that misbehave, each of which must be noticed, and correct ones that
must not be. The jobs are shell commands in place of a benchmark; some run one with planted wrong data."""
import os
import shutil
import sys

import checks
import judge

REPORT = "weir: where 2 ranks stand (deadline 1000 ms): rank 1 is dead"
LINES = "  rank 0 (pid 1): timed loop\\n  rank 1 (pid 2): dead; last seen in timed loop\\n"
SLOW = REPORT.replace("rank 1 is dead", "all run; one is slow or stuck")
# Waits for a processor for longer than its deadline, and gives up.
STARVED = f"""import os, sys, time
cpu, end_s = min(os.sched_getaffinity(0)), time.monotonic() + 5
os.sched_setaffinity(0, {{cpu}})
if os.fork():
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
while time.monotonic() < end_s:
    pass
print("{SLOW}", file=sys.stderr)
sys.exit(4)
"""
WRONG = "./bench_allreduce -g 2 -b 1K -e 1K -n 2 -T 30 --inject drop-chunk --quiet"
GOOD = "echo '# Out of bounds values : 0 OK'"

# Functions of the jobs: wait for the fault; crash as a process of Open MPI does; start ranks, which then
# execute the argument.
FUNCTIONS = """ulimit -c 0
hit() { until [ -e /tmp/hit ]; do sleep 0.02; done; }
crash() {
    for text in '*** Process received signal ***' 'Signal: Segmentation fault (11)' '*** End of error message ***'; do
        echo "[vm:$$] $text" >&2
    done
    kill -SEGV $$
}
export -f hit crash
ranks() { for rank in 0 1; do OMPI_COMM_WORLD_RANK=$rank bash -c "hit; ${1:-:}; exit 4" & done; hit; }
"""


class Fake:
    """A job with the fields that run.py and judge.py read."""

    def __init__(self, number, script, must, expected):
        self.seed, self.must, self.expected = number, must, expected
        self.shape = "fake mpirun" if script.startswith("ranks") else "fake"
        self.program = ["bash", "-c", FUNCTIONS + ("hit; " if self.shape == "fake" else "") + script]
        self.build = os.environ.get("O", "build")
        self.nranks, self.nhosts, self.rank = 2, 1, 1
        self.deadline_s = 1 if must == "report" else 4
        self.fault = "none" if must != "report" else "fake"
        self.at_s, self.for_s, self.descriptors = 0, 0, None
        self.shm_bytes, self.fill_shm = 1 << 20, False
        self.what, self.launcher = script, ""

    def lost_ranks(self):
        return [{self.rank}]


def says(head, lines=LINES):
    return f"printf '%s\\n{lines}' '{head}' >&2"


FAKES = (
    # script, what must come of it, the findings
    (f"{says(REPORT)}; exit 4", "report", set()),
    (f"{GOOD}; exit 0", "pass", set()),
    ("exit 1", "wrong", set()),
    ("echo refused >&2; exit 3", "refuse", set()),
    (f"sleep 4; {says(REPORT)}; exit 4", "report", {"late"}),
    # The driver is kept from looking: the job is not late.
    (f"(sleep 4; kill -CONT $PPID) & kill -STOP $PPID; {says(REPORT)}; exit 4", "report", set()),
    (f"{says(REPORT)}; sleep 100", "report", {"endless"}),
    (f"{says(REPORT.replace('rank 1', 'rank 0'))}; exit 4", "report", {"accuses"}),
    (f"{says(REPORT.replace(' rank 1 is dead', ' rank 0 is dead, rank 1 is dead'))}; exit 4", "report",
     {"accuses"}),
    (f"{says(REPORT.replace(' rank 1 is dead', ' all run; one is slow or stuck'))}; exit 4", "report",
     {"report"}),
    ("exit 4", "report", {"report"}),
    (f"{says(REPORT)}; exit 0", "report", {"code"}),
    ("exit 3", "refuse", {"report"}),
    ("echo refused >&2; exit 2", "refuse", {"code"}),
    ("echo refused >&2; kill -SEGV $$", "refuse", {"crash", "code"}),
    (f"ranks; wait; {says(REPORT)}; exit 4", "report", set()),
    (f"ranks; wait; {says(REPORT)}; crash", "report", set()),  # the launcher only
    (f"ranks crash; wait; {says(REPORT)}; exit 4", "report", {"crash"}),
    (f"ranks crash; wait; {says(REPORT)}; crash", "report", {"crash"}),
    (f"ranks 'sleep 100'; {says(REPORT)}; crash", "report", {"crash", "code", "left"}),
    (f"ranks; wait; {says(REPORT)}; kill -SEGV $$", "report", {"crash", "code"}),  # it has not said who
    (f"{GOOD}; exit 4", "pass", {"code"}),
    (f"{says(SLOW)}; exit 4", "pass", {"code"}),
    (f"exec python3 -c '{STARVED}'", "pass", set()),
    (f"exec python3 -c '{STARVED.replace('exit(4', 'exit(3')}'", "pass", {"code"}),
    (f"exec python3 -c '{STARVED.replace(SLOW, 'wrong data')}'", "pass", {"code", "data"}),
    ("exit 1", "pass", {"data"}),
    ("echo '# Out of bounds values : 3 FAILED'; exit 0", "pass", {"data"}),
    ("exit 0", "wrong", {"data"}),
    (WRONG, "wrong", set()),
    (WRONG, "pass", {"data"}),
    (WRONG + "; exit 0", "wrong", {"data"}),  # wrong data, and nobody says so
    (WRONG + "; exit 0", "pass", {"data"}),
    ("touch /dev/shm/weir-left; exit 0", "pass", {"left"}),
    ("touch /tmp/left; exit 0", "pass", {"left"}),
    ("setsid sleep 100 & exit 0", "pass", {"left"}),
    ("python3 -c 'import ctypes; ctypes.CDLL(None).msgget(0, 0o1600)'; exit 0", "pass", {"left"}),
    ("""setsid python3 -c 'import socket, time; s = socket.socket(); s.bind(("127.0.0.1", 9)); s.listen();
open("/tmp/ready", "w"); time.sleep(100)' & until [ -e /tmp/ready ]; do sleep 0.02; done; rm /tmp/ready""",
     "pass", {"left"}),
)


def self_test(start):
    """Prints TAP. start: runs a job in a worker process."""
    workers, failed, able = [], 0, True
    for number, (script, must, expected) in enumerate(FAKES):
        workers.append(start(Fake(f"fake-{number}", script, must, expected)))
    for _ in workers:
        os.wait()
    for number, worker in enumerate(workers, 1):
        result = worker.result()
        shutil.rmtree(worker.folder)
        if "skipped" in result:
            print(result["skipped"], file=sys.stderr)
            able = False
            break
        found = {word for word, _ in judge.judge(worker.job, result)}
        right = found == worker.job.expected
        failed += not right
        name = f"{worker.job.must}: {' and '.join(sorted(worker.job.expected)) or 'nothing'} is found in: "
        print(f"{'ok' if right else 'not ok'} {number} - {name}{worker.job.what.splitlines()[0]}")
        if not right:
            print(f"# found {found or 'nothing'}: {judge.judge(worker.job, result)} {result}")
    if not able:
        return 77
    number = len(workers)
    for number, (name, check) in enumerate(checks.CHECKS, number + 1):
        why = check()
        failed += bool(why) and not why.startswith("# SKIP")
        print(f"{'not ok' if why and not why.startswith('# SKIP') else 'ok'} {number} - {name}{' ' + why if why else ''}")
    print(f"1..{number}")
    return 1 if failed else 0
