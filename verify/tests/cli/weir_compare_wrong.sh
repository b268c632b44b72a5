#!/bin/bash
# weir-compare and weir-report: wrong results in any row of B fail, whatever A has, in every mode and output. Run from the
# repository's root.
set -u
. verify/tests/support/tap.sh

program=./weir-compare
if [ ! -x $program ]; then
    skip "wrong results of B" "not built here: no GSL or no jansson"
    tap_done
fi
header='schema,run_id,utc,host,collective,backend,transport,nranks,nnodes,contender,algo,dtype,redop,root,placement,bytes,count,iters,median_us,min_us,max_us,p99_us,ci_low_us,ci_high_us,algbw_gbs,busbw_gbs,verify,wrong'
# right RUN BYTES [TYPE [COLLECTIVE [CANDIDATE]]], wrong ...: a row with a time, a row that failed.
right() { echo "1,$1,u,h,${4:-allreduce},host,shm,4,1,${5:-weir},ring,${3:-float},sum,-1,out,$2,2,20,10.000,9.000,12.000,11.000,9.900,10.100,,,pass,0"; }
wrong() { echo "1,$1,u,h,${4:-allreduce},host,shm,4,1,${5:-weir},ring,${3:-float},sum,-1,out,$2,2,20,,,,,,,,,fail,3"; }
file() { # NAME: writes a file of rows from standard input.
    mkdir -p "$(dirname "$scratch/$1")"
    { echo "$header"; cat; } >"$scratch/$1"
}
has() { grep -qE -- "$1" "$out"; }

{ right a 64; right a 128; } | file a.csv
{ wrong a 64; right a 128; } | file bad.csv
{ right b 64; right b 128; } | file b.csv

# A row that only B has: another size, type, collective, number of ranks, or another run's file.
{ right b 64; right b 128; wrong b 256; } | file size.csv
{ right b 64; right b 128; wrong b 64 half; } | file type.csv
{ right b 64; right b 128; wrong b 64 float allgather; } | file collective.csv
{ right b 64; right b 128; wrong b 64 | sed 's/,shm,4,1,/,shm,2,1,/'; } | file ranks.csv
{ right b 64; right b 128; wrong b 64 float allreduce nccl:2.28.3; } | file candidate.csv
cp "$scratch/b.csv" "$scratch/folder.csv"
wrong c 512 | file folder/new.csv && mv "$scratch/folder.csv" "$scratch/folder/b.csv"
for b in size.csv type.csv collective.csv ranks.csv candidate.csv folder; do
    for options in '' --strict --changes '--alpha 0.5 --correction none'; do
        # Options are words to split.
        # shellcheck disable=SC2086
        check "wrong results in a row that only B has end with 1 ($b${options:+, $options})" \
            ends_with 1 $program $options "$scratch/a.csv" "$scratch/$b"
    done
    check "the row is regressed, with the reason ($b)" has 'regressed: wrong results in B; A has no such row$'
