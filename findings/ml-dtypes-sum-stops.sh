#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
python_packages ml_dtypes==0.6.0 numpy==2.4.6
says "numpy's sum of a bfloat16 array adds one by one in bfloat16 and stops growing: 1000 ones make 256, and their mean is 0.256; float16, numpy's own type, is added in float32, and dot of bfloat16 is exact too"
cat >sum.py <<'P'
import ml_dtypes
import numpy as np
ones = np.ones(1000, ml_dtypes.bfloat16)
print(float(np.sum(ones)), float(np.mean(ones)), float(np.dot(ones, ones)), float(np.sum(np.ones(1000, np.float16))))
print(float(np.sum(np.ones(1000, ml_dtypes.float8_e4m3fn))), float(np.sum(ones, dtype=np.float32)))
P
seen=$(python3 sum.py | xargs)
expect "of 1000 ones: sum, mean, dot of bfloat16; sum of float16; sum of float8_e4m3fn; sum of bfloat16 with dtype=float32" \
    "256.0 0.255859375 1000.0 1000.0 16.0 1000.0" "$seen"
finish
