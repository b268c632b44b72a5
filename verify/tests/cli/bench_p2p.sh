#!/bin/bash
# bench_p2p: every pattern of sendrecv is measured and checked, its matrices equal the CSV, faults are found in each
# pattern, and a slow link is named. Run from the repository's root.
# Needs python3; parts: MPI, emulated hosts.
. verify/tests/support/tap.sh

csv=$scratch/a.csv
errs() { grep -qF -e "$1" "$err"; }
export WEIR_BACKEND=host
if [ ! -x ./bench_p2p ] || ! command -v python3 >/dev/null; then
    skip "bench_p2p" "bench_p2p is not built, or there is no python3"
    tap_done
fi

# judged PROGRAM: runs python on the CSV's rows and the output's lines.
judged() {
    python3 - "$csv" "$out" <<END
import csv, re, sys
rows = list(csv.DictReader(open(sys.argv[1], encoding="utf-8")))
lines = open(sys.argv[2], encoding="utf-8").read().splitlines()
weir = [row for row in rows if row["contender"] == "weir"]
$1
END
}

check "three ranks, all patterns: ends with 0" ends_with 0 ./bench_p2p -g 3 -b 8 -e 4K -f 512 -n 10 --csv "$csv"
check "the rows are those of all patterns, in their order, and all passed" judged '
pairs, ordered = ["0-1", "0-2", "1-2"], ["0-1", "0-2", "1-0", "1-2", "2-0", "2-1"]
names = [f"{kind}:{pair}" for kind, some in (("pingpong", pairs), ("oneway", ordered), ("bothways", pairs)) for pair in some]
names += ["shift:1", "shift:2", "bisection"]
assert [row["dist"] for row in rows] == [name for name in names for _ in range(2)], rows
assert all(row["verify"] == "pass" and row["collective"] == "sendrecv" for row in rows)
assert all((row["last_rank"] != "") == row["dist"].startswith("shift") for row in rows)'
check "every column of the rows" numbers_hold collective "$csv" nranks=3 iters=10 dtype=float redop=none "dist=*"
check "the matrices have the numbers of the CSV, and a mark for each line that names a pair" judged '
seen = marks = 0
kind = ""
for at, line in enumerate(lines):
    head = re.fullmatch(r"# weir \w+, (\w+), (\d+) B, (us|GB/s in each direction):", line)
    if not head:
        marks -= line.startswith("# slow: ") * (1 if kind == "oneway" else 2)
        continue
    kind, size = head[1], head[2]
    for source in range(3):
        cells = lines[at + 2 + source].split()[2:]
        assert len(cells) == 3 and cells[source] == "-", cells
        for to in range(3):
            if to == source: continue
            name = f"{kind}:{source}-{to}" if kind == "oneway" or source < to else f"{kind}:{to}-{source}"
            row = [r for r in weir if r["dist"] == name and r["bytes"] == size]
            us = float(row[0]["median_us"])
            shown = us if kind == "pingpong" else int(size) / us / 1e3
            assert abs(float(cells[to].rstrip("!")) - shown) <= 0.0051 + shown * 0.0006 / us, (name, cells, us)
            marks += cells[to].endswith("!")
            seen += 1
assert seen == 36 and marks == 0, (seen, marks)'

# A fault is found in a pattern of a pair, where most ranks receive nothing, as in one of all ranks.
for pattern in pingpong oneway bothways bisection; do
    for fault in flip-bit drop-rank drop-chunk swap-bytes overrun; do
        check "$pattern: --inject $fault ends with 1" ends_with 1 ./bench_p2p -g 3 --pattern $pattern -b 4K -e 4K -n 4 --inject $fault
    done
done
check "a skipped message ends with 4" ends_with 4 ./bench_p2p -g 2 --pattern bothways -b 4K -e 4K -n 4 -T 2 --inject skip-signal

