#!/bin/sh
# The state of GPUs beside their times: read, told, and throttling flagged. The GPU and the
# driver's library are stand-ins. TAP on standard output; run from the top folder.
. verify/tests/support/bench_tap.inc
export WEIR_BACKEND=host # under the stand-in, also where there are GPUs
bin=${O:-build}/tests
[ -x "$bin/bench_allreduce_standin" ] || skip_all "GPU state" "not built; run make tests"
command -v "${CC:-cc}" >/dev/null || skip_all "GPU state" "no compiler"

# library FOLDER FLAG...: builds a stand-in there, under the library's own name.
library() {
    folder=$scratch/$1
    shift
    mkdir -p "$folder"
    "${CC:-cc}" -shared -fPIC -fvisibility=hidden "$@" -o "$folder/libnvidia-ml.so.1" \
        verify/tests/support/nvml_standin.c || exit 3
}

# bench FOLDER ARGUMENT...: among 2 ranks, with the stand-in of that folder.
bench() {
    folder=$scratch/$1
    shift
    run env LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" ci/mpirun -np 2 \
        "$bin/bench_allreduce_standin" -b 1K -e 1K -n 2 -G 12 --csv "$scratch/a.csv" "$@"
}

# column NAME: its value in the first row.
column() {
    awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i }
        NR == 2 { print $at }' "$scratch/a.csv"
}

# is NAME VALUE...: the columns gpu_samples, gpu_throttled, ... are these.
columns_are() {
    name=$1
    shift
    for field in gpu_samples gpu_throttled throttle_reasons sm_mhz memory_mhz power_w \
        temperature_c; do
        check "$name: $field is '$1'" "$([ "$(column "$field")" = "$1" ]; echo $?)"
        shift
    done
}

# says NAME PATTERN FILE: the last run's output has it once.
says() {
    check "$1" "$([ "$(grep -c -e "$2" "$scratch/$3")" -eq 1 ]; echo $?)"
}

library good
library held -DSTANDIN_THROTTLES
library lacks -DSTANDIN_LACKS
library renamed -DSTANDIN_RENAMED -DSTANDIN_THROTTLES
library fails -DSTANDIN_FAILS
library bare -DSTANDIN_BARE
library lost -DSTANDIN_LOST

bench good --determinism -J "$scratch/j.json"
ends "a GPU that is well" 0
columns_are "a GPU that is well" 8 0 none 1980 3201 412 51
says "its state is in the header" \
    '^# State of the GPUs (NVML, driver 580.1), .*: SM 1980 MHz, memory 3201 MHz, 412 W, 51 C$' out
check "nothing is flagged" "$(grep -c throttled "$scratch/out")"
check "special values passed, and so says the CSV" "$([ "$(column special)" = pass ]; echo $?)"
check "determinism likewise" "$([ "$(column determinism)" = same ]; echo $?)"
if command -v python3 >/dev/null 2>&1; then
    status=1
    python3 - "$scratch/a.json" "$scratch/j.json" 2>"$scratch/err" <<'END' && status=0
import json, sys
manifest, report = (json.load(open(path)) for path in sys.argv[1:])
for rank in manifest["ranks"]:
    assert rank["gpu"]["state"] == {
        "driver": "580.1", "throttle_reasons": "none", "sm_mhz": 1980, "memory_mhz": 3201,
        "power_w": 412, "temperature_c": 51, "sm_mhz_most": 1981, "memory_mhz_most": 3201,
        "power_limit_w": 700}
half = report["results"][0]["out_of_place"]
assert half["gpu"]["samples"] == 8 and half["gpu"]["throttle_reasons"] == "none"
assert half["special"] == "pass" and half["determinism"] == "same"
END
    check "the manifest and -J have it too" $status
fi

bench held -J "$scratch/j.json"
ends "a GPU that is held down on one rank" 0
columns_are "held down" 8 4 power-cap+heat 1305 3201 700 88
says "a remark names the row" \
    'out of place, 1024 B, weir .*throttled in 4 of 8 readings: power-cap+heat; .* 1305 MHz' out

bench renamed
columns_are "the reasons' newer name" 8 4 power-cap+heat 1305 3201 700 88
bench lacks
ends "a library without throttle reasons" 0
columns_are "what it lacks is empty" 8 0 unknown 1980 '' 412 51
says "and told once" 'rank 0: libnvidia-ml.so.1 has no nvml.*ThrottleReasons.*throttling$' out

for kind in fails bare lost none; do
    bench $kind
    ends "a library that $kind" 0
    columns_are "$kind" 0 '' '' '' '' '' ''
done
bench fails
says "a library that does not start is told" 'libnvidia-ml.so.1, start: Driver Not Loaded' out
bench none
says "a machine without it is told" 'rank 0: libnvidia-ml.so.1 cannot be opened' out
finish
