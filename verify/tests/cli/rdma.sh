#!/bin/bash
# The virtual machine with soft-RoCE (ci/rdma-vm) and the tests that need it, which
# support/rdma_inside.inc runs in one boot. Skipped, with the reason, where the machine cannot be
# built. Run from the repository's root.
. verify/tests/support/tap.sh

if ! ci/rdma-vm --prepare 2>"$err"; then
    skip "RDMA in a virtual machine" "$(tail -n 1 "$err")"
    tap_done
fi

if long_part "the time limit and a kernel panic of the machine"; then
    check "ci/rdma-vm --seconds: the time limit ends the machine with 124" \
        ends_with 124 ci/rdma-vm --seconds 1 true
    check "ci/rdma-vm: a kernel panic ends the machine with 4" \
        ends_with 4 ci/rdma-vm --seconds 60 sh -c 'echo c >/proc/sysrq-trigger; sleep 60'
fi
check "ci/rdma-vm: an unknown option is a usage error" ends_with 2 ci/rdma-vm --second 1 true
# The long tests take nearly 240 s in an emulated machine, and longer beside other work.
seconds=240
[ "${TEST_LONG:-0}" = 0 ] || seconds=480
inside() {
    WEIR_HOSTID=passed ends_with 7 ci/rdma-vm --seconds $seconds \
        bash -c "O=${O:-build} TEST_LONG=${TEST_LONG:-0}"'; . verify/tests/support/rdma_inside.inc; exit 7'
}
# Runs the tests once more if the machine's kernel panics, as it does when a task hangs inside the
# kernel: that is not a fault of the programs under test.
inside_or_again() {
    inside && return
    grep -q "the machine's kernel gave up" "$err" || return 1
    echo "# note: started again, as $(tail -n 1 "$err")"
    sed 's/^/# /' "$err"
    inside
}
check "ci/rdma-vm returns the command's exit code" inside_or_again
check "ci/rdma-vm returns the command's complete output" \
    test "$(tail -n 1 "$out")" = 'end of the inside'
# The tests inside the machine print their own TAP plan.
grep -E '^(not ok|ok|1\.\.| *#)' "$out"
tap_done
