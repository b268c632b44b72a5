#!/bin/bash
# The Python package as users get it: builds the wheel from the libraries of this build, installs it into
# a new virtual environment, and runs the tests of verify/tests/python there with pytest, not in the source
# tree. NumPy and pytest come from PyPI, or from the system's Python if PyPI is not reachable. Also runs
# mypy --strict, if it can be had. Run from the repository's root.
. verify/tests/support/tap.sh
O=${O:-build}
python=${PYTHON:-python3}

leave() {
    skip "the Python package" "$1"
    tap_done
}
[ -f "$O/libweir_nccl.so" ] || leave "not built; run make"
case ${BUILD:-} in
asan | tsan) leave "python3 is built without the sanitizer" ;;
esac
command -v "$python" >/dev/null || leave "no $python; apt-get install python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' || leave "$python is older than 3.9"

# Creates the environment; $1: packages from PyPI or the system's.
environment() {
    if [ "$1" = pypi ]; then
        "$python" -m venv "$scratch/venv" >"$out" 2>"$err" &&
            timeout 120 "$scratch/venv/bin/pip" install -q --no-compile --retries 1 --timeout 15 'setuptools>=64' wheel pycparser numpy pytest ${types:+"$types"} \
                >"$out" 2>"$err"
    else
        rm -rf "$scratch/venv"
        "$python" -m venv --system-site-packages "$scratch/venv" >"$out" 2>"$err" &&
            "$scratch/venv/bin/python" -c 'import numpy, pycparser, pytest, setuptools, wheel' 2>"$err"
    fi
}
types=
! long_part "mypy --strict, and faults without the module in C" || types=mypy
if ! environment pypi && ! environment system; then
    leave "no virtual environment with numpy, pycparser, pytest, setuptools and wheel: PyPI is not reachable, and the system's Python lacks them; apt-get install python3-venv python3-numpy python3-pycparser python3-pytest python3-wheel"
fi
installed=$scratch/venv/bin/python

# The build leaves its files in the source folder, so a copy of that is built.
build_wheel() {
    mkdir -p "$scratch/tree/lib/include" &&
        cp -r lib/include/weir "$scratch/tree/lib/include/" && cp -r python "$scratch/tree/" &&
        rm -rf "$scratch/tree/python/build" "$scratch/tree/python/weir/lib" \
            "$scratch/tree/python/weir/_declarations.py" &&
        WEIR_LIBRARIES=$(realpath "$O") "$installed" -m pip wheel -q --no-build-isolation --no-deps \
            -w "$scratch/wheels" "$scratch/tree/python" >"$out" 2>"$err"
}
check "the wheel is built" build_wheel
check "the wheel is installed into a new environment" \
    ends_with 0 "$installed" -m pip install -q --no-deps --no-index "$scratch"/wheels/weir-*-py3-none-*.whl
check "the wheel has both libraries, the declarations and py.typed" \
    "$installed" -c 'import weir, os, sys
here = os.path.dirname(weir.__file__)
sys.exit(not here.startswith(sys.prefix) or any(not os.path.getsize(os.path.join(here, name)) for name in
         ("lib/libweir.so", "lib/libweir_nccl.so", "_declarations.py")) or not os.path.exists(os.path.join(here, "py.typed")))'

# The tests' own lines become lines of this file.
mkdir -p "$scratch/away"
tests=$PWD/verify/tests/python
source_tree=$PWD
(cd "$scratch/away" && SOURCE_TREE=$source_tree timeout 240 "$installed" -m pytest -p no:cacheprovider -o console_output_style=classic \
    -q -rA --tb=short --no-header "$tests" >"$out" 2>"$err" </dev/null)
status=$?
while IFS= read -r line; do
    name=${line#* }
    case $line in
    'PASSED '*) check "python: ${name##*python/}" true ;;
    'FAILED '* | 'ERROR '*) check "python: ${name##*python/}" false ;;
    'SKIPPED '*) skip "python: $(sed "s,.*/,,; s,:.*,," <<<"${name%%: *}")" "${name#*: }" ;;
    esac
done < <(grep -E '^(PASSED|FAILED|ERROR|SKIPPED) ' "$out")
grep -E '^[0-9]+ passed|^[0-9]+ failed' "$out" | sed 's/^/# note: pytest: /'
[ $status -eq 0 ] || grep -vE '^(PASSED|SKIPPED) ' "$out" >&2
check "pytest ends with 0" test $status -eq 0
if [ -z "$types" ]; then
    : # reported above
elif "$installed" -c 'import mypy' 2>/dev/null; then
    types() { (cd "$scratch/away" && "$installed" -m mypy --config-file "$source_tree/python/pyproject.toml" --cache-dir="$scratch/mypy" -p weir); }
    check "mypy --strict finds nothing" ends_with 0 types
else
    skip "mypy --strict" "no mypy; pip install mypy"
fi
tap_done
