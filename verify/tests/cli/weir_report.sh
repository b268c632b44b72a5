#!/bin/bash
# weir-report: one self-contained HTML page with plots, the history of nightly runs, differences
# between manifests, and links and topology; names from input files are escaped. Run from the
# repository's root.
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
lacks() { [ -s "$page" ] && ! grep -qF -- "$1" "$page"; }
plots() { [ "$(grep -c '<svg' "$page")" -eq "$1" ]; }

# 30 nightly runs; from the 16th on, 1 MiB is 8% slower.
for ((n = 1; n <= 30; n++)); do
    night=$scratch/store/202601$(printf %02d $n)
    mkdir -p "$night"
    awk -v n=$n -v header="$header" 'BEGIN {
        srand(n); print header
        for (b = 1024; b <= 1048576; b *= 32) {
            us = (5 + b / 20000) * (0.995 + 0.01 * rand()) * (n >= 16 && b == 1048576 ? 1.08 : 1)
            printf "1,n%d,u,h,allreduce,cuda,cuda_ipc,4,1,weir,ring,float,sum,-1,out,%d,2,20,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,,,pass,0\n", n, b, us, us, us, us, us * .999, us * 1.001
        } }' >"$night/a.csv"
    echo "{\"run_id\":\"n$n\",\"build\":{\"commit\":\"<b>c$((n / 16))\"},\"host\":\"same\",\"ranks\":[{\"pid\":$n,\"gpu\":{\"free_bytes\":$n,\"power_w\":$n,\"temperature_c\":$n}}]}" >"$night/a.json"
done

check "a report of one file ends with 0" ends_with 0 $program -o "$page" results/sample.csv
check "the report is one complete HTML page" \
    eval 'has "<!DOCTYPE html>" && has "</html>" && [ "$(wc -c <"$page")" -lt 500000 ]'
check "the page loads no other file and runs no script but its own" \
    eval '! grep -qE "src=|href=\"http|url\(http|@import" "$page" && [ "$(grep -o "<script" "$page" | wc -l)" -eq 1 ]'
if command -v gnuplot >/dev/null; then
    check "the report of one file has two plots" plots 2
    check "each plot has its caption" eval \
        '[ "$(grep -o "Time of one operation\|Bus bandwidth; bands" "$page" | head -n 1)" = "Bus bandwidth; bands" ]'
fi
check "the report of one file links its results and has no verdict" \
    eval 'has ">Results</a>" && lacks "Verdict"'
sed '1!s/,allreduce,\(.*\),sum,/,allgather,\1,none,/' "$scratch/store/20260101/a.csv" >"$scratch/none.csv"
check "a heading names the operation" has ">allreduce, float sum, "
check "a heading of a collective that reduces nothing names none" \
    eval 'ends_with 0 $program -o "$page" "$scratch/none.csv" && has ">allgather, float, 4 ranks, out of place" && lacks "float none, 4"'
check "a report of a store's latest run against the first ends with 0" \
    ends_with 0 $program -o "$page" --store "$scratch/store" "$scratch/store/20260101" latest
check "the history names the run with which the level changed" has "changed with the night 20260116"
check "the history reports the change of level once" \
    eval '[ "$(grep -c "changed with the night" "$page")" -eq 1 ]'
check "differences between manifests are listed, with HTML escaped" \
    eval 'has "build.commit" && has "&lt;b&gt;c1" && lacks "<b>c1"'
# before A B: A is in the page before B.
before() { [ "$(grep -nF -- "$1" "$page" | head -n 1 | cut -d: -f1)" -lt "$(grep -nF -- "$2" "$page" | head -n 1 | cut -d: -f1)" ]; }
check "the page begins with a summary: verdict, hosts, commits and times of both sides" \
    eval 'before "<th scope=\"row\">Hosts</th><td>h</td><td>h</td>" "<figure" && has "<th scope=\"row\">Commits</th><td>commit &lt;b&gt;c0</td><td>commit &lt;b&gt;c1</td>" &&
    has "<th scope=\"row\">Measured</th>" && before "id=\"verdict\"" ">Hosts<"'
sed 's/"host":"same".*/"host":{"name":"gpu1","topology":"64 cores"},"ranks":[{"rank":0,"host":"gpu1","gpu":{"name":"NVIDIA H200","bus":"0:1"}},{"rank":1,"host":"gpu2","gpu":{"name":"NVIDIA H200","bus":"0:2"}}]}/' \
    "$scratch/store/20260130/a.json" >"$scratch/gpus.json" && cp "$scratch/store/20260130/a.csv" "$scratch/gpus.csv"
