#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc
[ ! -e /dev/nvidiactl ] || lacks "the machine has a GPU driver"
python_packages --no-deps nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.88
says "on a machine without a GPU, such as a login node or CI, nvcc -arch=native ends with 0 and compiles for sm_75, with a warning"
nvcc=$(find venv -path '*/bin/nvcc' | head -n 1)
printf '__global__ void kernel() {}\n' >kernel.cu
"$nvcc" -arch=native -c kernel.cu >compile.log 2>&1
expect "exit code" 0 $?
expect "lines that warn" 1 "$(grep -c 'Cannot find valid GPU' compile.log)"
expect "architectures" sm_75 "$("$nvcc" -arch=native --dryrun -c kernel.cu 2>&1 | grep -o 'sm_[0-9]*' | sort -u | xargs)"
finish
