#!/bin/bash
# The virtual machine with soft-RoCE (ci/rdma-vm), and what can only be tested there: the tests of
# rdma_inside.inc, all in one start of it. Skipped, with the reason, where it cannot be made.
. verify/tap.sh

if ! ci/rdma-vm --prepare 2>"$err"; then
    skip "RDMA in a virtual machine" "$(tail -n 1 "$err")"
    tap_done
fi

check "a deadline ends the machine" ends_with 124 ci/rdma-vm --seconds 1 true
check "an option that does not exist is refused" ends_with 2 ci/rdma-vm --second 1 true
WEIR_HOSTID=passed check "the command's status comes back" \
    ends_with 7 ci/rdma-vm --seconds 240 bash -c "O=${O:-build}"'; . verify/tests/rdma_inside.inc; exit 7'
check "its output comes back whole and in order" test "$(tail -n 1 "$out")" = 'end of the inside'
# Its tests have a plan of their own.
grep -E '^(not ok|ok|1\.\.| *#)' "$out"
tap_done
