#!/bin/bash
# One program under several MPIs: each launcher with its library, and with each of the others. A pair gives
# the launcher's ranks, or an error that names the library; never several jobs of one rank. The MPIs are those
# that ci/mpis has installed in MPIS (default: build/mpis), and this machine's. Traps that need no second
# MPI are set with stand-ins. Run from the repository's root.
set -u
. verify/tests/support/tap.sh
bench=${BENCH:-./bench_allreduce}
if [ ! -x "$bench" ]; then
    skip "pairs of launcher and MPI library" "$bench is not built; run make"
    tap_done
fi
echo "# note: $bench has the checksum $(sha256sum "$bench" | cut -c1-16)"

# ------------------------------------------------------------------------ stand-ins
# standin FOLDER FILE VERSION
standin() {
    local cc="${CC:-cc} -Ilib/include -fPIC -c verify/tests/support/mpi_standin.c"
    mkdir -p "$scratch/$1" && $cc "-DNAME=\"$3\"" -o "$scratch/named.o" && $cc -DOTHERS -o "$scratch/others.o" &&
        ${CC:-cc} -shared -o "$scratch/$1/$2" "$scratch/named.o" "$scratch/others.o"
}
# refused WORD...: the program ended with 3 and one line with the words.
refused() {
    local word
    [ "$(grep -c '^bench_' "$err")" -eq 1 ] || return 1
    for word; do grep '^bench_' "$err" | grep -qF -- "$word" || return 1; done
}
check "a stand-in of MPICH compiles" standin mpich libmpi.so.12 'MPICH Version: 9.9'
check "a stand-in for the standard's ABI compiles" standin abi libmpi_abi.so.1 'Open MPI v9.9'
rank_of_8() { ends_with 3 env PMI_RANK=0 PMI_SIZE=8 "$@" "$bench" -b 8 -e 8; }
check "MPI sees one rank of eight: ends with 3" rank_of_8 WEIR_MPI_SO="$scratch/mpich/libmpi.so.12"
check "MPI sees one rank of eight: one line with both and the remedy" \
    refused 'started 8 processes (PMI_SIZE)' 'MPI sees 1' 'mpirun of MPICH Version: 9.9' "$scratch/mpich/libmpi.so.12 by WEIR_MPI_SO"
check "a library of another launcher: ends with 3" rank_of_8 WEIR_MPI_SO="$scratch/abi/libmpi_abi.so.1"
check "a library of another launcher: one line with both" \
    refused 'an MPI launcher' 'PMI_RANK=0' "$scratch/abi/libmpi_abi.so.1 (Open MPI v9.9)" 'does not belong to this launcher'
check "a preloaded library is the one: ends with 3" rank_of_8 LD_PRELOAD="$scratch/abi/libmpi_abi.so.1"
check "a preloaded library is the one: one line names it" refused 'MPI in this process' 'Open MPI v9.9'
check "two MPIs in one process: ends with 3" rank_of_8 LD_PRELOAD="$scratch/mpich/libmpi.so.12" \
    WEIR_MPI_SO="$scratch/abi/libmpi_abi.so.1"
check "two MPIs preloaded: ends with 3" rank_of_8 LD_PRELOAD="$scratch/mpich/libmpi.so.12 $scratch/abi/libmpi_abi.so.1"
check "two MPIs preloaded: one line names both" refused 'two MPI libraries in one process' \
    "$scratch/mpich/libmpi.so.12" "$scratch/abi/libmpi_abi.so.1"
# A launcher is a program in the installation's bin: here a shell.
standin both/lib libmpi.so.12 'MPICH Version: 9.9' && standin both/lib libmpi_abi.so.1 'MPICH Version: 9.9' &&
    mkdir "$scratch/both/bin" && cp "$BASH" "$scratch/both/bin/launcher"
check "an installation with two ABIs: ends with 3" ends_with 3 "$scratch/both/bin/launcher" -c \
    'PMI_RANK=0 PMI_SIZE=8 "$0" -b 8 -e 8; exit $?' "$bench"
check "an installation with two ABIs: the library with its own is taken" refused "$scratch/both/lib/libmpi.so.12"
check "flux, and MPI sees one rank: ends with 3" ends_with 3 env FLUX_TASK_RANK=0 FLUX_JOB_SIZE=2 \
    WEIR_MPI_SO="$scratch/mpich/libmpi.so.12" "$bench" -b 8 -e 8
