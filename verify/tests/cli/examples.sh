#!/bin/bash
# The examples: installs weir into a scratch folder, copies the installed examples, builds each with
# exactly the command that its head comment gives, and runs the commands that follow there. mpirun
# gets the flags of ci/mpirun; torchrun is simulated, as PyTorch is not needed otherwise. Run from the
# repository's root.
set -u
. verify/tests/support/tap.sh

root=$PWD
installed=$scratch/weir
check "make install installs the library" ends_with 0 make install PREFIX="$installed"

# Only pkg-config may say where the library is: no LD_LIBRARY_PATH.
unset LD_LIBRARY_PATH
mkdir "$scratch/shims"
launcher=$(command -v mpirun) || launcher=/no/mpirun
cat >"$scratch/shims/mpirun" <<SHIM
#!/bin/sh
MPIRUN='$(command -v "${MPIRUN:-mpirun}")' exec '$installed/bin/weir-mpirun' "\$@"
SHIM
cat >"$scratch/shims/torchrun" <<'SHIM'
#!/bin/bash
# torchrun --nproc-per-node N --no-python PROGRAM: starts the ranks with torchrun's variables.
[ "$1" = --nproc-per-node ] && [ "$3" = --no-python ] || exit 2
export WORLD_SIZE=$2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 20000)) RANK
for ((RANK = 0; RANK < WORLD_SIZE; RANK++)); do "$4" & pids+=" $!"; done
for pid in $pids; do wait "$pid" || failed=1; done
exit ${failed:-0}
SHIM
if mpicc=$(command -v "${MPICC:-mpicc}"); then
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$mpicc" >"$scratch/shims/mpicc"
fi
chmod +x "$scratch/shims"/*
export PATH=$scratch/shims:$installed/bin:$PATH PKG_CONFIG_PATH=$installed/lib/pkgconfig
export XDG_CACHE_HOME=$scratch/cache

# What each example prints: the number of lines, and the pattern that each matches.
declare -A prints=(
    [hello.c]='4 ^rank [0-3] of 4: the ranks add up to 6$'
    [unique_id.c]='4 ^rank [0-3] of 4: the ranks add up to 6$'
    [torchrun.c]='4 ^rank [0-3] of 4: the ranks add up to 6$'
    [any_launcher.c]='8 ^rank [0-3] of 4: 100 sums, 0 wrong numbers$'
    [allreduce_fork.c]='8 ^rank [0-3]: sum of [24] ranks by "[a-z]+"$'
    [channels.c]='2 ^rank [01]: 1000 rounds of 1024 bytes$'
    [gpu.cu]='2 ^rank [01]: 1000 rounds over cuda_ipc, 0 words wrong, no error$'
    [proxy.c]='2 ^rank [01]: 200 rounds of 4096 bytes over shm$'
    [custom_algorithm.c]='2 ^rank [01]: gathered by "mine", 0 wrong$'
    [own_kernel.c]='4 ^rank [0-3]: "add_all" added 100000 numbers, 0 are wrong$'
    [moe_layer.c]='4 ^rank [0-3]: 0 wrong values$'
    [peer.c]='1 ^# gathered:1\.0 +: '
    [plan.c]='2 ^rank [01]: 0 wrong elements$'
)
printed_as_expected() { # NAME
    local count pattern
    read -r count pattern <<<"${prints[$1]:-0 no expectation}"
    [ "$(grep -cE -- "$pattern" "$out")" -eq "$count" ] && [ "$count" -gt 0 ]
}

# The commands of a head comment, one a line: the first one builds, the others run.
commands_of() { sed -n '/^ \*\//q; s/^ \*     \(.*\)/\1/p' "$1"; }
run_commands() { bash -e -c "$(commands_of "$1" | tail -n +2)"; }
strictly() {
    case $1 in
    *.cu) nvcc -Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror -c -o strict.o \
        -I"$installed/include" "$1" ;;
    *) $2 -std=c11 -Wall -Wextra -Werror -c -o strict.o -I"$installed/include" "$1" ;;
    esac
}
has_two_gpus() {
    grep -qx CUDA=1 "$root/${O:-build}/cuda.choice" && [ "$(nvidia-smi -L 2>/dev/null | wc -l)" -ge 2 ]
}

# Builds and runs one example.
check_example() {
    local name=$1 compiler
    compiler=$(commands_of "$name" | sed -n '1s/ .*//p')
    check "examples/README.md lists $name" grep -qF "\`$name\`" README.md
    check "$name has fewer than 100 lines" test "$(wc -l <"$name")" -lt 100
    if ! command -v "$compiler" >/dev/null; then
        skip "$name builds and runs" "no $compiler"
        return
    fi
    check "$name compiles without warnings" ends_with 0 strictly "$name" "$compiler"
    check "$name builds by the command in its head" \
        ends_with 0 bash -c "$(commands_of "$name" | head -n 1)"
    if [ "$name" = gpu.cu ] && ! has_two_gpus; then
        check "$name without two GPUs fails" eval '! run_commands gpu.cu >"$out" 2>"$err"'
        check "$name without two GPUs says that it needs them" grep -q 'needs two GPUs' "$err"
    elif [ "$compiler" = mpicc ] && ! command -v "${MPIRUN:-$launcher}" >/dev/null; then
        skip "$name runs" "no mpirun"
    else
        check "$name runs by the commands in its head" ends_with 0 run_commands "$name"
        check "$name prints what is expected" printed_as_expected "$name"
    fi
}

