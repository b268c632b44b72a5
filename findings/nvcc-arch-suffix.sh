#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc
python_packages --no-deps nvidia-cuda-nvcc==13.5.37 nvidia-cuda-crt==13.5.37 nvidia-nvvm==13.5.37 nvidia-cuda-runtime==13.5.37 nvidia-cuda-cuobjdump==13.4.92
says "nvcc -arch=sm_90a compiles a file a second time for plain compute_90, without the macros of sm_90a, so that an #error guard for sm_90a always fires; -gencode does not; code for sm_100f is listed as sm_100"
nvcc=$(find venv -path '*/bin/nvcc' | head -n 1)
list=$(find venv -path '*/bin/cuobjdump' | head -n 1)
printf '__global__ void kernel() {}\n' >plain.cu
cat >guarded.cu <<'C'
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error needs sm_90a
#endif
__global__ void kernel() {}
C
"$nvcc" -arch=sm_90a -c plain.cu -o plain.o 2>compile.log || { tail -n 3 compile.log; exit 2; }
expect "PTX in the object of -arch=sm_90a" "sm_90 sm_90a" "$("$list" -ptx plain.o | sed -n 's/^.target //p' | xargs)"
"$nvcc" -arch=sm_90a -c guarded.cu -o guarded.o 2>compile.log
expect "-arch=sm_90a with the guard: code, reason" "1 needs" "$? $(grep -o -m 1 '#error needs' compile.log | sed 's/.* //')"
"$nvcc" -gencode arch=compute_90a,code=sm_90a -c guarded.cu -o guarded.o 2>compile.log
expect "-gencode arch=compute_90a,code=sm_90a with the guard: code" 0 $?
"$nvcc" -arch=sm_100f -c plain.cu -o family.o 2>compile.log
expect "code in the object of -arch=sm_100f" sm_100 "$("$list" --list-elf family.o | grep -o 'sm_[0-9a-z]*\.cubin' | cut -d. -f1)"
finish
