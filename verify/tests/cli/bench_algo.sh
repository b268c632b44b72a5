#!/bin/bash
# --algo FILE:NAME of the benchmarks: a kernel from a source file is measured and verified
# whatever characters the file's name contains; a source that does not compile, a missing file
# and a missing kernel are usage errors on every rank; wrong results of a kernel are found.
# Run from the repository's root.
# Needs MPI.
set -u
. verify/tests/support/tap.sh

[ -x ./bench_allgather ] || {
    skip "kernels from source files" "bench_allgather is not built; run make"
    tap_done
}
export XDG_CACHE_HOME=$scratch
kernels=verify/tests/gpu/bench_kernels.cu
short=(-n 10 -w 1 --visits 1 --backend host)

# bench RANKS COLLECTIVE OPTION...: forks the ranks, which costs a quarter of a start by mpirun.
bench() { "./bench_$2" -g "$1" "${short[@]}" "${@:3}"; }
# rows KERNEL COUNT: the CSV has exactly COUNT rows of that kernel that passed verification.
rows() {
    awk -F, -v kernel="$1" -v count="$2" '
        $11 == kernel && $27 == "pass" && $28 == 0 { found++ }
        END { exit found != count }' "$scratch/a.csv"
}
says() { grep -qF -- "$1" "$out" "$err"; }

example=lib/algo/examples/allgather.cu
check "an allgather kernel from a file is measured together with the built-in algorithms" \
    ends_with 0 bench 4 allgather \
    --algo "auto,$example:allgather" -b 64 -e 256K -f 64 --csv "$scratch/a.csv"
check "the CSV has the kernel's passing rows, out of place and in place" rows allgather 6
check "the example kernel has at most 66 lines" test "$(wc -l <$example)" -le 66
check "--list-algos accepts a kernel from a file" \
    ends_with 0 ./bench_allgather --algo "$example:allgather" --list-algos
check "--list-algos shows the kernel and the built-in algorithms" \
    eval 'says "kernel of $example" && says "packet"'

odd="$scratch/a b,c'd\"e\$(touch ran);\`touch ran\`.cu"
cp "$example" "$odd"
check "a file whose name has shell and CSV metacharacters is compiled and measured" \
    ends_with 0 bench 3 allgather --algo "$odd:allgather" \
    -b 300 -e 300 -d int8 --csv "$scratch/a.csv"
check "a file whose name has shell metacharacters gives passing rows and runs no command" \
    eval 'rows allgather 2 && [ ! -e ran ]'

check "a broadcast kernel with root 1 gives correct results" \
    ends_with 0 bench 2 broadcast --algo "$kernels:broadcast" -b 4 -e 4K -f 32 -r 1
check "an alltoallv kernel gives correct results" \
    ends_with 0 bench 3 alltoallv --algo "$kernels:exchange" -b 24 -e 9K -f 16
check "a sendrecv kernel gives correct results" \
    ends_with 0 bench 2 sendrecv --algo "$kernels:exchange" -b 4 -e 4K -f 32
check "an allreduce kernel gives correct results" \
    ends_with 0 bench 3 allreduce --algo "$kernels:allreduce" -d int32 \
    -b 4 -e 4K -f 32
# A kernel of the user has its own summaries after the table: the peers and weir's selection, relative to the kernel.
sed 's/float/int32_t/g; s/WEIR_FLOAT/WEIR_INT32/' examples/peer.c >"$scratch/peer.c"
${CC:-cc} -std=c11 -Ilib/include -shared -fPIC -o "$scratch/gathered.so" "$scratch/peer.c"
check "a kernel of the user is measured next to a peer" ends_with 0 bench 2 allreduce \
    --algo "auto,examples/own_kernel.cu:add_all" --peer "$scratch/gathered.so" -d int32 -b 1K -e 4K -f 4 --csv "$scratch/a.csv"
