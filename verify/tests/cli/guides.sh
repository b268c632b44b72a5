#!/bin/bash
# The outputs that README.md and the guides show are what the commands print (support/guides.py); an
# output that is not, and a command that fails, are found. Run from the repository's root.
set -u
# shellcheck source=verify/tests/support/tap.sh
. verify/tests/support/tap.sh

if ! command -v python3 >/dev/null || [ ! -x weir-compare ] || [ ! -x weir-topo ] || ! ./weir-plan list >/dev/null 2>&1; then
    skip "outputs in guides" "needs python3 and all programs"
    tap_done
fi
if ! command -v "${MPIRUN:-mpirun}" >/dev/null; then
    skip "outputs in guides" "no mpirun"
    tap_done
fi
outputs() { # PAGE...: compares the outputs in pages
    rm -rf "$scratch/folder"
    mkdir "$scratch/folder"
    python3 verify/tests/support/guides.py "$scratch/folder" "$@"
}

outputs README.md docs/user/*.md >"$scratch/lines" 2>"$err"
while IFS= read -r line; do
    case $line in
    "ok - "*" # SKIP "*) skip "$(sed 's/^ok - //; s/ # SKIP .*//' <<<"$line")" "${line##* # SKIP }" ;;
    "ok - "*) check "${line#ok - }" true ;;
    "not ok - "*)
        grep -F -A70 -- "$line" "$scratch/lines" >"$out"
        check "${line#not ok - }" false
        ;;
    esac
done <"$scratch/lines"
check "more than 20 outputs were compared" \
    eval '[ "$(grep -c "^ok - " "$scratch/lines")" -gt 20 ] && [ "$(grep -vc "# SKIP" <(grep "^ok - " "$scratch/lines"))" -gt 20 ]'

# finds SED: a page with this change is reported.
page=$scratch/page.md
cat >"$page" <<'END'
```
$ ./weir-plan check ring.json
ring.json: accepted: allreduce of 3 ranks, no deadlock, no race, balanced, for every length
$ ./bench_allreduce -g 2 -b 8 -e 8 -n 20
           8             2     float     sum      -1     0.94    0.02    0.02       0     1.17    0.02    0.02       0
# Out of bounds values : 0 OK
```
END
finds() {
    sed "$1" "$page" >"$scratch/changed.md"
    cmp -s "$page" "$scratch/changed.md" && return 1
    ! outputs "$scratch/changed.md" >"$out" 2>"$err" && grep -q '^not ok - .*changed.md:[0-9]*: ' "$out"
}
check "a page whose outputs are right passes" ends_with 0 outputs "$page"
check "another word in an output is found" finds 's/no race/few races/'
check "another size in a table is found" finds 's/^           8 /          16 /'
check "another order of lines is found" finds '/^ *8 /{h;d}; /^# Out of/G'
check "a command that does not exist is found" finds 's/bench_allreduce/bench_none/'
tap_done
