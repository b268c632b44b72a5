#!/bin/bash
# Ranks without mpirun: -g, torchrun's variables on two emulated hosts, and launchers' variables that
# contradict each other or mean nothing; ranks of -g that are killed, stopped or interrupted; and
# machines without an MPI library, where -g and Open MPI's mpirun, as a PMIx launcher, start ranks. Run
# from the repository's root. The Slurm tests are in slurm.sh.
set -u
# shellcheck source=verify/tests/support/tap.sh
. verify/tests/support/tap.sh
. verify/tests/support/launcher.sh
if [ ! -x ./bench_allreduce ]; then
    skip "launchers" "bench_allreduce is not built; run make"
    tap_done
fi
build=${O:-build}
bench=./bench_allreduce

# What the launcher of this MPI is called in messages, and the variable in which it gives the rank.
mpi_launcher="Open MPI's mpirun" mpi_rank=OMPI_COMM_WORLD_RANK
if launcher_is_hydra; then
    mpi_launcher='an MPI launcher' mpi_rank=PMI_RANK
fi
# check_unless_hydra NAME COMMAND...: a check of errors that rank 0 does not see. With Hydra it waits in
# MPI_Init, which then ends with 4.
check_unless_hydra() {
    if launcher_is_hydra; then
        skip "$1" "this launcher does not end rank 0 when other ranks ended with an error"
    else
        check "$@"
    fi
}

# says WORD...: the last command printed one line of the program, with every word; other lines are the
# launcher's.
says() {
    local word
    [ "$(grep -c '^bench_[a-z_]*: ' "$err")" -eq 1 ] || return 1
    for word; do grep '^bench_' "$err" | grep -qF -- "$word" || return 1; done
}
# The same of ranks that may all have written it before the launcher ended them.
says_once_a_rank() {
    sed -i -E "/^bench_/s/($mpi_rank=)[0-9]+/\\1N/" "$err"
    sort -u -o "$err" "$err"
    says "$@"
}
# ran_by LAUNCHER RANKS NODES: the output of the last command shows them, and no wrong data.
ran_by() {
    grep -q "^# Launcher: $1; no MPI" "$out" && grep -q "^# Ranks: $2 on $3 node" "$out" &&
        grep -q '^# Out of bounds values : 0 OK' "$out"
}

# ------------------------------------------------------------------------------------------- -g
check "-g 3 starts three ranks" ends_with 0 $bench -g 3 -b 8 -e 64K -f 16 --csv "$scratch/a.csv"
check "-g 3: the output shows the launcher and three ranks" ran_by fork 3 1
check "-g 3: rows are verified by the exact reference" awk -F, '
    NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i }
    NR > 1 && ($column["nranks"] != 3 || $column["verify"] != "pass" || $column["wrong"] != 0) { bad = 1 }
    END { exit bad || NR < 3 }' "$scratch/a.csv"
has_words() { grep -q '"launcher": *"fork"' "$scratch/a.json" && grep -q '"verify": *"exact"' "$scratch/a.json"; }
check "-g 3: the manifest names the launcher and the reference" has_words

