#!/bin/bash
# Every number that the benchmarks print or write, in the table and the lines around it, CSV, JSON and
# manifest, equals one that support/bench_numbers.py computes from raw times, the command line and the
# definitions. Run from the repository's root.
# Needs python3; part: MPI.
. verify/tests/support/tap.sh
if ! command -v python3 >/dev/null; then
    skip "numbers of the benchmarks" "no python3; apt-get install python3"
    tap_done
fi
export WEIR_BACKEND=host # host memory, also where there are GPUs
# shellcheck disable=SC2154 # tap.sh sets it
python3 -B verify/tests/support/bench_numbers.py "$scratch"
