#!/bin/bash
# bench_replay as users run it: all kinds of calls on several communicators over weir, MPI and a library
# with NCCL's interface, an injected fault, results, conversion, --ranks, --gaps, and bad recordings. Run
# from the repository's root.
set -u
. verify/tests/support/tap.sh
[ -x ./bench_replay ] || { echo "1..0 # SKIP bench_replay is not built; run make"; exit 0; }

job=$scratch/job.txt csv=$scratch/replay.csv
refuses() { # PATTERN ARGUMENT...
    local pattern=$1
    shift
    ends_with 2 ./bench_replay "$@" && grep -qF -- "$pattern" "$err"
}
# Rows of the table whose column CALL is the word.
has_rows() { # COUNT CALL
    [ "$(awk -v call="$2" '!/^#/ && $5 == call' "$out" | wc -l)" -eq "$1" ]
}

# Four ranks, three communicators, sends in a ring, in groups and alone.
{
    echo "comm world 0-3"
    echo "comm low 0,1"
    echo "comm high 3,2"
    for rank in 0 1 2 3; do
        pair=low
        [ $rank -lt 2 ] || pair=high
        echo "0.001 r$rank $pair allreduce f32 sum 65536 inplace took=0.0001"
        echo "0.002 r$rank world allgather f16 4096 inplace took=0.0001"
        echo "0.003 r$rank world reduce_scatter f32 avg 4096 inplace took=0.0001"
        echo "0.004 r$rank world send f64 300 to=$(((rank + 1) % 4)) group=1 took=0.0001"
        echo "0.004 r$rank world recv f64 300 from=$(((rank + 3) % 4)) group=1 took=0.0001"
        echo "0.005 r$rank world alltoallv i32 sent=1,2,3,4 took=0.0001"
        echo "0.006 r$rank world alltoall i32 77 took=0.0001"
        echo "0.007 r$rank world gather f32 100 root=1 took=0.0001"
        echo "0.008 r$rank world scatter u8 101 root=2 took=0.0001"
        echo "0.009 r$rank world reduce f64 max 1000 root=3 inplace took=0.0001"
        echo "0.010 r$rank $pair broadcast i64 1000 root=1 took=0.0001"
        echo "0.011 r$rank $pair allreduce f32 sum 10 group=3 took=0.0001"
        echo "0.011 r$rank world allreduce i32 min 10 group=3 took=0.0001"
        echo "0.012 r$rank world barrier took=0.0001"
    done
    echo "0.013 r0 world send u8 100000 to=3 took=0.0001"
    echo "0.013 r3 world recv u8 100000 from=0 took=0.0001"
} >"$job"

check "all calls are right" ends_with 0 ./bench_replay "$job" -n 3 --csv "$csv"
for call in allgather reduce_scatter alltoallv alltoall gather scatter reduce broadcast barrier step communication; do
    check "$call has a row" has_rows 1 $call
done
check "allreduces of different sizes, types and ranks have rows" has_rows 3 allreduce
check "the exchange of four ranks and the message have rows" has_rows 2 exchange
check "the ten most expensive calls have file and line" eval '[ "$(grep -cE "^#  +[0-9.]+  .*\($job:[0-9]+\), recorded 100.00" "$out")" -eq 10 ]'
check "waits are apart from transfers" grep -qE 'ranks wait for each other [0-9.]+ us \([0-9]+%\), transfers take' "$out"
check "the recorded time is compared" grep -qE 'recorded communication took 1350\.0 us; here it takes [0-9.]+ of that' "$out"
check "numbers of the table, the CSV and the lines below" numbers_hold replay "$csv" nnodes=1 iters=3
check "the CSV file has a line for each row" eval '[ "$(grep -c "replay_" "$csv")" -eq 16 ]'
check "weir-compare reads it" ends_with 0 ./weir-compare "$csv" "$csv"
check "malloc'd memory serves as well" ends_with 0 ./bench_replay "$job" -n 2 --buffers unregistered
check "--timeline draws the recorded and the replayed step" eval 'ends_with 0 ./bench_replay "$job" -n 2 --timeline "$scratch/step.svg" &&
    python3 -c "import sys, xml.dom.minidom as x; d = x.parse(sys.argv[1]); sys.exit(len(d.getElementsByTagName(\"title\")) != 2 * 58 - 4)" "$scratch/step.svg"'