done
# A failed, too; A failed in one of its runs; one of B's runs failed; no row but the wrong one.
{ wrong b 64; right b 128; } | file b-bad.csv
check "wrong results in A and B end with 1" ends_with 1 $program "$scratch/bad.csv" "$scratch/b-bad.csv"
check "both sides are named" has 'regressed: wrong results in A and B$'
check "a file with wrong results beside itself ends with 1" ends_with 1 $program "$scratch/bad.csv" "$scratch/bad.csv"
mkdir -p "$scratch/runs-a" "$scratch/runs-b" && cp "$scratch/a.csv" "$scratch/runs-a/1.csv" && cp "$scratch/b-bad.csv" "$scratch/runs-a/2.csv"
cp "$scratch/b.csv" "$scratch/runs-b/1.csv" && sed 's/^1,b,/1,c,/' "$scratch/b-bad.csv" >"$scratch/runs-b/2.csv"
check "one wrong run of several ends with 1" ends_with 1 $program "$scratch/runs-a" "$scratch/runs-b"
wrong b 4096 | file only.csv
check "a file with nothing but a wrong row that A lacks ends with 1" ends_with 1 $program "$scratch/a.csv" "$scratch/only.csv"
check "its verdict is not that nothing can be compared" eval 'has "^# Verdict: regressed " && has "^ +4096 "'
check "wrong results in A alone end with 0" ends_with 0 $program "$scratch/bad.csv" "$scratch/b.csv"
check "a candidate that was selected decides alone" ends_with 0 $program --contender weir "$scratch/a.csv" "$scratch/candidate.csv"
{ wrong b 64; right b 64; } | file cycles.csv
check "a cycle with wrong results counts" ends_with 1 $program "$scratch/a.csv" "$scratch/cycles.csv"
right b 64 | sed 's/,pass,0$/,pass,2/' | file counted.csv
check "a row that counts wrong elements fails whatever its verdict says" ends_with 1 $program "$scratch/a.csv" "$scratch/counted.csv"
echo allreduce,float,sum,4,128 >"$scratch/list"
check "--only keeps the wrong rows of B" ends_with 1 $program --only "$scratch/list" "$scratch/a.csv" "$scratch/b-bad.csv"
check "wrong results are suspects" eval 'ends_with 1 $program --suspects "$scratch/suspects" "$scratch/a.csv" "$scratch/size.csv" && grep -qx allreduce,float,sum,4,256 "$scratch/suspects"'
# Between candidates nothing has regressed, but wrong results are wrong.
{ right n 64 float allreduce nccl:2.28.3; } | file nccl.csv
check "another candidate's rows beside wrong ones end with 1" ends_with 1 $program "$scratch/nccl.csv" "$scratch/bad.csv"
check "the row is wrong, not slower" eval 'has " wrong: wrong results in B$" && has "^# Verdict: wrong results in B "'

