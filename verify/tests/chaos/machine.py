"""Linux namespaces, processes and network interfaces, by system calls: what a job is enclosed in.

A worker process encloses itself before it starts its job. It then has a private network, an empty
private /dev/shm and /tmp, private System V objects, and every orphan among its descendants becomes
its child. What is left after the job, in any of these, is therefore the job's.
"""
import ctypes
import fcntl
import os
import socket
import struct
import sys
import time

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
PR_SET_CHILD_SUBREAPER = 36
SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK, SIOCSIFMTU = 0x8914, 0x8916, 0x891C, 0x8922
IFF_UP, IFF_TAP, IFF_NO_PI = 1, 2, 0x1000
TUN = "/dev/net/tun"
TUNSETIFF = 0x400454CA
MTU = 9000  # fewer frames for the emulated cable

libc = ctypes.CDLL(None, use_errno=True)


def call(name, *arguments):
    """Calls a function of libc; raises OSError if it returns a negative number."""
    if getattr(libc, name)(*arguments) < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")


def mount_tmpfs(folder, bytes_=None):
    options = f"mode=1777,size={bytes_}" if bytes_ else "mode=1777"
    call("mount", b"tmpfs", os.fsencode(folder), b"tmpfs", 0, options.encode())


def become_root_of_namespace():
    """For users without privileges: a user namespace in which this user is root."""
    uid, gid = os.getuid(), os.getgid()
    call("unshare", CLONE_NEWUSER)
    for path, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open("/proc/self/" + path, "w", encoding="ascii") as file:
            file.write(text)


def mount_private_tmp(kept):
    """Mounts an empty /tmp in which those of the kept folders that were in /tmp stay visible."""
    here = os.getcwd()
    kept = {folder: os.open(folder, os.O_PATH) for folder in map(os.path.realpath, kept)
            if folder.startswith("/tmp/")}
    mount_tmpfs("/tmp")
    for folder, file in kept.items():
        os.makedirs(folder, exist_ok=True)
        call("mount", f"/proc/self/fd/{file}".encode(), os.fsencode(folder), None,
             MS_BIND | MS_REC, None)
        os.close(file)
    os.chdir(here)  # the same path, but in the new /tmp


def enclose(shm_bytes, kept, with_network=True):
    """Encloses this process; raises OSError where the system does not allow it. kept: the folders
    that the job needs, even if they are in /tmp."""
    if os.geteuid() != 0:
        become_root_of_namespace()
    call("unshare", CLONE_NEWNS | CLONE_NEWIPC | (CLONE_NEWNET if with_network else 0))
    call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    mount_tmpfs("/dev/shm", shm_bytes)
    mount_private_tmp(kept)
    call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if with_network:
        configure("lo", None)


def configure(interface, address):
    """Sets an interface up, with an IPv4 address and 24 bits of network unless that is None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        name = interface.encode().ljust(16, b"\0")
        if address:
            for request, number in ((SIOCSIFADDR, address), (SIOCSIFNETMASK, "255.255.255.0")):
                inet = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(number))
                fcntl.ioctl(control, request, name + inet)
            fcntl.ioctl(control, SIOCSIFMTU, name + struct.pack("i12x", MTU))
        fcntl.ioctl(control, SIOCSIFFLAGS, name + struct.pack("h14x", IFF_UP))


def has_taps():
    try:
        os.close(os.open(TUN, os.O_RDWR))
        return True
    except OSError:
        return False


class Host:
    """An emulated host: a network with the interface weir0, whose other end is the file tap."""

    def __init__(self, number):
        self.name = f"chaos-{number}"
        self.address = f"10.77.0.{number + 1}"
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        call("unshare", CLONE_NEWNET)
        self.network = os.open("/proc/self/ns/net", os.O_RDONLY)
        self.tap = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(self.tap, TUNSETIFF, struct.pack("16sH22x", b"weir0", IFF_TAP | IFF_NO_PI))
        configure("lo", None)
        configure("weir0", self.address)
        call("setns", home, CLONE_NEWNET)
        os.close(home)

    def enter(self):
        """Moves this process, a rank before it executes its program, to the host."""
        call("setns", self.network, CLONE_NEWNET)
        call("unshare", CLONE_NEWUTS)
        socket.sethostname(self.name)


def emulated_hosts(count, shm_bytes, kept):
    """Encloses this process, and returns hosts. Where the system does not allow that, says why and ends the
    program with 77. kept: as of enclose."""
    try:
        enclose(shm_bytes, kept)
        return [Host(number) for number in range(count)]
    except OSError as error:
        print(f"no emulated hosts here: {error}", file=sys.stderr)
        sys.exit(77)


def torchrun_variables(hosts, host, rank, nranks, local, port):
    """Returns the variables of a rank on a host, as torchrun sets them, and the name of its node. local: the
    ranks of that host, in order."""
    return {"RANK": str(rank), "WORLD_SIZE": str(nranks), "MASTER_PORT": str(port),
            "MASTER_ADDR": hosts[0].address, "TORCHELASTIC_RUN_ID": "none",
            "LOCAL_RANK": str(rank - local[0]), "LOCAL_WORLD_SIZE": str(len(local)),
            "WEIR_HOSTID": host.name}


# ---------------------------------------------------------------------- processes

def children(pid):
    """Returns the process ids of a process's children, in the order in which it started them."""
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                found += [int(word) for word in file.read().split()]
    except OSError:  # it has ended
        pass
    return found