if [ -x ./weir-report ]; then
    cp "$scratch/step.svg" "$scratch/replay.svg" && sed -i '2i<script>alert(1)</script>' "$scratch/replay.svg"
    check "weir-report shows the time line that lies next to the rows, and nothing else of its file" eval '
        ends_with 0 ./weir-report -o "$scratch/page.html" "$csv" && grep -q "href=\"#timeline\"" "$scratch/page.html" &&
        [ "$(grep -c "^<rect .*<title>.* us</title></rect>$" "$scratch/page.html")" -eq 112 ] && ! grep -q "alert(1)" "$scratch/page.html"'
else
    skip "weir-report shows the time line" "weir-report is not built"
fi
check "calls can share the least memory" ends_with 0 ./bench_replay "$job" -n 2 --span 0
check "a flipped bit is found, with file and line" eval 'ends_with 1 ./bench_replay "$job" -n 1 --inject flip-bit &&
    grep -qE "rank 3: weir: exchange .*\($job:[0-9]+\): .*got .*, expected" "$err" && grep -qF "Out of bounds values : 1 FAILED" "$out"'
check "an injection without checks is refused" refuses "no output of the last rank is checked" "$job" --inject flip-bit -c 0
check "the library with NCCL's interface runs the same calls" ends_with 0 ./bench_replay "$job" -n 2 --peer "$PWD/build/libweir_nccl.so"
check "and the ratio is printed" grep -qE "^# this job's communication takes [0-9.]+ \[[0-9.]+, [0-9.]+\] of nccl:[0-9.]+'s time over weir" "$out"
check "--gaps computes between calls" eval 'ends_with 0 ./bench_replay "$job" -n 2 --gaps && grep -q "are exposed" "$out"'
{
    printf 'comm w 0,1\ncomm v 1,0\n'
    for rank in 0 1; do
        printf "0.$rank%s r$rank %s\n" 1 "w allreduce f32 sum 100 took=0.05" 2 "w allreduce f32 sum 100 took=0.0001" 3 "v allreduce f32 sum 100 took=0.05" \
            4 "w allreduce f32 sum 100 took=0.0002" 5 "w allreduce f32 sum 9999 took=0.05" 6 "v allreduce f32 sum 101 took=0.0004"
    done
} >"$scratch/first.txt"
check "first calls of each kind are told apart" eval 'ends_with 0 ./bench_replay "$scratch/first.txt" -n 1 &&
    grep -q "without the first call of each kind on a communicator, 700.0 us were recorded" "$out"'
# Rank 1 waits 0.3 s for rank 0, which waits for nobody: 150 ms in the mean of both.
printf '%s\n' "comm world 0,1" "0.000 r"{0,1}" world barrier took=0.0001" "0.3001 r0 world allreduce f32 sum 100 took=0.0001" \
    "0.0001 r1 world allreduce f32 sum 100 took=0.0001" >"$scratch/late.txt"
check "waits are means of all ranks, and no transfers" eval 'ends_with 0 ./bench_replay "$scratch/late.txt" -n 1 --gaps --csv "$scratch/late.csv" --timeline "$scratch/late.svg" &&
    sed -n "s/.*wait for each other \([0-9.]*\) us.*, transfers take \([0-9.]*\) us.*/\1 \2/p" "$out" |
        awk "{ us = \$1; moved = \$2 } END { exit !(us > 50000 && us < 1000000 && moved < us / 2) }"'
