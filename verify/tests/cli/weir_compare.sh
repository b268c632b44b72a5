#!/bin/bash
# weir-compare: verdicts, missing rows, formats, the store, expectations, bad input, exit codes.
set -u
. verify/tests/support/tap.sh

program=./weir-compare
if [ ! -x $program ]; then
    skip "weir-compare" "not built here: no GSL or no jansson"
    tap_done
fi
store=$scratch/store
header='schema,run_id,utc,host,collective,backend,transport,nranks,nnodes,contender,algo,dtype,redop,root,placement,bytes,count,iters,median_us,min_us,max_us,p99_us,ci_low_us,ci_high_us,algbw_gbs,busbw_gbs,verify,wrong'

# A row: run, bytes, median, [contender, [host]]. Its interval is 1% to both sides.
row() {
    awk -v run="$1" -v bytes="$2" -v us="$3" -v who="${4:-weir}" -v host="${5:-h}" 'BEGIN {
        printf "1,%s,2026-01-01T00:00:00Z,%s,allreduce,cuda,cuda_ipc,4,1,%s,ring,float,sum,-1,out,", run, host, who
        printf "%s,2,20,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,,,pass,0\n", bytes, us, us * .95, us * 1.2, us * 1.1, us * .99, us * 1.01 }'
}
# A file of a start: name, factor on all times, factor on 4096 bytes alone.
start() {
    local bytes
    {
        echo "$header"
        for bytes in 8 64 512 4096 32768 262144; do
            row "${1##*/}" $bytes "$(awk -v b=$bytes -v all="$2" -v one="$3" 'BEGIN { print (10 + b / 1000) * all * (b == 4096 ? one : 1) }')"
        done
    } >"$1"
}
has() { grep -qE -- "$1" "$out"; }
lacks() { ! grep -qE -- "$1" "$out"; }
errs() { grep -qE -- "$1" "$err"; }

mkdir -p "$scratch/a" "$scratch/b" "$scratch/slow" "$store"
i=0
for factor in 1.00 1.01 0.99 1.004; do
    i=$((i + 1))
    start "$scratch/a/r$i-x.csv" $factor 1.0
    start "$scratch/b/r$i-x.csv" "$(awk -v f=$factor 'BEGIN { print f * 1.002 }')" 1.0
    start "$scratch/slow/r$i-x.csv" "$(awk -v f=$factor 'BEGIN { print f * 1.002 }')" 1.10
