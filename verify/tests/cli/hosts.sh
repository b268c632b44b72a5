#!/bin/bash
# Two emulated hosts (ci/hosts): the tcp transport between them over IPv4 and IPv6, a cut cable, a
# missing interface, mpirun across both hosts, and a benchmark (BENCH=./bench_allreduce) on them.
cd "$(dirname "$0")/../../.." || exit 3
# shellcheck source=verify/tests/support/tap.sh
. verify/tests/support/tap.sh

net_tests=${O:-build}/tests/test_net
bench=${BENCH:-./bench_allreduce}
hosts='timeout -k 5 60 ci/hosts'

# Each host runs one of two ranks; the address is that of rank 0. The shell on the emulated host
# expands the variables.
# shellcheck disable=SC2016
rank_of='exec "$0" tcp "$1" "$HOST_RANK" 2 "weir0:$2"'

names=("the tcp transport passes the conformance suite between hosts over IPv4"
    "the tcp transport passes the conformance suite between hosts over IPv6"
    "a cut cable is reported with the peer's address at both ends within the deadline"
    "the tcp transport passes the conformance suite with one connection per peer"
    "the chosen interface is logged with the reason"
    "a missing interface is reported with its name and the available ones"
    "mpirun starts half of the ranks on each host"
    "an allreduce with two ranks per host is correct"
    "losing a host ends all four ranks with 4 and a report on both hosts"
    "two hosts on one core are known to share it")

$hosts --each true >"$out" 2>"$err"
if [ $? -eq 77 ]; then
    for name in "${names[@]}"; do skip "$name" "$(tail -n 1 "$err")"; done
    tap_done
fi

# shellcheck disable=SC2086
{
    conform() { ends_with 0 $hosts --each sh -c "$rank_of" "$net_tests" conform 10.77.0.1:5000; }
    conform_six() {
        ends_with 0 $hosts -6 --each sh -c "$rank_of" "$net_tests" conform '[fd77::1]:5000'
    }
    cut_cable() {
        HOSTS_CUT_AFTER=1 ends_with 0 $hosts --each sh -c "$rank_of" "$net_tests" cut 10.77.0.1:5000 &&
            grep -q 'rank 0 at 10.77.0.1:' "$err" && grep -q 'rank 1 at 10.77.0.2:' "$err"
    }
    one_stream() {
        WEIR_SOCKET_STREAMS=1 \
            ends_with 0 $hosts --each sh -c "$rank_of" "$net_tests" conform 10.77.0.1:5000
    }
    logged() {
        WEIR_LOG=info ends_with 0 $hosts --each sh -c "$rank_of" "$net_tests" conform 10.77.0.1:5000 &&
            grep -q 'interface weir0, address 10.77.0.2.*because.*WEIR_SOCKET_IFNAME' "$err" &&
            WEIR_LOG=info WEIR_SOCKET_IFNAME=weir0 \
                ends_with 0 $hosts --each sh -c "$rank_of" "$net_tests" conform 10.77.0.1:5000 &&
            grep -q 'because WEIR_SOCKET_IFNAME names it' "$err"
    }
    absent() {
        WEIR_SOCKET_IFNAME=eth77 \
            $hosts --each sh -c "$rank_of" "$net_tests" conform 10.77.0.1:5000 >"$out" 2>"$err"
        grep -q "WEIR_SOCKET_IFNAME.*'eth77' is not up.*weir0" "$err"
    }
    launched() {
        # shellcheck disable=SC2016
        ends_with 0 $hosts -np 4 sh -c 'echo "$WEIR_HOSTID"' &&
            [ "$(sort "$out" | uniq -c | xargs)" = '2 emulated-a 2 emulated-b' ] &&
            ends_with 0 $hosts -k 3 -np 3 "$bench" --transport tcp -b 8 -e 64 -f 8 -w 1 -n 2 &&
            grep -q 'Ranks: 3 on 3 nodes' "$out" && grep -q 'Out of bounds values : 0 OK' "$out"
    }
    allreduce() {
        ends_with 0 $hosts -np 4 "$bench" --transport tcp -b 8 -e 512 -f 64 -w 1 -n 2 &&
            grep -q 'Out of bounds values : 0 OK' "$out"
    }
    on_one_core() {
        local core
        core=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
        WEIR_LOG=info ends_with 0 $hosts -np 2 taskset -c "$core" "$bench" --transport tcp -b 8 -e 8 -n 2 &&
            grep -q "rank 1: 2 ranks of this machine's nodes share 1 core: waits yield" "$err"
    }
    # mpirun kills the other ranks when the first one has ended; they need time for their report.
    lost() {
        # shellcheck disable=SC2016
        HOSTS_CUT_AFTER=3 OMPI_MCA_odls_base_sigkill_timeout=2 ends_with 4 $hosts -np 4 \
            sh -c 'trap : TERM; "$0" "$@"; code=$?; echo "$HOST: $code"; exit $code' \
            "$bench" --transport tcp -b 64K -e 64K -n 1000000 -T 2 &&
            [ "$(grep -x '[ab]: .*' "$out" | sort | uniq -c | xargs)" = '2 a: 4 2 b: 4' ] &&
            [ "$(grep -c 'where 4 ranks stand' "$err")" -eq 2 ] &&
            grep -q 'rank 0 .*, node 0): timed loop' "$err" &&
            grep -q 'rank 2 .*, node 1): timed loop' "$err"
    }
}

check "${names[0]}" conform
check "${names[1]}" conform_six
check "${names[2]}" cut_cable
check "${names[3]}" one_stream
check "${names[4]}" logged
check "${names[5]}" absent
if ! command -v "${MPIRUN:-mpirun}" >/dev/null 2>&1; then
    skip "${names[6]}" "no mpirun"
else
    $hosts -np 2 true >"$out" 2>"$err"
    if [ $? -eq 77 ]; then
        for name in "${names[@]:6}"; do skip "$name" "$(tail -n 1 "$err")"; done
        tap_done
    fi
    check "${names[6]}" launched
fi
if [ -x "$bench" ] && command -v "${MPIRUN:-mpirun}" >/dev/null 2>&1; then
    check "${names[7]}" allreduce
    check "${names[8]}" lost
    check "${names[9]}" on_one_core
else
    skip "${names[7]}" "no $bench, or no mpirun"
    skip "${names[8]}" "no $bench, or no mpirun"
    skip "${names[9]}" "no $bench, or no mpirun"
fi
tap_done
