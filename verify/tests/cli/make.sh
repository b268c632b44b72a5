#!/bin/bash
# The build system: make's targets, ci/deps (which installs missing packages; apt-get is simulated),
# the test runner, the launcher, and programs built against the installed library. Run from the
# repository's root.
set -u
. verify/tests/support/tap.sh

root=$PWD
# The tests of this folder's build keep to what was built.
CUDA=$(sed -n 's/^CUDA=//p' build/cuda.choice 2>/dev/null)
export CUDA=${CUDA:-0}

# ------------------------------------------------------- make help, make config
says() { grep -qE -- "$1" "$out"; }
silent() { [ ! -s "$out" ] && [ ! -s "$err" ]; }

check "make help ends with 0" ends_with 0 make help
for target in all run test lint config install plot clean; do
    check "make help lists $target" says "make $target +[a-zA-Z]"
done
check "make config ends with 0" ends_with 0 make config
for probe in compiler MPI hwloc expat cmocka GSL gnuplot verbs nvcc processor; do
    check "make config shows $probe" says "^  $probe +[^ ]"
done
check "make config without MPI ends with 0" ends_with 0 make config MPICC=absent MPIRUN=absent
check "make config without MPI names what is left out and the missing package" \
    says "WITHOUT tests of programs that are compiled for MPI: .*libopenmpi-dev"
check "make config without Expat ends with 0" ends_with 0 make config HAVE_EXPAT=
check "make config without Expat names what is left out and the missing package" \
    says "WITHOUT weir-topo and the benchmarks: no hwloc or no expat; .*libexpat1-dev"
probe_headers() {
    echo 'probe: ; @echo "[$(call header,weir_absent.h)] [$(call header,stdio.h)]"' >"$scratch/probe.mk"
    [ "$(make -s -f Makefile -f "$scratch/probe.mk" probe)" = "[] [yes]" ]
}
check "a header is found if it is there, and not if it is absent" probe_headers
check "an unknown BUILD is a usage error" ends_with 2 make BUILD=fast
check "an unknown BUILD is reported with the known ones" one_line_says "BUILD=fast" release
check ".ci/run runs make test, which the README names" \
    eval 'grep -q "^exec make test$" .ci/run && grep -q "^make test" README.md'

# --------------------------------------------------------- steps of a build
# objects FOLDER: a few objects of a build in the folder.
objects() {
    local name
    for name in base/types base/error base/json comm/comm coll/coll; do
        echo "$1/obj/lib/$name.o"
    done
}
other=$scratch/other
build_objects() { # the arguments go to make; the output is in $out
    # shellcheck disable=SC2046 # words
    env -u CUDA make "O=$other" "$@" $(objects "$other") >"$out" 2>"$err"
}
count=$(objects x | wc -l)
# Every step of a build prints a line "CC file". compiled N: N different sources were compiled, each once.
compiled() { [ "$(grep -c '^CC lib/' "$out")" = "$1" ] && [ "$(grep '^CC lib/' "$out" | sort -u | wc -l)" = "$1" ]; }
nothing_built() { ! grep -qE '^[A-Z]+ [^ ]+$' "$out"; }
check "a parallel build ends with 0" build_objects -j4 CUDA=0
check "it prints a line for each step" compiled "$count"
check "nothing is built again" eval 'build_objects CUDA=0 && nothing_built'
touch -d '1 hour ago' "$other"/obj/lib/comm/comm.o
check "one file that changed is one step" eval 'build_objects CUDA=0 && compiled 1'
check "V=1 shows commands in place of steps" \
    eval 'rm "$other"/obj/lib/comm/comm.o && build_objects CUDA=0 V=1 && says " -c -o .*comm.o" && ! says "^CC "'
check "make -n prints commands and builds nothing" \
    eval 'rm "$other"/obj/lib/comm/comm.o && build_objects CUDA=0 -n && says "comm.o" &&
        [ ! -e "$other"/obj/lib/comm/comm.o ] && build_objects CUDA=0'
# A build with CUDA is one that found nvcc; none of these objects needs it.
check "a build with CUDA uses the same objects" \
    eval 'build_objects CUDA=1 NVCC=/bin/true && nothing_built'
check "the next build without CUDA builds nothing again" eval 'build_objects CUDA=0 && nothing_built'
for target in config help plot; do
    make -n "O=$other" $target >/dev/null 2>&1 # stamps of flags are written with -n, too
    check "make $target leads to no compilation" eval 'build_objects CUDA=0 && nothing_built'
