#!/bin/bash
# Debian packages: ci/deb builds them and lintian reports nothing; a program builds and runs against
# their files, unpacked into a scratch folder. Takes minutes, so `make check` does not run it:
#
#   verify/tests/run -l 1200 verify/tests/packages/deb.sh
set -u
. verify/tests/support/tap.sh

for tool in dpkg-buildpackage dh lintian; do
    if ! command -v $tool >/dev/null; then
        skip "Debian packages" "no $tool; apt-get install dpkg-dev debhelper lintian"
        tap_done
    fi
done
check "ci/deb rejects an unknown option" ends_with 2 ci/deb --fast
check "ci/deb builds packages, and lintian reports neither errors nor warnings" \
    ends_with 0 ci/deb "$scratch/packages"

# The dynamic linker's and pkg-config's folders are those of the unpacked tree.
tree=$scratch/tree
for package in "$scratch"/packages/*.deb; do dpkg-deb -x "$package" "$tree" || exit 3; done
libdir=$(echo "$tree"/usr/lib/*/pkgconfig)
libdir=${libdir%/pkgconfig}
export LD_LIBRARY_PATH=$libdir PATH=$tree/usr/bin:$PATH
check "the packages have the library, its link for NCCL, and the tools" \
    eval '[ -e "$libdir/libweir.so.0" ] && [ -e "$libdir/weir/compat/libnccl.so.2" ] && [ -x "$tree/usr/bin/weir-nightly" ]'
check "every link of the packages leads to a file" eval '[ -z "$(find "$tree" -xtype l)" ]'
# shellcheck disable=SC2046
build_example() {
    cc -o "$scratch/channels" examples/channels.c \
        $(PKG_CONFIG_PATH=$libdir/pkgconfig PKG_CONFIG_SYSROOT_DIR=$tree pkg-config --cflags --libs weir)
}
check "an example builds against the packages" ends_with 0 build_example
check "the example runs" ends_with 0 "$scratch/channels"
check "the gate of the package weir prints its plan" \
    ends_with 0 weir-nightly --dry-run --matrix "$tree/usr/share/weir/nightly/matrix-host.ini"
check "weir-plan of the package weir runs" ends_with 0 weir-plan list
check "no program has a run path" \
    eval '! readelf -d "$tree"/usr/bin/bench_* "$libdir/libweir.so" | grep -qE "R(UN)?PATH"'

# What lintian finds is not hidden: a package without its copyright file fails.
cp -r . "$scratch/copy" && rm "$scratch/copy/ci/debian/copyright"
check "ci/deb fails for a package that lintian objects to" ends_with 1 "$scratch/copy/ci/deb" "$scratch/bad"
check "lintian's objection is shown" grep -q no-copyright-file "$out"
tap_done