check "the summary names the GPUs and all hosts" eval \
    'ends_with 0 $program -o "$scratch/gpus.html" "$scratch/gpus.csv" && grep -q ">Hosts</th><td>h; gpu1; gpu2</td>.*" "$scratch/gpus.html" && grep -q ">Devices</th><td>2 NVIDIA H200; 64 cores</td>" "$scratch/gpus.html"'
# Red and green are verdicts: neither plots nor pictures use them. gnuplot writes rgb( 31, 119, 180).
strong() { # prints colours of the page's pictures that look red or green
    sed -n '/<svg/,/<\/svg>/p' "$1" | grep -oE 'rgb\( *[0-9]+, *[0-9]+, *[0-9]+\)|#[0-9a-fA-F]{6}' | sort -u | while read -r colour; do
        case $colour in
        '#'*) echo "$((16#${colour:1:2})) $((16#${colour:3:2})) $((16#${colour:5:2}))" ;;
        *) echo "${colour//[^0-9 ]/}" ;;
        esac
    done | awk '($1 > 1.6 * $2 && $1 > 1.6 * $3 && $1 > 90) || ($2 > 1.3 * $1 && $2 > 1.3 * $3 && $2 > 90)'
}
check "plots and pictures have no red and no green" eval '[ -z "$(strong "$page")" ]'
echo '<svg><path stroke="rgb(214,  39,  40)"/></svg>' >"$scratch/red"
check "a red line would be found" eval '[ -n "$(strong "$scratch/red")" ]'
if command -v gnuplot >/dev/null; then
    # A group that lacks the first candidate of another one.
    { cat "$scratch/store/20260101/a.csv"; sed 1d "$scratch/store/20260101/a.csv" | sed 's/,weir,ring,/,nccl:2.30.1,,/; s/,n1,/,m1,/'; sed 1d "$scratch/store/20260101/a.csv" | sed 's/,float,/,half,/'; } >"$scratch/two.csv"
    one_colour() {
        ends_with 0 $program -o "$scratch/two.html" "$scratch/two.csv" || return
        # The colours of the lines in the section of half, which has weir alone, and of those of float.
        [ "$(sed -n '/half sum, 4 ranks/,$p' "$scratch/two.html" | grep -c '<svg')" -ge 2 ] &&
            [ "$(grep -oE "stroke='var\(--c[0-9],#[0-9a-f]{6}\)'" "$scratch/two.html" | sort -u | wc -l)" -eq 2 ]
    }
    check "a candidate has the same colour in plots with and without others" one_colour
fi
check "manifest entries that are equal are not listed" lacks "<td>same</td>"
sed 's/,weir,ring,/,nccl:2.30.1,,/; s/,n1,/,m1,/' "$scratch/store/20260101/a.csv" >"$scratch/peer.csv"
check "a peer's results compared with weir's end with 0" \
    ends_with 0 $program -o "$scratch/cross.html" "$scratch/peer.csv" "$scratch/store/20260130"
check "a comparison with a peer names both candidates and the algorithm" \
    grep -q '<td>weir beside nccl:2.30.1</td><td>ring</td>' "$scratch/cross.html"
mkdir "$scratch/one" && cp -r "$scratch/store/20260101" "$scratch/one"
check "a store with one run gives no history" eval '
    ends_with 0 $program -o "$scratch/one.html" --store "$scratch/one" "$scratch/store/20260102" latest && ! grep -q "nights" "$scratch/one.html"'
check "manifests that differ in process, free memory, power and temperature alone are reported as equal" \
    grep -q 'No differences between the manifests' "$scratch/one.html"
if command -v gnuplot >/dev/null; then
    check "the report of a store has three plots and one per size" plots 6
fi
# A real browser parses the page; every section and plot must be in its document.
browser=$(command -v chromium || command -v google-chrome || true)
if [ -n "$browser" ] && command -v gnuplot >/dev/null; then
    browser_sees_all() {
        timeout 60 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$scratch/browser" \
            --dump-dom "file://$page" >"$out" 2>"$err" </dev/null
        [ "$(grep -c '<svg' "$out")" -eq 6 ] && [ "$(grep -c '</section>' "$out")" -eq 4 ]
    }
    check "a browser's document has all sections and plots" browser_sees_all
    # The page does not scroll sideways at the width of a desktop or phone screen, with all rows
    # open. Browser windows have a minimum width, so the page is shown in frames, without its
    # Content-Security-Policy.
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
    check "the page fits the width of desktop and phone screens" fits
