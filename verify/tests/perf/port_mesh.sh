#!/bin/bash
# Port channels between all pairs of ranks (port_mesh.c): bootstrapped by MPI and by TCP at a given
# address; over mapped memory, over tcp, and on two nodes; with kernels where there are GPUs. Run
# from the repository's root.
# Needs MPI.
set -u
. verify/tests/support/tap.sh

program=${O:-build}/tests/port_mesh
if [ ! -x "$program" ] || ! command -v "${MPIRUN:-mpirun}" >/dev/null; then
    skip "port channels in a mesh" "no MPI, or not built: make tests"
    tap_done
fi

# passes N command...: the command ends with 0 and prints that N ranks passed.
passes() {
    local ranks=$1
    shift
    ends_with 0 timeout 60 "$@" && grep -q "^mesh of $ranks ranks: passed$" "$out"
}

# by_tcp RANKS PORT argument...: starts ranks that know only the address of rank 0.
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

# A port that is probably free.
port=$((20000 + $$ % 20000))

check "4 ranks bootstrapped by MPI pass over mapped memory" passes 4 ci/mpirun -np 4 "$program"
check "3 ranks bootstrapped by MPI pass over tcp" \
    passes 3 ci/mpirun -np 3 "$program" --transport tcp
check "3 ranks bootstrapped by TCP pass over mapped memory" passes 3 bash -c 'by_tcp "$@"' _ 3 $port
check "4 ranks bootstrapped by TCP pass over tcp" \
    passes 4 bash -c 'by_tcp "$@"' _ 4 $((port + 1)) --transport tcp
check "nodes of 1 and 3 ranks pass over mapped memory and a network" \
    passes 4 ci/mpirun -np 1 env WEIR_HOSTID=a "$program" : -np 3 env WEIR_HOSTID=b "$program"
check "an unavailable transport is a usage error" \
    ends_with 2 timeout 60 ci/mpirun -np 2 "$program" --transport cuda_ipc

gpus=$(verify/tests/support/gpus)
if [ "$gpus" -lt 2 ]; then
    skip "kernels on GPUs pass over the copy engine" "needs 2 GPUs, here are $gpus"
    skip "kernels on GPUs pass over tcp" "needs 2 GPUs, here are $gpus"
else
    [ "$gpus" -le 8 ] || gpus=8
    check "kernels on $gpus GPUs pass over the copy engine" \
        passes "$gpus" ci/mpirun -np "$gpus" "$program" --backend cuda
    check "kernels on $gpus GPUs pass over tcp" \
        passes "$gpus" ci/mpirun -np "$gpus" "$program" --backend cuda --transport tcp
fi
tap_done