cp -r "$installed/share/doc/weir/examples" "$scratch/examples"
cd "$scratch/examples" || exit 3
check "all examples are installed" diff -r "$root/examples" .
for name in *.c *.cu; do
    case $name in
    own_kernel.cu | peer_*.*) ;; # a part of another example; files that need the libraries of peers
    *) check_example "$name" ;;
    esac
done
if command -v nvcc >/dev/null; then
    check "the kernel of own_kernel.c also compiles as CUDA" \
        ends_with 0 nvcc -c -o kernel.o -I"$installed/include" own_kernel.cu
else
    skip "the kernel of own_kernel.c also compiles as CUDA" "no nvcc"
fi

# any_launcher follows the rules of docs/user/launching.md where a launcher's variables surround it.
step='SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_STEP_NODELIST=localhost SLURM_JOB_ID=9 SLURM_STEP_ID=0'
ranks_in() { # NUMBER COMMAND...: the command ends with 0, and that number of ranks prints its line
    local number=$1
    shift
    "$@" >"$out" 2>"$err" && [ "$(grep -cE "^rank [0-9] of $number: 100 sums, 0 wrong numbers$" "$out")" -eq "$number" ]
}
# shellcheck disable=SC2086 # $step is several words
{
    check "any_launcher forks in a Slurm step of one task" ranks_in 4 env $step SLURM_STEP_NUM_TASKS=1 ./any_launcher
    check "any_launcher forks in a script of sbatch" \
        ranks_in 4 env SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_ID=9 ./any_launcher
    if command -v "${MPIRUN:-$launcher}" >/dev/null; then
        for tasks in 1 3; do
            check "any_launcher under mpirun in a Slurm step of $tasks" \
                ranks_in 3 mpirun -np 3 env $step SLURM_STEP_NUM_TASKS=$tasks ./any_launcher
        done
    else
        skip "any_launcher under mpirun in a Slurm step" "no mpirun"
    fi
}

# An example whose result is wrong is noticed.
sed -i 's/data\[i\] = weir_comm_rank(comm) + i;/data[i] = i;/' own_kernel.c
check "an example with wrong data still builds" ends_with 0 bash -c "$(commands_of own_kernel.c | head -n 1)"
check "an example with wrong data fails" ends_with 1 run_commands own_kernel.c
check "an example with wrong data does not print what is expected" eval '! printed_as_expected own_kernel.c'
cd "$root" || exit 3

# The plan that plan.c wrote is accepted; the guide has the builder's part of the program, and the
# header the same calls, which compile.
check "the plan of plan.c is accepted" ends_with 0 ./weir-plan check "$scratch/examples/swap.json"
guide_is_example() { # GUIDE EXAMPLE
    sed -n '/^```c$/,/^```$/{/^```/!p}' "$1" >"$scratch/guide.c"
    [ -s "$scratch/guide.c" ] && awk '
        NR == FNR { guide = guide $0 "\n"; next } { all = all $0 "\n" }
        END { exit index(all, guide) == 0 }' "$scratch/guide.c" "$2"
}
check "docs/user/plans-format.md has the builder's part of plan.c" guide_is_example docs/user/plans-format.md examples/plan.c
# The lines of the header's sketch, in a program.
sketch_builds() {
    {
        printf '#include <weir/plan.h>\nint main(void)\n{\n'
        sed -n '/ \*     weir_plan_spec spec/,/ \*         status = weir_plan_build/s/^ \*//p' \
            lib/include/weir/plan.h
        printf '    weir_status checked = status == WEIR_OK ? weir_plan_check(plan, NULL) : status;\n'
        printf '    weir_plan_free(plan);\n    return checked != WEIR_OK;\n}\n'
    } >"$scratch/sketch.c"
    # shellcheck disable=SC2046 # pkg-config's output is several words
    "${CC:-cc}" -std=c11 -Wall -Wextra -Werror -o "$scratch/sketch" "$scratch/sketch.c" \
        $(pkg-config --cflags --libs weir) && "$scratch/sketch"
}
check "the sketch in weir/plan.h compiles, and its plan is accepted" ends_with 0 sketch_builds
tap_done
