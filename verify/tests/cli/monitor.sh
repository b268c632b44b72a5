#!/bin/bash
# Monitoring: the RAS service, files of metrics, reports of stragglers (clients/monitor_checks.py, on
# libweir_nccl.so), the same of communicators of benchmarks, log lines, and a profiler plug-in that
# is not loaded. Run from the repository's root.
. verify/tests/support/tap.sh
. verify/tests/support/client_checks.inc
O=${O:-build}
export NCCL_SO_PATH=$PWD/$O/libweir_nccl.so
export WEIR_BACKEND=host # host memory, also where there are GPUs
unset WEIR_NCCL_FALLBACK SLURM_JOB_ID
if [ ! -f "$NCCL_SO_PATH" ]; then
    skip "monitoring" "libweir_nccl.so is not built; run make"
    tap_done
fi
client_checks_need_python "monitoring"

client_checks monitor_checks

# The log: one line about a plug-in per process, none without one, and the straggler.
quiet_checks() { python3 verify/tests/clients/monitor_checks.py "$@"; }
plugin_lines() { # lines expected, value
    NCCL_PROFILER_PLUGIN=$2 ends_with 0 quiet_checks all_communicators &&
        [ "$(grep -c 'NCCL_PROFILER_PLUGIN=.* is not loaded' "$err")" -eq "$1" ]
}
check "a profiler plug-in is refused once per process" plugin_lines 4 libplugin.so
check "NCCL_PROFILER_PLUGIN=none is no plug-in" plugin_lines 0 none
logs_straggler() {
    WEIR_LOG=info ends_with 0 quiet_checks straggler &&
        grep -q 'in the last 32 timed calls the other ranks waited most for rank 2: each of them [0-9.]* ms in all' "$err"
}
check "WEIR_LOG=info names the straggler" logs_straggler

# Communicators of benchmarks: weir's variables apply, NCCL's do not.
if [ -x ./bench_allreduce ] || [ -x "$O/bench_allreduce" ]; then
    bench=./bench_allreduce
    [ -x "$bench" ] || bench=$O/bench_allreduce
    port=$(python3 verify/tests/support/free_port.py)
    counts_ranks() { [ "$(grep -c 'collective="AllReduce"} [1-9]' "$scratch/seen")" -eq 3 ]; }
    bench_is_seen() { # runs until it has been asked, again if not all ranks have made calls yet
        local seen=1
        env "$@" "$bench" -g 3 -b 8 -e 8 -n 5000000 -w 0 -c 0 >"$out" 2>"$err" </dev/null &
        for _ in {1..50}; do
            python3 verify/tests/clients/ras_client.py "localhost:$port" exporter >"$scratch/seen" 2>&1 || break
            seen=0
            counts_ranks && break
            sleep 0.1
        done
        kill $! && wait $! 2>/dev/null
        return $seen
    }
    check "a benchmark answers RAS clients with WEIR_RAS" bench_is_seen WEIR_RAS="localhost:$port"
    check "the exporter has a count of every rank" counts_ranks
    bench_writes() { # expected status of ls, variables
        local expected=$1
        shift
        rm -rf "$scratch/metrics"
        (cd "$scratch" && env "$@" "$OLDPWD/$bench" -g 2 -b 16K -e 16K -n 2000 -w 0 -c 0) \
            >"$out" 2>"$err" </dev/null || return 1
        ls "$scratch"/metrics/*.prom "$scratch"/metrics/*.log >"$out" 2>"$err"
        [ $? -eq "$expected" ]
    }
    check "a benchmark writes both kinds of metrics" \
        bench_writes 0 WEIR_METRICS=prom,json WEIR_METRICS_DIR="$scratch/metrics"
    check "NCCL's variables do not apply to a benchmark" bench_writes 2 NCCL_INSPECTOR_ENABLE=1 \
        NCCL_INSPECTOR_DUMP_DIR="$scratch/metrics" NCCL_RAS_ENABLE=1
else
    skip "benchmarks" "not built; run make"
fi
tap_done
