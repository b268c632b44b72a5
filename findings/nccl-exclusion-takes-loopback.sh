#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs ip
[ ! -e /dev/nvidiactl ] || lacks "the machine has a GPU driver"
unshare -n true 2>/dev/null || lacks "no network namespaces"
python_packages --no-deps nvidia-nccl-cu13==2.32.3
says "NCCL_SOCKET_IFNAME=^docker, which excludes nothing on this machine, makes NCCL listen on loopback, which other nodes cannot reach; of a list of names the kernel's first is taken, not the list's"
lib=$(find venv -name 'libnccl.so.2')
ask() { NCCL_DEBUG=INFO python3 -c "
import ctypes
ctypes.CDLL('$lib').ncclGetUniqueId(ctypes.create_string_buffer(128))" 2>/dev/null | sed -n 's/.*Bootstrap: Using \([a-z0-9]*\):.*/\1/p'; }
cat >net <<'N'
ip link set lo up && ip link add test0 type veth peer name test1 && ip address add 10.79.0.1/24 dev test0 &&
    ip link set test0 up && ip link set test1 up || exit 1
echo "unset $(ask)"
for wish in ^docker ^docker,lo lo,test0 =test0,lo; do echo "$wish $(NCCL_SOCKET_IFNAME=$wish ask)"; done
N
export -f ask; export lib
seen=$(unshare -n bash ./net) || lacks "no virtual cable"
for row in 'unset test0' '^docker lo' '^docker,lo test0' 'lo,test0 lo' '=test0,lo lo'; do
    expect "NCCL_SOCKET_IFNAME ${row% *}" "${row#* }" "$(grep -F -- "${row% *} " <<<"$seen" | sed 's/.* //')"
done
finish
