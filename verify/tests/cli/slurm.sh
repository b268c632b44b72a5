#!/bin/bash
# A real Slurm of one node (ci/slurm): srun without a PMI, which leaves only its variables; srun
# --mpi=pmix; steps of one task, for which -g starts ranks; and the end of a job whose rank is killed.
# Skipped, with the reason, where Slurm cannot be had. Run from the repository's root.
set -u
# shellcheck source=verify/tests/support/tap.sh
. verify/tests/support/tap.sh

if ! ci/slurm --prepare 2>"$err" || ! timeout 60 ci/slurm true 2>"$err"; then
    skip "ranks started by Slurm" "$(tail -n 1 "$err")"
    tap_done
fi
check "ci/slurm without a command is a usage error" ends_with 2 ci/slurm
check "ci/slurm returns the command's exit code" ends_with 7 ci/slurm sh -c 'exit 7'

# All runs are in one Slurm; each writes its output, its error and its exit code to files.
cat >"$scratch/inside" <<'END'
#!/bin/bash
# keep NAME COMMAND...
keep() {
    local name=$1
    shift
    timeout 40 "$@" >"$name.out" 2>"$name.err" </dev/null
    echo $? >"$name.code"
}
bench=$PWD/bench_allreduce
sizes=(-b 8 -e 4K -f 8 -T 10)
# The job of docs/user/slurm.md, on host memory.
sed -n '/^#!/,/^```/p' docs/user/slurm.md | sed -e '/^```/d' -e '/gpus-per-node/d' -e 's/-per-node=8/-per-node=2/' \
    -e 's/--backend cuda -b 16 -e 1G -f 4 [$]graph/-b 8 -e 64 -f 8/' -e 's/--peer nccl/--quiet/' -e 's/1 2 3 4 5 6/1 2/' >"$1/week.sbatch"
HOME=$1 timeout 100 sbatch --wait -o "$1/week.log" "$1/week.sbatch" # --wait looks seldom
echo $? >"$1/week.code"
cd "$1" || exit 3
keep plain srun -n 3 "$bench" "${sizes[@]}" --csv plain.csv
keep pmix srun --mpi=pmix -n 3 env WEIR_LAUNCHER=pmix "$bench" "${sizes[@]}"
keep two srun -n 4 bash -c 'WEIR_HOSTID=$((SLURM_PROCID / 2)) exec "$@"' bash "$bench" "${sizes[@]}"
keep wrong srun -n 2 "$bench" -b 1K -e 1K --inject drop-chunk -T 10
keep own srun -n 1 "$bench" -g 2 "${sizes[@]}"
keep both srun -n 2 "$bench" -g 2
keep hand srun -n 2 env RANK=5 WORLD_SIZE=8 "$bench"
keep torchrun srun -n 2 bash -c 'TORCHELASTIC_RUN_ID=x RANK=$SLURM_PROCID WORLD_SIZE=2 \
    MASTER_ADDR=localhost MASTER_PORT=29400 exec "$@"' bash "$bench" "${sizes[@]}"
keep dead srun -n 3 bash -c \
    '[ "$SLURM_PROCID" = 1 ] && (sleep 3; exec kill -KILL $$) & exec "$@"' bash \
    "$bench" -b 1K -e 1K -N 0 -n 1000000 -c 0 -T 3
END
check "commands run in a Slurm of one node" ends_with 0 timeout 300 ci/slurm bash "$scratch/inside" "$scratch"

code_is() { [ "$(cat "$scratch/$1.code")" -eq "$2" ]; }
# works NAME LAUNCHER RANKS NODES
works() {
    cp "$scratch/$1.err" "$err"
    cp "$scratch/$1.out" "$out"
    code_is "$1" 0 && grep -q "^# Launcher: $2; no MPI" "$out" &&
        grep -q "^# Ranks: $3 on $4 node" "$out" && grep -q '^# Out of bounds values : 0 OK' "$out"
}
# refused NAME WORD...: exit code 2; one line of the program, with every word.
refused() {
    local word name=$1
    shift
    cp "$scratch/$name.err" "$err"
    ! code_is "$name" 0 || return 1
    [ "$(grep -c '^bench_allreduce: ' "$err")" -eq 1 ] && grep -q 'exit code 2' "$err" || return 1
    for word; do grep -qF -- "$word" "$err" || return 1; done
}
check "srun without a PMI: the ranks find each other by Slurm's variables" works plain slurm 3 1
check "srun without a PMI: the CSV file has three ranks and no wrong data" awk -F, '
    NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i }
    NR > 1 && ($column["nranks"] != 3 || $column["wrong"] != 0) { bad = 1 }
    END { exit bad || NR < 3 }' "$scratch/plain.csv"
check "srun --mpi=pmix: the ranks find each other by PMIx" works pmix pmix 3 1
check "srun: WEIR_HOSTID makes two nodes of one" works two slurm 4 2
check "srun: a planted fault is found" code_is wrong 1
check "a step of one task can start ranks with -g" works own fork 2 1
check "-g under srun is one line with a remedy" refused both 'srun' 'leave -g out' 'WEIR_LAUNCHER=none'
check "variables of torchrun that contradict srun are one line with a remedy" \
    refused hand 'RANK=5' 'SLURM_PROCID' 'unset' 'WEIR_LAUNCHER='
check "torchrun inside srun: torchrun's variables count" works torchrun torchrun 2 1
week_works() {
    cp "$scratch/week.log" "$err"
    code_is week 0 && [ "$(find "$scratch/weir-weeks" -name 'run[12].csv' | wc -l)" -eq 2 ] &&
        ./weir-compare "$scratch/weir-weeks"/* "$scratch/weir-weeks"/* >"$out" && grep -q '2 runs' "$out"
}
check "the job of docs/user/slurm.md makes its runs, which weir-compare reads" week_works
reports_dead() {
    cp "$scratch/dead.err" "$err"
    ! code_is dead 0 && ! code_is dead 124 && grep -q '^weir: where 3 ranks stand .*rank 1 is dead' "$err"
}
check "srun: a killed rank ends the job with a report" reports_dead
tap_done
