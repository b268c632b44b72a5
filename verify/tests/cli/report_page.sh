#!/bin/bash
# The page of weir-report for its readers: structure, colours and names of what it contains; in headless
# Chromium at three widths, in light and dark: layout, keyboard, hover, sorting and copying. Each check
# finds planted faults. Run from the repository's root.
set -u
. verify/tests/support/tap.sh

if [ ! -x weir-report ] || ! command -v python3 gnuplot >/dev/null; then
    skip "the page of weir-report" "needs weir-report, python3 and gnuplot"
    tap_done
fi
header='schema,run_id,utc,host,collective,backend,transport,nranks,nnodes,contender,algo,dtype,redop,root,placement,bytes,count,iters,median_us,min_us,max_us,p99_us,ci_low_us,ci_high_us,algbw_gbs,busbw_gbs,verify,wrong'
page=$scratch/page.html
check_page() { python3 verify/tests/cli/report_page.py "$@"; }

# Two collectives and two candidates, one with a long name that must be escaped, four runs a side.
for run in a1 a2 a3 a4 b1 b2 b3 b4; do
    folder=$scratch/${run:0:1}
    mkdir -p "$folder"
    awk -v run=$run -v header="$header" 'BEGIN {
        srand(substr(run, 2) + (run ~ /b/ ? 10 : 0)); print header
        split("allreduce alltoallv", collectives, " "); split("weir nccl:<b>2.28.3&of-a-build-with-a-name-longer-than-any-plot-is-wide", candidates, " ")
        for (c = 1; c <= 2; c++) for (w = 1; w <= 2; w++) for (b = 1024; b <= 268435456; b *= 4) {
            us = (5 + b / 20000 * w) * (0.99 + 0.02 * rand()) * (run ~ /b/ && b >= 1048576 ? 0.7 + 0.2 * w : 1)
            printf "1,%s,2026-01-01T00:00:00Z,h,%s,cuda,cuda_ipc,8,1,%s,ring,float,sum,-1,out,%d,2,20,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,pass,0\n", run, collectives[c], candidates[w], b, us, us, us, us, us * .99, us * 1.01, b / us / 1000, b / us / 600
        } }' >"$folder/r${run:1}-x.csv"
    echo "{\"run_id\":\"$run\",\"build\":{\"commit\":\"c$run\",\"compiler\":\"gcc $run\"},\"host\":\"same\"}" >"$folder/r${run:1}-x.json"
done

# A history of 12 nights whose level changes, and a machine.
for ((night = 1; night <= 12; night++)); do
    mkdir -p "$scratch/store/n$((night + 10))"
    echo "$header
1,n$night,u,h,allreduce,cuda,cuda_ipc,4,1,weir,ring,float,sum,-1,out,1024,2,20,$((night > 6 ? 6 : 5)).0$night,5,7,7,5,7,,,pass,0" >"$scratch/store/n$((night + 10))/a.csv"
done
./weir-topo --xml topo/machines/8-gpu-8-nic.xml --json >"$scratch/b/topology.json" 2>"$err"

check "a report of two sides, a history and a machine is written" \
    ends_with 0 ./weir-report -o "$page" --store "$scratch/store" "$scratch/a" "$scratch/b"
check "the page is balanced and loads nothing; figures, points, tables and colours are complete" \
    ends_with 0 check_page static "$page"
check "the plots have points of both sides, in two colours" eval '[ "$(grep -c "<svg" "$page")" -eq 8 ] && grep -q "changed with the night n17" "$page" &&
    grep -q "var(--c0,#1f77b4).><title>nccl:&lt;b&gt;2.28.3&amp;of-a-build-with-a-name-longer-than-any-pl[a-z-]* (B); bytes 1024; busbw, GB/s [0-9.]*; 95% interval [0-9.]* to [0-9.]*</title>" "$page" &&
    grep -q "var(--c1,#e69f00).><title>nccl:[^<]* (A); bytes" "$page"'
