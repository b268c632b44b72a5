#!/bin/sh
# Complete runs of the benchmarks under mpirun: every program with several rank counts and odd
# sizes, registered and unregistered memory, options that change the measurement, the output files
# (CSV, JSON, manifest, tuning table), and wrong data, which must not give a time. Run from the
# repository's root.
# Needs MPI.
. verify/tests/support/bench_tap.inc
[ -x ./bench_allreduce ] || skip_all "runs" "bench_allreduce is not built; run make"
programs="allreduce allgather alltoallv alltoall reduce_scatter broadcast reduce gather scatter sendrecv"
csv=$scratch/a.csv

fork_ranks "runs without --peer mpi"
# bench RANKS PROGRAM ARGUMENTS: runs bench_PROGRAM.
bench() {
    ranks=$1 program=$2
    shift 2
    case " $* " in
    *" --peer "* | *" --verify "*) run ci/mpirun -np "$ranks" "./bench_$program" "$@" ;;
    *) run_ranks "$ranks" "./bench_$program" "$@" ;;
    esac
}

# passes NAME ROWS: exit code 0, and exactly that many CSV rows. Each has passed verification and
# has as many fields as the header, a positive time and a confidence interval that contains it.
passes() {
    status=1
    [ "$code" -eq 0 ] && awk -F, -v rows="$2" '
        NR == 1 { fields = NF; next }
        NF != fields || $27 != "pass" || $28 != 0 { bad = 1 }
        !($20 > 0 && $20 <= $19 && $19 <= $21 && $23 <= $19 && $19 <= $24) { bad = 1 }
        END { exit bad || NR - 1 != rows }' "$csv" && status=0
    check "$1" $status
}

rank_counts=3
! long_part "1 and 5 ranks of every program" || rank_counts='1 3 5'
for program in $programs; do
    case $program in alltoall*|sendrecv) places=1 ;; *) places=2 ;; esac
    for ranks in $rank_counts; do
        bench $ranks "$program" -b 8 -e 32K -f 64 -n 6 -w 1 --peer mpi --csv "$csv"
        passes "bench_$program with $ranks ranks is correct, with MPI in the same run" \
            $((2 * 2 * places + places * 2))
    done
    bench 2 "$program" -b 1000 -e 3001 -i 667 -n 4 -w 1 -d bfloat16 --buffers plain -u 1 --csv "$csv"
    passes "bench_$program is correct in unregistered memory, shifted by an element" $((4 * places))
done

bench 4 allreduce -d all -o all -b 1 -e 1K -f 9 -n 2 -w 0 --csv "$csv"
passes "allreduce is correct for every type and operation, at odd sizes" $((12 * 5 * 4 * 2))
bench 3 reduce -r all -b 64 -e 64 -n 2 --csv "$csv"
passes "-r all measures every root" 6
for level in 1 2; do
    bench 3 allreduce -R $level -b 8 -e 64K -f 128 -n 4 --csv "$csv"
    passes "-R $level registers the buffers" 4
done
bench 2 allreduce -b 64 -e 64 -n 5 -c 3 -z 1 -m 3 --csv "$csv"
passes "-z 1 together with -m and three checks is correct" 2
bench 2 allreduce -b 64 -e 64 -n 1 -z 3 --csv "$csv"
passes "-z 3 with one iteration is correct" 2
run ./bench_sendrecv -b 0 -e 1M -f 1024 -n 2 --csv "$csv"
status=1
[ "$code" -eq 0 ] && [ "$(tail -n 1 "$csv" | cut -d , -f 16,27)" = 1048576,pass ] && status=0
check "-b 0 with a step factor reaches the largest size" $status
run ./bench_allgather -b 0 -e 64 -f 2 -d double -n 2 --csv "$csv"
status=1
[ "$code" -eq 0 ] && [ "$(awk -F, '$15 == "out" { printf "%s ", $16 }' "$csv")" = "0 16 32 64 " ] &&
    status=0
check "sizes that round to the same element count give one row" $status
bench 2 allreduce -b 64 -e 64 -n 4 -N 3 --csv "$csv"
passes "-N repeats the sweep" 6

