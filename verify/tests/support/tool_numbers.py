"""Compares the numbers in one output of a tool with those in another, or with what they derive from.

    tool_numbers.py topo PROGRAM OPTION...      weir-topo: the text against --json
    tool_numbers.py plan PROGRAM PLAN BYTES     weir-plan: show and cost against the plan's file
    tool_numbers.py check TEXT JSON PROMETHEUS MARKDOWN JUNIT CTRF
                                                weir-check: all forms of a report against each other

Ends with 1 and a message if a number differs.
"""

import collections
import json
import math
import os
import pathlib
import re
import resource
import subprocess
import sys
import xml.dom.minidom

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def same(what, shown, computed):
    """Both are equal, or the program ends."""
    if shown != computed:
        sys.exit(f"{what}: shown {shown!r}, computed {computed!r}")


def rounds(what, shown, value):
    """A shown number is the value, rounded to the digits shown."""
    decimals = len(shown.partition(".")[2])
    if abs(float(shown) - value) > 0.5001 * 10 ** -decimals:
        sys.exit(f"{what}: shown {shown}, computed {value!r}")


def output(*command):
    """What a command prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def table(text, heading):
    """The words of the lines between a heading and an empty line."""
    lines = text.partition("\n" + heading)[2].splitlines()[1:]
    return [line.split() for line in lines[:lines.index("") if "" in lines else len(lines)]]


# --------------------------------------------------------------------- topo


def cpus_of(text):
    """The number of processors in "0-3,32-35"."""
    pairs = [part.split("-") for part in text.split(",")]
    return sum(int(pair[-1]) - int(pair[0]) + 1 for pair in pairs)


def gpu_links(text, data):
    """The table of distances between GPUs: bandwidth of NVLink, or what they share."""
    short = {"same-switch": "switch", "same-root": "root", "same-numa": "numa", "cross-numa": "far",
             "self": "-"}
    speeds = data["distances"]["nvlink_gbs"]
    for i, words in enumerate(table(text, "GPU:GPU")):
        for j, shown in enumerate(words[1:]):
            speed = speeds[i][j] if speeds else 0
            same(f"GPU {i} to {j}", shown, f"nv{speed:g}" if speed
                 else short[data["distances"]["gpu_gpu"][i][j]])


def devices(text, data):
    """The tables of GPUs and NICs."""
    nics = [nic["name"] for nic in data["nics"]]
    for words, gpu in zip(table(text, "GPU  name"), data["gpus"], strict=True):
        same("GPU", words[:4], [str(gpu["gpu"]), gpu["name"], gpu["pci"], str(gpu["numa"])])
        if gpu["pcie_gbs"] is not None:
            rounds("PCIe GB/s", words[4], gpu["pcie_gbs"])
        same("NIC of a GPU", words[5], nics[gpu["nic"]] if gpu["nic"] is not None else "-")
    for words, nic in zip(table(text, "NIC  name"), data["nics"], strict=True):
        speed = "-" if nic["link_gbits"] is None else f"{nic['link_gbits']:g}"
        same("NIC", words[:5], [str(nic["nic"]), nic["name"], nic["pci"], str(nic["numa"]), speed])


def topo(program, *options):
    """Counts, sizes, devices and ranks."""
    text, data = output(program, *options), json.loads(output(program, "--json", *options))
    counts = data["counts"]
    same("threads and cores", re.search(r"^  threads +(\d+) on (\d+) cores", text, re.M).groups(),
         (str(counts["threads"]), str(counts["cores"])))
    for word, key in (("core", "cores"), ("NUMA node", "numa_nodes"), ("GPU", "gpus"),
                      ("NIC", "nics")):
        shown = re.search(rf"(\d+|no) {word}s?\b", data["summary"])[1]
        same(key, int(shown.replace("no", "0")), counts[key])
    same("devices", (len(data["numa"]), len(data["gpus"]), len(data["nics"])),
         (counts["numa_nodes"], counts["gpus"], counts["nics"]))
    caches = re.findall(r"L(\d) (\d+) x (\d+) ([KMG]iB)", text)
    same("caches", sorted((int(level), int(n), int(size) * UNITS[unit])
                          for level, n, size, unit in caches),
         sorted((c["level"], c["count"], c["bytes"]) for c in data["caches"]))
    for words, node in zip(table(text, "NUMA      memory"), data["numa"], strict=True):
        same("NUMA node", [words[0], words[3]], [str(node["numa"]), node["cpus"]])
        rounds("memory", words[1], node["memory_bytes"] / UNITS[words[2]])
    same("processors of all nodes", sum(cpus_of(node["cpus"]) for node in data["numa"]),
         counts["threads"])
    devices(text, data)
    gpu_links(text, data)
    gpus, nics = data["gpus"], data["nics"]
    for words, rank in zip(table(text, "Rank  NUMA"), data["ranks"], strict=True):
        same("rank", words[:6], [
            str(rank["rank"]), str(rank["numa"]),
            "-" if rank["gpu"] is None else gpus[rank["gpu"]]["name"],
            "-" if rank["nic"] is None else nics[rank["nic"]]["name"],
            str(rank["cores"]), rank["cpus"]])
        same("sharers", int((re.search(r"shared by (\d+)", " ".join(words)) or [0, 1])[1]),
             rank["sharers"])
        same("cores of a rank", rank["cores"] * counts["threads"] // counts["cores"],
             cpus_of(rank["cpus"]))


# --------------------------------------------------------------------- plan


def moves(plan, chunk_bytes):
    """Bytes from rank to rank: what operations write to others and read from them. A packet has as
    many bytes of flags as of data."""
    total = collections.Counter()
    for gpu in plan["gpus"]:
        for block in gpu["threadblocks"]:
            refs = [ref for one in block.get("remote_buffer_refs", [])
                    for ref in one["remote_buffer_ids"]]
            for op in block["ops"]:
                factor = 2 if "pkt" in op["name"] else 1
                for key, part in [(key, part) for key in ("src_buff", "dst_buff")
                                  for part in op.get(key, []) if "buffer_id" in part]:
                    peer = gpu["remote_buffers"][refs[part["buffer_id"]]]["rank"]
                    pair = (gpu["id"], peer) if key == "dst_buff" else (peer, gpu["id"])
                    total[pair] += factor * part["size"] * chunk_bytes
    return total


def shown_moves(text):
    """The same, from the lines of show that list all pairs."""
    total = {}
    for size, pairs in re.findall(r"^ +(\d+) bytes  ((?:\d+>\d+ ?)+)$", text, re.M):
        total.update({tuple(map(int, pair.split(">"))): int(size) for pair in pairs.split()})
    return total


def plan_cost(text, total, chunk_bytes, size):
    """The lines of cost: each follows from the others."""
    time_us, gbs = re.search(r"^time +(\S+) us, (\S+) GB/s", text, re.M).groups()
    same("message", re.search(r"^message +(\d+) bytes, chunks of (\d+)", text, re.M).groups(),
         (str(size), str(chunk_bytes)))
    low, high = (size / (float(time_us) + e) / 1e3 for e in (0.0051, -0.0051))
    if not low - 0.0051 <= float(gbs) <= high + 0.0051:
        sys.exit(f"algbw: shown {gbs}, computed {low} to {high}")
    lines = re.findall(r"^ +(\d+) +(\S+) +(\S+)%  (.*?)(?: and (\d+) more)?$", text, re.M)
    ends = {}
    for number, alone_us, percent, what, more in lines:
        ends[what] = int(number), int(more or 0)
        share = 100 * float(alone_us) / float(time_us)
        if abs(share - float(percent)) > 0.06 + 100 * 0.0051 / float(time_us) * (1 + share / 100):
            sys.exit(f"in use, {what}: shown {percent}, computed {share}")
    same("bytes of a link", ends["rank 0 > rank 1"],
         (total[0, 1], sum(bytes_ == total[0, 1] for bytes_ in total.values()) - 1))
    same("bytes out of a rank", ends["out of rank 0"][0],
         sum(bytes_ for pair, bytes_ in total.items() if pair[0] == 0))
    same("bytes into a rank", ends["into rank 0"][0],
         sum(bytes_ for pair, bytes_ in total.items() if pair[1] == 0))
    count, parts = re.search(r"^critical path  (\d+) operations? (.*)$", text, re.M).groups()
    parts = [float(us) for us in re.findall(r"(\S+) us", parts)]
    if abs(sum(parts) - float(time_us)) > 0.021:
        sys.exit(f"time: shown {time_us}, its parts {parts}")
    spans = re.findall(r"^ +(\S+) +(\S+)  rank \d+, thread block", text, re.M)
    same("operations of the critical path", len(spans), int(count))
    same("end of the critical path", spans[-1][1], time_us)
    if abs(sum(float(b) - float(a) for a, b in spans) - parts[0]) > 0.0051 + 0.0101 * len(spans):
        sys.exit(f"operations: shown {parts[0]}, computed from {spans}")


def plan(program, path, size):
    """Counts, chunks, bytes and times."""
    data = json.loads(pathlib.Path(path).read_text())
    shown, size = output(program, "show", "--bytes", size, path), int(size)
    names = collections.Counter(op["name"] for gpu in data["gpus"]
                                for block in gpu["threadblocks"] for op in block["ops"])
    total, counted = re.search(r"^operations +(\d+): (.*)$", shown, re.M).groups()
    same("operations", int(total), sum(names.values()))
    same("operations of a kind", {name: int(n) for n, name in
                                  (part.split() for part in counted.split(", "))}, dict(names))
    blocks, threads = re.search(r"^blocks +(\d+) thread blocks? per rank, of (\d+) threads", shown,
                                re.M).groups()
    same("blocks and threads", [(int(blocks), int(threads))] * len(data["gpus"]),
         [(len(gpu["threadblocks"]), data["num_threads_per_block"]) for gpu in data["gpus"]])
    same("ranks", int(re.search(r" of (\d+) ranks", shown)[1]), len(data["gpus"]))
    first = data["gpus"][0]
    chunk_bytes = size // max(first["input_chunks"], first["output_chunks"])
    same("chunk", re.search(r"for a message of (\d+) bytes, .*chunks of (\d+) bytes", shown).groups(),
         (str(size), str(chunk_bytes)))
    for gpu in data["gpus"]:
        lines = shown.partition(f"\nrank {gpu['id']}:\n")[2].partition("\nrank ")[0]
        parts = dict(re.findall(r"\b([ios]) (\d+)", re.search(r"chunks: (.*)", lines)[1]))
        for letter, key in (("i", "input"), ("o", "output"), ("s", "scratch")):
            same(f"chunks {letter}", int(parts.get(letter, 0)), gpu[f"{key}_chunks"])
        same("operations of a rank", len(re.findall(r"^ +\d+ [a-z]", lines, re.M)),
             sum(len(block["ops"]) for block in gpu["threadblocks"]))
    moved = moves(data, chunk_bytes)
    same("moves", shown_moves(shown), dict(moved))
    plan_cost(output(program, "cost", "--bytes", str(size), "--topology", "host", path), moved,
              chunk_bytes, size)


# -------------------------------------------------------------------- check


def check_text(text, data):
    """The table, whose numbers are rounded."""
    number = r"(-?[0-9.]+)(?: (\S+))?"
    for one in data["checks"]:
        line = re.search(rf"^{re.escape(one['id'])} .*$", text, re.M)[0]
        if one["value"] is None:
            continue
        value, unit = re.match(rf"\S+ +{number}", line).groups()
        rounds(one["id"], value, one["value"])
        if one["unit"]:
            same(f"{one['id']}: unit", unit, one["unit"])
        if one["expected"] is not None:
            relation, expected = re.search(rf" (>=|<=|==) {number}", line).groups()[:2]
            same(f"{one['id']}: relation", relation, one["relation"])
            rounds(f"{one['id']}: expected", expected, one["expected"])
    rounds("seconds", re.search(r"^# took (\S+) s", text, re.M)[1], data["seconds"])
    judged = [one for one in data["checks"] if one["verdict"] != "noted"]
    failed = [one for one in judged if one["verdict"] != "PASS"]
    same("counts", (data["judged"], data["failed"], data["exit_code"] != 0),
         (len(judged), len(failed), bool(failed)))
    same("verdict", text.splitlines()[-1], f"PASS: {len(judged)} checks")


def check_facts(data):
    """What the checks of the node show and expect, as the system has it."""
    found = {one["id"]: one for one in data["checks"]}
    gib, limit = 1 << 30, resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    same("node.memory", found["node.memory"]["value"], os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE") / gib)
    same("node.files", found["node.files"]["value"], 1e9 if limit == resource.RLIM_INFINITY else limit)
    ranks = found["gpus"]["value"] or found["node.cores"]["value"]
    same("node.shm: 64 MiB for each rank", found["node.shm"]["expected"], ranks * 64 * UNITS["MiB"] / gib)
    shm = os.statvfs("/dev/shm")
    if abs(found["node.shm"]["value"] - shm.f_bavail * shm.f_frsize / gib) > 1:
        sys.exit(f"node.shm: shown {found['node.shm']['value']} GiB")


def check_metrics(text, data):
    """Prometheus' format: values, and the units that the names of metrics promise."""
    found = {name: float(value) for name, value in re.findall(r"^(weir_\S+) (\S+)$", text, re.M)}
    level = f'level="{data["level"]}"'
    expected = {f"weir_check_failed{{{level}}}": data["failed"],
                f"weir_check_exit_code{{{level}}}": data["exit_code"],
                f"weir_check_duration_seconds{{{level}}}": data["seconds"]}
    for one in data["checks"]:
        name = f'check="{one["id"]}"'
        if one["verdict"] != "noted":
            expected[f"weir_check_ok{{{name},{level}}}"] = one["verdict"] == "PASS"
        if one["value"] is not None:
            expected[f'weir_check_value{{{name},unit="{one["unit"]}",{level}}}'] = one["value"]
        if "collective" in one:
            where = (f'collective="{one["collective"]}",bytes="{one["bytes"]}",'
                     f'nranks="{one["nranks"]}",candidate="{one["id"].split(".")[-1]}",{level}')
            if one["unit"] == "us":
                expected[f"weir_latency_seconds{{{where}}}"] = one["value"] * 1e-6
            else:
                expected[f"weir_busbw_gbs{{{where}}}"] = one["value"]
    end = found.pop(f"weir_check_time_seconds{{{level}}}")
    same("metrics", set(found), set(expected))
    for name, value in expected.items():
        if not math.isclose(found[name], value, rel_tol=1e-8):
            sys.exit(f"{name}: shown {found[name]}, computed {value}")
    return end