done
check "other flags compile again" eval 'build_objects CUDA=0 CFLAGS="-O1 -DTEST='"'1'"'" && compiled "$count"'
# relinks ARCHIVE: whether make would build it again after one of its sources was removed.
relinks() {
    make -s "O=$other" CUDA=0 "$other/$1" >"$out" 2>"$err" &&
        make -n "O=$other" CUDA=0 "LIB_OBJ=${*:2}" "KIT_OBJ=${*:2}" "$other/$1" >"$out" 2>"$err" && grep -q "ar rcs .*$1" "$out"
}
check "an archive loses the object of a removed source" relinks programs.a "$other/obj/lib/programs/numbers.o"
# What ranks compare before they form a communicator. library_id FOLDER ARGUMENTS: that of a build.
library_id() { env -u CUDA make -s "O=$1" "${@:2}" "$1/library.id" >"$out" 2>"$err" && cat "$1/library.id"; }
sources_id=$(library_id "$other" CUDA=0)
check "builds have an identity of 16 digits" eval '[[ $sources_id =~ ^[0-9a-f]{16}$ ]]'
check "builds with CUDA, for debugging and with other options have the same identity" \
    eval '[ "$(library_id "$scratch/cuda" CUDA=1 NVCC=/bin/true)" = "$sources_id" ] &&
        [ "$(library_id "$scratch/debug" CUDA=0 BUILD=debug CFLAGS="-O1 -DTEST")" = "$sources_id" ]'
check "options that change layouts change the identity" \
    eval '[ "$(library_id "$scratch/packed" CUDA=0 CFLAGS=-fpack-struct=4)" != "$sources_id" ]'
copy=$scratch/copy
mkdir -p "$copy" && cp -r Makefile ci lib bench verify topo results "$copy/"
last=$sources_id
changes_id() { # FILE: whether one more line in it, in a copy of the tree, changes the identity
    local before=$last
    echo >>"$copy/$1"
    # In the same tick of the clock as the identity the file would not be newer.
    until [ "$copy/$1" -nt "$scratch/copied/library.id" ]; do touch "$copy/$1"; done
    last=$(cd "$copy" && library_id "$scratch/copied" CUDA=0) && [ "$last" != "$before" ]
}
for file in lib/comm/comm.h lib/coll/cuda/device/chain.cuh lib/nccl/calls/group.c lib/include/weir/weir.h; do
    check "a change of $file changes the identity" changes_id "$file"
