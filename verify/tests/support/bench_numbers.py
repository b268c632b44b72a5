"""Runs benchmarks and compares every number that they print or write with one computed here.

What is computed comes from the command line, from the raw times of the JSON file (times_us of -I 1)
and from the definitions of docs/user/csv-columns.md, never from the programs' code. The lists of
columns and keys are complete: one that is new fails the test until it is computed here. Prints TAP.

    bench_numbers.py SCRATCH
"""

import csv
import datetime
import json
import math
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time

from free_port import free_port

SCRATCH = pathlib.Path(sys.argv[1])
SIZES = {"int8": 1, "uint8": 1, "f8e4m3": 1, "f8e5m2": 1, "half": 2, "bfloat16": 2, "int32": 4,
         "uint32": 4, "float": 4, "int64": 8, "uint64": 8, "double": 8}
REDUCING = ("allreduce", "reduce_scatter", "reduce")
ROOTED = ("broadcast", "reduce", "gather", "scatter")
WITH_BLOCKS = ("allgather", "reduce_scatter", "alltoall", "alltoallv", "gather", "scatter")
OUT_OF_PLACE_ONLY = ("alltoall", "alltoallv", "sendrecv")
MOE_COLUMNS = ("tokens", "hidden", "experts", "topk", "layout", "dispatch_dtype", "link_bytes",
               "expert_bytes")
TIMES = ("median_us", "min_us", "max_us", "p99_us", "ci_low_us", "ci_high_us")
COLUMNS = ("schema,run_id,utc,host,collective,backend,transport,nranks,nnodes,contender,"
           "algo,dtype,redop,root,placement,bytes,count,iters,median_us,min_us,max_us,"
           "p99_us,ci_low_us,ci_high_us,algbw_gbs,busbw_gbs,verify,wrong,oracle,special,"
           "determinism,gpu_samples,gpu_throttled,throttle_reasons,sm_mhz,memory_mhz,"
           "power_w,temperature_c,dist,counts,ceiling_pct,tokens,hidden,experts,topk,layout,"
           "dispatch_dtype,link_bytes,expert_bytes,last_rank,last_share,skew_us,buffers,mode,"
           "graph,binding,cores,settings,unjudged,split,group,sms,sms_budget,err_max,err_rms").split(",")
SCHEMA = 10  # grows with COLUMNS
WORDS = set("run_id,utc,host,collective,backend,transport,contender,algo,dtype,redop,placement,verify,"
            "oracle,special,determinism,throttle_reasons,dist,counts,layout,dispatch_dtype,buffers,mode,binding,settings,unjudged,split,group,sms_budget".split(","))
OPTIONS = {"min_bytes": 32 << 20, "max_bytes": 32 << 20, "step_bytes": 1 << 20, "step_factor": 1,
           "iterations": 0, "until": 0, "window": "60s", "warmups": -1, "aggregate": 1, "cycles": 1, "checks": 1,
           "op": "sum", "dtype": "float", "root": 0, "blocking": 0, "rank_time": 3, "timeout_s": 0,
           "registration": 0, "unalign_elements": 0, "backend": "auto", "transport": "auto",
           "algo": "auto", "peers": [], "with": [], "beside": [], "mode": "throughput", "cold": 0, "asleep": 0,
           "verify": "both", "determinism": 0, "sms": 0, "invariant": 0, "fuse": "off", "hidden": 8192, "wire": "off", "buffers": "weir", "dist": "spread:1", "counts": "host",
           "unproved": 0, "seed": 1}


class Wrong(Exception):
    """A number is not what it must be."""


def same(what, shown, computed):
    """What is shown is what is computed, number or text."""
    if shown != computed:
        raise Wrong(f"{what}: shown {shown!r}, computed {computed!r}")


def near(what, shown, computed, error=1e-9):
    """They differ by a relative error at most."""
    if not math.isclose(float(shown), computed, rel_tol=error, abs_tol=1e-300):
        raise Wrong(f"{what}: shown {shown!r}, computed {computed!r}")


def holds(what, condition):
    """A relation between numbers."""
    if not condition:
        raise Wrong(what)


# ------------------------------------------------------------- definitions


def bus_factor(collective, n):
    """The busiest link's bytes for each byte of the size."""
    return {"allreduce": 2 * (n - 1) / n, "allgather": (n - 1) / n, "reduce_scatter": (n - 1) / n,
            "alltoall": (n - 1) / n, "alltoallv": (n - 1) / n, "broadcast": 1, "reduce": 1,
            "sendrecv": 1}[collective]


def percentile(times, percent):
    """The nearest rank: the smallest time that at least percent of all do not exceed."""
    return next(t for t in sorted(times) if 100 * sum(u <= t for u in times) >= percent * len(times))


def order_rank(n, confidence):
    """k for which the k-th smallest and the k-th largest of n enclose the median so surely."""
    k, below = 0, 0
    while k < (n + 1) // 2:
        below += math.comb(n, k)
        if 2 * below > (1 - confidence) * 2 ** n:
            break
        k += 1
    return max(k, 1)


def pair_shares(dist, n):
    """The steps' tables of shares: of the size of all blocks together, from rank to rank. The order of
    receivers, which the seed determines, does not change the size."""
    word, _, value = dist.partition(":")
    if word == "spread" or word == "uniform":
        x = float(value or 0)
        return [[[(1 - x) / n + x * ((to - source) % n) / (n * (n - 1) / 2) for to in range(n)]
                 for source in range(n)]]
    if word == "zipf":
        tables = [[[(1 + to) ** -float(value) for to in range(n)]] * n]
    elif word == "hot":
        hot = int(value)
        tables = [[[0.9 / hot if to < hot else 0.1 / (n - hot) for to in range(n)]] * n]
    else:
        parts = pathlib.Path(value).read_text().split("\n\n")
        tables = [[[float(w) for w in line.split()] for line in part.splitlines()]
                  for part in parts]
    shares = []
    for table in tables:
        most = max([sum(row) for row in table] + [sum(column) for column in zip(*table)])
        shares.append([[weight / most for weight in row] for row in table])
    return shares


