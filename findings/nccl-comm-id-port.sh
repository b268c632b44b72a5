#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
[ ! -e /dev/nvidiactl ] || lacks "the machine has a GPU driver"
python_packages --no-deps nvidia-nccl-cu13==2.32.3
says "NCCL_COMM_ID is accepted with a port that no socket has: 99999 becomes 34463, and an address without a port gets 65535"
lib=$(find venv -name 'libnccl.so.2')
port() { NCCL_COMM_ID=$1 python3 -c "
import ctypes
text = ctypes.create_string_buffer(128)
code = ctypes.CDLL('$lib').ncclGetUniqueId(text)
print(code, int.from_bytes(text.raw[10:12], 'big'))" 2>/dev/null; }
expect "127.0.0.1:5555: code, port in the id" "0 5555" "$(port 127.0.0.1:5555)"
expect "127.0.0.1:99999" "0 34463" "$(port 127.0.0.1:99999)"
expect "127.0.0.1" "0 65535" "$(port 127.0.0.1)"
finish
