#!/bin/bash
# Allreduce of quantised data (--wire), on the host and on a simulated GPU: every element is within the bound, the errors are in
# the rows of weir_allreduce_quantized alone, every fault of a result is found, in timed iterations too, and what is not supported
# is refused. Run from the repository's root.
. verify/tests/support/tap.sh

csv=$scratch/a.csv
if [ ! -x ./bench_allreduce ]; then
    skip "quantised allreduce" "bench_allreduce is not built"
    tap_done
fi
says() { grep -qE -e "$1" "$err"; }
prints() { grep -qE -e "$1" "$out"; }
quantised=(./bench_allreduce --backend host -b 8K -e 64K -f 8 -n 6 --quiet --csv "$csv")
# rows CONDITION: whether each row of the CSV fulfils an awk condition on f["column"].
rows() {
    awk -F, "NR == 1 { for (i = 1; i <= NF; i++) name[i] = \$i } NR > 1 { for (i in name) f[name[i]] = \$i; if (!($1)) bad = 1 } END { exit bad || NR < 3 }" "$csv"
}

for ranks in 1 2 3; do
    for format in fp8 int8; do
        for dtype in bfloat16 half float; do
            check "$format, $dtype, $ranks ranks: ends with 0" ends_with 0 "${quantised[@]}" -g $ranks -d $dtype --wire $format
            check "$format, $dtype, $ranks ranks: all candidates are right" rows 'f["verify"] == "pass" && f["wrong"] == 0'
        done
    done
done
check "errors are in the rows of quantised data alone" rows \
    'f["contender"] == "weir-int8" ? f["err_rms"] > 0.001 && f["err_rms"] < 0.02 && f["err_max"] > f["err_rms"] && f["err_max"] < 0.1 : f["err_rms"] f["err_max"] == ""'
check "the errors are printed" prints 'weir-int8 int8: errors, relative to the root mean square of the sums: largest [0-9.]+%, root mean square [0-9.]+%$'
check "the ratio to the exact call is printed" prints '^# weir +: .*(as long as|difference)'
check "averages are right" ends_with 0 "${quantised[@]}" -g 3 -d float -o avg --wire fp8
check "fp8 has larger errors than int8" rows 'f["contender"] == "weir" || f["err_rms"] > 0.02'
standin=${O:-build}/tests/bench_allreduce_standin
if [ -x "$standin" ]; then
    export WEIR_BACKEND=host # the simulated GPU needs the host backend
    for mode in "-G 4" "-n 6"; do
        # shellcheck disable=SC2086 # an option and its value
        check "timed batches are right ($mode)" ends_with 0 "$standin" -g 2 -b 8K -e 64K -f 8 --quiet -d bfloat16 --wire fp8 $mode
    done
    unset WEIR_BACKEND
fi

for fault in flip-bit drop-chunk swap-chunks replay drop-rank swap-bytes; do
    for when in "" @timed; do
        check "$fault$when: ends with 1" ends_with 1 "${quantised[@]}" -g 2 -d bfloat16 --wire fp8 --inject $fault$when
        check "$fault$when: the element, its value and the bound are named" says \
            'wrong data: .*weir-fp8 fp8, .* rank [01], element [0-9]+: got [-+.0-9e]+, expected [-+.0-9e]+ \+- [-+.0-9e]+'
    done
done
check "overrun: ends with 1" ends_with 1 "${quantised[@]}" -g 2 -d bfloat16 --wire fp8 --inject overrun
check "modify-input: ends with 1" ends_with 1 "${quantised[@]}" -g 2 -d bfloat16 --wire fp8 --inject modify-input

check "another collective is refused" ends_with 2 ./bench_allgather -g 2 --backend host --wire fp8
for other in --determinism --cold '--with "alltoall 64K"' '--for 1s -e 8K' '--fuse norm'; do
    check "$other is refused" eval "ends_with 2 \"\${quantised[@]}\" -g 2 --wire fp8 $other && says '\-\-wire'"
done
check "--wire fp4 is a usage error" ends_with 2 "${quantised[@]}" --wire fp4
for row in '-d int32:takes bfloat16, half or float' '-d float -o max:give -o sum or avg'; do
    check "${row%%:*} has no quantised candidate, and the reason is printed" eval \
        "ends_with 0 \"\${quantised[@]}\" -g 2 --wire fp8 ${row%%:*} && prints 'weir-fp8 takes no part in .*${row#*:}'"
done
tap_done
