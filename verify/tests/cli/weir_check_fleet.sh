#!/bin/bash
# weir-check --fleet on emulated hosts: each planted fault is found and named, by all pairs and by halves,
# and a healthy fleet passes. verify/tests/support/fleet.py plants the faults. Run from the
# repository's root.
. verify/tests/support/tap.sh

fleet=verify/tests/support/fleet.py
says() { grep -qE -- "$1" "$out"; }

if [ ! -x ./weir-check ] || ! command -v python3 >/dev/null; then
    skip "fleets" "weir-check is not built, or there is no python3"
    tap_done
fi
$fleet 2 none --timeout 20 --quiet >"$out" 2>"$err"
status=$?
if [ $status -eq 77 ]; then
    skip "fleets" "$(tail -n 1 "$err")"
    tap_done
fi
check "two healthy hosts pass" [ $status -eq 0 ]

# found CODE PATTERN HOSTS FAULT options...: weir-check ends with the code and prints the pattern.
found() {
    local code=$1 pattern=$2
    shift 2
    ends_with "$code" "$fleet" "$@" --quiet && says "$pattern"
}
# The same, repeated where the links that are as they should be took over a millisecond, or the report
# says that processors were in use: the machine was too busy to emulate them. Other tests, which run at
# the same time, may take a minute. On a busy machine weir-check judges more leniently, by the factor in
# its report, so the delays are ten times as long then.
found_idle() {
    local try
    local arguments=("$@")
    for try in 1 2 3 4 5 6; do
        [ "$try" -eq 1 ] || sleep 5
        found "${arguments[@]}" && return
        arguments=("${@/:0.0/:0.}")
        says '^(fleet.latency +[0-9]{4,}\.|# busy:)' || return
        echo "# note: run $try: the machine is busy: $(grep -E '^(fleet.latency|# busy:)' "$out" | tr '\n' ' ')"
    done
    return 1
}
slow() { # slow NAME PATTERN-OF-ALL-PAIRS PATTERN-OF-HALVES HOSTS FAULT
    check "$1 is found by all pairs" found_idle 5 "$2" "$4" "$5" --timeout 20
    check "$1 is found by halves" found_idle 5 "$3" "$4" "$5" --bisect --timeout 20
}
check "a delayed link is found by all pairs" \
    found_idle 5 "^fleet.link1-2.latency: SLOW: .*chaos-1 - chaos-2" 4 delay:1-2:0.01 --timeout 20
check "a slow host is found by halves" found_idle 5 "node chaos-2," 4 delay:2:0.005 --bisect --timeout 20
check "a host that flips bits ends with 1 and is named" \
    found 1 "^fleet.node2.data: WRONG: data from node chaos-2; [0-9]+ wrong bytes" 3 none --inject flip:2 --timeout 20
check "it ends the search by halves, and is named once" eval \
    'found 1 "^fleet.search .*skipped .*ended by another failure after [12] rounds?$" 3 none --inject flip:2 --bisect --timeout 20 &&
    [ "$(grep -cE "^fleet.node2.data: WRONG" "$out")" -eq 1 ]'
check "a host that stops ends with 4 and is named" \
    found 4 "^fleet.node1.answer: HUNG: node chaos-1" 3 stop:1 --timeout 3
check "the others are still measured" says "^fleet.bandwidth +[0-9.]+ GB/s"
check "a host that is not there ends with 6 and is named" found 6 "rank 1 has not joined" 2 absent:1 --timeout 2
check "a host with fewer cores ends with 6 and is named" found 6 "^fleet.node1.cores: MISSING: .*chaos-1: 1, expected >= 2" 2 fewer:1 --timeout 20
if long_part "more fleets of four and eight hosts, slow links and hosts by the other way"; then
    check "of four hosts the one that flips bits is named" \
        found 1 "^fleet.node3.data: WRONG: data from node chaos-3; [0-9]+ wrong bytes" 4 none --inject flip:3 --timeout 20
    check "of four hosts the one that stops is named" found 4 "^fleet.node1.answer: HUNG: node chaos-1" 4 stop:1 --timeout 3
    check "of four hosts the one that is not there is named" found 6 "rank 3 has not joined" 4 absent:3 --timeout 2
    check "of four hosts the one with fewer cores is named" \
        found 6 "^fleet.node2.cores: MISSING: .*chaos-2: 1, expected >= 2" 4 fewer:2 --timeout 20
    check "four healthy hosts pass by halves" found 0 "^fleet.search .*none in 3 rounds" 4 none --bisect --timeout 20
    check "four healthy hosts pass" found 0 "^PASS" 4 none --timeout 20
    slow "a delayed link" "^fleet.link1-2.latency: SLOW: .*chaos-1 - chaos-2" "the link chaos-1 - chaos-2," 4 delay:1-2:0.02
    slow "a slow link" "^fleet.link0-3.bandwidth: SLOW: .*chaos-0 - chaos-3" "the link chaos-0 - chaos-3," 4 rate:0-3:500000
    slow "a slow host" "^fleet.node2.latency: SLOW: .*chaos-2" "node chaos-2," 4 delay:2:0.01
    slow "a delayed link of eight hosts" "^fleet.link2-5.latency: SLOW" "the link chaos-2 - chaos-5," 8 delay:2-5:0.02
    slow "a slow host of eight" "^fleet.node6.latency: SLOW" "node chaos-6," 8 delay:6:0.01
    check "eight healthy hosts pass" found 0 "^PASS" 8 none --timeout 20
fi
tap_done
