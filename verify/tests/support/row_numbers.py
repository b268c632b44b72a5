"""Compares what a benchmark printed and wrote with numbers computed from its own CSV, as a reader
would: the columns with each other, the table with the CSV, the lines below it with the table.

    row_numbers.py KIND CSV OUTPUT [COLUMN=VALUE...]

KIND names the program or option that wrote the files: blocks, collective, moe, replay, control (bench_barrier, bench_init),
hours (--for), with (--with, --beside), or timeline, for which OUTPUT is the picture.
Each COLUMN must have its VALUE in every row; * stands for any value. Every other column must have the value that a run on the
host without options gives it.
Exit code 0, or 1 with what differs.
"""

import csv
import json
import math
import os
import re
import sys

SIZES = {"none": 0, "uint8": 1, "int8": 1, "half": 2, "bfloat16": 2, "float": 4, "int32": 4, "double": 8, "int64": 8}
WITH_BLOCKS = ("allgather", "reduce_scatter", "alltoall", "gather", "scatter")


def near(what, shown, computed, error=0.0):
    """They differ by the error and by rounding to the digits that are shown at most."""
    text = str(shown)
    digits = len(text.partition(".")[2]) if "e" not in text else 0
    if "e" in text or "." not in text:
        error += 1e-5 * abs(computed)
    if abs(float(text) - computed) > error + 0.51 * 10 ** -digits:
        sys.exit(f"{what}: shown {shown}, computed {computed}")


def same(what, shown, computed):
    """They are equal."""
    if shown != computed:
        sys.exit(f"{what}: shown {shown!r}, computed {computed!r}")


def number(row, column):
    """A column of a row, as a number."""
    return float(row[column])