# summed NAME SUBJECT A B: a summary has the geometric mean of A's medians divided by B's in the CSV, whose numbers are
# rounded. A and B: "add_all", a peer's name, or "auto", which is what weir selected.
summed() {
    awk -F, -v name="$1" -v subject="$2" -v a="$3" -v b="$4" -v text="$out" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        { who = $at["contender"] != "weir" ? $at["contender"] : $at["algo"] == "add_all" ? "add_all" : "auto"
          us[who, $at["bytes"] $at["placement"]] = $at["median_us"]; cells[$at["bytes"] $at["placement"]] }
        END {
            for (cell in cells) { sum += log(us[a, cell] / us[b, cell]); n++ }
            mean = exp(sum / n)
            start = " : " (mean >= 1 ? name : subject) " takes "
            end = "x as long as " (mean >= 1 ? subject : name) " (geometric mean of 4 rows); worst for " subject ": "
            while ((getline line <text) > 0)
                if (index(line, "# " name " ") == 1 && (from = index(line, start)) && (to = index(line, end))) {
                    printed = substr(line, from + length(start), to - from - length(start))
                    ratio = printed / (mean >= 1 ? mean : 1 / mean)
                    found += ratio > 0.97 && ratio < 1.03
                }
            exit n != 4 || found != 1 }' "$scratch/a.csv"
}
check "the summary compares the peer with weir" summed gathered:1.0 weir gathered:1.0 auto
check "another compares the peer with the kernel" summed gathered:1.0 add_all gathered:1.0 add_all
check "another compares weir's selection with the kernel" summed weir add_all auto add_all
check "a run without a kernel has no summary of one" eval \
    'ends_with 0 bench 2 allreduce --algo all --peer "$scratch/gathered.so" -d int32 -b 1K -e 1K && [ "$(grep -c "geometric mean" "$out")" -eq 1 ]'

check "a kernel with wrong results ends with exit code 1" \
    ends_with 1 ./bench_allreduce "${short[@]}" \
    --algo "$kernels:wrong" -b 4K -e 4K
check "a kernel with wrong results is reported with the wrong element" says "element"

printf '#include "weir/kernel.h"\nWEIR_KERNEL(k, weir_kernel_args, args)\n{ oops }\n' \
    >"$scratch/b.cu"
check "a kernel that does not compile is a usage error" \
    ends_with 2 ./bench_allgather --algo "$scratch/b.cu:k"
check "a kernel that does not compile is reported with file and line, and nothing is measured" \
    eval 'grep -q "b.cu:3:.*oops" "$err" && ! says "Avg bus"'
check "a kernel that the file does not define is a usage error" \
    ends_with 2 ./bench_allgather --algo "$example:gather"
check "a missing kernel is reported with the kernels that the file defines" says "it has: allgather"
check "a missing source file is a usage error" \
    ends_with 2 ./bench_allgather --algo "$scratch/absent.cu:k"
check "a missing source file is reported in one line" one_line_says "absent.cu:k" "No such file"
check "an empty kernel name is a usage error" ends_with 2 ./bench_allgather --algo "$example:"
check "an unknown algorithm is reported with the known names and the FILE.cu:NAME form" \
    eval 'ends_with 2 ./bench_allgather --algo nope && one_line_says nope packet FILE.cu:NAME'
list=$(./bench_allreduce --list-algos)
host=$(awk '$2 == "host" { printf ", %s", $1 }' <<<"$list")
net=$(awk '$2 == "host" { host[$1] } $2 == "net" && !($1 in host) { printf "%s%s", sep, $1; sep = ", " }' \
    <<<"$list")
check "the table names algorithms of one node and across nodes" test -n "$host" -a -n "$net"
check "the known algorithms are listed once, those that need several nodes separately" \
    eval 'ends_with 2 ./bench_allreduce --backend host --algo nope &&
        one_line_says "auto, all$host; only across nodes: $net; or a"'
tap_done