fi
{ echo "$header"; sed -n 2p "$scratch/store/20260101/a.csv" | sed "s|,weir,|,\"<script>x</script>' ; system('touch $scratch/owned')\",|"; } >"$scratch/evil.csv"
check "a report with a script as a name ends with 0" \
    ends_with 0 $program -o "$page" "$scratch/evil.csv"
check "a script as a name is escaped in the page" eval 'lacks "<script>" && has "&lt;script"'
check "a shell command in a name is not run" test ! -e "$scratch/owned"
# Links and topology: the fast link has 100 GB/s and 1 us, so 1 KiB in 5 us reaches 20%, as does
# 1 MiB.
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
check "links and topology in the results' folders are read" \
    ends_with 0 $program -o "$page" "$machine/r1-x.csv"
check "links and topology give a section with a picture and a table" \
    eval 'has "id=\"machine\"" && has "class=\"machine\"" && has " style=\"width:" && has ">90.0<" && has "--heat:70%" && has "GB/s of one link alone"'
check "the navigation links the section" has '<a href="#machine">'
if [ -n "$browser" ] && command -v gnuplot >/dev/null; then
    check "the section of links and topology fits desktop and phone screens" fits
fi
check "rows have their percentage of the links' ceiling" \
    eval 'has "% of ceiling" && has "Percent of what the machine"'
if [ -e /tmp/links.txt ] || [ -e /tmp/topology.json ] || [ -e /links.txt ] || [ -e /topology.json ]; then
    skip "links and topology of the working folder are not used for results elsewhere" \
        "/tmp or / contains such files"
else
    elsewhere=$(mktemp /tmp/weir-report-XXXXXX.csv)
    cp "$scratch/store/20260101/a.csv" "$elsewhere"
    (cd "$scratch/machine" && "$OLDPWD/$program" -o "$page" "$elsewhere") >"$out" 2>"$err"
    check "links and topology of the working folder are not used for results elsewhere" \
        eval 'has "</html>" && lacks "id=\"machine\""'
    rm -f "$elsewhere"
fi
mkdir -p "$scratch/machine/other/c"
cp "$machine/r1-x.csv" "$scratch/machine/other/c"
check "links and topology two folders up are not used outside nightly's folder layout" eval \
    'ends_with 0 $program -o "$page" "$scratch/machine/other/c/r1-x.csv" && lacks "id=\"machine\""'
echo '{"processor": "<b>p", "numa": [{"numa": -7, "memory_bytes": "x"}, 5], "gpus": [{"name": "<i>g", "nic": 99999999999}, null, []], "nics": {}}' \
    >"$scratch/machine/topology.json"
check "a topology with invalid values ends with 0" \
    ends_with 0 $program -o "$page" "$machine/r1-x.csv"
check "a topology with invalid values is shown as far as possible, escaped" \
    eval 'has "&lt;b&gt;p" && lacks "<b>p" && lacks "<i>g"'
echo '{"numa": [' >"$scratch/machine/topology.json"
sed -i 's/^pair 1 0 .*/pair 1 0 fast/' "$scratch/machine/links.txt"
check "malformed links and topology are reported with file and line, and left out" \
    eval 'ends_with 0 $program -o "$page" "$machine/r1-x.csv" &&
    grep -q "links.txt:6: " "$err" && grep -q "topology.json:" "$err" && lacks "id=\"machine\""'
check "malformed links given by --links end with 3" \
    ends_with 3 $program -o "$page" --links "$scratch/machine/links.txt" "$machine/r1-x.csv"
check "a missing source ends with 3" ends_with 3 $program -o "$page" "$scratch/none"
check "no source is a usage error" ends_with 2 $program
check "a page that cannot be written ends with 3" ends_with 3 $program -o "$scratch/none/page" results/sample.csv
check "--help ends with 0" ends_with 0 $program --help
check "--help lists --version and --help" eval 'grep -q "^  *--version " "$out" && grep -q "^  *--help " "$out"'
check "--version prints the version" eval 'ends_with 0 $program --version && grep -q "^weir-report: weir [0-9]" "$out"'
check "weir-report leaves no temporary files" eval '[ -z "$(ls "$TMPDIR")" ]'
tap_done
