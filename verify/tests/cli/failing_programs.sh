#!/bin/bash
# Every place of the programs that allocates memory, opens a file or calls the system fails once: the
# first time, and the second time. The program must go on as before, or end with a message that has the
# cause, never by a signal, in silence, at a time limit, or with other output. Where no call fails, programs free
# all their memory. Run from the repository's root.
set -u
. verify/tests/support/tap.sh
programs=build/tests/failing
[ -x $programs/weir-plan ] || { echo "1..0 # SKIP the programs are not built; run make tests"; exit 0; }

# The words that a message has about a call which failed.
cause_of() {
    case $1 in
    malloc | calloc | realloc | strdup | posix_memalign | aligned_alloc) echo memory ;;
    *) echo . ;;
    esac
}

# judge RUN FUNCTION PLACE NUMBER same|timed COMMAND...: says what is wrong with a run in which the call
# fails. RUN in the command is replaced by its number.
judge() {
    local run=$1 out=$scratch/out.$1 err=$scratch/err.$1 function=$2 at="$2 $3 $4" same=$5 code
    shift 5
    FAILING_AT=$at timeout -k 1 30 "${@//RUN/$run}" >"$out" 2>"$err" </dev/null
    code=$?
    case $code in
    0)
        [ "$same" = timed ] || cmp -s "$out" "$scratch/right" || echo "# $at: other output"
        ;;
    2 | 3 | 4)
        grep -qi "$(cause_of "$function")" "$err" || echo "# $at: $code without the cause: $(head -c 200 "$err")"
        ! grep -q '^# Tuning table' "$out" || echo "# $at: $code, but the table counts as written"
        ;;
    *) echo "# $at: ended with $code: $(head -c 200 "$err")" ;;
    esac
    rm -f "$out" "$err"
}

# weir_places PROGRAM: the list with each place's function, file and line in front, without the places of libcudart, which is a
# part of programs with CUDA and does not look at what malloc returns.
weir_places() {
    awk '{ print "0x" $2 }' "$scratch/list" | xargs addr2line -f -e "$1" | sed 's/ (disc.*//' | paste -d : - - | paste -d ' ' - "$scratch/list" |
        grep -v '^libcudart_static'
}

