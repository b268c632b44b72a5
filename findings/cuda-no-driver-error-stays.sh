#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
[ ! -e /dev/nvidiactl ] || lacks "the machine has a GPU driver"
python_packages --no-deps nvidia-cuda-runtime==13.5.37
says "without a driver cudaGetDeviceCount fails and leaves the count as it was, cudaDriverGetVersion succeeds with version 0, and cudaGetLastError, which otherwise clears an error, returns it each time"
lib=$(find venv -name 'libcudart.so.13' | head -n 1)
seen=$(python3 -c "
import ctypes
cuda = ctypes.CDLL('$lib')
count, version = ctypes.c_int(7), ctypes.c_int(7)
print(cuda.cudaGetDeviceCount(ctypes.byref(count)), count.value)
print(cuda.cudaDriverGetVersion(ctypes.byref(version)), version.value)
print(cuda.cudaGetLastError(), cuda.cudaGetLastError())")
expect "cudaGetDeviceCount: code, the count, which was 7" "35 7" "$(sed -n 1p <<<"$seen")"
expect "cudaDriverGetVersion: code, version" "0 0" "$(sed -n 2p <<<"$seen")"
expect "cudaGetLastError, twice" "35 35" "$(sed -n 3p <<<"$seen")"
finish