check "flux, and MPI sees one rank: one line" refused 'started 2 processes (FLUX_JOB_SIZE)' 'MPI sees 1'
# A library that ends the process in MPI_Init; the launcher's socket is a pipe, which gives back what it gets.
mkfifo "$scratch/pmi"
for how in exit signal error abort; do
    exec 8<>"$scratch/pmi"
    check "MPI_Init ends the process ($how): ends with 3" rank_of_8 WEIR_MPI_SO="$scratch/mpich/libmpi.so.12" STANDIN_INIT=$how PMI_FD=8
    check "MPI_Init ends the process ($how): one line names the library" \
        refused "rank 0: MPI_Init of $scratch/mpich/libmpi.so.12 ended the process" WEIR_MPI_SO
    check "MPI_Init ends the process ($how): the launcher is not asked to abort" eval \
        'echo end >&8; received=$(sed "/^end$/q" <&8); [[ $received != *abort* ]]'
    exec 8>&-
done
: >"$scratch/libmpi.so.12"
check "a file that is no library: ends with 3" rank_of_8 WEIR_MPI_SO="$scratch/libmpi.so.12"
check "a file that is no library: one line names it" refused "WEIR_MPI_SO" "$scratch/libmpi.so.12" 'file too short'
check "without a launcher no MPI is opened" ends_with 0 env WEIR_MPI_SO=/nowhere "$bench" -b 8 -e 8 -n 2

# A program that has started MPI, and is connected by it.
library=${O:-build}/libweir.a
if mpicc=$(command -v "${MPICC:-mpicc}") && [ -e "$library" ]; then
    # shellcheck disable=SC2046 # several libraries
    compiles() {
        "$mpicc" -std=gnu11 -Ilib/include -o "$scratch/program" verify/tests/support/mpi_launcher.c "$library" \
            $(pkg-config --libs jansson 2>/dev/null) -lm -ldl -lrt -pthread >"$out" 2>"$err"
    }
    check "a program that uses MPI compiles" compiles
    check "a program that has started MPI is connected by it" ends_with 0 ci/mpirun -np 2 "$scratch/program"
    check "it has all ranks" grep -qx '2 ranks' "$out"
else
    skip "a program that has started MPI" "no ${MPICC:-mpicc}, or no $library"
fi

# ------------------------------------------------------------------------------ pairs
mpis=${MPIS:-build/mpis}
missing=''
declare -A launcher=() libraries=()
for name in $(ci/mpis -l); do
    if [ -x "$mpis/$name/mpirun" ]; then
        launcher[$name]=$mpis/$name/mpirun
    elif [ "$name" = openmpi4 ] && ${MPIRUN:-mpirun} --version 2>/dev/null | grep -q 'Open MPI) 4'; then
        launcher[$name]=${MPIRUN:-mpirun}
    else
        missing+=" $name"
    fi
done
[ -z "$missing" ] || skip "pairs with other MPIs" "not installed:$missing (ci/mpis)"
# run LAUNCHER [LIBRARY]: three ranks with reference and peer; its status.
run() {
    MPIRUN=${launcher[$1]} WEIR_MPI_SO=${2:-} timeout 120 ci/mpirun -np 3 "$bench" -b 8 -e 1K -f 128 -n 3 -w 1 \
        --verify mpi --peer mpi >"$out" 2>"$err" </dev/null
}
ran() { grep -q '^# Ranks: 3 on 1 node' "$out" && grep -q '^# Out of bounds values : 0 OK' "$out"; }
own() { run "$1" && ran && ! grep -q 'another installation' "$err"; }
for name in "${!launcher[@]}"; do
    check "$name: three ranks with reference and peer, and its own library" own "$name"
    libraries[$name]=$(sed -n 's|^# MPI: .* ABI, \(/.*\))$|\1|p' "$out")
    echo "# note: $name: $(grep '^# MPI' "$out" | tr -s '\t ' ' ')"
done
# pair LAUNCHER NAME: the world of three ranks, or exit code 3 and a line that names the library.
pair() {
    run "$1" "${libraries[$2]}"
    local status=$?
    [ $status -ne 0 ] || { result="3 ranks" && ran; return; }
    result="error $status, named"
    [ $status -eq 3 ] && refused "${libraries[$2]}"
}
# Intel MPI has no such provider: its MPI_Init asks the launcher to abort.
fails_in_init() { FI_PROVIDER=nix I_MPI_FABRICS=ofi pair "$1" intel && [ "$result" != "3 ranks" ]; }
for one in "${!launcher[@]}"; do
    for other in "${!libraries[@]}"; do
        [ "$one" != "$other" ] && [ -n "${libraries[$other]}" ] || continue
        result=''
        check "launcher of $one, library of $other" pair "$one" "$other"
        echo "# note: launcher of $one, library of $other: $result"
    done
    [ -z "${libraries[intel]:-}" ] || [[ $one == openmpi* ]] ||
        check "launcher of $one, Intel MPI's MPI_Init fails: error 3, named" fails_in_init "$one"
done
tap_done
