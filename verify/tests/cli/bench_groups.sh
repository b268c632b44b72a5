#!/bin/bash
# Groups of ranks that run at the same time: NCCL_TESTS_SPLIT, NCCL_TESTS_SPLIT_MASK and --split give nccl-tests' groups, every
# collective is right in them, each group has its rows, and a fault is counted in the group that has it. Run from the
# repository's root.
# Needs python3; part: MPI.
. verify/tests/support/tap.sh

csv=$scratch/a.csv
export WEIR_BACKEND=host
if [ ! -x ./bench_allreduce ] || ! command -v python3 >/dev/null; then
    skip "groups of ranks" "bench_allreduce is not built, or there is no python3"
    tap_done
fi
says() { grep -qF -e "$1" "$err"; }
# judged PROGRAM: runs python on the CSV's rows and the groups of the header, by rank.
judged() {
    python3 - "$csv" "$out" <<END
import csv, re, sys
rows = list(csv.DictReader(open(sys.argv[1], encoding="utf-8")))
groups = [int(m[1]) for m in re.finditer(r"^#  Rank +\d+ Group +(\d+) Pid", open(sys.argv[2], encoding="utf-8").read(), re.M)]
$1
END
}
# groups_of RULE PYTHON: the groups of 8 ranks by a rule are those of an expression in r, as nccl-tests' README defines it.
groups_of() { judged "assert groups == [$1 for r in range(8)], groups"; }
short=(-b 64 -e 64 -n 2 -w 0 --quiet)
while read -r variable value expression; do
    value=${value//_/ }
    check "$variable=$value: ends with 0" ends_with 0 env "$variable=$value" ./bench_allreduce -g 8 "${short[@]}" --csv "$csv"
    check "$variable=$value: the groups are $expression" groups_of "$expression"
done <<END
NCCL_TESTS_SPLIT MOD_2 r%2
NCCL_TESTS_SPLIT %3 r%3
NCCL_TESTS_SPLIT DIV_0x4 r//4
NCCL_TESTS_SPLIT AND_0b101 r&5
NCCL_TESTS_SPLIT OR_0x3 r|3
NCCL_TESTS_SPLIT_MASK 4 r&4
END
check "the mask is preferred, as in nccl-tests" ends_with 0 env NCCL_TESTS_SPLIT='MOD 4' NCCL_TESTS_SPLIT_MASK=0x1 \
    ./bench_allreduce -g 8 "${short[@]}" --csv "$csv"
check "its groups are r&1" groups_of 'r&1'
check "--split is preferred to both" ends_with 0 env NCCL_TESTS_SPLIT_MASK=0x1 ./bench_allreduce -g 8 "${short[@]}" --split div:4 --csv "$csv"
check "its groups are r//4" groups_of 'r//4'

for program in allreduce reduce_scatter reduce broadcast allgather alltoall alltoallv gather scatter sendrecv p2p; do
    check "bench_$program, two groups of two: ends with 0" \
        ends_with 0 ./bench_$program -g 4 --split mod:2 -b 4K -e 4K -n 6 --csv "$csv"
    [ $program = alltoallv ] || check "bench_$program: every column of its rows" numbers_hold collective "$csv" split=mod:2 nranks=2 iters=6 "root=*" "group=*" "dist=*"
    check "bench_$program: all rows are right, in threes: of all, of group 0, of group 1" judged '
assert len(rows) % 3 == 0 and rows
for at, row in enumerate(rows):
    assert (row["verify"], row["wrong"], row["nranks"], row["split"]) == ("pass", "0", "2", "mod:2"), row
    assert row["group"] == ("all", "0", "1")[at % 3], row
    assert float(row["median_us"]) > 0, row
for whole, *parts in zip(rows[::3], rows[1::3], rows[2::3]):
    assert all(float(whole["median_us"]) >= float(part["median_us"]) for part in parts), (whole, parts)
    assert all(whole["bytes"] == part["bytes"] for part in parts)'
done
check "groups of 2, 2 and 1 ranks: ends with 0" ends_with 0 ./bench_allgather -g 5 --split div:2 -b 1K -e 1K -n 6 --csv "$csv"
check "the last group has one rank, and its own count" judged '
assert [(row["group"], row["nranks"], row["count"]) for row in rows[:4]] == [
    ("all", "2", "128"), ("0", "2", "128"), ("1", "2", "128"), ("2", "1", "256")], rows'
check "a root beyond the smallest group is a usage error" ends_with 2 ./bench_broadcast -g 5 --split div:2 -r 1
check "the message says how many ranks it has" says 'there is 1 rank in a group; give a root from 0 to 0'
./weir-plan make allreduce_ring --ranks 2 >"$scratch/ring.json" 2>"$err" </dev/null
for needs in "alltoallv" "p2p --pattern shift" "allreduce --plan $scratch/ring.json"; do
    # shellcheck disable=SC2086 # words
    check "$needs needs equal groups" eval \
        'ends_with 2 ./bench_$needs -g 5 --split div:2 && says "divides 5 ranks into groups of different sizes; patterns, plans and alltoallv need equal ones"'
done

check "a fault ends with 1" ends_with 1 ./bench_allreduce -g 4 --split div:2 -b 4K -e 4K -n 4 --inject flip-bit --csv "$csv"
check "each group counts its own wrong element" judged '
assert [(row["group"], row["verify"], row["wrong"]) for row in rows[:3]] == [("all", "fail", "2"), ("0", "fail", "1"), ("1", "fail", "1")], rows
assert all(row["median_us"] == "" for row in rows)'
check "a rank that skips its call ends the job with 4" ends_with 4 ./bench_allreduce -g 4 --split mod:2 -b 4K -e 4K -n 4 -T 2 --inject skip-signal
slow_group_takes_longer() {
    judged 'assert all(float(b["median_us"]) > 1.5 * float(a["median_us"]) for a, b in zip(rows[1::3], rows[2::3])), rows'
}
# Calls long enough for ten times as much to stand out where other programs use the cores as well; five tries.
with_slow_rank() {
    for _ in 1 2 3 4 5; do
        ends_with 0 ./bench_allreduce -g 4 --split mod:2 -b 256K -e 256K -n 50 --inject slow-rank:3:1000 --csv "$csv" || return 1
        ! slow_group_takes_longer 2>"$scratch/why" || return 0
    done
}
check "a slow rank is seen in its group" with_slow_rank
check "the group of the slow rank takes longer" slow_group_takes_longer

for bad in 'MOD 0' 'XOR 2' 2 'mod x'; do
    check "NCCL_TESTS_SPLIT=$bad is a usage error" ends_with 2 env NCCL_TESTS_SPLIT="$bad" ./bench_allreduce -g 2
    check "the message names the variable" says "NCCL_TESTS_SPLIT=$bad: expected and, or, mod or div"
done
check "--split with --tune is a usage error" ends_with 2 ./bench_allreduce -g 2 --split mod:2 --tune "$scratch/t"
# The programs of other workloads: the same groups as bench_allreduce, data of each group checked, a row of all and one for each
# group; a fault on one rank is named by the job's rank, and counts in its group alone.
# parts PYTHON: python on the CSV's rows in threes (of all, of the first, of the second group) and the manifest's ranks.
parts() {
    python3 - "$csv" <<END
import csv, json, sys
rows = list(csv.DictReader(open(sys.argv[1], encoding="utf-8")))
ranks = json.load(open(sys.argv[1].removesuffix(".csv") + ".json", encoding="utf-8"))["ranks"]
groups = [rank["group"] for rank in ranks]
threes = list(zip(rows[::3], rows[1::3], rows[2::3]))
assert rows
$1
END
}
all_right='
for row in rows:
    assert (row["verify"], row["wrong"], row["nranks"], row["split"]) == ("pass", "0", "2", "mod:2"), row
assert len(rows) % 3 == 0
for whole, *parts in threes:
    assert [row["group"] for row in (whole, *parts)] == ["all", "0", "1"], (whole, parts)
    assert all(float(whole["median_us"]) >= float(part["median_us"]) > 0 for part in parts), (whole, parts)
assert groups == [0, 1, 0, 1], groups'
# fails_alone COLLECTIVE RANK: rows of the calls whose wrong data were on this rank.
fails_alone() {
    parts "
for row in rows:
    if row['collective'] != '$1' or 'get' in row['algo']: continue
    bad = row['group'] in ('all', str($2 % 2))
    assert (row['verify'] == 'fail') == bad == (row['wrong'] != '0') == (row['median_us'] == ''), row"
}
moe=(./bench_moe --tokens 17 --hidden 128 -n 4 -w 1)
blocks=(./bench_blocks --layers 2 --pages 8 -n 3 -w 1)
check "bench_moe, two groups of two: ends with 0" ends_with 0 "${moe[@]}" -g 4 --split mod:2 --csv "$csv"
check "its rows, of all phases" parts "$all_right
assert [whole['collective'] for whole, *_ in threes] == ['moe_dispatch', 'moe_combine', 'moe_pair', 'moe_chain'], threes
assert all(row['experts'] == '8' for row in rows)
assert len({(a['bytes'], a['link_bytes']) for _, *parts in threes for a in parts}) > 4, 'groups have the same data'"
check "every column of its rows" numbers_hold moe "$csv" split=mod:2 nranks=2 iters=4 "group=*"
check "its lines have each group" grep -qE '^#   17 tokens, chain, weir: group 0 [0-9.]+ us; group 1 [0-9.]+ us$' "$out"
check "bench_moe, layout flat, ragged, fp8" ends_with 0 "${moe[@]}" -g 4 --split div:2 --layout flat --routing ragged --dispatch-dtype fp8
while read -r variable value; do
    value=${value//_/ }
    env "$variable=$value" ./bench_allreduce -g 8 "${short[@]}" --csv "$csv" >"$out" 2>"$err"
    judged 'print(groups)' >"$scratch/groups"
    for program in moe blocks; do
        declare -n line=$program
        check "bench_$program, $variable=$value: ends with 0" ends_with 0 env "$variable=$value" "${line[@]}" -g 8 -n 2 --csv "$csv"
        check "bench_$program, $variable=$value: the groups of bench_allreduce" eval \
            "parts 'print(groups)' | diff - '$scratch/groups'"
    done
done <<END
NCCL_TESTS_SPLIT MOD_2
NCCL_TESTS_SPLIT DIV_0x4
NCCL_TESTS_SPLIT AND_0b101
NCCL_TESTS_SPLIT_MASK 4
END
for rank in 0 1 2 3; do
    check "bench_moe: a fault on rank $rank is named with this rank and its group" eval \
        'ends_with 1 "${moe[@]}" -g 4 --split mod:2 --chain 0 --inject "flip-bit:$rank" --csv "$csv" &&
         says "17 tokens: group $((rank % 2)): weir: dispatch: " && says " did not arrive on rank $rank: "'
    check "bench_moe: only the rows of its group fail" fails_alone moe_dispatch "$rank"
done
check "bench_moe: a wrong sum on the last rank" eval \
    'ends_with 1 "${moe[@]}" -g 4 --split div:2 --chain 0 --inject swap-outputs:3 && says "17 tokens: group 1: weir: combine: token " && says " on rank 3, row "'
check "bench_moe: groups of 2, 2 and 1 ranks have 4 experts for each rank" eval \
    'ends_with 0 "${moe[@]}" -g 5 --split div:2 --csv "$csv" && judged "
assert [(row[\"group\"], row[\"nranks\"], row[\"experts\"]) for row in rows[:4]] == [
    (\"all\", \"2\", \"8\"), (\"0\", \"2\", \"8\"), (\"1\", \"2\", \"8\"), (\"2\", \"1\", \"4\")], rows"'
refuses() { # PATTERN WORD...
    local pattern=$1
    shift
    ends_with 2 "$@" && one_line_says "$pattern"
}
check "bench_moe: experts that a group cannot divide" refuses \
    '--experts 8: they cannot be divided evenly among the 3 ranks of group 0 (--split div:3); use a multiple of 6' "${moe[@]}" -g 5 --split div:3 --experts 8
check "bench_moe: a fault on a rank that is not there" refuses '--inject flip-bit:4: there are 4 ranks; give a rank from 0 to 3' \
    "${moe[@]}" -g 4 --split mod:2 --inject flip-bit:4
check "bench_moe: a fault on no rank" refuses 'and if wanted its rank, as in flip-bit:3' "${moe[@]}" -g 4 --inject flip-bit:last
check "bench_moe: a rule that is none" refuses '--split mod: expected and, or, mod or div' "${moe[@]}" -g 4 --split mod

check "bench_blocks, two groups of two: ends with 0" ends_with 0 "${blocks[@]}" -g 4 --split mod:2 --peer memcpy --peer readv --csv "$csv"
check "its rows, of all candidates" parts "$all_right
assert [whole['algo'] for whole, *_ in threes] == ['put', 'get', 'memcpy', 'readv'], threes"
check "every column of them" numbers_hold blocks "$csv" split=mod:2 nranks=2 iters=3 "group=*"
check "bench_blocks: groups of 3 and 2 ranks, both ways, sockets" ends_with 0 "${blocks[@]}" -g 5 --split div:3 --direction both --peer socket
for fault in lost-block swapped-pair extra-page early-tag; do
    check "bench_blocks: $fault is named with the job's ranks" eval \
        'ends_with 1 "${blocks[@]}" -g 4 --split mod:2 --inject "$fault" --csv "$csv" && says "rank 2: 8 pages: weir put: " && ! says "of rank 1"'
    check "bench_blocks: only the rows of the first group fail" fails_alone blocks 0
done
check "bench_blocks: a group without decode ranks" refuses \
    '--prefill 1: of 1 rank in a group none is left for decode; start more' "${blocks[@]}" -g 5 --split div:2
check "bench_replay refuses groups" refuses '--split mod:2: the communicators of the recording are the groups of bench_replay' \
    ./bench_replay "$csv" --split mod:2
check "and nccl-tests' variable" refuses 'NCCL_TESTS_SPLIT div:2: the communicators of the recording are the groups' \
    env NCCL_TESTS_SPLIT='DIV 2' ./bench_replay "$csv"

check "bench_barrier: groups of 2, 2 and 1 ranks: ends with 0" \
    ends_with 0 env NCCL_TESTS_SPLIT='DIV 2' ./bench_barrier -g 5 -n 40 --csv "$csv"
check "a row of all, and one for each group" judged '
assert [(row["group"], row["nranks"], row["verify"]) for row in rows] == [
    ("all", "2", "pass"), ("0", "2", "pass"), ("1", "2", "pass"), ("2", "1", "pass")], rows
assert all(float(rows[0]["median_us"]) >= float(row["median_us"]) > 0 for row in rows)'
check "a rank that leaves at once is counted in its group, and named with the late rank of that group" eval \
    'ends_with 1 ./bench_barrier -g 4 --split mod:2 -n 40 --inject drop-rank --csv "$csv" && says "when rank 2, which was 20000 us late"'
check "the other group has no errors" judged '
assert [(row["group"], row["wrong"], row["median_us"]) for row in rows] == [("all", "1", ""), ("0", "1", ""), ("1", "0", "")], rows'
check "drop-rank@timed is found in a group" eval \
    'ends_with 1 ./bench_barrier -g 4 --split div:2 -n 40 --inject drop-rank@timed && says "rank 0: weir: left timed barrier 2"'
check "bench_init: communicators of two groups at the same time: ends with 0" \
    ends_with 0 ./bench_init -g 5 --split mod:2 -n 3 --peer "$PWD/build/libweir_nccl.so" --csv "$csv"
check "each phase of both has three rows" judged '
later = [row for row in rows if not row["algo"].startswith("first:")]
assert len(later) == 2 * 7 * 3 and [row["group"] for row in later[:3]] == ["all", "0", "1"], rows
assert [row["nranks"] for row in later[:3]] == ["3", "3", "2"] and all(row["wrong"] == "0" for row in rows), rows'
check "a wrong result is counted in its group" eval \
    'ends_with 1 ./bench_init -g 4 --split div:2 -n 2 --inject flip-bit --csv "$csv" && says "rank 3: weir: call-1MiB"'
check "only there" judged '
assert [row["wrong"] for row in rows if row["algo"] == "call-1MiB"] == ["1", "0", "1"], rows'

for side in mod:2 div:2; do
    check "a run with --split $side" ends_with 0 ./bench_allreduce -g 4 --split $side -b 64 -e 64 -n 6 --csv "$scratch/$side.csv"
done
check "weir-compare matches groups" ends_with 0 ./weir-compare "$scratch/mod:2.csv" "$scratch/mod:2.csv"
check "it names them" grep -q 'group 1$' "$out"
ends_with 2 ./weir-compare "$scratch/mod:2.csv" "$scratch/div:2.csv" >/dev/null
check "it does not compare groups of other ranks" says 'A has mod:2, B has div:2'

if command -v "${MPIRUN:-mpirun}" >/dev/null && ci/mpirun -np 2 true >/dev/null 2>&1; then
    check "MPI as a reference and a peer in groups" \
        ends_with 0 ci/mpirun -np 4 ./bench_allreduce --split mod:2 -b 4K -e 4K -n 5 --peer mpi --csv "$csv"
    check "both are checked in both groups" judged '
assert len(rows) == 12 and all(row["verify"] == "pass" and row["oracle"] == "exact+mpi" for row in rows), rows'
    check "comment lines have the groups of weir and of the peer, out of place and in place" \
        eval '[ "$(grep -Ec "^#   (out of|in) place, 4096 B, (weir [a-z0-9]+|mpi:[^ ]+): group 0 [0-9.]+ us, .*; group 1 [0-9.]+ us, " "$out")" -eq 4 ]'
    check "MPI as a peer of bench_moe in groups" ends_with 0 ci/mpirun -np 4 "${moe[@]}" --split div:2 --routing ragged --peer mpi --csv "$csv"
    check "its rows" parts "assert [whole['algo'] for whole, *_ in threes] == ['read', 'alltoallv'] * 4 and all(row['verify'] == 'pass' for row in rows)"
    check "MPI as a peer of bench_blocks in groups" ends_with 0 ci/mpirun -np 4 "${blocks[@]}" --split mod:2 --peer mpi --csv "$csv"
    check "its rows" parts "$all_right
assert [whole['algo'] for whole, *_ in threes] == ['put', 'get', 'mpi'], threes"
    across=(ci/mpirun -np 2 env WEIR_HOSTID=a "${moe[@]}" --split mod:2 --csv "$csv" : -np 2 env WEIR_HOSTID=b "${moe[@]}" --split mod:2 --csv "$csv")
    check "bench_moe: groups across 2 emulated nodes" ends_with 0 "${across[@]}"
    check "have both nodes" parts 'assert all(row["nnodes"] == "2" and row["algo"] == "node-first" for row in rows), rows'
    check "bench_moe: groups within 2 emulated nodes" ends_with 0 "${across[@]/mod:2/div:2}"
    check "have one node" parts 'assert all(row["nnodes"] == "1" and row["algo"] == "read" for row in rows), rows'
else
    skip "MPI in groups" "no mpirun; apt-get install libopenmpi-dev openmpi-bin"
fi
tap_done