# A floor of the average bus bandwidth: the last line and the exit code, with the option and with nccl-tests' variable.
# floor NAME CODE LAST: how the run ended, the pattern of its last line, and the word after the average.
floor() {
    status=1
    [ "$code" -eq "$2" ] && tail -n 1 "$scratch/out" | grep -qE "$3" && status=0
    check "$1" $status
}
bench 2 allreduce -b 1K -e 1K -n 4 --min-bw 1e-6 -J "$scratch/floor.json"
floor "an average above --min-bw ends with PASS and 0" 0 '^# PASS: average bus bandwidth [0-9.e-]+ GB/s, at least 1e-06 GB/s \(--min-bw\)$'
grep -qE '^# Avg bus bandwidth    : [0-9.e-]+ OK$' "$scratch/out" && grep -A 2 average_bus "$scratch/floor.json" | grep -q '"okay": "true"'
check "footer and JSON say so in nccl-tests' words" $?
bench 2 allreduce -b 1K -e 1K -n 4 --min-bw 1e6 -J "$scratch/floor.json"
floor "an average below --min-bw ends with FAIL and 1" 1 '^# FAIL: average bus bandwidth [0-9.e-]+ GB/s, below 1e\+06 GB/s \(--min-bw\)$'
grep -qE '^# Avg bus bandwidth    : [0-9.e-]+ FAILED$' "$scratch/out" && grep -A 2 average_bus "$scratch/floor.json" | grep -q '"okay": "false"'
check "footer and JSON say that it failed" $?
NCCL_TESTS_MIN_BW=1000000 bench 2 allreduce -b 1K -e 1K -n 4
floor "NCCL_TESTS_MIN_BW is honoured, of which 90% must be reached" 1 '^# FAIL: .* below 900000 GB/s \(90% of NCCL_TESTS_MIN_BW\)$'
NCCL_TESTS_MIN_BW=1000000 bench 2 allreduce -b 1K -e 1K -n 4 --min-bw 0
floor "--min-bw takes precedence over NCCL_TESTS_MIN_BW" 0 '^# PASS: '
NCCL_TESTS_MIN_BW=fast bench 2 allreduce -b 1K -e 1K -n 4
ends "NCCL_TESTS_MIN_BW that is no number is a usage error" 2
bench 2 allreduce -b 1K -e 1K -n 4 --min-bw 1e-6 --inject flip-bit
floor "wrong data fails whatever the bandwidth" 1 '^# FAIL: [1-9][0-9]* wrong results?; average bus bandwidth '
bench 2 allreduce -b 1K -e 1K -n 4
status=1
! grep -qE 'PASS|FAIL|OK$' "$scratch/out" || [ "$(grep -cE 'PASS|FAIL|OK$' "$scratch/out")" -eq 1 ] && status=0
check "without a floor there is no verdict of one" $status

# With one rank the interval becomes narrow even on a busy machine.
bench 1 allreduce -b 4K -e 4K --until 100% --csv "$csv"
passes "--until ends when the interval is narrow enough" 2
status=1
grep -q 'until the median.s interval is +- 100%' "$scratch/out" &&
    ! grep -q 'not reached' "$scratch/out" && status=0
check "--until that is reached is not reported as missed" $status
bench 2 allreduce -b 512K -e 512K --until 0.00001% -T 2 --csv "$csv"
passes "--until ends when the time limit is reached" 2
status=1
[ "$(grep -c -- '--until 1e-05% not reached, the median is +- .*% after' "$scratch/out")" -eq 2 ] &&
    [ "$(awk -F, 'NR > 1 && $18 < 40' "$csv" | wc -l)" -eq 0 ] && status=0
check "--until that is missed reports the interval's width, after at least 40 iterations" $status

for program in allreduce alltoallv reduce_scatter; do
    case $program in alltoallv) places=1 ;; *) places=2 ;; esac
    bench 3 $program -b 1000 -e 256K -f 250 -n 5 -w 1 --cold --peer mpi --csv "$csv"
    passes "bench_$program --cold is correct" $((4 * places))
done
status=1
grep -q '^# Buffers: registered memory, cold: .* last-level cache of [0-9]* MiB; ' "$scratch/out" &&
    status=0
check "the header says that buffers are cold" $status
bench 3 allreduce -b 64 -e 64 -n 40 -m 2 --mode latency --peer mpi --csv "$csv"
passes "--mode latency is correct" 4
status=1
[ "$(grep -c ': start skew [0-9.]* us median, [0-9.]* us p99$' "$scratch/out")" -eq 4 ] &&
    grep -q '^# Timing: latency: ' "$scratch/out" && status=0
check "--mode latency reports the start skew of the ranks" $status

bench 3 broadcast -b 1K -e 1K -n 30 --peer mpi --csv "$csv"
status=1
[ "$(grep -cE '^#   [a-z ]+, 1024 B: weir [a-z0-9]+ [0-9.]+ us, mpi:[^ ]+ [0-9.]+ us: ((mpi:[^ ]+|weir) takes [1-9][0-9]*\.[0-9]+x as long|no difference shown) \[[0-9.]+, [0-9.]+\]$' \
    "$scratch/out")" -eq 2 ] && status=0
