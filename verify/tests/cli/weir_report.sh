#!/bin/bash
# weir-report: one page that needs nothing else, its plots, nights and differences, and
# names that would do harm.
set -u
. verify/tests/support/tap.sh

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
check "  ... and a link to its results, which are no verdict" eval 'has ">Results</a>" && lacks "Verdict"'
check "a store: its nights against the first" ends_with 0 $program -o "$page" --store "$scratch/store" "$scratch/store/20260101" latest
check "  ... finds where the level changed" has "changed with the night 20260116"
check "  ... once" eval '[ "$(grep -c "changed with the night" "$page")" -eq 1 ]'
check "  ... and what else differs, escaped" eval 'has "build.commit" && has "&lt;b&gt;c1" && lacks "<b>c1"'
check "  ... not what is the same" lacks "<td>same</td>"
sed 's/,weir,ring,/,nccl:2.30.1,,/; s/,n1,/,m1,/' "$scratch/store/20260101/a.csv" >"$scratch/peer.csv"
check "another contender beside weir" ends_with 0 $program -o "$scratch/cross.html" "$scratch/peer.csv" "$scratch/store/20260130"
check "  ... is named with it" grep -q '<td>weir beside nccl:2.30.1</td><td>ring</td>' "$scratch/cross.html"
mkdir "$scratch/one" && cp -r "$scratch/store/20260101" "$scratch/one"
check "one night is no history" eval '
    ends_with 0 $program -o "$scratch/one.html" --store "$scratch/one" "$scratch/store/20260102" latest && ! grep -q "nights" "$scratch/one.html"'
check "  ... and manifests that are alike are said to be" grep -q 'No differences between the manifests' "$scratch/one.html"
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
    # Nothing stands out of the page at the width of a desk or of a phone, with all rows open. A
    # browser's window has a least width, so the page is in frames, without its ban on scripts.
    fits() {
        local text width
        text=$(sed 's/<meta http-equiv="Content-Security-Policy"[^>]*>//; s/<details>/<details open>/
            s/&/\&amp;/g; s/"/\&quot;/g' "$page")
        {
            echo '<!DOCTYPE html><body>'
            for width in 1280 390; do
                printf '<iframe width="%d" height="900" style="border:0" srcdoc="%s"></iframe>\n' $width "$text"
            done
            echo '<script>onload = () => { document.title = [...document.querySelectorAll("iframe")].map(frame => {
                const root = frame.contentDocument.documentElement;
                return root.scrollWidth - root.clientWidth + " of " + root.clientWidth }).join(", ") }</script>'
        } >"$scratch/frames.html"
        timeout 60 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$scratch/browser" \
            --dump-dom "file://$scratch/frames.html" >"$out" 2>"$err" </dev/null
        grep -qF '<title>0 of 1280, 0 of 390</title>' "$out"
    }
    check "  ... all within the width of a desk's screen and a phone's" fits
fi
{ echo "$header"; sed -n 2p "$scratch/store/20260101/a.csv" | sed "s|,weir,|,\"<script>x</script>' ; system('touch $scratch/owned')\",|"; } >"$scratch/evil.csv"
check "a name that is a script" ends_with 0 $program -o "$page" "$scratch/evil.csv"
check "  ... is text in the page" eval 'lacks "<script" && has "&lt;script"'
check "  ... and runs nowhere" test ! -e "$scratch/owned"
# The machine: the fast link is at 100 GB/s with 1 us, so 1 KiB in 5 us is at 20% and 1 MiB at 20%.
machine=$scratch/machine/screen/b
mkdir -p "$machine"
cp "$scratch/store/20260101/a.csv" "$machine/r1-x.csv"
cat >"$scratch/machine/links.txt" <<'END'
weir-links 1
machine abc
backend cuda
endpoints 2
pair 0 1 100.0 1.00
pair 1 0 90.0 2.00
together 8 100
END
./weir-topo --xml topo/machines/8-gpu-8-nic.xml --json >"$scratch/machine/topology.json" 2>/dev/null ||
    echo '{"processor": "P", "numa": [], "gpus": [{"name": "<i>g"}], "nics": []}' >"$scratch/machine/topology.json"
check "links and topology beside the results" ends_with 0 $program -o "$page" "$machine/r1-x.csv"
check "  ... are a section with a picture and a table of links" \
    eval 'has "id=\"machine\"" && has "class=\"machine\"" && has " style=\"width:" && has ">90.0<" && has "--heat:70%" && has "GB/s of one link alone"'
if [ -n "$browser" ] && command -v gnuplot >/dev/null; then
    check "  ... which desks and phones have in their width" fits
fi
check "  ... and percent of the ceiling" eval 'has "% of ceiling" && has "Percent of what the machine"'
if [ -e /tmp/links.txt ] || [ -e /tmp/topology.json ] || [ -e /links.txt ] || [ -e /topology.json ]; then
    skip "  ... those of the working folder are not for results elsewhere" "/tmp has some of its own"
else
    elsewhere=$(mktemp /tmp/weir-report-XXXXXX.csv)
    cp "$scratch/store/20260101/a.csv" "$elsewhere"
    (cd "$scratch/machine" && "$OLDPWD/$program" -o "$page" "$elsewhere") >"$out" 2>"$err"
    check "  ... those of the working folder are not for results elsewhere" eval 'has "</html>" && lacks "id=\"machine\""'
    rm -f "$elsewhere"
fi
mkdir -p "$scratch/machine/other/c"
cp "$machine/r1-x.csv" "$scratch/machine/other/c"
check "files of the machine further up are not taken for B's" eval \
    'ends_with 0 $program -o "$page" "$scratch/machine/other/c/r1-x.csv" && lacks "id=\"machine\""'
echo '{"processor": "<b>p", "numa": [{"numa": -7, "memory_bytes": "x"}, 5], "gpus": [{"name": "<i>g", "nic": 99999999999}, null, []], "nics": {}}' \
    >"$scratch/machine/topology.json"
check "a topology of nonsense" ends_with 0 $program -o "$page" "$machine/r1-x.csv"
check "  ... is shown as far as it goes, escaped" eval 'has "&lt;b&gt;p" && lacks "<b>p" && lacks "<i>g"'
echo '{"numa": [' >"$scratch/machine/topology.json"
sed -i 's/^pair 1 0 .*/pair 1 0 fast/' "$scratch/machine/links.txt"
check "broken files of the machine are named" eval 'ends_with 0 $program -o "$page" "$machine/r1-x.csv" &&
    grep -q "links.txt:6: " "$err" && grep -q "topology.json:" "$err" && lacks "id=\"machine\""'
check "  ... and end with 3 if they were asked for" ends_with 3 $program -o "$page" --links "$scratch/machine/links.txt" "$machine/r1-x.csv"
check "nothing to report ends with 3" ends_with 3 $program -o "$page" "$scratch/none"
check "no source is usage" ends_with 2 $program
check "a page that cannot be written ends with 3" ends_with 3 $program -o "$scratch/none/page" results/sample.csv
check "--help" ends_with 0 $program --help
check "it leaves nothing behind" eval '[ -z "$(ls "$TMPDIR")" ]'
tap_done
