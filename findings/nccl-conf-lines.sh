#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
[ ! -e /dev/nvidiactl ] || lacks "the machine has a GPU driver"
python_packages --no-deps nvidia-nccl-cu13==2.32.3
says "a line of nccl.conf with a blank before or around the equals sign, with export, quotes or a comment behind it is dropped without a word; of two lines the first holds; NCCL_CONF_FILE that names no file hides ~/.nccl.conf"
lib=$(find venv -name 'libnccl.so.2')
mkdir home
export HOME=$work/home
# Whether NCCL_DEBUG=INFO took effect.
logs() { python3 -c "
import ctypes
ctypes.CDLL('$lib').ncclGetUniqueId(ctypes.create_string_buffer(128))" 2>/dev/null | grep -q 'NCCL INFO' && echo yes || echo no; }
for row in 'NCCL_DEBUG=INFO yes' '_NCCL_DEBUG=INFO no' 'NCCL_DEBUG_=_INFO no' 'export_NCCL_DEBUG=INFO no' \
    'NCCL_DEBUG="INFO" no' 'NCCL_DEBUG=INFO_#_why no'; do
    line=${row% *}
    line=${line//_/ }
    printf '%s\n' "${line//NCCL DEBUG/NCCL_DEBUG}" >conf
    expect "takes effect: '$(cat conf)'" "${row##* }" "$(NCCL_CONF_FILE=$work/conf logs)"
done
printf 'NCCL_DEBUG=INFO\nNCCL_DEBUG=WARN\n' >conf
expect "INFO, then WARN" yes "$(NCCL_CONF_FILE=$work/conf logs)"
cp conf home/.nccl.conf
expect "only ~/.nccl.conf" yes "$(logs)"
expect "NCCL_CONF_FILE names no file" no "$(NCCL_CONF_FILE=$work/none logs)"
finish