check "a peer's line says which one takes longer, with the interval of the ratio" $status
[ "$(grep -cE '^# mpi:.* : (mpi:[^ ]+ takes .* as long as weir|weir takes .* as long as mpi:[^ ]+) \(geometric mean of 2 rows\); worst for weir: .* at 1024 B' \
    "$scratch/out")" -eq 1 ]
check "the summary of a peer has the same form" $?
# The slower one is the subject: its time is the larger number of the line.
awk '/ takes / && / us: / { split($0, at, / us/)
        n = split(at[1], first, " "); m = split(at[2], second, " ")
        weir = first[n]; peer = second[m]
        if (/: weir takes/ ? weir <= peer : peer <= weir) wrong = 1 }
    END { exit wrong }' "$scratch/out"
check "the candidate that takes longer has the longer time" $?
! grep -q "$(printf '\033')" "$scratch/out" "$scratch/err"
check "output that is no terminal has no colours" $?

algos=$(./bench_allreduce --list-algos | awk '$2 == "host" { print $1 }')
bench 2 allreduce -b 1K -e 1K -n 4 --algo all --csv "$csv"
status=1
[ "$code" -eq 0 ] && [ "$(awk -F, 'NR > 1 { print $15, $11 }' "$csv" | sort | uniq -d | wc -l)" -eq 0 ] &&
    [ "$(awk -F, '$10 == "weir" && $15 == "out"' "$csv" | wc -l)" -ge 2 ] && status=0
check "--algo all measures each algorithm once" $status
for algo in $algos; do
    bench 2 allreduce -b 1K -e 1K -n 4 --algo "$algo" --csv "$csv"
    status=1
    [ "$code" -eq 0 ] && [ "$(awk -F, 'NR > 1 && $27 != "pass"' "$csv" | wc -l)" -eq 0 ] && status=0
    check "--algo $algo is correct" $status
done
# Those of the other collectives in one run each, and in unregistered memory. All but the first may
# fall back to another one, which is then measured once.
for program in $programs; do
    [ "$program" = allreduce ] && continue
    names=$("./bench_$program" --list-algos | awk '$2 == "host" { printf "%s%s", comma, $1; comma = "," }')
    for buffers in weir plain; do
        run "./bench_$program" -g 2 -b 1K -e 1K -n 4 --algo "$names" --buffers $buffers --csv "$csv"
        status=1
        [ "$code" -eq 0 ] && awk -F, -v names="$names" '
            BEGIN { n = split(names, list, ",") }
            NR > 1 { bad += $27 != "pass" || !index("," names ",", "," $11 ","); first += $11 == list[1] }
            END { exit bad || !first || !n }' "$csv" && status=0
        check "bench_$program --algo $names is correct, --buffers $buffers" $status
    done
done
bench 2 allreduce -b 1K -e 1K -n 4 --algo "$(echo "$algos" | tr '\n' ,)auto" --csv "$csv"
status=1
[ "$code" -eq 0 ] && [ "$(awk -F, 'NR > 1 { print $15, $11 }' "$csv" | sort | uniq -d | wc -l)" -eq 0 ] &&
    [ "$(wc -l <"$csv")" -gt 4 ] && status=0
check "--algo with a list that ends with auto measures each algorithm once" $status

bench 2 allreduce -b 1K -e 1K -n 4 --algo packet2,packet --csv "$csv"
status=1
[ "$code" -eq 0 ] && [ "$(awk -F, '$15 == "out" { printf "%s ", $11 }' "$csv")" = "packet2 packet " ] &&
    status=0
check "--algo with a list measures exactly those algorithms" $status

# The library reads the tuning table that --tune writes; a second run keeps the rows of other
# collectives.
tuned=$scratch/tuned
bench 2 allreduce -b 64 -e 256K -f 16 -n 8 --tune "$tuned"
bench 2 allgather -b 64 -e 256K -f 16 -n 8 --tune "$tuned"
bench 2 allgather -b 64 -e 256K -f 16 -n 8 --tune "$tuned"
status=1
[ "$code" -eq 0 ] && [ "$(grep -c '^allreduce .* - ' "$tuned")" -eq 1 ] &&
    [ "$(grep -c '^allgather .* - ' "$tuned")" -eq 1 ] && status=0
