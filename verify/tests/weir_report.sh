#!/bin/bash
# weir-report: one page that needs nothing else, its plots, nights and differences, and
# names that would do harm.
set -u
. verify/tap.sh

program=./weir-report
if [ ! -x $program ]; then
    skip "weir-report" "not built here: no GSL or no jansson"
    tap_done
fi
header='schema,run_id,utc,host,collective,backend,transport,nranks,nnodes,contender,algo,dtype,redop,root,placement,bytes,count,iters,median_us,min_us,max_us,p99_us,ci_low_us,ci_high_us,algbw_gbs,busbw_gbs,verify,wrong'
page=$scratch/page.html
export TMPDIR=$scratch/tmp
mkdir "$TMPDIR"
has() { grep -qF -- "$1" "$page"; }
lacks() { ! grep -qF -- "$1" "$page"; }
plots() { [ "$(grep -c '<svg' "$page")" -eq "$1" ]; }

# 30 nights; from the 16th on 1 MiB is 8% slower.
for ((n = 1; n <= 30; n++)); do
    night=$scratch/store/202601$(printf %02d $n)
    mkdir -p "$night"
    awk -v n=$n -v header="$header" 'BEGIN {
        srand(n); print header
        for (b = 1024; b <= 1048576; b *= 32) {
            us = (5 + b / 20000) * (0.995 + 0.01 * rand()) * (n >= 16 && b == 1048576 ? 1.08 : 1)
            printf "1,n%d,u,h,allreduce,cuda,cuda_ipc,4,1,weir,ring,float,sum,-1,out,%d,2,20,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,,,pass,0\n", n, b, us, us, us, us, us * .999, us * 1.001
        } }' >"$night/a.csv"
    echo "{\"run_id\":\"n$n\",\"build\":{\"commit\":\"<b>c$((n / 16))\"},\"host\":\"same\"}" >"$night/a.json"
done

check "a report of one file" ends_with 0 $program -o "$page" results/sample.csv
check "  ... is one whole page" eval 'has "<!DOCTYPE html>" && has "</html>" && [ "$(wc -c <"$page")" -lt 500000 ]'
check "  ... that loads nothing and runs nothing" eval '! grep -qE "<script|src=|href=\"http|url\(http|@import" "$page"'
if command -v gnuplot >/dev/null; then
    check "  ... with two plots" plots 2
fi
check "a store: its nights against the first" ends_with 0 $program -o "$page" --store "$scratch/store" "$scratch/store/20260101" latest
check "  ... finds where the level changed" has "changed with the night 20260116"
check "  ... once" eval '[ "$(grep -c "changed with the night" "$page")" -eq 1 ]'
check "  ... and what else differs, escaped" eval 'has "build.commit" && has "&lt;b&gt;c1" && lacks "<b>c1"'
check "  ... not what is the same" lacks "<td>same</td>"
if command -v gnuplot >/dev/null; then
    check "  ... with three plots and one a size" plots 6
fi
# A real browser's idea of the page: every section and plot has its place in it.
browser=$(command -v chromium || command -v google-chrome || true)
if [ -n "$browser" ] && command -v gnuplot >/dev/null; then
    seen() {
        timeout 60 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$scratch/browser" \
            --dump-dom "file://$page" >"$out" 2>"$err" </dev/null
        [ "$(grep -c '<svg' "$out")" -eq 6 ] && [ "$(grep -c '</section>' "$out")" -eq 4 ]
    }
    check "a browser sees its sections and plots" seen
fi
{ echo "$header"; sed -n 2p "$scratch/store/20260101/a.csv" | sed "s|,weir,|,\"<script>x</script>' ; system('touch $scratch/owned')\",|"; } >"$scratch/evil.csv"
check "a name that is a script" ends_with 0 $program -o "$page" "$scratch/evil.csv"
check "  ... is text in the page" eval 'lacks "<script" && has "&lt;script"'
check "  ... and runs nowhere" test ! -e "$scratch/owned"
check "nothing to report ends with 3" ends_with 3 $program -o "$page" "$scratch/none"
check "no source is usage" ends_with 2 $program
check "a page that cannot be written ends with 3" ends_with 3 $program -o "$scratch/none/page" results/sample.csv
check "--help" ends_with 0 $program --help
check "it leaves nothing behind" eval '[ -z "$(ls "$TMPDIR")" ]'
tap_done
