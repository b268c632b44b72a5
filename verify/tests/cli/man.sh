#!/bin/bash
# The manual pages: every program and every public function has a well-formed page, and the
# generator fails for a program whose --help fails. Run from the repository's root.
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
fi

check "the generator writes the manual pages" \
    ends_with 0 docs/man/generate "$pages" "${programs[@]}"
for program in "${programs[@]}"; do
    check "$program has a manual page" test -s "$pages/man1/$program.1"
done

# The options of programs, in their pages and in shell completion.
options_of() { "./$1" --help | grep -oE '^ {2,8}(-[A-Za-z], )?--[a-z_-]+' | grep -oE -- '--[a-z_-]+' | sort -u; }
options_in() { tr -d '\\' <"$1" | grep -oE -- '--[a-z_-]+' | sort -u; }
missing_options() { # programs with the options that their pages lack
    local program
    for program in "${programs[@]}"; do
        comm -23 <(options_of "$program") <(options_in "$pages/man1/$program.1") | sed "s/^/$program /"
    done
}
check "every option of every program is in its manual page" eval '[ -z "$(missing_options)" ]'
if [ -x ./weir-check ] && [ -x ./bench_allreduce ]; then
    check "weir-check and the floor of benchmarks are among them" eval 'options_of weir-check | grep -qx -- --baseline && options_of bench_allreduce | grep -qx -- --min-bw'
    sed -i 's/\\-\\-baseline/\\-\\-base/' "$pages/man1/weir-check.1"
    check "an option that a page lacks is found" eval '[ "$(missing_options)" = "weir-check --baseline" ]'
    check "shell completion is written" ends_with 0 docs/man/completion "$scratch/completion" "${programs[@]}"
    # offers PROGRAM WORD: what bash completes it to.
    offers() { bash -c '. "$1/weir.bash"; COMP_WORDS=("$2" "$3"); COMP_CWORD=1; COMPREPLY=(); _weir "$2"; printf "%s\n" "${COMPREPLY[@]}"' - "$scratch/completion" "$@"; }
    for pair in weir-check:--baseline weir-check:--prometheus weir-compare:--ctrf weir-compare:--strict weir-topo:--svg bench_allreduce:--min-bw bench_moe:--min-bw; do
        check "completion offers ${pair#*:} of ${pair%:*}" eval 'offers "${pair%:*}" "${pair#*:}" | grep -qx -- "${pair#*:}"'
    done
fi

for program in weir-nightly weir-mpirun; do
    check "the installed script $program has a manual page" test -s "$pages/man1/$program.1"
done

# The references of options and variables are what the programs print. A build without a part has other programs and words.
if [ -x ./weir-report ] && ./bench_allreduce --help | grep -q -- '--peer mpi'; then
    mkdir "$scratch/user"
    check "the references of options and variables are written" ends_with 0 docs/man/user-reference "$scratch/user"
    for page in options options-tools environment; do
        check "docs/user/$page.md is current (docs/man/user-reference docs/user writes it)" cmp "$scratch/user/$page.md" "docs/user/$page.md"
    done
else
    skip "references of options and variables" "this build lacks programs"
fi
check "the generator of references without a folder is a usage error" ends_with 2 docs/man/user-reference