check "bench_sendrecv: the ring without the option" ends_with 0 ./bench_sendrecv -g 3 -b 8 -e 8 -n 4 --csv "$csv"
check "its row has no pattern" judged 'assert [row["dist"] for row in rows] == [""]; assert not any("Pattern" in line for line in lines)'
check "bench_sendrecv takes patterns, too" ends_with 0 ./bench_sendrecv -g 4 --pattern ring,bisection -b 8 -e 8 -n 4 --csv "$csv"
check "a ring and a bisection of four ranks" judged 'assert [row["dist"] for row in rows] == ["", "bisection"]; assert sum("# Pattern:" in line for line in lines) == 2'

check "copies as a peer in every pattern: ends with 0" ends_with 0 ./bench_p2p -g 3 -b 8 -e 1M -f 4096 -n 6 --peer copies --csv "$csv"
check "both are checked, and copies have their own rows" judged '
assert len(rows) == 60 and all(row["verify"] == "pass" for row in rows)
assert sum(row["contender"] == "copies" for row in rows) == 30'
check "every column of their rows" numbers_hold collective "$csv" nranks=3 iters=6 "dist=*"
check "copies in groups: ends with 0" ends_with 0 ./bench_sendrecv -g 4 --split mod:2 -b 4K -e 4K -n 6 --peer copies
check "copies need memory that peers map" eval \
    'ends_with 2 ./bench_p2p -g 2 --buffers unregistered -b 8 -e 8 --peer copies && errs "--peer copies: it needs memory that peers map"'
check "copies serve sendrecv only" eval \
    'ends_with 2 ./bench_allreduce -g 2 --peer copies && errs "only bench_sendrecv and bench_p2p have it"'

check "an unknown pattern is a usage error" ends_with 2 ./bench_p2p -g 2 --pattern oneway,star
check "the message has the patterns" errs '--pattern oneway,star: expected a list of ring, pingpong, oneway, bothways, shift and bisection'
check "an empty word is a usage error" ends_with 2 ./bench_p2p -g 2 --pattern oneway,
check "patterns of another collective are a usage error" ends_with 2 ./bench_allreduce -g 2 --pattern ring
check "a pair needs two ranks" ends_with 2 ./bench_p2p -g 1 --pattern oneway
check "the message says so" errs 'each of these needs two ranks; start more'

if command -v "${MPIRUN:-mpirun}" >/dev/null && ci/mpirun -np 2 true >/dev/null 2>&1; then
    check "MPI as a reference and a peer in every pattern" \
        ends_with 0 ci/mpirun -np 3 ./bench_p2p -b 4K -e 4K -n 5 --peer mpi --csv "$csv"
    check "both are checked in each of 15 patterns" judged '
assert len(rows) == 30 and all(row["verify"] == "pass" for row in rows)
assert all(row["oracle"] == "exact+mpi" for row in weir), [row["oracle"] for row in weir]'
else
    skip "MPI in every pattern" "no mpirun; apt-get install libopenmpi-dev openmpi-bin"
fi

many=verify/tests/support/many_hosts.py
slow_link() { # three tries: other programs use the cores as well
    for _ in 1 2 3; do
        measure_slow_link || return 1
        ! names_pair || return 0
    done
}
measure_slow_link() {
    ends_with 0 $many 4 1 '{"links": {"1-2": {"delay_s": 0.05}}}' ./bench_p2p --transport tcp --quiet --visits 1 \
        --pattern pingpong -n 6 -w 1 -b 8 -e 8
}
names_pair() {
    [ "$(grep -c '^# slow: ' "$out")" -eq 1 ] && grep -q '^# slow: rank 1 (.*) and rank 2 (.*): [5-9][0-9][0-9][0-9][0-9]\.[0-9]* us' "$out"
}
if ! ends_with 0 $many 2 1 '{}' ./bench_p2p --transport tcp --quiet --pattern pingpong -n 2 -b 8 -e 8 && tail -n 1 "$err" | grep -q "no emulated hosts"; then
    skip "a delayed link of four hosts" "$(tail -n 1 "$err")"
else
    check "four hosts, one link of which delays: ends with 0" slow_link
    check "the pair of the delayed link is named, and no other" names_pair
fi
tap_done