def read(path):
    """The rows of a CSV file."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def same_speed(column, row, speed):
    """A bandwidth is the speed, which was computed from rounded bytes and a rounded median."""
    error = 1e-5 + 0.0006 / number(row, "median_us") + 0.51 / (number(row, "link_bytes" if row["link_bytes"] else "bytes") or 1)
    same(f"{column} {row[column]} of {speed}", math.isclose(number(row, column), speed, rel_tol=error, abs_tol=1e-12), True)


def check_row(row):
    """Relations between the columns of any row that has times."""
    t = [number(row, c) for c in ("min_us", "median_us", "p99_us", "max_us")]
    same(f"the order of {t}", sorted(t), t)
    same("median in its interval", number(row, "ci_low_us") <= t[1] <= number(row, "ci_high_us"), True)
    speed = number(row, "bytes") / t[1] / 1e3
    same_speed("algbw_gbs", row, speed)
    if int(row["iters"]) == 1:
        same("times of one iteration", {f"{x:.3f}" for x in t}, {row["median_us"]})
    if int(row["iters"]) < 100:
        same("p99 of up to 100 iterations", row["p99_us"] == row["max_us"], True)


PHASES = {"dispatch": "barrier-operation", "combine": "barrier-operation", "pair": "barrier-operation", "chain": "back-to-back"}
EMPTY = ("gpu_throttled,throttle_reasons,sm_mhz,memory_mhz,power_w,temperature_c,counts,ceiling_pct,settings,split,group,sms,"
         "sms_budget,err_max,err_rms").split(",")
MOE = "tokens,hidden,experts,topk,layout,dispatch_dtype,link_bytes,expert_bytes".split(",")
LATE = "last_rank,last_share,skew_us".split(",")


def bus_factor(row):
    """Bytes over the busiest link for each byte of a collective."""
    n = int(row["nranks"])
    return {"allreduce": 2 * (n - 1) / n, "sendrecv": 1, "broadcast": 1, "reduce": 1}.get(row["collective"], (n - 1) / n)


def expected_of(kind, row):
    """Columns of a row of a run on one node of the host, as values, or as sets of them."""
    is_checked, name = row["verify"] != "off", row["collective"]
    wanted = {column: "" for column in EMPTY}
    wanted.update({"schema": "10", "backend": "host", "nnodes": "1", "root": "-1", "placement": "out", "special": "off", "determinism": "off",
                   "gpu_samples": "0", "graph": "0", "mode": "back-to-back", "buffers": "registered", "binding": {"weir", "none"},
                   "unjudged": {"", "one-core"}, "oracle": "exact" if is_checked else "none", "dist": "",
                   "transport": "shm" if row["contender"].startswith("weir") else ""})
    if not row["contender"].startswith("weir"):
        wanted["settings"] = {row["settings"]}  # those of the environment, which the tests' runner may have
    if kind != "moe":
        wanted.update({column: "" for column in MOE})
    if kind == "replay" or name in ("init", "moe_pair"):
        wanted.update({column: "" for column in LATE})
    elif kind in ("blocks", "moe"): # of all ranks, not of a group
        wanted["last_rank"] = {row["last_rank"]} - {""} if row["group"] in ("", "all") else ""
    if kind == "blocks":
        wanted.update(mode="barrier-operation", dtype="uint8", redop="none")
        del wanted["tokens"], wanted["layout"], wanted["dist"]
    elif kind == "control":
        is_call = "call-" in row["algo"]
        wanted.update({"dtype": "float", "redop": "sum"} if is_call else {"dtype": "none", "redop": "none"})
        wanted["verify"] = "pass" if is_call or name == "barrier" else "off"
        if name == "init":
            wanted.update(mode="barrier-operation", buffers="unregistered")
    elif kind == "moe":
        wanted.update(mode=PHASES[name[4:]], redop="none" if name == "moe_dispatch" else "sum")
        del wanted["dist"]
    elif kind == "replay":
        wanted.update(placement={"in", "out"}, redop={"none", "sum", "prod", "max", "min", "avg"})
        del wanted["dist"]
    else:
        wanted.update(special={"off", "pass"}, placement={"in", "out"})
    return wanted


def check_rest(kind, row, path, values):
    """The columns without times: those of the run as in the manifest, the others as expected."""
    with open(path[:-len("csv")] + "json", encoding="utf-8") as file:
        manifest = json.load(file)
    same("manifest", {c: row[c] for c in ("run_id", "utc")}, {c: manifest[c] for c in ("run_id", "utc")})
    same("host", row["host"], manifest["host"]["name"])
    ranks = len(manifest["ranks"])
    same(f"ranks of the manifest in a row of {row['group'] or 'all'}", int(row["nranks"]) <= ranks if row["split"] or kind == "replay" else int(row["nranks"]) == ranks, True)
    for column, value in expected_of(kind, row).items():
        if column not in values:
            same(f"{column} of {row['collective']} {row['algo']}", row[column] in value if isinstance(value, set) else row[column] == value, True)
    cores = len(os.sched_getaffinity(0))
    shares = {1 / math.ceil(ranks / cores), max(1, cores // ranks), float(cores)}
    same(f"cores {row['cores']}", any(math.isclose(number(row, "cores"), share, rel_tol=1e-5) for share in shares), True)
    if row["last_rank"]:
        share, skew, iters = number(row, "last_share"), number(row, "skew_us"), int(row["iters"])
        same("last_rank", 0 <= int(row["last_rank"]) < ranks, True)
        same("last_share", 1 / ranks - 1e-6 <= share <= 1 and abs(share * iters - round(share * iters)) < 1e-3 * iters, True)
        same("skew_us", skew > -number(row, "max_us") * iters, True)


def check_collectives(rows, _):
    """Rows of a collective: sizes and bandwidths."""
    for row in rows:
        check_row(row)
        n = int(row["nranks"]) if row["collective"] in WITH_BLOCKS else 1
        same("bytes", int(row["bytes"]), int(row["count"]) * SIZES[row["dtype"]] * n)
        same_speed("busbw_gbs", row, number(row, "bytes") / number(row, "median_us") / 1e3 * bus_factor(row))


def table(out):
    """The words of each line of the table."""
    return [line.split() for line in out.splitlines() if line[:1] not in ("#", "")]


def check_blocks(rows, out):
    """Sizes from the engine's line and the column pages."""
    layers, tokens, heads, size, planes = re.search(
        r"^# Cache: .*, (\d+) layers, pages of (\d+) tokens, (\d+) x (\d+) elements of 2 bytes, (.*?);", out, re.M).groups()
    vectors, planes = (2, 1) if planes == "keys and values together" else (1, 1 + planes.endswith("apart"))
    block = 2 * int(tokens) * int(heads) * int(size) * vectors
    same("rows of the table", len(table(out)), len(rows))
    for row, words in zip(rows, table(out)):
        shown_bytes, pages, blocks, each, *name, time, speed, wrong, p99, low, high = words
        check_row(row)
        same("block", int(each), block)
        same("tokens", int(row["tokens"]), int(pages) * int(tokens))
        same("blocks", int(blocks), int(pages) * int(layers) * planes)
        same("bytes", [int(shown_bytes), int(row["bytes"]), int(row["count"])], [int(blocks) * block] * 3)
        same("candidate", name, ["weir", row["algo"]] if row["contender"] == "weir" else [row["contender"]])
        same("wrong", (wrong, row["wrong"], row["verify"]), ("0", "0", "pass"))
        same("busbw_gbs", row["busbw_gbs"], row["algbw_gbs"])
        same("dist", f"/p{pages}-b{block}-l{layers}/" in row["dist"], True)
        for word, column in ((time, "median_us"), (speed, "algbw_gbs"), (p99, "p99_us"), (low, "ci_low_us"), (high, "ci_high_us")):
            near(f"table, {column}", word, number(row, column), 1e-3)
    check_ratios(rows, out)


