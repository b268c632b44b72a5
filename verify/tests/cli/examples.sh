#!/bin/bash
# Installs the library into a scratch folder, builds every program in examples/ against it with
# pkg-config, and runs it: programs that use MPI with two ranks, the others directly. Run from the
# repository's root.
set -u
. verify/tests/support/tap.sh

installed=$scratch/weir
check "make install installs the library" ends_with 0 make install PREFIX="$installed"
export PKG_CONFIG_PATH=$installed/lib/pkgconfig LD_LIBRARY_PATH=$installed/lib

# $1: the compiler, $2: the pkg-config package, $3: the source.
build_example() {
    # The compiler and pkg-config's output may be several words.
    # shellcheck disable=SC2046,SC2086
    $1 -std=c11 -Wall -Wextra -Werror -o "$scratch/example" "$3" $(pkg-config --cflags --libs "$2")
}

for source in examples/*.c; do
    name=$(basename "$source" .c)
    if ! grep -q '<weir/mpi.h>' "$source"; then
        check "example $name builds without warnings" \
            ends_with 0 build_example "${CC:-cc}" weir "$source"
        check "example $name runs" ends_with 0 "$scratch/example"
    elif command -v mpicc >/dev/null && command -v mpirun >/dev/null; then
        check "example $name builds without warnings" \
            ends_with 0 build_example mpicc weir-mpi "$source"
        check "example $name runs with two ranks" ends_with 0 ci/mpirun -np 2 "$scratch/example"
    else
        skip "$name" "no MPI (make deps)"
    fi
    check "examples/README.md lists $name" grep -qF "\`$name.c\`" examples/README.md
done
tap_done