# ------------------------------------------------------------------------------------- binding
# cpus_of FILE: the cpus of each rank.
cpus_of() { sed -n 's/^#  Rank .* cpus \([0-9,-]*\).*/\1/p' "$1" | xargs; }
# each_its_own: the last command's ranks are bound to as many different cpus.
each_its_own() {
    [ "$(cpus_of "$out" | tr ' ' '\n' | sort -u | wc -l)" -eq "$1" ] && grep -q 'bound by weir' "$out"
}
if [ "$(nproc)" -ge 2 ]; then
    own_cpus() { ends_with 0 "$@" $bench -g 2 -n 5 -b 64 -e 64 && each_its_own 2; }
    check "-g in a step with Slurm's mask of all cpus: each rank has a core" own_cpus env \
        SLURM_CPU_BIND_TYPE=mask_cpu: SLURM_CPU_BIND=quiet,mask_cpu:0x3 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1
    check "-g within an outer mpirun's binding: each rank has a core" own_cpus env WEIR_LAUNCHER=none \
        OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 OMPI_MCA_orte_bound_at_launch=1 \
        OMPI_MCA_hwloc_base_binding_policy=socket
    check "-g with a topology file for hwloc: each rank has a core" own_cpus env \
        HWLOC_XMLFILE=topo/machines/8-gpu-8-nic.xml
    two_cpus=$(taskset -cp $$ 2>/dev/null | sed 's/.*: //')
    check "-g under taskset: ranks divide its cpus" own_cpus taskset -c "${two_cpus:-0-1}"
    # pods NAME-OF-RANK: ranks of torchrun in containers of one machine.
    # shellcheck disable=SC2016  # expanded by the inner shell
    pods() {
        local rank status=0 ranks=() port=$((20000 + RANDOM % 12000))
        for rank in 0 1; do
            RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port unshare $1 \
                sh -c 'hostname "$0" && exec "$@"' "$2$((rank * $3))" \
                timeout 60 $bench -T 10 -n 5 -b 64 -e 64 >"$scratch/pod$rank" 2>"$err" &
            ranks+=($!)
        done
        for rank in "${ranks[@]}"; do wait "$rank" || status=1; done
        cp "$scratch/pod0" "$out"
        [ $status -eq 0 ] && each_its_own 2 && ! grep -q 'preflight.*core' "$err"
    }
    if unshare -u --pid --fork --mount-proc true 2>/dev/null; then
        check "two containers with different names: each rank has a core" pods -u pod 1
        check "two containers with different names and processes" pods "-u --pid --fork --mount-proc" pod 1
        check "two containers of one name: each rank has a core" pods "-u --pid --fork --mount-proc" pod 0
    else
        skip "two containers on one machine" "needs the right to create namespaces"
    fi
else
    skip "ranks have a core each" "one core"
fi

# ------------------------------------------------------------------------------------------ -g
check "-g: a planted fault is found" ends_with 1 $bench -g 3 -b 1K -e 4K -f 4 --inject drop-chunk
check "-g: an early usage error ends with 2" ends_with 2 $bench -g 3 -r 3
check "-g: an error that ranks find is one line" says '-r 3' 'there are 3 ranks'
check "-g with --peer mpi ends with 2" ends_with 2 $bench -g 2 --peer mpi
check "-g with --peer mpi: one line with a remedy" says '--peer mpi' 'start the ranks with mpirun'
check "-g with --verify mpi ends with 2" ends_with 2 $bench -g 2 --verify mpi
check "-g with --verify mpi: one line with a remedy" says '--verify mpi' '--verify exact'
check "-g under mpirun ends with 2" ends_with 2 ci/mpirun -np 2 $bench -g 4
check "-g under mpirun: one line with a remedy" says "$mpi_launcher" "$mpi_rank" \
    'start 4 times as many ranks' 'WEIR_LAUNCHER=none'
refused_at_once() {
    local since
    since=$(date +%s%3N)
    ends_with 2 env RANK=0 WORLD_SIZE=4 MASTER_ADDR=localhost MASTER_PORT=29511 $bench -g 2 -b 8 -e 8 &&
        [ $(($(date +%s%3N) - since)) -lt 15000 ]
}
check "-g with torchrun's variables ends with 2 before it waits for ranks" refused_at_once
check "-g with torchrun's variables: one line with a remedy" says '-g 2' 'RANK is set' 'WEIR_LAUNCHER=none'
check "--help with -g and without ranks" ends_with 0 $bench -g 3 --help
latency() { ends_with 0 $bench -g 2 --mode latency -b 8 -e 8 -n 20; }
check "-g with --mode latency" latency
check "-g with a barrier around every operation" ends_with 0 $bench -g 2 -z 1 -b 8 -e 8 -n 20
check "-g with --until, --determinism and -C" \
    ends_with 0 $bench -g 2 -b 8 -e 8 --until 20% -T 2 --determinism -C 1

standin=$build/tests/bench_allreduce_standin
if [ -x "$standin" ]; then
    check "-g with a simulated GPU for each rank" ends_with 0 "$standin" -g 2 -b 8 -e 4K -f 8
    both_gpus() { ran_by fork 2 1 && [ "$(grep -c '^#  Rank .* stand-in, ' "$out")" -eq 2 ]; }
    check "-g with a simulated GPU for each rank: the output shows both" both_gpus
