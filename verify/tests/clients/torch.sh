#!/bin/bash
# Runs PyTorch over libweir_nccl.so: torch.distributed with the backend nccl and the library preloaded
# (torch_distributed.py, torch_parallel.py), with the losses of a training compared with those of
# PyTorch's own NCCL.
#
#   verify/tests/clients/torch.sh          RANKS="2 4", PYTHON=python3, LIBRARY=build/libweir_nccl.so
#
# With WEIR_ALLOW_SHARED_GPU=1, GPUS=4 RANKS=4 runs 4 ranks on fewer GPUs, which PyTorch's own NCCL
# does not support. Prints a table. Exit code: 0 if all passed, or without PyTorch or GPUs, which is
# reported; 1 if one failed; 3 if the library is not built.
set -u
cd "$(dirname "$0")/../../.." || exit 3
python=${PYTHON:-python3}
library=$(realpath -m "${LIBRARY:-build/libweir_nccl.so}")
present=$(verify/tests/support/gpus)
gpus=${GPUS:-$present}
failed=0
scratch=$(mktemp -d) || exit 3
trap 'rm -rf "$scratch"' EXIT

skip() {
    echo "torch: skipped: $1"
    exit 0
}
[ -f "$library" ] || { echo "no $library; run make" >&2; exit 3; }
command -v "$python" >/dev/null || skip "no $python"
"$python" -c 'import torch' 2>/dev/null || skip "$python has no torch"
[ "$gpus" -ge 2 ] || skip "$gpus GPU(s) here, 2 are needed"

# If PyTorch needs functions that libweir_nccl.so lacks, its own library is preloaded after it.
preload=$library
if ! LD_PRELOAD=$preload "$python" -c 'import torch' 2>"$scratch/err"; then
    own=$("$python" -c 'import torch, glob, os
print((glob.glob(os.path.join(os.path.dirname(torch.__file__), "../nvidia/nccl/lib/libnccl.so.2")) or [""])[0])')
    echo "# PyTorch needs more than is exported: $(tail -n 1 "$scratch/err")"
    preload="$library $own"
fi

# run_it NAME RANKS PRELOAD LOG SCRIPT: runs the script under torchrun; leaves its output in
# $scratch/NAME. Each run uses two new ports: one for PyTorch's store, the next one for weir.
port=${PORT:-29531}
run_it() {
    port=$((port + 2))
    LD_PRELOAD='' timeout -k 5 "${LIMIT_S:-200}" "$python" -m torch.distributed.run \
        --nproc-per-node "$2" --master-port "$port" --no-python \
        env LD_PRELOAD="$3" WEIR_LOG="$4" "$python" -u "$5" >"$scratch/$1" 2>"$scratch/$1.err" </dev/null
}

# table RANKS LIBRARY NAME STATUS: prints a line for each check of a run.
table() {
    awk -v ranks="$1" -v how="$2" '
        $1 == "ok" || $1 == "FAIL" {
            word = $1 == "ok" ? "pass" : "FAIL"; name = $2; $1 = $2 = ""
            printf "%-24s %5d  %-11s %s%s\n", name, ranks, how, word, $0
        }' "$scratch/$3"
    [ "$4" -eq 0 ] && return
    printf '%-24s %5d  %-11s FAIL (status %d)\n' "(the run)" "$1" "$2" "$4"
    tail -n 6 "$scratch/$3.err" | sed 's/^/    /'
    failed=1
}

# The losses must agree to a relative 1e-4: sums are rounded in a different order.
compare_losses() {
    grep -h '^loss ddp' "$scratch/linked" "$scratch/weir" 2>/dev/null | awk -v ranks="$1" '
        { for (i = 3; i <= NF; i++) loss[NR, i] = $i; fields = NF }
        END {
            for (i = 3; i <= fields; i++) {
                d = loss[1, i] - loss[2, i]; d = d < 0 ? -d : d
                if (d > worst * loss[1, i]) worst = d / loss[1, i]
            }
            good = NR == 2 && worst < 1e-4
            printf "%-24s %5d  %-11s %s (differ by %.2g)\n", "losses", ranks, "both", good ? "pass" : "FAIL", worst
            exit !good
        }' || failed=1
}

printf '%-24s %5s  %-11s\n' check ranks library
for ranks in ${RANKS:-2 4}; do
    [ "$ranks" -le "$gpus" ] || { echo "$ranks ranks: skipped: $gpus GPU(s) here"; continue; }
    if [ "$ranks" -le "$present" ]; then
        run_it linked "$ranks" "" warn verify/tests/clients/torch_distributed.py
        table "$ranks" PyTorch\'s linked $?
        EAGER=1 run_it parallel "$ranks" "" warn verify/tests/clients/torch_parallel.py
        table "$ranks" PyTorch\'s parallel $?
    else
        echo "$ranks ranks with PyTorch's own NCCL, and the comparison of losses: skipped: $present GPU(s) here"
    fi
    run_it weir "$ranks" "$preload" info verify/tests/clients/torch_distributed.py
    table "$ranks" weir weir $?
    EAGER=1 run_it eager "$ranks" "$preload" warn verify/tests/clients/torch_distributed.py
    table "$ranks" "weir, eager" eager $?
    EAGER=1 run_it parallel "$ranks" "$preload" warn verify/tests/clients/torch_parallel.py
    table "$ranks" "weir, eager" parallel $?
    # PyTorch must not have used its own library.
    if grep -q 'ncclAllReduce, rank' "$scratch/weir.err"; then
        printf '%-24s %5d  %-11s pass\n' "weir served the calls" "$ranks" weir
    else
        printf '%-24s %5d  %-11s FAIL\n' "weir served the calls" "$ranks" weir
        failed=1
    fi
    if [ "$ranks" -le "$present" ]; then
        compare_losses "$ranks"
    fi
done
[ $failed -eq 0 ] && echo "torch: all passed"
exit $failed
