#!/bin/bash
# Competing calls (--with): weir is measured alone and together with them, the slow-down of both is printed, the data of both are
# checked, and the report of a hang shows the calls of both communicators. Run from the repository's root.
# Part: python3.
. verify/tests/support/tap.sh

csv=$scratch/a.csv
if [ ! -x ./bench_allreduce ]; then
    skip "competing calls" "bench_allreduce is not built"
    tap_done
fi
says() { grep -qE -e "$1" "$err"; }
prints() { grep -qE -e "$1" "$out"; }
with=(./bench_allreduce -g 4 --backend host -b 4K -e 4K -n 30 --quiet)

check "an alltoall of two groups competes: ends with 0" ends_with 0 "${with[@]}" --with 'alltoall 256K group=mod:2' --csv "$csv"
check "both candidates are right" eval '[ "$(grep -c ",pass,0," "$csv")" -eq 4 ] && [ "$(grep -c "weir+alltoall 256K group=mod:2," "$csv")" -eq 2 ]'
check "the slow-down of weir has an interval" prints 'weir\+alltoall 256K group=mod:2 [a-z0-9]+ [0-9.]+ us: .*\['
check "so has that of the competing call" prints ': alltoall 256K group=mod:2 alone [0-9.]+ us, together [0-9.]+ us: [0-9.]+x \[[0-9.]+, [0-9.]+\]$'
check "and was measured anew for it: one row's figures differ" eval \
    '[ -n "$(sed -n "s/.* alone \([0-9.]*\) us, together \([0-9.]*\) us.*/\1 \2/p" "$out" | awk "\$1 != \$2")" ]'
check "each slow-down is the quotient of its times" numbers_hold with "$csv"
# Calls of less than 1 us, unless the machine is busy in every one of ten runs.
calls_short() {
    for ((run = 0; run < 10; run++)); do
        ends_with 0 ./bench_allreduce -g 2 --backend host -b 4K -e 4K -n 30 --quiet --with 'broadcast 64' --csv "$csv" || return 1
        prints 'alone [0-9.]+ us, together [0-9.]+ us: too short to compare; give --with a larger size$' &&
            numbers_hold with "$csv" && return
    done
    return 1
}
check "calls too short to be timed have no slow-down" calls_short
# Iterations of 1 us: blocks end before the competing call begins.
check "blocks without a competing call are no rounds" eval 'ends_with 0 ./bench_allreduce -g 2 --backend host -b 8 -e 8 -n 30 --quiet \
    --with "alltoall 64K" --csv "$csv" && { prints "did not end a call" || numbers_hold with "$csv"; }'
check "two calls compete: ends with 0" ends_with 0 "${with[@]}" --with 'allgather 4K' --with 'reduce_scatter 64K group=div:2'
check "each has a line" eval 'prints ": allgather 4K alone" && prints ": reduce_scatter 64K group=div:2 alone"'
check "broadcast, whose root runs ahead, stops on all ranks" ends_with 0 "${with[@]}" --with 'broadcast 64'

# The planted slow rank is named alone and next to the competing call; three tries, as other programs use the cores as well.
named_in_both() {
    for _ in 1 2 3; do
        ends_with 0 ./bench_allreduce -g 4 --backend host -b 256K -e 256K -n 100 --with 'alltoall 64K' --inject slow-rank:3:500% || return 1
        prints 'place, 262144 B, weir [a-z0-9]+: rank 3 ' && prints 'place, 262144 B, weir\+alltoall 64K [a-z0-9]+: rank 3 ' && return 0
    done
    return 1
}
check "a slow rank is named alone and next to a competing call" named_in_both

check "a wrong bit in the output of the competing call ends with 1" ends_with 1 "${with[@]}" --with 'alltoall 64K' --inject flip-bit@timed
check "and no line has times of it" eval '! prints "alltoall 64K alone"'
check "the message names the call and the element" says 'rank 0: wrong data in --with alltoall 64K: element 0: got'

check "a call without an element is refused" eval \
    'ends_with 2 "${with[@]}" --with "alltoall 4" && says "alltoall 4: 4 bytes have no element among 4 ranks; give a larger size"'
check "a collective that does not compete is refused with those that do" eval \
    'ends_with 2 "${with[@]}" --with "gather 4K" && says "allgather, reduce_scatter, broadcast, reduce or alltoall"'
for bad in 'alltoall' 'alltoallv 1M' 'alltoall 0' 'alltoall 1M group=xor:2' 'alltoall 1M twice'; do
    check "--with '$bad' is a usage error" ends_with 2 "${with[@]}" --with "$bad"
done

# A rank is stopped. weir alone runs for a part of the time, so that several runs may be needed until both calls run.
stopped() {
    "${with[@]}" -n 20 -N 0 -T 2 --with 'alltoall 64K' >"$out" 2>"$err" &
    local job=$! rank='' code
    for ((i = 0; i < 100 && ${#rank} == 0; i++)); do
        sleep 0.1
        rank=$(pgrep -P $job | tail -n 1)
    done
    sleep 2
    kill -STOP "$rank"
    wait $job
    code=$?
    kill -KILL "$rank" 2>/dev/null
    [ $code -eq 4 ]
}
shows_both() {
    for ((run = 0; run < 8; run++)); do
        stopped || return 1
        says 'allreduce, call|waits in allreduce' && says 'alltoall 64K, iteration [0-9]+; alltoall, call' && return 0
    done
    return 1
}
check "a rank that stops ends the job with 4; the report shows the calls of both communicators" shows_both
tap_done
