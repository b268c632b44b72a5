#!/bin/sh
# The command line of the benchmarks: the help text, the lists, and usage errors. Each usage
# error is one line that names the remedy, with nothing on standard output and the documented
# exit code. Run from the repository's root.
# Needs MPI.
. verify/tests/support/bench_tap.inc
[ -x ./bench_allreduce ] || skip_all "command line" "bench_allreduce is not built; run make"

# refuses CODE PATTERN ARGUMENTS: $program (default: bench_allreduce) ends with CODE, prints
# nothing on standard output and one line that matches PATTERN on standard error.
refuses() {
    expected=$1 pattern=$2
    shift 2
    run "./${program:-bench_allreduce}" "$@"
    status=1
    [ "$code" -eq "$expected" ] && [ ! -s "$scratch/out" ] &&
        [ "$(wc -l <"$scratch/err")" -eq 1 ] && grep -q -e "$pattern" "$scratch/err" && status=0
    check "exit code $expected and one line: ${program:-bench_allreduce} $(echo "$*" | sed "s:$scratch/::g")" \
        \
        $status
}

# shows NAME PATTERN...: the last run ended with 0 and its output matches every pattern.
shows() {
    name=$1 status=0
    shift
    [ "$code" -eq 0 ] || status=1
    for pattern in "$@"; do
        grep -q -e "$pattern" "$scratch/out" || status=1
    done
    check "$name" $status
}

run ./bench_allreduce --help
shows "--help lists nccl-tests' options" '-b, --minbytes' '-e, --maxbytes' '-i, --stepbytes' \
    '-f, --stepfactor' '-n, --iters' '-w, --warmup_iters' '-m, --agg_iters' '-c, --check' \
    '-o, --op' '-d, --datatype' '-r, --root' '-G, --cudagraph' '-z, --blocking' \
    '-C, --report_cputime' '-a, --average' '-I, --per_iter' '-K, --per_iter_skip' \
    '-N, --run_cycles' '-T, --timeout' '-J, --output_file' '-S, --report_timestamps' \
    '-M, --memory' '-R, --local_register' '-u, --unalign'
shows "--help lists weir's own options" '--csv FILE' '--backend auto|host|cuda' \
    '--transport auto|shm|cuda_ipc|ib|tcp' '--algo auto|all|NAME' '--peer mpi|nccl|copies|\[py:\]PATH' \
    '--verify mpi|exact|both|off' '--plan FILE' '--seed N' '--list-algos' '--until PERCENT' \
    '--mode throughput|latency' --determinism
status=0
awk 'length > 100 { exit 1 }' "$scratch/out" || status=1
check "no line of --help exceeds 100 columns" $status
run ./bench_allreduce -h
shows "-h prints the help" 'usage: '
run ./bench_allreduce --version
shows "--version prints the version" '^weir [0-9]'
run ./bench_allreduce --help-env
shows "--help-env lists the environment" WEIR_TIMEOUT_MS WEIR_ALGO
for program in allreduce allgather alltoallv alltoall reduce_scatter broadcast reduce gather scatter sendrecv; do
    run "./bench_$program" --list-algos
    status=1
    [ "$code" -eq 0 ] && [ "$(wc -l <"$scratch/out")" -ge 2 ] && status=0
    check "bench_$program --list-algos lists at least two lines" $status
done
program=

refuses 2 'unknown option --nope; --help' --nope
refuses 2 '--determinism needs the checks' --determinism -c 0
refuses 2 'unknown option -q; --help' -q
refuses 2 '^bench_allreduce: unexpected word 8M' 8M
refuses 2 'needs a value: SIZE' -b
refuses 2 'takes no value' --help=yes
for bad in x -8 8Q 8MM '' 1e99 1.5 0.4 +8 ' 8' 0x400 1e3 1e3K 1Kx 8B 1,5K; do
    refuses 2 'expected a size' -b "$bad"
