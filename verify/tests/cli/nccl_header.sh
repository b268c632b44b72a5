#!/bin/bash
# libweir_nccl.so and NCCL's own header: every function that the header declares is exported, and
# weir's values and layouts are the header's (support/nccl_layout.c). The header is NCCL_HEADER, else
# an installed one. Run from the repository's root.
. verify/tests/support/tap.sh
O=${O:-build}
library=$PWD/$O/libweir_nccl.so
header=${NCCL_HEADER:-}
for folder in /usr/local/include /usr/include "${CUDA_HOME:-/usr/local/cuda}/include"; do
    [ -n "$header" ] || { [ -f "$folder/nccl.h" ] && header=$folder/nccl.h; }
done
if [ ! -f "$library" ]; then
    skip "NCCL's header" "libweir_nccl.so is not built; run make"
    tap_done
fi
if [ ! -f "$header" ]; then
    skip "NCCL's header" "there is none; set NCCL_HEADER to the path of nccl.h"
    tap_done
fi
if ! command -v nm >/dev/null; then
    skip "NCCL's header" "no nm; apt-get install binutils"
    tap_done
fi
version=$(sed -n 's/^#define NCCL_VERSION_CODE *//p' "$header")
echo "# $header: version $version"

# Names of functions that a header declares: a result, or the end of one, before the name.
declared() {
    sed 's/\/\*.*\*\///; s/\/\/.*//' "$1" | grep -E '(ncclResult_t|char *\*|void|ncclTeam_t|int) +p?nccl[A-Z]' |
        grep -oE '\bp?nccl[A-Z][A-Za-z0-9]*\(' | tr -d '(' | sort -u
}
nm -D --defined-only "$library" | awk '{ print $3 }' | sort >"$scratch/exported"
lacks_nothing() { # header
    declared "$1" | comm -23 - "$scratch/exported" >"$out"
    [ "$(declared "$1" | wc -l)" -ge 70 ] && [ ! -s "$out" ]
}
check "the functions that $header declares are exported: none is missing" lacks_nothing "$header"
device=${header%/*}/nccl_device
if [ -f "$device/host.h" ]; then
    device_lacks_nothing() {
        cat "$device"/host.h >"$scratch/device.h"
        declared "$scratch/device.h" | comm -23 - "$scratch/exported" >"$out"
        [ -n "$(declared "$scratch/device.h")" ] && [ ! -s "$out" ]
    }
    check "the functions that $device/host.h declares are exported, too" device_lacks_nothing
else
    skip "functions of the device interface" "no $device/host.h"
fi
cp "$header" "$scratch/nccl_more.h"
echo 'ncclResult_t ncclOfTheFuture(int rank);' >>"$scratch/nccl_more.h"
finds_a_missing_one() { ! lacks_nothing "$scratch/nccl_more.h" && grep -qx ncclOfTheFuture "$out"; }
check "a function that is missing is found" finds_a_missing_one

# Values and layouts, with stand-ins for CUDA's headers.
mkdir "$scratch/cuda"
echo 'typedef struct CUstream_st *cudaStream_t; typedef struct CUevent_st *cudaEvent_t;' \
    >"$scratch/cuda/cuda_runtime.h"
touch "$scratch/cuda/cuda_fp16.h" "$scratch/cuda/cuda_bf16.h" "$scratch/cuda/cuda_fp8.h"
values_of() { # header, program
    "${CC:-cc}" -w -DNCCL_OS_LINUX -DNCCL_HEADER="\"$1\"" -I"$scratch/cuda" -Ilib -Ilib/include \
        -o "$scratch/$2" verify/tests/support/nccl_layout.c 2>"$err" && "$scratch/$2" | sort
}
agrees_with() { # header
    values_of "$PWD/lib/nccl/weir_nccl.h" own >"$scratch/own.txt" &&
        values_of "$1" theirs >"$scratch/theirs.txt" &&
        [ "$(wc -l <"$scratch/theirs.txt")" -ge 50 ] &&
        comm -23 "$scratch/theirs.txt" "$scratch/own.txt" >"$out" && [ ! -s "$out" ]
}
check "values and layouts of weir's header are those of $header" agrees_with "$header"
sed 's/ncclRemoteError *= *6/ncclRemoteError = 66/' "$header" >"$scratch/nccl_other.h"
finds_another_value() { ! agrees_with "$scratch/nccl_other.h" && grep -qx 'ncclRemoteError 66' "$out"; }
check "a value that differs is found" finds_another_value
tap_done