check "--tune writes a table and keeps the rows of other collectives" $status
sed 's/^allreduce .*/allreduce 2 any - packet2/' "$tuned" >"$scratch/packet2"
WEIR_TUNING=$scratch/packet2 bench 2 allreduce -b 1K -e 1K -n 4
status=1
[ "$code" -eq 0 ] && grep -q '^# Algorithms of weir   : packet2 1024 B$' "$scratch/out" && status=0
check "the library selects algorithms by the table that --tune wrote" $status

bench 2 allgather -b 64 -e 256K -f 16 -n 8 --buffers plain --tune "$tuned"
status=1
[ "$code" -eq 0 ] && [ "$(grep -c '^allgather .* plain-[a-z]* *- ' "$tuned")" -eq 1 ] &&
    [ "$(grep -c '^allgather .* - ' "$tuned")" -eq 2 ] && status=0
check "--tune with --buffers plain adds rows for unregistered memory" $status
for collective in sendrecv alltoall; do
    bench 2 $collective -b 1K -e 256K -f 16 -n 8 --buffers plain --tune "$tuned"
    WEIR_TUNING=$tuned bench 2 $collective -b 1K -e 256K -f 16 -n 4 --buffers plain
    check "the library reads what --tune wrote for $collective of unregistered memory" $((code != 0))
done
printf 'allgather 64 any - direct\nallgather 64 plain - packet\n' >"$scratch/plain"
WEIR_TUNING=$scratch/plain bench 2 allgather -b 256K -e 256K -n 4 --buffers plain
status=1
[ "$code" -eq 0 ] && grep -q '^# Algorithms of weir   : packet 262144 B$' "$scratch/out" && status=0
check "rows for unregistered memory replace what needs mapped memory" $status
printf 'allgather 64 net - packet\n' >"$scratch/others"
WEIR_LOG=info WEIR_TUNING=$scratch/others bench 2 allgather -b 1K -e 1K -n 4
status=1
[ "$code" -eq 0 ] && [ "$(grep -c "others:1: the rows of allgather are not used: .* 'net', these are 2 ranks and" "$scratch/err")" -eq 1 ] &&
    status=0
