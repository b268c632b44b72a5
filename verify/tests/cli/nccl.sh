#!/bin/bash
# libweir_nccl.so as programs use it: exported symbols and soname, calls by ctypes on host memory
# (clients/nccl_checks.py), log lines, and the fallback to another library (simulated by
# support/nccl_standin.c). Run from the repository's root.
. verify/tests/support/tap.sh
. verify/tests/support/client_checks.inc
O=${O:-build}
library=$PWD/$O/libweir_nccl.so
if [ ! -f "$library" ]; then
    skip "libweir_nccl.so" "not built; run make"
    tap_done
fi
export NCCL_SO_PATH=$library
export WEIR_BACKEND=host # host memory, also where there are GPUs
unset WEIR_NCCL_FALLBACK

# The exported symbols are those that the headers declare, with the prefixes nccl, mccl and pnccl.
exports_the_header() {
    grep -ho 'nccl[A-Z][A-Za-z0-9]*(' lib/nccl/weir_nccl.h lib/nccl/weir_nccl_device.h | tr -d '(' |
        sort -u >"$scratch/declared"
    sed 's/^nccl/mccl/; p; s/^m/pn/' "$scratch/declared" | sort - "$scratch/declared" >"$scratch/expected"
    nm -D --defined-only "$library" | awk '{ print $3 }' | sort >"$out"
    diff "$scratch/expected" "$out" >"$err"
}
if command -v nm >/dev/null; then
    check "libweir_nccl.so exports the functions of NCCL, MCCL and PNCCL and nothing else" \
        exports_the_header
    has_nccl_soname() { readelf -d "$library" | grep -q 'SONAME.*\[libnccl.so.2\]'; }
    check "the soname of libweir_nccl.so is libnccl.so.2" has_nccl_soname
else
    skip "exported functions" "no nm; apt-get install binutils"
fi
check "build/compat/libnccl.so.2 is libweir_nccl.so" test "$library" -ef "$O/compat/libnccl.so.2"

# The clients' scripts: without the client, and with a simulated program of nccl-tests.
says() { # pattern, command...
    local word=$1
    shift
    "$@" >"$out" 2>"$err" </dev/null
    grep -q "$word" "$out"
}
export LIBRARY=$library
check "torch.sh says that it skips a missing PyTorch" \
    says "torch: skipped" env PYTHON=/nonexistent verify/tests/clients/torch.sh
check "nccl_tests.sh says that it skips missing nccl-tests" \
    says "nccl-tests: skipped" env NCCL_TESTS= verify/tests/clients/nccl_tests.sh
cat >"$scratch/all_reduce_perf" <<'END'
#!/bin/sh
echo "    33554432       8388608     float     sum      -1    207.9  161.38  282.42       0    208.6  160.85  281.49    N/A"
echo "          64            16     float     sum      -1      2.9    0.02    0.03  $WRONG      2.9    0.02    0.03      0"
echo "# Avg bus bandwidth    : 141.07 "
END
chmod +x "$scratch/all_reduce_perf"
if command -v "${MPIRUN:-mpirun}" >/dev/null; then
    nccl_tests_with() { # wrong elements, exit code, pattern
        WRONG=$1 LEAST_GPUS=0 NCCL_TESTS=$scratch PROGRAMS=all_reduce ends_with "$2" \
            verify/tests/clients/nccl_tests.sh processes && grep -q "$3" "$out"
    }
    check "nccl_tests.sh passes a table without wrong elements" \
        nccl_tests_with 0 0 'all_reduce .* 2 *0 *141.07  pass'
    check "nccl_tests.sh fails a table with wrong elements" \
        nccl_tests_with 3 1 'all_reduce .* 2 *3 *141.07  FAIL'
else
    skip "tables of nccl-tests" "no mpirun"
fi

client_checks_need_python "the library by ctypes"

client_checks nccl_checks

checks() { python3 verify/tests/clients/nccl_checks.py "$@"; }
logs() { WEIR_LOG=info ends_with 0 checks collectives && grep -q "$1" "$err"; }
check "WEIR_LOG=info logs each call with rank, type, count and algorithm" \
    logs 'ncclReduce, rank 1 of 3: 997 x int32 by [a-z]'