# What may hide a wrong row of B: a line that is not used, fields that disprove each other, a failure that a tool reports without
# a row. It cannot pass; what A lost does not matter.
spoil() { # NAME SED: B's first row, changed by sed.
    { right b 64 | sed "$2"; right b 128; } | file "lost/$1.csv"
}
spoil verdict 's/,pass,/,FAIL,/'
spoil timeout 's/,pass,/,timeout,/'
spoil ranks 's/,shm,4,1,/,shm,,1,/'
spoil placement 's/,out,/,both,/'
spoil type 's/,float,/,,/'
spoil bytes 's/,64,2,/,-64,2,/'
spoil nan 's/,10.000,/,nan,/'
spoil negative 's/,10.000,/,-10,/'
spoil untimed 's/,10.000,/,,/'
spoil count 's/,pass,0$/,pass,nan/'
spoil hexadecimal 's/,pass,0$/,pass,0x3/'
spoil median 's/,10.000,/,0.001,/'
spoil bandwidth 's/,,,pass,/,0.007,9,pass,/'
spoil cut 's/,float.*//'
spoil quote 's/,ring,/,"ring,/'
spoil twice '1s/.*/&/'
sed -i '1s/$/,verify/; 2,$s/$/,pass/; 2s/,pass,0,/,fail,3,/' "$scratch/lost/twice.csv"
log() { # NAME TEXT...: a table of nccl-tests, followed by TEXT.
    local name=$1 && shift
    printf '%s\n' '# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22803' '# Collective test starting: all_reduce_perf' \
        '# nThread 1 nGpus 1 minBytes 8 maxBytes 64 step: 4(factor) warmup iters: 5 iters: 20' \
        '#  Rank  0 Group  0 Pid    991 on      node-a device  0 [0000:00:06] NVIDIA H200' \
        '#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong' \
        '#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)' \
        '          64            16     float     sum      -1     8.45    0.01    0.01       0     8.30    0.01    0.01       0' \
        "$@" >"$scratch/lost/$name.log"
}
whole='# Out of bounds values : 0 OK'
log cut
log counted '# Out of bounds values : 3 OK'
log cancelled "$whole" 'slurmstepd: error: *** STEP 7.0 ON node-a CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***'
log signal "$whole" 'mpirun noticed that process rank 1 with PID 7 on node node-a exited on signal 9 (Killed).'
log torn "$whole" '         256            64     float     sum'
log floor "$whole" '# Avg bus bandwidth    : 0.01 FAILED'
log status "$whole" 'prterun detected that one or more processes exited with non-zero status'
log whole "$whole"
log warned "$whole" 'node-a:991:991 [0] NCCL WARN Missing "iommu=pt" from kernel command line'
json() { # NAME MEMBERS: a document of nccl-tests.
    printf '{"version": 3, "args": ["all_reduce_perf"], "config": {"devices": [{"rank": 0, "hostname": "h"}]}, %s
        "results": [{"size": 64, "count": 16, "type": "float", "redop": "sum", "root": -1, "out_of_place": {"time": 8.4, "nwrong": 0}}]}' \
        "$2" >"$scratch/lost/$1.json"
}
json broken '"start_time": "2026-01-02 03:04:05",'
json error '"errors": ["lost"],'
json slow '"average_bus_bandwidth": {"bandwidth": 1, "okay": "false"},'
json text '"errors": "lost",'
json counted '"out_of_bounds": {"count": 3, "okay": "true"},'
json capital '"out_of_bounds": {"count": 0, "okay": "FALSE"},'
json sound '"start_time": "2026-01-02 03:04:05", "end_time": "2026-01-02 03:05:05",'
echo 'allreduce 128 <= 100 us' >"$scratch/floors"
for b in "$scratch"/lost/*.csv; do
    check "what may hide a wrong row ends with 3 (${b##*/})" ends_with 3 $program "$scratch/a.csv" "$b"
    check "it is incomplete (${b##*/})" eval 'has "^# Verdict: incomplete: " && grep -qE "${b##*/}: [12] lines? or files? cannot be used" "$err"'
    check "a met expectation beside it ends with 3 (${b##*/})" ends_with 3 $program --expect "$scratch/floors" "$b"
    case ${b##*/} in median.csv | twice.csv) continue ;; esac
    check "it is no matter in A (${b##*/})" ends_with 0 $program "$b" "$scratch/b.csv"
done
for b in cut.log cancelled.log status.log signal.log torn.log floor.log broken.json error.json text.json slow.json; do
    check "a run that failed or was broken off ends with 3 ($b)" ends_with 3 $program "$scratch/lost/$b" "$scratch/lost/$b"
done
for b in whole.log warned.log sound.json; do
    check "a run that ended well ends with 0 ($b)" ends_with 0 $program "$scratch/lost/$b" "$scratch/lost/$b"
done
for b in counted.log counted.json capital.json; do
    check "wrong values of a whole document end with 1 ($b)" ends_with 1 $program "$scratch/lost/$b" "$scratch/lost/$b"
done
printf '{"results": [{"out_of_place": {"nwrong": 3}, "rows": [{"collective": "allreduce", "nranks": 4, "contender": "weir", "dtype": "float",
    "redop": "sum", "placement": "out", "bytes": 64, "median_us": 10, "verify": "pass", "wrong": %s}]}, %s]}' 0 '{}' >"$scratch/half.json"
