#!/bin/bash
# weir-plan moe: estimates of dispatch and combine equal values computed by hand, follow each number of
# the topology, and are those of the published table. Run from the repository's root; WEIR_PLAN names
# another program.
. verify/tests/support/tap.sh

program=${WEIR_PLAN:-./weir-plan}
export WEIR_PLAN=$program

# A step of a dispatch takes 10 + 1 + 2 + 1 + 1 + 2 + 3 = 20 us (launch, count, barrier, move, place,
# barrier, signal), of a combine 17; links move 10 kB in a us.
cat >"$scratch/node" <<'END'
base = host
ranks = 4
launch_us = 10
op_us = 1
barrier_us = 2
signal_us = 3
port_us = 4
net_us = 5
pair_gbs = 10
link_gbs = 10
net_gbs = 1
memory_gbs = 1000
machine_gbs = 0
END
with() { { cat "$scratch/node"; printf '%s\n' "$@"; } >"$scratch/other"; }

# value COLUMN PHASE [OPTION...]: prints a field of the line of a phase, for 4 ranks whose 100 tokens
# each choose all 4 experts: rows of 1000 bytes go to each rank, so that none is busier than others.
value() {
    local column=$1 phase=$2
    shift 2
    "$program" moe -n 4 --experts 4 --topk 4 --tokens 100 --hidden 500 "$@" |
        awk -v phase="$phase" -v column="$column" '$3 == phase { print $column }'
}
equals() { # EXPECTED COLUMN PHASE [OPTION...]
    local expected=$1 found
    shift
    found=$(value "$@")
    [ "$found" = "$expected" ] || { echo "# found $found, expected $expected"; return 1; }
}
here=(--topology "$scratch/node" --crossing choice) there=(--topology "$scratch/other" --crossing)

# ------------------------------------------------------------------------- one node

check "dispatch: 300 rows of 1000 bytes take 30 us, the steps 20" equals 50.00 5 dispatch "${here[@]}"
check "combine: the same rows, and steps of 17 us" equals 47.00 5 combine "${here[@]}"
check "the latency is a column" equals 20.00 6 dispatch "${here[@]}"
check "the link is the bound, with 0.3 MB" eval \
    'equals link 7 dispatch "${here[@]}" && equals 0.300 8 dispatch "${here[@]}"'
check "4 rows of a token count 0.4 MB in 50 us, 8 GB/s" equals 8.00 10 dispatch "${here[@]}"
check "fp8: rows of 512 bytes and 4 floats" equals 35.84 5 dispatch "${here[@]}" --hidden 512 --fp8
check "fp8: combine has 2-byte elements" equals 47.72 5 combine "${here[@]}" --hidden 512 --fp8
check "two experts on each rank: a row for each choice takes twice as long" \
    equals 80.00 5 dispatch "${here[@]}" --experts 8 --topk 8
check "a row for each rank does not" \
    equals 50.00 5 dispatch --topology "$scratch/node" --crossing rank --experts 8 --topk 8
check "the library's dispatch sends a row for each rank" \
    equals 50.00 5 dispatch --topology "$scratch/node" --experts 8 --topk 8
check "its combine a row for each choice" \
    equals 77.00 5 combine --topology "$scratch/node" --experts 8 --topk 8
with 'pair_gbs = 2'
check "a pair's link is the bound: 100 rows at 2 GB/s" eval \
    'equals 70.00 5 dispatch "${there[@]}" choice && equals pair 7 dispatch "${there[@]}" choice'
with 'memory_gbs = 5'
check "memory is the bound: 100 rows read, 400 written, at 5 GB/s" eval \
    'equals 120.00 5 dispatch "${there[@]}" choice && equals memory 7 dispatch "${there[@]}" choice'
check "memory: fp8 is written and read once more (205.6 kB at 5 GB/s)" \
    equals 103.84 5 dispatch "${there[@]}" choice --hidden 512 --fp8
with 'machine_gbs = 10'
check "a node's memory is the bound: 2 MB at 10 GB/s" eval \
    'equals 220.00 5 dispatch "${there[@]}" choice && equals node 7 dispatch "${there[@]}" choice'

# ---------------------------------------------------------------------- several nodes

with 'machine_ranks = 2'
check "by choice: 200 rows at 1 GB/s, port and network" equals 229.00 5 dispatch "${there[@]}" choice
check "by rank: the same" equals 229.00 5 dispatch "${there[@]}" rank
check "by node: 100 rows, a step and a signal more" equals 133.00 5 dispatch "${there[@]}" node
check "by node: the link forwards them, 0.2 MB" equals 0.200 8 dispatch "${there[@]}" node
check "the network is the bound" equals net 7 dispatch "${there[@]}" node
check "the library dispatches by node" equals node 4 dispatch --topology "$scratch/other"
check "it combines by choice" equals 226.00 5 combine --topology "$scratch/other"
# Each token has its experts on one of two nodes: half the rows. The busiest of 4 ranks, each with 400
# tokens' choices of probability 1/2, has 1 + 1.15367 * 0.05 times the mean: 52.884 kB.
check "groups: the experts of a token are on one node" \
    equals 85.88 5 dispatch "${there[@]}" node --experts 8 --topk 4 --groups 1

