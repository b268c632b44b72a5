#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
debian13_packages ucx-utils=1.18.1+ds-2+b1
says "UCX_TLS=^tcp,^sysv excludes tcp only: the caret belongs to the whole list, and the second name, which no transport has, is ignored without a warning"
# The transports that an endpoint between processes of one host uses.
lanes() { in_debian13 env UCX_TLS="$1" UCX_LOG_LEVEL=info ucx_info -e -u t -D shm 2>&1 | sed -n 's/.*tag(\(.*\));*.*/\1/p'; }
expect "lanes with ^tcp,^sysv" "sysv/memory cma/memory" "$(lanes ^tcp,^sysv)"
expect "lanes with ^tcp,sysv" "posix/memory cma/memory" "$(lanes ^tcp,sysv)"
warns() { in_debian13 env UCX_TLS="$1" UCX_LOG_LEVEL=warn ucx_info -e -u t -D shm 2>&1 | grep -c 'is not available'; }
expect "warnings for ^tcp,^sysv and for sm,^sysv" "0 1" "$(warns ^tcp,^sysv) $(warns sm,^sysv)"
finish
