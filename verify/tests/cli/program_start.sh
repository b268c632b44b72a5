#!/bin/bash
# What a program inherits from its parent does not change what it does: closed descriptors, ignored and
# blocked signals, the umask, limits, a decimal comma, flush-to-zero; and a reader that ends, or a file
# that is full, ends a run at once, with one line that says so. Run from the repository's root.
. verify/tests/support/bench_tap.inc
[ -x ./bench_allreduce ] || skip_all "program start" "bench_allreduce is not built; run make"

measure="./bench_allreduce -g 2 -b 8 -e 64 -f 8 -n 2 -w 0 --quiet"

# passes TEXT SCRIPT: a shell that runs the script and then becomes the benchmark ends with 0 and two rows.
passes() {
    bash -c "$2; exec $measure" >"$scratch/out" 2>"$scratch/err"
    code=$?
    status=1
    [ "$code" -eq 0 ] && [ "$(grep -c '^ ' "$scratch/out")" -eq 2 ] && status=0
    check "$1" $status
}

# ------------------------------------------------------------------ descriptors
for closed in '2>&-' '0<&-' '0<&- 2>&-'; do
    # Each rank would write its warnings into whatever has the number.
    for _ in 1 2 3; do
        bash -c "exec $measure $closed" >"$scratch/out" 2>/dev/null
        code=$?
        [ "$code" -eq 0 ] || break
    done
    [ "$code" -eq 0 ] && [ "$(grep -c '^ ' "$scratch/out")" -eq 2 ]
    check "a benchmark runs with closed descriptors: $closed" $?
done
for program in ./weir-topo "./weir-plan list" "./weir-compare --help" "./weir-report --help" "./weir-check --help"; do
    [ -x "${program%% *}" ] || continue
    bash -c "$program 0<&- 2>&-" >"$scratch/out"
    [ $? -eq 0 ] && [ -s "$scratch/out" ]
    check "closed standard input and error change nothing: $program" $?
done
if command -v python3 >/dev/null; then
    # A reader that is slower than the output fills the pipe.
    python3 - "$scratch/out" <<'P'
import fcntl, os, subprocess, sys, time
read, write = os.pipe()
os.set_blocking(write, False)
fcntl.fcntl(write, 1031, 4096)  # F_SETPIPE_SZ
done = subprocess.Popen(["./bench_allreduce", "--help"], stdout=write)
os.close(write)
time.sleep(0.3)
text = b""
while part := os.read(read, 65536):
    text += part
open(sys.argv[1], "wb").write(text)
sys.exit(done.wait())
P
    code=$?
    ./bench_allreduce --help >"$scratch/help"
    [ $code -eq 0 ] && cmp -s "$scratch/out" "$scratch/help"
    check "output to a non-blocking pipe is complete" $?
else
    echo "# left out: output to a non-blocking pipe: no python3"
fi

# ---------------------------------------------------------------------- signals
passes "SIGCHLD that the parent ignores" "trap '' CHLD"
bash -c "trap '' CHLD; exec ./bench_allreduce -g 2 -b 64 -e 64 -n 2 -w 0 --inject flip-bit" >"$scratch/out" 2>"$scratch/err"
code=$?
[ "$code" -eq 1 ]
check "exit codes of ranks reach the shell with SIGCHLD ignored" $?
passes "signals that the parent ignores" "trap '' USR1 USR2 ALRM PIPE XFSZ URG IO"
if [ -x ./weir-check ]; then
    timeout -k 2 60 bash -c "trap '' CHLD; exec ./weir-check --level quick --ranks 2 --quiet" >"$scratch/out" 2>&1
    code=$?
    [ $code -ne 124 ] && [ $code -ne 137 ] && grep -qE '^(PASS|FAIL)' "$scratch/out"
    check "weir-check ends, and says how, with SIGCHLD ignored" $?
fi
if command -v python3 >/dev/null; then
    python3 -c 'import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP})
