#!/bin/bash
# weir-compare: verdicts and their exit codes, missing rows, input and output formats, the store of
# runs, expectations (--expect), and malformed input. Run from the repository's root.
set -u
. verify/tests/support/tap.sh

program=./weir-compare
if [ ! -x $program ]; then
    skip "weir-compare" "not built here: no GSL or no jansson"
    tap_done
fi
store=$scratch/store
header='schema,run_id,utc,host,collective,backend,transport,nranks,nnodes,contender,algo,dtype,redop,root,placement,bytes,count,iters,median_us,min_us,max_us,p99_us,ci_low_us,ci_high_us,algbw_gbs,busbw_gbs,verify,wrong'

# row RUN BYTES MEDIAN [CANDIDATE [HOST]]: prints a row whose interval is the median +- 1%.
row() {
    awk -v run="$1" -v bytes="$2" -v us="$3" -v candidate="${4:-weir}" -v host="${5:-h}" 'BEGIN {
        printf "1,%s,2026-01-01T00:00:00Z,%s,allreduce,cuda,cuda_ipc,4,1,%s,ring,float,sum,-1,out,", run, host, candidate
        printf "%s,2,20,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,,,pass,0\n", bytes, us, us * .95, us * 1.2, us * 1.1, us * .99, us * 1.01 }'
}
# write_run FILE FACTOR FACTOR_4096: writes the file of one run. FACTOR multiplies all times,
# FACTOR_4096 those of 4096 bytes too.
write_run() {
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
    write_run "$scratch/a/r$i-x.csv" $factor 1.0
    write_run "$scratch/b/r$i-x.csv" "$(awk -v f=$factor 'BEGIN { print f * 1.002 }')" 1.0
    write_run "$scratch/slow/r$i-x.csv" "$(awk -v f=$factor 'BEGIN { print f * 1.002 }')" 1.10
done
for f in "$scratch"/{b,slow}/*.csv; do sed -i "s/,r\([0-9]\)-x/,b\1/" "$f"; done

# Verdicts. One row of results/sample.csv has wrong results.
grep -v ',fail,' results/sample.csv >"$scratch/sound.csv"
check "a file compared with itself ends with 0" \
    ends_with 0 $program "$scratch/sound.csv" "$scratch/sound.csv"
check "a file compared with itself has no row with a difference" \
    has ' 0 improved, 0 inconclusive, 21 no difference'
check "a file with a wrong row compared with itself ends with 1" \
    ends_with 1 $program results/sample.csv results/sample.csv
check "the wrong row is regressed, whatever A has" has 'regressed: wrong results in A and B$'
check "its other rows have no difference" has '1 regressed, 0 improved, 0 inconclusive, 21 no difference'
check "four equal runs per side end with 0" ends_with 0 $program "$scratch/a" "$scratch/b"
check "four equal runs per side have no difference in 6 rows" \
    has '0 regressed, 0 improved, 0 inconclusive, 6 no difference'
check "four runs per side: the noise between runs is measured" \
    has 'measured in 6 rows; an assumed 2% worth 2 degrees'
check "one row that is 1.10x slower ends with 1" ends_with 1 $program "$scratch/a" "$scratch/slow"
check "only the slower row is regressed" \
    has '1 regressed, 0 improved, 0 inconclusive, 5 no difference'
check "the regressed row has 4096 bytes" has '^ +4096 .*regressed'
check "one row that is faster ends with 0" ends_with 0 $program "$scratch/slow" "$scratch/a"
check "the verdict of a faster row is improved" has 'Verdict: improved'
check "a slower row below --min-effect ends with 0" \
    ends_with 0 $program --min-effect 12% "$scratch/a" "$scratch/slow"
check "a slower row of one run per side, within the assumed noise, ends with 0" \
    ends_with 0 $program --start-noise 8% "$scratch/a/r1-x.csv" "$scratch/slow/r1-x.csv"
check "one run per side, within the assumed noise, is inconclusive with the reason" \
    has 'inconclusive: one run per side'
sed 's/,pass,0$/,fail,17/; s/,20,[0-9.,]*,fail/,20,,,,,,,,,fail/' "$scratch/b/r1-x.csv" >"$scratch/wrong.csv"
sed 's/,\([0-9.]*\),\([0-9.]*\),,,pass/,1.0,99.0,,,pass/' "$scratch/a/r1-x.csv" >"$scratch/wide.csv"
check "wide intervals of one run per side end with 0" \
    ends_with 0 $program --start-noise 8% "$scratch/wide.csv" "$scratch/slow/r1-x.csv"
check "wide intervals are added to the assumed noise, and both are reported" \
    has "is assumed to be 8% .*, [1-9][0-9]+% including the rows' own"
{ cat "$scratch/a/r1-x.csv"; sed 's/,cuda,cuda_ipc,/,host,shm,/' "$scratch/b/r1-x.csv"; } >"$scratch/mixed.csv"
check "results of GPUs and of the host in one file end with 0" \
    ends_with 0 $program "$scratch/mixed.csv" "$scratch/mixed.csv"
check "the assumed noise is reported separately for GPUs and for the host" \
    has "assumed to be 2% on GPUs, 8% on the host"
check "wrong results in B end with 1" ends_with 1 $program "$scratch/a/r1-x.csv" "$scratch/wrong.csv"
check "wrong results in B are reported as the reason" has 'regressed: wrong results in B'

# Missing rows and candidates.
grep -v ,512, "$scratch/b/r1-x.csv" >"$scratch/less.csv"
check "a missing row in B ends with 0" \
    ends_with 0 $program "$scratch/a/r1-x.csv" "$scratch/less.csv"
check "a missing row in B is reported with its size" has '^ +512 .*missing in B'
check "files without a common row end with 3" \
    ends_with 3 $program --json "$scratch/none.json" results/sample.csv "$scratch/a"
check "files without a common row have unknown noise, in text and JSON" \
    eval 'has "Noise: unknown: no compared row" && grep -q "\"start_noise\": null" "$scratch/none.json"'
# What is not comparable is refused, or separated from the rest.
sed 's/,cuda_ipc,4,1,/,cuda_ipc,2,1,/' "$scratch/b/r1-x.csv" >"$scratch/ranks.csv"
check "runs of other numbers of ranks are not compared" ends_with 3 $program "$scratch/a" "$scratch/ranks.csv"
check "runs of other numbers of ranks are refused with both numbers" \
    one_line_says "no row of A (24) fits one of B (6): A has 4 ranks, B has 2"
check "without a common row the verdict is the reason, and there is no table" \
    eval 'has "^# Verdict: nothing to compare: A has 4 ranks, B has 2 \(0 regressed, .* 6 missing in A, 6 missing in B\)$" &&
    lacks "^ +[0-9]+ +allreduce|^# +bytes|inconclusive: |Verdict: inconclusive"'
check "Markdown without a common row has the same verdict and no table" \
    eval 'ends_with 3 $program --format markdown "$scratch/a" "$scratch/ranks.csv" &&
    has "^### Verdict: nothing to compare: A has 4 ranks, B has 2$" && lacks "^[|]"'
sed 's/,cuda,cuda_ipc,/,host,shm,/' "$scratch/b/r1-x.csv" >"$scratch/host.csv"
check "GPU memory is not compared with host memory" ends_with 3 $program "$scratch/a" "$scratch/host.csv"
check "the memory of both sides is named" one_line_says "A has GPU memory, B has host memory"
sed 's/,cuda_ipc,4,1,/,cuda_ipc,1,1,/' "$scratch/b/r1-x.csv" >"$scratch/one.csv"
sed 's/,cuda_ipc,4,1,/,cuda_ipc,4,2,/' "$scratch/a/r1-x.csv" >"$scratch/two-nodes.csv"
check "several differences are all named, one rank in the singular" \
    eval 'ends_with 3 $program "$scratch/one.csv" "$scratch/two-nodes.csv" && one_line_says "A has 1 rank, B has 4; A has 1 node, B has 2"'
cat "$scratch/b/r1-x.csv" "$scratch/ranks.csv" | sed '8d' >"$scratch/both.csv"
check "what is comparable is compared" ends_with 0 $program "$scratch/a" "$scratch/both.csv"
check "what is not comparable is named beside it" \
    has '^# Not compared: 6 rows: A has 4 ranks, B has 2 and 4 ranks$'
check "sides that differ in nothing are compared without that line" \
    eval 'ends_with 0 $program "$scratch/a" "$scratch/b" && lacks "Not compared"'
head -n 2 "$scratch/a/r1-x.csv" >"$scratch/single.csv"
check "one row and one run are singular" \
    eval 'ends_with 0 $program "$scratch/single.csv" "$scratch/single.csv" && has "single.csv: 1 row, 1 run,"'
{ echo "$header"; row r 8 10; row r 8 12 nccl:2.28.3; } >"$scratch/two.csv"
check "--contender-a and --contender-b compare two candidates of one file" \
    ends_with 0 $program --contender-a nccl --contender-b weir "$scratch/two.csv" "$scratch/two.csv"
check "the ratio of two candidates is B/A" has ' 0\.833 '
{ echo "$header"; row s 8 10; row s 8 12 nccl:2.30.1; } >"$scratch/newer.csv"
check "two versions of a peer are compared as the same candidate" \
    ends_with 0 $program "$scratch/two.csv" "$scratch/newer.csv"
check "with two versions of a peer no row is missing in A" lacks 'missing in A$'
{ echo "$header"; row r 8 10; row r 8 10; row r 64 11; } >"$scratch/double.csv"
check "a duplicate row does not fail the comparison" \
    ends_with 0 $program "$scratch/double.csv" "$scratch/two.csv"
check "a duplicate row is left out, and reported with both lines" \
    errs 'double.csv:3: the same measurement as .*double.csv:2, or a later cycle of -N; row left out'
mkdir "$scratch/both"
{ echo "$header"; row r 8 10; } >"$scratch/both/z.csv"
cat >"$scratch/both/a.txt" <<'TABLE'
# weir version 0.1.0 nccl-headers=0 nccl-library=0
# Collective test starting: bench_allreduce
# nThread 1 nGpus 1 minBytes 8 maxBytes 8
#  Rank  0 Group  0 Pid  1 on  vm device  0 [0000:00:00] cpus 0
#  Rank  1 Group  0 Pid  2 on  vm device  1 [0000:00:00] cpus 1
#  Rank  2 Group  0 Pid  3 on  vm device  2 [0000:00:00] cpus 2
#  Rank  3 Group  0 Pid  4 on  vm device  3 [0000:00:00] cpus 3
# weir 0.1.0 (12.2.0, release), run r, 2026-11-24T04:07:34Z
#       size         count      type   redop    root     time   algbw   busbw  #wrong
           8             2     float     sum      -1    10.00    0.00    0.00       0
# Out of bounds values : 0 OK
TABLE
check "a printed table beside the CSV of its run is not another run" \
    eval 'ends_with 0 $program "$scratch/both" "$scratch/two.csv" && has "both: .*, 1 run,"'
sed -i 's/, run r, /, run s, /' "$scratch/both/a.txt"
check "the table of another run is" \
    eval 'ends_with 0 $program "$scratch/both" "$scratch/two.csv" && has "both: .*, 2 runs,"'
{ cat "$scratch/two.csv"; row r 8 10 | sed 's/,20,[0-9.,]*,pass,0$/,20,,,,,,,,,fail,17/'; } >"$scratch/cycles.csv"
check "a duplicate row with wrong results ends with 1" \
    ends_with 1 $program "$scratch/two.csv" "$scratch/cycles.csv"
check "a duplicate row with wrong results is reported with its line" \
    eval 'has "regressed: wrong results in B" && errs "cycles.csv:4: .* only its failure counts"'

# Warnings of the manifests.
warning='vm was busy: other processes used 58% of the time'
printf '{"warnings": [{"kind": "load", "text": "%s\\u001b[1m|x|"}, {"kind": "interval", "text": "wide"}]}\n' "$warning" >"$scratch/a/r2-x.json"
echo '{"warnings": []}' >"$scratch/a/r1-x.json"
check "each side's warnings are printed with the number of manifests that have them" \
    eval 'ends_with 0 $program "$scratch/a" "$scratch/b" && has "^# A: warning in 1 of 2 manifests, the first: $warning" &&
    has "^# A: warning in 1 of 2 manifests, the first: wide$" && lacks "# B: warning"'
check "control characters of a warning are not printed" eval 'has "time[?].1m" && ! grep -q "$(printf "\033")" "$out"'
check "one manifest's warning is printed as it is, in Markdown escaped" \
    eval 'ends_with 0 $program "$scratch/b" "$scratch/a/r2-x.csv" && has "^# B: warning: $warning" &&
    ends_with 0 $program --format markdown "$scratch/b" "$scratch/a/r2-x.csv" && has "^B: warning: $warning.*&#124;x"'
check "manifests without warnings add no line" \
    eval 'ends_with 0 $program "$scratch/b" "$scratch/a/r1-x.csv" && lacks "warning"'
rm "$scratch"/a/*.json

# Malformed input is reported with its line, the rest is compared, and names are escaped.
{ head -n 3 "$scratch/a/r1-x.csv"; echo '1,cut,2026'; tail -n 3 "$scratch/a/r1-x.csv"; } >"$scratch/cut.csv"
check "a truncated line does not end the comparison" \
    ends_with 0 $program "$scratch/cut.csv" "$scratch/b/r1-x.csv"
check "a truncated line is reported with file and line" errs 'cut.csv:4: 3 fields'
head -c 3000 /dev/urandom >"$scratch/binary.csv"
check "a binary file ends with 3" ends_with 3 $program "$scratch/binary.csv" "$scratch/a"
: >"$scratch/empty.csv"
check "an empty file ends with 3" ends_with 3 $program "$scratch/empty.csv" "$scratch/a"
check "an empty file is reported with its name" errs 'empty.csv: empty file'
mkdir "$scratch/pipes" && cp "$scratch/a/r1-x.csv" "$scratch/pipes"
mkfifo "$scratch/pipe.csv" "$scratch/pipes/r2-x.csv" "$scratch/pipes/r1-x.json"
check "a named pipe without a writer ends with 3 and does not block" \
    ends_with 3 timeout 20 $program "$scratch/pipe.csv" "$scratch/a"
check "a named pipe is reported as not a regular file" errs 'pipe.csv: not a regular file'
check "a named pipe in a folder is not read" \
    ends_with 0 timeout 20 $program "$scratch/pipes" "$scratch/a"
if [ -x ./weir-report ]; then
    check "weir-report does not read a named pipe as a manifest" \
        ends_with 0 timeout 20 ./weir-report -o "$scratch/pipes.html" "$scratch/pipes" "$scratch/pipes"
fi
truncate -s 257M "$scratch/huge.csv"
check "a huge file ends with 3" ends_with 3 $program "$scratch/huge.csv" "$scratch/a"
check "a huge file is reported with the limit" \
    errs 'huge.csv: files of more than 268435456 bytes are not read'
check "a missing file as A ends with 3" ends_with 3 $program "$scratch/none.csv" "$scratch/a"
check "a missing file is all that is reported" \
    eval 'one_line_says "none.csv: No such file" && test ! -s "$out"'
check "a missing file as B ends with 3, with one line and nothing else" \
    eval 'ends_with 3 $program --markdown "$scratch/absent.md" "$scratch/a" "$scratch/none.csv" &&
    one_line_says "none.csv: No such file" && test ! -s "$out" && test ! -e "$scratch/absent.md"'
{ echo "$header"; row r 8 10 '<script>|x|'; } >"$scratch/html.csv"
check "a name that contains HTML ends with 0" \
    ends_with 0 $program --markdown "$scratch/html.md" --junit "$scratch/html.xml" --json "$scratch/html.json" "$scratch/html.csv" "$scratch/html.csv"
check "HTML and cell separators in a name are escaped in Markdown" \
    eval 'test -s "$scratch/html.md" && ! grep -q "<script\|[|]x[|]" "$scratch/html.md"'
check "HTML in a name is escaped in JUnit's XML" eval 'test -s "$scratch/html.xml" && ! grep -q "<script" "$scratch/html.xml"'
if command -v xmllint >/dev/null; then
    check "JUnit's XML with an HTML name is well-formed" \
        ends_with 0 xmllint --noout "$scratch/html.xml"
fi
check "a name that is a spreadsheet formula ends with 0" \
    eval '{ echo "$header"; row r 8 10 weir "=cmd()"; } >"$scratch/formula.csv"; ends_with 0 $program --csv "$scratch/formula.out.csv" "$scratch/formula.csv"'
check "a name that is a spreadsheet formula is neutralised in the CSV" \
    eval 'test -s "$scratch/formula.out.csv" && ! grep -q ",=cmd" "$scratch/formula.out.csv"'

# Logs of nccl-tests; the store; file patterns; expectations.
cat >"$scratch/nccl.log" <<'LOG'
# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22803
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 64 step: 8(factor) warmup iters: 5 iters: 20
#  Rank  3 Group  0 Pid    991 on          h device  3 [0000:00:06] NVIDIA H200
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
           8             2     float     sum      -1    20.45    0.00    0.00       0     8.30    0.00    0.00       0
h:991:1000 [0] NCCL INFO a line between
          64            16     float     sum      -1    20.13    0.00    0.00       0     9.04    0.00    0.01       0
# Out of bounds values : 0 OK
LOG
check "a log of nccl-tests and weir's CSV are compared in Markdown" \
    eval '$program --format markdown "$scratch/nccl.log" "$scratch/a" 2>"$err" | grep -q "| 8 | allreduce .* weir beside nccl:2.28.3 |"'
check "a log of nccl-tests compared with weir's CSV ends with 0" \
    ends_with 0 $program "$scratch/nccl.log" "$scratch/a"
check "a log of nccl-tests is not compared with host memory" \
    eval 'ends_with 3 $program "$scratch/nccl.log" "$scratch/host.csv" && grep -q "A has GPU memory, B has host memory" "$err"'
check "a log of nccl-tests compared with weir's CSV again" ends_with 0 $program "$scratch/nccl.log" "$scratch/a"
check "a log of nccl-tests and weir's CSV are matched row by row" \
    has '^ +8 +allreduce .* 20\.45 +10\.0. .*faster'
check "between tools nothing improved or regressed: B is faster or slower" \
    eval 'has "[0-9]+ slower, [0-9]+ faster, " && lacks "improved|regressed"'
check "Markdown between tools has the same words" \
    eval 'ends_with 0 $program --format markdown "$scratch/nccl.log" "$scratch/a" && has "[0-9]+ slower, [0-9]+ faster, " && lacks "improved|regressed"'
check "JSON keeps its verdicts, which programs read" \
    eval 'ends_with 0 $program --format json "$scratch/nccl.log" "$scratch/a" && has "improved"'
# NCCL_TESTS_LOGS: a folder with real logs of nccl-tests, each with 12 sizes or more.
for log in ${NCCL_TESTS_LOGS:+"$NCCL_TESTS_LOGS"/*.txt}; do
    check "$(basename "$log") is read completely" \
        eval 'ends_with 0 $program --csv "$scratch/log.csv" "$log" && test ! -s "$err" && test "$(wc -l <"$scratch/log.csv")" -ge 24'
done
cp -r "$scratch/a" "$store/20260101-a"
cp -r "$scratch/slow" "$store/20260102-slow"
check "a store without a baseline ends with 3" ends_with 3 $program --store "$store" baseline latest
check "a store without a baseline is reported with the option to use" errs -- --accept
check "--accept rejects a path outside the store" \
    ends_with 3 $program --store "$store" --accept ../a
check "--accept makes a run folder the baseline" \
    ends_with 0 $program --store "$store" --accept 20260101-a
check "--accept says which one" grep -qx "20260101-a is now the baseline of $store" "$out"
check "baseline and latest of a store are compared" \
    ends_with 1 $program --store "$store" baseline latest
check "a file pattern selects files" ends_with 0 $program "$scratch/a/r[12]-*.csv" "$scratch/b"
cat >"$scratch/floors" <<'FLOORS'
allreduce 256K >= 1 GB/s   # met
allreduce 8 <= 2 us
allreduce 4K dtype=half >= 1 GB/s

# A comment line.
FLOORS
check "an expectation that is not met ends with 1" \
    ends_with 1 $program --expect "$scratch/floors" "$scratch/a"
check "each expectation is reported as met, unmet with the value, or absent" \
    eval 'has "256K.*: met" && has "8 <= 2 us: unmet .10.*, float sum, 4 ranks, out, weir ring.$" && has "half.*: absent$"'
# An invalid line after a line that is met.
for wrong in "foo bar" "allreduce 4K > 1" "allreduce 8 => 5 us" "allreduce 8 bogus=3 >= 350 GB/s" \
    "allreduce 8 place=out place=in <= 90 us" "allreduce 8 busbw algbw >= 1 GB/s" "allreduce 8 ranks=0 <= 90 us" "allreduce 8 <= 90 us xyz" "allreduce 8 $(printf 'algbw %.0s' {1..20}) <= 90 us"; do
    printf 'allreduce 8 <= 1000 us\n%s\n' "$wrong" >"$scratch/typo"
    check "an invalid expectation is a usage error: ${wrong:0:40}" \
        ends_with 2 $program --expect "$scratch/typo" "$scratch/a"
    check "an invalid expectation is reported with file and line, and nothing is printed" \
        eval 'errs "typo:2: .${wrong:0:20}" && test ! -s "$out"'
done
for wrong in '' '# nothing' 'allreduce 8 <= 1000 us\n\0allreduce 8 <= 5 us'; do
    printf '%b\n' "$wrong" >"$scratch/typo"
    check "a file without a valid expectation is a usage error: '$wrong'" \
        ends_with 2 $program --expect "$scratch/typo" "$scratch/a"
    check "a file without a valid expectation is reported with an example" \
        errs 'typo: .* expected lines such as'
done
check "a missing file of expectations ends with 3" \
    ends_with 3 $program --expect "$scratch/none" "$scratch/a"
echo 'allreduce 512 >= 0.01 GB/s' >"$scratch/low"
check "an expectation on wrong results ends with 1" \
    ends_with 1 $program --expect "$scratch/low" --junit "$scratch/low.xml" --json "$scratch/low.json" --markdown "$scratch/low.md" "$scratch/wrong.csv"
check "an expectation on wrong results is unmet in text, JUnit, JSON and Markdown" \
    eval 'has "512 >= 0.01 GB/s: unmet .wrong results, float sum" && grep -q "<failure message=\"unmet: wrong results" "$scratch/low.xml" &&
    grep -q "\"got\": null, \"about\": \"wrong results" "$scratch/low.json" && grep -q "unmet (wrong results, " "$scratch/low.md"'
{ echo "$header"; row r 8 10; row r 8 90 nccl:2.28.3; row r 8 20 | sed 's/,ring,/,tree,/'; } >"$scratch/peers.csv"
printf 'allreduce 8 <= 25 us\nallreduce 8 algo=ring <= 12 us\nallreduce 8 contender=nccl <= 80 us\n' >"$scratch/words"
check "an expectation that a selected algorithm misses ends with 1" \
    ends_with 1 $program --expect "$scratch/words" "$scratch/peers.csv"
check "an expectation applies to weir, to one algorithm, or to a peer" \
    eval 'has "<= 25 us: met" && has "ring <= 12 us: met" && has "<= 80 us: unmet .90,"'
sed -i 2d "$scratch/floors"
check "an expectation without a matching row ends with 3" \
    ends_with 3 $program --expect "$scratch/floors" "$scratch/a"

# Every result file in the repository, of any schema, is read completely.
read_whole() {
    local file
    for file in results/record/*.csv; do
        ends_with 0 $program --csv "$scratch/whole.csv" "$file" && [ ! -s "$err" ] || return 1
        [ "$(wc -l <"$file")" -eq "$(wc -l <"$scratch/whole.csv")" ] || return 1
    done
}
check "result files of all schemas are read completely" read_whole

# Converts CSV to JSON and back. For files of the newest schema the result equals the file.
newest=$(sed -n 's/^ *X([A-Z0-9_]*, \([a-z0-9_]*\), .*/\1/p' lib/programs/columns.h | tail -n 1)
round_trip() {
    local file first again
    for file in results/record/*.csv "$scratch/nccl.log"; do
        first=$scratch/first again=$scratch/again
        ends_with 0 $program --csv "$first.csv" --rows-json "$first.json" "$file" &&
            ends_with 0 $program --csv "$again.csv" --rows-json "$again.json" "$first.json" &&
            [ ! -s "$err" ] && cmp "$first.csv" "$again.csv" && cmp "$first.json" "$again.json" || return 1
        ! head -n 1 "$file" | grep -q ",$newest\$" || cmp "$file" "$again.csv" || return 1
    done
}
check "rows written as JSON read back as the same rows and the same file" round_trip
check "a folder written as JSON has the folder's rows" \
    eval 'ends_with 0 $program --rows-json "$scratch/folder.json" "$scratch/a" &&
    ends_with 0 $program "$scratch/folder.json" "$scratch/b" && has "6 no difference" && ! errs "same measurement"'
check "a JSON file that cannot be written ends with 3" \
    ends_with 3 $program --rows-json "$scratch/none/x.json" "$scratch/a"

# Formats and usage.
check "--format json ends with the verdict's code" \
    ends_with 1 $program --format json "$scratch/a" "$scratch/slow"
if command -v jq >/dev/null; then
    check "--format json has the verdict, the rows and the regressed row" \
        eval 'test "$(jq -r ".verdict, (.rows | length), (.rows[] | select(.verdict == \"regressed\") | .bytes)" "$out" | xargs)" = "regressed 6 4096"'
fi
check "--format junit ends with the verdict's code" \
    ends_with 1 $program --format junit "$scratch/a" "$scratch/slow"
check "--format junit counts the regressed row as a failure" \
    has 'tests="6" failures="1" skipped="0"'
check "--format junit has figures of rows that passed, too" \
    eval 'has "<system-out>time of B divided by the time of A: no difference: 1\.0[0-9]+, expected &lt;= 1.030; B/A .* A [0-9.]+ us, [0-9.]+ GB/s; B [0-9.]+ us, [0-9.]+ GB/s"'
python=$(command -v python3)
# reads FILE EXPRESSION: it is true of the JSON document d of the file.
reads() { "$python" -c "import json, sys; d = json.load(open(sys.argv[1])); sys.exit(not ($2))" "$1"; }
printf 'allreduce 256K >= 1 GB/s\nallreduce 8 <= 2 us\nallreduce 8 <= 2 us\nallreduce 4K dtype=half >= 1 GB/s\n' >"$scratch/floors"
forms=(--ctrf "$scratch/form.ctrf" --prometheus "$scratch/form.prom" --json "$scratch/form.json" --junit "$scratch/form.xml" --markdown "$scratch/form.md")
for arguments in "$scratch/a $scratch/slow" "--expect $scratch/floors $scratch/a" "--contender weir $scratch/peers.csv $scratch/peers.csv"; do
    # The arguments are split into words.
    # shellcheck disable=SC2086
    $program "${forms[@]}" $arguments >"$out" 2>"$err"
    name=${arguments//$scratch\//}
    check "metrics of '$name' are in Prometheus' format" eval '[ -s "$scratch/form.prom" ] &&
        ! grep -vqE "^# (HELP|TYPE) weir_[a-z_]+ .+$|^weir_[a-z_]+(\{([a-z]+=\"([^\"\\\\]|\\\\.)*\",?)+\})? -?[0-9.e+-]+$" "$scratch/form.prom"'
    check "no metric of '$name' is there twice" eval '! sed "s/ [^ ]*$//" "$scratch/form.prom" | sort | uniq -d | grep -q .'
    if [ -n "$python" ]; then
        check "CTRF of '$name' has counts that add up" reads "$scratch/form.ctrf" \
            "d['results']['tool']['name'] == 'weir-compare' and d['results']['summary']['tests'] == len(d['results']['tests']) > 1 and d['results']['summary']['failed'] == sum(t['status'] == 'failed' for t in d['results']['tests'])"
        check "JSON of '$name' has the same checks as CTRF" eval \
            'reads "$scratch/form.json" "[c[\"id\"] for c in d[\"checks\"]] == [t[\"name\"] for t in json.load(open(\"$scratch/form.ctrf\"))[\"results\"][\"tests\"]] and len({c[\"id\"] for c in d[\"checks\"]}) == len(d[\"checks\"])"'
    fi
done
$program "${forms[@]}" --expect "$scratch/floors" "$scratch/a" >"$out" 2>"$err"
check "an expectation's figure, floor and outcome are in JUnit, Markdown and metrics" \
    eval 'grep -q "<failure message=\"unmet: 10.0[0-9] us, expected &lt;= 2.00 us; .*float sum, 4 ranks, out, weir ring\" type=\"unmet\"/>" "$scratch/form.xml" &&
    grep -qE "^\| allreduce 8 &lt;= 2 us \| 10.0[0-9] us \| &lt;= 2.00 us \| unmet \(10" "$scratch/form.md" &&
    grep -q "^weir_compare_ok{check=\"allreduce 8 <= 2 us\",output=\"form\"} 0$" "$scratch/form.prom" && grep -q "^weir_compare_failed{output=\"form\"} 2$" "$scratch/form.prom" &&
    grep -q "^weir_latency_seconds{collective=\"allreduce\",bytes=\"8\",nranks=\"4\",candidate=\"weir\",.*} 1.0[0-9]*e-05$" "$scratch/form.prom"'
check "--format ctrf and prometheus print them" \
    eval 'ends_with 0 $program --format ctrf "$scratch/a" "$scratch/b" && has "\"reportFormat\": \"CTRF\"" && ends_with 0 $program --format prometheus "$scratch/a" "$scratch/b" && has "^weir_compare_exit_code\{output=\"b\"\} 0$"'
check "a report can be written to /dev/stdout, after the text" eval 'ends_with 0 $program --json /dev/stdout "$scratch/a" "$scratch/b" && has "# Verdict" && has "\"schema\": 1"'
ln -s target "$scratch/link" && touch "$scratch/target"
check "a link stays a link" eval 'ends_with 0 $program --json "$scratch/link" "$scratch/a" "$scratch/b" && [ -L "$scratch/link" ] && grep -q schema "$scratch/target"'
check "a report replaces a file at once" eval 'ln -f "$scratch/form.md" "$scratch/before.md" && ends_with 0 $program --markdown "$scratch/form.md" "$scratch/a" "$scratch/b" &&
    ! cmp -s "$scratch/form.md" "$scratch/before.md" && ! ls "$scratch"/form.md.* 2>/dev/null'

# --strict: what could not be decided fails, and is worth measuring again.
head -n 2 "$scratch/sound.csv" >"$scratch/undecided.csv"
sed 's/-120000-1/-120000-2/' "$scratch/undecided.csv" >"$scratch/undecided2.csv"
check "an inconclusive row ends with 0 without --strict" ends_with 0 $program "$scratch/undecided.csv" "$scratch/undecided2.csv"
check "an inconclusive row ends with 1 with --strict" ends_with 1 $program --strict --junit "$scratch/strict.xml" --suspects "$scratch/suspects" "$scratch/undecided.csv" "$scratch/undecided2.csv"
check "it is a failure in JUnit, and a suspect" eval 'grep -q "<failure message=\"inconclusive" "$scratch/strict.xml" && [ "$(wc -l <"$scratch/suspects")" -eq 1 ]'
check "--strict ends with 0 if everything is decided" ends_with 0 $program --strict "$scratch/a" "$scratch/b"
echo 'allreduce 8 dtype=half <= 100 us' >"$scratch/absent"
check "an expectation without a result ends with 1 with --strict" ends_with 1 $program --strict --expect "$scratch/absent" "$scratch/a"
check "--suspects ends with the verdict's code" \
    ends_with 1 $program --suspects "$scratch/suspects" "$scratch/a" "$scratch/slow"
check "--suspects writes the slower row" \
    eval 'test "$(cat "$scratch/suspects")" = allreduce,float,sum,4,4096'
check "--only ends with the verdict's code" \
    ends_with 1 $program --only "$scratch/suspects" "$scratch/a" "$scratch/slow"
check "--only compares only the listed row" \
    has '1 regressed, 0 improved, 0 inconclusive, 0 no difference, 0 missing'
for wrong in --bogus "--min-effect x" "--min-effect 5" "--resolve 10" "--format x" "--alpha 7" --store "--ranks 0"; do
    # The arguments are split into words.
    # shellcheck disable=SC2086
    check "usage error: $wrong" ends_with 2 $program "$scratch/a" "$scratch/b" $wrong
done
check "a percentage is refused with its option" \
    eval 'ends_with 2 $program --resolve 10 "$scratch/a" "$scratch/b" && one_line_says "--resolve 10: expected a percentage such as 3%"'
check "a single source is a usage error" ends_with 2 $program "$scratch/a"
check "--help ends with 0" ends_with 0 $program --help
check "--help has each option with its own text" \
    eval 'has "^  --version +print the version$" && has "^  --help +print this help$" && has "^  --ranks +N +number of ranks"'
check "one of several outputs that cannot be written ends with 3" \
    ends_with 3 $program --json "$scratch/none/x.json" --csv "$scratch/x.csv" "$scratch/sound.csv" "$scratch/sound.csv"
check "--version prints the version" eval 'ends_with 0 $program --version && has "^weir-compare: weir [0-9]"'
# The store in an SQLite file.
nights=$scratch/nights.db
if $program --store "$nights" --add 1 "$scratch/sound.csv" 2>&1 | grep -q 'has no SQLite'; then
    skip "the store in an SQLite file" "not built here: no SQLite"
else
    check "--add creates an SQLite store" test -s "$nights"
    sed 's/-120000-1/-120000-2/' "$scratch/sound.csv" >"$scratch/second.csv"
    check "--add adds a second run" \
        ends_with 0 $program --store "$nights" --add 2 "$scratch/second.csv"
    check "--add rejects a name that exists" \
        eval 'ends_with 3 $program --store "$nights" --add 2 "$scratch/sound.csv" &&
        grep -q "names are used once" "$err"'
    check "--add rejects an empty name" eval 'ends_with 2 $program --store "$nights" --add "" "$scratch/sound.csv" && one_line_says "--add" "expected NAME, not an empty word"'
    for word in latest baseline; do
        check "--add rejects the name '$word'" \
            eval 'ends_with 2 $program --store "$nights" --add "$word" "$scratch/sound.csv" &&
            one_line_says "--add needs a name other than latest and baseline" "'$word'"'
    done
    check "a run in an SQLite store is read back without loss" \
        eval '$program --store "$nights" --csv "$scratch/back.csv" latest >"$out" 2>"$err";
        $program --csv "$scratch/direct.csv" "$scratch/second.csv" >"$out" 2>"$err"; cmp "$scratch/back.csv" "$scratch/direct.csv"'
    check "an SQLite store has a baseline only after --accept" \
        eval '! $program --store "$nights" baseline latest >"$out" 2>"$err" &&
        grep -q "has no baseline" "$err" && ends_with 0 $program --store "$nights" --accept 1 &&
        ends_with 0 $program --store "$nights" baseline latest'
    check "a missing run of an SQLite store is reported" \
        eval 'ends_with 3 $program --store "$nights" 7 latest && grep -q "nor a run of" "$err"'
    check "--accept of a missing run ends with 3" ends_with 3 $program --store "$nights" --accept 7
    head -c 2000 "$nights" >"$scratch/cut.db"
    check "a truncated SQLite store is reported with its name" \
        eval '! $program "$scratch/cut.db" "$scratch/sound.csv" >"$out" 2>"$err" && grep -q "cut.db" "$err"'
    { printf 'SQLite format 3\0'; printf "%4096d" 0; } >"$scratch/other.db"
    check "a file that is not a valid database is reported as such" \
        eval 'ends_with 3 $program --store "$scratch/other.db" --accept 1 && grep -q "not a database" "$err" &&
        ends_with 3 $program --store "$scratch/other.db" latest baseline && grep -q "not a database" "$err"'
    if python3 -c 'import sqlite3, sys; sys.exit(sqlite3.sqlite_version_info < (3, 35))' 2>/dev/null; then
        python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute("ALTER TABLE rows DROP COLUMN dist")' "$nights"
        check "a store of an earlier schema reads later columns as empty" \
            eval 'ends_with 0 $program --store "$nights" --csv "$scratch/back.csv" latest &&
            cmp "$scratch/back.csv" "$scratch/direct.csv"'
        check "a store of an earlier schema accepts runs of the current schema" \
            eval 'ends_with 0 $program --store "$nights" --add 3 "$scratch/sound.csv" &&
            ends_with 0 $program --store "$nights" 1 3'
    else
        skip "a store of an earlier schema" "needs python3 with SQLite 3.35"
    fi
    check "a run name that is an SQL statement is stored as a name" \
        eval 'ends_with 0 $program --store "$nights" --add "x'"'"'); DROP TABLE rows; --" "$scratch/sound.csv" &&
        ends_with 0 $program --store "$nights" 1 2'
fi

# A run's CSV and its printed table in one folder, with values that nccl-tests' table does not have,
# beside reports that a script redirected there.
printed_run() { # FILE TIME_OUT WRONG VERIFY
    {
        echo "$header"
        row "$(basename "$1")" 64 "${2/nan/}" | sed "s/,,,pass,0$/,,,$4,$3/;s/allreduce/alltoall/;s/,sum,/,none,/"
    } >"$1.csv"
    cat >"$1.log" <<EOF
# weir version 0.1.0 nccl-headers=0 nccl-library=0
# Collective test starting: bench_alltoall
# nThread 1 nGpus 4 minBytes 64 maxBytes 64 step: 2(factor) warmup iters: 0 iters: 50 agg iters: 1 validation: 1 graph: 0
#  Rank  0 Group  0 Pid   1 on          h device  0 [0000:00:00] x
#  Rank  3 Group  0 Pid   4 on          h device  3 [0000:00:00] x
# weir 0.1.0 (12.2.0, release), run $(basename "$1"), 2026-01-01T00:00:00Z
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
          64             2     float    none      -1  $2    0.03    0.02   $3      nan     nan     nan    N/A
# Out of bounds values : 0 OK
EOF
}
mkdir -p "$scratch/printed/good" "$scratch/printed/wrong"
for i in 1 2 3; do
    printed_run "$scratch/printed/good/run$i" 1.00 0 pass
    printed_run "$scratch/printed/wrong/run$i" nan 7 fail
done
is_quiet() { ends_with "$@" && [ ! -s "$err" ]; }
check "nan and N/A of a printed table are no problems of a file" \
    is_quiet 0 $program "$scratch/printed/good" "$scratch/printed/good"
check "a run's CSV and printed table in one folder are the rows of one run" \
    has '# A: .*/good: 3 rows, 3 runs'
check "wrong data whose time is nan are no problem of the file" \
    is_quiet 1 $program "$scratch/printed/good" "$scratch/printed/wrong"
check "wrong data in a CSV and its printed table regress one row" \
    has 'Verdict: regressed .1 regressed, 0 improved, 0 inconclusive, 0 no difference'
rm "$scratch"/printed/wrong/*.csv
check "a printed table alone shows wrong data" \
    is_quiet 1 $program "$scratch/printed/good" "$scratch/printed/wrong"
check "a printed table alone is three runs" has '# B: .*/wrong: 3 rows, 3 runs'
: >"$scratch/printed/good/empty.log"
$program "$scratch/printed/good" "$scratch/printed/good" >"$scratch/printed/good/verdict.txt" 2>"$err"
check "a report redirected into a compared folder is no result while it is written" [ ! -s "$err" ]
check "a report and an empty log in a compared folder are skipped" \
    is_quiet 0 $program "$scratch/printed/good" "$scratch/printed/good"
: >"$scratch/printed/good/lost.csv"
ends_with 0 $program "$scratch/printed/good" "$scratch/printed/good"
check "an empty CSV in a compared folder is reported" errs 'lost.csv: empty file'

# Rows that differ in buffers, mode or graphs are different measurements, in one file too.
conditions() { # FILE BUFFERS MODE GRAPH MEDIAN...: a row per median, each a run
    local file=$1 buffers=$2 mode=$3 graph=$4 run=0
    shift 4
    [ -s "$file" ] || echo 'schema,run_id,collective,backend,nranks,nnodes,contender,dtype,redop,root,placement,bytes,count,iters,median_us,ci_low_us,ci_high_us,algbw_gbs,busbw_gbs,verify,wrong,buffers,mode,graph' >"$file"
    for median; do
        echo "6,r$buffers$mode$graph$((run++)),allreduce,cuda,2,1,weir,float,sum,-1,out,1024,256,20,$median,$median,$median,1,1,pass,0,$buffers,$mode,$graph" >>"$file"
    done
}
rm -f "$scratch"/cond-*
conditions "$scratch/cond-a.csv" registered batches 20 10.000 10.100 9.900
conditions "$scratch/cond-a.csv" unregistered batches 20 20.000 20.100 19.900
conditions "$scratch/cond-a.csv" registered batches 0 40.000 40.100 39.900
conditions "$scratch/cond-a.csv" registered latency 0 80.000 80.100 79.900
conditions "$scratch/cond-b.csv" registered latency 0 80.000 80.100 79.900
conditions "$scratch/cond-b.csv" registered batches 10 10.000 10.100 9.900
conditions "$scratch/cond-b.csv" unregistered batches 10 60.000 60.100 59.900
check "rows with other buffers, modes or graphs are not mixed: one of three regresses" ends_with 1 $program "$scratch/cond-a.csv" "$scratch/cond-b.csv"
check "the row that B lacks is missing there, and the number of graph launches does not divide rows" \
    has 'Verdict: regressed .1 regressed, 0 improved, 0 inconclusive, 2 no difference, 0 missing in A, 1 missing in B'
check "what divides the rows is printed" has 'unregistered'
check "two sources with --csv are compared, and B's rows are written" eval 'ends_with 1 $program --csv "$scratch/cond-out.csv" "$scratch/cond-a.csv" "$scratch/cond-b.csv" &&
    [ "$(grep -c "60[.]100\|unregistered" "$scratch/cond-out.csv")" -eq 3 ] && ! grep -q "40[.]000" "$scratch/cond-out.csv"'
conditions "$scratch/cond-c.csv" unregistered back-to-back 0 10.000
conditions "$scratch/cond-d.csv" registered latency 7 10.000
ends_with 2 $program "$scratch/cond-c.csv" "$scratch/cond-d.csv"
check "rows that fit nothing: the three conditions are named" \
    has 'A has unregistered buffers, B has registered buffers; A has back-to-back, B has latency; A has calls without graphs, B has replays of graphs'

# A store keeps a row whose bandwidth its times disprove; compared from there it cannot pass.
if $program --store "$scratch/kept.db" --add good "$scratch/cond-c.csv" >"$out" 2>"$err"; then
    sed 's/,1,1,pass/,9,9,pass/; s/6,r/6,s/' "$scratch/cond-c.csv" >"$scratch/disproved.csv"
    check "a run with a disproved bandwidth is added, and the field is named" \
        eval 'ends_with 0 $program --store "$scratch/kept.db" --add bad "$scratch/disproved.csv" && errs "algbw_gbs .9. contradicts bytes and median_us"'
    check "compared with it, a run does not pass" eval 'ends_with 3 $program --store "$scratch/kept.db" good bad && has "Verdict: incomplete"'
else
    skip "a disproved bandwidth in a store" "no SQLite; apt-get install libsqlite3-dev"
fi

tap_done
