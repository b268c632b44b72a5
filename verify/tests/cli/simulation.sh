#!/bin/bash
# The collectives across nodes on simulated networks (verify/tests/sim): every algorithm computes the right
# data on every platform, with powers of two and other numbers of nodes; a short allreduce takes time
# in proportion to the logarithm of the number of nodes, a long one does not take more per byte; the
# cost model agrees with the simulation. Run from the repository's root. Needs SimGrid.
set -u
. verify/tests/support/tap.sh
sim=build/tests/sim
if [ ! -x $sim ]; then
    echo "1..0 # SKIP build/tests/sim is not built: no SimGrid; apt-get install libsimgrid-dev"
    exit 0
fi

simulate() { timeout 60 $sim "$@" >"$out" 2>"$err"; }

# is_right PLATFORM NODES: all collectives and algorithms, each of whose rows is a checked result.
is_right() {
    local collective
    for collective in allreduce reduce_scatter allgather broadcast reduce alltoall; do
        simulate --platform "$1" --collective $collective --nodes "$2" --per-node 2 --check \
            -b 64 -e 65536 -f 1024 && [ -s "$out" ] || return 1
    done
}
check "every algorithm computes the right data on 6 nodes of a simulated rail network" is_right rail 6
check "every algorithm computes the right data on 8 nodes of a simulated fat tree" is_right fat-tree 8
check "every algorithm computes the right data on 12 nodes of a simulated dragonfly" is_right dragonfly 12

check "a wrong element is found" ends_with 1 $sim --nodes 4 --per-node 2 --corrupt -b 64 -e 64

# grows ALGO BYTES LEAST MOST: the time on 64 nodes divided by that on 8.
grows() {
    local few many
    simulate --nodes 8 --per-node 1 -b "$2" -e "$2" --algo "$1" || return 1
    few=$(cut -d, -f7 "$out")
    simulate --nodes 64 --per-node 1 -b "$2" -e "$2" --algo "$1" || return 1
    many=$(cut -d, -f7 "$out")
    awk -v few="$few" -v many="$many" -v least="$3" -v most="$4" \
        'BEGIN { print "# " few " us, " many " us"; exit !(few > 0 && many / few > least && many / few < most) }'
}
check "8 B by recursive doubling take twice the time on 64 nodes that they take on 8" grows doubling 8 1.9 2.1
check "16 MiB by halving take as long on 64 nodes as on 8" grows halving 16777216 0.9 1.2

# is_near COLLECTIVE: the model's time of the algorithms for many nodes is within a factor of two.
is_near() {
    simulate --nodes 32 --per-node 2 --collective "$1" -b 1024 -e 1048576 -f 32 &&
        awk -F, '$6 !~ /packet|rails/ && ($9 < 0.5 || $9 > 2) { print "# " $0; bad = 1 } END { exit bad || !NR }' "$out"
}
for collective in allreduce reduce_scatter allgather broadcast; do
    check "the cost model of $collective is within a factor of two of the simulation" is_near $collective
done

selects_well() {
    simulate --nodes 32 --per-node 2 -b 8 -e 8 &&
        awk -F, '{ if ($10) chosen = $7; if (!best || $7 < best) best = $7 }
            END { exit !(chosen && chosen <= 1.3 * best) }' "$out"
}
check "the selected algorithm for 8 B takes at most 30% longer than the fastest one" selects_well
check "one node is a usage error" ends_with 2 $sim --nodes 1
tap_done
