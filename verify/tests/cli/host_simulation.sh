#!/bin/bash
# The collectives of one machine on recorded topologies (verify/tests/sim/host): every algorithm computes
# the right data, and ranks access as many bytes of each other's memory as the algorithm's closed form
# says; planted faults are found. Run from the repository's root. Needs hwloc.
set -u
. verify/tests/support/tap.sh
sim=build/tests/host_sim
machines=topo/machines
if [ ! -x $sim ]; then
    echo "1..0 # SKIP build/tests/host_sim is not built: no hwloc or no expat; apt-get install libhwloc-dev libexpat1-dev"
    exit 0
fi

simulate() { timeout 120 $sim "$@" >"$out" 2>"$err"; }

# is_right OPTIONS: rows of all six collectives, each of which is a checked result with checked counts.
is_right() {
    simulate -c "$@" && [ "$(cut -d, -f4 "$out" | sort -u | wc -l)" -eq 7 ]
}
check "32 ranks on 2 NUMA nodes: data and counted bytes are right" \
    is_right -t $machines/2-node-64-core.xml -v xeon -n 32 -b 262144
check "64 ranks on 4 NUMA nodes: data and counted bytes are right" \
    is_right -t $machines/4-node-64-core.xml -v epyc -n 64 -b 131072
check "12 ranks, root 7: data and counted bytes are right" \
    is_right -t $machines/2-node-64-core.xml -v xeon -n 12 -r 7 -b 393216

# finds FAULT COLLECTIVE ALGORITHM TEXT: the planted fault makes the program fail, which it names.
finds() {
    simulate -c -n 8 -b 262144 -f "$1" -C "$2" -A "$3"
    [ $? -eq 1 ] && grep -q "$4" "$out"
}
check "without a fault the same calls pass" simulate -c -n 8 -b 262144
check "a rank that reads from the wrong place is found by its data" finds wrong-source broadcast direct 'wrong elements'
check "and by the bytes of the other ranks' memory" finds wrong-source broadcast direct 'bytes of each other'
check "a line that is not counted is found in a copy" finds uncounted allgather packet 'bytes of each other'
check "a line that is not counted is found in a reduction" finds uncounted reduce_scatter direct 'bytes of each other'

# far_bytes COLLECTIVE ALGORITHM BYTES: between 16 and 16 ranks of two NUMA nodes.
far_bytes() {
    simulate -n 32 -b 1048576 -C "$1" -A "$2" &&
        awk -F, -v expected="$3" 'NR == 2 { print "# " $8 " bytes"; found = $8 == expected } END { exit !found }' "$out"
}
check "a broadcast accesses the root's node once for each rank of the other one" far_bytes broadcast direct 16777216
check "a reduce along the chain crosses twice" far_bytes reduce chain 2097152

check "allreduce by numa accesses other NUMA nodes as little as any algorithm can" far_bytes allreduce numa 2097152
check "allreduce by fused accesses them sixteen times as much" far_bytes allreduce fused 33554432

# selects TOPOLOGY RANKS BYTES ALGORITHM: for an allreduce of registered memory.
selects() {
    simulate -t "$machines/$1" -n "$2" -b "$3" -C allreduce &&
        awk -F, -v algo="$4" 'NR > 1 && $15 { print "# selected: " $6; found = $6 == algo } END { exit !found }' "$out"
}
check "long allreduces of two NUMA nodes are served by numa" selects 2-node-64-core.xml 32 524288 numa
check "short ones are not" selects 2-node-64-core.xml 32 65536 fused
check "with ranks on one NUMA node, numa is not selected" selects 1-node-16-core.xml 16 1048576 fused

crosses_nothing() {
    simulate -t $machines/1-node-16-core.xml -n 16 -b 65536 &&
        awk -F, 'NR > 1 && ($8 || $9) { bad = 1 } END { exit bad || NR < 10 }' "$out"
}
check "one NUMA node has nothing to cross" crosses_nothing
check "more ranks than cores are a usage error" ends_with 2 $sim -t $machines/2-core.xml -n 4
check "an unknown set of values is a usage error" ends_with 2 $sim -v z80
tap_done
