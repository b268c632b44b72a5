#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs python3
[ ! -e /dev/nvidiactl ] || lacks "the machine has a GPU driver"
unshare -n true 2>/dev/null || lacks "no network namespaces"
python_packages --no-deps nvidia-nccl-cu13==2.28.9
says "without a GPU driver ncclGetUniqueId of NCCL 2.28 succeeds, although ncclCommInitRank cannot; in a network namespace whose loopback interface is down it fails with ncclInvalidUsage (5), an error that blames the caller"
lib=$(find venv -name 'libnccl.so.2')
ask() { python3 -c "
import ctypes
nccl = ctypes.CDLL('$lib')
print(nccl.ncclGetUniqueId(ctypes.create_string_buffer(128)))" 2>/dev/null; }
expect "as it is" 0 "$(ask)"
export -f ask; export lib
expect "loopback down" 5 "$(unshare -n bash -c ask)"
expect "loopback up, no other interface" 0 "$(unshare -n bash -c 'ip link set lo up; ask')"
finish
