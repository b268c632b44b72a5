#!/bin/bash
# results/plot: the plots that it draws, the rows that it reports as unusable, and its usage errors,
# each one line with the remedy. Run from the repository's root.
set -u
. verify/tests/support/tap.sh

sample=results/sample.csv
plots=$scratch/plots

# row CANDIDATE ALGO PLACEMENT BYTES MEDIAN_US: prints a row of a result file.
row() {
    echo "1,r,2026-01-01T00:00:00Z,h,allgather,host,shm,2,1,$1,$2,float,none,-1,$3,$4,1,5,$5,1,99999,99999,,,$(
        awk "BEGIN { printf \"%.9g,%.9g\", $4 / $5 / 1000, $4 / $5 / 2000 }"),pass,0"
}
header() { head -n 1 $sample; }

# Usage errors.
check "no file is a usage error" ends_with 2 results/plot
check "no file is reported with the command to use" one_line_says "make plot CSV="
check "a missing file is a usage error" ends_with 2 results/plot "$scratch/none.csv"
check "a missing file is reported with its name and the remedy" one_line_says none.csv --csv
: >"$scratch/empty.csv"
check "an empty file is a usage error" ends_with 2 results/plot "$scratch/empty.csv"
check "an empty file is reported with its name" one_line_says empty.csv empty
echo "size,time" >"$scratch/other.csv"
check "an unknown header is a usage error" ends_with 2 results/plot "$scratch/other.csv"
check "an unknown header is reported with a missing column and the documentation" \
    one_line_says other.csv "'collective'" docs/user/csv-columns.md
header | sed 's/busbw_gbs/speed/' >"$scratch/renamed.csv"
check "a renamed column is a usage error" ends_with 2 results/plot "$scratch/renamed.csv"
check "a renamed column is reported with its name" one_line_says "'speed'"
header >"$scratch/header.csv"
check "a file with only a header is a usage error" ends_with 2 results/plot "$scratch/header.csv"
check "a file with only a header is reported as nothing to draw" one_line_says "nothing to draw"
check "a folder is a usage error" ends_with 2 results/plot "$scratch"
check "an unknown option is a usage error" ends_with 2 results/plot -z $sample

unreadable() {
    cp $sample "$scratch/locked.csv" && chmod 0 "$scratch/locked.csv"
    ends_with 2 results/plot "$scratch/locked.csv" && one_line_says locked.csv "not readable"
}
if [ "$(id -u)" -eq 0 ]; then
    skip "an unreadable file is a usage error" "root reads every file"
else
    check "an unreadable file is a usage error" unreadable
fi

if ! command -v gnuplot >/dev/null; then
    skip "drawing" "gnuplot is not installed"
    tap_done
fi

# is_png FILE: it has PNG's signature and is larger than an empty plot.
is_png() { [ "$(head -c 4 "$1" | od -An -c | tr -d ' ')" = '211PNG' ] && [ "$(wc -c <"$1")" -gt 8000 ]; }
is_svg() { grep -q '<svg' "$1" && grep -q '</svg>' "$1"; }
svg_has() { grep -qF -- "$2" "$1"; }
svg_lacks() { [ -s "$1" ] && ! grep -qF -- "$2" "$1"; }

check "results/plot draws the sample" ends_with 0 results/plot -o "$plots" $sample
check "the failed row is reported with line, size, candidate and wrong elements" \
    one_line_says "line 12" "8192 bytes by weir" "17 wrong"
check "the paths of the four plots are printed" test "$(wc -l <"$out")" -eq 4
for measure in latency bandwidth; do
    check "the $measure plot is a PNG" is_png "$plots/sample-$measure.png"
    check "the $measure plot is an SVG" is_svg "$plots/sample-$measure.svg"
    for text in 'mpi:openmpi-4.1.4' 'float sum, 8 ranks on 1 node' 'failed verification' '512K'; do
        check "the $measure plot shows '$text'" svg_has "$plots/sample-$measure.svg" "$text"
    done
done
check "a change of the algorithm with the size does not split a line" \
    svg_lacks "$plots/sample-latency.svg" packet
check "the bandwidth plot names its unit" svg_has "$plots/sample-bandwidth.svg" GB/s

sed '/,fail,/d' $sample >"$scratch/passed.csv"
check "without a failed row nothing is reported" \
    eval 'ends_with 0 results/plot -o "$plots" "$scratch/passed.csv" && test ! -s "$err"'
check "without a failed row the plot has no mark for failures" \
    svg_lacks "$plots/passed-latency.svg" "failed verification"

{
    header
    for bytes in 8 64 512; do
        row weir ring out $bytes 10
        row weir '"tree, ""wide"""' out $bytes 11
        row weir ring in $bytes 12
    done
    row weir ring out 0 1
} | sed 's/$/\r/' >"$scratch/quoted,name.csv"
check "quoted fields, commas and carriage returns are read" \
    ends_with 0 results/plot "$scratch/quoted,name.csv"
check "a row of 0 bytes is reported as not drawable" one_line_says "line 11" "0 bytes"
wide="$scratch/quoted,name-latency.svg"
check "plots are written to the file's folder by default" is_svg "$wide"
check "two algorithms at one size give two lines" svg_has "$wide" "weir, out of place, tree, wide"
check "two placements give two lines" svg_has "$wide" "weir, in place, ring"

{ header; row weir ring out 8 10; row weir ring out 64 11; } >"$scratch/one.csv"
{ header; row weir ring out 8 20; row weir ring out 64 21; } >"$scratch/two.csv"
check "two files are drawn" ends_with 0 results/plot -o "$plots" "$scratch/one.csv" "$scratch/two.csv"
check "two files in one plot have different labels" svg_has "$plots/one-latency.svg" "weir, two.csv"

{ header; row weir ring out 8 10; row weir ring out 64 9 | sed s/allgather/broadcast/; } >"$scratch/mixed.csv"
check "two collectives are drawn" ends_with 0 results/plot -o "$plots" "$scratch/mixed.csv"
check "two collectives give two plots" \
    eval 'is_png "$plots/mixed-allgather-latency.png" && is_png "$plots/mixed-broadcast-latency.png"'

{ header; row weir ring out 8 10; row weir ring out 64 11 | cut -c 1-40; } >"$scratch/cut.csv"
check "a truncated file is drawn" ends_with 0 results/plot -o "$plots" "$scratch/cut.csv"
check "the truncated row is reported with file and line" one_line_says "cut.csv:3:" "cut off"

{ header; row weir ring out 8 10 | sed 's/,[^,]*,[^,]*,pass/,0,0,pass/'; } >"$scratch/single.csv"
check "results of one rank are drawn" ends_with 0 results/plot -o "$plots" "$scratch/single.csv"
check "results of one rank are reported to have no bus bandwidth" one_line_says "no bus bandwidth"

check "make plot ends with 0" ends_with 0 make plot CSV="$scratch/one.csv" OUT="$scratch/made"
check "make plot writes to OUT" is_png "$scratch/made/one-bandwidth.png"
check "make plot without CSV ends with 2" ends_with 2 make plot
tap_done