done
for f in "$scratch"/{b,slow}/*.csv; do sed -i "s/,r\([0-9]\)-x/,b\1/" "$f"; done

# Verdicts.
check "a file beside itself shows no difference" ends_with 0 $program results/sample.csv results/sample.csv
check "  ... and says so" has ' 0 improved, 1 inconclusive, 21 no difference'
check "four starts that are alike end with 0" ends_with 0 $program "$scratch/a" "$scratch/b"
check "  ... no difference in 6 rows" has '0 regressed, 0 improved, 0 inconclusive, 6 no difference'
check "  ... the noise was measured" has 'measured in 6 rows; an assumed 2% worth 2 degrees'
check "one row 1.10x slower ends with 1" ends_with 1 $program "$scratch/a" "$scratch/slow"
check "  ... that row alone" has '1 regressed, 0 improved, 0 inconclusive, 5 no difference'
check "  ... it is 4096 bytes" has '^ +4096 .*regressed'
check "the other way round it is improved, which ends with 0" ends_with 0 $program "$scratch/slow" "$scratch/a"
check "  ... and says so" has 'Verdict: improved'
check "below the practical threshold it is no alarm" ends_with 0 $program --min-effect 12% "$scratch/a" "$scratch/slow"
check "one start a side and 5% is inconclusive where noise may be 8%" \
    ends_with 0 $program --start-noise 8% "$scratch/a/r1-x.csv" "$scratch/slow/r1-x.csv"
check "  ... with the reason" has 'inconclusive: one run per side'
sed 's/,pass,0$/,fail,17/; s/,20,[0-9.,]*,fail/,20,,,,,,,,,fail/' "$scratch/b/r1-x.csv" >"$scratch/wrong.csv"
sed 's/,\([0-9.]*\),\([0-9.]*\),,,pass/,1.0,99.0,,,pass/' "$scratch/a/r1-x.csv" >"$scratch/wide.csv"
check "wide intervals of one start a side" ends_with 0 $program --start-noise 8% "$scratch/wide.csv" "$scratch/slow/r1-x.csv"
check "  ... add to what is assumed, and both are told" has "is assumed to be 8% .*, [1-9][0-9]+% including the rows' own"
{ cat "$scratch/a/r1-x.csv"; sed 's/,cuda,cuda_ipc,/,host,shm,/' "$scratch/b/r1-x.csv"; } >"$scratch/mixed.csv"
check "what is assumed of GPUs and of the host" ends_with 0 $program "$scratch/mixed.csv" "$scratch/mixed.csv"
check "  ... is told apart" has "assumed to be 2% on GPUs, 8% on the host"
check "wrong results in B end with 1" ends_with 1 $program "$scratch/a/r1-x.csv" "$scratch/wrong.csv"
check "  ... with the reason" has 'regressed: wrong results in B'

# Missing rows and contenders.
grep -v ,512, "$scratch/b/r1-x.csv" >"$scratch/less.csv"
check "a missing row is named" ends_with 0 $program "$scratch/a/r1-x.csv" "$scratch/less.csv"
check "  ... with its size" has '^ +512 .*missing in B'
check "nothing in common ends with 3" ends_with 3 $program --json "$scratch/none.json" results/sample.csv "$scratch/a"
check "  ... and no noise is told" eval 'has "Noise: unknown: no compared row" && grep -q "\"start_noise\": null" "$scratch/none.json"'
{ echo "$header"; row r 8 10; row r 8 12 nccl:2.28.3; } >"$scratch/two.csv"
check "contenders of one file against each other" ends_with 0 $program --contender-a nccl --contender-b weir "$scratch/two.csv" "$scratch/two.csv"
check "  ... is B/A of them" has ' 0\.833 '
{ echo "$header"; row s 8 10; row s 8 12 nccl:2.30.1; } >"$scratch/newer.csv"
check "another version of a peer is the same contender" ends_with 0 $program "$scratch/two.csv" "$scratch/newer.csv"
check "  ... both match" lacks 'missing in A$'
{ echo "$header"; row r 8 10; row r 8 10; row r 64 11; } >"$scratch/double.csv"
check "a row twice is told with both lines" ends_with 0 $program "$scratch/double.csv" "$scratch/two.csv"
check "  ... by file and line" errs 'double.csv:3: the same measurement as .*double.csv:2, or a later cycle of -N; row left out'
{ cat "$scratch/two.csv"; row r 8 10 | sed 's/,20,[0-9.,]*,pass,0$/,20,,,,,,,,,fail,17/'; } >"$scratch/cycles.csv"
check "a cycle with wrong results is not left out" ends_with 1 $program "$scratch/two.csv" "$scratch/cycles.csv"
check "  ... and is told" eval 'has "regressed: wrong results in B" && errs "cycles.csv:4: .* only its failure counts"'

# Bad input: told with its line, the rest compared, names made harmless.
{ head -n 3 "$scratch/a/r1-x.csv"; echo '1,cut,2026'; tail -n 3 "$scratch/a/r1-x.csv"; } >"$scratch/cut.csv"
check "a line that was cut off does not end the comparison" ends_with 0 $program "$scratch/cut.csv" "$scratch/b/r1-x.csv"
check "  ... and is told by file and line" errs 'cut.csv:4: 3 fields'
head -c 3000 /dev/urandom >"$scratch/binary.csv"
check "a binary file ends with 3" ends_with 3 $program "$scratch/binary.csv" "$scratch/a"
: >"$scratch/empty.csv"
check "an empty file ends with 3" ends_with 3 $program "$scratch/empty.csv" "$scratch/a"
check "  ... and is told" errs 'empty.csv: empty file'
mkdir "$scratch/pipes" && cp "$scratch/a/r1-x.csv" "$scratch/pipes"
mkfifo "$scratch/pipe.csv" "$scratch/pipes/r2-x.csv" "$scratch/pipes/r1-x.json"
check "a pipe that nobody writes is not waited for" ends_with 3 timeout 20 $program "$scratch/pipe.csv" "$scratch/a"
check "  ... and is told" errs 'pipe.csv: not a regular file'
check "  ... in a folder it is no file" ends_with 0 timeout 20 $program "$scratch/pipes" "$scratch/a"
if [ -x ./weir-report ]; then
    check "  ... and beside results no manifest" ends_with 0 timeout 20 ./weir-report -o "$scratch/pipes.html" "$scratch/pipes" "$scratch/pipes"
fi
truncate -s 257M "$scratch/huge.csv"
check "a huge file ends with 3" ends_with 3 $program "$scratch/huge.csv" "$scratch/a"
check "  ... and is told" errs 'huge.csv: files of more than 268435456 bytes are not read'
check "a missing file ends with 3" ends_with 3 $program "$scratch/none.csv" "$scratch/a"
{ echo "$header"; row r 8 10 '<script>|x|'; } >"$scratch/html.csv"
check "HTML in a name" ends_with 0 $program --markdown "$scratch/html.md" --junit "$scratch/html.xml" --json "$scratch/html.json" "$scratch/html.csv" "$scratch/html.csv"
check "  ... is none in Markdown, nor cells" eval '! grep -q "<script\|[|]x[|]" "$scratch/html.md"'
check "  ... nor in XML" eval '! grep -q "<script" "$scratch/html.xml"'
if command -v xmllint >/dev/null; then
    check "  ... which is well formed" ends_with 0 xmllint --noout "$scratch/html.xml"
fi
check "a formula in a name" eval '{ echo "$header"; row r 8 10 weir "=cmd()"; } >"$scratch/formula.csv"; ends_with 0 $program --csv "$scratch/formula.out.csv" "$scratch/formula.csv"'
check "  ... is none in what is written" eval '! grep -q ",=cmd" "$scratch/formula.out.csv"'

# Other tools' logs; the store; patterns; expectations.
cat >"$scratch/nccl.log" <<'LOG'
# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22803
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 64 step: 8(factor) warmup iters: 5 iters: 20
#  Rank  3 Group  0 Pid    991 on          h device  3 [0000:00:06] NVIDIA H200
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
           8             2     float     sum      -1    20.45    0.00    0.00       0     8.30    0.00    0.00       0
h:991:1000 [0] NCCL INFO a line between
          64            16     float     sum      -1    20.13    0.00    0.01       0     9.04    0.00    0.01       0
LOG
check "nccl-tests stands beside weir in Markdown" eval '$program --format markdown "$scratch/nccl.log" "$scratch/a" 2>"$err" | grep -q "| 8 | allreduce .* weir beside nccl:2.28.3 |"'
check "a log of nccl-tests beside our CSV" ends_with 0 $program "$scratch/nccl.log" "$scratch/a"
check "  ... side by side" has '^ +8 +allreduce .* 20\.45 +10\.0. .*improved'
# NCCL_TESTS_LOGS: a folder of real logs of nccl-tests, each of 12 sizes or more.
for log in ${NCCL_TESTS_LOGS:+"$NCCL_TESTS_LOGS"/*.txt}; do
    check "$(basename "$log") is read whole" eval 'ends_with 0 $program --csv "$scratch/log.csv" "$log" && test ! -s "$err" && test "$(wc -l <"$scratch/log.csv")" -ge 24'
done
cp -r "$scratch/a" "$store/20260101-a"
cp -r "$scratch/slow" "$store/20260102-slow"
check "a store without a baseline says how to have one" ends_with 3 $program --store "$store" baseline latest
check "  ... " errs -- --accept
check "a path is no run folder" ends_with 3 $program --store "$store" --accept ../a
check "a run folder becomes the baseline" ends_with 0 $program --store "$store" --accept 20260101-a
check "baseline and latest of a store" ends_with 1 $program --store "$store" baseline latest
check "a pattern" ends_with 0 $program "$scratch/a/r[12]-*.csv" "$scratch/b"
cat >"$scratch/floors" <<'FLOORS'
allreduce 256K >= 1 GB/s   # met
allreduce 8 <= 2 us
allreduce 4K dtype=half >= 1 GB/s

# A remark alone.
FLOORS
check "an expectation that is missed by far ends with 1" ends_with 1 $program --expect "$scratch/floors" "$scratch/a"
check "  ... met, unmet, absent" eval 'has "256K.*: met" && has "8 <= 2 us: unmet .10.*, float sum, 4 ranks, out, weir ring.$" && has "half.*: absent$"'
# Beside a line that is met.
for wrong in "foo bar" "allreduce 4K > 1" "allreduce 8 => 5 us" "allreduce 8 bogus=3 >= 350 GB/s" \
    "allreduce 8 ranks=0 <= 90 us" "allreduce 8 <= 90 us xyz" "allreduce 8 $(printf 'algbw %.0s' {1..20}) <= 90 us"; do
    printf 'allreduce 8 <= 1000 us\n%s\n' "$wrong" >"$scratch/typo"
    check "an expectation that is none is usage: ${wrong:0:40}" ends_with 2 $program --expect "$scratch/typo" "$scratch/a"
    check "  ... told by file and line, and nothing else is" eval 'errs "typo:2: .${wrong:0:20}" && test ! -s "$out"'
done
for wrong in '' '# nothing' 'allreduce 8 <= 1000 us\n\0allreduce 8 <= 5 us'; do
    printf '%b\n' "$wrong" >"$scratch/typo"
    check "a file without expectations is usage: '$wrong'" ends_with 2 $program --expect "$scratch/typo" "$scratch/a"
    check "  ... and is told" errs 'typo: .* expected lines such as'
done
check "expectations that cannot be read end with 3" ends_with 3 $program --expect "$scratch/none" "$scratch/a"
echo 'allreduce 512 >= 0.01 GB/s' >"$scratch/low"
check "a floor that wrong results have ends with 1" ends_with 1 $program --expect "$scratch/low" --junit "$scratch/low.xml" --json "$scratch/low.json" --markdown "$scratch/low.md" "$scratch/wrong.csv"
check "  ... and says so" eval 'has "512 >= 0.01 GB/s: unmet .wrong results, float sum" && grep -q "<failure message=\"unmet: wrong results" "$scratch/low.xml" &&
    grep -q "\"got\": null, \"about\": \"wrong results" "$scratch/low.json" && grep -q "unmet (wrong results, " "$scratch/low.md"'
{ echo "$header"; row r 8 10; row r 8 90 nccl:2.28.3; row r 8 20 | sed 's/,ring,/,tree,/'; } >"$scratch/peers.csv"
printf 'allreduce 8 <= 25 us\nallreduce 8 algo=ring <= 12 us\nallreduce 8 contender=nccl <= 80 us\n' >"$scratch/words"
check "a floor is weir's if no contender is named" ends_with 1 $program --expect "$scratch/words" "$scratch/peers.csv"
check "  ... or of one algorithm, or of a peer" eval 'has "<= 25 us: met" && has "ring <= 12 us: met" && has "<= 80 us: unmet .90,"'
sed -i 2d "$scratch/floors"
check "an expectation without a row ends with 3" ends_with 3 $program --expect "$scratch/floors" "$scratch/a"

# Every file that the repository has, of whatever schema, is read whole.
read_whole() {
    local file
    for file in results/record/*.csv results/example/*.csv; do
        ends_with 0 $program --csv "$scratch/whole.csv" "$file" && [ ! -s "$err" ] || return 1
        [ "$(wc -l <"$file")" -eq "$(wc -l <"$scratch/whole.csv")" ] || return 1
    done
}
check "result files of all schemas are read whole" read_whole

# CSV to rows to JSON to rows to CSV. Of the newest schema it is the file itself.
newest=$(sed -n 's/^ *X([A-Z0-9_]*, \([a-z0-9_]*\), .*/\1/p' lib/base/columns.h | tail -n 1)
round_trip() {
    local file first again
    for file in results/record/*.csv results/example/*.csv "$scratch/nccl.log"; do
        first=$scratch/first again=$scratch/again
        ends_with 0 $program --csv "$first.csv" --rows-json "$first.json" "$file" &&
            ends_with 0 $program --csv "$again.csv" --rows-json "$again.json" "$first.json" &&
            [ ! -s "$err" ] && cmp "$first.csv" "$again.csv" && cmp "$first.json" "$again.json" || return 1
        ! head -n 1 "$file" | grep -q ",$newest\$" || cmp "$file" "$again.csv" || return 1
    done
}
check "rows written as JSON give the same rows, and the same file" round_trip
check "a folder as JSON is the folder's rows" eval 'ends_with 0 $program --rows-json "$scratch/folder.json" "$scratch/a" &&
    ends_with 0 $program "$scratch/folder.json" "$scratch/b" && has "6 no difference" && ! errs "same measurement"'
check "JSON that cannot be written ends with 3" ends_with 3 $program --rows-json "$scratch/none/x.json" "$scratch/a"

# Formats and usage.
check "JSON" ends_with 1 $program --format json "$scratch/a" "$scratch/slow"
if command -v jq >/dev/null; then
    check "  ... has the verdicts" eval 'test "$(jq -r ".verdict, (.rows | length), (.rows[] | select(.verdict == \"regressed\") | .bytes)" "$out" | xargs)" = "regressed 6 4096"'
fi
check "JUnit" ends_with 1 $program --format junit "$scratch/a" "$scratch/slow"
check "  ... one failure" has 'tests="6" failures="1" skipped="0"'
check "rows worth measuring again" ends_with 1 $program --suspects "$scratch/suspects" "$scratch/a" "$scratch/slow"
check "  ... the slow one" eval 'test "$(cat "$scratch/suspects")" = allreduce,float,sum,4,4096'
check "only those" ends_with 1 $program --only "$scratch/suspects" "$scratch/a" "$scratch/slow"
check "  ... one row" has '1 regressed, 0 improved, 0 inconclusive, 0 no difference, 0 missing'
for wrong in --bogus "--min-effect x" "--format x" "--alpha 7" --store "--ranks 0"; do
    # Words to split.
    # shellcheck disable=SC2086
    check "usage: $wrong" ends_with 2 $program "$scratch/a" "$scratch/b" $wrong
done
check "one source alone is usage" ends_with 2 $program "$scratch/a"
check "--help ends with 0" ends_with 0 $program --help
# A store in one file.
nights=$scratch/nights.db
if $program --store "$nights" --add 1 results/sample.csv 2>&1 | grep -q 'has no SQLite'; then
    skip "a store in one file" "not built here: no SQLite"
else
    check "a store in one file: a run is added" test -s "$nights"
    sed 's/-120000-1/-120000-2/' results/sample.csv >"$scratch/second.csv"
    check "  ... and another one" ends_with 0 $program --store "$nights" --add 2 "$scratch/second.csv"
    check "  ... a name is used once" eval 'ends_with 3 $program --store "$nights" --add 2 results/sample.csv &&
        grep -q "names are used once" "$err"'
    for word in latest baseline ''; do
        check "  ... no name is '$word'" eval 'ends_with 2 $program --store "$nights" --add "$word" results/sample.csv &&
            one_line_says "--add needs a name other than latest and baseline" "'$word'"'
    done
    check "  ... gives back what was read, losing nothing" eval '$program --store "$nights" --csv "$scratch/back.csv" latest >"$out" 2>"$err";
        $program --csv "$scratch/direct.csv" "$scratch/second.csv" >"$out" 2>"$err"; cmp "$scratch/back.csv" "$scratch/direct.csv"'
    check "  ... has a baseline once one is accepted" eval '! $program --store "$nights" baseline latest >"$out" 2>"$err" &&
        grep -q "has no baseline" "$err" && ends_with 0 $program --store "$nights" --accept 1 &&
        ends_with 0 $program --store "$nights" baseline latest'
    check "  ... names a run that is not there" eval 'ends_with 3 $program --store "$nights" 7 latest && grep -q "nor a run of" "$err"'
    check "  ... which cannot be accepted" ends_with 3 $program --store "$nights" --accept 7
    head -c 2000 "$nights" >"$scratch/cut.db"
    check "a file that is cut off is named" eval '! $program "$scratch/cut.db" results/sample.csv >"$out" 2>"$err" && grep -q "cut.db" "$err"'
    { printf 'SQLite format 3\0'; printf "%4096d" 0; } >"$scratch/other.db"
    check "  ... and what is wrong with a file that is no store" eval 'ends_with 3 $program --store "$scratch/other.db" --accept 1 && grep -q "not a database" "$err" &&
        ends_with 3 $program --store "$scratch/other.db" latest baseline && grep -q "not a database" "$err"'
    if python3 -c 'import sqlite3, sys; sys.exit(sqlite3.sqlite_version_info < (3, 35))' 2>/dev/null; then
        python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute("ALTER TABLE rows DROP COLUMN dist")' "$nights"
        check "a store of an earlier schema has empty columns for later ones" eval 'ends_with 0 $program --store "$nights" --csv "$scratch/back.csv" latest &&
            cmp "$scratch/back.csv" "$scratch/direct.csv"'
        check "  ... and takes runs of this one" eval 'ends_with 0 $program --store "$nights" --add 3 results/sample.csv &&
            ends_with 0 $program --store "$nights" 1 3'
    else
        skip "a store of an earlier schema" "python3 with SQLite 3.35 is not here to make one"
    fi
    check "a name that is a statement stays a name" eval 'ends_with 0 $program --store "$nights" --add "x'"'"'); DROP TABLE rows; --" results/sample.csv &&
        ends_with 0 $program --store "$nights" 1 2'
fi
tap_done