done
refuses 2 'expected a whole number' -n many
for bad in +5 ' 5' '5 ' 0x5 5e0 5.0 ''; do
    refuses 2 'expected a whole number from 0 to 2147483647' -n "$bad"
    refuses 2 'expected a whole number from 0 to 86400' -T "$bad"
done
for option in -n -N; do
    for bad in -1 1000000000000 99999999999999999999; do
        refuses 2 'expected a whole number from 0 to 2147483647' $option $bad
    done
done
for bad in 0 -2 1.5 2.9 2K x 99999999999999999999; do
    refuses 2 'expected a whole number from 1 to' -f "$bad"
done
for bad in -1 1.5 1K x; do
    refuses 2 'expected a whole number from 0 to 9223372036854775807' --seed "$bad"
done
refuses 2 'expected a whole number from 0 to 3' -z 4
refuses 2 '-b 64 is above -e 32' -b 64 -e 32
refuses 2 '-b 4 is below one element: double has 8 bytes' -b 4 -e 64 -d double
refuses 2 'int8.*float' -d complex
refuses 2 'sum.*avg' -o xor
refuses 2 'known: auto, all, ' --algo nope
refuses 2 'one of auto|host|cuda' --backend tpu
for twice in packet,packet auto,fused,auto all,packet auto,all packet:1x64,packet:1x64; do
    refuses 2 'rows of the same name; leave one out' --algo "$twice"
done
refuses 2 '[.][.][.]: packet2 and packet2 have rows of the same name; leave one out$' \
    --algo "$(yes packet2 | head -n 300 | paste -sd ,)"
kernel=lib/algo/examples/allgather.cu:allgather
program=bench_allgather
refuses 2 'allgather and allgather have rows of the same name' --algo "$kernel,$kernel"
program=
refuses 2 '--peer mpi and --peer mpi have rows of the same name' --peer mpi --peer mpi
# Without a visible GPU a build with CUDA ends with 3; a build without CUDA ends with 2.
CUDA_VISIBLE_DEVICES=''
export CUDA_VISIBLE_DEVICES
run ./bench_allreduce --backend cuda
status=1
case $code in
2) grep -q 'no CUDA backend' "$scratch/err" && status=0 ;;
3) grep -q 'no GPU can be used: .*--backend host' "$scratch/err" && status=0 ;;
esac
check "--backend cuda without a GPU is refused with the remedy (exit code $code)" $status
refuses 2 'one of auto|shm' --transport pigeon
refuses 2 'use shm or auto' --transport ib
refuses 2 '--peer nccl: \(this build has no CUDA; build with make CUDA=1\|it works on GPUs\).*--peer mpi' --peer nccl
refuses 2 'No such file' --plan "$scratch/none"
: >"$scratch/plan"
refuses 2 'expected a plan in JSON\|reads no plans' --plan "$scratch/plan"
refuses 2 'No such file.*can be written' --csv "$scratch/none/a.csv"
refuses 2 'No such file.*can be written' -J "$scratch/none/a.json"
refuses 2 'No such file.*can be written' --tune="$scratch/none/tuned"
refuses 2 'it is no regular file' --tune="$scratch"
printf '# a letter\nallreduce 2 any - packet2\nallreduce is fast' >"$scratch/letter"
cp "$scratch/letter" "$scratch/tuned"
refuses 2 'line 3 is no row of a tuning table' --tune="$scratch/tuned"
cmp -s "$scratch/letter" "$scratch/tuned" && [ ! -e "$scratch/tuned.new" ]
check "--tune leaves an invalid tuning table unchanged and no temporary file" $?
refuses 2 'one file' --csv "$scratch/a.json" -J "$scratch/a.json"
refuses 2 'the manifest of --csv .*has that name' --csv "$scratch/b.csv" -J "$scratch/b.json"
refuses 2 'the manifest of --csv .*has that name' --csv "$scratch/b.csv" -J "$scratch/./b.json"
: >"$scratch/there"
ln "$scratch/there" "$scratch/too"
refuses 2 'one file' --csv "$scratch/there" -J "$scratch/too"
refuses 2 'start 2 times as many ranks' -t 2
for bad in 0 4097 x; do
    refuses 2 '-g (--ngpus) .*expected a whole number from 1 to 4096' -g "$bad"
