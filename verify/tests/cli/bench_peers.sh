#!/bin/sh
# Peers in files (--peer PATH.so[:MODE], weir/peer.h): a peer is measured and verified, and each fault
# of a peer leaves it out with its reason while the others go on. Run from the repository's root.
. verify/tests/support/bench_tap.inc
export WEIR_BACKEND=host

# peer NAME FILE FLAGS: builds a peer.
peer() {
    name=$1
    file=$2
    shift 2
    ${CC:-cc} -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -Ilib/include -shared -fPIC "$@" \
        -o "$scratch/$name" "$file" || exit 3
}
peer faulty.so verify/tests/support/faulty_peer.c
peer newer.so verify/tests/support/faulty_peer.c -DFAULTY_ABI=2
peer gathered.so examples/peer.c

# measure PEER OPTIONS: with the example as a second peer, at 1 and 2 KiB.
measure() {
    what=$1
    shift
    run ./bench_allreduce -g 2 -b 1K -e 2K -f 2 -n 5 -T 4 --peer "$scratch/$what" \
        --peer "$scratch/gathered.so" --csv "$scratch/a.csv" "$@"
}
# rows NAME CANDIDATE VERIFY COUNT: the CSV has so many rows of it; those that pass have times.
rows() {
    check "$1" "$(awk -F, -v word="$2" -v verify="$3" -v count="$4" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["contender"] == word && $at["verify"] == verify { n++; bad += (verify == "pass") != ($at["median_us"] != "") }
        END { exit n != count || bad > 0 }' "$scratch/a.csv"; echo $?)"
}
says() {
    check "$1" "$(grep -qF -e "$2" "$scratch/out" "$scratch/err"; echo $?)"
}

measure faulty.so
ends "a peer in a file runs" 0
rows "the peer is right and timed" faulty:1.2 pass 4
rows "the example is right and timed" gathered:1.0 pass 4
says "the header has the settings that the peer reports" \
    '# Settings that peers report: faulty:1.2: FAULTY_DEPTH=3 (file);'
check "rows of the peer have its settings, others do not" "$(awk -F, '
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    { bad += ($at["contender"] == "faulty:1.2") != ($at["settings"] ~ /FAULTY_DEPTH=3/) }
    END { exit bad > 0 || NR < 2 }' "$scratch/a.csv"; echo $?)"

# leaves_out MODE REASON [ROWS]: the peer has so many rows, and then the reason; the others go on.
leaves_out() {
    measure "faulty.so:$1"
    ends "$1: the run goes on" 0
    says "$1: the reason is named" "$2"
    rows "$1: the peer has rows up to the fault" "faulty:1.2:$1" pass "${3:-0}"
    rows "$1: weir goes on" weir pass 4
    rows "$1: the other peer goes on" gathered:1.0 pass 4
}
leaves_out crash-create 'faulty:1.2:crash-create takes no part in float sum: crashes in create (Segmentation fault)'
leaves_out crash-run 'crashes in allreduce of 512 elements (Segmentation fault)' 2
leaves_out hang-run 'hangs in allreduce of 512 elements (no answer for 2 s)' 2
leaves_out memory 'it needs 1 TB of memory'
leaves_out fails 'no memory for 512 elements' 2
if long_part "faults in other steps"; then
    leaves_out crash-probe 'faulty.so:crash-probe takes no part in float sum: crashes in probe'
    leaves_out hang-probe 'hangs in probe (no answer for 2 s)'
    leaves_out hang-create 'hangs in create (no answer for 2 s)'
    leaves_out exit-create 'ends its process in create (exit code 7)'
    leaves_out absent 'there is no such device'
    leaves_out unlike 'its ranks exchange unlike amounts'
fi

measure faulty.so:wrong
ends "wrong data of a peer are an error" 1
rows "rows with wrong data fail" faulty:1.2:wrong fail 4
rows "weir goes on next to wrong data" weir pass 4
measure faulty.so -d int32
ends "a type that a peer lacks is no error" 0
says "a type that a peer lacks is named" 'faulty:1.2 takes no part in int32 sum: it has only float'

# Sums of the exact data are not rounded, so that only numbers of full precision show a peer that rounds wrongly.
if command -v mpirun >/dev/null; then
    coarse() {
        run ci/mpirun -np 2 ./bench_allreduce -b 1K -e 1K -n 5 --verify "$1" --peer "$scratch/faulty.so:coarse" --csv "$scratch/a.csv"
    }
    coarse exact
    ends "a peer that rounds wrongly is right with exact data" 0
    coarse both
    ends "it is wrong with full precision, compared with MPI" 1
    rows "its rows fail" faulty:1.2:coarse fail 2
fi

# A peer with threads of its own whose ranks may use one core.
run taskset -c "$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')" ./bench_allreduce -g 2 -b 1K -e 1K -n 5 \
    --peer "$scratch/faulty.so:threads" --peer "$scratch/gathered.so" --csv "$scratch/starved.csv"
ends "ranks on one core measure a peer with threads" 0
says "the remedy for one core is named" "a rank's process may use 0.5 core"
check "only rows of the peer with threads are marked" "$(awk -F, '
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    { bad += ($at["contender"] ~ /threads/) != ($at["unjudged"] == "one-core") }
    END { exit bad > 0 || NR != 7 }' "$scratch/starved.csv"; echo $?)"
