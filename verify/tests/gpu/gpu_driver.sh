#!/bin/sh
# Proves that the library and a benchmark reject a GPU driver that cannot be used (too old,
# without a GPU, failing), or a GPU for which the build has no kernels, with a remedy, and that
# without --backend the benchmark falls back to the host. The driver is a fake. TAP on standard output; run from the top folder.
. verify/tests/support/bench_tap.inc
refusals=${O:-build}/tests/test_gpu_refusals
[ -x "$refusals" ] || skip_all "GPU drivers" "no build with CUDA, or no cmocka"
command -v "${CC:-cc}" >/dev/null || skip_all "GPU drivers" "no compiler"

# driver FOLDER FLAG...: builds a fake driver in that folder, under the real one's file name.
driver() {
    folder=$scratch/$1
    shift
    mkdir -p "$folder"
    "${CC:-cc}" -shared -fPIC -fvisibility=hidden "$@" -o "$folder/libcuda.so.1" \
        verify/tests/support/driver_standin.c || exit 3
}

# refuses NAME FOLDER WORDS REMEDY: the library and the benchmark fail with these words and this
# remedy.
refuses() {
    run env LD_LIBRARY_PATH="$scratch/$2${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$refusals"
    status=1
    [ "$code" -eq 0 ] && grep -q "^# .*backend cuda: .*$3.*$4" "$scratch/out" && status=0
    check "$1: the library rejects it" $status
    [ -x ./bench_allreduce ] || return 0
    run env LD_LIBRARY_PATH="$scratch/$2${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        ./bench_allreduce --backend cuda
    status=1
    [ "$code" -eq 3 ] && grep -q "$3.*--backend host" "$scratch/err" && status=0
    check "$1: a benchmark rejects it (exit code $code)" $status
    run env LD_LIBRARY_PATH="$scratch/$2${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        ./bench_allreduce -b 64 -e 64 -n 2
    ends "$1: without --backend a benchmark uses the host" 0
}

driver old -DSTANDIN_VERSION=11040 -DSTANDIN_START=0
driver empty
driver broken -DSTANDIN_START=999
refuses "a driver too old" old 'too old: it supports CUDA 11.4' 'install a newer'
refuses "a driver without a GPU" empty 'no CUDA-capable device' 'use the host backend'
refuses "a driver that fails" broken 'unknown error' 'use the host backend'

# GPUs for which the build has no kernels, by a test double of the CUDA runtime: one that kernels can be
# built for (if the build has them, the next one), and one that is too old.
old_gpu=${O:-build}/tests/bench_allreduce_old_gpu
lacks() { # NAME SM WORDS
    run env STANDIN_SM="$2" "$old_gpu" --backend cuda -b 64 -e 64
    status=1
    [ "$code" -eq 3 ] && grep -q "no kernels for GPU 0 (.*$3.*--backend host" "$scratch/err" && status=0
    check "$1: a benchmark rejects it with a remedy (exit code $code)" $status
    run env STANDIN_SM="$2" "$old_gpu" -b 64 -e 64 -n 2
    status=1
    [ "$code" -eq 0 ] && grep -q "host backend: .*no kernels for GPU 0 (.*$3" "$scratch/err" && status=0
    check "$1: without --backend a benchmark warns and uses the host (exit code $code)" $status
}
if [ -x "$old_gpu" ]; then
    if [ "$(sed 's/ .*//' "${O:-build}/gpu_code.id")" -gt 80 ]; then
        lacks "a GPU without kernels" 80 'compute capability 8.0; the build has SM=.*make SM=80 builds them'
    fi
    lacks "a GPU that is too old" 75 'compute capability 7.5): 8.0 or later is needed'
fi
finish
