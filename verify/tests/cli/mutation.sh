#!/bin/bash
# The mutants of verify/tests/mutation: all lists are well-formed and apply to the code as it is; the
# runner reports killed and living mutants, and those that no longer apply. Run from the
# repository's root.
set -u
. verify/tests/support/tap.sh

command -v python3 >/dev/null || { skip "mutants" "no python3; apt-get install python3"; tap_done; }
list=$scratch/a.mutants

check "every mutant of the lists applies" ends_with 0 verify/tests/mutation/run -a
check "there are about 300" [ "$(cat verify/tests/mutation/*.mutants | grep -c "^@")" -ge 250 ]

printf '@ lib/base/types.c test_base\n- no such text\n+ x\n' >"$list"
check "one that no longer applies is an error" ends_with 2 verify/tests/mutation/run -a "$list"
check "its message names the list and the file" grep -q 'a.mutants:1: lib/base/types.c contains' "$out"
printf '@ lib/base/types.c test_none\n- WEIR_MIN\n+ WEIR_MAX\n' >"$list"
check "a test that does not exist is an error" ends_with 2 verify/tests/mutation/run -a "$list"
printf '@ lib/base/types.c\n- x\n+ y\n' >"$list"
check "a mutant without tests is an error" ends_with 1 verify/tests/mutation/run -a "$list"

# One that a test kills, and one that no test can.
if [ -x build/tests/test_plan_validate ]; then
    printf '%s\n' '@ lib/plan/format/validate.c test_plan_validate' '- (plan->nthreads < 1 ||' \
        '+ (plan->nthreads < 2 ||' '' '@ lib/plan/format/validate.c test_plan_validate' \
        '- at.op < gpu->blocks[at.block].nops &&' '+ gpu->blocks[at.block].nops > at.op &&' >"$list"
    check "a killed and a living mutant end with 1" ends_with 1 verify/tests/mutation/run -j 1 "$list"
    check "the living one is shown" grep -q '^LIVED lib/plan/format/validate.c:' "$out"
    check "the score counts both" grep -Eq '^all +1 +1 +0 +0 +0 +50 %' "$out"
else
    skip "planted mutants" "test_plan_validate is not built; run make tests"
fi
tap_done