def check_ratios(rows, out):
    """Lines "weir put and memcpy: weir put takes 2.09x as long", which follow the rows of their pages."""
    name = {("weir " + r["algo"] if r["contender"] == "weir" else r["contender"], r["tokens"]): number(r, "median_us") for r in rows}
    tokens = ""
    count = 0
    for line in out.splitlines():
        if line[:1] == " ":
            tokens = next(r["tokens"] for r in rows if r["bytes"] == line.split()[0])
        found = re.match(r"#   (weir \w+) and (\w+): (weir \w+|\w+) takes ([\d.]+)x", line)
        if found:
            weir, peer, slow, times = found.groups()
            slower, faster = (weir, peer) if slow == weir else (peer, weir)
            ratio = name[slower, tokens] / name[faster, tokens]
            near(line, times, ratio, 0.01 * ratio)
        count += line.startswith("#   weir ")
    peers = {r["contender"] for r in rows} - {"weir"}
    same("lines of ratios", count, 2 * len(peers) * len({r["tokens"] for r in rows}))


def check_control(rows, out):
    """A line of the table is a row, with the first communicator's time in front."""
    first = {(r["contender"], r["algo"][6:]): r for r in rows if r["algo"].startswith("first:")}
    later = [r for r in rows if not r["algo"].startswith("first:")]
    same("rows of the table", len(table(out)), len(later))
    for row in rows:
        check_row(row)
        same("bytes", int(row["bytes"]), int(row["count"]) * SIZES[row["dtype"]])
        same("busbw_gbs", row["busbw_gbs"], row["algbw_gbs"])
    for row, words in zip(later, table(out)):
        phase, name, shown, *times, wrong = words
        same("phase and candidate", [phase, name], [row["algo"] or row["collective"], row["contender"]])
        same("wrong", wrong, row["wrong"] if row["verify"] != "off" else "N/A")
        before = first.get((row["contender"], row["algo"]))
        if before:
            near("first", shown, number(before, "median_us"), 1e-3)
        same("first", before is None, shown == "-")
        for word, column in zip(times, ("median_us", "ci_low_us", "ci_high_us", "min_us", "p99_us"), strict=True):
            near(f"table, {column}", word, number(row, column), 1e-3)


def check_hours(rows, out):
    """rows: the windows. Each has its line; the line below them has their sum and their extremes."""
    lines = re.findall(r"^# +(\d+) +(\d+):(\d\d):(\d\d) +(\d+) +(\S+) +(\S+) +(\S+) +(\S+) +(\d+) *(.*?) *$", out, re.M)
    same("lines of windows", len(lines), len(rows))
    end = "0.000"
    for at, (row, line) in enumerate(zip(rows, lines), 1):
        same("number of the window", [row["window"], line[0]], [str(at)] * 2)
        same("a window begins where the last one ended", row["from_s"], end)
        end = row["to_s"]
        same("begin", 3600 * int(line[1]) + 60 * int(line[2]) + int(line[3]), int(number(row, "from_s")))
        same("operations, outliers and causes", (line[4], line[9], line[10]), (row["operations"], row["outliers"], row["causes"]))
        for word, column in zip(line[5:9], ("median_us", "p99_us", "p999_us", "max_us"), strict=True):
            near(column, word, number(row, column), 1e-3)
        same("order", sorted(line[5:9], key=float), list(line[5:9]))
        causes = sum(int(n) for n in re.findall(r"(?:^|; )(\d+) (?:while|with|unexplained)", row["causes"]))
        same("causes of outliers", causes, int(row["outliers"]))
    total = re.search(r"^# (\d+) operations in (\d+) s.*: median (\S+), p99 (\S+), p99.9 (\S+), maximum (\S+) us$", out, re.M).groups()
    same("operations", int(total[0]), sum(int(r["operations"]) for r in rows))
    near("duration", total[1], float(end), 0.001)
    near("maximum", total[5], max(number(r, "max_us") for r in rows), 1e-3)
    for word, column in ((total[2], "median_us"), (total[3], "p99_us"), (total[4], "p999_us")):
        values = [number(r, column) for r in rows]
        same(f"{column} {word} among {values}", min(values) - 0.006 <= float(word) <= max(values) + 0.006, True)
    same("outliers", re.search(r"^# (\d+) outliers? above 3 times the median", out, re.M)[1], str(sum(int(r["outliers"]) for r in rows)))


