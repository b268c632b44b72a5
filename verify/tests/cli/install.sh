#!/bin/bash
# What `make install` brings besides the library (make.sh covers that): the nightly gate and the
# launcher from the installed place, manual pages, shell completion, CMake's find_package, other
# folders than the default ones; and `make uninstall`. Run from the repository's root.
set -u
. verify/tests/support/tap.sh

prefix=$scratch/weir
libdir=$prefix/lib
says() { grep -qE -- "$1" "$out"; }

check "make install ends with 0" ends_with 0 make install PREFIX="$prefix"
check "make install says how to use what it installed" \
    eval 'says "PATH=$prefix/bin:" && says "PKG_CONFIG_PATH=$libdir/pkgconfig" && says "LD_LIBRARY_PATH=$libdir"'
for path in bin/weir-nightly bin/weir-mpirun bin/weir-plan share/weir/nightly/matrix-host.ini \
    share/weir/nightly/matrix-gpu.ini share/weir/nightly/vendor-github.yml share/weir/nightly/nightly.sbatch share/doc/weir/examples/hello.c \
    lib/libweir.so lib/libweir_nccl.so lib/weir/compat/libnccl.so.2 lib/weir/libnccl-tuner-weir.so \
    lib/pkgconfig/weir.pc lib/cmake/weir/weirConfig.cmake; do
    check "installed: $path" test -e "$prefix/$path"
done
check "every link that is installed leads to a file" eval '[ -z "$(find "$prefix" -xtype l)" ]'
check "a relative PREFIX is a usage error" ends_with 2 make install PREFIX=weir
check "a relative PREFIX is reported" grep -q "PREFIX='weir'.*absolute.*; give make another PREFIX$" "$err"
check "a relative LIBDIR is a usage error" ends_with 2 make install PREFIX="$prefix" LIBDIR=lib
check "a relative LIBDIR is reported with the variables that change it" \
    grep -q "LIBDIR='lib'.*absolute.*; give make another LIBDIR or PREFIX$" "$err"

# ------------------------------------------------------------------ pkg-config
cat >"$scratch/program.c" <<'C'
#include <weir/weir.h>
#include <stdio.h>
int main(void) { return puts(weir_version_string()) < 0; }
C
# shellcheck disable=SC2046
build_program() {
    cc -o "$scratch/program" "$scratch/program.c" \
        $(PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --cflags --libs weir)
}
check "a program compiles by weir.pc of the installed tree" ends_with 0 build_program
check "the program runs without LD_LIBRARY_PATH" ends_with 0 env -u LD_LIBRARY_PATH "$scratch/program"

# ------------------------------------------- the folders of a distribution
system=$scratch/system
check "make install with DESTDIR and LIBDIR ends with 0" \
    ends_with 0 make install DESTDIR="$system" PREFIX=/usr LIBDIR=/usr/lib/triplet
check "make install into DESTDIR does not print how to use it" eval '! says PATH='
check "no file contains the path of DESTDIR" eval '! grep -rqI "$system" "$system"'
check "LIBDIR has all libraries and what describes them" \
    eval '[ "$(ls "$system/usr/lib")" = triplet ] && ends_with 0 ls "$system"/usr/lib/triplet/{libweir.so,libweir.a,weir/compat/libnccl.so.2,pkgconfig/weir.pc,cmake/weir/weirConfig.cmake}'
check "weir.pc names LIBDIR" grep -qx 'libdir=${prefix}/lib/triplet' "$system/usr/lib/triplet/pkgconfig/weir.pc"
check "weir.pc of a folder that the linker knows sets no run path" \
    eval '! grep -q rpath "$system/usr/lib/triplet/pkgconfig/weir.pc"'