check "rows that are not for these ranks are logged once" $status
printf 'allgather 64 any 1K packet\nallgather 64 any - direct\nallgather 1 any - direct\n' >"$scratch/others"
WEIR_LOG=info WEIR_TUNING=$scratch/others bench 2 allgather -b 1K -e 1K -n 4
status=1
[ "$code" -eq 0 ] && [ "$(grep -c "others: 2 rows of allgather serve these 2 ranks ('" "$scratch/err")" -eq 1 ] && status=0
check "rows that are for these ranks are logged once" $status
WEIR_CMA=0 WEIR_XPMEM=0 WEIR_LOG=info bench 2 allgather -b 256K -e 256K -n 4 --buffers plain
status=1
[ "$code" -eq 0 ] && grep -q '^# Algorithms of weir   : packet 262144 B$' "$scratch/out" &&
    [ "$(grep -c 'pass through shared memory' "$scratch/err")" -eq 1 ] && status=0
check "WEIR_CMA=0: buffers pass through shared memory, which is logged once" $status
WEIR_CMA=2 bench 2 allgather -b 256K -e 256K -n 4
status=1
[ "$code" -eq 2 ] && grep -q 'WEIR_CMA' "$scratch/err" && status=0
check "WEIR_CMA has the values 0 and 1" $status
# unserved WORDS: the run ended as with an unusable option; the row and the last line give the reason.
unserved() {
    status=1
    [ "$code" -eq 2 ] && grep -q "^#   weir takes no part in .*: $1" "$scratch/out" &&
        [ "$(grep -c "algorithms: --algo: $1" "$scratch/err")" -eq 1 ] && status=0
}
bench 2 allreduce -b 1K -e 1K -n 4 --algo fused --buffers plain
unserved 'fused needs registered memory; packet ran'
check "an algorithm that serves none of the sizes is an error that names the memory it needs" $status
bench 2 allreduce -b 1K -e 1K -n 4 --algo packet,fused --buffers plain
status=1
[ "$code" -eq 0 ] && grep -q '^#   weir takes no part in float sum: fused needs registered memory; packet ran' "$scratch/out" &&
    status=0
check "one of several named algorithms that does not serve is explained" $status
WEIR_CMA=0 WEIR_XPMEM=0 bench 2 allgather -b 1K -e 1K -n 4 --algo cma --buffers plain
unserved 'cma needs unregistered memory and process_vm_readv; packet ran'
check "--algo cma with WEIR_CMA=0 is an error that says why" $status
bench 2 allreduce -b 0 -e 4 -f 2 -n 4 --algo packet
status=1
[ "$code" -eq 0 ] && ! grep -q 'takes no part' "$scratch/out" && status=0
check "a call without data refuses no algorithm" $status
bench 2 allreduce -b 1K -e 1K -n 4 --algo all --buffers plain
status=1
[ "$code" -eq 0 ] && ! grep -q 'takes no part' "$scratch/out" && status=0
check "algorithms that --algo does not name need not serve" $status
# says WORDS: rank 0 has logged once that XPMEM is not used, and why; the run passed.
says() {
    status=1
    [ "$code" -eq 0 ] && [ "$(grep -c 'XPMEM is not used' "$scratch/err")" -eq 1 ] &&
        grep -q "XPMEM is not used for unregistered buffers: rank 0 $1" "$scratch/err" && status=0
}
WEIR_XPMEM=0 WEIR_LOG=info bench 2 allreduce -b 256K -e 256K -n 4 --buffers plain
says 'has WEIR_XPMEM=0'
check "WEIR_XPMEM=0: ranks do not attach each other's memory, which is logged once" $status
standin=$(pwd)/${O:-build}/tests
LD_LIBRARY_PATH=$standin XPMEM_STANDIN=device WEIR_LOG=info bench 2 allreduce -b 256K -e 256K -n 4 --buffers plain
says 'cannot open /dev/xpmem (No such file or directory)'
check "libxpmem without the device: ranks do not attach each other's memory" $status
LD_LIBRARY_PATH=$standin WEIR_LOG=info bench 2 allreduce -b 256K -e 256K -n 4 --buffers plain
status=1
[ "$code" -eq 0 ] && grep -q '^# Algorithms of weir   : fused 262144 B$' "$scratch/out" &&
    ! grep -q 'XPMEM is not used' "$scratch/err" && status=0
check "libxpmem: unregistered memory has the algorithms of registered memory" $status
WEIR_XPMEM=2 bench 2 allgather -b 256K -e 256K -n 4
status=1
[ "$code" -eq 2 ] && grep -q 'WEIR_XPMEM' "$scratch/err" && status=0
check "WEIR_XPMEM has the values 0 and 1" $status

# same_bits TYPE COUNT: so many algorithms of allreduce serve the type, each with the same bits every time.
same_bits() {
    bench 3 allreduce -b 1000 -e 40000 -f 40 -n 4 -d "$1" --algo all --determinism --csv "$csv"
    [ "$code" -eq 0 ] && [ "$(grep -c '^# Determinism .*: same bits in 10 repeats and on 3 ranks; the same at every size$' \
        "$scratch/out")" -eq "$2" ]
}
same_bits float "$(echo "$algos" | wc -l)"
check "--determinism reports for each algorithm whether results are bitwise equal" $?
same_bits half "$(echo "$algos" | grep -cv '^numa$')"
check "of half, too, which numa leaves to fused" $?
bench 3 reduce -b 1000 -e 40000 -f 40 -n 4 --algo all --determinism --invariant
status=1
[ "$code" -eq 0 ] && grep -q '^# Determinism .*packet2: .*; the same at every size$' "$scratch/out" &&
    ! grep -q 'chain\|dynamic' "$scratch/out" && status=0
check "--invariant leaves out algorithms that combine in another order" $status
WEIR_ALGO=chain bench 3 reduce -b 1000 -e 1000 -n 4 --invariant
status=1
[ "$code" -ne 0 ] && grep -q "reduce 'chain' does not combine contributions in rank order.*'packet2' does" \
    "$scratch/err" && status=0
check "--invariant refuses one that is named" $status
bench 3 reduce -b 1000 -e 1000 -n 4 --peer mpi --determinism --csv "$csv"
status=1
[ "$code" -eq 0 ] && grep -q '^# Determinism  *: mpi:.*: same bits in 10 repeats; .*at .* size' "$scratch/out" &&
    status=0
check "--determinism covers peers, and does not compare ranks where only one has the result" $status

bench 2 allreduce -b 64 -e 64 -n 4 -c 0 --csv "$csv"
status=1
[ "$code" -eq 0 ] && [ "$(grep -Ec ',off,0,none,off,off,0(,){9}(,|$)' "$csv")" -eq 2 ] && status=0
check "-c 0 verifies nothing, and the CSV says so" $status
grep -q '^# Wall time  .* timing [0-9.]* s, verification 0.0000 s$' "$scratch/out"
check "-c 0 spends no time on verification" $?

bench 2 allreduce -b 64 -e 64 -n 4 -d half --peer mpi --csv "$csv"
passes "MPI is left out where it lacks the type" 2

bench 4 alltoallv -b 128 -e 128 -n 4
status=1
[ "$code" -eq 0 ] && awk '/^ / { found = $1 == 112 && $2 == 8 } END { exit !found }' \
    "$scratch/out" && status=0
check "alltoallv reports nccl-tests' byte counts" $status

bench 3 allreduce -b 64 -e 64 -n 4 --csv "$csv"
status=1
cores=$(nproc)
if [ "$cores" -lt 3 ]; then
    grep -q "preflight: node .*: 3 ranks on $cores core.*; start at most $cores rank" \
        "$scratch/err" && status=0
else
    ! grep -q 'preflight: .* ranks \(share\|on\)' "$scratch/err" && status=0
fi
check "the preflight reports shared cores if and only if ranks share cores" $status

# JSON, with per-iteration times.
bench 3 allreduce -b 64 -e 1K -f 16 -n 7 -I 1 -K 2 -J "$scratch/a.json"
status=1
if command -v python3 >/dev/null 2>&1; then
    [ "$code" -eq 0 ] && python3 - "$scratch/a.json" <<'END' && status=0
import json, sys
run = json.load(open(sys.argv[1]))
assert run["version"] == 3 and len(run["config"]["devices"]) == 3
assert [row["size"] for row in run["results"]] == [64, 1024]
assert not any(text.startswith("PATH=") or text.startswith("HOME=") for text in run["env"])
for row in run["results"]:
    assert row["out_of_place"]["time"] > 0 and row["in_place"]["nwrong"] == 0
    detail = row["out_of_place_per_iter"]
    assert detail["skipped_iterations"] == 2 and len(detail["times_us"]) == 7
    assert [max(column) for column in zip(*detail["per_process_max_times_us"])] == detail["times_us"]
assert run["out_of_bounds"] == {"count": 0, "okay": "true"}
for key in "timing_s", "verification_s":
    parts = [row["wall_time"][key] for row in run["results"]]
    assert min(parts) > 0 and abs(sum(parts) - run["wall_time"][key]) < 1e-4
END
    check "-J follows nccl-tests' schema, with wall times and without PATH and HOME" $status
fi

run ./bench_allreduce -b 8 -e 8 -w 1 --visits 1 -I 1 -K 2001 -J "$scratch/a.json"
status=1
[ "$code" -eq 0 ] && grep -q '^#  *out of place, 8 B, .*-K 2001 leaves none of [0-9]* iterations' \
    "$scratch/out" && [ "$(awk '/^ / { print $10, $11, $12, $13 }' "$scratch/out")" = "nan nan nan nan" ] &&
    grep -q '"p99_us": null' "$scratch/a.json" && status=0
check "-K that leaves no iteration is reported, and gives no numbers" $status

# An endless run is killed while it measures, which takes much longer than writing a row.
if command -v python3 >/dev/null 2>&1; then
    ./bench_allreduce -b 4M -e 4M -n 1500 -w 0 -N 0 -c 0 -J "$scratch/e.json" >"$scratch/out" 2>"$scratch/err" &
    endless=$!
    status=1
    while kill -0 $endless && [ "$(grep -c '^ ' "$scratch/out")" -lt 2 ]; do
        sleep 0.1
    done
    sleep 0.05
    kill -9 $endless
    wait $endless 2>/dev/null
    python3 - "$scratch/e.json" 2>>"$scratch/err" <<'END' && status=0
import json, sys
run = json.load(open(sys.argv[1]))
assert len(run["results"]) >= 2 and run["out_of_bounds"]["count"] == 0 and "end_time" not in run
END
    check "the JSON file of an endless run is complete after each row" $status
fi

# The manifest, next to the CSV and in -J, is correct and contains no secrets.
rm -f "$scratch/m.json"
WEIR_BOOT_SECRET=hidden-1 AWS_SECRET=hidden-2 GITHUB_TOKEN=hidden-3 WEIR_ALGO=auto \
    run ci/mpirun -np 3 ./bench_allreduce -b 64 -e 64 -n 4 --csv "$scratch/m.csv" -J "$scratch/j.json"
status=1
[ "$code" -eq 0 ] && [ -s "$scratch/m.json" ] &&
    ! grep -rl hidden- "$scratch/m.json" "$scratch/j.json" "$scratch/m.csv" && status=0
check "no secret of the environment is written to CSV, JSON or manifest" $status
if command -v python3 >/dev/null 2>&1; then
    status=1
    python3 - "$scratch/m.json" "$scratch/j.json" "$scratch/m.csv" 2>"$scratch/err" <<'END' && status=0
import csv, json, os, sys
beside, document = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))
inside = document["manifest"]  # written before the rows, so that the warnings of the run follow them
assert document["warnings"][:len(inside["warnings"])] == inside["warnings"]
assert beside.pop("complete") is True
assert beside == {**inside, "warnings": document["warnings"]}
rows = list(csv.DictReader(open(sys.argv[3])))
assert {row["run_id"] for row in rows} == {beside["run_id"]}
build = beside["build"]
assert len(build["sources"]) == 16 and int(build["sources"], 16) >= 0
assert build["compiler"] and "-std=" in build["flags"] and build["kind"]
assert [rank["rank"] for rank in beside["ranks"]] == [0, 1, 2]
assert all("cpus" in rank["binding"] or rank["binding"] == "not bound" for rank in beside["ranks"])
assert beside["libraries"] and all(os.path.exists(path) for path in beside["libraries"])
assert any("libc." in path for path in beside["libraries"]) and beside["mpi"]
assert len(beside["host"]["topology_digest"]) == 16 and beside["host"]["cpus"] >= 1
assert beside["environment"]["WEIR_ALGO"] == "auto" and "HOME" not in beside["environment"]
options = beside["options"]
assert options["min_bytes"] == options["max_bytes"] == 64 and options["iterations"] == 4
assert "-n" in beside["arguments"]
END
    check "the manifest is the same next to the CSV and in -J, and is correct" $status
