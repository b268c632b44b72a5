#!/bin/bash
# Every public function that returns a status refuses NULL instead of its arguments. Run from the repository's root.
# Needs python3.
. verify/tests/support/tap.sh
if ! command -v python3 >/dev/null; then
    skip "NULL for every argument" "no python3; apt-get install python3"
    tap_done
fi
exec python3 -B verify/tests/clients/null_arguments.py "$(realpath "${O:-build}/libweir.so")" lib/include/weir/{weir,algo,plan,moe}.h
