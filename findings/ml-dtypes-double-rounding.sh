#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
python_packages ml_dtypes==0.6.0 numpy==2.4.6
says "ml_dtypes converts double and int64 to bfloat16 and float8 through float32, and so rounds twice: numbers just above the middle of two neighbours become the lower one; numpy's float16 rounds once"
cat >convert.py <<'P'
import ml_dtypes
import numpy as np
# 1 + half of the distance to the next number + a little: the next number is nearest.
for name, digits in ("bfloat16", 7), ("float8_e4m3fn", 3), ("float8_e5m2", 2), ("float16", 10):
    kind = getattr(ml_dtypes, name, getattr(np, name, None))
    number = np.array([1 + 2.0 ** -(digits + 1) + 2.0 ** -40])
    print(name, "lower" if float(number.astype(kind)[0]) == 1 else "nearest")
whole = np.array([2**24 + 2**16 + 1], np.int64)
print("int64", "lower" if float(whole.astype(ml_dtypes.bfloat16)[0]) == 2**24 else "nearest")
P
seen=$(python3 convert.py)
expect "double to bfloat16" "bfloat16 lower" "$(grep bfloat16 <<<"$seen")"
expect "double to float8" "float8_e4m3fn lower float8_e5m2 lower" "$(grep float8 <<<"$seen" | xargs)"
expect "double to numpy's float16" "float16 nearest" "$(grep '^float16' <<<"$seen")"
expect "int64 to bfloat16" "int64 lower" "$(grep int64 <<<"$seen")"
finish