fi

# -J has the same rows as the CSV, and reading and writing it loses nothing: with several
# candidates, with per-iteration times, and for alltoallv.
same_json() {
    python3 -c 'import json, sys
a, b = (json.load(open(path)) for path in sys.argv[1:])
sys.exit(a != b or not all(result["rows"] for result in a["results"]))' "$1" "$2"
}
if [ -x ./weir-compare ] && command -v python3 >/dev/null 2>&1; then
    for arguments in "allreduce -I 1 -K 1" "alltoallv --dist zipf:1.2"; do
        # The arguments are split into words.
        # shellcheck disable=SC2086
        bench 2 $arguments -b 8 -e 4K -f 8 -n 6 --peer mpi --csv "$scratch/c.csv" -J "$scratch/j.json"
        run ./weir-compare --csv "$scratch/back.csv" --rows-json "$scratch/back.json" "$scratch/j.json"
        status=1
        [ "$code" -eq 0 ] && [ ! -s "$scratch/err" ] && cmp "$scratch/c.csv" "$scratch/back.csv" &&
            same_json "$scratch/j.json" "$scratch/back.json" && status=0
        check "-J of ${arguments%% *} reads back identically and has the CSV's rows" $status
    done
    run ./weir-compare "$scratch" "$scratch"
    status=1
    [ -s "$scratch/out" ] && ! grep -q 'same measurement as .*c.csv' "$scratch/err" && status=0
    check "a CSV and the JSON of the same run are not counted as two measurements" $status