check "rows that pass in a result with wrong values fail" ends_with 1 $program "$scratch/a.csv" "$scratch/half.json"
sed 's/nwrong": 3/nwrong": 0/; s/"wrong": 0/"wrong": [3]/' "$scratch/half.json" >"$scratch/list.json"
check "a number that is a list ends with 3" ends_with 3 $program "$scratch/a.csv" "$scratch/list.json"
sed 's/nwrong": 3/nwrong": 0/; s/{}]}$/"lost"]}/' "$scratch/half.json" >"$scratch/text.json"
check "a result that is a text ends with 3" ends_with 3 $program "$scratch/a.csv" "$scratch/text.json"
osu() { # NAME VERDICT REST: a table of OSU.
    printf '# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)        Validation\n4   1.57   %s\n8   1.60   Pass\n%b' "$2" "$3" >"$scratch/$1.txt"
}
osu pass Pass ''
osu word Failed ''
osu error Pass 'Process 1: Got invalid buffer:\n'
osu number Pass '\n# OSU MPI Broadcast Latency Test v7.4\n# Size       Avg Latency(us)\n4   530.\n'
for expected in 'pass 0' 'word 1' 'error 3' 'number 3'; do
    b=$scratch/${expected% *}.txt
    check "a table of OSU that ends with ${expected#* } (${expected% *})" ends_with "${expected#* }" $program --ranks 4 "$b" "$b"
done
# A run that was killed between two rows: its manifest says so. One of -N 0 is always stopped.
killed() { # NAME RUN COMPLETE CYCLES: b.csv with a manifest.
    mkdir -p "$scratch/killed" && cp "$scratch/b.csv" "$scratch/killed/$1.csv"
    printf '{"schema": 2, "run_id": "%s", "options": {"cycles": %d}, "complete": %s}' "$2" "$4" "$3" >"$scratch/killed/$1.json"
}
killed ended b true 1 && killed stopped b false 0 && killed other c false 1 && killed killed b false 1
killed cut b true 1 && truncate -s 40 "$scratch/killed/cut.json"
killed empty b true 1 && truncate -s 0 "$scratch/killed/empty.json"
for expected in 'ended 0' 'stopped 0' 'other 0' 'killed 3' 'cut 3' 'empty 3'; do
    check "a CSV whose manifest says ${expected% *} ends with ${expected#* }" ends_with "${expected#* }" $program "$scratch/a.csv" "$scratch/killed/${expected% *}.csv"
done
# A folder: what it cannot read of B, it does not pass over.
folder() { # NAME COMMAND...: a folder with b.csv and what COMMAND makes in it.
    local name=$1 && shift
    mkdir -p "$scratch/folders/$name" && cp "$scratch/b.csv" "$scratch/folders/$name" && (cd "$scratch/folders/$name" && "$@")
}
folder empty touch killed.csv
folder link ln -s /none/a.csv lost.csv
folder pipe mkfifo lost.csv
folder compressed gzip -k b.csv
folder disguised eval 'gzip -c b.csv >c.csv'
folder deep eval 'mkdir -p 1/2/3/4/5/6/7/8/9 && cp b.csv 1/2/3/4/5/6/7/8/9'
for b in empty link pipe compressed disguised deep; do
    check "a folder with what cannot be read ends with 3 ($b)" ends_with 3 $program "$scratch/a.csv" "$scratch/folders/$b"
done
folder capital cp ../../bad.csv C.CSV
check "the names of files are those of any case" ends_with 1 $program "$scratch/a.csv" "$scratch/folders/capital"
check "its reports are written" ends_with 3 $program --junit "$scratch/o.xml" --markdown "$scratch/o.md" --json "$scratch/o.json" "$scratch/a.csv" "$scratch/lost/cut.csv"
check "they say that it is incomplete" eval 'grep -q "<failure message=\"incomplete" "$scratch/o.xml" && grep -q "^### Verdict: incomplete: " "$scratch/o.md" && grep -q "\"losses\": 1" "$scratch/o.json"'
right b 64 | sed 's/,pass,0$/,pass,0,exact,fail/' | sed "1i $header,oracle,special" >"$scratch/special.csv"
check "a row whose special values failed fails whatever its verdict says" ends_with 1 $program "$scratch/a.csv" "$scratch/special.csv"