os.execvp(sys.argv[1], sys.argv[1:])' ./bench_allreduce -g 2 -b 8 -e 8 -n 2 -w 0 -N 0 --quiet >"$scratch/out" 2>&1 &
    blocked=$!
    tries=0
    until grep -q '^ ' "$scratch/out" || [ $((tries += 1)) -gt 200 ]; do sleep 0.1; done
    kill "$blocked"
    tries=0
    while kill -0 "$blocked" 2>/dev/null && [ $((tries += 1)) -le 200 ]; do sleep 0.1; done
    ! kill -0 "$blocked" 2>/dev/null
    check "a run whose parent blocked all signals can be terminated" $?
    kill -9 "$blocked" 2>/dev/null
    wait "$blocked" 2>/dev/null
fi

# ------------------------------------------------------- readers and files that end
# lost PROGRAM...: its reader ends after one line. Sets $code.
lost() {
    "$@" 2>"$scratch/err" | head -n 1 >/dev/null
    code=${PIPESTATUS[0]}
}
lost ./bench_allreduce -g 2 -b 8 -e 64K -f 2 -n 20 --quiet
[ "$code" -eq 3 ] && [ "$(grep -c 'standard output .* its reader, such as head, has ended' "$scratch/err")" -eq 1 ]
check "a benchmark whose reader ends says so, once, with exit code 3" $?
lost timeout 60 ./bench_allreduce -g 2 -b 8 -e 8 -n 20 -N 0 --quiet
[ "$code" -eq 3 ] && [ "$(grep -c 'standard output cannot be written' "$scratch/err")" -eq 1 ]
check "a run without an end ends with its reader" $?
lost ci/mpirun -np 2 ./bench_allreduce -b 8 -e 8 -n 20 -N 20 --quiet
! grep -q 'is dead' "$scratch/err"
check "no rank is called dead if mpirun's reader ends" $?
if [ -w /dev/full ]; then
    timeout 60 ./bench_allreduce -g 2 -b 8 -e 8 -n 20 -N 0 --quiet --csv /dev/full >"$scratch/out" 2>"$scratch/err"
    code=$?
    [ "$code" -eq 3 ] && [ "$(grep -c 'csv /dev/full: not all could be written; is the disk full' "$scratch/err")" -eq 1 ]
    check "a full disk ends a run without an end, with a line" $?
    timeout 60 ./bench_allreduce -g 2 -b 8 -e 8 -n 20 -N 0 --quiet -J /dev/full >"$scratch/out" 2>"$scratch/err"
    code=$?
    [ "$code" -eq 3 ] && [ "$(grep -c 'J /dev/full: not all could be written; is the disk full' "$scratch/err")" -eq 1 ]
    check "so does a full disk of -J" $?
    timeout 60 ./bench_allreduce -g 2 -b 8 -e 8 -n 20 -N 0 --quiet >/dev/full 2>"$scratch/err"
    code=$?
    [ "$code" -eq 3 ] && [ "$(grep -c 'standard output cannot be written' "$scratch/err")" -eq 1 ]
    check "so does a full disk of standard output" $?
    grep -v ",fail," results/sample.csv >"$scratch/sound.csv"
    for command in "./weir-plan make allreduce_ring -n 4" "./weir-plan list" "./weir-topo --json" "./weir-compare $scratch/sound.csv $scratch/sound.csv"; do
        [ -x "${command%% *}" ] || continue
        $command >/dev/full 2>"$scratch/err"
        code=$?
        [ "$code" -eq 3 ] && grep -q 'standard output.*: is the disk full, or is it closed' "$scratch/err"
        check "a full disk of standard output has a reason: $command" $?
    done
else
    echo "# left out: full disks: no /dev/full"
fi

# --------------------------------------------------------- umask, limits, locale
umask_file=$scratch/u.csv
passes "a umask that hides files from their owner" "umask 777"
bash -c "umask 777; exec $measure --csv $umask_file" >"$scratch/out" 2>&1
code=$?
[ "$code" -eq 0 ] && [ "$(stat -c %a "$umask_file")" = 600 ] && [ -s "$scratch/u.json" ]
check "its files can be read and written by their owner alone" $?
passes "no core files, a small stack and few open files" "ulimit -c 0; ulimit -s 128; ulimit -n 128"
./weir-plan list | while read -r name _; do
    bash -c "ulimit -s 128; exec ./weir-plan make $name -n 8" >"$scratch/plan" && bash -c "ulimit -s 128; exec ./weir-plan check $scratch/plan"
