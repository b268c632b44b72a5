#!/bin/bash
# Benchmarks between emulated hosts whose network delays, reorders, loses and limits frames: results are
# right, and no faster than the delay and the rate allow, which shows that these were in effect. Up to
# 128 ranks on 16 hosts and 24 hosts with a rank each in a long run. (All network namespaces of a
# machine share one table of neighbours, of 1024 entries by default, and n hosts need n (n - 1).) Run
# from the repository's root.
. verify/tests/support/tap.sh

job=verify/tests/support/many_hosts.py
csv=$scratch/a.csv
export WEIR_BACKEND=host WEIR_TIMEOUT_MS=100000

if [ ! -x ./bench_allreduce ] || ! command -v python3 >/dev/null; then
    skip "hosts with delays" "bench_allreduce is not built, or there is no python3"
    tap_done
fi

# correct HOSTS RANKS CONDITIONS LEAST_US COLLECTIVE arguments...: every row passed, with tcp between as
# many hosts, and took at least so long.
correct() {
    local hosts=$1 each=$2 conditions=$3 least=$4 collective=$5
    shift 5
    ends_with 0 $job "$hosts" "$each" "$conditions" "./bench_$collective" --transport tcp --quiet \
        --visits 1 -n 2 -w 1 --csv "$csv" "$@" || return
    awk -F, -v hosts="$hosts" -v ranks=$((hosts * each)) -v least="$least" '
        NR > 1 && ($27 != "pass" || $28 != 0 || $7 != "tcp" || $8 != ranks || $9 != hosts || $19 + 0 < least) {
            print "# bad row: " $0; bad = 1
        }
        END { exit bad || NR < 2 }' "$csv"
}

if ! correct 2 1 '{}' 0 allreduce -b 8 -e 8 && tail -n 1 "$err" | grep -q "no emulated hosts"; then
    skip "hosts with delays" "$(tail -n 1 "$err")"
    tap_done
fi
slow='{"delay_s": 0.005}' limited='{"rate": 1000000}'
rough='{"delay_s": 0.002, "jitter_s": 0.002, "loss": 0.01, "reorder": 0.1, "duplicate": 0.01}'
check "allreduce of 3 hosts with 2 ranks takes at least one delay of 5 ms" \
    correct 3 2 "$slow" 5000 allreduce -b 8 -e 8K -f 1024
check "alltoallv over a network that reorders, loses and repeats frames" \
    correct 3 2 "$rough" 0 alltoallv -b 1K -e 64K -f 64
check "allreduce of 64 KiB at 1 MB/s takes at least the time of half of its bytes" \
    correct 3 2 "$limited" 32768 allreduce -b 64K -e 64K
if long_part "16 hosts with 8 ranks, 24 hosts with a rank each"; then
    check "allreduce of 4 hosts, one link of which carries 200 KB/s" \
        correct 4 1 '{"links": {"1-2": {"rate": 200000}}}' 0 allreduce -b 64K -e 64K
    for collective in allreduce alltoallv; do
        check "$collective of 16 hosts with 8 ranks and delays of 5 ms" \
            correct 16 8 "$slow" 5000 $collective -b 16K -e 16K
        check "$collective of 24 hosts with delays of 5 ms" \
            correct 24 1 "$slow" 5000 $collective -b 16K -e 16K
    done
fi
tap_done