def shape_of(case, asked, dtype):
    """Bytes and count for a size of the sweep: whole elements; blocks are multiples of 16 bytes."""
    n, size = case.ranks, SIZES[dtype]
    count = asked // size
    if case.collective in WITH_BLOCKS:
        count = count // n // (16 // size) * (16 // size)
    if case.collective != "alltoallv":
        return count * size * (n if case.collective in WITH_BLOCKS else 1), count
    most = 0
    for table in pair_shares(case.dist, n):
        parts = [[int(share * count * n * size + 1e-6) // 16 * 16 for share in row] for row in table]
        most = max([most] + [sum(row) for row in parts] + [sum(column) for column in zip(*parts)])
    return most, count


def table_number(value, width):
    """As nccl-tests' table has it: as many of two decimals as fit, else an exponent."""
    if value is None:
        return "nan"
    for decimals in (2, 1, 0):
        text = f"{value:{width}.{decimals}f}"
        if len(text) <= width:
            return text.strip()
    return f"{value:{width}.{1 if width >= 7 else 0}e}".strip()


# --------------------------------------------------------------------- runs


class Case:
    """A command line, as values."""

    def __init__(self, collective, ranks, sizes=(1000, 3001, 667), dtypes=("float",), ops=("sum",),
                 roots=(0,), iters=7, **more):
        self.collective, self.ranks, self.sizes = collective, ranks, sizes
        self.dtypes, self.ops, self.roots, self.iters = dtypes, ops, roots, iters
        self.factor = more.get("factor", 1)
        self.skip, self.aggregate = more.get("skip", 0), more.get("aggregate", 1)
        self.rank_time, self.dist = more.get("rank_time", 3), more.get("dist", "spread:1")
        self.algos, self.checks = more.get("algos", ["auto"]), more.get("checks", 1)
        self.buffers, self.determinism = more.get("buffers", "weir"), more.get("determinism", 0)
        self.links, self.extra = more.get("links"), more.get("extra", [])
        self.code = more.get("code", 0)
        self.program = f"bench_{collective}"

    def asked(self):
        """The sizes of the sweep."""
        first, last, step = self.sizes
        while first <= last:
            yield first
            first = first * self.factor if self.factor > 1 else first + step

    def arguments(self):
        """The command line without the program and its files."""
        first, last, step = self.sizes
        every = "all" if len(self.ops) > 1 else self.ops[0]
        return (["-g", self.ranks, "-b", first, "-e", last]
                + (["-f", self.factor] if self.factor > 1 else ["-i", step])
                + (["-o", every] if self.collective in REDUCING else [])
                + (["-r", "all" if len(self.roots) > 1 else self.roots[0]]
                   if self.collective in ROOTED else [])
                + ["-d", "all" if len(self.dtypes) > 1 else self.dtypes[0], "-n", self.iters,
                   "-w", 1, "-I", 1, "-K", self.skip, "-m", self.aggregate, "-a", self.rank_time,
                   "-c", self.checks, "-M", 1, "--algo", ",".join(self.algos), "--dist", self.dist,
                   "--buffers", "plain" if self.buffers == "plain" else "registered"]
                + (["--determinism"] if self.determinism else [])
                + (["--ceiling", self.links["path"]] if self.links else []) + self.extra)

    def options(self):
        """What the manifest records of the options."""
        first, last, step = self.sizes
        changed = {"min_bytes": first, "max_bytes": last, "step_factor": self.factor,
                   "iterations": self.iters, "warmups": 1, "aggregate": self.aggregate,
                   "checks": self.checks, "rank_time": self.rank_time, "dist": self.dist,
                   "algo": ",".join(self.algos), "determinism": self.determinism,
                   "dtype": "all" if len(self.dtypes) > 1 else self.dtypes[0],
                   "buffers": self.buffers, "verify": "exact" if self.checks else "off"}
        if self.factor == 1:
            changed["step_bytes"] = step
        if self.collective in REDUCING:
            changed["op"] = "all" if len(self.ops) > 1 else self.ops[0]
        if self.collective in ROOTED:
            changed["root"] = -1 if len(self.roots) > 1 else self.roots[0]
        return {**OPTIONS, **changed}

    def lines(self):
        """The lines of the table in any order: bytes, count, type, operation, root."""
        roots = self.roots if self.collective in ROOTED else (-1,)
        ops = self.ops if self.collective in REDUCING else ("none",)
        return sorted({(*shape_of(self, asked, dtype), dtype, op, root) for asked in self.asked()
                       for dtype in self.dtypes for op in ops for root in roots})


class Run:
    """A run, and what it left."""

    def __init__(self, program, arguments, code=0):
        path = SCRATCH / "run.csv"
        files = ["--csv", str(path)]
        if program != "bench_moe":
            files += ["-J", str(SCRATCH / "j.json")]
        self.arguments = [str(a) for a in arguments] + files
        self.start = time.time()
        done = subprocess.run([f"./{program}"] + self.arguments, capture_output=True, text=True,
                              timeout=60, check=False)
        self.elapsed_s = time.time() - self.start
        self.out, self.err = done.stdout, done.stderr
        same(f"exit code ({done.stderr.strip()[-300:]})", done.returncode, code)
        with open(path, newline="", encoding="utf-8") as file:
            self.rows = list(csv.DictReader(file))
        same("columns of the CSV", list(self.rows[0]), COLUMNS)
        self.manifest = json.loads((SCRATCH / "run.json").read_text())
        self.json = json.loads((SCRATCH / "j.json").read_text()) if len(files) > 2 else None

    def comment(self, pattern):
        """The groups of the one line of standard output that has the pattern."""
        found = [re.search(pattern, line) for line in self.out.splitlines()]
        found = [match for match in found if match]
        same(f"lines with {pattern}", len(found), 1)
        return found[0].groups()


# ------------------------------------------------------------------- checks


def check_times(row, times, aggregate):
    """The time columns of a row, from its raw times."""
    n = len(times)
    ordered, middle = sorted(times), statistics.median(times)
    computed = {"median_us": middle, "min_us": ordered[0], "max_us": ordered[-1],
                "p99_us": percentile(times, 99)}
    if n < 12:  # one round: order statistics, at least as wide as the clock's resolution
        k = order_rank(n, 0.95)
        computed["ci_low_us"] = min(ordered[k - 1], middle - 0.0005 / aggregate)
        computed["ci_high_us"] = max(ordered[n - k], middle + 0.0005 / aggregate)
    for column, value in computed.items():
        same(f"{column} of {times}", row[column], f"{value:.3f}")


def check_order(row):
    """Relations between the times of any row. An interval of rounds may exceed all times."""
    t = {name: float(row[name]) for name in TIMES}
    holds(f"min <= median <= p99 <= max, 0 <= low <= median <= high: {t}",
          t["min_us"] <= t["median_us"] <= t["p99_us"] <= t["max_us"]
          and 0 <= t["ci_low_us"] <= t["median_us"] <= t["ci_high_us"])


def check_bandwidths(row, median_us, factor):
    """Bandwidths from bytes and the median; the CSV's median has 3 decimals."""
    algbw = int(row["bytes"]) / (median_us * 1e-6) / 1e9
    near("algbw_gbs", row["algbw_gbs"], algbw, 6e-6 + 0.0005 / median_us)
    near("busbw_gbs", row["busbw_gbs"], float(row["algbw_gbs"]) * factor, 1.1e-5)


def known_algorithms(program):
    """The names of --list-algos."""
    listed = subprocess.run([f"./{program}", "--list-algos"], capture_output=True, text=True,
                            check=True).stdout
    return {line.split()[0] for line in listed.splitlines()[1:]}


def ceiling_of(links, busbw_bytes, median_us):
    """The shortest time that measured links allow, in percent of the median."""
    sizes = links["together"]
    bandwidth = sizes[0][1]
    if busbw_bytes >= sizes[-1][0]:
        bandwidth = sizes[-1][1]
    elif busbw_bytes > sizes[0][0]:
        (low, a), (high, b) = sizes
        bandwidth = a + (b - a) * math.log(busbw_bytes / low) / math.log(high / low)
    return 100 * (links["us"] + busbw_bytes / (bandwidth * 1e9) * 1e6) / median_us


def check_identity(row, run):
    """The columns that every row of a run has."""
    at = datetime.datetime.strptime(row["utc"], "%Y-%m-%dT%H:%M:%SZ")
    at = at.replace(tzinfo=datetime.timezone.utc).timestamp()
    holds(f"utc {row['utc']} is the start", run.start - 1 <= at <= run.start + run.elapsed_s)
    same("run_id", row["run_id"], run.manifest["run_id"])
    same("utc", row["utc"], run.manifest["utc"])
    same("host", row["host"], socket.gethostname())
    for column, value in {"schema": SCHEMA, "backend": "host", "nnodes": 1, "transport": "shm",
                          "gpu_samples": 0, "gpu_throttled": "", "throttle_reasons": "",
                          "sm_mhz": "", "memory_mhz": "", "power_w": "", "temperature_c": "",
                          "contender": "weir"}.items():
        same(column, row[column], str(value))


def check_conditions(case, row):
    """The columns that make times comparable, and those of the last rank, whose values
    test_bench_intervals computes: here what is possible."""
    cores = len(os.sched_getaffinity(0))
    for column, value in {"buffers": "unregistered" if case.buffers == "plain" else "registered",
                          "mode": "back-to-back", "graph": 0, "settings": "", "unjudged": "", "split": "", "group": "", "sms": "", "sms_budget": "", "err_max": "", "err_rms": ""}.items():
        same(column, row[column], str(value))
    holds(f"binding {row['binding']} is a word", row["binding"] in ("weir", "none"))
    holds(f"cores {row['cores']} of {case.ranks} ranks",
          float(row["cores"]) in (1 / math.ceil(case.ranks / cores), max(1, cores // case.ranks), cores))
    share, skew = float(row["last_share"]), float(row["skew_us"])
    holds(f"last_rank {row['last_rank']}", 0 <= int(row["last_rank"]) < case.ranks)
    holds(f"last_share {share} of {case.ranks} ranks", 1 / case.ranks - 1e-6 <= share <= 1)
    holds(f"last_share {share} of {case.iters} iterations",
          abs(share * case.iters - round(share * case.iters)) < 1e-3)
    holds(f"skew_us {skew}", skew > -float(row["max_us"]) * case.aggregate * case.iters)


def check_row(case, run, row, known, times):
    """Every column of a row of the CSV; times: raw ones, if the JSON file has them."""
    n, factor = case.ranks, bus_factor(case.collective, case.ranks)
    line = (int(row["bytes"]), int(row["count"]), row["dtype"], row["redop"], int(row["root"]))
    holds(f"{line} is one of {case.lines()}", line in case.lines())
    check_identity(row, run)
    is_v, checked = case.collective == "alltoallv", case.checks > 0
    has_special = checked and case.collective in REDUCING
    for column, value in {"collective": case.collective, "nranks": n, "iters": case.iters,
                          "dist": case.dist if is_v else "", "counts": "host" if is_v else "",
                          "verify": "pass" if checked else "off", "wrong": 0,
                          "oracle": "exact" if checked else "none",
                          "special": "pass" if has_special else "off",
                          "determinism": "same" if case.determinism else "off",
                          **{name: "" for name in MOE_COLUMNS}}.items():
        same(column, row[column], str(value))
    holds(f"algo {row['algo']} is listed", row["algo"] in known)
    check_conditions(case, row)
    median_us = float(row["median_us"])
    check_order(row)
    if times:
        median_us = statistics.median(times)
        check_times(row, times, case.aggregate)
    check_bandwidths(row, median_us, factor)
    if case.links:
        shown = ceiling_of(case.links, int(row["bytes"]) * factor, median_us)
        holds(f"ceiling_pct {row['ceiling_pct']} is {shown}",
              abs(float(row["ceiling_pct"]) - shown) <= 0.051 + shown * 0.0005 / median_us)
    else:
        same("ceiling_pct", row["ceiling_pct"], "")


def check_json_row(shown, row):
    """A row of the JSON file is that of the CSV."""
    same("columns of JSON", list(shown), COLUMNS)
    for column in COLUMNS:
        if column in WORDS:
            same(f"JSON's {column}", shown[column], row[column])
        else:
            same(f"JSON's {column}", shown[column], float(row[column]) if row[column] else None)


def shown_time(details, how):
    """The table's time: the median of rank 0's, the mean, least or greatest time of each iteration."""
    ranks = details["per_process_max_times_us"]
    combine = [lambda t: t[0], statistics.fmean, min, max][how]
    return statistics.median(combine(times) for times in zip(*ranks))


def check_details(case, details):
    """The statistics of -I, and the raw times themselves."""
    times, ranks = details["times_us"], details["per_process_max_times_us"]
    same("ranks with times", len(ranks), case.ranks)
    same("iterations of ranks", {len(each) for each in ranks}, {case.iters})
    same("times_us", times, [max(each) for each in zip(*ranks)])
    kept = times[case.skip:]
    mean = sum(kept) / len(kept)
    computed = {"skipped_iterations": case.skip, "min_us": min(kept), "max_us": max(kept),
                "avg_us": mean, "p50_us": statistics.median(kept), "p95_us": percentile(kept, 95),
                "p99_us": percentile(kept, 99), "stdev_us": statistics.pstdev(kept),
                "cv_pct": 100 * statistics.pstdev(kept) / mean}
    same("keys of details", set(details), set(computed) | {"times_us", "per_process_max_times_us"})
    for key, value in computed.items():
        near(key, details[key], value)
    return computed


def check_half(case, line, half, details):
    """One half of a line; returns the numbers of the table: time, bandwidths, wrong, details."""
    computed = check_details(case, details)
    time_us = shown_time(details, case.rank_time)
    algbw = line["size"] / (time_us * 1e3)
    busbw = algbw * bus_factor(case.collective, case.ranks)
    keys = {"time": time_us, "alg_bw": algbw, "bus_bw": busbw}
    others = {"nwrong", "special", "determinism"} | ({"ceiling_pct"} if case.links else set())
    same("keys of a half", set(half), set(keys) | others)
    for key, value in keys.items():
        near(key, half[key], value)
    same("nwrong", half["nwrong"], 0 if case.checks else None)
    numbers = [table_number(time_us, 7), table_number(algbw, 6), table_number(busbw, 6),
               "0" if case.checks else "N/A"]
    return numbers + [table_number(computed[key], 7)
                      for key in ("min_us", "max_us", "p99_us", "cv_pct")], busbw


def check_lines(case, run):
    """The results of the JSON file, the CSV and the table, against each other and raw times."""
    known, rows, buses, table = known_algorithms(case.program), list(run.rows), [], []
    one_place = case.collective in OUT_OF_PLACE_ONLY
    for line in run.json["results"]:
        same("keys of a result", set(line) - {"out_of_place_per_iter", "in_place_per_iter"},
             {"size", "count", "type", "redop", "root", "out_of_place", "in_place",
              "actual_iterations", "experiment_name", "wall_time", "rows"})
        same("actual_iterations", line["actual_iterations"], case.iters)
        same("rows of a result", len(line["rows"]), (1 if one_place else 2) * len(case.algos))
        fields = [str(line["size"]), str(line["count"]), line["type"], line["redop"],
                  line["root"].strip()]
        same("width of root", len(line["root"]), 6)
        for place, name in (("out", "out_of_place"), ("in", "in_place")):
            if place == "in" and one_place:
                same("half in place", line[name], None)
                fields += ["nan", "nan", "nan", "N/A", "nan", "nan", "nan", "nan"]
                continue
            details = line[name + "_per_iter"]
            numbers, busbw = check_half(case, line, line[name], details)
            fields += numbers
            buses.append(busbw)
            for i in range(len(case.algos)):
                row, shown = rows.pop(0), line["rows"].pop(0)
                same("placement", row["placement"], place)
                same("line", fields[:5], [row[c] for c in ("bytes", "count", "dtype", "redop", "root")])
                if case.algos[i] != "auto":
                    same("algo", row["algo"], case.algos[i])
                check_row(case, run, row, known, details["times_us"] if i == 0 else None)
                check_json_row(shown, row)
        table.append(fields)
    same("rows of the CSV that JSON lacks", rows, [])
    lines = [line.split() for line in run.out.splitlines() if line[:1] not in ("#", "")]
    same("the table", lines, table)
    shown = sorted((int(f[0]), int(f[1]), f[2], f[3], int(f[4])) for f in table)
    same("sizes, types, operations and roots", shown, case.lines())
    return buses


def check_footer(case, run, buses):
    """The lines after the table, and the end of the JSON file."""
    data = run.json
    average = sum(buses) / len(buses)
    near("average_bus_bandwidth", data["average_bus_bandwidth"]["bandwidth"], average)
    same("Avg bus bandwidth", run.comment(r"^# Avg bus bandwidth    : (\S+) $")[0], f"{average:g}")
    same("Out of bounds values", run.comment(r"^# Out of bounds values : (\d+) (\w+)$"), ("0", "OK"))
    same("out_of_bounds", data["out_of_bounds"], {"count": 0, "okay": "true"})
    costs = [(line["wall_time"]["timing_s"], line["wall_time"]["verification_s"], line["size"])
             for line in data["results"]]
    timing, verification = sum(c[0] for c in costs), sum(c[1] for c in costs)
    near("timing_s", data["wall_time"]["timing_s"], timing)
    near("verification_s", data["wall_time"]["verification_s"], verification)
    least = case.aggregate * 1e-6 * sum(
        sum(line[place]["per_process_max_times_us"][0]) for line in data["results"]
        for place in ("out_of_place_per_iter", "in_place_per_iter") if place in line)
    holds(f"{least} <= timing {timing}, with verification {verification} <= {run.elapsed_s}",
          least * 0.9 <= timing and timing + verification <= run.elapsed_s)
    text = f"timing {timing:.4f} s, verification {verification:.4f} s"
    share, _, size = max(((v / t, -i, s) for i, (t, v, s) in enumerate(costs)))
    if verification > 0:
        text += f" ({verification / timing:.2f} of timing; at most {share:.2f}, at {size} B)"
    same("Wall time", run.comment(r"^# Wall time            : (.*)")[0], text)
    memory = run.comment(r"; library memory ([0-9.]+) MiB per rank")[0]
    same("Memory usage", run.comment(r"^# Memory usage         : library (\S+) MiB a rank")[0], memory)
    set_up_ms = float(run.comment(r"set-up of weir ([0-9.]+) ms")[0])
    holds(f"set-up {set_up_ms} ms in {run.elapsed_s} s", 0 < set_up_ms < run.elapsed_s * 1e3)
    check_algorithms(run)
    if case.links:
        check_ceiling(case, run)


def check_algorithms(run):
    """The line of algorithms that ran out of place, of the candidate that the table shows."""
    spans = {}
    for line in run.json["results"]:
        first = next(r for r in run.rows if r["placement"] == "out"
                     and all(r[c] == str(line[k]).strip() for c, k in
                             (("bytes", "size"), ("dtype", "type"), ("redop", "redop"),
                              ("root", "root"))))
        spans.setdefault(first["algo"], []).append(line["size"])
    text = ", ".join(f"{name} {min(s)}" + (f" to {max(s)}" if max(s) > min(s) else "") + " B"
                     for name, s in spans.items())
    same("Algorithms of weir", run.comment(r"^# Algorithms of weir   : (.*)$")[0], text)


def check_ceiling(case, run):
    """The footer's lowest and highest percentage."""
    shown = run.comment(r"^# Ceiling              : (\d+)% of what (\d+) measured links allow at "
                        r"(\d+) B \((\S+)\), up to (\d+)% at (\d+) B \((\S+)\)$")
    low = min(run.rows, key=lambda r: float(r["ceiling_pct"]))
    high = max(run.rows, key=lambda r: float(r["ceiling_pct"]))
    for at, row in ((0, low), (4, high)):
        holds(f"ceiling {shown[at]} is {row['ceiling_pct']}",
              abs(int(shown[at]) - float(row["ceiling_pct"])) <= 0.56)
    same("endpoints of the ceiling", shown[1], str(case.ranks))
    for at, row in ((2, low), (5, high)):
        near(f"percentage at {shown[at:at + 2]}", row["ceiling_pct"], min(
            (float(r["ceiling_pct"]) for r in run.rows
             if r["bytes"] == shown[at] and r["algo"] == shown[at + 1]),
            key=lambda p: abs(p - float(row["ceiling_pct"]))), 0.002)


def check_header(case, run):
    """The lines before the table, the manifest and JSON's configuration."""
    first, last, step = case.sizes
    step = f"{case.factor}(factor)" if case.factor > 1 else f"{step}(bytes)"
    same("line of options", run.comment(r"^# (nThread .*)$")[0],
         f"nThread 1 nGpus {case.ranks} minBytes {first} maxBytes {last} step: {step} "
         f"warmup iters: 1 iters: {case.iters} agg iters: {case.aggregate} validation: "
         f"{case.checks} graph: 0 unalign: 0")
    same("Ranks", run.comment(r"^# Ranks: (\d+) on (\d+) node;"), (str(case.ranks), "1"))
    manifest, config = dict(run.manifest), dict(run.json["config"])
    same("complete", manifest.pop("complete"), True)
    same("keys of JSON", list(run.json), "version start_time args env nccl_version config manifest results "
         f"out_of_bounds average_bus_bandwidth wall_time {'determinism ' * case.determinism}warnings errors end_time".split())
    same("version", (run.json["version"], run.json["nccl_version"]), (3, 0))
    holds(f"env {run.json['env']} has WEIR_BACKEND", "WEIR_BACKEND=host" in run.json["env"])
    holds(f"env {run.json['env']} is of this process", set(run.json["env"]) <= {f"{k}={v}" for k, v in {**os.environ, "WEIR_CHECK": "1"}.items()})
    inside = run.json["manifest"]
    same("manifest in JSON", {k: v for k, v in inside.items() if k != "warnings"},
         {k: v for k, v in manifest.items() if k != "warnings"})
    same("keys of the manifest", set(manifest), set(
        "schema run_id utc program arguments build host nnodes ranks mpi mpi_library mpi_abi launcher "
        "libraries intervals environment options warnings".split()))
    same("arguments", manifest["arguments"], run.arguments)
    same("arguments of JSON", run.json["args"][1:], run.arguments)
    same("program", (manifest["program"], manifest["nnodes"], manifest["launcher"]),
         (case.program, 1, "fork"))
    same("MPI", [manifest[key] for key in ("mpi", "mpi_library", "mpi_abi")], ["", "", ""])
    same("cpus", manifest["host"]["cpus"], os.cpu_count())
    same("options", manifest["options"], case.options())
    same("ranks", [rank["rank"] for rank in manifest["ranks"]], list(range(case.ranks)))
    devices = config.pop("devices")
    same("pids", [d["pid"] for d in devices], [r["pid"] for r in manifest["ranks"]])
    same("devices", [(d["rank"], d["group"], d["device"]) for d in devices],
         [(i, 0, i) for i in range(case.ranks)])
    shown = re.findall(r"^#  Rank +(\d+) Group +0 Pid +(\d+) on +\S+ device +(\d+) ", run.out, re.M)
    same("lines of ranks", [tuple(map(int, s)) for s in shown],
         [(d["rank"], d["pid"], d["device"]) for d in devices])
    key, value = ("step_factor", case.factor) if case.factor > 1 else ("step_bytes", case.sizes[2])
    same("config", config, {
        "nthreads": 1, "ngpus": case.ranks, "minimum_bytes": first, "maximum_bytes": last,
        key: value, "warmup_iters": 1, "iterations": case.iters,
        "aggregated_iterations": case.aggregate, "validation": case.checks, "graph": 0,
        "blocking_collectives": "false", "per_iter_timing": "true", "per_iter_skip": case.skip,
        "parallel_init": "false"})
    wide = [r for r in run.rows if float(r["ci_high_us"]) - float(r["ci_low_us"])
            > float(r["median_us"]) + 0.002]
    warned = re.search(r"warning: (\d+) of (\d+) results? ha", run.err)
    holds(f"warning of {len(wide)} wide intervals", not wide or warned)
    if warned:
        holds(f"wide intervals {warned[0]}", int(warned[1]) >= len(wide))
        same("results of the warning", int(warned[2]), len(run.rows))


def check_ratios(case, run):
    """The lines that compare algorithms, from the CSV's medians."""
    rows, lines = list(run.rows), 0
    pattern = r"^#   (out of|in) place, (\d+) B: weir (\S+) (\S+) us, (.*)$"
    for place, size, algo, us, others in re.findall(pattern, run.out, re.M):
        group = [rows.pop(0) for _ in case.algos]
        shown, lines = group[0], lines + 1
        same("place", place.split()[0], shown["placement"])
        same("size and algorithm", (size, algo), (shown["bytes"], shown["algo"]))
        holds(f"{us} us is {shown['median_us']}", abs(float(us) - float(shown["median_us"])) < 0.0056)
        for text, row in zip(others.split("; "), group[1:], strict=True):
            check_ratio(text, shown, row, case.iters)
    same("lines of ratios", lines * len(case.algos), len(run.rows) if len(case.algos) > 1 else 0)


def check_ratio(text, shown, row, n):
    """'dynamic 0.20 us: no difference shown [0.45, 3.27]'; n: iterations, fewer than 12."""
    name, us, verdict, low, high = re.fullmatch(
        r"(\S+) (\S+) us: (.*) \[(\S+), (\S+)\]", text).groups()
    same("other algorithm", name, row["algo"])
    holds(f"{us} us is {row['median_us']}", abs(float(us) - float(row["median_us"])) < 0.0056)
    same("rank of the 97.5% interval", order_rank(n, 0.975), 1)  # so that it is all times
    ratio = float(row["median_us"]) / float(shown["median_us"])
    least = float(row["min_us"]) / float(shown["max_us"])
    most = float(row["max_us"]) / float(shown["min_us"])
    error = 0.002 / float(shown["min_us"]) + 0.002 / float(row["min_us"])
    if not verdict.startswith("no difference"):
        slower, times = re.fullmatch(r"(\S+) takes (\S+)x as long", verdict).groups()
        if slower != row["algo"] or ratio < 1:
            same("the slower one", slower, shown["algo"])
            ratio, least, most = 1 / ratio, 1 / most, 1 / least
        holds(f"{times} is {ratio}", abs(float(times) - ratio) <= 0.006 + error * ratio)
        holds(f"{least} > 1", least > 1 - error)
    else:
        holds(f"[{least}, {most}] contains 1", least <= 1 + error and most >= 1 - error)
    for mine, theirs in ((least, low), (most, high)):
        holds(f"{theirs} of the interval is {mine}",
              abs(float(theirs) - mine) <= 0.006 + error * mine)


def check_collective(case):
    """A run of a collective."""
    run = Run(case.program, case.arguments(), case.code)
    check_header(case, run)
    check_footer(case, run, check_lines(case, run))
    check_ratios(case, run)


def check_wrong(fault, counted):
    """Wrong elements, out of place and in place: their number, without times, in every output."""
    run = Run("bench_allreduce", ["-g", 3, "-b", 4096, "-e", 4096, "-n", 3, "--inject", fault], 1)
    table = [line.split() for line in run.out.splitlines() if line[:1] not in ("#", "")]
    result = run.json["results"][0]
    wrongs = [row["wrong"] for row in run.rows]
    same("wrong", wrongs, [str(number) for number in counted])
    same("#wrong", [table[0][8], table[0][12]], wrongs)
    same("nwrong", [result["out_of_place"]["nwrong"], result["in_place"]["nwrong"]],
         [int(wrong) for wrong in wrongs])
    for row, fields, half in zip(run.rows, (table[0][5:8], table[0][9:12]),
                                 (result["out_of_place"], result["in_place"]), strict=True):
        is_wrong = row["wrong"] != "0"
        same("verify", row["verify"], "fail" if is_wrong else "pass")
        same("times of a wrong row", {row[name] for name in TIMES} == {""}, is_wrong)
        same("bandwidths of a wrong row", row["algbw_gbs"] + row["busbw_gbs"] == "", is_wrong)
        same("table of a wrong row", fields == ["nan"] * 3, is_wrong)
        same("JSON of a wrong row", half["time"] is None and half["bus_bw"] is None, is_wrong)
    failed = sum(wrong != "0" for wrong in wrongs)
    same("Out of bounds values", run.comment(r"^# Out of bounds values : (\d+) (\w+)$"),
         (str(failed), "FAILED"))
    same("out_of_bounds", run.json["out_of_bounds"], {"count": failed, "okay": "false"})
    in_all = re.findall(r"in place: .*?(\d+) (?:wrong elements? in all|byte written|input element)|"
                        r"of place: .*?(\d+) (?:wrong elements? in all|byte written|input element)",
                        run.err)
    same("numbers of standard error", [a or b for a, b in in_all], [w for w in wrongs if w != "0"])


def median_ratio(above, below):
    """The ratio of two rows' medians."""
    return float(above["median_us"]) / float(below["median_us"])


def check_peer():
    """The line of a peer at the end: the geometric mean of all ratios, and the worst row."""
    path = SCRATCH / "peer.csv"
    done = subprocess.run(["ci/mpirun", "-np", "2", "./bench_allreduce", "-b", "64", "-e", "4096", "-f",
                           "8", "-n", "5", "-w", "1", "--peer", "mpi", "--csv", str(path)],
                          capture_output=True, text=True, timeout=60, check=True)
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    pairs = list(zip(rows[0::2], rows[1::2], strict=True))
    peer = pairs[0][1]["contender"]
    same("candidates", {(a["contender"], b["contender"]) for a, b in pairs}, {("weir", peer)})
    ratios = [median_ratio(b, a) for a, b in pairs]
    error = 0.001 / min(float(row["median_us"]) for row in rows)
    who, times, than, count, size, place = re.search(
        rf"^# {re.escape(peer)} +: (\S+) takes (\S+)x as long as (\S+) \(geometric mean of (\d+) rows\);"
        r" worst for weir: .* at (\d+) B (in|out of) place$", done.stdout, re.M).groups()
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    if abs(mean - 1) > error:
        same("the slower one", (who, than), (peer, "weir") if mean > 1 else ("weir", peer))
    mean = mean if who == peer else 1 / mean
    holds(f"{times} is {mean}", abs(float(times) - mean) <= 0.006 + error * mean)
    same("rows of the mean", int(count), len(pairs))
    worst = next(median_ratio(b, a) for a, b in pairs
                 if (a["bytes"], a["placement"]) == (size, place.split()[0]))
    near("worst ratio", worst, min(ratios), 2 * error)


def check_nodes():
    """Three ranks of two nodes: columns and header."""
    path = SCRATCH / "nodes.csv"
    port = free_port()
    ranks = [subprocess.Popen(
        ["./bench_allgather", "-b", "4000", "-e", "4000", "-n", "3", "--csv", str(path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1",
             "MASTER_PORT": "1", "WEIR_BOOT_PORT": str(port), "WEIR_HOSTID": node, "WEIR_TRANSPORT": "tcp"})
             for rank, node in enumerate("aab")]
    out, err = zip(*[rank.communicate(timeout=60) for rank in ranks])
    same("exit codes" + "".join(f"\n# {line}" for line in "".join(err).splitlines()),
         [rank.returncode for rank in ranks], [0, 0, 0])
    same("Ranks", re.search(r"^# Ranks: (.*?);", out[0], re.M)[1], "3 on 2 nodes")
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    same("rows", [[row[c] for c in ("nranks", "nnodes", "transport", "bytes", "count", "placement")]
                  for row in rows], [["3", "2", "tcp", "3984", "332", p] for p in ("out", "in")])
    for row in rows:
        check_order(row)
        check_bandwidths(row, float(row["median_us"]), 2 / 3)
    same("nnodes of the manifest", json.loads((SCRATCH / "nodes.json").read_text())["nnodes"], 2)


# ----------------------------------------------------------------------- moe


def moe_volumes(tokens, ranks, experts, lines):
    """What the busiest rank receives: rows for each choice, those from others, and tokens of others;
    the means of the three routings that take turns, whose lines follow each other in the trace."""
    totals = [0, 0, 0]
    for version in range(3):
        most = [0, 0, 0]
        for rank in range(ranks):
            counts = [0, 0, 0]
            for source in range(ranks):
                for token in range(tokens):
                    chosen = lines[((version * ranks + source) * tokens + token) % len(lines)]
                    here = sum(e >= 0 and e * ranks // experts == rank for e in chosen)
                    counts[0] += here
                    counts[1] += here if source != rank else 0
                    counts[2] += source != rank and here > 0
            most = [max(pair) for pair in zip(most, counts)]
        totals = [a + b / 3 for a, b in zip(totals, most)]
    return totals


def check_moe(layout, fp8, dtype, ranks):
    """A run of bench_moe with a known routing."""
    experts, hidden, topk, sizes, chain = 2 * ranks, 128, 2, (1, 7), 2
    lines = [[0, 1], [0, ranks + 1], [1, -1], [2, 3], [2 * ranks - 1, 2]]
    trace = SCRATCH / "trace"
    trace.write_text("".join(f"{a} {b}\n" for a, b in lines))
    run = Run("bench_moe", [
        "-g", ranks, "-n", 5, "-w", 1, "--tokens", ",".join(map(str, sizes)), "--experts", experts,
        "--topk", topk, "--hidden", hidden, "-d", dtype, "--layout", layout, "--chain", chain,
        "--routing", f"trace:{trace}"] + (["--dispatch-dtype", "fp8"] if fp8 else []))
    sent = 1 if fp8 else SIZES[dtype]
    rows, table, buses = list(run.rows), [], []
    for tokens in sizes:
        volumes = moe_volumes(tokens, ranks, experts, lines)
        for phase in ("dispatch", "combine", "pair", "chain"):
            row = rows.pop(0)
            # Of the three volumes, the bytes sent and those that come back.
            there = [v * hidden * sent for v in volumes]
            back = [v * hidden * SIZES[dtype] for v in volumes]
            if layout == "expert":
                back[2] = back[1]  # each choice has its output
            total = [{"dispatch": a, "combine": b}.get(phase, a + b) for a, b in zip(there, back)]
            buses.append(check_moe_row(run, row, phase, tokens, total))
            for column, value in {
                    "nranks": ranks, "hidden": hidden, "experts": experts, "topk": topk,
                    "layout": layout, "dispatch_dtype": "f8e4m3" if fp8 else dtype, "dtype": dtype,
                    "iters": 5, "tokens": tokens, "dist":
                    f"{f'trace:{trace}'[:40]}/{layout}/h{hidden}-e{experts}-k{topk}-a1/"
                    f"{'f8e4m3' if fp8 else dtype}/weir"}.items():
                same(column, row[column], str(value))
            table.append([row["bytes"], str(tokens), dtype, phase, "-1", "weir"])
    same("further rows", rows, [])
    check_moe_table(run, table, buses)
    same("options", {k: run.manifest["options"][k] for k in ("iterations", "warmups", "dtype")},
         {"iterations": 5, "warmups": 1, "dtype": dtype})


def check_moe_row(run, row, phase, tokens, total):
    """The columns of one phase; total: bytes of all rows, of those from others, as moved."""
    check_identity(row, run)
    for column, value in {"collective": f"moe_{phase}", "algo": "read", "placement": "out",
                          "redop": "none" if phase == "dispatch" else "sum", "root": -1,
                          "count": tokens, "verify": "pass", "wrong": 0, "oracle": "exact",
                          "special": "off", "determinism": "off", "counts": "",
                          "ceiling_pct": ""}.items():
        same(column, row[column], str(value))
    for column, value in zip(("bytes", "expert_bytes", "link_bytes"), total, strict=True):
        holds(f"{column} of {phase}: {row[column]} is {value}", abs(int(row[column]) - value) <= 0.51)
    check_order(row)
    median_us = float(row["median_us"])
    error = 6e-6 + 0.0005 / median_us
    near("algbw_gbs", row["algbw_gbs"], total[0] / (median_us * 1e-6) / 1e9, error)
    near("busbw_gbs", row["busbw_gbs"], total[2] / (median_us * 1e-6) / 1e9, error)
    same("p99 of 5 iterations", row["p99_us"], row["max_us"])
    same("interval of 5 iterations", (row["ci_low_us"], row["ci_high_us"]),
         (row["min_us"], row["max_us"]))
    return float(row["busbw_gbs"])


def check_moe_table(run, table, buses):
    """The table and the footer of bench_moe."""
    lines = [line.split() for line in run.out.splitlines() if line[:1] not in ("#", "")]
    same("the table", [line[:6] for line in lines], table)
    columns = ("median_us", "algbw_gbs", "busbw_gbs", "wrong", "p99_us", "ci_low_us", "ci_high_us")
    for line, row in zip(lines, run.rows, strict=True):
        for field, column in zip(line[6:13], columns, strict=True):
            holds(f"{column}: the table has {field}, the CSV {row[column]}",
                  abs(float(field) - float(row[column])) <= 0.0056)
    average = float(run.comment(r"^# Avg bus bandwidth    : (\S+)$")[0])
    near("average", average, sum(buses) / len(buses), 2e-5)
    same("Out of bounds values", run.comment(r"^# Out of bounds values : (\d+) (\w+)$"), ("0", "OK"))


# ---------------------------------------------------------------------- list


def links_of(ranks):
    """A file of measured links, slower than memory, with a size between two known ones."""
    path = SCRATCH / "links.txt"
    links = {"path": str(path), "us": 0.03, "together": [(1024, 0.5), (4096, 1.25)]}
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    path.write_text(f"weir-links 1\nmachine m\nbackend host\nendpoints {ranks}\n"
                    + "".join(f"pair {a} {b} 5 {0.03 + 0.01 * (a + b != 1)}\n" for a, b in pairs)
                    + "".join(f"together {s} {g}\n" for s, g in links["together"]))
    return links


def files_of_dist():
    """A matrix and a trace of two matrices for three ranks."""
    (SCRATCH / "matrix").write_text("0 3 1\n2 5 0\n1 1 4\n")
    (SCRATCH / "steps").write_text("0 3 1\n7 0 2\n1 4 0\n\n1 0 0\n0 1 0\n0 0 1\n")
    return f"matrix:{SCRATCH}/matrix", f"trace:{SCRATCH}/steps"


def cases():
    """Every collective with 2 and 3 ranks, and the options that change numbers."""
    for how, collective in enumerate(("allreduce", "allgather", "alltoallv", "alltoall",
                                      "reduce_scatter", "broadcast", "reduce", "sendrecv")):
        for ranks, dtype, op in ((2, "double", "max"), (3, "bfloat16", "prod")):
            yield f"bench_{collective} with {ranks} ranks, -a {(how + ranks) % 4}", Case(
                collective, ranks, dtypes=(dtype,), ops=(op,), roots=(ranks - 1,), skip=ranks,
                rank_time=(how + ranks) % 4, iters=5 + how,
                dist="zipf:1.3" if collective == "alltoallv" else "spread:1")
    yield "every type and operation", Case(
        "allreduce", 3, (77, 77, 1), tuple(SIZES), ("sum", "prod", "max", "min", "avg"), iters=2)
    yield "every root, in unregistered memory", Case(
        "broadcast", 3, (64, 4096, 1), roots=(0, 1, 2), factor=8, buffers="plain")
    yield "150 iterations, of which the first 3 are left out", Case(
        "allreduce", 2, (256, 256, 1), iters=150, skip=3)
    yield "-m 4, without checks", Case("allreduce", 2, aggregate=4, checks=0)
    yield "several algorithms, and equal bits", Case(
        "allreduce", 2, (64, 4096, 1), factor=8, algos=["auto", "packet2", "dynamic"],
        determinism=1)
    yield "percentages of measured links", Case("allreduce", 3, (600, 9000, 1400), links=links_of(3))
    for dist in ("uniform", "spread:0.37", "hot:2", *files_of_dist()):
        yield f"alltoallv, {dist.partition('/')[0]}", Case(
            "alltoallv", 3, (5000, 40000, 16807), ("half",), dist=dist)


def main():
    """Runs all, and prints TAP."""
    checks = [(name, lambda case=case: check_collective(case)) for name, case in cases()]
    for layout, fp8, dtype, ranks in (("expert", False, "float", 3), ("expert", True, "bfloat16", 2),
                                      ("rank", False, "half", 2), ("flat", True, "half", 3)):
        checks.append((f"bench_moe, layout {layout}{', fp8' if fp8 else ''}",
                       lambda a=(layout, fp8, dtype, ranks): check_moe(*a)))
    for fault, counted in (("drop-rank", (3 * 1024, 3 * 1024)), ("overrun", (1, 1)),
                           ("modify-input", (1, 0)), ("flip-bit", (1, 1))):
        checks.append((f"wrong data: {fault}", lambda f=fault, c=counted: check_wrong(f, c)))
    checks.append(("two nodes", check_nodes))
    if shutil.which("mpirun"):
        checks.append(("MPI as a peer", check_peer))
    else:
        checks.append(("MPI as a peer # SKIP no mpirun", lambda: None))
    failed = 0
    for number, (name, check) in enumerate(checks, 1):
        try:
            check()
            print(f"ok {number} - numbers of {name}")
        except (Wrong, subprocess.TimeoutExpired, LookupError, ValueError, TypeError,
                AttributeError) as problem:
            failed += 1
            print(f"not ok {number} - numbers of {name}\n# {type(problem).__name__}: {problem}")
    print(f"1..{len(checks)}")
    return failed > 0


sys.exit(main())