# NCCL's variables: what has no effect is reported once, by rank 0, and names that resemble one of NCCL's.
# The client runs two jobs: that of the check, and one whose wrong data are to be found.
reports() { # lines expected of each pattern: "N pattern" ..., then -- and the environment
    local wanted=()
    while [ "$1" != -- ]; do wanted+=("$1"); shift; done
    shift
    ends_with 0 env -u NCCL_NVLS_ENABLE "$@" python3 verify/tests/clients/nccl_checks.py several_communicators || return 1
    local one
    for one in "${wanted[@]}"; do
        [ "$(grep -c -- "${one#* }" "$err")" = "${one%% *}" ] || return 1
    done
}
ignored='weir warn: variables of NCCL that are set and weir does not obey: '
check "NCCL's variables without effect are named once, with weir's" \
    reports "2 ${ignored}NCCL_IB_HCA (WEIR_IB_HCA)\$" "0 did you mean" -- NCCL_IB_HCA=mlx5_0
check "two of them are one line" eval 'reports "2 $ignored" "2 NCCL_BUFFSIZE[,]*" "2 NCCL_ALGO (WEIR_ALGO)" -- NCCL_BUFFSIZE=1 NCCL_ALGO=Ring'
check "a misspelt variable that weir obeys is named with the right one" \
    reports "2 NCCL_SOCKET_IFNAM is no variable of NCCL and has no effect; did you mean NCCL_SOCKET_IFNAME?" "0 $ignored" -- NCCL_SOCKET_IFNAM=lo
check "a misspelt variable that weir does not obey, likewise" \
    reports "2 NCCL_IB_HAC is no .* did you mean NCCL_IB_HCA, which weir does not obey?" -- NCCL_IB_HAC=x
check "an unknown one is among those without effect" reports "2 ${ignored}NCCL_SOMETHING_ELSE\$" -- NCCL_SOMETHING_ELSE=1
check "variables that weir obeys are not in a warning" \
    reports "0 $ignored" "0 did you mean" "0 obeys" -- NCCL_SOCKET_IFNAME=lo NCCL_DEBUG=WARN NCCL_PROFILER_PLUGIN=none
check "variables that other software reads, or that are empty, are not named" \
    reports "0 weir warn" -- NCCL_VERSION=2.28.3 NCCL_ASYNC_ERROR_HANDLING=1 NCCL_TESTS_DEVICE=0 NCCL_ALGO=
check "WEIR_LOG=info lists the variables that weir obeys" \
    reports "2 info: variables of NCCL that are set and weir obeys: .*NCCL_SOCKET_IFNAME" -- WEIR_LOG=info NCCL_SOCKET_IFNAME=lo
check "NCCL_DEBUG=info is WEIR_LOG=info" reports "2 and weir obeys: NCCL_DEBUG\$" -- NCCL_DEBUG=info
check "WEIR_LOG comes before NCCL_DEBUG" reports "0 weir" -- NCCL_DEBUG=INFO WEIR_LOG=error NCCL_ALGO=Ring

# Long messages are lent where the system lets ranks read each other's memory.
lends() { # how many a call has lent at most, environment...
    local most=$1
    shift
    WEIR_LOG=info ends_with 0 env "$@" python3 verify/tests/clients/nccl_checks.py messages || return 1
    [ "$(sed -n 's/.*call(s) through mailboxes.*, \([0-9]*\) lent$/\1/p' "$err" | sort -n | tail -1)" = "$most" ]
}
check "messages are not lent with WEIR_CMA=0 and are correct" lends 0 WEIR_CMA=0 WEIR_XPMEM=0
echo "sendrecv 3 plain - packet" >"$scratch/table"
check "messages are not lent where the tuning table says packet" lends 0 WEIR_XPMEM=0 WEIR_TUNING="$scratch/table"

# Plans in the tuning table serve NCCL's calls; those that a plan cannot serve (another root, an
# average, a length outside its range) go to the built-in algorithms.
planned() {
    WEIR_TUNING=$scratch/table WEIR_LOG=info ends_with 0 checks "$1" && shift || return 1
    local word
    for word; do grep -q -- "$word" "$err" || return 1; done
}
if ./weir-plan make alltoall_direct -n 3 -o "$scratch/alltoall.json" &&
    ./weir-plan show "$scratch/alltoall.json" >/dev/null 2>&1; then
    for name in allgather_ring reduce_scatter_direct broadcast_direct reduce_direct allreduce_oneshot; do
        ./weir-plan make "$name" -n 3 -o "$scratch/${name%_*}.json"
        echo "${name%_*} 3 any - plan:${name%_*}.json"
    done >"$scratch/table"
    echo "alltoall 3 any - plan:alltoall.json" >>"$scratch/table"
    sed -i 's/"min_message_size": .*,/"min_message_size": 16,/; s/"max_message_size": .*/"max_message_size": 20000/' \
        "$scratch/allreduce.json"
    check "plans in the tuning table serve collectives, in place and out of place" \
        planned collectives 'by plan:allgather_ring' 'by plan:reduce_scatter_direct' \
        'by plan:alltoall_direct' 'ncclBroadcast, rank 0 of 3: 997 x int32 by packet' \
        'ncclBroadcast, rank 0 of 3: 997 x int32 by plan:broadcast_direct'
    check "plans serve the lengths and operations that they can, built-in algorithms the others" \
        planned lengths '1001 x int32 by plan:allreduce_oneshot' ' 64 x int32 by plan:allreduce' \
        ' 1 x int32 by packet' ' 20011 x int32 by \(packet2*\|fused\)' ' 64 x int32 by packet'
    echo "allreduce 3 any - plan:none.json" >"$scratch/table"
    # There are two: that of the check, and one whose wrong data are to be found.
    check "a plan that cannot be read is skipped, with one warning per communicator" \
        eval 'planned lengths "by packet" &&
            [ "$(grep -c "table:1: the row is skipped: cannot read" "$err")" = 2 ]'
else
    skip "plans in the tuning table" "built without jansson"
fi

# A communicator that needs a GPU where none is visible.
export WEIR_BACKEND=cuda CUDA_VISIBLE_DEVICES=
check "a communicator that needs a GPU is refused where there is none" \
    ends_with 0 checks no_fallback
if "${CC:-cc}" -shared -fPIC -Ilib/include -Ilib -o "$scratch/standin.so" verify/tests/support/nccl_standin.c 2>"$err"; then
    WEIR_NCCL_FALLBACK=$scratch/standin.so check "WEIR_NCCL_FALLBACK: the fallback library creates the communicator" \
        ends_with 0 checks fallback
else
    skip "WEIR_NCCL_FALLBACK" "no compiler"
fi
WEIR_NCCL_FALLBACK=$library check "WEIR_NCCL_FALLBACK: libweir_nccl.so is not accepted as its own fallback" ends_with 0 checks no_fallback
tap_done
