#!/bin/bash
# A rank that is stopped or killed, whichever it is and whatever the others do
# then: the job ends within its deadline and five seconds, one report says where
# every rank stands, in rank order, and nothing stays behind.
set -u
# shellcheck source=verify/tests/support/tap.sh
. verify/tests/support/tap.sh
if [ ! -x ./bench_allreduce ]; then
    skip "hangs" "bench_allreduce is not built; run make"
    tap_done
fi

deadline_s=2 # of the job
limit_ms=7000

now_ms() { date +%s%3N; }

shared_names() { find /dev/shm -mindepth 1 -user "$(id -u)" 2>/dev/null | grep -v vader | sort; }

# Whether any of these processes runs; a zombie does not.
any_runs() {
    local pid stat
    for pid; do
        { read -r stat <"/proc/$pid/stat"; } 2>/dev/null || continue
        [[ ${stat##*) } == [ZX]* ]] || return 0
    done
    return 1
}

# hang SIGNAL RANK ARGUMENTS: 4 ranks, one of which gets the signal while it
# works. The exit code goes to $code, the time from the signal to the end to
# $took_ms, the ranks' process ids to $pids.
hang() {
    local signal=$1 rank=$2 job tries
    shift 2
    shared_names >"$scratch/before"
    : >"$out"
    timeout 60 ci/mpirun -np 4 ./bench_allreduce -b 1K -e 1K -N 0 -T $deadline_s "$@" \
        >"$out" 2>"$err" &
    job=$!
    pids=()
    for ((tries = 0; tries < 300; tries++)); do
        mapfile -t pids < <(sed -n 's/^#  Rank  *[0-9]* .* Pid *\([0-9]*\) .*/\1/p' "$out")
        [ ${#pids[@]} -eq 4 ] && break
        sleep 0.1
    done
    [ ${#pids[@]} -eq 4 ] || return 1
    sleep 0.4
    local start
    start=$(now_ms)
    kill "-$signal" "${pids[rank]}"
    wait "$job"
    code=$?
    took_ms=$(($(now_ms) - start))
}

# One report that names the lost rank, with a line for each rank, in order, and
# at least one that shows what a survivor waited for.
reports() {
    local state=$1 rank=$2
    awk -v state="$state" -v rank="$rank" '
        /^weir: where 4 ranks stand \(deadline 2000 ms\)/ {
            heads++
            named = index($0, " rank " rank " is " state) > 0
        }
        /^  rank [0-9] \(pid [0-9]+\): / {
            if ($2 != lines) wrong = 1
            lines++
            if (index($0, "): " state) != ($2 == rank ? index($0, "): ") : 0)) wrong = 1
            if ($2 != rank && !/, iteration [0-9]+; /) wrong = 1
        }
        END { exit !(heads == 1 && lines == 4 && named && !wrong) }' "$err"
}

says_what_was_awaited() {
    grep -q "waits in allreduce .* for rank $1: expected [0-9]*, seen [0-9]*" "$err"
}

ended_in_time() {
    echo "# $took_ms ms"
    [ "$took_ms" -lt $limit_ms ]
}

left_nothing() {
    local tries
    for ((tries = 0; tries < 50; tries++)); do
        if ! any_runs "${pids[@]}"; then
            shared_names | diff "$scratch/before" - >"$out" && return 0
        fi
        sleep 0.1
    done
    kill -KILL "${pids[@]}" 2>/dev/null
    return 1
}

has_code() { [ "$code" -eq "$1" ]; }

# One long timed block without checks, so that the signal comes in a collective.
for rank in 0 2; do
    check "a benchmark runs" hang STOP $rank -n 1000000 -c 0
    check "rank $rank stopped in a collective: exit code 4" has_code 4
    check "rank $rank stopped: in time" ended_in_time
    check "rank $rank stopped: one report, in rank order" reports stopped $rank
    check "rank $rank stopped: what the others waited for" says_what_was_awaited $rank
    check "rank $rank stopped: nothing is left" left_nothing
    # Open MPI's launcher tells of the signal, not of the ranks' code.
    check "a benchmark runs" hang KILL $rank -n 1000000 -c 0
    check "rank $rank killed: in time" ended_in_time
    check "rank $rank killed: one report, in rank order" reports dead $rank
    check "rank $rank killed: nothing is left" left_nothing
done
# Small blocks: most of the time goes to MPI, in checks and agreement.
check "a benchmark runs" hang STOP 1 -n 1 -w 0 --algo packet -c 20
check "a rank stopped between collectives: exit code 4" has_code 4
check "a rank stopped between collectives: in time" ended_in_time
check "a rank stopped between collectives: one report" reports stopped 1
check "a rank stopped between collectives: nothing is left" left_nothing

# A rank does not come to the first meeting.
# shellcheck disable=SC2016  # expanded by the ranks
missing() {
    LATE=$1 timeout 60 ci/mpirun -np 3 bash -c \
        'case ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}} in "$LATE") sleep 50 ;; esac
         exec ./bench_allreduce -b 8 -e 8 -T 1'
}
# One report of three ranks in order, in which that rank is silent.
reports_set_up() {
    awk -v silent="$1" '
        BEGIN { lines = 0 }
        /^weir: where 3 ranks stand in set-up \(deadline 1000 ms\): bench_allreduce$/ { heads++ }
        /^  rank [0-9]/ {
            if (heads != 1 || $2 + 0 != lines) wrong = 1
            if ($0 !~ (lines == silent ? ": no answer; " : "[(]pid [0-9]+[)]: in set-up: ")) wrong = 1
            lines++
        }
        END { exit !(heads == 1 && lines == 3 && !wrong) }' "$err"
}
for rank in 0 2; do
    started=$(now_ms)
    check "rank $rank does not come: exit code 4" ends_with 4 missing $rank
    took_ms=$(($(now_ms) - started))
    check "rank $rank does not come: in time" ended_in_time
    check "rank $rank does not come: one report in rank order" reports_set_up $rank
done
tap_done