done
refuses 2 'there is 1 rank; ' -r 5
refuses 2 'needs -I 1' -K 3
for bad in 0% -1% 101% 2%% x ''; do
    refuses 2 'expected a percentage' --until "$bad"
done
refuses 2 'give one of them' --until 2% -n 5
refuses 2 'one of throughput|latency' --mode both
refuses 2 'both set where ranks synchronise' --mode latency -z 1
refuses 2 'leaves none of -n 3' -I 1 -n 3 -K 3
refuses 2 'only bench_alltoallv' --dist uniform
refuses 2 'only bench_alltoallv' --counts device
program=bench_alltoallv
refuses 2 'spread:X with X from 0 to 1' --dist zipf:x
refuses 2 'spread:X with X from 0 to 1' --dist spread:2
for bad in 'spread: 0.5' spread:+0.5 spread:0x1 'spread:0.5 ' zipf:inf zipf:nan hot:0x2 hot:1.5; do
    program=bench_alltoallv
    refuses 2 'spread:X with X from 0 to 1' --dist "$bad"
    program=
done
for bad in 'packet: 16x64' packet:+16x64 packet:16x packet:x64 packet:16x64x packet:0x64 packet:16x0x40 packet:99999999999x1; do
    refuses 2 'algo' --algo "$bad"
done
for bad in 0x10 +5 ' 5' 5% 1,5 nan inf -1; do
    refuses 2 'min-bw .*: expected' --min-bw "$bad"
done
refuses 2 'one of host|device' --counts gpu
program=
refuses 3 'at 8T buffers of 1 rank take 16384 GiB' -b 8T -e 8T

# The arguments are split into words.
for arguments in --help --list-algos '--inject list' '-b 8 -e 8 -n 1'; do
    status=0
    if [ -w /dev/full ]; then
        # shellcheck disable=SC2086
        ./bench_allreduce $arguments >/dev/full 2>"$scratch/err"
        [ $? -eq 3 ] && [ "$(grep -c 'standard output' "$scratch/err")" -eq 1 ] || status=1
    fi
    # shellcheck disable=SC2086
    ./bench_allreduce $arguments >&- 2>"$scratch/err"
    [ $? -eq 3 ] && [ "$(grep -c 'standard output' "$scratch/err")" -eq 1 ] || status=1
    check "full or closed standard output is reported once, exit code 3: $arguments" $status
done

cat >"$scratch/links" <<'END'
weir-links 1
backend host
endpoints 2
pair 0 1 1 1000
pair 1 0 1 1000
together 8 0.001
END
status=1
run ci/mpirun -np 2 ./bench_allreduce -b 1K -e 1K -n 5 --ceiling "$scratch/links" --csv "$scratch/a.csv"
# 1024 bytes at 1 MB/s, plus a latency of 1 ms, take 2024 us: percentages that have enough digits, even if a call takes
# milliseconds on a busy machine.
[ "$code" -eq 0 ] && grep -q '^# Ceiling .*of what 2 measured links allow' "$scratch/out" &&
    awk -F , 'NR > 1 && ($41 * $19 < 201400 || $41 * $19 > 203400) { bad = 1 } END { exit bad || NR != 3 }' \
        "$scratch/a.csv" && status=0