def check_with(rows, out):
    """The slow-down of a competing call is the quotient of its two times, unless one is below 1 us."""
    check_collectives(rows, out)
    found = re.findall(r": (\S+(?: \S+)*?) alone (\S+) us, together (\S+) us: (\S+)x \[(\S+), (\S+)\]$", out, re.M)
    short = re.findall(r" alone (\S+) us, together (\S+) us: too short to compare; give --with a larger size$", out, re.M)
    rivals = sum(r["contender"].count("+") for r in rows)
    same("lines of competing calls", len(found) + len(short), rivals)
    for name, step, exposed in re.findall(r": (\S+) and one call (\S+) us: exposed communication (\S+) us", out):
        alone = [line[1] for line in found if line[0] == name]
        same(f"exposed {exposed} is {step} without one of {alone}", any(abs(float(step) - float(one) - float(exposed)) < 0.016 for one in alone), True)
    for alone, together in short:
        same("a time below 1 us", min(float(alone), float(together)) <= 1, True)
    for name, alone, together, times, low, high in found:
        same("name", any(f"+{name}" in r["contender"] for r in rows), True)
        same("times of 1 us or more", min(float(alone), float(together)) >= 1, True)
        ratio = float(together) / float(alone)
        near(f"slow-down of {name}", times, ratio, 0.006 * ratio / min(float(alone), float(together)))
        same("interval", float(low) <= float(times) + 0.01 and float(times) - 0.01 <= float(high), True)


