#!/bin/bash
# The functions that NCCL has gained since 2.28, by ctypes on host memory: one-sided calls
# (clients/nccl_onesided.py, nccl_repeated.py) and the management of communicators (nccl_manage.py); the
# device interface with a fallback library (simulated by support/nccl_standin.c). Run from the repository's
# root.
. verify/tests/support/tap.sh
. verify/tests/support/client_checks.inc
O=${O:-build}
library=$PWD/$O/libweir_nccl.so
if [ ! -f "$library" ]; then
    skip "calls of libweir_nccl.so" "not built; run make"
    tap_done
fi
client_checks_need_python "calls of libweir_nccl.so"
export NCCL_SO_PATH=$library
export WEIR_BACKEND=host # host memory, also where there are GPUs
unset WEIR_NCCL_FALLBACK

for client in nccl_onesided nccl_repeated nccl_manage; do
    client_checks $client
done

if "${CC:-cc}" -shared -fPIC -Ilib/include -Ilib -o "$scratch/standin.so" verify/tests/support/nccl_standin.c 2>"$err"; then
    WEIR_NCCL_FALLBACK=$scratch/standin.so check "WEIR_NCCL_FALLBACK: the fallback library serves the device interface beside weir" \
        ends_with 0 python3 verify/tests/clients/nccl_manage.py device_interface
    finds_no_library() { WEIR_NCCL_FALLBACK=$scratch/none.so ends_with 1 python3 verify/tests/clients/nccl_manage.py device_interface; }
    check "a fallback library that cannot be opened is found by that check" finds_no_library
else
    skip "WEIR_NCCL_FALLBACK" "no compiler"
fi
tap_done