# Expectations alone, and reports of B alone.
echo 'allreduce 128 <= 100 us' >"$scratch/floors"
check "a met expectation beside a wrong row ends with 1" ends_with 1 $program --expect "$scratch/floors" "$scratch/bad.csv"
check "the wrong rows are counted" one_line_says "bad.csv: wrong results in 1 row"
check "a conversion is no judgement" ends_with 0 $program --csv "$scratch/converted.csv" "$scratch/bad.csv"

# All outputs.
outputs() { # A B
    ends_with 1 $program --json "$scratch/o.json" --junit "$scratch/o.xml" --ctrf "$scratch/o.ctrf" --prometheus "$scratch/o.prom" \
        --markdown "$scratch/o.md" "$scratch/$1" "$scratch/$2"
}
for pair in "a.csv size.csv" "bad.csv b-bad.csv" "a.csv only.csv"; do
    # A pair is two words.
    # shellcheck disable=SC2086
    check "all reports of wrong results are written ($pair)" outputs $pair
    check "JUnit has a failure ($pair)" eval 'grep -q "failures=\"1\"" "$scratch/o.xml" && grep -q "<failure message=\"regressed: wrong results in " "$scratch/o.xml"'
    check "CTRF has a failure ($pair)" eval 'grep -q "\"failed\": 1" "$scratch/o.ctrf" && grep -q "\"status\": \"failed\"" "$scratch/o.ctrf"'
    check "the metrics have a failure ($pair)" eval 'grep -qE "^weir_compare_failed([{].*[}])? 1$" "$scratch/o.prom" && grep -qE "^weir_compare_exit_code([{].*[}])? 1$" "$scratch/o.prom"'
    check "JSON has the verdict ($pair)" eval 'grep -q "\"verdict\": \"regressed\"" "$scratch/o.json"'
    check "Markdown has the row ($pair)" eval 'grep -q "regressed: wrong results in " "$scratch/o.md" && grep -q "^### Verdict: regressed$" "$scratch/o.md"'
done
# Stores: a folder and a file.
mkdir -p "$scratch/store/1" "$scratch/store/2" && cp "$scratch/a.csv" "$scratch/store/1" && cp "$scratch/size.csv" "$scratch/store/2" && echo 1 >"$scratch/store/baseline"
check "wrong results in the latest run of a store end with 1" ends_with 1 $program --store "$scratch/store" baseline latest
if $program --store "$scratch/s.db" --add 1 "$scratch/a.csv" 2>&1 | grep -q 'has no SQLite'; then
    skip "wrong results in an SQLite store" "not built here: no SQLite"
else
    $program --store "$scratch/s.db" --add 2 "$scratch/size.csv"
    check "wrong results in a run of an SQLite store end with 1" ends_with 1 $program --store "$scratch/s.db" 1 2
fi
if [ -x ./weir-report ]; then
    check "a page with wrong results is written" ends_with 0 ./weir-report -o "$scratch/page.html" "$scratch/a.csv" "$scratch/size.csv"
    check "it says regressed, and names the row" eval 'grep -q "Verdict: <span class=\"[a-z]*\">regressed</span>" "$scratch/page.html" && grep -q "256 bytes, weir.* wrong results in B; A has no such row</li>" "$scratch/page.html"'
    check "an incomplete page says so" eval 'ends_with 0 ./weir-report -o "$scratch/page.html" "$scratch/a.csv" "$scratch/lost/cut.csv" && grep -q "Verdict: <span class=\"inconclusive\">incomplete: " "$scratch/page.html"'
    cp "$scratch/a.csv" "$scratch/source.csv"
    check "a page does not overwrite what it reads" eval 'ends_with 2 ./weir-report -o "$scratch/source.csv" "$scratch/source.csv" && cmp -s "$scratch/a.csv" "$scratch/source.csv"'
    check "a page of B alone names wrong rows" eval 'ends_with 0 ./weir-report -o "$scratch/page.html" "$scratch/size.csv" && grep -q ">1 row with wrong results</p>" "$scratch/page.html" && grep -q ">wrong: allreduce.*256 bytes" "$scratch/page.html"'
fi
tap_done
