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

# The plan of plan_swap.c: the written file is a plan; the guide has the builder's part of the
# program, and the header the same calls, which compile.
build_example "${CC:-cc}" weir examples/plan_swap.c
check "plan_swap writes its plan" ends_with 0 "$scratch/example" "$scratch/swap.json"
if ./weir-plan show "$scratch/swap.json" >/dev/null 2>&1; then
    check "the plan of plan_swap is accepted" ends_with 0 ./weir-plan check "$scratch/swap.json"
else
    skip "the plan of plan_swap" "built without jansson"
fi
guide_is_example() {
    sed -n '/^```c$/,/^```$/{/^```/!p}' docs/user/plans.md >"$scratch/guide.c"
    [ -s "$scratch/guide.c" ] && awk '
        NR == FNR { guide = guide $0 "\n"; next } { all = all $0 "\n" }
        END { exit index(all, guide) == 0 }' "$scratch/guide.c" examples/plan_swap.c
}
check "docs/user/plans.md has the builder's part of plan_swap" guide_is_example
# The lines of the header's sketch, in a program.
sketch_builds() {
    {
        printf '#include <weir/plan.h>\nint main(void)\n{\n'
        sed -n '/ \*     weir_plan_spec spec/,/ \*         status = weir_plan_build/s/^ \*//p' \
            lib/include/weir/plan.h
        printf '    weir_status checked = status == WEIR_OK ? weir_plan_check(plan, NULL) : status;\n'
        printf '    weir_plan_free(plan);\n    return checked != WEIR_OK;\n}\n'
    } >"$scratch/sketch.c"
    build_example "${CC:-cc}" weir "$scratch/sketch.c" && "$scratch/example"
}
check "the sketch in weir/plan.h compiles, and its plan is accepted" ends_with 0 sketch_builds
tap_done