fi
mkdir "$scratch/n.json"
bench 1 allreduce -b 64 -e 64 -n 2 --csv "$scratch/n.csv"
ends "a manifest that cannot be written is a usage error" 2

# Wrong data.
if command -v "${MPICC:-mpicc}" >/dev/null 2>&1 &&
    "${MPICC:-mpicc}" -shared -fPIC -o "$scratch/faults.so" verify/tests/support/bench_faults.c; then
    # fault KIND ARGUMENTS: bench_allreduce with 3 ranks and an injected fault (bench_faults.c).
    fault() {
        kind=$1
        shift
        run ci/mpirun -np 3 env LD_PRELOAD="$scratch/faults.so" BENCH_FAULT="$kind" \
            ./bench_allreduce -b 64 -e 64 -n 4 --csv "$csv" "$@"
    }
    fault none --peer mpi
    passes "without a fault the preloaded library changes nothing" 4
    # failed NAME CANDIDATE ROWS: exit code 1, and that many of its rows failed, without times.
    failed() {
        status=1
        [ "$code" -eq 1 ] && awk -F, -v candidate="$2" -v rows="$3" '
            NR > 1 && index($10, candidate) == 1 && $27 == "fail" {
                n++
                for (i = 19; i <= 26; i++) if ($i != "") bad = 1
                if ($28 < 1) bad = 1
            }
            END { exit bad || n != rows }' "$csv" && status=0
        check "$1" $status
    }
    fault peer --peer mpi
    failed "wrong results of a peer give exit code 1 and no times" mpi 2
    status=1
    grep -q 'wrong data: mpi.*rank 2, element 1: got .*, expected' "$scratch/err" && status=0
    check "the first mismatch is reported with rank, element, actual and expected value" $status
    status=1
    [ "$(awk -F, '$10 == "weir" && $27 == "pass" && $19 > 0' "$csv" | wc -l)" -eq 2 ] && status=0
    check "a peer's wrong results leave weir's rows intact" $status
    fault peer-late --peer mpi
    failed "a peer whose timed iterations in place are wrong fails" mpi 1
    status=1
    grep -q 'wrong data: timed iteration .* of mpi.*, in place: rank 2, element 1: got' "$scratch/err" &&
        status=0
    check "the timed iteration is reported" $status
    fault reference
    failed "wrong results of weir give exit code 1 and no times" weir 2
    status=1
    awk '/^ / && $9 == 1 { row = 1 } /Out of bounds values : 2 FAILED/ { foot = 1 }
         END { exit !(row && foot) }' "$scratch/out" && status=0
    check "wrong results are shown in the table's row and footer" $status
    fault late
    failed "wrong results after the timed loop remove the times" weir 2
    fault late --cold
    failed "wrong results after the timed loop remove the times with --cold" weir 2
    if [ "$(uname -m)" = x86_64 ]; then
        fault flush
        status=1
        [ "$code" -eq 0 ] && status=0
        check "a processor that flushes subnormal numbers to zero changes no result" $status
        fault flush-load
        status=1
        [ "$code" -eq 0 ] && status=0
        check "a library that flushes them when it is loaded changes no result" $status
    fi