def check_replay(rows, out):
    """The table, the whole step, and how it splits."""
    same("rows of the table", len(table(out)), len(rows))
    for row, words in zip(rows, table(out)):
        check_row(row)
        same("words", words[:1] + words[2:7] + [" ".join(words[7:-6])],
             [row[c] for c in ("bytes", "dtype", "redop")] + [row["collective"][7:], row["nranks"], row["placement"], row["contender"]])
        columns = ("median_us", "algbw_gbs", "busbw_gbs", "wrong", "ci_low_us", "ci_high_us")
        for word, column in zip(words[-6:], columns, strict=True):
            near(f"table, {column}", word, number(row, column), 1e-3)
        if row["dtype"] != "none" and row["collective"] != "replay_alltoallv":
            size, n = int(row["count"]) * SIZES[row["dtype"]], int(row["nranks"])
            same(f"bytes of {row['collective']}", int(row["bytes"]), size * n if row["collective"][7:] in WITH_BLOCKS else size * int(row["bytes"]) // size)
    name = {(r["collective"], r["contender"]): number(r, "median_us") for r in rows}
    steps = re.findall(r"^# (\S+): a step takes (\S+) us .*, its communication (\S+) us", out, re.M)
    for who, step, communication in steps:
        near("step", step, name["replay_step", who], 1e-3)
        near("communication", communication, name["replay_communication", who], 1e-3)
    for text, exposed, alone in re.findall(r"a step takes (\S+) us .* of which (\S+) us are exposed: computation alone takes (\S+) us", out):
        near("exposed", exposed, float(text) - float(alone), 0.11)
    for wait, share, transfer in re.findall(r"ranks wait for each other (\S+) us \((\d+)%\), transfers take (\S+) us", out):
        whole = float(wait) + float(transfer)
        near("share of waits", share, 100 * float(wait) / whole, 10 / whole)
    for who, recorded, part in re.findall(r"^# (\S+): the recorded communication took (\S+) us; here it takes (\S+) of that", out, re.M):
        near("of the recorded time", part, name["replay_communication", who] / float(recorded), 0.01)
    for recorded, here, *shares in re.findall(r", (\S+) us were recorded and (\S+) us are here: (\S+) \[(\S+), (\S+)\]$", out, re.M):
        near("of later calls", shares[0], float(here) / float(recorded), 0.01)
        same(f"order of {shares}", float(shares[1]) <= float(shares[0]) <= float(shares[2]), True)
    waits = re.findall(r"wait for each other (\S+) us .*, transfers take (\S+) us", out)
    for here, *line in zip(waits, re.findall(r"recorded waits (\S+) us, transfers (\S+) us; waits are (\S+) of that here, transfers (\S+)$", out, re.M)):
        for now, before, text in zip(map(float, here), map(float, line[0][:2]), line[0][2:]):
            near(f"{now} next to {before}", text, now / before, (0.06 + 0.06 * now / before) / before)


def check_timeline(rows, out):
    """out: the picture of a recording of one lane. Bars are as long as their times, in the row of their rank and the colour of the legend."""
    span = float(re.search(r"recorded: 0 to ([\d.]+) us", out)[1])
    scale = 1120 / span
    legend = {name: fill for fill, name in re.findall(r'height="10" fill="(#\w+)"/><text [^>]*>(\w+)<', out)}
    same("kinds of the legend", (len(legend), len(set(legend.values()))), (11, 11))
    middles = [int(y) - 12 for y in re.findall(r'<text x="4" y="(\d+)">rank \d+<', out)]
    bars = re.findall(r'<rect x="([\d.]+)" y="(\d+)" width="([\d.]+)" height="(\d+)" fill="(#\w+)"><title>(\w+), ([\d.]+) us', out)
    panels = len(re.findall("bold", out))
    n = int(rows[0]["nranks"])
    same("rows of ranks", [b - a for a, b in zip(middles, middles[1:])], ([16] * (n - 1) + [52]) * (panels - 1) + [16] * (n - 1))
    end = 0
    for x, y, width, height, fill, name, us in bars:
        same("colour", fill, legend[name])
        same("height", height, "13")
        same("row", int(y) in middles, True)
        near("width", width, max(0.4, float(us) * scale), 0.01 + 0.06 * scale)
        end = max(end, float(x) + float(us) * scale)
    near("the last end", f"{end:.1f}", 1190.0, 0.2)
    height = int(re.search(r'width="1200" height="(\d+)"', out)[1])
    same("height", height, panels * (36 + 16 * n) + 30)


def check_moe(rows, out):
    """Rows of a peer have the shapes and volumes of weir's rows of the same phase and size, and their own speeds."""
    weir = {(r["collective"], r["tokens"]): r for r in rows if r["contender"] == "weir"}
    same("rows of the table", len(table(out)), len(rows))
    for row, words in zip(rows, table(out)):
        check_row(row)
        ours = weir[row["collective"], row["tokens"]]
        for column in ("bytes", "count", "dtype", "redop", "placement", "tokens", "hidden", "experts", "topk", "dispatch_dtype",
                       "link_bytes", "expert_bytes", "nranks"):
            same(f"{column} of a peer", row[column], ours[column])
        speed = number(row, "link_bytes") / number(row, "median_us") / 1e3
        same_speed("busbw_gbs", row, speed)
        same("words", words[:4] + [words[5]], [row["bytes"], row["tokens"], row["dtype"], row["collective"][4:], row["contender"]])
        columns = ("median_us", "algbw_gbs", "busbw_gbs", "wrong", "p99_us", "ci_low_us", "ci_high_us")
        for word, column in zip(words[6:13], columns, strict=True):
            near(f"table, {column}", word, number(row, column), 1e-3)


def main():
    """Runs the checks of a kind."""
    kind, path, output, *values = sys.argv[1:]
    rows = read(path)
    with open(output, encoding="utf-8") as file:
        out = file.read()
    same("there are rows", len(rows) > 0, True)
    for row in rows:
        for value in values:
            column, _, word = value.partition("=")
            same(column, word in ("*", row[column]), True)
        if kind not in ("hours", "timeline"):
            check_rest(kind, row, path, [value.partition("=")[0] for value in values])
    if kind in ("blocks", "moe"): # the table has no groups
        rows = [row for row in rows if row["group"] in ("", "all")]
    {"blocks": check_blocks, "collective": check_collectives, "control": check_control, "hours": check_hours, "with": check_with, "replay": check_replay,
     "timeline": check_timeline, "moe": check_moe}[kind](rows, out)


main()