# Debian's packages: each installed file belongs to one of them, or is listed as left out. $1: where
# the lists are.
without_package() {
    local path pattern
    mapfile -t patterns < <(sed 's/ .*//; s|^debian/tmp/||' "$1"/*.install "$1"/*.examples "$1"/not-installed)
    patterns+=('usr/lib/*/libweir_nccl.so') # debian/rules moves it
    (cd "$system" && find usr ! -type d) | while read -r path; do
        for pattern in "${patterns[@]}"; do
            # The pattern is matched, not compared.
            # shellcheck disable=SC2053
            [[ $path != $pattern && $path != $pattern/* ]] || continue 2
        done
        echo "$path"
    done
}
check "every installed file belongs to a Debian package" eval '[ -z "$(without_package ci/debian)" ]'
check "no description of a Debian package has a line that lintian objects to" eval '[ -z "$(awk "length > 80" ci/debian/control)" ]'
cp -r ci/debian "$scratch/debian" && sed -i '/nightly/d' "$scratch/debian/weir.install"
check "a file without a Debian package is found" \
    eval 'without_package "$scratch/debian" | grep -qx usr/share/weir/nightly/nightly.sbatch'

# ------------------------------------------------------- the lists of recipes
# The libraries that ci/make/probe.mk asks pkg-config for and that a recipe does not name. $1: the file; $2: a pattern in
# which NAME is the library, without "lib" in front and digits at the end.
recipe_lacks() {
    local name
    for name in $(sed -n 's/.*(call pkg,\(.*[^)]\)))*$/\1/p' ci/make/probe.mk); do
        name=$(sed 's/^lib//; s/[0-9]*$//' <<<"$name")
        [ "$name" = cmocka ] || grep -qE -- "${2//NAME/$name}" "$1" || echo "$name"
    done
}
debian='^ +libNAME[0-9]*-dev|^ +NAME1g-dev' spack='depends_on..NAME["@-]' container='[ b]NAME(-?[0-9]|1g)'
check "Debian's packages are built with every library" test -z "$(recipe_lacks ci/debian/control "$debian")"
check "Spack's recipe has every library" test -z "$(recipe_lacks ci/spack/spack_repo/weir/packages/weir/package.py "$spack")"
check "the container has every library" test -z "$(recipe_lacks ci/Containerfile "$container")"
sed 's/libprotobuf-c[^ ]*//; /protobuf-c"/d' ci/debian/control >"$scratch/control"
sed '/zlib-api/d' ci/spack/spack_repo/weir/packages/weir/package.py >"$scratch/package.py"
sed 's/libsqlite3-0//' ci/Containerfile >"$scratch/Containerfile"
check "a library that a recipe lacks is found" test "$(recipe_lacks "$scratch/control" "$debian") $(recipe_lacks "$scratch/package.py" \
    "$spack") $(recipe_lacks "$scratch/Containerfile" "$container")" = "protobuf-c zlib sqlite"

# ----------------------------------------------------------------------- CMake
cmake_project() { # LIST OF LINES
    rm -rf "$scratch/cmake"
    mkdir "$scratch/cmake"
    cp "$scratch/program.c" "$scratch/cmake"
    printf '%s\n' 'cmake_minimum_required(VERSION 3.13)' 'project(client C)' "$@" \
        >"$scratch/cmake/CMakeLists.txt"
    cmake -S "$scratch/cmake" -B "$scratch/cmake/build" "${where:--DCMAKE_PREFIX_PATH=$prefix}"
}
if command -v cmake >/dev/null; then
    version=$(sed -n 's/^#define WEIR_VERSION "\(.*\)"/\1/p' lib/include/weir/weir.h)
    targets=(weir)
    [ -z "$(command -v mpicc)" ] || targets+=(weir_mpi)
    check "CMake: find_package(weir) finds the installed version" \
        ends_with 0 cmake_project "find_package(weir $version REQUIRED)" \
        'foreach(kind weir weir_static)' 'add_executable(by_${kind} program.c)' \
        'target_link_libraries(by_${kind} PRIVATE weir::${kind})' 'endforeach()' \
        'if(TARGET weir::weir_mpi)' 'file(WRITE ${CMAKE_BINARY_DIR}/mpi.c
            "#include <weir/mpi.h>\nint main(void) { return !weir_boot_mpi_create; }\n")' \
        'add_executable(by_weir_mpi ${CMAKE_BINARY_DIR}/mpi.c)' \
        'target_link_libraries(by_weir_mpi PRIVATE weir::weir_mpi)' 'endif()'
    check "CMake: programs build against the imported targets" \
        ends_with 0 cmake --build "$scratch/cmake/build" -j2
    for kind in "${targets[@]}" weir_static; do
        check "CMake: the program of weir::$kind runs" \
            ends_with 0 env -u LD_LIBRARY_PATH "$scratch/cmake/build/by_$kind"
    done
    where=-Dweir_DIR=$system/usr/lib/triplet/cmake/weir
    check "CMake: weir with another LIBDIR, in a tree that was moved, is found" \
        ends_with 0 cmake_project 'find_package(weir REQUIRED)' 'add_executable(moved program.c)' \
        'target_link_libraries(moved PRIVATE weir::weir)'
    check "CMake: a program builds against it" ends_with 0 cmake --build "$scratch/cmake/build"
    where=
    check "CMake: a newer version than the installed one is not found" \
        ends_with 1 cmake_project 'find_package(weir 99 REQUIRED)'
    check "CMake: a component that does not exist is not found" \
        ends_with 1 cmake_project 'find_package(weir REQUIRED COMPONENTS absent)'
    check "CMake: a missing component is named" grep -q "no component absent" "$err"
else
    skip "CMake finds weir" "no cmake"
fi

# ---------------------------------------------------------------------- guides
# The guides that the help of installed programs and the manual pages name and that are not installed.
absent_guides() {
    local program guide
    {
        for program in "$prefix"/bin/*; do [ "${program##*/}" = weir-mpirun ] || "$program" --help; done
        [ ! -d "$prefix/share/man" ] || sed 's/\\//g' "$prefix"/share/man/man?/*
    } | grep -oE '(docs|lib|results|bench|topo)/[a-zA-Z0-9_/-]+\.md' | sort -u | tee "$scratch/guides" |
        while read -r guide; do [ -s "$prefix/share/doc/weir/$guide" ] || echo "$guide"; done
}
check "every guide that --help and manual pages name is installed" \
    eval '[ -z "$(absent_guides)" ] && grep -qx docs/user/nightly.md "$scratch/guides"'
mv "$prefix/share/doc/weir/docs/user/nightly.md" "$scratch"
check "a guide that is not installed is found" eval '[ "$(absent_guides)" = docs/user/nightly.md ]'
mv "$scratch/nightly.md" "$prefix/share/doc/weir/docs/user"

doc=$prefix/share/doc/weir
if ! command -v python3 >/dev/null; then
    skip "links of installed guides" "no python3"
else
    check "no relative link of an installed guide is dead" ci/lint-text -C "$doc" links
    check "no relative link of a guide is dead with folders of a distribution" \
        ci/lint-text -C "$system/usr/share/doc/weir" links
    mv "$doc/docs/performance/moe.md" "$scratch"
    check "a dead link is found" eval 'ci/lint-text -C "$doc" links |
        grep -q "^docs/user/moe.md:[0-9]*: dead link: ../performance/moe.md#estimates-for-larger-fleets: there is no "'
    mv "$scratch/moe.md" "$doc/docs/performance"
fi
check "links between guides, with headings, stay" \
    grep -qF '](../performance/moe.md#estimates-for-larger-fleets)' "$doc/docs/user/moe.md"
check "links to public headers lead to the installed ones" \
    eval 'grep -qF "[\`<weir/moe.h>\`](../../../../../include/weir/moe.h)" "$doc/docs/user/moe.md" &&
    [ "$doc/docs/user/../../../../../include/weir/moe.h" -ef "$prefix/include/weir/moe.h" ]'
check "the picture of a guide is installed" test -s "$doc/lib/plan/examples/allreduce_ring.svg"
check "a link to sources becomes text that names them" \
    grep -qF 'how (`verify/tests/sim/host/README.md` in weir'"'"'s sources)' "$doc/docs/performance/host-collectives.md"

# relinked LINE: a line of docs/user/guide.md as it is installed, where only docs/user/other.md and a header are.
relinked() {
    printf '%s\n' docs/user/other.md lib/include/weir/weir.h >"$scratch/only"
    printf '%b\n' "$1" | awk -v path=docs/user/guide.md -v installed="$scratch/only" -v headers=/include/weir \
        -f ci/install-links.awk
}
check "links: of a broken line, beside one that stays" eval '[ "$(relinked "[a\nb](x.c), [c](other.md#d)")" = "$(printf "%b" \
    "a\nb (\`docs/user/x.c\` in weir'"'"'s sources), [c](other.md#d)")" ]'
check "links: text that is the path is not repeated" eval '[ "$(relinked "see [\`lib/x.c\`](../../lib/x.c).")" = "see \`lib/x.c\`." ]'
check "links: a picture that is not installed leaves its description" eval '[ "$(relinked "![a](b.svg)")" = a ]'
check "links: code, headings and addresses stay" eval 'line="\`f[i](x)\` [a](#b) [c](https://d/e)" && [ "$(relinked "$line")" = "$line" ]'
check "links: a folder without an installed README.md is text" eval '[ "$(relinked "[a](../../lib)")" = "a (\`lib\` in weir'"'"'s sources)" ]'
check "links: a header" eval '[ "$(relinked "[a](../../lib/include/weir/weir.h)")" = "[a](/include/weir/weir.h)" ]'
check "links: a header that is not installed" eval '[ "$(relinked "[\`lib/include/weir/mpi.h\`](../../lib/include/weir/mpi.h)")" = "\`lib/include/weir/mpi.h\`" ]'

# -------------------------------------------------------- the gate and mpirun
# Elsewhere, and with nothing of the checkout or the installed tree in PATH.
gate() { (cd "$scratch" && "$prefix/bin/weir-nightly" "$@"); }
matrix=$prefix/share/weir/nightly/matrix-host.ini
check "the installed gate prints the plan of the installed matrix" \
    ends_with 0 gate --dry-run --matrix "$matrix"
check "the plan's launcher is the installed one" says 'weir-mpirun -np 2 DIR/bench_allreduce'
check "the installed gate names itself in errors" eval 'ends_with 2 gate && one_line_says weir-nightly --matrix'
if [ -x "$prefix/bin/weir-compare" ]; then
    check "the installed gate prints its version" eval 'ends_with 0 gate --version && says "^weir-nightly: weir [0-9]"'
fi
check "the installed files name nothing of a checkout" \
    eval '! grep -rlE "ci/(nightly|mpirun|examples)" "$prefix/bin/weir-nightly" "$prefix/bin/weir-mpirun" "$prefix/share/weir"'
if [ -x "$prefix/bin/bench_allreduce" ] && [ -x "$prefix/bin/weir-compare" ] && command -v mpirun >/dev/null; then
    printf '%s\n' '[nightly]' 'rounds = 1' 'confirm = 1' 'launch = weir-mpirun -np {n}' \
        '[allreduce]' 'program = bench_allreduce' 'ranks = 2' 'options = -b 1K -e 1K -n 20' >"$scratch/one.ini"
    gate --matrix "$scratch/one.ini" --baseline "$prefix/bin" --candidate "$prefix/bin" \
        --store "$scratch/nights" >"$out" 2>"$err"
    code=$?
    check "the installed gate measures and judges" test $code -le 1
    check "the installed gate leaves results of both builds" \
        eval '[ "$(ls "$scratch"/nights/*/screen/[ab]/*.csv | wc -l)" -eq 2 ]'
    check "no run of the installed gate failed" eval '[ ! -s "$(echo "$scratch"/nights/*/failures)" ]'
else
    skip "the installed gate measures and judges" "no MPI, GSL or jansson (make deps)"
fi

# --------------------------------------------- manual pages, shell completion
if ! command -v python3 >/dev/null; then
    skip "manual pages and shell completion" "no python3"
else
    for page in man1/weir-nightly.1 man1/weir-plan.1 man3/weir_allreduce.3 man7/weir.7; do
        check "installed: share/man/$page" test -s "$prefix/share/man/$page"
    done
    completions=$prefix/share/bash-completion/completions
    # completed WORD...: what bash offers for the last word of a command line.
    completed() {
        bash -c '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
            _weir "$1"; printf "%s\n" "${COMPREPLY[@]}"' "${completion:-$completions/weir-topo}" "$@"
    }
    offers() { completed "${@:2}" | grep -qxF -- "$1"; }
    # Options in the --help of the programs that completion does not offer.
    not_offered() {
        local program
        for program in "$prefix"/bin/bench_* "$prefix"/bin/weir-*; do
            case $program in */weir-nightly | */weir-mpirun) continue ;; esac
            [ -e "$completions/${program##*/}" ] || echo "$program has no completion"
            "$program" --help | grep -oE '^ +(-[a-zA-Z], )?-[-a-z0-9_]+' | tr -s ', ' '\n' | grep . >"$scratch/options"
            bash -c '. "$0"; COMP_CWORD=1
                while read -r option; do
                    COMP_WORDS=("$1" "$option") COMPREPLY=()
                    _weir "$1"
                    for offer in "${COMPREPLY[@]}"; do [ "$offer" != "$option" ] || continue 2; done
                    echo "$1 $option"
                done' "${completion:-$completions/weir-topo}" "$program" <"$scratch/options"
        done
    }
    check "completion offers every option of every program" eval '[ -z "$(not_offered)" ]'
    check "completion offers the values of an option" \
        eval 'offers bfloat16 ./bench_allreduce -d bf && offers host bench_allreduce --backend ""'
    check "completion offers no value of another option" eval '! offers host bench_allreduce -d ""'
    check "completion offers the commands of weir-plan" offers check weir-plan ch
    check "completion works behind a launcher" \
        offers --csv weir-mpirun -np 8 ./bench_allreduce --cs
    check "completion offers files where no option is wanted" \
        eval '(cd "$scratch" && offers program.c weir-compare pro)'
    sed 's/ --csv / /' "$completions/weir-topo" >"$scratch/stale"
    check "an option that completion lacks is found" eval 'completion=$scratch/stale; not_offered | grep -q -- --csv'
    completion=
    if command -v zsh >/dev/null; then
        check "zsh accepts the completion" ends_with 0 zsh -n "$prefix/share/zsh/site-functions/_weir"
    else
        skip "zsh accepts the completion" "no zsh"
    fi
fi

# ------------------------------------------------------------------ uninstall
mkdir -p "$prefix/share/doc/weir" && touch "$prefix/share/doc/weir/mine" "$prefix/bin/other"
touch "$prefix/bin/weir-former" && echo "$prefix/bin/weir-former" >>"$prefix/share/weir/installed"
check "make install over an earlier version ends with 0" ends_with 0 make install PREFIX="$prefix"
check "a file that only the earlier version had is removed" test ! -e "$prefix/bin/weir-former"
check "make uninstall ends with 0" ends_with 0 make uninstall PREFIX="$prefix"
check "make uninstall leaves files of others, and nothing else" \
    eval '[ "$(find "$prefix" ! -type d | sort | tr "\n" " ")" = "$prefix/bin/other $prefix/share/doc/weir/mine " ]'
check "make uninstall removes weir's folders" \
    eval '[ ! -e "$prefix/include/weir" ] && [ ! -e "$prefix/share/weir" ] && [ ! -e "$libdir/weir" ]'
check "make uninstall leaves no folder that make install made and that is empty" \
    eval '[ -z "$(find "$prefix" -type d -empty)" ]'
check "make uninstall of the only installation removes PREFIX too, and nothing above it" \
    eval 'mkdir -p "$system/opt/other" && ends_with 0 make uninstall DESTDIR="$system" PREFIX=/usr LIBDIR=/usr/lib/triplet &&
    [ "$(ls "$system")" = opt ] && [ -d "$system/opt/other" ]'
check "make uninstall leaves an empty folder that was there before make install" \
    eval 'mkdir -p "$scratch/there/lib" && ends_with 0 make install PREFIX="$scratch/there" &&
    ends_with 0 make uninstall PREFIX="$scratch/there" && [ "$(ls "$scratch/there")" = lib ] && [ -z "$(ls "$scratch/there/lib")" ]'
check "make uninstall where nothing is installed is a usage error" \
    ends_with 2 make uninstall PREFIX="$prefix"
check "make uninstall where nothing is installed says where it looked" \
    grep -q "no $prefix/share/weir/installed" "$err"
tap_done
