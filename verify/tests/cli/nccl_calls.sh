#!/bin/bash
# The functions that NCCL has gained since 2.28, by ctypes on host memory: one-sided calls
# (clients/nccl_onesided.py, nccl_repeated.py) and the management of communicators (nccl_manage.py); the
# device interface with a fallback library (simulated by support/nccl_standin.c). Run from the repository's
# root.
. verify/tests/support/tap.sh
O=${O:-build}
library=$PWD/$O/libweir_nccl.so
if [ ! -f "$library" ]; then
    skip "calls of libweir_nccl.so" "not built; run make"
    tap_done
fi
if ! command -v python3 >/dev/null || ! python3 -c 'import ctypes' 2>/dev/null; then
    skip "calls of libweir_nccl.so" "no python3; apt-get install python3"
    tap_done
fi
case ${BUILD:-} in
asan | tsan)
    skip "calls of libweir_nccl.so" "python3 is built without the sanitizer"
    tap_done
    ;;
esac
export NCCL_SO_PATH=$library
export WEIR_BACKEND=host # host memory, also where there are GPUs
unset WEIR_NCCL_FALLBACK

# The checks of a client become checks of this file.
for client in nccl_onesided nccl_repeated nccl_manage; do
    python3 verify/tests/clients/$client.py >"$scratch/checks" 2>"$err" </dev/null
    status=$?
    while IFS= read -r line; do
        case $line in
        'ok '*) check "${line#* - }" true ;;
        'not ok '*) check "${line#* - }" false ;;
        '#'*) echo "$line" ;;
        esac
    done <"$scratch/checks"
    check "$client.py ends with 0" test $status -eq 0
    check "$client.py prints its plan" grep -q '^1\.\.' "$scratch/checks"
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
