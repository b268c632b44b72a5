#!/bin/bash
# Killed ranks leave nothing: no file in /dev/shm or /tmp, no System V object, no process. Each case
# kills some of the forked ranks of `test_comm_faults hold` with SIGKILL. Run from the repository's
# root.
#
# Other programs create files, too. Where the system allows it, the test runs in private namespaces
# with an empty /dev/shm and /tmp and sees every file; elsewhere it looks for names that contain
# "weir".
set -u
victims=$(realpath "${O:-build}")/tests/test_comm_faults

# /tmp is not replaced if it contains the checkout or the build.
case $PWD:$victims in
/tmp/* | *:/tmp/*) private=(/dev/shm) ;;
*) private=(/dev/shm /tmp) ;;
esac
if [ -z "${IN_NAMESPACE:-}" ] &&
    unshare -r -m -i mount -t tmpfs none /dev/shm 2>/dev/null; then
    # shellcheck disable=SC2016  # expanded by the inner shell
    IN_NAMESPACE=1 exec unshare -r -m -i bash -c '
        script=$1
        shift
        for folder; do mount -t tmpfs none "$folder" || exit 3; done
        exec bash "$script"' - "$0" "${private[@]}"
fi
# shellcheck source=verify/tests/support/tap.sh
. verify/tests/support/tap.sh

# Lists every file of private folders, files with "weir" in their name elsewhere, and in a private
# namespace all System V objects.
listing() {
    local folder
    for folder in /dev/shm /tmp; do
        if [ -n "${IN_NAMESPACE:-}" ] && [[ " ${private[*]} " == *" $folder "* ]]; then
            ls -A "$folder"
        else
            find "$folder" -maxdepth 1 -name '*weir*' ! -path "$PWD"
        fi
    done
    if [ -n "${IN_NAMESPACE:-}" ]; then ipcs; fi
}

# Sets $runner to the process id of the ranks' parent, and $ranks to those of the ranks in order.
start_victims() {
    local tries
    : >"$out"
    "$victims" hold >"$out" 2>"$err" &
    runner=$!
    disown
    for ((tries = 0; tries < 600; tries++)); do
        [ "$(wc -l <"$out")" -eq 4 ] && break
        sleep 0.05
    done
    mapfile -t ranks < <(sort -n "$out" | cut -d ' ' -f 2)
    [ ${#ranks[@]} -eq 4 ]
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

# all_gone PID...: 0 if all of these processes end within 20 seconds; kills the others.
all_gone() {
    local tries
    for ((tries = 0; tries < 400; tries++)); do
        any_runs "$@" || return 0
        sleep 0.05
    done
    kill -KILL "$@" 2>/dev/null
    return 1
}

# leaves_nothing WHO: kills the runner, one rank, all ranks, or everything; 0 if nothing remains.
leaves_nothing() {
    local doomed
    listing >"$scratch/before"
    start_victims || return 1
    case $1 in
    one) doomed=("${ranks[1]}") ;;
    runner) doomed=("$runner") ;;
    all) doomed=("${ranks[@]}") ;;
    everything) doomed=("$runner" "${ranks[@]}") ;;
    esac
    kill -KILL "${doomed[@]}" || return 1
    all_gone "$runner" "${ranks[@]}" || return 1
    listing >"$scratch/after"
    diff "$scratch/before" "$scratch/after" >"$out"
}

# The listing shows a new file and a new System V object.
sees_traces() {
    local id status=0
    listing >"$scratch/before"
    touch "/dev/shm/weir.$$"
    listing | cmp -s - "$scratch/before" && status=1
    rm -f "/dev/shm/weir.$$"
    if [ -n "${IN_NAMESPACE:-}" ]; then
        id=$(ipcmk -M 4096 | grep -o '[0-9]*$')
        listing | cmp -s - "$scratch/before" && status=1
        ipcrm -m "$id"
    fi
    listing | cmp -s - "$scratch/before" || status=1
    return "$status"
}

check "a leftover file and System V object are found" sees_traces
check "a killed rank leaves nothing, and the other ranks end" leaves_nothing one
check "all ranks killed leave nothing" leaves_nothing all
check "ranks end when their parent is killed, and leave nothing" leaves_nothing runner
check "parent and ranks killed at once leave nothing" leaves_nothing everything
tap_done
