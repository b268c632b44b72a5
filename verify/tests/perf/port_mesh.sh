#!/bin/bash
# The mesh of port_mesh.c: ranks that find each other by MPI, and by TCP at a given
# address; over mapped memory, over tcp, and on two machines; with kernels where there are GPUs. Runs from the repository's root; TAP on standard output.
set -u
. verify/tests/support/tap.sh

program=${O:-build}/tests/port_mesh
if [ ! -x "$program" ]; then
    skip "port channels in a mesh" "no MPI, or not built: make tests"
    tap_done
fi

# passes N command...: ends with 0 and says that N ranks passed.
passes() {
    local ranks=$1
    shift
    ends_with 0 timeout 60 "$@" && grep -q "^mesh of $ranks ranks: passed$" "$out"
}

# by_tcp RANKS PORT argument...: ranks that know rank 0's address only.
by_tcp() {
    local ranks=$1 port=$2 rank pids=() status=0
    shift 2
    for ((rank = 1; rank < ranks; rank++)); do
        "$program" --at "lo:127.0.0.1:$port" $rank "$ranks" "$@" &
        pids+=($!)
    done
    "$program" --at "lo:127.0.0.1:$port" 0 "$ranks" "$@" || status=$?
    for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
    return $status
}
export -f by_tcp
export program

# A port that was free a moment ago.
port=$((20000 + $$ % 20000))

check "MPI, 4 ranks, mapped memory" passes 4 ci/mpirun -np 4 "$program"
check "MPI, 3 ranks, tcp" passes 3 ci/mpirun -np 3 "$program" --transport tcp
check "TCP at an address, 3 ranks, mapped memory" passes 3 bash -c 'by_tcp "$@"' _ 3 $port
check "TCP at an address, 4 ranks, tcp" \
    passes 4 bash -c 'by_tcp "$@"' _ 4 $((port + 1)) --transport tcp
check "two machines of 1 and 3 ranks, mapped memory and a network" \
    passes 4 ci/mpirun -np 1 env WEIR_HOSTID=a "$program" : -np 3 env WEIR_HOSTID=b "$program"
check "a transport that is not there is refused" \
    ends_with 2 timeout 60 ci/mpirun -np 2 "$program" --transport cuda_ipc

gpus=$(verify/tests/support/gpus)
if [ "$gpus" -lt 2 ]; then
    skip "kernels on GPUs, copy engine" "needs 2 GPUs, here are $gpus"
    skip "kernels on GPUs, tcp" "needs 2 GPUs, here are $gpus"
else
    [ "$gpus" -le 8 ] || gpus=8
    check "kernels on $gpus GPUs, copy engine" \
        passes "$gpus" ci/mpirun -np "$gpus" "$program" --backend cuda
    check "kernels on $gpus GPUs, tcp" \
        passes "$gpus" ci/mpirun -np "$gpus" "$program" --backend cuda --transport tcp
fi
tap_done
