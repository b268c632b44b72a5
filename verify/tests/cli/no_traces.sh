#!/bin/bash
# Whatever way ranks end, nothing stays behind: no file in /dev/shm or /tmp, no
# System V object, no process. The victims are the forked ranks of
# `test_comm_faults hold`; each case kills some of them with SIGKILL.
#
# Other programs of the machine make files, too. Where the system allows it, the
# test runs in name spaces of its own, with an empty /dev/shm and /tmp, and sees
# every trace; elsewhere it looks for names with "weir" in them.
set -u
victims=$(realpath "${O:-build}")/tests/test_comm_faults

# /tmp is not hidden where the checkout or the build lies in it.
case $PWD:$victims in
/tmp/* | *:/tmp/*) private=(/dev/shm) ;;
*) private=(/dev/shm /tmp) ;;
esac
if [ -z "${IN_OWN_SPACE:-}" ] &&
    unshare -r -m -i mount -t tmpfs none /dev/shm 2>/dev/null; then
    # shellcheck disable=SC2016  # expanded by the inner shell
    IN_OWN_SPACE=1 exec unshare -r -m -i bash -c '
        script=$1
        shift
        for folder; do mount -t tmpfs none "$folder" || exit 3; done
        exec bash "$script"' - "$0" "${private[@]}"
fi
# shellcheck source=verify/tests/support/tap.sh
. verify/tests/support/tap.sh

# What there is now: every name in private folders, those with "weir" elsewhere.
listing() {
    local folder
    for folder in /dev/shm /tmp; do
        if [ -n "${IN_OWN_SPACE:-}" ] && [[ " ${private[*]} " == *" $folder "* ]]; then
            ls -A "$folder"
        else
            find "$folder" -maxdepth 1 -name '*weir*' ! -path "$PWD"
        fi
    done
    if [ -n "${IN_OWN_SPACE:-}" ]; then ipcs; fi
}

# The runner's process id goes to $runner, the ranks' to $ranks, in their order.
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

# Whether any of these processes runs. A zombie does not: when its parent reaps
# it is not its affair.
any_runs() {
    local pid stat
    for pid; do
        { read -r stat <"/proc/$pid/stat"; } 2>/dev/null || continue
        [[ ${stat##*) } == [ZX]* ]] || return 0
    done
    return 1
}

# Within 20 seconds none of these processes is left.
all_gone() {
    local tries
    for ((tries = 0; tries < 400; tries++)); do
        any_runs "$@" || return 0
        sleep 0.05
    done
    kill -KILL "$@" 2>/dev/null
    return 1
}

# $1: the words runner, one, all or everything; who is killed.
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

# The listing would show what it is for.
sees_traces() {
    local id status=0
    listing >"$scratch/before"
    touch "/dev/shm/weir.$$"
    listing | cmp -s - "$scratch/before" && status=1
    rm -f "/dev/shm/weir.$$"
    if [ -n "${IN_OWN_SPACE:-}" ]; then
        id=$(ipcmk -M 4096 | grep -o '[0-9]*$')
        listing | cmp -s - "$scratch/before" && status=1
        ipcrm -m "$id"
    fi
    listing | cmp -s - "$scratch/before" || status=1
    return "$status"
}

check "traces would be seen" sees_traces
check "a killed rank leaves nothing, and the others end" leaves_nothing one
check "all ranks killed leave nothing" leaves_nothing all
check "ranks end with their killed runner and leave nothing" leaves_nothing runner
check "everything killed at once leaves nothing" leaves_nothing everything
tap_done
