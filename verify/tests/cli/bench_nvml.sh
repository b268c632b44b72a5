#!/bin/sh
# GPU clocks, power and temperature (NVML) in the results: they are sampled during measurements,
# written to the header, the CSV, the manifest and -J, and throttled rows are flagged. GPU and NVML
# library are simulated (support/gpu_standin.c, nvml_standin.c). Run from the repository's root.
# Needs MPI.
. verify/tests/support/bench_tap.inc
export WEIR_BACKEND=host # the simulated GPU needs the host backend, also where there are GPUs
bin=${O:-build}/tests
[ -x "$bin/bench_allreduce_standin" ] || skip_all "GPU state" "not built; run make tests"
command -v "${CC:-cc}" >/dev/null || skip_all "GPU state" "no compiler"

# library FOLDER FLAG...: builds a simulated libnvidia-ml.so.1 in that folder.
library() {
    folder=$scratch/$1
    shift
    mkdir -p "$folder"
    "${CC:-cc}" -shared -fPIC -fvisibility=hidden "$@" -o "$folder/libnvidia-ml.so.1" \
        verify/tests/support/nvml_standin.c || exit 3
}

# bench FOLDER ARGUMENT...: bench_allreduce with 2 ranks and the library of that folder.
bench() {
    folder=$scratch/$1
    shift
    run env LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" ci/mpirun -np 2 \
        "$bin/bench_allreduce_standin" -b 1K -e 1K -n 2 -G 12 --csv "$scratch/a.csv" "$@"
}

# column NAME: prints the value of that CSV column in the first row.
column() {
    awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i }
        NR == 2 { print $at }' "$scratch/a.csv"
}

# columns_are NAME VALUE...: the columns gpu_samples, gpu_throttled, ... have these values.
columns_are() {
    name=$1
    shift
    for field in gpu_samples gpu_throttled throttle_reasons sm_mhz memory_mhz power_w \
        temperature_c; do
        check "$name: $field is '$1'" "$([ "$(column "$field")" = "$1" ]; echo $?)"
        shift
    done
}

# says NAME PATTERN FILE: exactly one line of the last run's out or err matches.
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
ends "a GPU that is not throttled" 0
columns_are "a GPU that is not throttled" 8 0 none 1980 3201 412 51
says "the GPU's state is in the header" \
    '^# State of the GPUs (NVML, driver 580.1), .*: SM 1980 MHz, memory 3201 MHz, 412 W, 51 C$' out
check "a GPU that is not throttled is not flagged" "$(grep -c throttled "$scratch/out")"
check "the CSV says that special values passed" "$([ "$(column special)" = pass ]; echo $?)"
check "the CSV says that results are deterministic" "$([ "$(column determinism)" = same ]; echo $?)"
if command -v python3 >/dev/null 2>&1; then
    status=1
    python3 - "$scratch/a.json" "$scratch/j.json" 2>"$scratch/err" <<'END' && status=0
import json, sys
manifest, report = (json.load(open(path)) for path in sys.argv[1:])
for rank in manifest["ranks"]:
    assert isinstance(rank["gpu"]["cuda_driver"], int) and rank["gpu"]["cuda_driver"] > 1000, rank["gpu"]
    assert rank["gpu"]["state"] == {
        "driver": "580.1", "throttle_reasons": "none", "sm_mhz": 1980, "memory_mhz": 3201,
        "power_w": 412, "temperature_c": 51, "sm_mhz_most": 1981, "memory_mhz_most": 3201,
        "power_limit_w": 700}
half = report["results"][0]["out_of_place"]
assert half["gpu"]["samples"] == 8 and half["gpu"]["throttled"] == 0 and half["gpu"]["throttle_reasons"] == "none"
assert half["special"] == "pass" and half["determinism"] == "same"
END
    check "the manifest and -J contain the GPU's state" $status
fi

bench held -J "$scratch/j.json"
ends "a GPU that is throttled on one rank" 0
columns_are "a GPU that is throttled on one rank" 8 4 power-cap+heat 1305 3201 700 88
check "-J counts the readings in which a GPU is throttled" "$(grep -q '"throttled": *4' "$scratch/j.json"; echo $?)"
says "a throttled row is flagged with size, candidate, samples and reasons" \
    'out of place, 1024 B, weir .*throttled in 4 of 8 readings: power-cap+heat; .* 1305 MHz' out

bench renamed
columns_are "throttle reasons under NVML's newer function name" 8 4 power-cap+heat 1305 3201 700 88
bench lacks
ends "NVML without throttle reasons" 0
columns_are "NVML without throttle reasons leaves its fields empty" 8 0 unknown 1980 '' 412 51
says "NVML without throttle reasons is reported once" \
    'rank 0: libnvidia-ml.so.1 has no nvml.*ThrottleReasons.*throttling$' out

for kind in fails bare lost none; do
    bench $kind
    ends "NVML library '$kind' does not fail the run" 0
    columns_are "NVML library '$kind'" 0 '' '' '' '' '' ''
done
bench fails
says "an NVML library that fails to initialise is reported" \
    'libnvidia-ml.so.1, start: Driver Not Loaded' out
bench none
says "a missing NVML library is reported" 'rank 0: libnvidia-ml.so.1 cannot be opened' out

# sum NAME: prints the sum of a column over the windows of --for.
sum() {
    awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i }
        NR > 1 { sum += $at } END { print at ? sum : "none" }' "$scratch/a-windows.csv"
}
export STANDIN_ERRORS="$scratch/errors"
# Errors come until the run ends, which begins late on a busy machine.
(while sleep 0.5; do touch "$STANDIN_ERRORS"; done) &
errors=$!
bench good --for 4s --window 1s
kill $errors
wait $errors 2>/dev/null
ends "windows of --for with errors of a GPU" 0
check "windows count Xids" "$([ "$(sum xid)" -ge 1 ]; echo $?)"
check "windows count replays of the PCIe link" "$([ "$(sum pcie_replays)" = "$(sum xid)" ]; echo $?)"
check "a GPU that is not throttled explains nothing" "$([ "$(sum power_capped)" = 0 ]; echo $?)"
bench held --for 1s --window 1s
ends "windows of --for with a GPU that is throttled" 0
check "windows show the power cap" "$([ "$(sum power_capped)" -ge 1 ]; echo $?)"
check "windows show heat" "$([ "$(sum too_hot)" -ge 1 ]; echo $?)"
finish
