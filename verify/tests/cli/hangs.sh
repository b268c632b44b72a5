#!/bin/bash
# Hang detection: after a rank is stopped (SIGSTOP) or killed, or does not start, the job ends
# at most five seconds after its deadline, prints one report with the state of every rank in rank
# order, and leaves no process and no shared memory. Run from the repository's root.
# Needs MPI.
set -u
# shellcheck source=verify/tests/support/tap.sh
. verify/tests/support/tap.sh
. verify/tests/support/launcher.sh
if [ ! -x ./bench_allreduce ]; then
    skip "hangs" "bench_allreduce is not built; run make"
    tap_done
fi

deadline_s=2 # of the job
limit_ms=7000

now_ms() { date +%s%3N; }

# Not those of MPI libraries: killed ranks of MPICH 5.0 leave theirs.
shared_names() {
    find /dev/shm -mindepth 1 -user "$(id -u)" 2>/dev/null | grep -v 'vader\|/mpich_shm_\|/Intel_MPI_' | sort
}

# any_runs PID...: 0 if any of these processes runs; zombies do not count.
any_runs() {
    local pid stat
    for pid; do
        { read -r stat <"/proc/$pid/stat"; } 2>/dev/null || continue
        [[ ${stat##*) } == [ZX]* ]] || return 0
    done
    return 1
}

# hang SIGNAL RANK ARGUMENTS: runs 4 ranks and sends the signal to one of them while they work.
# Sets $code to the exit code, $took_ms to the time from the signal to the end of the job, and
# $pids to the ranks' process ids.
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

# reports STATE RANK: standard error has exactly one report. It names the lost rank and has a
# line for each rank, in rank order.
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

# The launcher of Open MPI 5 sends SIGTERM, and SIGKILL before a rank in MPI_Init reaches its deadline.
kills_before_deadline() {
    launcher_is_hydra || ${MPIRUN:-mpirun} --version 2>&1 | grep -q 'Open MPI) 5'
}
# check_unless_killed NAME COMMAND ARGUMENTS...: a check that such a launcher prevents.
check_unless_killed() {
    if launcher_is_hydra; then
        skip "$1" "this launcher kills the other ranks without SIGTERM"
    else
        check "$@"
    fi
}

# One long timed block without verification, so that the signal arrives during a collective.
for rank in 0 2; do
    check "a benchmark runs until rank $rank is stopped" hang STOP $rank -n 1000000 -c 0
    check_unless_killed "rank $rank stopped in a collective: the job ends with 4" has_code 4
    check "rank $rank stopped: the job ends in time" ended_in_time
    check "rank $rank stopped: one report lists every rank in rank order" reports stopped $rank
    check "rank $rank stopped: the report shows what the other ranks waited for" \
        says_what_was_awaited $rank
    check "rank $rank stopped: no process and no shared memory is left" left_nothing
    # The exit code is not checked: Open MPI's launcher returns the signal, not the ranks' code.
    check "a benchmark runs until rank $rank is killed" hang KILL $rank -n 1000000 -c 0
    check "rank $rank killed: the job ends in time" ended_in_time
    check_unless_killed "rank $rank killed: one report lists every rank in rank order" \
        reports dead $rank
    check "rank $rank killed: no process and no shared memory is left" left_nothing
done
# Small blocks: ranks spend most of the time in MPI, for verification and agreement.
check "a benchmark runs until rank 1 is stopped between collectives" \
    hang STOP 1 -n 1 -w 0 --algo packet -c 20
check_unless_killed "a rank stopped between collectives: the job ends with 4" has_code 4
check "a rank stopped between collectives: the job ends in time" ended_in_time
check "a rank stopped between collectives: one report lists every rank" reports stopped 1
check "a rank stopped between collectives: no process and no shared memory is left" left_nothing

# missing RANK: 3 ranks, one of which does not start in time for the bootstrap.
# shellcheck disable=SC2016  # expanded by the ranks
missing() {
    LATE=$1 timeout 60 ci/mpirun -np 3 bash -c \
        'case ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}} in "$LATE") sleep 50 ;; esac
         exec ./bench_allreduce -b 8 -e 8 -T 1'
}
# reports_missing_rank RANK DEADLINE_S: one report of three ranks in rank order, in which RANK gave no answer.
reports_missing_rank() {
    awk -v silent="$1" -v head="weir: where 3 ranks stand in set-up (deadline ${2}000 ms): bench_allreduce" '
        BEGIN { lines = 0 }
        $0 == head { heads++ }
        /^  rank [0-9]/ {
            if (heads != 1 || $2 + 0 != lines) wrong = 1
            if ($0 !~ (lines == silent ? ": no answer; " : "[(]pid [0-9]+[)]: in set-up: ")) wrong = 1
            lines++
        }
        END { exit !(heads == 1 && lines == 3 && !wrong) }' "$err"
}
for rank in 0 2; do
    started=$(now_ms)
    missing $rank >"$out" 2>"$err" </dev/null
    code=$?
    took_ms=$(($(now_ms) - started))
    check_unless_killed "rank $rank does not start: the job ends with 4" has_code 4
    check "rank $rank does not start: the job ends in time" ended_in_time
    check "rank $rank does not start: one report in rank order shows it without answer" \
        reports_missing_rank $rank 1
done

# killed_early RANK: 3 ranks, one of which is killed while the others are inside MPI_Init.
# shellcheck disable=SC2016  # expanded by the ranks
killed_early() {
    EARLY=$1 timeout 60 ci/mpirun -np 3 bash -c \
        'case ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}} in "$EARLY") sleep 2; kill -KILL $$ ;; esac
         exec ./bench_allreduce -b 8 -e 8 -T 1'
}
for rank in 0 2; do
    name="rank $rank is killed before MPI_Init: one report in rank order shows it without answer"
    started=$(now_ms)
    killed_early $rank >"$out" 2>"$err"
    took_ms=$(($(now_ms) - started))
    check "rank $rank is killed before MPI_Init: the job ends in time" ended_in_time
    if kills_before_deadline; then
        skip "$name" "this launcher kills the other ranks before their deadline"
    else
        check "$name" reports_missing_rank $rank 1
    fi
done

# with_deaths RANK CALL: 3 ranks, of which one is killed or stopped in that MPI call. They print to a file,
# because the launcher may drop what a rank prints before it ends. Sets started: when the last rank began, as
# a busy machine may take seconds to start them.
# shellcheck disable=SC2016  # expanded by the ranks
with_deaths() {
    rm -f "$scratch/ranks.began"
    timeout 60 ci/mpirun -np 3 env LD_PRELOAD="$scratch/death.so" DEATH_RANK="$1" DEATH_CALL="$2" \
        bash -c 'date +%s%3N >>"$0.began"; exec ./bench_allreduce -b 8 -e 8 -T "$1" 2>>"$0"' \
        "$scratch/ranks" $deadline_s >"$out" 2>"$err"
    cat "$scratch/ranks" >>"$err"
    rm -f "$scratch/ranks"
    started=$(sort -n "$scratch/ranks.began" | tail -n 1)
}

# Killed or stopped at the end of MPI_Init, between it and the communicator, and while that is created: a
# preloaded library does it in an MPI call of that phase. After a death Open MPI's launcher leaves the others four
# seconds for the report instead of one, which is shorter than their deadline; it always waits that long, so three
# seconds are no part of the time in which the job must end.
set_up_deaths() {
    local seconds=4
    [ -z "${DEATH_STOPS-}" ] || seconds=1
    OMPI_MCA_odls_base_sigkill_timeout=$seconds with_deaths "$1" "$2"
    took_ms=$(($(now_ms) - started - (seconds - 1) * 1000))
    ended_in_time && reports_missing_rank "$1" $deadline_s
}
check_in_set_up() {
    if kills_before_deadline; then
        skip "$1" "this launcher kills the other ranks before their deadline"
    else
        check "$1" set_up_deaths "$2" "$3"
    fi
}
# The launcher may kill the stopped rank before that prints anything; but what it prints accuses no other rank.
stopped_says_so() {
    with_deaths 1 9
    reports_missing_rank 1 $deadline_s &&
        { ! grep -q '^bench_allreduce: rank 1' "$err" ||
            grep -q '^bench_allreduce: rank 1 was stopped for [0-9]* ms, longer' "$err"; } &&
        grep -q '^  rank 2 .*: in set-up: communicator; .*not complete after '"$deadline_s"'000 ms' "$err"
}
if command -v "${MPICC:-mpicc}" >/dev/null 2>&1 &&
    "${MPICC:-mpicc}" -shared -fPIC -o "$scratch/death.so" verify/tests/support/mpi_death.c; then
    for at in 1:0 0:3 2:9; do
        name="rank ${at%:*} is killed in set-up, exchange ${at#*:}: one report shows it without answer"
        check_in_set_up "$name" ${at%:*} ${at#*:}
    done
    # The deadline is that of an exchange: creating the communicator may take longer.
    check "exchanges 9 to 15, of the communicator, take 350 ms each, with a deadline of two seconds" \
        timeout 60 ci/mpirun -np 3 env LD_PRELOAD="$scratch/death.so" \
        SLOW_MS=350 SLOW_FROM=9 SLOW_TO=15 ./bench_allreduce -b 8 -e 8 -T $deadline_s -n 1 -w 0
    # The launcher continues the stopped rank before it terminates it.
    export DEATH_STOPS=1
    for at in 0:0 1:4; do
        name="rank ${at%:*} is stopped in set-up, exchange ${at#*:}: one report shows it without answer"
        check_in_set_up "$name" ${at%:*} ${at#*:}
    done
    # Exchange 7, of the communicator, has a deadline, which is over when the stopped rank continues.
    export DEATH_WAITS=1
    name="rank 1 is stopped while it waits in exchange 9: one report shows it without answer"
    check_in_set_up "$name" 1 9
    if ! kills_before_deadline; then
        check "it says that it was stopped or nothing, the others what they waited for" stopped_says_so
    fi
else
    skip "ranks killed in set-up" "no ${MPICC:-mpicc}"
fi
tap_done