# ------------------------------------------------------------------------ busiest rank

check "2 ranks, top-1 of 2: 50 rows and 5.3% more on the busier one" \
    equals 25.26 5 dispatch "${here[@]}" -n 2 --experts 2 --topk 1
# The mean over 40 random routings of the busiest rank's choices, by those of a mean rank.
drawn() {
    awk 'BEGIN {
        srand(7)
        for (turn = 0; turn < 40; turn++) {
            split("", rows)
            for (token = 0; token < 8 * 128; token++) {
                split("", taken)
                for (choice = 0; choice < 8; ) {
                    expert = int(256 * rand())
                    if (expert in taken) continue
                    taken[expert]
                    rows[int(expert / 32)]++
                    choice++
                }
            }
            most = 0
            for (rank = 0; rank < 8; rank++) if (rows[rank] > most) most = rows[rank]
            sum += most / 1024
        }
        print sum / 40
    }'
}
is_close() {
    "$program" moe -n 8 --crossing choice --topology h200x8 |
        awk -v drawn="$(drawn)" '$3 == "combine" {
            estimated = $8 / (128 * 8 * 14336 * 7 / 8 / 1e6)
            print "# estimated " estimated ", drawn " drawn
            exit !(estimated > 1.01 && estimated / drawn > 0.99 && estimated / drawn < 1.01)
        }'
}
check "8 ranks of deepseek-v3: the busiest rank is that of random routings, within 1%" is_close

# ------------------------------------------------------------------------------- use

doubles() {
    ends_with 0 "$program" moe --topology lib/plan/cost/fleets/h800 &&
        [ "$(awk '!/^#/ { print $1 }' "$out" | uniq | tr '\n' ' ')" = "2 4 8 16 32 64 128 256 " ]
}
check "without --ranks: 2, and twice as many up to the topology's" doubles
refuses() { # NAME OPTIONS WORD...
    local name=$1
    read -ra arguments <<<"$2"
    shift 2
    check "$name" is_refused "$@"
}
is_refused() { ends_with 2 "$program" moe "${arguments[@]}" && [ ! -s "$out" ] && one_line_says "$@"; }
refuses "more ranks than the topology has" "-n 16 --topology h200x8" "16 ranks" "h200x8 has 8"
refuses "experts that cannot be divided" "-n 8 --experts 100" "100 experts" "8 ranks"
refuses "nodes that are not full" "-n 12 --experts 12 --topology lib/plan/cost/fleets/h100" "12 ranks" "nodes of 8"
refuses "more choices than experts in reach" \
    "-n 16 --experts 16 --topk 9 --groups 1 --topology lib/plan/cost/fleets/h100" "top-9" "8 experts"
refuses "an unknown model" "--model gpt" "--model gpt" "deepseek-v3"
refuses "an unknown crossing" "--crossing link" "--crossing link" "choice|rank|node|weir"
refuses "no tokens" "--tokens 0" "--tokens 0"

# ------------------------------------------------------------------------- publications

fleets=lib/plan/cost/fleets
# $1: published or measured.
is_recorded() { "$fleets/compare" "$fleets/$1.csv" >"$out" 2>"$err" && diff "$fleets/$1.txt" "$out"; }
# The means by source, the second table of the output.
means_are_documented() {
    "$fleets/compare" >"$out" 2>"$err" || return 1
    while read -r line; do
        grep -qxF -- "$line" docs/performance/moe.md || { echo "# not in docs/performance/moe.md: $line"; return 1; }
    done < <(sed '1,/^$/d' "$out")
}
if command -v python3 >/dev/null; then
    check "published.txt has the estimates of published times" is_recorded published
    check "docs/performance/moe.md has their means" means_are_documented
    check "measured.txt has the estimates of weir's own times" is_recorded measured
    measured=$fleets/measured.csv
    check "weir's own times are those of the recorded files" \
        ends_with 0 lib/plan/cost/fleets/compare --records results/record $measured
    # Fields by commas: a record may contain some, so times are replaced by what precedes the unit.
    for row in 'h200,1,.*,183 193 183' 'h200,4,128,.*,33.2 34.2 33.2' 'h200,2,.*,65.4 66.4 65.4'; do
        read -r where other found <<<"$row"
        sed -E "s/^(weir,${where%,*},)${where##*,},us/\\1$other,us/" $measured >"$scratch/measured.csv"
        check "a time that is not recorded is found: $other instead of $found" eval \
            'ends_with 1 lib/plan/cost/fleets/compare --records results/record "$scratch/measured.csv" &&
                [ "$(wc -l <"$out")" -eq 1 ] && grep -qF ": $other, but gpu-" "$out" && grep -qE " has $found\$" "$out"'
    done
else
    skip "the tables of published times" "no python3"
fi
tap_done
