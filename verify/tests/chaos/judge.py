"""What is wrong with a job that has ended: a list of findings, each a word and a text.

The words: late (ended after its deadline + 2 s), endless, code, crash, report (none, or one that does
not name the lost ranks), accuses (a report that names other ranks), data (wrong data passed as right,
or right data called wrong), left (processes, files, sockets), broken (the driver failed).
"""
import re

HEAD = re.compile(r"^weir: where (\d+) ranks stand(?: in set-up)? ?\(deadline \d+ ms\)(.*)$", re.MULTILINE)
NAMED = re.compile(r"rank (\d+) (?:is (?:dead|stopped)|has died|does not answer)")
SILENT = re.compile(r"^  rank (\d+): no answer; (?!.*on another node)", re.MULTILINE)
DISTANT = re.compile(r"^  rank (\d+): no answer; .*on another node", re.MULTILINE)
UNREACHED = re.compile(r"^  rank (\d+) \(pid [^)]*\): (?:no answer|dead); on another node", re.MULTILINE)
CRASH = re.compile(r"Segmentation fault|Bus error|signal (?:11|7|6|8)\b|Sanitizer|double free|Assertion")


START_S = 5  # for a job that ends with an error while it starts


def crashed(job, result):
    for rank, code in result["codes"].items():
        expected = job.fault in ("kill", "stop") and rank in (job.rank, None)
        if code < 0 and not expected:
            return [("crash", f"rank {rank} was ended by signal {-code}")]
    found = CRASH.search(result["err"])
    return [("crash", found.group(0))] if found else []


def in_time(job, result):
    if result["end_s"] is None:
        return [("endless", f"runs {result['limit_s']:.1f} s after its start; killed")]
    limit_s = result["limit_s"]
    if job.must == "refuse" and any(result["codes"].values()):
        limit_s = START_S + job.deadline_s + 2 + result["waited_s"]
    if result["end_s"] > limit_s:
        return [("late", f"ended {result['end_s']:.2f} s after its start, limit {limit_s:.2f} s")]
    return []


def right_code(job, result):
    codes = {rank: code for rank, code in result["codes"].items() if rank is None or job.fault not in (
        "kill", "stop") or rank != job.rank}
    allowed = {"pass": (0,), "wrong": (1,), "refuse": (0, 3, 4), "report": (3, 4)}[job.must]
    if job.must == "report" and job.shape in ("mpirun", "nodes", "soak"):
        allowed += (137, 143)  # of the launcher
    bad = {rank: code for rank, code in codes.items() if code not in allowed}
    if not bad:
        return []
    if job.must == "wrong" and 0 in bad.values():
        return [("data", "planted wrong data passed as right")]
    if job.must != "wrong" and 1 in bad.values():
        return [("data", "wrong data")]
    return [("code", f"exit codes {bad}, expected {allowed}")]


def named_ranks(job, err):
    """Returns the sets of ranks that reports name as lost. Ranks that a report before the connection
    shows as without answer, or on another node, count if they are the job's lost ranks."""
    sets, lost = [], set().union(*job.lost_ranks())
    if job.shape != "nccl":
        parts = HEAD.split(err)[1:]
        for head, body in zip(parts[1::3], parts[2::3]):
            lines = "".join(re.findall(r"^  rank .*\n", body, re.MULTILINE))
            sets.append({int(r) for r in NAMED.findall(head) + SILENT.findall(lines) +
                         UNREACHED.findall(lines)} | (lost & {int(r) for r in DISTANT.findall(lines)}))
    return sets


def right_report(job, result):
    if job.must != "report":
        return []
    right, sets = job.lost_ranks(), named_ranks(job, result["err"])
    anywhere = any(re.search(rf"rank {rank}\b", result["err"]) for lost in right for rank in lost)
    wrong = [named for named in sets if named and not any(named <= lost for lost in right)]
    if wrong:
        return [("accuses", f"named as lost: {sorted(wrong[0])}, lost: {' or '.join(map(str, right))}")]
    if any(named in right for named in sets):
        return []
    if sets:
        return [("report", f"reports name {sets}, lost: {right}")]
    return [] if anywhere else [("report", "no report, and no message with the lost rank")]


def right_data(job, result):
    out = result["out"]
    if job.must == "wrong":
        return []
    found = []
    if "FAILED" in out or "wrong data" in result["err"]:
        found.append(("data", "wrong data"))
    if job.must == "pass" and not found and job.shape in ("fork", "mpirun", "nodes", "hosts") and (
            "# Out of bounds values : 0 OK" not in out):
        found.append(("data", "no line says that all data were verified"))
    if job.must == "pass" and job.shape == "mesh" and f"mesh of {job.nranks} ranks: passed" not in out:
        found.append(("data", "the mesh has not passed"))
    return found


def said_why(job, result):
    if job.must == "refuse" and any(result["codes"].values()) and not result["err"].strip():
        return [("report", "it failed without a message")]
    return []


def judge(job, result):
    if "broken" in result:
        return [("broken", result["broken"])]
    found = in_time(job, result) + right_data(job, result)
    if job.must == "report" and result["hit_s"] is None:
        found += [("broken", "the fault was not injected: the job had ended, or its ranks never came")]
    elif not any(word == "endless" for word, _ in found):
        found += crashed(job, result) + right_code(job, result) + right_report(job, result)
        found += said_why(job, result)
    return found + [("left", text) for text in result["left"]]
