#!/bin/bash
# Runs the installed Python package under PyTorch on GPUs (python_torch.py): operators, gradients,
# torch.compile, CUDA graphs, registered memory, the backend "weir" of torch.distributed, DDP and FSDP, with the losses
# of the trainings compared with those of PyTorch's own NCCL.
#
#   verify/tests/clients/python_gpu.sh     RANKS="2 4", PYTHON=python3, COMPILER=inductor
#
# PYTHON needs torch and the package weir, built with CUDA: pip install --no-build-isolation ./python
# (WEIR_LIBRARIES=$PWD/build if make has built the libraries). With WEIR_ALLOW_SHARED_GPU=1, GPUS=4 RANKS=4 runs
# 4 ranks on fewer GPUs, which PyTorch's own NCCL does not support; the losses are then compared with those of gloo on
# the CPU. Prints a table. Exit code: 0 if all passed, or without PyTorch, package or GPUs, which is reported; 1 if one
# failed.
set -u
cd "$(dirname "$0")/../../.." || exit 3
python=${PYTHON:-python3}
present=$(verify/tests/support/gpus)
gpus=${GPUS:-$present}
failed=0
scratch=$(mktemp -d) || exit 3
trap 'rm -rf "$scratch"' EXIT

skip() {
    echo "python: skipped: $1"
    exit 0
}
command -v "$python" >/dev/null || skip "no $python"
"$python" -c 'import torch' 2>/dev/null || skip "$python has no torch"
(cd "$scratch" && "$python" -c 'import weir.torch' 2>/dev/null) || skip "$python has no package weir; pip install ./python"
[ "$gpus" -ge 2 ] || skip "$gpus GPU(s) here, 2 are needed"

# run_it NAME RANKS BACKEND DEVICE COMPILER: leaves the output in $scratch/NAME.
port=${PORT:-29731}
run_it() {
    port=$((port + 2))
    (cd "$scratch" && DEVICE=$4 BACKEND=$3 CHECKS=${CHECKS:-} COMPILER=$5 timeout -k 5 "${LIMIT_S:-400}" \
        "$python" -m torch.distributed.run --nproc-per-node "$2" --master-port "$port" \
        "$OLDPWD/verify/tests/clients/python_torch.py" >"$scratch/$1" 2>"$scratch/$1.err" </dev/null)
}

# table RANKS BACKEND NAME STATUS: prints a line for each check of a run.
table() {
    awk -v ranks="$1" -v how="$2" '
        $1 == "ok" || $1 == "FAIL" || $1 == "skip" {
            word = $1 == "ok" ? "pass" : $1; name = $2; $1 = $2 = ""
            printf "%-24s %5d  %-8s %s%s\n", name, ranks, how, word, $0
        }' "$scratch/$3"
    [ "$4" -eq 0 ] && return
    printf '%-24s %5d  %-8s FAIL (status %d)\n' "(the run)" "$1" "$2" "$4"
    grep -E '^(\[rank[0-9]+\]: *)?[A-Za-z_.]*Error' "$scratch/$3.err" | sort | uniq -c | head -n 6
    grep -v '^ *$' "$scratch/$3.err" | tail -n 6 | sed 's/^/    /'
    failed=1
}

# compare_losses RANKS OTHER BOUND: the losses of each training must agree with those of the other run, up to a relative
# bound, as sums are rounded in a different order.
compare_losses() {
    cat "$scratch/weir" "$scratch/$2" | awk -v ranks="$1" -v bound="$3" '
        $1 == "loss" && !($2 in fields) { fields[$2] = NF; for (i = 3; i <= NF; i++) ours[$2, i] = $i; next }
        $1 == "loss" {
            worst = 0; compared++
            for (i = 3; i <= NF; i++) {
                d = ours[$2, i] - $i; d = d < 0 ? -d : d
                if (d > worst * $i) worst = d / $i
            }
            good = fields[$2] == NF && worst < bound; bad += !good
            printf "%-24s %5d  %-8s %s (differ by %.2g)\n", "loss " $2, ranks, "both", good ? "pass" : "FAIL", worst
        }
        END { exit bad || compared != 3 }' || failed=1
}

printf '%-24s %5s  %-8s\n' check ranks backend
for ranks in ${RANKS:-2 4}; do
    [ "$ranks" -le "$gpus" ] || { echo "$ranks ranks: skipped: $gpus GPU(s) here"; continue; }
    run_it weir "$ranks" weir cuda "${COMPILER:-inductor}"
    table "$ranks" weir weir $?
    if [ "$ranks" -le "$present" ]; then
        run_it nccl "$ranks" nccl cuda "${COMPILER:-inductor}"
        table "$ranks" nccl nccl $?
        compare_losses "$ranks" nccl 1e-4
    else
        echo "$ranks ranks with PyTorch's own NCCL: skipped: $present GPU(s) here"
        run_it gloo "$ranks" gloo cpu aot_eager
        table "$ranks" gloo gloo $?
        compare_losses "$ranks" gloo 1e-3
    fi
done
[ $failed -eq 0 ] && echo "python: all passed"
exit $failed