def check(text, report, metrics, markdown, junit, ctrf):
    """All forms of one report."""
    text, data = pathlib.Path(text).read_text(), json.loads(pathlib.Path(report).read_text())
    check_text(text, data)
    check_facts(data)
    end = check_metrics(pathlib.Path(metrics).read_text(), data)
    rows = {words[0].strip(): " ".join(words[1:3]).split() for words in
            (line.strip("| ").replace("&gt;", ">").replace("&lt;", "<").split("|")
             for line in pathlib.Path(markdown).read_text().splitlines() if line[:1] == "|")}
    for one in data["checks"]:
        line = re.search(rf"^{re.escape(one['id'])} .*$", text, re.M)[0].split()
        same(f"Markdown: {one['id']}", rows[one["id"]], line[1:1 + len(rows[one["id"]])])
    suite = xml.dom.minidom.parse(junit).documentElement
    same("JUnit", [int(suite.getAttribute(key)) for key in ("tests", "failures")],
         [len(data["checks"]), data["failed"]])
    rounds("JUnit's time", suite.getAttribute("time"), data["seconds"])
    for case, one in zip(suite.getElementsByTagName("testcase"), data["checks"], strict=True):
        rounds("JUnit's time of a check", case.getAttribute("time"), one["seconds"])
    results = json.loads(pathlib.Path(ctrf).read_text())["results"]
    summary = results["summary"]
    verdicts = [one["verdict"] for one in data["checks"]]
    same("CTRF", [summary[key] for key in ("tests", "passed", "failed", "other")],
         [len(verdicts), verdicts.count("PASS"), data["failed"], verdicts.count("noted")])
    for one, case in zip(data["checks"], results["tests"], strict=True):
        same("CTRF's value", (case["extra"]["value"], case["extra"]["expected"]),
             (one["value"], one["expected"]))
        if case["duration"] != int(1e3 * one["seconds"]):
            sys.exit(f"CTRF's duration of {one['id']}: {case['duration']}, in s {one['seconds']}")
    for shown in ((summary["stop"] - summary["start"]) / 1e3, end - summary["start"] / 1e3):
        if abs(shown - data["seconds"]) > 1.01:
            sys.exit(f"start and stop: {shown} s, computed {data['seconds']}")


{"topo": topo, "plan": plan, "check": check}[sys.argv[1]](*sys.argv[2:])