check "--ceiling gives the percentage of the measured links' limit" $status
! grep -q 'endpoints\|the link from' "$scratch/err"
check "--ceiling with matching links prints no warning about them" $?
# has_warning KIND TEXT: one line on standard error, and an entry of the manifest.
has_warning() {
    [ "$(grep -c "^bench_allreduce: warning: .*$2" "$scratch/err")" -eq 1 ] &&
        grep -q "\"kind\": \"$1\"" "$scratch/a.json" && grep -q "$2" "$scratch/a.json"
}
sed -i 's/^together 8 0.001$/together 8 0.0001/; s/ 1000$/ 0.001/; s/^pair 1 0 1 /pair 1 0 0.7 /' "$scratch/links"
run ci/mpirun -np 2 ./bench_allreduce -b 1K -e 1K -n 5 --ceiling "$scratch/links" --csv "$scratch/a.csv"
has_warning ceiling '[0-9]*% of the ceiling at 1024 B .* measured too slow'
check "a result far above its ceiling is a warning, also in the manifest" $?
has_warning links 'the link from 1 to 0 has 0.7 GB/s, the one from 0 to 1 1 GB/s'
check "links that differ by direction are a warning, also in the manifest" $?
sed -i 's/^together 8 0.0001$/together 8 100000/; s/^pair 1 0 0.7 /pair 1 0 1 /' "$scratch/links"
run ci/mpirun -np 2 ./bench_allreduce -b 1K -e 1K -n 5 --ceiling "$scratch/links" --csv "$scratch/a.csv"
! grep -q 'of the ceiling\|the link from' "$scratch/err" && ! grep -q '"kind": "ceiling"' "$scratch/a.json"
check "results below their ceiling and symmetric links give no warning" $?
# Other processes on every cpu, for a run of more than a second.
for cpu in $(seq 0 $(($(nproc) - 1))); do
    timeout 60 nice -n 5 taskset -c "$cpu" sh -c 'while :; do :; done' 2>/dev/null &
    spinners="$spinners $!"
done
run ci/mpirun -np 2 ./bench_allreduce -b 8M -e 8M -n 40 -N 4 --csv "$scratch/a.csv"
# shellcheck disable=SC2086 # words
kill $spinners
has_warning load 'was busy: other processes used [0-9]*% of the time of the ranks. 2 cpus'
check "load of other processes is a warning, also in the manifest" $?
run ./bench_allreduce -b 1K -e 1K -n 5 --ceiling "$scratch/links"
status=1
[ "$code" -eq 0 ] && [ "$(grep -c 'warning: --ceiling .*2 endpoints, and there is 1 rank,' "$scratch/err")" -eq 1 ] &&
    status=0
check "--ceiling with links of another number of ranks prints one warning" $status
sed -i 's/host/cuda/' "$scratch/links"
refuses 2 'links of other memory' --ceiling "$scratch/links"
refuses 2 '--ceiling: cannot open .*/none' --ceiling "$scratch/none"

# too_large ARGUMENTS: refused before anything is measured, in one line that names a size which fits.
too_large() {
    run "$@"
    status=1
    [ "$code" -eq 3 ] && [ ! -s "$scratch/out" ] && [ "$(grep -c '^bench_' "$scratch/err")" -eq 1 ] &&
        grep -qE 'does not fit node .*: at .* take [0-9]+ GiB, and [0-9.]+ GiB .*available; give -[be] [0-9]+[KMG]? or less' \
            "$scratch/err" && status=0
    check "refused with what fits: $*" $status
}
too_large ./bench_allreduce -b 8 -e 8T -f 1099511627776 -n 1
too_large ci/mpirun -np 2 ./bench_allreduce -b 8 -e 1000G -f 4096 -n 1
too_large ./bench_alltoallv -b 16T -n 1
fits=$(sed -n 's/.*give -b \([0-9]*[KMG]*\) or less.*/\1/p' "$scratch/err")
run timeout 20 ./bench_alltoallv -b 1K -e "$fits" -f 1099511627776 -n 1
check "the size that is named as fitting is accepted" "$code"
run ./bench_allreduce -b 1500000 -e 1500000 -n 1
check "a size that is not in whole MiB is accepted" "$code"

run ci/mpirun -np 3 ./bench_allreduce -b 64 -e 32
status=1
[ "$code" -eq 2 ] && [ "$(grep -c '^bench_allreduce: ' "$scratch/err")" -eq 1 ] && status=0
check "a usage error on 3 ranks is reported once, exit code $code" $status