done >"$scratch/out" 2>&1
[ "$(grep -c ": accepted: " "$scratch/out")" -eq "$(./weir-plan list | wc -l)" ]
check "weir-plan makes and checks each of its plans with a small stack" $?
passes "the variables of a locale with a decimal comma" "export LC_ALL=de_DE.UTF-8 LC_NUMERIC=de_DE.UTF-8"
! grep -q '^ .*[0-9],[0-9]' "$scratch/out"
check "numbers have a decimal point" $?


# ------------------------------------------------------------------ environment
# said TEXT PATTERN NAME=VALUE...: the run ends with 0, with a line on standard error that has the pattern.
said() {
    text=$1 pattern=$2
    shift 2
    env "$@" ./bench_allreduce -g 2 -b 64 -e 64 -n 2 -w 0 --quiet --csv "$scratch/e.csv" >"$scratch/out" 2>"$scratch/err"
    code=$?
    [ "$code" -eq 0 ] && [ "$(grep -c -e "$pattern" "$scratch/err")" -eq 1 ]
    check "$text" $?
}
said "a misspelt variable is reported with the name that it resembles" \
    'WEIR_TIMOUT_MS is no variable of weir and has no effect; did you mean WEIR_TIMEOUT_MS' WEIR_TIMOUT_MS=5
grep -q '"WEIR_TIMOUT_MS": "5"' "$scratch/e.json"
check "the manifest has it" $?
said "a variable that resembles none" 'WEIR_UNHEARD_OF is no variable of weir' WEIR_UNHEARD_OF=1
said "a misspelt secret" 'WEIR_BOOT_SECRT is no variable of weir' WEIR_BOOT_SECRT=concealed-word
! grep -q concealed-word "$scratch/e.json" "$scratch/err" "$scratch/out"
check "its value is nowhere" $?
said "variables of nccl-tests that weir does not obey" \
    'nccl-tests that weir does not obey: NCCL_TESTS_DEVICE (' NCCL_TESTS_SPLIT='MOD 2' NCCL_TESTS_DEVICE=1
grep -q '"text": "variables of nccl-tests' "$scratch/e.json"
check "the manifest has the warning" $?
said "variables of NCCL that change nothing" 'NCCL_ALGO (--algo); NCCL_IB_HCA (WEIR_IB_HCA)' NCCL_ALGO=Ring NCCL_IB_HCA=mlx5_0
for variable in WEIR_LOG=loud WEIR_TIMEOUT_MS='600 s' WEIR_CMA=no WEIR_SOCKET_STREAMS=0 WEIR_CONNECT=never WEIR_RAS=on \
    WEIR_METRICS=prom,csv WEIR_MONITOR_CALLS=1; do
    env "$variable" ./bench_allreduce -g 2 -b 64 -e 64 -n 2 -w 0 --quiet >"$scratch/out" 2>"$scratch/err"
    code=$?
    [ "$code" -eq 2 ] && grep -qF "$variable: expected " "$scratch/err"
    check "a value that a variable cannot have is a usage error: $variable" $?
done
RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=65535 ./bench_allreduce -T 5 -b 8 -e 8 -n 2 >"$scratch/out" 2>"$scratch/err"
code=$?
[ "$code" -eq 2 ] && grep -q 'MASTER_PORT=65535: rank 0 would listen at the next port.*WEIR_BOOT_PORT' "$scratch/err"
check "MASTER_PORT=65535: the message names the next port, and the remedy" $?
if command -v python3 >/dev/null && [ -e "${O:-build}/libweir_nccl.so" ]; then
    WEIR_BACKEND=host WEIR_TIMEOUT_MS='600 s' python3 - "${O:-build}/libweir_nccl.so" >"$scratch/out" 2>"$scratch/err" <<'P'
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_byte * 128)]
unique, comm = Id(), ctypes.c_void_p()
assert lib.ncclGetUniqueId(ctypes.byref(unique)) == 0
lib.ncclGetLastError.restype = ctypes.c_char_p
print("init", lib.ncclCommInitRank(ctypes.byref(comm), 1, unique, 0), lib.ncclGetLastError(comm).decode())
P
    grep -q 'init [1-9].* WEIR_TIMEOUT_MS=600 s: expected a number' "$scratch/out" && ! grep -q 30000 "$scratch/err"
    check "libweir_nccl.so rejects the value, too" $?
fi

finish
