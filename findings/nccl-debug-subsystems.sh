#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
[ ! -e /dev/nvidiactl ] || lacks "the machine has a GPU driver"
python_packages --no-deps nvidia-nccl-cu13==2.32.3
says "one unknown word in NCCL_DEBUG_SUBSYS drops the whole list without a message, so that NCCL_DEBUG_SUBSYS=NET,IB shows no line of NET; a list may exclude only as a whole, with ^ at its start; an unknown NCCL_DEBUG level means none"
lib=$(find venv -name 'libnccl.so.2')
value() { env "$1=$2" python3 -c "
import ctypes
text, length = ctypes.c_char_p(), ctypes.c_int()
code = ctypes.CDLL('$lib').ncclParamGetParameter(b'$1', ctypes.byref(text), ctypes.byref(length))
print(text.value.decode() if code == 0 else code)" 2>/dev/null; }
expect "NET,COLL" COLL,NET "$(value NCCL_DEBUG_SUBSYS NET,COLL)"
expect "NET,IB" INIT,ENV,BOOTSTRAP "$(value NCCL_DEBUG_SUBSYS NET,IB)"
expect "ALL,^NET" INIT,ENV,BOOTSTRAP "$(value NCCL_DEBUG_SUBSYS ALL,^NET)"
expect "NCCL_DEBUG=warning" "<unknown>" "$(value NCCL_DEBUG warning)"
expect "the code for NCCL_BUFFSIZE, which this function does not know" 4 "$(value NCCL_BUFFSIZE 4194304)"
finish