# Every function of a public header: those that it exports, and the inline ones.
functions=$(cat lib/include/weir/*.h | tr '\n' ' ' | grep -oE '(WEIR_API|WEIR_FN|WEIR_KERNEL_FN) [^;{(]*\(' |
    grep -oE 'weir_[a-z0-9_]+ ?\(' | tr -d ' (' | sort -u)
missing_pages() {
    local function
    for function in $functions; do
        [ -s "$pages/man3/$function.3" ] || echo "$function"
    done
}
check "the public headers declare more than 100 functions" \
    test "$(echo "$functions" | wc -l)" -gt 100
check "every public function has a manual page" test -z "$(missing_pages)"
check "every page of section 3 has a description" \
    eval '! grep -L "^.so \|^.SH DESCRIPTION" "$pages"/man3/*.3 | grep .'

# What the line NAME says after the dash.
summaries() { sed -n '/^\.SH NAME/{n;s/.* \\- //p}' "$pages"/man?/*.?; }
check "every page has a summary of 6 to 110 characters" \
    eval '[ "$(summaries | wc -l)" -gt 100 ] && ! summaries | sed "s/\\\\//g" | grep -qE "^.{0,5}$|.{111}"'
# The summaries of pages whose comment begins with the arguments instead of what the call does, and of
# pages of collectives that share one.
unclear() {
    summaries | grep -iE '^(in|out|in, out|arrays)\b'
    for page in "$pages"/man3/weir_{allreduce,reduce_scatter,allgather,broadcast,reduce,alltoall,alltoallv,sendrecv}.3; do
        sed -n '/^\.SH NAME/{n;s/.* \\- //p}' "$page"
    done | sort | uniq -d
}
check "every summary says what the function does" eval '[ -z "$(unclear)" ]'
cp "$pages/man3/weir_reduce.3" "$scratch/reduce.3"
sed -i '/^\.SH NAME/{n;s/\\- .*/\\- in, out: count elements/}' "$pages/man3/weir_reduce.3"
check "a summary that only names arguments is found" eval '[ "$(unclear)" = "in, out: count elements" ]'
cp "$scratch/reduce.3" "$pages/man3/weir_reduce.3"
# The description of a function, also of one whose page belongs to another function.
page_of() {
    local page=$pages/man3/$1.3
    if grep -q '^\.so ' "$page"; then page=$pages/$(sed 's/^\.so //' "$page"); fi
    sed -n '/^\.SH DESCRIPTION/,/^\.SH SEE/p' "$page"
}
# cut_off: pages whose summary is cut off. A summary begins as the description does, and ends where a
# clause does: the text goes on with a mark, a bracket or a new sentence, and no bracket is left open.
cut_off() {
    python3 - "$pages"/man3 <<'END'
import glob, os, re, sys
for page in sorted(glob.glob(sys.argv[1] + "/*.3")):
    text = open(page, encoding="utf-8").read()
    if text.startswith(".so"):
        continue
    text = re.sub(r"\s+", " ", text.replace("\\-", "-").replace("\\e", "\\").replace("\\&", ""))
    name = re.search(r"\.SH NAME .*? - (.*?) \.SH SYNOPSIS", text).group(1)
    described = text.split(".SH DESCRIPTION ", 1)[1]
    rest = described[len(name):]
    if (described[:len(name)].lower() != name.lower() or not re.match(r"[.,;:?]| \(", rest)
            or name[-1] in ",;:" or name.count("(") != name.count(")")
            or not re.match("[.;]", rest) and re.search(r"\b(a|an|the|of|that|which|if|until|as|by|to|with|or|and|it|see)$", name)):
        print(os.path.basename(page)[:-2])
END
}
check "no summary is cut off" eval '[ -z "$(cut_off)" ]'
sed -i '/^\.SH NAME/{n;s/ of all ranks.*//}' "$pages/man3/weir_reduce.3"
check "a summary that is cut off is found" eval '[ "$(cut_off)" = weir_reduce ]'
cp "$scratch/reduce.3" "$pages/man3/weir_reduce.3"
sed -i '/^\.SH NAME/{n;s/$/,/}' "$pages/man3/weir_put_packets.3"
check "a summary that ends with a comma is found" eval '[ "$(cut_off)" = weir_put_packets ]'
sed -i '/^\.SH NAME/{n;s/,$//}' "$pages/man3/weir_put_packets.3"
check "no function is described by a reference to the header" eval '! summaries | grep -i "see the section"'
for function in weir_put weir_get weir_copy_shared weir_put_packets; do
    check "$function(3) explains tid and nthreads" eval 'page_of "$function" | grep -q tid && page_of "$function" | grep -q nthreads'
done
for function in weir_wait weir_sem_wait weir_port_wait; do
    check "$function(3) states what it returns" eval 'page_of "$function" | tr "\n" " " | grep -q "eturns 0, WEIR_ERR_TIMEOUT"'
done
long_prototypes() { sed -n '/^\.SH SYNOPSIS/,/^\.fi/s/^\.B "\(.*\)"$/\1/p' "$pages"/man3/*.3 | sed 's/\\//g' | grep -E '.{80}'; }
check "no line of a function's synopsis is longer than 79 characters" eval '[ -z "$(long_prototypes)" ]'
check "a page has the introduction of the header's section" \
    grep -q 'Every rank of comm calls every collective' "$pages/man3/weir_allreduce.3"
check "an option whose value is followed by one blank is separate from its text" \
    grep -qx '.B \\-\\-topology NAME|FILE' "$pages/man1/weir-plan.1"
if [ -x bench_allreduce ]; then
    check "weir(7) lists the environment variables" \
        eval '[ "$(./bench_allreduce --help-env | grep -cE "^  [A-Z_]+ ")" -eq "$(grep -cE "^\.B [A-Z_]+$" "$pages/man7/weir.7")" ]'
fi

if command -v groff >/dev/null; then
    malformed() { # PATTERN
        (cd "$pages" && for page in $1; do groff -man -ww -rHY=0 -Tutf8 -z "$page" 2>&1; done) |
            grep -v "can't break line\|cannot adjust line\|cannot break line"
    }
    check "every manual page is well-formed" eval '[ -z "$(malformed "man?/*")" ]'
    echo '.XX broken' >"$pages/man3/broken.3"
    check "a malformed page is found" eval '[ -n "$(malformed man3/broken.3)" ]'
else
    skip "every manual page is well-formed" "no groff"
fi

check "a program without --help makes the generator fail" \
    ends_with 1 docs/man/generate "$pages" /bin/false
check "the generator without arguments is a usage error" ends_with 2 docs/man/generate
tap_done
