#!/bin/bash
# Allreduce, residual and norm in one call (--fuse), on the host: both candidates are right for every type and output, every
# fault of a result is found, rows say what was measured, and what is not supported is refused. Run from the repository's root.
. verify/tests/support/tap.sh

csv=$scratch/a.csv
if [ ! -x ./bench_allreduce ]; then
    skip "allreduce with residual and norm" "bench_allreduce is not built"
    tap_done
fi
says() { grep -qE -e "$1" "$err"; }
prints() { grep -qE -e "$1" "$out"; }
fuse=(./bench_allreduce --backend host --hidden 512 -b 8K -e 64K -f 8 -n 6 --quiet)

for ranks in 1 2 3; do
    for dtype in bfloat16 half float; do
        for output in norm norm:fp8; do
            check "$output of $dtype with $ranks ranks: ends with 0" \
                ends_with 0 "${fuse[@]}" -g $ranks -d $dtype --fuse $output --csv "$csv"
            check "$output of $dtype with $ranks ranks: both candidates are right" eval \
                '[ "$(grep -c ",weir,.*,pass,0,exact," "$csv")" -eq 2 ] && [ "$(grep -c ",weir+norm,.*,pass,0,exact," "$csv")" -eq 2 ]'
        done
    done
done
check "iterations of several operations are right" ends_with 0 "${fuse[@]}" -g 2 -d half --fuse norm -m 4
check "rows are told apart by tokens, elements of a row and output" eval \
    'awk -F, "NR == 1 { for (i = 1; i <= NF; i++) at[\$i] = i } NR > 1 && (\$at[\"hidden\"] != 512 || \$at[\"layout\"] != \"norm:fp8\" ||
        \$at[\"tokens\"] * 512 != \$at[\"count\"]) { bad = 1 } END { exit bad || NR != 5 }" "$csv"'
check "the ratio to the call followed by the norm is printed" prints '^# weir\+norm +: .*(as long as|difference)'

for fault in flip-bit drop-chunk swap-chunks replay drop-rank bad-round swap-bytes; do
    check "$fault: ends with 1" ends_with 1 "${fuse[@]}" -g 2 -d bfloat16 --fuse norm --inject $fault
    check "$fault: the element and both values are named" says \
        'wrong data: weir norm, .* rank [01], element [0-9]+: got (output|residual) [-+.0-9e]+, expected'
done
check "overrun: ends with 1" ends_with 1 "${fuse[@]}" -g 2 -d bfloat16 --fuse norm --inject overrun
check "overrun: is named" says 'written outside the output'
check "modify-input: ends with 1" ends_with 1 "${fuse[@]}" -g 2 -d bfloat16 --fuse norm --inject modify-input
check "modify-input: is named" says 'input elements .* changed'

check "another collective is refused" ends_with 2 ./bench_allgather -g 2 --backend host --fuse norm
check "rows that are no multiple of 8 are refused" eval 'ends_with 2 "${fuse[@]}" -g 2 --fuse norm --hidden 12 && says "multiple of 8"'
for other in --determinism --cold '--with "alltoall 64K"' '--for 1s -e 8K' '--inject replay@timed'; do
    # shellcheck disable=SC2086 # an option and its value
    check "$other is refused" eval "ends_with 2 \"\${fuse[@]}\" -g 2 --fuse norm $other && says '--fuse'"
done
for row in '-d int32:takes bfloat16, half or float' '-d float -o max:give -o sum' '-d half -b 1000 -e 1000:not a multiple of a row'; do
    # shellcheck disable=SC2086 # several arguments
    check "${row%%:*} has no candidate, and the reason is printed" eval \
        "ends_with 0 \"\${fuse[@]}\" -g 2 --fuse norm ${row%%:*} && prints 'weir takes no part in .*${row#*:}'"
done
tap_done