sed 's/,[^,]*,one-core$/,,/' "$scratch/starved.csv" | awk -F, 'BEGIN { OFS = "," }
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; print; next }
    { $at["run_id"] = "later"; for (i = at["median_us"]; i <= at["ci_high_us"]; i++) $i *= 20; print }' >"$scratch/slower.csv"
run ./weir-compare "$scratch/starved.csv" "$scratch/slower.csv"
says "weir-compare does not judge marked rows" 'not judged: threads of a peer had no core of their own'
check "weir-compare judges the other rows" "$(grep -qE '(weir|gathered).*regressed' "$scratch/out"; echo $?)"
check "weir-compare calls no marked row slower" "$(! grep -q 'threads .*regressed' "$scratch/out"; echo $?)"
if command -v mpirun >/dev/null && long_part "ranks that mpirun binds"; then
    run mpirun --allow-run-as-root --oversubscribe --bind-to core -np 2 ./bench_allreduce -b 1K -e 1K -n 5 --peer "$scratch/faulty.so:threads"
    says "the remedy for a launcher's binding is named" 'mpirun --bind-to none, or with ci/mpirun'
fi

# A peer in Python.
python=py:verify/tests/support/peer_sum.py
python_peer() {
    run ./bench_allreduce -g 2 -b 1K -e 2K -f 2 -n 5 -T 20 --peer "$python$1" --csv "$scratch/a.csv"
}
if command -v python3 >/dev/null; then
    python_peer ""
    ends "a peer in Python runs" 0
    rows "a peer in Python is right and timed" pysum:3 pass 4
    says "the header has its settings" 'pysum:3: PYSUM=1 (file);'
    python_peer :crash
    ends "a peer in Python that crashes does not end the run" 0
    rows "a peer in Python has rows up to its crash" pysum:3:crash pass 2
    says "the crash is named" 'crashes in allreduce of 512 elements (Aborted)'
    python_peer :memory
    says "an exception of a peer in Python is named" 'takes no part in float sum: MemoryError: it needs 1 TB'
    python_peer :wrong
    ends "wrong data of a peer in Python are an error" 1
    run ./bench_allreduce -g 2 -b 1K -e 1K -n 5 -d int32 --peer $python
    says "a type that a peer in Python lacks is named" 'it has only sums of float'
    printf '%s\n' 'name, version, settings = "a\nb", "1\n2", "c\nd"' 'def create(job): return job' \
        'def refuses(job, call): return "no\nway"' 'def run(job, call): pass' >"$scratch/lines.py"
    run ./bench_allreduce -g 2 -b 1K -e 1K -n 5 --peer "py:$scratch/lines.py"
    says "line ends in the texts of a peer are escaped" 'a\x0ab:1\x0a2 takes no part in float sum: no\x0away'
    printf '%s\n' 'name, version = "late", "1"' 'def create(job): return job' 'def run(job, call): job.allgather(b"x")' >"$scratch/late.py"
    run ./bench_allreduce -g 2 -b 1K -e 1K -n 5 --peer "py:$scratch/late.py"
    ends "a peer in Python that exchanges data outside of create is left out" 0
    says "the reason is given" 'late:1 takes no part in float sum: RuntimeError: job.allgather is for create only'
    run env PATH=/nowhere ./bench_allreduce -g 2 -b 1K -e 1K -n 5 --peer $python
    says "a missing python3 is named" 'takes no part in float sum: python3 cannot be started; install it'
    run ./bench_allreduce -g 2 -b 1K -e 1K -n 5 --peer py:none.py
    says "a Python file that is not there is named" 'FileNotFoundError'
fi

# gloo, if its headers are installed.
if [ -e /usr/include/gloo/allreduce.h ] && command -v "${CXX:-c++}" >/dev/null && long_part "gloo as a peer"; then
    check "examples/peer_gloo.cc builds" "$("${CXX:-c++}" -shared -fPIC -Ilib/include examples/peer_gloo.cc -lgloo -lpthread \
        -o "$scratch/gloo.so" 2>"$scratch/err"; echo $?)"
    for collective in allreduce reduce allgather broadcast alltoall alltoallv; do
        run ./bench_$collective -g 2 -b 64 -e 64K -f 1024 -n 5 --peer "$scratch/gloo.so" --csv "$scratch/a.csv"
        ends "bench_$collective measures gloo, and its results are right" 0
        check "bench_$collective has rows of gloo" "$(grep -q ',gloo:0.5.0,.*,pass,' "$scratch/a.csv"; echo $?)"
    done
fi

measure newer.so
says "a peer of another ABI is named" 'its ABI is 2, this program'
run ./bench_alltoallv -g 2 -b 1K -e 1K -n 5 --peer "$scratch/faulty.so"
ends "a collective that a peer lacks is no error" 0
says "a collective that a peer lacks is named" 'it has only allreduce'
for program in bench_barrier bench_init; do
    run ./$program -g 2 --peer "$scratch/faulty.so"
    ends "$program refuses peers in files" 2
    says "$program names the programs that have them" 'the benchmarks of collectives measure peers in files'
done
run ./bench_allreduce -g 4 --split mod:2 -b 1K -e 1K -n 5 --peer "$scratch/gathered.so" --csv "$scratch/a.csv"
ends "a peer works in each of two groups" 0
rows "its results are right: of both groups, and of each, in both placements" gathered:1.0 pass 6

finish