else
    tap_number=$((tap_number + 1))
    echo "ok $tap_number - wrong data # SKIP no MPI compiler"
fi

# Progress: on a terminal in one line after 3 s, elsewhere a line every 10 s. In between the ranks are
# stopped, so that they do not take the cores from other tests.
cat >"$scratch/rank" <<END
#!/bin/sh
echo \$\$ >>"$scratch/ranks"
exec ./bench_allreduce -b 8 -e 8 -n 2000 -N 0 "\$@"
END
chmod +x "$scratch/rank"
timeout -s INT 12 ci/mpirun -np 2 "$scratch/rank" --quiet >"$scratch/quiet.out" 2>"$scratch/quiet.err" &
timeout -s INT 60 ci/mpirun -np 2 "$scratch/rank" >"$scratch/out" 2>"$scratch/err" &
shows_progress=$!
(
    sleep 2
    # shellcheck disable=SC2046 # words
    kill -STOP $(cat "$scratch/ranks")
    sleep 7
    # shellcheck disable=SC2046
    kill -CONT $(cat "$scratch/ranks")
) &
if command -v script >/dev/null; then
    timeout -s INT 12 script -qefc "env TERM=xterm ./bench_allreduce -b 8 -e 8 -n 2000 -N 100000" "$scratch/typed" >/dev/null 2>&1 &
    typed=$!
    while kill -0 $typed 2>/dev/null && ! grep -q ' left' "$scratch/typed"; do
        sleep 0.1
    done
    kill -INT $typed 2>/dev/null
    wait $typed
    grep -qE "$(printf '\r\033\\[K')bench_allreduce: 8 B: [0-9]+%, [0-9]+ (s|min|h).* left" "$scratch/typed"
    check "progress on a terminal is one line with size, percent and time left" $?
    env NO_COLOR= script -qec "env TERM=xterm ./bench_allreduce -b 8 -e 8 -n 20" "$scratch/typed" >/dev/null 2>&1
    grep -q "$(printf ': 0 \033\\[32mOK\033\\[0m')" "$scratch/typed"
    check "a verdict on a terminal is coloured" $?
    env NO_COLOR=1 script -qec "env TERM=xterm ./bench_allreduce -b 8 -e 8 -n 20" "$scratch/typed" >/dev/null 2>&1
    grep -q ' : 0 OK' "$scratch/typed" && ! grep -q "$(printf '\033')" "$scratch/typed"
    check "NO_COLOR removes colours, and short runs show no progress" $?
else
    tap_number=$((tap_number + 1))
    echo "ok $tap_number - progress on a terminal # SKIP no script(1)"
fi
# From its first line on, as some launchers need seconds on a loaded machine.
while kill -0 $shows_progress 2>/dev/null && ! grep -q 'so far' "$scratch/err"; do
    sleep 0.1
done
kill -INT $shows_progress 2>/dev/null
wait
status=1
[ "$(grep -cE '^bench_allreduce: 8 B: 1[0-9] s so far$' "$scratch/err")" -eq 1 ] && status=0
check "progress under mpirun is a line every 10 s" $status
! grep -q 'so far' "$scratch/quiet.err" && grep -q '^ *8 ' "$scratch/quiet.out"
check "--quiet shows no progress" $?

finish