# survives NAME same|timed PROGRAM ARGUMENT...: a check over all places; the output of each run is the
# same, or has times. Of jobs, a short run leaves out places at which another job has failed before, and those in the library,
# which test_failing_calls tries. Ranks of which one has failed wait, so that several runs share a processor.
survives() {
    local name=$1 same=$2 where function place calls number run=0
    shift 2
    FAILING_LIST=$scratch/list "$programs/$1" "${@:2}" >"$scratch/right" 2>"$err" </dev/null || : >"$scratch/list"
    weir_places "$programs/$1" >"$scratch/places"
    while read -r where function place calls; do
        if [ $most -eq 1 ] && [ "$same" = timed ]; then
            [ -z "${tried[$where $function]:-}" ] || continue
            tried[$where $function]=yes
            [[ $where != *:*/lib/* ]] || continue
        fi
        for ((number = 1; number <= most && number <= calls; number++)); do
            run=$((run + 1))
            judge $run "$function" "$place" "$number" "$same" "$programs/$1" "${@:2}" &
            [ $((run % 8)) -ne 0 ] || wait
        done
    done <"$scratch/places" >"$scratch/wrong"
    wait
    cat "$scratch/wrong"
    echo "# $name: $run calls failed"
    check "$name" [ -s "$scratch/places" -a ! -s "$scratch/wrong" ]
}

# frees NAME CODE PROGRAM ARGUMENTS...: a check that a run ends with the code and frees what it allocates.
frees() {
    check "$1, and free their memory and files" leaves_nothing "${@:2}"
}
starter=()
leaves_nothing() { # CODE PROGRAM ARGUMENTS...
    local program=$programs/$2
    rm -f "$scratch/leaks"
    FAILING_LEAKS=$scratch/leaks ends_with "$1" "${starter[@]}" "$program" "${@:3}" && [ -e "$scratch/leaks" ] || return 1
    sed -i '/^.dev.shm.open_mpi/d' "$scratch/leaks" # its library keeps it
    sort "$scratch/leaks" | uniq -c | while read -r number place; do
        case $place in
        [0-9a-f]*) echo "# $number from $(addr2line -f -e "$program" "0x$place" | tr '\n' ' ')" ;;
        *) echo "# open: $place" ;;
        esac
    done
    [ ! -s "$scratch/leaks" ]
}

most=1
declare -A tried
if long_part "the second call of each place, places that jobs share, the library's in jobs"; then most=2; fi

job=$scratch/job.txt
for rank in 0 1; do
    echo "0.001 r$rank world allreduce f32 sum 1000 inplace took=0.0001"
    echo "0.002 r$rank world alltoallv i32 sent=1,2 took=0.0001"
    echo "0.003 r$rank world send f64 30 to=$((1 - rank)) group=1 took=0.0001"
    echo "0.003 r$rank world recv f64 30 from=$((1 - rank)) group=1 took=0.0001"
done | cat <(echo "comm world 0-1") - >"$job"
./weir-plan make allreduce_ring --ranks 3 >"$scratch/ring.json" 2>"$err" </dev/null

for side in a b; do
    {
        echo 'schema,run_id,utc,host,collective,backend,transport,nranks,nnodes,contender,algo,dtype,redop,root,placement,bytes,count,iters,median_us,min_us,max_us,p99_us,ci_low_us,ci_high_us,algbw_gbs,busbw_gbs,verify,wrong'
        for run in 1 2 3 4 5 6; do
            for bytes in 8 1024; do
                echo "1,$side$run,u,h,allreduce,host,shm,4,1,weir,ring,float,sum,-1,out,$bytes,2,20,5.$run,5,6,6,5,6,,,pass,0"
            done
        done
    } >"$scratch/$side.csv"
done
replay=verify/tests/formats/replay
export WEIR_TIMEOUT_MS=2000
survives "plans are checked" same weir-plan check "$scratch/ring.json"
survives "plans are corrected" same weir-plan fix "$scratch/ring.json" -o "$scratch/fixed.json"
survives "plans are shown" same weir-plan show "$scratch/ring.json"
survives "plans are drawn" same weir-plan show --svg "$scratch/ring.json"
survives "a plan's time is estimated" same weir-plan cost "$scratch/ring.json"
survives "plans are made" same weir-plan make allreduce_ring --ranks 3
survives "results are compared" same weir-compare "$scratch/a.csv" "$scratch/b.csv" --format json
survives "results of others are read" same weir-compare verify/tests/formats/imb-2019.txt --rows-json /dev/stdout
survives "a report is written" same weir-report -o "$scratch/page.html" "$scratch/a.csv" "$scratch/b.csv"
survives "a recording is converted" same bench_replay "$job" --convert /dev/stdout
survives "a profile of PyTorch is converted" same bench_replay $replay/torch-profiler --convert /dev/stdout
survives "traces of Chakra are converted" same bench_replay $replay/chakra --convert /dev/stdout
survives "an execution trace of PyTorch is converted" same bench_replay $replay/torch-observer --convert /dev/stdout
survives "logs of Inspector are converted" same bench_replay $replay/inspector-weir --convert /dev/stdout
survives "a log of NCCL is converted" same bench_replay $replay/nccl-tagged.log --convert /dev/stdout
survives "a recording is replayed" timed bench_replay "$job" -n 1 --timeline "$scratch/step.svg"
survives "a collective is measured" timed bench_allreduce -g 2 -b 8 -e 8 -n 1 -w 0 --csv "$scratch/RUN.csv" -J "$scratch/RUN.n.json"
survives "splits are measured" timed bench_alltoallv -g 2 -b 64 -e 64 -n 1 -w 0 --dist zipf:1
survives "blocks are measured" timed bench_blocks -g 2 --layers 1 -n 1 -w 1 --pages 2 --peer memcpy --csv "$scratch/RUN.csv"
survives "communicators are measured" timed bench_init -g 2 -n 1 --csv "$scratch/RUN.csv"
printf '0 1\n1 0\n' >"$scratch/matrix"
printf 'weir-links 1\nmachine m\nbackend host\nendpoints 2\npair 0 1 5 0.03\npair 1 0 5 0.03\ntogether 8 1\n' >"$scratch/links.txt"
# What options add.
short=(-g 2 -b 8 -e 8 -n 2 -w 0)
survives "a recording is replayed in malloc'd memory, with gaps" timed bench_replay "$job" -n 1 --buffers unregistered --gaps --csv "$scratch/RUN.csv"
survives "malloc'd memory is measured" timed bench_allreduce "${short[@]}" --buffers unregistered -o all -u 1
survives "competing calls are measured" timed bench_allreduce "${short[@]}" --with "allgather 64"
survives "computation is measured" timed bench_allreduce "${short[@]}" --beside stream:0.0001
survives "groups are measured" timed bench_allreduce "${short[@]}" --split mod:2 --csv "$scratch/RUN.csv"
survives "algorithms are measured" timed bench_allreduce "${short[@]}" --algo all --determinism --cold --ceiling "$scratch/links.txt"
survives "patterns are measured" timed bench_p2p "${short[@]}" --peer copies
survives "a matrix is measured" timed bench_alltoallv "${short[@]}" --dist matrix:"$scratch/matrix"
survives "plans are measured" timed bench_allreduce -g 3 -b 96 -e 96 -n 1 -w 0 --plan "$scratch/ring.json"
survives "tables are tuned" timed bench_allreduce "${short[@]}" --tune "$scratch/RUN.tuned"
survives "experts are measured" timed bench_moe -g 2 --tokens 8 --hidden 64 --experts 4 --topk 2 -n 1 -w 0
survives "experts are measured in malloc'd memory" timed bench_moe -g 2 --tokens 8 --hidden 64 --experts 4 --topk 2 -n 1 -w 0 --buffers unregistered --layout rank --dispatch-dtype fp8

formats=verify/tests/formats
nights=$scratch/nights.db
one=(bench_allreduce --backend host -b 8 -e 8 -n 2 --quiet)
# One rank in the program's own process, where -g forks.
export RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29417
echo 'allreduce 8 busbw >= 0.001 GB/s' >"$scratch/floors"
frees "plans are checked" 0 weir-plan check "$scratch/ring.json"
frees "plans are drawn" 0 weir-plan show --svg "$scratch/ring.json"
frees "plans are shown" 0 weir-plan show "$scratch/ring.json"
frees "plans are corrected" 0 weir-plan fix "$scratch/ring.json" -o "$scratch/fixed.json"
frees "costs are estimated" 0 weir-plan cost "$scratch/ring.json"
frees "plans are made" 0 weir-plan make allreduce_oneshot --ranks 4
frees "what is no plan is refused" 2 weir-plan show "$formats/rccl-groups.json"
for form in text markdown json ctrf junit prometheus; do
    frees "results are compared as $form" 0 weir-compare "$scratch/a.csv" "$scratch/b.csv" --format $form
done
frees "what differs is refused" 3 weir-compare "$formats/nccl-two-nodes.log" "$formats/osu-full.txt"
frees "floors are judged" 0 weir-compare --expect "$scratch/floors" "$scratch/a.csv"
frees "a file that is not there is named" 3 weir-compare "$scratch/none" "$scratch/a.csv"
frees "a run is added to a store in one file" 0 weir-compare --store "$nights" --add first "$scratch/a.csv"
frees "another is" 0 weir-compare --store "$nights" --add second "$scratch/b.csv"
frees "one is accepted" 0 weir-compare --store "$nights" --accept first
frees "it is compared with the latest" 0 weir-compare --store "$nights" baseline latest
frees "nights are drawn" 0 weir-report -o "$scratch/nights.html" --store "$nights"
for sample in several-tools.log rccl-groups.json nccl-torn.log rccl-columns-moved.csv; do
    frees "rows of $sample are written" 0 weir-compare "$formats/$sample" --csv "$scratch/rows.csv"
done
frees "reports are written" 0 weir-report -o "$scratch/page.html" "$scratch/a.csv" "$formats/nccl-two-nodes.log"
frees "algorithms are measured" 0 "${one[@]}" --algo all --csv "$scratch/one.csv" -J "$scratch/one.n.json"
frees "cold buffers are measured" 0 "${one[@]}" --cold -o all -R 2
frees "windows are measured" 0 "${one[@]}" --for 1s --csv "$scratch/hours.csv"
frees "competing calls are measured" 0 "${one[@]}" --with 'allgather 64'
frees "tables are tuned" 0 "${one[@]}" --tune "$scratch/tuned"
frees "algorithms are listed" 0 bench_allreduce --list-algos
frees "splits are measured" 0 bench_alltoallv --backend host -b 64 -e 64 -n 1 -w 0 --dist hot:1
experts=(bench_moe --backend host --tokens 8 --hidden 64 --experts 4 --topk 2 -n 1 -w 0)
frees "experts are measured" 0 "${experts[@]}" --csv "$scratch/moe.csv"
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT
if command -v "${MPIRUN:-mpirun}" >/dev/null && ci/mpirun -np 1 true >/dev/null 2>&1; then
    starter=(ci/mpirun -np 1)
    frees "experts are measured next to MPI" 0 "${experts[@]}" --peer mpi
    frees "a collective is measured next to MPI" 0 "${one[@]}" --peer mpi
    printf '%s\n' "comm w 0" "- r0 w allreduce f32 sum 100" "- r0 w allgather f32 9" >"$scratch/alone.txt"
    frees "a recording is replayed next to MPI" 0 bench_replay "$scratch/alone.txt" -n 1 --peer mpi --csv "$scratch/alone.csv"
fi
tap_done