check "exposed is what computation leaves" numbers_hold replay "$scratch/late.csv" mode=gaps
cp "$scratch/late.svg" "$out"
check "bars of the time line are as long as their calls" numbers_hold timeline "$scratch/late.csv"
check "recorded bars begin at their times" eval 'span=$(sed -n "s/.*recorded: 0 to \([0-9.]*\) us.*/\1/p" "$out") &&
    [ "$(sed -n "/recorded:/,/replayed/s/^<rect x=.\([0-9.]*\).*/\1/p" "$out" | tr "\n" " ")" = \
        "$(awk -v span="$span" "BEGIN { for (i = split(\"100 0 300100 0\", at); i; i--) printf \"%.2f \", 70 + at[i] / span * 1120 }")" ]'
sed 's/ took=.*//' "$job" >"$scratch/untimed.txt"
check "--gaps needs durations" refuses "has no time or no duration" "$scratch/untimed.txt" --gaps
check "--convert writes text" ends_with 0 ./bench_replay "$job" --convert "$scratch/a.txt"
check "--convert - writes the same text to standard output" eval \
    'ends_with 0 ./bench_replay "$job" --convert - && cmp "$scratch/a.txt" "$out" && [ ! -e ./- ]'
check "a full standard output is an error" eval '[ ! -w /dev/full ] || { ./bench_replay "$job" --convert - >/dev/full 2>"$err"; [ $? -eq 3 ] && grep -q "standard output" "$err"; }'
check "which converts to itself" eval './bench_replay "$scratch/a.txt" --convert "$scratch/b.txt" && cmp "$scratch/a.txt" "$scratch/b.txt"'
if command -v mpirun >/dev/null && ci/mpirun -np 1 ./bench_replay --version >"$out" 2>"$err"; then
    check "MPI runs the same calls" ends_with 0 ci/mpirun -np 4 ./bench_replay "$job" -n 2 --peer mpi
    check "and its rows stand next to weir's" eval 'has_rows 2 gather && grep -q "of MPI.s time over weir" "$out"'
    sed 's/f32 sum/bf16 sum/' "$job" >"$scratch/bf16.txt"
    check "what MPI cannot reduce is named" eval 'ends_with 2 ci/mpirun -np 4 ./bench_replay "$scratch/bf16.txt" --peer mpi &&
        grep -qE "cannot run allreduce bfloat16 \(.*bf16.txt:[0-9]+\)" "$err"'
else
    skip "MPI runs the same calls" "there is no MPI"
fi

# Two communicators, which the ranks call in different orders while other calls are in flight.
{
    printf 'comm a 0-2\ncomm b 2,1,0\n'
    for rank in 0 1 2; do
        order="a b"
        [ $rank = 0 ] || order="b a"
        at=0
        for comm in $order $order $order; do
            echo "0.00$((at++)) r$rank $comm allreduce f32 sum 30000 took=0.0015"
        done
    done
} >"$scratch/together.txt"
check "calls that were in flight together run together" eval 'ends_with 0 ./bench_replay "$scratch/together.txt" -n 3 &&
    grep -q "communicators run on 2 threads of each rank" "$out" && has_rows 1 allreduce'
check "and compute between calls in each lane" eval 'ends_with 0 ./bench_replay "$scratch/together.txt" -n 2 --gaps &&
    grep -qE "are exposed: computation alone takes [0-9.]+ us" "$out"'
check "a flipped bit in a lane is found" ends_with 1 ./bench_replay "$scratch/together.txt" -n 1 --inject flip-bit
check "a library with NCCL's interface runs them together" ends_with 0 ./bench_replay "$scratch/together.txt" -n 2 --peer "$PWD/build/libweir_nccl.so"
if command -v mpirun >/dev/null && ci/mpirun -np 1 ./bench_replay --version >"$out" 2>"$err"; then
    check "MPI runs them together, or says that it cannot" eval 'ci/mpirun -np 3 ./bench_replay "$scratch/together.txt" -n 2 --peer mpi >"$out" 2>"$err" ||
        grep -q "does not work with several threads" "$err"'
fi

classes() { # COUNT: a recording of so many calls, each of a type, operation, place and size of its own
    echo "comm w 0"
    for size in 1 2 4 8 16 32 64 128 256 512 1024 2048 4096; do
        for type in f16 bf16 f32 f64 i8 u8 i32 u32 i64 u64; do
            for op in sum prod max min; do
                printf '%s\n' "- r0 w allreduce $type $op $size" "- r0 w allreduce $type $op $size inplace"
            done
        done
    done | head -n "$1"
}
classes 1024 >"$scratch/most.txt" && classes 1025 >"$scratch/more.txt"
check "1024 kinds of calls have rows" eval 'ends_with 0 ./bench_replay "$scratch/most.txt" -n 1 -c 0 && [ "$(grep -c " allreduce " "$out")" -ge 1024 ]'
check "more are refused" eval 'ends_with 2 ./bench_replay "$scratch/more.txt" -n 1 && grep -q "more than 1024 different sizes and types of calls" "$err"'

standin=${O:-build}/tests/bench_replay_standin
if [ -x "$standin" ]; then
    check "a simulated GPU gives right results" eval 'WEIR_BACKEND=host ends_with 0 "$standin" "$job" -n 2 && has_rows 3 allreduce'
    check "computation on it takes its time" eval 'WEIR_BACKEND=host ends_with 0 "$standin" "$job" -n 2 --gaps --sms 50 && grep -q "are exposed" "$out"'
    check "a flipped bit in its memory is found" eval 'WEIR_BACKEND=host ends_with 1 "$standin" "$job" -n 1 --inject flip-bit'
else
    skip "a simulated GPU gives right results" "not built; run make tests"
fi

printf 'comm w 0-1\n%s\n' "- r0 w allreduce f32 sum 1000" "- r0 w allgather f32 9" "- r1 w allreduce f32 sum 1000" \
    "- r1 w allgather f32 9" | grep -v '^comm w' | { echo "comm w 0-1"; cat; } >"$scratch/two.txt"
check "--ranks runs it with more ranks" eval 'ends_with 0 ./bench_replay "$scratch/two.txt" --ranks 3 -n 1 && has_rows 1 allreduce &&
    awk '\''$5 == "allgather" { found = $1 == 72 && $6 == 3 } END { exit !found }'\'' "$out"'
check "--ranks is refused where there is no rule" refuses "is on a communicator of some ranks, for which there is no rule" "$job" --ranks 3
check "another number of ranks is refused" refuses "has 4 ranks, and this job 2: start 4" "$job" -g 2
check "a file that is no recording is refused" refuses "not a recording that is known" README.md
check "a missing file is named" eval '! ./bench_replay "$scratch/none" 2>"$err" && one_line_says "cannot open" none'
check "a file that is named twice is refused" refuses "rank 0 also has calls in $job: name each file once" "$job" "$job"
mkdir "$scratch/no-files"
check "a folder without files is named as such" refuses "a folder without files" "$scratch/no-files"
{ echo "# weir recording 2" && cat "$job"; } >"$scratch/newer.txt"
check "a newer version of the text is refused" refuses "newer.txt:1: recording of version 2" "$scratch/newer.txt"
check "no file is a usage error" refuses "no recording" -n 1
sed 's/^\(.* r2 world reduce f64\) max/\1 min/' "$job" >"$scratch/bad.txt"
check "calls that do not match are named" refuses "calls reduce double min 1000 root=3 ($scratch/bad.txt:" "$scratch/bad.txt"
grep -v ' r2 ' "$job" >"$scratch/lost.txt"
check "a rank without calls is named" refuses "its rank 2 has no calls" "$scratch/lost.txt"
printf '%s\n' "comm w 0-1" "- r"{0,1}" w alltoallv u8 sent=600000000000,600000000000" >"$scratch/huge.txt"
check "more elements than a call can have are refused" refuses "alltoallv of more than 2^40 elements" "$scratch/huge.txt"
head -c 900 "$job" >"$scratch/cut.txt"
check "a cut file does not run with a part of its calls" refuses "no calls" "$scratch/cut.txt"
mkdir "$scratch/folder"
grep -E '^comm| r[01] ' "$job" >"$scratch/folder/0" && grep -E '^comm| r[23] ' "$job" >"$scratch/folder/1"
check "a folder is one recording" ends_with 0 ./bench_replay "$scratch/folder" -n 1

# A run of bench_replay is a job as well: three repetitions of the recording over split communicators.
mkdir "$scratch/recorded"
check "WEIR_RECORD records a job" ends_with 0 env WEIR_RECORD="$scratch/recorded/%r" ./bench_replay "$job" -n 1 -c 0
check "with a file for each rank" eval '[ "$(ls "$scratch/recorded" | tr "\n" " ")" = "0 1 2 3 " ]'
check "whose calls are those of the job, three times" eval '[ "$(grep -c " allgather half 4096 inplace" "$scratch/recorded/2")" -eq 3 ] &&
    [ "$(grep -c " reduce double max 1000 root=3 inplace" "$scratch/recorded/3")" -eq 3 ]'
check "and which runs again" ends_with 0 ./bench_replay "$scratch/recorded" -n 1
# The last cpu of those that this process may use: weir would give rank 0 of one rank all cores.
cpu=$(taskset -cp $$ | sed 's/.*[^0-9]//')
printf '%s\n' "comm w 0" "- r0 w allreduce f32 sum 100" >"$scratch/one.txt"
mkdir "$scratch/placed"
check "a rank runs on the cpus that it was recorded on" eval 'WEIR_RECORD="$scratch/placed/%r" ends_with 0 taskset -c "$cpu" ./bench_replay "$scratch/one.txt" -n 1 -c 0 &&
    grep -qE "^place r0 [^ ]+ $cpu\$" "$scratch/placed/0" && ends_with 0 ./bench_replay "$scratch/placed" -n 1 && grep -qF "; cpus $cpu (as recorded);" "$out"'
check "but not on another node" eval 'sed -i "s/^place r0 [^ ]*/place r0 elsewhere/" "$scratch/placed/0" && ends_with 0 ./bench_replay "$scratch/placed" -n 1 &&
    ! grep -qF "(as recorded)" "$out"'
check "nor on cpus that it may not use" eval 'sed -i "s/^place r0 .*/place r0 $(hostname | cut -d. -f1) 1000/" "$scratch/placed/0" && ends_with 0 ./bench_replay "$scratch/placed" -n 1 &&
    ! grep -qF "(as recorded)" "$out"'
check "messages are sent as messages" eval '[ "$(grep -c " send uint8 2400 to=3 .* group=" "$scratch/recorded/2")" -eq 3 ] &&
    [ "$(grep -c " recv uint8 2400 from=1 .* group=" "$scratch/recorded/2")" -eq 3 ]'
# The memory of calls: the same twice, another, none of the communicator. The first barrier ends a repetition.
mkdir "$scratch/memory"
{
    echo "comm w 0-1"
    for rank in 0 1; do
        printf -- "- r$rank w %s\n" "allreduce f32 sum 100 buffers=7" "allreduce f32 sum 50 buffers=7" \
            "allreduce f32 sum 100 buffers=8" "allreduce f32 sum 100 unregistered buffers=7" "allreduce f32 sum 100"
    done
} >"$scratch/memory.txt"
memory_is() { # EXPECTED REPLAY-OPTION...: "R" or "U" and the number of the buffers, of the first five calls of rank 1
    local expected=$1
    shift
    ends_with 0 env WEIR_RECORD="$scratch/memory/%r" ./bench_replay "$scratch/memory.txt" -n 1 "$@" &&
        [ "$(grep ' allreduce ' "$scratch/memory/1" | head -5 |
            awk '{ kind = / unregistered/ ? "U" : "R"; sub(/.*buffers=/, ""); printf "%s%d ", kind, $1 }')" = "$expected" ]
}
check "calls use the memory that they were recorded with" memory_is "R0 R0 R1 U2 R3 "
check "or registered memory" memory_is "R0 R0 R1 R0 R2 " --buffers registered
check "or unregistered memory" memory_is "U0 U0 U1 U0 U2 " --buffers unregistered
check "a second library in the process leaves the file to the first one" eval 'ends_with 0 env WEIR_RECORD="$scratch/recorded/%r" \
    ./bench_replay "$job" -n 1 --peer "$PWD/build/libweir_nccl.so" && grep -q "to which another rank or library is writing" "$err"'
check "WEIR_RECORD in a folder that does not exist is a warning" eval 'ends_with 0 env WEIR_RECORD="$scratch/none/%r" ./bench_replay "$job" -n 1 &&
    grep -qE "WEIR_RECORD: cannot write $scratch/none/0: No such file" "$err"'
tap_done
