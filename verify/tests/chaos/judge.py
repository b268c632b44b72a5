"""What is wrong with a job that has ended: a list of findings, each a word and a text.

The words: late (ended after its deadline + 2 s), endless, code, crash, report (none, or one that does
not name the lost ranks), accuses (a report that names other ranks), data (wrong data passed as right,
or right data called wrong), left (processes, files, sockets), broken (the driver failed).
"""
import re

from jobs import LAUNCHED

HEAD = re.compile(r"^weir: where (\d+) ranks stand(?: in set-up)? ?\(deadline \d+ ms\)(.*)$", re.MULTILINE)
NAMED = re.compile(r"rank (\d+) (?:is (?:dead|stopped)|has died|does not answer)")
SILENT = re.compile(r"^  rank (\d+): no answer; (?!.*on another node)", re.MULTILINE)
DISTANT = re.compile(r"^  rank (\d+): no answer; .*on another node", re.MULTILINE)
UNREACHED = re.compile(r"^  rank (\d+) \(pid [^)]*\): (?:no answer|dead); on another node", re.MULTILINE)
CRASH = re.compile(r"Segmentation fault|Bus error|signal (?:11|7|6|8)\b|Sanitizer|double free|Assertion")


SET_UP_S = 1  # in set-up, a deadline runs from a rank's last step, which may come after the fault
LAUNCHER_ENDED = (137, 143)  # exit codes of a launcher that has terminated ranks
START_S = 5  # for a job that ends with an error while it starts


def crashed(job, result):
    for rank, code in result["codes"].items():
        expected = job.fault in ("kill", "stop") and rank in (job.rank, None)
        if code < 0 and not expected and not launcher_crashes(job, result):
            return [("crash", f"rank {rank} was ended by signal {-code}")]
    found = CRASH.search(split_err(result)[1] if launcher_crashes(job, result) else result["err"])
    return [("crash", found.group(0))] if found else []


def launcher_hangs(job, result):
    """All ranks have ended, and only the launcher has not: Open MPI 4.1 may wait forever after a rank
    was stopped in MPI_Init."""
    return job.shape in LAUNCHED and result["end_s"] is None and result["ranks_end_s"] is not None


def split_err(result):
    """Returns the lines that the launcher's process signed, as those of its backtrace, and the others."""
    signed = re.compile(rf"\[[^\]\s]*:{result['launcher_pid']}\] ")
    lines = result["err"].splitlines(keepends=True)
    return ["".join(line for line in lines if bool(signed.match(line)) == of) for of in (True, False)]


def launcher_crashes(job, result):
    """All ranks have ended, and then the launcher crashed and printed its backtrace: Open MPI 4.1 may, in
    PMIx_server_finalize, after it has terminated the other ranks. A rank's crash remains a crash."""
    return (job.shape in LAUNCHED and job.must == "report" and result["ranks_end_s"] is not None
            and result["codes"].get(None, 0) < 0 and "*** Process received signal ***" in split_err(result)[0])


def in_time(job, result):
    end_s = result["end_s"]
    if job.shape in LAUNCHED and result["ranks_end_s"] is not None:
        end_s = result["ranks_end_s"]
    if end_s is None:
        return [("endless", f"runs {result['limit_s']:.1f} s after its start; killed")]
    limit_s = result["limit_s"]
    if "stand in set-up" in result["err"]:
        limit_s += SET_UP_S
    if job.must == "refuse" and any(result["codes"].values()):
        limit_s = START_S + job.deadline_s + 2 + result["waited_s"]
    if end_s > limit_s:
        return [("late", f"ended {end_s:.2f} s after its start, limit {limit_s:.2f} s")]
    return []


def is_silent(job):
    """Hydra and Open MPI 5 kill the other ranks with SIGKILL when one dies: they cannot report."""
    return job.shape in LAUNCHED and job.must == "report" and job.launcher == "Hydra"


def right_code(job, result):
    codes = {rank: code for rank, code in result["codes"].items() if rank is None or job.fault not in (
        "kill", "stop") or rank != job.rank}
    allowed = {"pass": (0,), "wrong": (1,), "refuse": (0, 3, 4), "report": (3, 4)}[job.must]
    if job.must == "report" and job.shape in LAUNCHED:
        allowed += LAUNCHER_ENDED
    bad = {rank: code for rank, code in codes.items() if code not in allowed}
    if not bad:
        return []
    if job.must == "wrong" and 0 in bad.values():
        return [("data", "planted wrong data passed as right")]
    if job.must != "wrong" and 1 in bad.values():
        return [("data", "wrong data")]
    return [("code", f"exit codes {bad}, expected {allowed}")]


def named_ranks(job, err):
    """Returns the sets of ranks that reports name as lost. A report before the connection cannot say
    whether ranks of other nodes are lost: of those it names the lost ones, if it has them all."""
    sets = []
    if job.shape != "nccl":
        parts = HEAD.split(err)[1:]
        for head, body in zip(parts[1::3], parts[2::3]):
            lines = "".join(re.findall(r"^  rank .*\n", body, re.MULTILINE))
            named = {int(r) for r in NAMED.findall(head) + SILENT.findall(lines) + UNREACHED.findall(lines)}
            perhaps = named | {int(r) for r in DISTANT.findall(lines)}
            sets.append(named.union(*[lost for lost in job.lost_ranks() if lost <= perhaps][:1]))
    return sets


def is_starved(result):
    """A rank waited for a processor for so long that it could not answer in the time of a report."""
    return result["waited_s"] > 1 and "in set-up" in result["err"]


def gave_up_starved(job, result):
    """A job that must do its work reported its deadline instead, and its ranks waited for processors for longer
    than that."""
    codes = set(result["codes"].values())
    return (job.must in ("pass", "wrong") and result["waited_s"] > job.deadline_s and 4 in codes
            and codes <= {0, 4, *(LAUNCHER_ENDED if job.shape in LAUNCHED else ())}
            and re.search(r"\(deadline \d+ ms\)|after \d+ ms", result["err"]) is not None)


def right_report(job, result):
    if job.must != "report":
        return []
    right, sets = job.lost_ranks(), named_ranks(job, result["err"])
    anywhere = any(re.search(rf"rank {rank}\b", result["err"]) for lost in right for rank in lost)
    wrong = [named for named in sets if named and not any(named <= lost for lost in right)]
    if wrong and is_starved(result) and all(any(lost <= named for lost in right) for named in wrong):
        return []  # the lost ranks, and some that had no processor
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
    if job.must != "pass" or gave_up_starved(job, result):
        return found
    if not found and job.shape in ("fork", "mpirun", "nodes", "hosts", "ib") and (
            "# Out of bounds values : 0 OK" not in out):
        found.append(("data", "no line says that all data were verified"))
    if job.shape == "mesh" and f"mesh of {job.nranks} ranks: passed" not in out:
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
        if not launcher_hangs(job, result) and not is_silent(job):
            found += crashed(job, result)
            if not launcher_crashes(job, result) and not gave_up_starved(job, result):
                found += right_code(job, result)
        if not is_silent(job):
            found += right_report(job, result)
        found += said_why(job, result)
    return found + [("left", text) for text in result["left"]]
