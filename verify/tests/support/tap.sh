# shellcheck shell=bash
# TAP output and a scratch folder for shell tests. Source it from the repository's root; end the
# test with `tap_done`.
#
#   check "name" command arguments...     the check passes if the command ends with 0
#   ends_with N command arguments...      0 if the command ends with status N; leaves its output in
#                                         the files $out and $err
#   numbers_hold KIND CSV [COL=VALUE]     0 if what ends_with's command printed and wrote agrees
#   skip "name" "reason"                  reports a skipped check
#   long_part "what"                      whether this is a long run (long.inc)

tap_count=0
tap_failed=0
scratch=$(mktemp -d) || exit 3
out=$scratch/out
err=$scratch/err
touch "$out" "$err"
trap 'rm -rf "$scratch"' EXIT
# shellcheck source=verify/tests/support/long.inc
. verify/tests/support/long.inc

check() {
    local name=$1
    shift
    tap_count=$((tap_count + 1))
    if "$@"; then
        echo "ok $tap_count - $name"
    else
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_count - $name"
        echo "# $*"
        tail -n 20 "$out" | sed 's/^/# out: /'
        tail -n 20 "$err" | sed 's/^/# err: /'
    fi
}

skip() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

ends_with() {
    local expected=$1 status
    shift
    "$@" >"$out" 2>"$err" </dev/null
    status=$?
    [ $status -eq "$expected" ] || echo "# ended with $status, expected $expected"
    [ $status -eq "$expected" ]
}

# one_line_says WORD...: 0 if the standard error of the last command is one line with every word.
one_line_says() {
    local word
    [ "$(wc -l <"$err")" -eq 1 ] || return 1
    for word; do grep -qF -- "$word" "$err" || return 1; done
}

# numbers_hold KIND CSV [COLUMN=VALUE...]: 0 if what the last command printed and wrote are numbers that
# support/row_numbers.py computes anew. Needs python3; 0 without.
numbers_hold() {
    ! command -v python3 >/dev/null || python3 -B verify/tests/support/row_numbers.py "$1" "$2" "$out" "${@:3}"
}

tap_done() {
    echo "1..$tap_count"
    [ $tap_failed -eq 0 ]
    exit
}
