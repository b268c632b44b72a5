#!/bin/bash
# Installs what `ci/packages` built into bare roots of Debian and uses it as users do: the .deb files in Debian
# 12, the tarball and the wheel in Debian 11 (glibc 2.31, Python 3.9), the oldest root that Debian's servers
# have. The tarball runs without any package, in two places. Prints sizes and start-up times. Takes minutes and
# needs root and Debian's servers, so `make check` does not run it:
#
#   ci/packages --check [KIND...]       KIND: deb, tarball, wheel
#
# ROOTS (default: build/packages/roots) keeps the archives of the roots for the next time.
set -u
. verify/tests/support/tap.sh
packages=${PACKAGES:-build/packages}
roots=${ROOTS:-$packages/roots}
mkdir -p "$roots"
if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null; then
    skip "packages in bare roots" "needs root and debootstrap; apt-get install debootstrap"
    tap_done
fi

# new_root SUITE FOLDER: a minimal Debian.
new_root() {
    if [ ! -s "$roots/$1.tar" ]; then
        rm -rf "$roots/$1.d" && debootstrap --variant=minbase "$1" "$roots/$1.d" >"$out" 2>"$err" &&
            tar -C "$roots/$1.d" -cf "$roots/$1.tar" . && rm -rf "$roots/$1.d" || return
    fi
    mkdir -p "$2" && tar -C "$2" -xf "$roots/$1.tar" && cp /etc/resolv.conf "$2/etc/"
}
# inside COMMAND...: as root in $root, with its own processes and mounts, and nothing of the caller's environment.
inside() {
    # shellcheck disable=SC2016 # the inner shell's words
    env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root DEBIAN_FRONTEND=noninteractive \
        unshare --mount --pid --fork bash -c 'mount -t proc proc "$0/proc" && mount --rbind /sys "$0/sys" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"' "$root" "$@"
}
runs() { ends_with 0 inside "$@"; }
install_deb() { inside sh -c "apt-get -q update && apt-get -q install -y --no-install-recommends $*" >"$out" 2>"$err"; }
# Two ranks measure and verify: the words of a run that passed.
measures() { runs "$@" -b 8 -e 1K -f 16 -n 5 && grep -q '^# Out of bounds values : 0 OK' "$out"; }
# starts_fast NAME COMMAND...: the fastest of 20 starts takes less than 50 ms.
starts_fast() {
    local name=$1 ms
    shift
    # shellcheck disable=SC2016
    ms=$(inside bash -c 'for i in $(seq 20); do
            begin=$(date +%s%N) && "$@" --version >/dev/null && end=$(date +%s%N) && echo $(((end - begin) / 1000))
        done | sort -n | head -n 1' bash "$@")
    echo "# note: $name starts in $ms us"
    check "$name starts in less than 50 ms" test "${ms:-99999}" -lt 50000
}
state_size() { echo "# note: $(stat -c '%n: %s bytes' "$1" | sed 's,.*/,,')"; }
# The programs under a folder of the root need no MPI, and only the libraries of the C library if $2 is set.
needs_no_mpi() { ! objdump -p "$root/$1"/bench_allreduce "$root/$1"/weir-check 2>/dev/null | grep NEEDED | grep -E "mpi${2:+|hwloc|expat|gsl|jansson|sqlite|libz}"; }
# No file under the folder $1, program or text, has a path of the build, which debug information would have.
names_no_folder() {
    ! grep -rlF -e "$PWD/build" "$1" && ! find "$1" -type f \( -path '*/bin/*' -o -name '*.so*' \) -exec objdump -h {} + 2>/dev/null | grep -F .debug_info
}

test_deb() {
    local file
    root=$scratch/deb
    check "deb: a bare Debian 12" new_root bookworm "$root"
    mkdir -p "$root/packages"
    for file in "$packages"/*.deb; do
        [[ $file != *-dbgsym_* ]] || continue
        state_size "$file"
        cp "$file" "$root/packages"
    done
    check "deb: all packages are installed with what they depend on" install_deb "/packages/*.deb"
    check "deb: no MPI is installed with them" eval '[ -z "$(find "$root/usr/lib" -name "libmpi*" -o -name "libmpich*")" ] && needs_no_mpi usr/bin'
    check "deb: a benchmark measures" measures bench_allreduce -g 2
    check "deb: weir-topo shows the machine" runs weir-topo
    check "deb: weir-plan lists its examples" runs weir-plan list
    check "deb: weir-check checks a node" eval 'inside weir-check --help >"$out" && grep -q level "$out"'
    check "deb: Python's checks pass" runs python3 -m weir.check
    check "deb: the manual page" test -e "$root/usr/share/man/man1/bench_allreduce.1.gz"
    starts_fast "deb: bench_allreduce" bench_allreduce
    starts_fast "deb: weir-check" weir-check
    check "deb: a compiler and an MPI" install_deb gcc libc6-dev pkg-config mpich
    check "deb: an example builds and runs with pkg-config" runs sh -c 'cd /tmp && zcat -f /usr/share/doc/libweir-dev/examples/allreduce_fork.c* >e.c &&
        cc e.c -o e $(pkg-config --cflags --libs weir) && ./e'
    check "deb: under MPICH the ranks are those of MPICH" eval 'measures mpiexec -np 2 bench_allreduce && grep -q "^# MPI: .*MPICH" "$out" && grep -q "^# Ranks: 2 " "$out"'
}

test_tarball() {
    root=$scratch/tarball
    local tarball file
    tarball=$(echo "$packages"/weir-*-linux-x86_64.tar.xz)
    check "tarball: a bare Debian 11" new_root bullseye "$root"
    state_size "$tarball"
    mkdir -p "$root/home/user" && tar -C "$root/home/user" -xf "$tarball"
    mv "$root"/home/user/weir-* "$root/home/user/weir"
    check "tarball: programs need the C library alone" needs_no_mpi home/user/weir/bin all
    for file in bench_allreduce weir-topo weir-plan weir-compare weir-report weir-check; do
        check "tarball: $file starts" runs "/home/user/weir/bin/$file" --version
    done
    check "tarball: a benchmark measures" measures /home/user/weir/bin/bench_allreduce -g 2
    check "tarball: no file names the folder that it was made in" names_no_folder "$root/home/user/weir"
    starts_fast "tarball: bench_allreduce" /home/user/weir/bin/bench_allreduce
    mkdir -p "$root/apps" && mv "$root/home/user/weir" "$root/apps/weir"
    check "tarball: Environment Modules and a compiler" install_deb environment-modules gcc libc6-dev pkg-config man-db
    check "tarball: moved, as a module: programs, manual pages" eval 'runs bash -c ". /etc/profile.d/modules.sh && module use /apps/weir/share/modulefiles &&
        module load weir && bench_allreduce -g 2 -b 8 -e 8 -n 5 && man -w bench_allreduce" && grep -q ^/apps/weir "$out"'
    check "tarball: moved, programs build with pkg-config, shared and static, and run" runs bash -c 'cd /tmp && export PKG_CONFIG_PATH=/apps/weir/lib/pkgconfig &&
        source=/apps/weir/share/doc/weir/examples/allreduce_fork.c flags=$(pkg-config --cflags --libs --static weir) &&
        cc $source -o shared $flags && ./shared && cc $source -o static ${flags/-lweir/-l:libweir.a} && ./static'
}

test_wheel() {
    root=$scratch/wheel
    local wheel
    wheel=$(echo "$packages"/weir-*-py3-none-*.whl)
    check "wheel: a bare Debian 11" new_root bullseye "$root"
    state_size "$wheel"
    check "wheel: Python 3.9" install_deb python3-venv
    mkdir -p "$root/packages" && cp "$wheel" "$root/packages"
    check "wheel: pip installs it for manylinux_2_28" eval '[[ $wheel == *manylinux_2_28* ]] &&
        runs sh -c "python3 -m venv /venv && /venv/bin/pip install --upgrade --no-index /packages/*.whl || { apt-get -q install -y python3-pip && false; }"'
    check "wheel: no file names the folder that it was made in" names_no_folder "$root/venv"
    check "wheel: Python's checks pass" runs /venv/bin/python -m weir.check
    check "wheel: weir-bench measures" measures /venv/bin/weir-bench allreduce -g 2
    check "wheel: python -m weir.bench explains what it lacks" eval 'inside /venv/bin/python -m weir.bench allreduce >"$out" 2>"$err"; grep -q "pip install numpy" "$err"'
    check "wheel: the plug-in for NCCL's tuner is where the benchmarks look for it" test -s "$root/venv/lib/weir/libnccl-tuner-weir.so"
    check "wheel: weir-check finds the benchmarks" eval 'inside /venv/bin/weir-check --level quick >"$out" 2>"$err"; [ $? -ne 3 ] && grep -qi allreduce "$out"'
    starts_fast "wheel: weir-bench" /venv/bin/weir-bench allreduce
    starts_fast "wheel: weir-check" /venv/bin/weir-check
}

for kind in ${KINDS:-deb tarball wheel}; do test_"$kind"; done
tap_done