# ranks_differ PATTERN ARGUMENTS: mpirun with one command line per rank; the job ends with 2 and
# one line that matches PATTERN.
ranks_differ() {
    pattern=$1
    shift
    run ci/mpirun -np 1 "$@"
    status=1
    [ "$code" -eq 2 ] && [ "$(grep -c '^bench_' "$scratch/err")" -eq 1 ] &&
        grep -q -e "$pattern" "$scratch/err" && status=0
    check "ranks with different command lines all end with 2 and one line: $pattern" $status
}
ranks_differ 'rank 1 has -e 16 where rank 0 has -e 8: ' ./bench_allreduce -b 8 -e 8 -n 10 : \
    -np 1 ./bench_allreduce -b 8 -e 16 -f 2 -n 12
ranks_differ 'rank 1 has bench_allgather where rank 0 has bench_allreduce: ' \
    ./bench_allreduce -b 8 -e 8 -n 1 : -np 1 ./bench_allgather -b 8 -e 8 -n 1
ranks_differ 'unknown option --nope' ./bench_allreduce -b 8 -e 8 -n 1 : -np 1 ./bench_allreduce --nope
run ci/mpirun -np 1 ./bench_allreduce -b 8 -e 8 -n 1 --csv "$scratch/a.csv" -I 1 --transport shm : \
    -np 1 ./bench_allreduce -b 8 -e 8 -n 1
ends "options that only rank 0 reads may differ between ranks" 0
# Lines around the table that a guide does not explain: none of its rows quotes how they begin. $1: the guide;
# standard input: a benchmark's output. Versions are those of the guide.
unexplained() {
    sed -E 's/^# weir [0-9.]+ \(/# weir 0.1.0 (/; s/^# mpi:[^ ]+/# mpi:openmpi-4.1.4/' | awk -v guide="$1" '
        BEGIN {
            while ((getline row <guide) > 0) {
                split(row, cells, "|")
                for (i = split(cells[2], spans, "`") - 1; i > 0; i -= 2)
                    if (spans[i] ~ /^# /)
                        begins[spans[i]]
            }
        }
        /^#( |   .*)?$/ || !/^#/ { next } # headings, and lines after a row
        {
            for (begin in begins)
                if (index($0, begin) == 1)
                    next
            print
        }'
}
run ./bench_allreduce -g 2 -b 64 -e 64 -n 4 -w 1 --cold
check "--cold: the header says that timed iterations are unchecked" "$(grep -q '^# Unchecked: timed iterations, because --cold' "$scratch/out"; echo $?)"
run ./bench_allreduce -g 2 -b 64 -e 64 -n 4 -w 1 -m 3
check "-m: the header says which operations are unchecked" "$(grep -q '^# Unchecked: of the 3 operations .*(-m) all but the last' "$scratch/out"; echo $?)"
for options in "-m 1" "--cold --verify off"; do
    # shellcheck disable=SC2086
    run ./bench_allreduce -g 2 -b 64 -e 64 -n 4 -w 1 $options
    check "$options: no such line" "$(! grep -q '^# Unchecked' "$scratch/out"; echo $?)"
done
guide=docs/user/reading-results.md
for options in "--min-bw 1e9 --determinism -M 1" "--peer mpi"; do
    # The options are words to split.
    # shellcheck disable=SC2086
    run ci/mpirun -np 2 ./bench_allreduce -b 8 -e 64 -n 20 $options
    status=1
    [ -s "$scratch/out" ] && unexplained $guide <"$scratch/out" >"$scratch/err" && [ ! -s "$scratch/err" ] && status=0
    check "the guide explains every line around the table: $options" $status
done
grep -v '^| .# Wall time' $guide >"$scratch/guide.md"
status=1
[ "$(unexplained "$scratch/guide.md" <"$scratch/out" | cut -c1-11)" = "# Wall time" ] && status=0
check "a line that the guide does not explain is found" $status

finish
