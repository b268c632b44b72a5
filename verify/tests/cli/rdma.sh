#!/bin/bash
# The virtual machine with soft-RoCE (ci/rdma-vm), and what can only be tested there: the tests of
# rdma_inside.inc, all in one start of it. Skipped, with the reason, where it cannot be made.
. verify/tests/support/tap.sh

if ! ci/rdma-vm --prepare 2>"$err"; then
    skip "RDMA in a virtual machine" "$(tail -n 1 "$err")"
    tap_done
fi

check "a deadline ends the machine" ends_with 124 ci/rdma-vm --seconds 1 true
check "an option that does not exist is refused" ends_with 2 ci/rdma-vm --second 1 true
check "a panic of its kernel is told" \
    ends_with 4 ci/rdma-vm --seconds 60 sh -c 'echo c >/proc/sysrq-trigger; sleep 60'
inside() {
    WEIR_HOSTID=passed ends_with 7 ci/rdma-vm --seconds 240 \
        bash -c "O=${O:-build}"'; . verify/tests/support/rdma_inside.inc; exit 7'
}
# Once more if its kernel panics, as it does when a task hangs inside of it: whatever a program
# does, that is the kernel's fault.
inside_or_again() {
    inside && return
    grep -q "the machine's kernel gave up" "$err" || return 1
    echo "# note: started again, as $(tail -n 1 "$err")"
    sed 's/^/# /' "$err"
    inside
}
check "the command's status comes back" inside_or_again
check "its output comes back whole and in order" test "$(tail -n 1 "$out")" = 'end of the inside'
# Its tests have a plan of their own.
grep -E '^(not ok|ok|1\.\.| *#)' "$out"
tap_done
