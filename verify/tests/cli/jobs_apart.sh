#!/bin/bash
# Ranks that a launcher only numbers (mpirun on one node) find the ranks of the same job and no
# others: jobs of one user in containers that share /dev/shm, the network and the host's name, as
# with docker --ipc=host --network=host; ranks behind wrappers; names that other processes hold; and
# ranks that are killed, which leave nothing. Launchers' variables are set by hand. Run from the
# repository's root.
set -u
# shellcheck source=verify/tests/support/tap.sh
. verify/tests/support/tap.sh
program=$(realpath "${O:-build}")/tests/test_boot_launcher
if [ ! -x "$program" ]; then
    skip "jobs stay apart" "$program is not built"
    tap_done
fi
for name in $(compgen -e | grep -E '^(OMPI_|PMI|MPI_|MV2_|SLURM_|PALS_|FLUX_)|RANK|WORLD_SIZE'); do unset "$name"; done
export WEIR_TIMEOUT_MS=8000

# The variables of a rank, by launcher.
open_mpi() {
    echo "OMPI_COMM_WORLD_RANK=$1 OMPI_COMM_WORLD_SIZE=$2 OMPI_COMM_WORLD_LOCAL_SIZE=$2 PMIX_NAMESPACE=77"
}
hydra() { echo "PMI_RANK=$1 PMI_SIZE=$2 MPI_LOCALNRANKS=$2"; }
mvapich() { echo "MV2_COMM_WORLD_RANK=$1 MV2_COMM_WORLD_SIZE=$2 MV2_COMM_WORLD_LOCAL_SIZE=$2 PMI_ID=$1"; }
export -f open_mpi hydra mvapich
export program

# job LAUNCHER RANKS TAG ROUNDS [WRAPPER...]: the ranks as children of this shell; 0 if all joined.
job() {
    local launcher=$1 ranks=$2 tag=$3 rounds=$4 rank status=0
    shift 4
    for ((rank = 0; rank < ranks; rank++)); do
        # shellcheck disable=SC2046  # several variables
        env $($launcher $rank "$ranks") "$@" "$program" join "$tag" "$rounds" &
    done
    for rank in $(jobs -p); do wait "$rank" || status=1; done
    return $status
}
export -f job

# ------------------------------------------------------------------------------------ containers
# apart OPTIONS LAUNCHER ROUNDS: two jobs at once, each in its own pid namespace, again and again.
# shellcheck disable=SC2016  # expanded by the inner shell
apart() {
    local round tag status=0 pids
    : >"$err"
    for ((round = 0; round < $3; round++)); do
        pids=()
        for tag in a b; do
            # shellcheck disable=SC2086  # several options
            unshare $1 --pid --fork --mount-proc bash -c 'job $0 2 $1 3' "$2" $tag >"$out" 2>>"$err" &
            pids+=($!)
        done
        for tag in "${pids[@]}"; do wait "$tag" || status=1; done
    done
    return $status
}
rounds=5
long_part "two jobs in containers, 200 rounds of each kind" && rounds=200
if unshare -r --pid --fork --mount-proc true 2>/dev/null; then
    for launcher in open_mpi hydra mvapich; do
        check "two containers with user namespaces: $launcher" apart -r $launcher $rounds
    done
else
    skip "two containers with user namespaces" "the system allows no user namespaces"
fi
if unshare --pid --fork --mount-proc true 2>/dev/null; then
    check "two containers of one user: open_mpi" apart "" open_mpi $rounds
    check "two containers of one user: hydra" apart "" hydra $rounds
else
    skip "two containers of one user" "needs root, to create pid namespaces"
fi
two_at_once() {
    (job open_mpi 3 a 5) >"$out" 2>"$err" &
    (job open_mpi 3 b 5) >>"$out" 2>>"$err" && wait $!
}
check "two jobs of two shells at once" two_at_once