def state(pid):
    """Returns the letter of a process's or thread's state; "X" if there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "X"


def runs(pid):
    return state(pid) not in "XZ"


def descendants(pid):
    """Returns the running and stopped processes below a process."""
    found, left = [], children(pid)
    while left:
        one = left.pop()
        left += children(one)
        if runs(one):
            found.append(one)
    return found


def environment(pid, name):
    """Returns a variable of the environment with which a process was started, or None."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            for entry in file.read().split(b"\0"):
                key, _, value = entry.partition(b"=")
                if key == name.encode():
                    return value.decode()
    except OSError:
        pass
    return None


def program_of(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def blocks(pid, number):
    """Returns whether the process's first thread blocks a signal."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            mask = next(line for line in file if line.startswith("SigBlk")).split()[1]
        return bool(int(mask, 16) >> (number - 1) & 1)
    except (OSError, StopIteration):
        return False


class Waits:
    """For how long processes have waited for a processor. The kernel counts a wait when it is over, and
    the count of a thread that then ends is gone: a wait that lasts is counted here, from the first look
    at which the thread is runnable to the last one before it has run again."""

    def __init__(self):
        self.since = {}  # thread: (for how long it had run, the time), at that first look

    def seconds(self, pid):
        """Returns the longest wait of the process's threads, in seconds."""
        longest = 0
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
                    ran, waited = file.read().split()[:2]
                longest = max(longest, int(waited) * 1e-9 + self.lasting_s(thread, ran))
        except (OSError, ValueError):
            pass
        return longest

    def lasting_s(self, thread, ran):
        now = time.monotonic()
        if state(thread) != "R":
            self.since.pop(thread, None)
            return 0
        if self.since.get(thread, (None,))[0] != ran:
            self.since[thread] = (ran, now)
        return now - self.since[thread][1]


# ---------------------------------------------------------------------- leftovers

def files_left(allowed, kept):
    """Returns what is in the private folders, without names that begin like allowed ones and without
    what leads to a kept folder."""
    paths = [os.path.join(folder, name) for folder in ("/dev/shm", "/tmp")
             for name in sorted(os.listdir(folder)) if not name.startswith(allowed)]
    return [path for path in paths
            if not any((os.path.realpath(folder) + "/").startswith(path + "/") for folder in kept)]


def objects_left():
    """Returns the System V objects of the namespace."""
    found = []
    for kind in ("shm", "sem", "msg"):
        with open("/proc/sysvipc/" + kind, encoding="ascii") as file:
            found += [f"System V {kind} {line.split()[1]}" for line in file.readlines()[1:]]
    return found


def sockets_left():
    """Returns the sockets of this network that a process still holds: those with an inode."""
    found = []
    for table, column in (("tcp", 9), ("tcp6", 9), ("udp", 9), ("unix", 6)):
        try:
            with open("/proc/thread-self/net/" + table, encoding="utf-8", errors="replace") as file:
                lines = file.readlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if len(fields) > column and fields[column] != "0":
                found.append(f"{table} socket {fields[1] if table != 'unix' else fields[-1]}")
    return found