done
check "a change of a program's source does not" eval '! changes_id lib/programs/options.c && [ -n "$last" ]'
aware=$(make --no-print-directory --eval='weir-aware:;@echo $(CUDA_AWARE)' weir-aware)
is_aware() { # as make's filter matches
    local pattern
    for pattern in $aware; do
        # shellcheck disable=SC2053 # these are patterns
        [[ $1 == ${pattern/\%/*} ]] && return 0
    done
    return 1
}
for file in $(grep -rlE --include='*.[ch]' 'ifn?def WEIR_HAVE_CUDA|if.*defined.WEIR_HAVE_CUDA|if WEIR_HAVE_CUDA' lib bench topo verify results); do
    check "$file, which asks for WEIR_HAVE_CUDA, has an object for each answer" is_aware "$file"
done

# ---------------------------------------------------------- make run, make test
choice() { ci/cuda-choice run "$scratch/folder" "$@"; }
chosen() { [ "$(cat "$out")" = "CUDA=$1" ]; }
mkdir -p "$scratch/folder"
check "run: without a GPU kernels are left out" eval 'ends_with 0 choice /bin/nvcc "" && chosen 0'
check "run: says so in one line, with where it is remembered and how to change it" \
    one_line_says "no GPU found" cuda.choice "make run CUDA=1"
check "run: with a GPU kernels are built" eval 'ends_with 0 choice /bin/nvcc "" /dev/nvidia0 && chosen 1 && [ ! -s "$err" ]'
check "run: an explicit CUDA=1 wins" eval 'ends_with 0 choice /bin/nvcc 1 && chosen 1 && [ ! -s "$err" ]'
check "run: an explicit CUDA=0 wins" eval 'ends_with 0 choice /bin/nvcc 0 /dev/nvidia0 && chosen 0'
check "run: without nvcc and GPU nothing is said" eval 'ends_with 0 choice "" "" && chosen 0 && [ ! -s "$err" ]'
check "run: a GPU without nvcc is reported with the remedy" \
    eval 'ends_with 0 choice "" "" /dev/nvidia0 && chosen 0 && one_line_says "no nvcc" NVCC='
echo CUDA=0 >"$scratch/folder/cuda.choice"
check "run: a choice is remembered" eval 'ends_with 0 choice /bin/nvcc "" /dev/nvidia0 && chosen 0'
check "run: a remembered choice is reported with how to change it" \
    one_line_says "as in the last build" cuda.choice "make run CUDA=1"
echo CUDA=1 >"$scratch/folder/cuda.choice"
check "run: kernels that were built are kept" eval 'ends_with 0 choice /bin/nvcc "" && chosen 1 && [ ! -s "$err" ]'
check "a build remembers its choice" eval 'build_objects CUDA=1 NVCC=/bin/true && grep -qx CUDA=1 "$other/cuda.choice" &&
    build_objects CUDA=0 && grep -qx CUDA=0 "$other/cuda.choice"'
variable() { # NAME, arguments of make: the value with which make would build
    env -u CUDA make -np "O=$other" NVCC=/bin/true "${@:2}" 2>"$err" | sed -n "s/^$1 := *//p"
}
forecast_install() { # the choice of `make install` after a build with CUDA=$1, given the other arguments
    build_objects "CUDA=$1" NVCC=/bin/true && variable HAVE_CUDA install "${@:2}" | sed 's/^$/0/'
}
check "make install keeps the choice of the last build" \
    eval '[ "$(forecast_install 0)" = 0 ] && [ "$(forecast_install 1)" = 1 ]'
forecast_other() { # the choice of `make GOAL`, after a build with CUDA=$1
    build_objects "CUDA=$1" NVCC=/bin/true && variable HAVE_CUDA "$2" | sed 's/^$/0/'
}
for goal in man uninstall lib; do
    check "make $goal keeps the choice of the last build" \
        eval '[ "$(forecast_other 0 $goal)" = 0 ] && [ "$(forecast_other 1 $goal)" = 1 ]'
done
check "make man and make uninstall choose nothing" \
    eval '[ -z "$(variable CHOOSES man)$(variable CHOOSES uninstall)" ] && [ "$(variable CHOOSES lib)" = lib ]'
keeps_choice() { # arguments of make: they leave the choice of the last build
    build_objects CUDA=0 || return 1
    env -u CUDA make "O=$other" NVCC=/bin/true "$@" >"$out" 2>"$err"
    grep -qx CUDA=0 "$other/cuda.choice"
}
check "a dry run leaves the choice of the last build" keeps_choice -n all
check "a goal that does not exist leaves the choice of the last build" keeps_choice no-such-goal
check "make install CUDA=... changes it" \
    eval '[ "$(forecast_install 0 CUDA=1)" = 1 ] && [ "$(forecast_install 1 CUDA=0)" = 0 ]'
kernels() { ci/cuda-choice test "$scratch/folder" /bin/nvcc "$@"; }
compiles() { [ "$(cat "$out")" = "KERNELS=$1" ]; }
check "test: without a GPU few kernels are compiled" eval 'ends_with 0 kernels "" && compiles few'
check "test: says so in one line, with what compiles all" one_line_says "no GPU found" "make compiles all"
check "test: with a GPU all kernels are compiled" eval 'ends_with 0 kernels "" /dev/nvidia0 && compiles all && [ ! -s "$err" ]'
check "test: an explicit KERNELS=few wins" eval 'ends_with 0 kernels few /dev/nvidia0 && compiles few && [ ! -s "$err" ]'
check "test: an explicit KERNELS=all wins" eval 'ends_with 0 kernels all && compiles all && [ ! -s "$err" ]'
echo KERNELS=few >"$scratch/folder/kernels.choice"
check "test: few kernels stay few" eval 'ends_with 0 kernels "" && compiles few'
echo KERNELS=all >"$scratch/folder/kernels.choice"
check "test: all kernels that were compiled are kept" eval 'ends_with 0 kernels "" && compiles all && [ ! -s "$err" ]'
# Prints which kernels a plain make compiles after a build that left KERNELS=$1.
# shellcheck disable=SC2016 # a variable of make
kernels_after() {
    mkdir -p "$other" && echo "KERNELS=$1" >"$other/kernels.choice"
    env -u CUDA -u KERNELS make --no-print-directory "O=$other" CUDA=1 NVCC=/bin/true \
        --eval='show:;@echo $(KERNELS)' show 2>"$err"
}
check "make compiles all kernels after a test that compiled few" \
    eval '[ "$(kernels_after few)" = all ] && [ "$(kernels_after all)" = all ]'
# Prints which kernels `make check` compiles after the same.
kept_by_check() { # $2: the files of GPUs
    mkdir -p "$other" && echo "KERNELS=$1" >"$other/kernels.choice"
    env -u CUDA -u KERNELS make -n --no-print-directory "O=$other" CUDA=1 NVCC=/bin/true "GPU_DEVICES=$2" \
        --eval='show:;@echo $(KERNELS)' show check T=none 2>"$err" | sed -n 's/^echo \(few\|all\)$/\1/p'
}
check "make check keeps few kernels, but not where there is a GPU" \
    eval '[ "$(kept_by_check few "")" = few ] && [ "$(kept_by_check few /dev/nvidia0)" = all ]'
# ------------------------------------------------------------------------- SM=
# Fake tools: an nvcc that knows the architectures $1, and an nvidia-smi that answers with $2.
gpu_tools() {
    mkdir -p "$scratch/tools"
    printf '#!/bin/sh\nprintf "sm_%%s\\n" %s\n' "$1" >"$scratch/tools/nvcc"
    printf '#!/bin/sh\nprintf "%s"\n' "$2" >"$scratch/tools/nvidia-smi"
    chmod +x "$scratch/tools/nvcc" "$scratch/tools/nvidia-smi"
}
# Prints SM of make with these tools and arguments.
# shellcheck disable=SC2016 # a variable of make
sm_of() {
    env -u CUDA -u KERNELS -u SM -u TEST_LONG PATH="$scratch/tools:$PATH" make --no-print-directory "O=$other" CUDA=1 \
        NVCC="$scratch/tools/nvcc" GPU_DEVICES= "$@" '--eval=show:;@echo $(SM)' show 2>"$err"
}
rm -f "$other"/*.choice
gpu_tools "80 90 100 120" '9.0\n8.9\n9.0\n'
check "SM: that of the machine's GPUs, each once" eval '[ "$(sm_of GPU_DEVICES=/dev/nvidia0)" = "89 90" ]'
check "SM: without a GPU three architectures" eval '[ "$(sm_of)" = "80 90 100" ]'
gpu_tools "80 90" 'No devices were found\n'
check "SM: an older nvcc compiles for those that it knows" eval '[ "$(sm_of)" = "80 90" ]'
check "SM: a GPU whose driver does not answer counts as none" eval '[ "$(sm_of GPU_DEVICES=/dev/nvidia0)" = "80 90" ]'
check "SM: kernels that never run are compiled for one architecture" \
    eval '[ "$(sm_of KERNELS=few)" = 90 ] && [ "$(sm_of TEST_LONG=1)" = 90 ]'
check "SM: the user's choice wins" eval '[ "$(sm_of SM=75)" = 75 ]'
# shellcheck disable=SC2016
check "SM: make install and make check keep that of the last build" eval 'echo 75 >"$other/sm.choice" &&
    [ "$(variable SM install CUDA=1 GPU_DEVICES=)" = 75 ] && [ "$(variable SM check CUDA=1 GPU_DEVICES=)" = 75 ] && [ "$(variable SM all CUDA=1 GPU_DEVICES=)" != 75 ]'
rm -f "$other/sm.choice"

# Prints how kernels are compiled by an nvcc that knows fast compilation.
printf '#!/bin/sh\necho --Ofast-compile\n' >"$scratch/nvcc" && chmod +x "$scratch/nvcc"
nvcc_flags() {
    # shellcheck disable=SC2016 # a variable of make
    env -u CUDA make --no-print-directory "O=$other" CUDA=1 NVCC="$scratch/nvcc" "KERNELS=$1" '--eval=show:;@echo $(NVCC_FLAGS)' show 2>"$err"
}
check "only kernels that never run are compiled without optimization" \
    eval '[[ $(nvcc_flags few) == *" -O0 "* && $(nvcc_flags all) == *" -O3 "* && $(nvcc_flags all) != *fast* && $(nvcc_flags all) != *Ofc* ]]'
check "another number of kernels is refused" \
    eval 'ends_with 2 make "O=$other" KERNELS=most config && one_line_says "expected all or few"'
forecast() { make --no-print-directory -n test T="$1" 2>/dev/null | head -n 1 >"$out"; }
check "make test says first how many test files it runs" \
    eval 'forecast "" && says "make test: installs.*up to [1-9][0-9]+ test files.*minutes.*make check T=word"'
check "make test counts the files that T= selects" \
    eval 'forecast no_traces && says "up to 1 test files? with .no_traces. in"'

# ------------------------------------------------------------------- ci/deps
# fake_path: fills $bin, a folder used as PATH, with this machine's commands and simulated ones.
fake_path() {
    local name
    bin=$scratch/path
    rm -rf "$bin"
    mkdir "$bin"
    for name in sh cc g++ make pkg-config mpicc mpirun gnuplot protoc-c codespell clang-format-14 sed mktemp rm tail env dash bash; do
        ln -s "$(command -v $name || command -v true)" "$bin/$name" # not every system has clang-format 14
    done
    stub id 'echo 0'
    # The simulated apt-get records its arguments and "installs" gnuplot.
    stub apt-get "echo \"\$*\" >>'$scratch/apt'
        case \$* in *install*gnuplot-nox*) PATH=$PATH ln -s /bin/true '$bin/gnuplot' ;; esac"
    rm -f "$scratch/apt"
}
stub() {
    rm -f "$bin/$1"
    printf '#!/bin/sh\n%s\n' "$2" >"$bin/$1"
    chmod +x "$bin/$1"
}
deps() { env -i PATH="$bin" HOME="$scratch" ci/deps "$@"; }
apt_got() { grep -qE -- "$1" "$scratch/apt"; }

complete=yes
for name in cc g++ make pkg-config mpicc mpirun gnuplot protoc-c codespell; do
    command -v $name >/dev/null || complete=$name
done
if [ $complete = yes ] && pkg-config --exists hwloc expat cmocka gsl jansson sqlite3; then
    fake_path
    check "deps: ends with 0 if nothing is missing" ends_with 0 deps
    check "deps: prints nothing if nothing is missing" silent
    check "deps: does not call apt-get if nothing is missing" test ! -e "$scratch/apt"

    fake_path && rm "$bin/gnuplot"
    check "deps: installs a missing gnuplot" ends_with 0 deps
    check "deps: reports in one line what it installs" one_line_says installing gnuplot-nox
    check "deps: updates the package lists" apt_got '(^| )update$'
    check "deps: calls apt-get install for the missing package" apt_got 'install .*gnuplot-nox'
    check "deps: installs no package that is present" \
        eval '! apt_got "openmpi|cmocka|hwloc|expat|gsl|jansson|sqlite|gcc"'
    check "deps: a second call ends with 0" ends_with 0 deps
    check "deps: a second call prints nothing" silent

    fake_path && rm "$bin/gnuplot"
    check "deps: a benchmark needs no gnuplot" eval 'ends_with 0 deps run && silent && [ ! -e "$scratch/apt" ]'
    check "deps: an unknown argument is a usage error" eval 'ends_with 2 deps all-of-it && one_line_says "ci/deps [run]"'

    fake_path && rm "$bin/clang-format-14"
    check "deps: clang-format alone is not installed" eval 'ends_with 0 deps && silent && [ ! -e "$scratch/apt" ]'
    fake_path && rm "$bin/gnuplot" "$bin/clang-format-14" && stub apt-cache 'exit 0'
    check "deps: clang-format is installed with other packages" \
        eval 'ends_with 0 deps && apt_got "install gnuplot-nox clang-format-14"'
    fake_path && rm "$bin/gnuplot" "$bin/clang-format-14" && stub apt-cache 'exit 100'
    check "deps: a release of clang-format that the system does not have is left out" \
        eval 'ends_with 0 deps && ! apt_got clang-format'

    fake_path && rm "$bin/gnuplot" && stub id 'echo 1000'
    check "deps: without root and sudo ends with 3" ends_with 3 deps
    check "deps: without root and sudo prints the command for root" \
        one_line_says gnuplot-nox "apt-get install -y"
    # shellcheck disable=SC2016 # expanded by the stub
    stub sudo 'echo "$*" >>'"$scratch"'/sudo; [ "$1" != -n ] || shift; exec "$@"'
    check "deps: installs through sudo" ends_with 0 deps
    check "deps: calls sudo so that it never asks for a password without a terminal" \
        grep -q '^-n env' "$scratch/sudo"

    fake_path && rm "$bin/gnuplot" "$bin/apt-get"
    check "deps: without apt-get ends with 3" ends_with 3 deps
    check "deps: without apt-get names the packages" one_line_says gnuplot-nox "package manager"

    fake_path && rm "$bin/gnuplot" && stub apt-get 'echo E: no route >&2; exit 100'
    check "deps: a failing apt-get ends with 3" ends_with 3 deps
    check "deps: a failing apt-get is reported with its error and the command" \
        eval 'grep -q "no route" "$err" && grep -q "apt-get install -y gnuplot-nox" "$err"'

    fake_path && rm "$bin/gnuplot" && stub apt-get 'exit 0'
    check "deps: apt-get that installs nothing ends with 3" ends_with 3 deps
    check "deps: names the package that is still missing after apt-get" \
        grep -q "still missing.*gnuplot-nox" "$err"

    fake_path && rm "$bin/mpicc" "$bin/mpirun" && stub apt-get "echo \"\$*\" >>'$scratch/apt'; exit 1"
    check "deps: without MPI and with a failing apt-get ends with 3" ends_with 3 deps
    check "deps: without MPI installs Open MPI's packages" \
        apt_got 'install .*libopenmpi-dev openmpi-bin'
else
    skip "deps" "this machine lacks a dependency itself (make deps)"
fi

# ---------------------------------------------------------------- verify/tests/run
test_file() {
    printf '#!/bin/sh\n%s\n' "$2" >"$scratch/$1"
    chmod +x "$scratch/$1"
}
last_line_is() { [ "$(tail -n 1 "$out")" = "$1" ]; }
runner() { verify/tests/run -l "${limit:-20}" "$@"; }

test_file good.sh 'echo 1..2; echo ok 1 - a; echo "ok 2 - b # SKIP no such device"'
check "runner: passed and skipped tests end with 0" ends_with 0 runner "$scratch/good.sh"
check "runner: counts passed and skipped tests" last_line_is "1 passed, 0 failed, 1 skipped"
check "runner: a skip is shown with its reason" says "# SKIP no such device"
test_file parts.sh '. verify/tests/support/tap.sh; if long_part "slow sums"; then check b true; fi; check a true; tap_done'
check "runner: a short run lists what a test leaves out, and counts it" \
    eval 'ends_with 0 env -u TEST_LONG verify/tests/run "$scratch/parts.sh" && says "^  # left out: slow sums$" &&
        says "left out of this short run.*: 1 part; make test-long" && last_line_is "1 passed, 0 failed, 0 skipped"'
check "runner: TEST_LONG=1 leaves nothing out" \
    eval 'ends_with 0 env TEST_LONG=1 verify/tests/run "$scratch/parts.sh" && ! says "left out" &&
        last_line_is "2 passed, 0 failed, 0 skipped"'
check "make test-long and make check TEST_LONG=1 are long runs, make test is not" \
    eval 'make -n test-long T=none 2>"$err" | grep -q "TEST_LONG=.1. " &&
        make -n check T=none TEST_LONG=1 2>"$err" | grep -q "TEST_LONG=.1. " && ! make -n test T=none 2>"$err" | grep -qE "TEST_LONG=.?1"'
test_file bad.sh 'echo 1..1; echo not ok 1 - sum is wrong; echo "# got 4"; echo because >&2; exit 1'
check "runner: a failing test ends with 1" ends_with 1 runner "$scratch/good.sh" "$scratch/bad.sh"
check "runner: counts a failing test once" last_line_is "1 passed, 1 failed, 1 skipped"
check "runner: shows the failing line, its notes and standard error" \
    eval 'says "not ok 1 - sum is wrong" && says "# got 4" && says "because"'
if command -v script >/dev/null; then
    check "runner: failures are red on a terminal, unless NO_COLOR is set" eval '
        ! TERM=xterm NO_COLOR="" script -qec "verify/tests/run $scratch/bad.sh" "$scratch/typed" >/dev/null &&
        grep -q "$(printf "\033\\[31m1 FAILED")" "$scratch/typed" &&
        ! TERM=xterm NO_COLOR=1 script -qec "verify/tests/run $scratch/bad.sh" "$scratch/typed" >/dev/null &&
        ! grep -q "$(printf "\033")" "$scratch/typed"'
fi
# shellcheck disable=SC2016 # $$ is the test's
test_file crash.sh 'echo 1..2; echo ok 1 - a; kill -SEGV $$'
check "runner: a crash fails" ends_with 1 runner "$scratch/crash.sh"
check "runner: a crash is reported with the signal" says "ended by signal 11"
test_file silent.sh 'exit 0'
check "runner: a missing plan fails" ends_with 1 runner "$scratch/silent.sh"
test_file short.sh 'echo 1..3; echo ok 1 - a'
check "runner: fewer tests than planned fail" ends_with 1 runner "$scratch/short.sh"
test_file status.sh 'echo 1..1; echo ok 1 - a; exit 7'
check "runner: a status without a failing test fails" ends_with 1 runner "$scratch/status.sh"
test_file hang.sh "sleep 300 & echo \$! >$scratch/left; echo 1..1; sleep 300"
limit=1
check "runner: a hang is stopped" ends_with 1 runner "$scratch/hang.sh"
limit=
check "runner: a hang is reported with the time limit" says "limit of 1 s"
# gone PID: the process has ended; a zombie counts as ended.
gone() { ! grep -q '^State:[^Z]*$' "/proc/$1/status" 2>/dev/null; }
check "runner: kills the background processes of a test that hangs" \
    eval 'gone "$(cat "$scratch/left")"'
# Each of the two tests passes only if the other one runs at the same time.
for pair in "one two" "two one"; do
    test_file "${pair% *}.sh" "touch $scratch/${pair% *}.runs; for i in \$(seq 100); do
[ -e $scratch/${pair#* }.runs ] && echo 1..1 && echo ok && exit; sleep 0.1; done; exit 1"
done
check "runner: -b runs files at the same time as others" \
    ends_with 0 runner -b "no* tw?.sh" "$scratch/good.sh" \
    "$scratch/one.sh" "$scratch/two.sh"
check "runner: counts the tests of files run by -b" last_line_is "3 passed, 0 failed, 1 skipped"
check "runner: a failure in a file run by -b ends with 1" \
    ends_with 1 runner -b "bad.sh" "$scratch/good.sh" "$scratch/bad.sh"
check "runner: a file that fails again alone has failed" last_line_is "1 passed, 1 failed, 1 skipped"
test_file late.sh "echo 1..1; [ -e $scratch/late.ran ] && echo ok 1 && exit; touch $scratch/late.ran; echo not ok 1 - late; exit 1"
check "runner: a file that fails only next to others counts as passed, and a note names it" \
    eval 'ends_with 0 runner -b "good.sh" "$scratch/good.sh" "$scratch/late.sh" && says "not ok 1 - late" &&
        says "^# note: these files failed .*alone: late.sh$" && last_line_is "2 passed, 0 failed, 1 skipped"'
rm "$scratch/late.ran"
check "runner: without -b nothing runs again" ends_with 1 runner "$scratch/good.sh" "$scratch/late.sh"
# shellcheck disable=SC2016 # the test's
test_file nice.sh 'echo 1..1
    { chrt --pid $$ | grep -q IDLE || [ "$(nice)" = 19 ]; } && echo ok || echo not ok'
check "runner: -n runs files at idle priority" ends_with 0 runner -b "tw?.sh" -n "nice.sh" \
    "$scratch/one.sh" "$scratch/two.sh" "$scratch/nice.sh"
check "runner: counts the tests of files run by -n" last_line_is "3 passed, 0 failed, 0 skipped"
check "runner: a file that -n does not match runs at normal priority" \
    ends_with 1 runner -n "other.sh" "$scratch/nice.sh"
check "runner: a failure in a file run by -n ends with 1" \
    ends_with 1 runner -n "bad.sh" "$scratch/good.sh" \
    "$scratch/bad.sh"
check "runner: -t runs only matching files" \
    ends_with 0 runner -t good "$scratch/good.sh" "$scratch/bad.sh"
check "runner: -t that matches nothing ends with 1" ends_with 1 runner -t none "$scratch/good.sh"
check "runner: no file at all ends with 1" ends_with 1 runner
check "runner: no file at all is counted as 0 tests" last_line_is "0 passed, 0 failed, 0 skipped"
check "runner: an unknown option is a usage error" ends_with 2 runner -x

# ----------------------------------------------------------------- ci/mpirun
if command -v mpirun >/dev/null; then
    check "ci/mpirun: starts more ranks than there are cores" \
        ends_with 0 ci/mpirun -np $(($(nproc) + 2)) echo here
    check "ci/mpirun: every one of these ranks runs" \
        test "$(grep -c here "$out")" -eq $(($(nproc) + 2))
    check "ci/mpirun: returns the program's exit code" ends_with 4 ci/mpirun -np 1 sh -c 'exit 4'
else
    skip "mpirun" "no MPI (make deps)"
fi
mkdir "$scratch/openmpi"
for name in mpirun prterun; do
    printf '#!/bin/sh\n[ "$1" = --version ] && echo "mpirun (Open MPI) $RELEASE" || echo "%s $*"\n' $name >"$scratch/openmpi/$name"
    chmod +x "$scratch/openmpi/$name"
done
launched_by() { RELEASE=$1 MPIRUN=$scratch/openmpi/mpirun ci/mpirun -n 1 a "${@:2}" | grep -o '^[a-z]*'; }
check "ci/mpirun: prterun starts several programs of Open MPI 5.0.7" \
    eval '[ "$(launched_by 5.0.7 : -n 1 b)" = prterun ] && [ "$(launched_by 5.0.7 b:)" = mpirun ] &&
        [ "$(launched_by 5.0.10 : -n 1 b)" = mpirun ]'
check "ci/mpirun: a missing launcher ends with 3" \
    ends_with 3 env MPIRUN=/absent/mpirun ci/mpirun -np 2 true
check "ci/mpirun: a missing launcher is reported with the remedy" \
    one_line_says /absent/mpirun MPIRUN ci/deps

# -------------------------------------------------------------- make install
stage=$scratch/stage
prefix=/opt/weir
check "make install ends with 0" ends_with 0 make install DESTDIR="$stage" PREFIX=$prefix
installed=$stage$prefix
for path in include/weir/weir.h include/weir/device.h include/weir/port_device.h \
    include/weir/target.h \
    lib/libweir.a lib/libweir.so lib/libweir_nccl.so lib/pkgconfig/weir.pc; do
    check "installed: $path" test -e "$installed/$path"
done
check "installed: the soname is a link to the versioned file" \
    eval '[ -L "$installed/lib/libweir.so.0" ] && [ -f "$(readlink -f "$installed/lib/libweir.so.0")" ]'
check "installed: NCCL's name is a link to libweir_nccl.so" \
    eval '[ "$(readlink -f "$installed/lib/weir/compat/libnccl.so.2")" = \
        "$(readlink -f "$installed/lib/libweir_nccl.so")" ]'
check "installed: NCCL's name is not in the library path" \
    eval '[ ! -e "$installed/lib/libnccl.so.2" ] && [ ! -e "$installed/lib/libnccl.so" ]'
exported() { nm -D --defined-only "$installed/lib/$1" | awk '{ print $NF }'; }
check "libweir.so exports the public functions" eval 'exported libweir.so | grep -qx weir_comm_create'
check "libweir.so exports nothing else" eval '! exported libweir.so | grep -qv "^weir_"'
check "all global names of libweir.a begin with weir_ or weiri_" \
    eval '! nm -g --defined-only "$installed/lib/libweir.a" 2>/dev/null |
        awk "NF == 3 { print \$3 }" | grep -v __device_stub__ | grep -q -v "^weiri\?_"'
check "libweir_nccl.so exports NCCL's functions" eval 'exported libweir_nccl.so | grep -qx ncclAllReduce'
check "libweir_nccl.so exports no function of weir" \
    eval '! exported libweir_nccl.so | grep -q "^weir"'
check "installed: no file contains the path of the staging folder" \
    eval '! grep -rqI "$stage" "$installed"'

# header_alone LANGUAGE STANDARD HEADER: compiles a file that only includes the header, without
# language extensions and without MPI's C++ classes.
header_alone() {
    local compiler=cc
    [[ $3 != */mpi.h ]] || compiler=mpicc
    echo "#include <$3>" | $compiler -x "$1" "-std=$2" -Wall -Wextra -Werror -fsyntax-only \
        -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -I"$installed/include" -
}
headers=$(cd "$installed/include" && echo weir/*.h)
for path in $headers; do
    check "<$path> alone compiles as C11" ends_with 0 header_alone c c11 "$path"
    if command -v g++ >/dev/null; then
        check "<$path> alone compiles as C++11" ends_with 0 header_alone c++ c++11 "$path"
    fi
done
# A kernel that uses the macros of kernel.h.
cat >"$scratch/kernel.c" <<'C'
#include <weir/kernel.h>

WEIR_KERNEL(copy, weir_kernel_args, args)
{
    if (args.in_bytes != args.out_bytes)
        weir_kernel_fail(&args.guard, WEIR_ERR_INVALID);
    memcpy(args.out, args.in, weir_tid() + weir_clock_ns() % 2);
}
C
compile_kernel() { cc -x "$1" "-std=$2" -Wall -Wextra -Werror -c -o "$scratch/kernel.o" \
    -I"$installed/include" "$scratch/kernel.c"; }
check "a kernel that includes <weir/kernel.h> compiles as C11" ends_with 0 compile_kernel c c11
if command -v g++ >/dev/null; then
    check "a kernel that includes <weir/kernel.h> compiles as C++11" \
        ends_with 0 compile_kernel c++ c++11
fi

cat >"$scratch/program.c" <<'C'
#include <weir/weir.h>
#include <weir/device.h>
#include <weir/port_device.h>

#include <stdio.h>

int main(void)
{
    printf("%s %zu\n", weir_version_string(), weir_dtype_bytes(WEIR_DOUBLE));
    return 0;
}
C
# nccl_program: links a program with the compatibility link libnccl.so.2.
nccl_program() {
    echo 'int ncclGetVersion(int *version);
        int main(void)
        {
            int version = 0;
            return ncclGetVersion(&version) != 0 || version < 20000;
        }' >"$scratch/nccl.c"
    cc -o "$scratch/nccl" "$scratch/nccl.c" -L"$installed/lib/weir/compat" -lnccl
}
check "a program links with -lnccl against the compatibility link" ends_with 0 nccl_program
check "a program linked with -lnccl needs libnccl.so.2" \
    eval 'readelf -d "$scratch/nccl" | grep -q "libnccl.so.2"'
check "a program linked with -lnccl runs" \
    ends_with 0 env LD_LIBRARY_PATH="$installed/lib/weir/compat" "$scratch/nccl"

flags_of() {
    PKG_CONFIG_PATH=$installed/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$stage pkg-config "$@"
}
# The output of pkg-config is split into words.
# shellcheck disable=SC2046
compile_shared() {
    cc -Wall -Wextra -Werror -o "$scratch/shared" "$scratch/program.c" $(flags_of --cflags --libs weir)
}
# shellcheck disable=SC2046
compile_static() {
    cc -o "$scratch/static" "$scratch/program.c" $(flags_of --cflags weir) \
        "$installed/lib/libweir.a" -pthread -lm -ldl -lrt
}
check "a program compiles against the installed shared library" ends_with 0 compile_shared
check "a program linked with libweir.so runs" \
    ends_with 0 env LD_LIBRARY_PATH="$installed/lib" "$scratch/shared"
check "a program linked with libweir.so prints the version that weir.pc names" \
    says "^weir $(flags_of --modversion weir) .* 8$"
check "a program linked with libweir.so needs libweir.so.0" \
    eval 'readelf -d "$scratch/shared" | grep -q "libweir.so.0"'
check "a program links with libweir.a" ends_with 0 compile_static
check "a program linked with libweir.a runs" ends_with 0 "$scratch/static"
mpi_program() {
    echo '#include <weir/mpi.h>
        #include <weir/plan.h>
        int main(void)
        {
            return !weir_boot_mpi_create || !weir_comm_create || !weir_plan_read;
        }' >"$scratch/mpi.c"
    # shellcheck disable=SC2046
    mpicc -o "$scratch/mpi" "$scratch/mpi.c" $(flags_of --cflags --libs weir-mpi)
}
if command -v mpicc >/dev/null; then
    check "a program with the MPI bootstrap compiles by weir-mpi.pc" ends_with 0 mpi_program
    check "a program with the MPI bootstrap needs no shared library of weir" \
        eval '! readelf -d "$scratch/mpi" | grep -q libweir'
else
    skip "a program with the MPI bootstrap compiles by weir-mpi.pc" "no MPI (make deps)"
fi
cd "$root" || exit 3
tap_done