# -------------------------------------------------------------------------------------- wrappers
cat >"$scratch/wrapper" <<'END'
#!/bin/bash
"$@"
exit $?
END
chmod +x "$scratch/wrapper"
behind() { job "$launcher" 3 w 2 "$@" >"$out" 2>"$err"; }
for launcher in open_mpi hydra mvapich; do
    check "$launcher: ranks without a wrapper" behind
    check "$launcher: ranks behind timeout" behind timeout 30
    check "$launcher: ranks behind a script without exec" behind "$scratch/wrapper"
    check "$launcher: ranks behind three wrappers" behind timeout 30 nice "$scratch/wrapper" setsid -w
done
launcher=open_mpi
if strace -f -o /dev/null true 2>/dev/null; then
    check "ranks behind strace -f" behind strace -f -o /dev/null
else
    skip "ranks behind strace -f" "strace is not installed, or may not trace"
fi
one_behind_timeout() {
    local status=0
    # shellcheck disable=SC2046  # several variables
    env $(open_mpi 0 2) timeout 30 "$program" join m 2 >"$out" 2>"$err" &
    # shellcheck disable=SC2046
    env $(open_mpi 1 2) "$program" join m 2 >>"$out" 2>>"$err" || status=1
    wait $! && return $status
}
check "one rank behind a wrapper, the other not" one_behind_timeout

# A launcher inside a rank of another one, whose variables it inherits: two such jobs at once.
# shellcheck disable=SC2016  # expanded by the inner shell
nested() {
    local tag status=0 pids=()
    for tag in a b; do
        # shellcheck disable=SC2046
        env $(open_mpi 0 2) PMIX_NAMESPACE=outer bash -c 'PMIX_NAMESPACE=$0; job open_mpi 2 $0 3' $tag \
            >"$out" 2>"$err" &
        pids+=($!)
    done
    for tag in "${pids[@]}"; do wait "$tag" || status=1; done
    return $status
}
check "launchers inside a rank of another launcher" nested

# ----------------------------------------------------------------------------------------- kills
# Files of the bootstrap in shared folders, and its sockets.
traces() {
    find /dev/shm /tmp -maxdepth 1 -name 'weir-boot*' 2>/dev/null
    grep -o '@weir-boot.*' /proc/net/unix
}
# Kills rank 0 of 2 while it waits for rank 1; the next job of this shell is not disturbed.
killed() {
    local ms
    traces | sort >"$scratch/before"
    for ms in 0 1 3 10 30 100; do
        # shellcheck disable=SC2046
        env $(open_mpi 0 2) "$program" join k 1 >"$out" 2>"$err" &
        sleep "0.$(printf %03d $ms)"
        kill -KILL $!
        wait $! 2>/dev/null
        (job open_mpi 2 after 1) >"$out" 2>"$err" || return 1
    done
    traces | sort | cmp -s - "$scratch/before"
}
check "a killed rank 0 leaves nothing, and the next job joins" killed

# ---------------------------------------------------------------------------------- other users
# Takes every name of weir that it sees, as another user, until its input ends.
cat >"$scratch/squat.py" <<'END'
import os, select, socket, sys
os.setgid(61236); os.setuid(61236)
held = {}
while not select.select([sys.stdin], [], [], 0)[0]:
    for line in open("/proc/net/unix"):
        name = line.split()[-1]
        if name.startswith("@weir-boot") and name not in held:
            one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                one.bind("\0" + name[1:]); one.listen(64); held[name] = one
            except OSError:
                pass
print(len(held))
END
squatted() {
    mkfifo "$scratch/hold" && exec 5<>"$scratch/hold"
    python3 "$scratch/squat.py" <&5 >"$scratch/held" 2>"$err" &
    local squatter=$! status=0
    (job open_mpi 2 s 200) >"$out" 2>>"$err" || status=1
    echo >&5
    wait $squatter
    exec 5>&-
    [ "$(cat "$scratch/held")" -gt 0 ] && return $status
}
if [ "$(id -u)" -eq 0 ] && command -v python3 >/dev/null; then
    check "another user who takes the names does not stop the job" squatted
else
    skip "another user who takes the names does not stop the job" "needs root and Python"
fi
tap_done