check "a report of one side" ends_with 0 ./weir-report -o "$scratch/one.html" "$scratch/b"
check "the page of one side is complete" ends_with 0 check_page static "$scratch/one.html"
printf '%s\n' 'weir-links 1' 'backend cuda' 'endpoints 2' 'pair 0 1 95 1.5' 'pair 1 0 90 2' 'together 8 100' >"$scratch/measured"
check "a report with measured links" ends_with 0 ./weir-report -o "$scratch/links.html" --links "$scratch/measured" "$scratch/a"
check "its page is complete" eval 'ends_with 0 check_page static "$scratch/links.html" && grep -q "GB/s of one link alone" "$scratch/links.html"'

# Pairs of ranks: a table for each pattern and size, in which the slow pair has a mark, and lines for patterns of all ranks.
awk 'BEGIN { print "schema,run_id,collective,backend,nranks,nnodes,contender,dtype,redop,root,placement,bytes,count,iters,median_us,ci_low_us,ci_high_us,algbw_gbs,busbw_gbs,verify,wrong,dist"
    for (a = 0; a < 4; a++) for (b = a + 1; b < 4; b++) pair("pingpong", a, b, a == 1 && b == 3 ? 2 : 1)
    for (a = 0; a < 4; a++) for (b = 0; b < 4; b++) if (a != b) pair("oneway", a, b, a == 3 && b == 1 ? 4 : 1.05)
    row("shift:1", 1) }
    function pair(kind, a, b, us) { row(kind ":" a "-" b, us) }
    function row(name, us) { for (bytes = 8; bytes <= 4096; bytes *= 512) printf "6,r,sendrecv,host,4,1,weir,float,none,-1,out,%d,2,20,%.3f,%.3f,%.3f,%.3f,%.3f,pass,0,%s\n", bytes, us, us * .99, us * 1.01, bytes / us / 1e3, bytes / us / 1e3, name }' >"$scratch/p2p.csv"
check "a report of pairs of ranks" ends_with 0 ./weir-report -o "$scratch/p2p.html" "$scratch/p2p.csv"
check "the page of pairs is complete" ends_with 0 check_page static "$scratch/p2p.html"
check "a table for each of two patterns and sizes, with a mark at the slow pair: in both directions, or in one" eval '
    [ "$(grep -c "class=\"heat\"" "$scratch/p2p.html")" -eq 4 ] && [ "$(grep -o "2\.00!</td>" "$scratch/p2p.html" | wc -l)" -eq 4 ] &&
    [ "$(grep -o "!</td>" "$scratch/p2p.html" | wc -l)" -eq 6 ] && grep -q "1\.02!</td>" "$scratch/p2p.html" && grep -q "shift:1" "$scratch/p2p.html" && ! grep -q "<title>weir, oneway" "$scratch/p2p.html"'

# A run over hours: 240 windows of a minute, outliers in two of them, the last line cut off; the file of another run has no windows.
awk 'BEGIN {
    print "window,from_s,to_s,operations,median_us,p99_us,p999_us,max_us,outliers,stopped,causes"
    for (i = 1; i <= 240; i++) printf "%d,%d,%d,1000,%.3f,%.3f,%.3f,%.3f,%d,0,%s\n", i, i * 60 - 60, i * 60, 5 + i / 1000, 6, 7, i % 100 ? 8 : 50, i % 100 ? 0 : 2, i % 100 ? "" : "\"2 while rank 1, \"\"<b>\"\", was stopped\""
    printf "241,14400,14460,1000,5" }' >"$scratch/r1-x-windows.csv"