else
    skip "-g with a simulated GPU for each rank" "$standin is not built"
fi

# --------------------------------------------------------------------------- lost ranks of -g
now_ms() { date +%s%3N; }
# A process that runs; zombies do not count.
runs() {
    local stat
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null && [[ ${stat##*) } != [ZX]* ]]
}
none_runs() {
    local pid tries
    for ((tries = 0; tries < 30; tries++)); do
        for pid in "$job" "${pids[@]}"; do runs "$pid" && sleep 0.1 && continue 2; done
        return 0
    done
    kill -KILL "${pids[@]}" 2>/dev/null
    return 1
}
# start: three ranks that work until they are stopped, in a separate process group. Sets $job and
# $pids.
start() {
    local tries
    : >"$out"
    set -m
    $bench -g 3 -b 1K -e 1K -N 0 -n 1000000 -c 0 -T 2 >"$out" 2>"$err" &
    job=$!
    set +m
    pids=()
    for ((tries = 0; tries < 200; tries++)); do
        mapfile -t pids < <(sed -n 's/^#  Rank  *[0-9]* .* Pid *\([0-9]*\) .*/\1/p' "$out")
        [ ${#pids[@]} -eq 3 ] && break
        sleep 0.05
    done
    sleep 0.3
    [ ${#pids[@]} -eq 3 ]
}
finish() {
    local since
    since=$(now_ms)
    wait "$job" 2>/dev/null
    code=$?
    took_ms=$(($(now_ms) - since))
    echo "# $took_ms ms"
}
has_code() { [ "$code" -eq "$1" ] && [ "$took_ms" -lt "$2" ]; }

check "-g: ranks work until one is killed" start
kill -KILL "${pids[1]}"
finish
check "-g, a rank is killed: ends with 4 in seconds" has_code 4 5000
names_dead() {
    [ "$(grep -c '^weir: where 3 ranks stand' "$err")" -eq 1 ] && grep -q 'rank 1 is dead' "$err" &&
        grep -q '^bench_allreduce: rank 1 was ended by signal 9' "$err"
}
check "-g, a rank is killed: one report names it and the signal" names_dead
check "-g, a rank is killed: no process is left" none_runs

check "-g: ranks work until one is stopped" start
kill -STOP "${pids[2]}"
finish
check "-g, a rank is stopped: ends with 4 after its deadline" has_code 4 12000
names_stopped() { grep -q 'rank 2 is stopped' "$err" && grep -q 'rank 2 stopped, and killed because rank [013] failed with code' "$err"; }
check "-g, a rank is stopped: the report names it, and it is killed" names_stopped
check "-g, a rank is stopped: no process is left" none_runs

check "-g: ranks work until Ctrl-C" start
kill -INT -- "-$job"
finish
check "-g, Ctrl-C: the program is ended by SIGINT" has_code 130 3000
check "-g, Ctrl-C: no process is left" none_runs

check "-g: ranks work until the first process is terminated" start
kill -TERM "$job"
finish
check "-g, SIGTERM: the program is ended by it" has_code 143 3000
check "-g, SIGTERM: no process is left" none_runs

# ------------------------------------------------------------------------------- bad variables
clean='env -u RANK -u WORLD_SIZE'
check "RANK without WORLD_SIZE ends with 2" ends_with 2 env RANK=0 $bench
check "RANK without WORLD_SIZE: one line with a remedy" says 'RANK is set but WORLD_SIZE is not' 'unset RANK'
check "torchrun's variables without an address end with 2" \
    ends_with 2 env RANK=0 WORLD_SIZE=2 $bench -b 8 -e 8
check "torchrun's variables without an address: one line" says 'MASTER_ADDR is not set'
check "torchrun's variables that contradict mpirun end with 2" \
    ends_with 2 ci/mpirun -np 2 env RANK=3 WORLD_SIZE=8 MASTER_ADDR=localhost MASTER_PORT=1 $bench
check "torchrun's variables that contradict mpirun: one line with a remedy" \
    says_once_a_rank 'RANK=3' "$mpi_rank=" 'unset' 'WEIR_LAUNCHER=torchrun or mpi ('
check_unless_hydra "torchrun's variables that only ranks other than 0 see contradict mpirun end with 2" \
    ends_with 2 env RANK=0 WORLD_SIZE=3 ci/mpirun -np 3 $bench -b 8 -e 8
check_unless_hydra "torchrun's variables that only ranks other than 0 see contradict mpirun: one line with a remedy" \
    says 'RANK=0' "$mpi_rank=" 'unset' 'WEIR_LAUNCHER='
# shellcheck disable=SC2016  # expanded by the ranks
check_unless_hydra "ranks in another order than mpirun's end with 2" ends_with 2 ci/mpirun -np 3 \
    bash -c 'RANK=$((OMPI_COMM_WORLD_RANK * 2 % 3)) WORLD_SIZE=3 exec "$0" -b 8 -e 8' $bench
check_unless_hydra "ranks in another order than mpirun's: one line" says 'RANK=' "$mpi_rank=" 'unset'
# shellcheck disable=SC2016  # expanded by the ranks
check "torchrun's variables that agree with mpirun are allowed" ends_with 0 ci/mpirun -np 2 \
    bash -c 'RANK=${OMPI_COMM_WORLD_RANK:-$PMI_RANK} WORLD_SIZE=2 exec "$0" -b 8 -e 8' $bench
check "an unknown WEIR_LAUNCHER ends with 2" ends_with 2 env WEIR_LAUNCHER=pbs $bench
check "an unknown WEIR_LAUNCHER: one line with the words" says 'WEIR_LAUNCHER=pbs' 'expected auto, none, mpi'
check "a WEIR_LAUNCHER without its variables ends with 2" ends_with 2 env WEIR_LAUNCHER=slurm $bench
check "a WEIR_LAUNCHER without its variables: one line" says 'the variables of this launcher are not set'
check "WEIR_LAUNCHER=none starts ranks under a launcher" ends_with 0 \
    ci/mpirun -np 1 env WEIR_LAUNCHER=none $bench -g 2 -b 8 -e 8
slurm='env SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=1 SLURM_STEP_ID=0'
check "a malformed list of Slurm's nodes ends with 2" \
    ends_with 2 $slurm 'SLURM_STEP_NODELIST=node[' $bench
check "a malformed list of Slurm's nodes: one line" says 'SLURM_STEP_NODELIST=node[' 'expected a list of hosts'
in_shell() { # EXIT_CODE STEP_TASKS: an interactive shell in a Slurm job of four tasks
    ends_with "$1" env SLURM_PROCID=0 SLURM_STEP_NUM_TASKS="$2" SLURM_NTASKS=4 SLURM_STEP_NODELIST=vm SLURM_JOB_ID=1 \
        SLURM_STEP_ID=0 $bench -g 2 -b 8 -e 8 -n 2
}
check "-g starts ranks in a Slurm step of one task of a job of four" in_shell 0 1
check "-g does not in a step of four" in_shell 2 4
check "a PMIx launcher that does not answer ends with 3" \
    ends_with 3 env PMIX_RANK=0 PMIX_NAMESPACE=gone WEIR_LAUNCHER=pmix $bench
check "a PMIx launcher that does not answer: a line with the reason" grep -q 'PMIx: ' "$err"
check "a missing PMIx library ends with 3" \
    ends_with 3 env PMIX_RANK=0 PMIX_NAMESPACE=gone WEIR_LAUNCHER=pmix WEIR_PMIX_SO=/nowhere.so $bench
check "a missing PMIx library: one line with a remedy" says '/nowhere.so' 'apt-get install libpmix2'
pmix_headers=$(find /usr/lib /usr/include -name pmix_common.h -printf '%h\n' 2>/dev/null | head -n 1)
if [ -n "$pmix_headers" ] && "${CC:-cc}" -shared -fPIC -I"$pmix_headers" -o "$scratch/pmix.so" verify/tests/support/pmix_standin.c; then
    check "PMIx's fence is asked to collect what rank 0 has put" \
        ends_with 0 env PMIX_RANK=0 PMIX_NAMESPACE=standin WEIR_LAUNCHER=pmix WEIR_PMIX_SO="$scratch/pmix.so" $bench
else
    skip "PMIx's fence is asked to collect what rank 0 has put" "no pmix_common.h; apt-get install libpmix-dev"
fi
missing_rank() {
    ends_with 4 $clean env RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29433 \
        $bench -b 8 -e 8 -T 1
}
check "a rank that does not come under torchrun: ends with 4" missing_rank
check "a rank that does not come under torchrun: the line names it" says 'rank 1'

# Rank 1 runs a program with another identity. What benchmarks exchange may differ, too: here an option.
# shellcheck disable=SC2030,SC2031
two_builds() (
    codes=0
    id=$(cat "${O:-build}/library.id") && LC_ALL=C sed "s/$id/${id//?/0}/" $bench >"$scratch/other" && chmod +x "$scratch/other" || return
    export WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29435
    RANK=1 "$scratch/other" -b 8 -e 8 -n 3 -T 20 >"$scratch/out1" 2>&1 &
    RANK=0 $bench -b 8 -e 8 -n 2 -T 20 >"$out" 2>"$err"
    codes=$?
    wait $! || codes=$codes,$?
    [ $codes = 2,2 ] && cat "$scratch/out1" >>"$err"
)
each_names_builds() { [ "$(grep -c 'different builds of weir: .* on rank 0, .* on rank 1; start' "$err")" -eq 2 ]; }
check "ranks with different builds end with 2" two_builds
check "ranks with different builds: each says so before options are compared" each_names_builds

# ------------------------------------------------------------------------- torchrun, two hosts
# torchrun PROGRAM: two ranks on each of two emulated hosts, with the variables that torchrun sets.
# shellcheck disable=SC2016
torchrun() {
    timeout -k 5 60 ci/hosts --each bash -c '
        program=$1
        [ "$HOST_RANK" = 0 ] && address=$HOST_ADDRESS || address=$PEER_ADDRESS
        export WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR=$address MASTER_PORT=29500 TORCHELASTIC_RUN_ID=none
        LOCAL_RANK=1 RANK=$((2 * HOST_RANK + 1)) "$program" -b 8 -e 64K -f 16 -n 20 -T 10 &
        LOCAL_RANK=0 RANK=$((2 * HOST_RANK)) "$program" -b 8 -e 64K -f 16 -n 20 -T 10
        code=$?
        wait $! && exit $code' bash "$1"
}
timeout 20 ci/hosts --each true >"$out" 2>"$err"
hosts=$?
two_hosts() {
    if [ $hosts -eq 77 ]; then
        skip "$1: torchrun's variables on two hosts" "$(tail -n 1 "$err")"
        return
    fi
    check "$1: torchrun's variables on two hosts" ends_with 0 torchrun "$2"
    check "$1: torchrun's variables on two hosts: four ranks on two nodes" ran_by torchrun 4 2
}
two_hosts "this build" $bench

# ---------------------------------------------------------------- without an MPI library
other=$scratch/without-mpi
cuda=0
grep -qs WEIR_HAVE_CUDA "$build"/flags.id "$build"/cuda_flags.id && cuda=1
[ ! -e "$build/cuda.choice" ] || cuda=$(sed 's/.*=//' "$build/cuda.choice")
make_without() { make MPICC=no-mpicc CUDA="$cuda" O="$other" "$@"; }
build_without() {
    mkdir "$other" && cp -a "$build"/obj "$build"/*.id "$build"/*.list "$other" &&
        { [ ! -d "$build/obj_cuda" ] || cp -a "$build/obj_cuda" "$other"; } &&
        ends_with 0 make_without -j2 "$other/bench_allreduce"
}
check "a build without mpicc has the benchmarks" build_without
check "make config says what is left out" ends_with 0 make_without config
left_out() { grep -q 'WITHOUT tests of programs that are compiled for MPI: no no-mpicc; apt-get install' "$out"; }
check "make config names what needs mpicc" left_out
no_mpi_linked() { ends_with 0 ldd $bench && ! grep -q libmpi "$out"; }
check "a benchmark is linked with no MPI library" no_mpi_linked
if mpicc=$(command -v "${MPICC:-mpicc}"); then
    linked() { ends_with 0 make MPI_LINK=1 MPICC="$mpicc" CUDA="$cuda" O="$other" -j2 "$other/bench_allreduce"; }
    check "MPI_LINK=1 links a benchmark with the MPI of MPICC" linked
    needs_mpi() { ends_with 0 ldd "$other/bench_allreduce" && grep -q libmpi "$out"; }
    check "MPI_LINK=1: the program needs its library" needs_mpi
    check "MPI_LINK=1: ranks" ends_with 0 ci/mpirun -np 2 env WEIR_MPI_SO=/nowhere "$other/bench_allreduce" -b 8 -e 8 --peer mpi
    check "MPI_LINK=1: the header says so" grep -q '^# MPI: .*linked by the build)' "$out"
else
    skip "MPI_LINK=1 links a benchmark with the MPI of MPICC" "no ${MPICC:-mpicc}"
fi
check "WEIR_MPI_SO names no library: ends with 3" \
    ends_with 3 env PMI_RANK=0 PMI_SIZE=1 WEIR_MPI_SO=/nowhere/libmpi.so.12 $bench
check "WEIR_MPI_SO names no library: one line with the name" says 'PMI_RANK=0' 'WEIR_MPI_SO' '/nowhere/libmpi.so.12'
check "WEIR_MPI_SO names another library: ends with 3" ends_with 3 env PMI_RANK=0 PMI_SIZE=1 WEIR_MPI_SO=libm.so.6 $bench
check "WEIR_MPI_SO names another library: one line" says 'libm.so.6' 'not the name of an MPI library' 'libmpi.so.12'

# hidden COMMAND...: where no MPI library can be loaded: an empty file is in the place of each.
own=$(ci/mpirun -np 1 $bench -b 8 -e 8 -n 1 2>/dev/null | sed -n 's|^# MPI: .* ABI, \(/.*\))$|\1|p')
export own
# shellcheck disable=SC2016  # expanded by the inner shell
hidden() {
    unshare -m bash -c 'for path in $(find /usr/lib* /opt /usr/local/lib -name "libmpi*.so.[0-9]*" -type f 2>/dev/null) $own; do
        mount --bind /dev/null "$path" || exit 77; done; exec "$@"' bash "$@"
}
if hidden true 2>"$err"; then
    check "no MPI library: one rank" ends_with 0 hidden $bench -b 8 -e 8
    check "no MPI library: -g 3" ends_with 0 hidden $bench -g 3 -b 8 -e 64K -f 16
    check "no MPI library: -g 3 shows the launcher" ran_by fork 3 1
    check "no MPI library: an MPI launcher that is no PMIx launcher ends with 3" \
        ends_with 3 hidden env PMI_RANK=0 PMI_SIZE=2 $bench
    check "no MPI library: such a launcher is one line with a remedy" \
        says 'PMI_RANK=0' 'no MPI library of this launcher' 'libmpi.so.12' 'WEIR_MPI_SO'
else
    skip "no MPI library" "needs the right to mount"
fi
if [ "$mpi_rank" = OMPI_COMM_WORLD_RANK ]; then
    if hidden true 2>"$err"; then
        check "no MPI library: Open MPI's mpirun starts ranks by PMIx" \
            ends_with 0 hidden ci/mpirun -np 3 $bench -b 8 -e 64K -f 16
        check "no MPI library: Open MPI's mpirun: three ranks" ran_by pmix 3 1
        check "no MPI library: --peer mpi ends with 2" ends_with 2 hidden ci/mpirun -np 2 $bench --peer mpi
        check "no MPI library: --peer mpi is one line with the reason" says '--peer mpi' 'libmpi.so.40' 'WEIR_MPI_SO'
    fi
    timeout 20 ci/hosts -np 2 true >"$out" 2>"$err"
    if [ $? -eq 77 ]; then
        skip "PMIx on two hosts" "$(tail -n 1 "$err")"
    else
        check "PMIx on two hosts" \
            ends_with 0 timeout 60 ci/hosts -np 4 env WEIR_LAUNCHER=pmix $bench -b 8 -e 64K -f 16 -n 20 -T 10
        check "PMIx on two hosts: four ranks on two nodes" ran_by pmix 4 2
    fi
else
    skip "no MPI library: Open MPI's mpirun starts ranks by PMIx" "no mpirun of Open MPI"
fi
tap_done
