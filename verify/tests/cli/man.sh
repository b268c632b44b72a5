#!/bin/bash
# The manual pages: every program and every public function has one, each is well-formed, and a
# program whose --help fails makes the generator fail.
set -u
. verify/tests/support/tap.sh

pages=$scratch/man
programs=()
for program in bench_* weir-*; do
    [ -x "$program" ] && [ -f "$program" ] && programs+=("$program")
done
if ! command -v python3 >/dev/null; then
    skip "manual pages" "no python3"
    tap_done
    exit
fi

check "pages are written" ends_with 0 docs/man/generate "$pages" "${programs[@]}"
for program in "${programs[@]}"; do
    check "$program has a page" test -s "$pages/man1/$program.1"
done

# Every function that a public header exports.
functions=$(cat lib/include/weir/*.h | tr '\n' ' ' | grep -oE 'WEIR_API [^;{(]*\(' |
    grep -oE 'weir_[a-z0-9_]+ ?\(' | tr -d ' (' | sort -u)
lacking() {
    local function
    for function in $functions; do
        [ -s "$pages/man3/$function.3" ] || echo "$function"
    done
}
check "more than 100 functions are looked for" test "$(echo "$functions" | wc -l)" -gt 100
check "every public function has a page" test -z "$(lacking)"
check "no page is empty of description" \
    eval '! grep -L "^.so \|^.SH DESCRIPTION" "$pages"/man3/*.3 | grep .'

if command -v groff >/dev/null; then
    malformed() {
        (cd "$pages" && for page in man?/*; do groff -man -ww -rHY=0 -Tutf8 -z "$page" 2>&1; done) |
            grep -v "can't break line\|cannot adjust line\|cannot break line"
    }
    check "pages are well-formed" eval '[ -z "$(malformed)" ]'
    echo '.XX broken' >"$pages/man3/broken.3"
    check "a malformed page is noticed" eval '[ -n "$(malformed)" ]'
else
    skip "pages are well-formed" "no groff"
fi

check "a program without --help is refused" ends_with 1 docs/man/generate "$pages" /bin/false
check "usage" ends_with 2 docs/man/generate
tap_done