cp "$scratch/b/r1-x.csv" "$scratch"
check "a report of a run over hours" ends_with 0 ./weir-report -o "$scratch/hours.html" "$scratch/r1-x.csv"
check "the page of hours is complete" ends_with 0 check_page static "$scratch/hours.html"
check "it counts outliers and windows, and has a row for each window" eval '
    grep -q "href=\"#h0\"" "$scratch/hours.html" && grep -q "<p>4 outliers in 2 of 240 windows;" "$scratch/hours.html" &&
    [ "$(grep -c "^<tr><td class=\"n\">[0-9]*</td><td class=\"n\">[0-9]*:[0-9][0-9]:00</td>" "$scratch/hours.html")" -eq 240 ] && grep -q "^<tr><td class=\"n\">200</td><td class=\"n\">3:19:00</td><td class=\"n\">1000</td><td class=\"n\">5.20</td><td class=\"n\">6.00</td><td class=\"n\">7.00</td><td class=\"n\">50.00</td><td class=\"n\">2</td><td>2 while rank 1, &quot;&lt;b&gt;&quot;, was stopped</td>" "$scratch/hours.html"'
check "its plot has the quantiles of each window, and causes at the outliers" eval '
    [ "$(grep -o "<title>p99.9; hours [0-9.]*; time, us 7</title>" "$scratch/hours.html" | wc -l)" -eq 240 ] &&
    [ "$(grep -o "<title>maximum; hours [0-9.]*; time, us 50; 2 while rank 1, &quot;&lt;b&gt;&quot;, was stopped</title>" "$scratch/hours.html" | wc -l)" -eq 2 ]'
check "a run without windows has no such section" eval '! grep -q "Over time" "$scratch/one.html"'

# finds WORD MODE EDIT: the page changed by sed's EDIT has a fault with this word.
finds() {
    sed "$3" "$page" >"$scratch/fault.html"
    cmp -s "$page" "$scratch/fault.html" && return 1
    if [ "$2" = static ]; then ends_with 1 check_page static "$scratch/fault.html"; else ends_with 1 check_page browser "$browser" "$scratch/fault.html" 400; fi &&
        grep -q -- "$1" "$out"
}
check "the check finds an element that is not closed" finds closes static 's|</figcaption>||'
check "the check finds an id that occurs twice" finds "id twice: p0" static 's/id="p1"/id="p0"/'
check "the check finds an external file" finds external static 's|<main>|<main><img src="x.png">|'
check "the check finds a plot without a description" finds "lacks desc" static 's|<desc id.*</desc>||'
check "the check finds points without values" finds points static 's|<title>nccl.*</title></circle>|</circle>|'
check "the check finds a heading without a button" finds sort static 's|<button type="button" disabled>bytes</button>|bytes|'
check "the check finds a colour without its dark one" finds "dark has no --c1" static 's/--c1: #f2b53c;//'
check "the check finds a script that the page does not permit" finds sha256 static 's/^function sort/function  sort/'

browser=$(command -v chromium || command -v google-chrome || true)
if [ -z "$browser" ]; then
    skip "the page in a browser" "no Chromium"
    tap_done
fi
check "at 400, 1000 and 2000 pixels, light and dark, the page fits, no texts overlap, the console is empty; keyboard, hover, sorting and copying work; it is complete without script and on paper" \
    ends_with 0 check_page browser "$browser" "$page" 400 1000 2000
check "the page of hours, at 400 pixels, too" ends_with 0 check_page browser "$browser" "$scratch/hours.html" 400
check "the browser finds a page that is too wide" finds "400 dark: wider" browser 's|<main>|<main><div style="width:500px">x</div>|'
check "the browser finds texts that overlap" finds overlaps browser '0,/text-anchor="middle"/s/font-size="13.00"/font-size="40"/g'
check "the browser finds texts without contrast" finds contrast browser 's/--dim: #aaa/--dim: #444/'
check "the browser finds a mark that is black on black" finds "a path has contrast" browser "s/<path stroke='currentColor' stroke-dash/<path stroke='#000000' stroke-dash/"
check "the browser finds a script that does not run" finds console browser 's/^function sort/function  sort/'
check "the browser finds a plot that Tab does not reach" finds "does not reach plot" browser 's/tabindex="0" aria-labelledby/tabindex="-1" aria-labelledby/'
check "the browser finds rows that are not printed" finds "not printed" browser 's/details::details-content/details::nothing/'
check "the browser finds a button that needs a script" finds "without script there is a button" browser 's/ hidden>Copy/>Copy/'
tap_done
