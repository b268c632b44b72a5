#!/bin/bash
# The ranks of one user, attacked by another user of the same machine: it cannot open, read, write or
# trace their memory, and finds no file, System V object or socket by which it could. As a control,
# the same attack by the ranks' own user succeeds. Needs root, to become these users. Run from the
# repository's root.
set -u
# shellcheck source=verify/tests/support/tap.sh
. verify/tests/support/tap.sh
victims=${O:-build}/tests/test_comm_faults
user=61234 stranger=61235
name="another user cannot reach the ranks' memory"
if [ ! -x "$victims" ]; then
    skip "$name" "$victims is not built"
    tap_done
fi
if [ "$(id -u)" -ne 0 ] || ! setpriv --reuid $user --regid $user --clear-groups true 2>/dev/null; then
    skip "$name" "needs root, to run processes as two other users"
    tap_done
fi
# Both users must be able to execute it; the first one in PATH may be in root's home folder.
python=
for candidate in $(type -aP python3) /usr/bin/python3; do
    setpriv --reuid $user --regid $user --clear-groups "$candidate" -c 'import os; os.pidfd_open' \
        2>/dev/null && python=$candidate && break
done
if [ -z "$python" ]; then
    skip "$name" "needs Python 3.9 in a folder that all users can read"
    tap_done
fi

cp "$victims" "$scratch/victims"
cat >"$scratch/attack.py" <<'END'
"""Attacks process PID in every way by which one process can reach another one's memory; prints a
line for each that succeeds. Arguments: PID and the user id of its owner."""
import ctypes, os, stat, sys

pid, owner = int(sys.argv[1]), int(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)

def attempt(name, action):
    try:
        if action():
            print(name)
    except OSError:
        pass

def memory_files():
    folder = f"/proc/{pid}/fd"
    return [f"{folder}/{fd}" for fd in os.listdir(folder)
            if "memfd:weir" in os.readlink(f"{folder}/{fd}")]

def read_file():
    return any(os.pread(os.open(path, os.O_RDONLY), 8, 0) for path in memory_files())

def write_file():
    return any(os.open(path, os.O_RDWR) for path in memory_files())

def read_process():
    class Part(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]
    here = ctypes.create_string_buffer(8)
    place = int(open(f"/proc/{pid}/maps").readline().split("-")[0], 16)
    mine, theirs = Part(ctypes.addressof(here), 8), Part(place, 8)
    return libc.process_vm_readv(pid, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0) == 8

def duplicate_descriptor():
    pidfd = os.pidfd_open(pid)
    return any(libc.syscall(438, pidfd, fd, 0) >= 0 for fd in range(64))

def shared_files():
    found = []
    for folder in "/dev/shm", "/tmp", "/var/tmp", "/run", "/run/lock":
        for entry in os.scandir(folder) if os.path.isdir(folder) else ():
            about = entry.stat(follow_symlinks=False)
            if about.st_uid == owner and (stat.S_ISREG(about.st_mode) or stat.S_ISSOCK(about.st_mode)):
                found.append(entry.path)
    return found

def system_v():
    return any(line.split()[7:8] == [str(owner)] for kind in ("shm", "sem", "msg")
               for line in open(f"/proc/sysvipc/{kind}"))

attempt("reads shared memory", read_file)
attempt("opens shared memory for writing", write_file)
attempt("opens the process's memory", lambda: os.open(f"/proc/{pid}/mem", os.O_RDWR) >= 0)
attempt("reads the process's memory", read_process)
attempt("duplicates a descriptor", duplicate_descriptor)
attempt("traces the process", lambda: libc.ptrace(16, pid, 0, 0) == 0)
attempt("finds a file", shared_files)
attempt("finds a System V object", system_v)
END
chmod 755 "$scratch" "$scratch/victims" "$scratch/attack.py"

as_user() {
    local id=$1
    shift
    setpriv --reuid "$id" --regid "$id" --clear-groups "$@"
}

as_user $user "$scratch/victims" hold >"$scratch/ranks" 2>"$err" &
runner=$!
trap 'kill -KILL "$runner" 2>/dev/null; wait "$runner" 2>/dev/null; rm -rf "$scratch"' EXIT
for ((tries = 0; tries < 600; tries++)); do
    [ "$(wc -l <"$scratch/ranks")" -eq 4 ] && break
    sleep 0.05
done
mapfile -t ranks < <(sort -n "$scratch/ranks" | cut -d ' ' -f 2)
check "the ranks of a user run" [ ${#ranks[@]} -eq 4 ]

# attack USER RANK: leaves the ways that succeeded in $out.
attack() {
    as_user "$1" "$python" "$scratch/attack.py" "${ranks[$2]}" $user >"$out" 2>"$err"
}
control() {
    attack $user 0
    grep -q "reads shared memory" "$out" && grep -q "opens shared memory for writing" "$out"
}
fails() {
    attack $stranger "$1" && [ ! -s "$out" ]
}
check "control: a process of the same user reaches their memory" control
for rank in 0 3; do check "another user cannot reach the memory of rank $rank" fails $rank; done

only_owner_has_rights() {
    local fd count=0
    for fd in /proc/"${ranks[0]}"/fd/*; do
        [[ $(readlink "$fd") == *memfd:weir* ]] || continue
        count=$((count + 1))
        [ "$(stat -L -c %a "$fd")" = 600 ] || return 1
    done
    [ $count -gt 0 ]
}
check "shared memory has mode 600" only_owner_has_rights
tap_done
