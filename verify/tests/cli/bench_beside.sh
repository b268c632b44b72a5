#!/bin/bash
# Computation next to communication (--beside), on the host: weir is measured alone and together with it, the slow-down of both
# and the exposed communication are printed with intervals. Run from the repository's root.
. verify/tests/support/tap.sh

csv=$scratch/a.csv
if [ ! -x ./bench_allreduce ]; then
    skip "computation beside communication" "bench_allreduce is not built"
    tap_done
fi
says() { grep -qE -e "$1" "$err"; }
prints() { grep -qE -e "$1" "$out"; }
beside=(./bench_allreduce -g 2 --backend host -b 64K -e 64K -n 40 --quiet)

for what in gemm:48x32x64 stream:0.0002 flops; do
    check "$what computes beside weir: ends with 0" ends_with 0 "${beside[@]}" --beside $what --csv "$csv"
    check "$what: both candidates are right" eval \
        '[ "$(grep -c ",pass,0," "$csv")" -eq 4 ] && [ "$(grep -c "weir+$what," "$csv")" -eq 2 ]'
    check "$what: numbers of the rows and of the lines" numbers_hold with "$csv" nranks=2 iters=40
    check "$what: the slow-down of weir has an interval" prints "weir\\+$what [a-z0-9]+ [0-9.]+ us: .*\\["
    check "$what: so has that of the computation" prints ": $what alone [0-9.]+ us, together [0-9.]+ us: [0-9.]+x \\[[0-9.]+, [0-9.]+\\]\$"
    check "$what: and the exposed communication" prints ": $what and one call [0-9.]+ us: exposed communication -?[0-9.]+ us \\[-?[0-9.]+, -?[0-9.]+\\]\$"
done
# A longer computation takes longer alone.
alone_us() {
    ends_with 0 "${beside[@]}" --beside "$1" && sed -n 's/.* alone \([0-9.]*\) us, together.*/\1/p' "$out" | head -n 1
}
check "a product of 8 times the work takes longer" eval 'awk -v a="$(alone_us gemm:32x32x32)" -v b="$(alone_us gemm:128x128x128)" "BEGIN { exit !(b > 4 * a && a > 0) }"'
for bad in gemm gemm:4x4 gemm:0x4x4 gemm:4x4x4:int8 stream stream:0 stream:65 flop; do
    check "--beside $bad is a usage error" ends_with 2 "${beside[@]}" --beside $bad
done
check "--beside and --with are refused together" eval 'ends_with 2 "${beside[@]}" --beside flops --with "alltoall 64K" || ends_with 2 "${beside[@]}" --with "alltoall 64K" --beside flops'
check "the message names what it may be" eval 'ends_with 2 "${beside[@]}" --beside flop && says "gemm:MxNxK"'
# Calls after a pause: 6 of them, 2 placements, at least 0.1 s each.
begin_ms=$(date +%s%3N)
check "--asleep pauses before each call: ends with 0" ends_with 0 ./bench_allreduce -g 2 --backend host -b 8 -e 8 -n 6 --asleep --csv "$csv"
check "the pauses took their time" [ $(($(date +%s%3N) - begin_ms)) -ge 1200 ]
check "the times leave them out" eval 'awk -F, "NR > 1 && \$19 >= 100000 { bad = 1 } END { exit bad }" "$csv"'
check "the rows have a mode of their own" numbers_hold collective "$csv" mode=asleep iters=6
tap_done
