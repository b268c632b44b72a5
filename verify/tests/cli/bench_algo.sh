#!/bin/bash
# Kernels of files in the benchmarks: --algo FILE:NAME measures and checks them, whatever
# the file is called; what does not compile, or is not there, is a usage error on every rank,
# and a wrong kernel is found out.
set -u
. verify/tests/support/tap.sh

[ -x ./bench_allgather ] || {
    skip "kernels of files" "bench_allgather is not built; run make"
    tap_done
}
export XDG_CACHE_HOME=$scratch
kernels=verify/tests/gpu/bench_kernels.cu
short=(-n 10 -w 1 --visits 1 --backend host)

bench() { ci/mpirun -np "$1" "./bench_$2" "${short[@]}" "${@:3}"; }
# The CSV's rows of the kernel $1: how many, none of them failed.
rows() {
    awk -F, -v kernel="$1" -v count="$2" '
        $11 == kernel && $27 == "pass" && $28 == 0 { found++ }
        END { exit found != count }' "$scratch/a.csv"
}
says() { grep -qF -- "$1" "$out" "$err"; }

example=lib/algo/examples/allgather.cu
check "an allgather is measured beside weir's own" ends_with 0 bench 4 allgather \
    --algo "auto,$example:allgather" -b 64 -e 256K -f 64 --csv "$scratch/a.csv"
check "and told in the CSV, out of place and in place" rows allgather 6
check "the example has some 60 lines" test "$(wc -l <$example)" -le 66
check "--list-algos shows it" ends_with 0 ./bench_allgather --algo "$example:allgather" --list-algos
check "with the built-in ones" eval 'says "kernel of $example" && says "packet"'

odd="$scratch/a b,c'd\"e\$(touch ran);\`touch ran\`.cu"
cp "$example" "$odd"
check "a file of any name" ends_with 0 bench 3 allgather --algo "$odd:allgather" \
    -b 300 -e 300 -d int8 --csv "$scratch/a.csv"
check "is a kernel of that file, not of another" eval 'rows allgather 2 && [ ! -e ran ]'

check "a broadcast" ends_with 0 bench 2 broadcast --algo "$kernels:broadcast" -b 4 -e 4K -f 32 -r 1
check "an alltoallv" ends_with 0 bench 3 alltoallv --algo "$kernels:exchange" -b 24 -e 9K -f 16
check "a sendrecv" ends_with 0 bench 2 sendrecv --algo "$kernels:exchange" -b 4 -e 4K -f 32
check "an allreduce" ends_with 0 bench 3 allreduce --algo "$kernels:allreduce" -d int32 \
    -b 4 -e 4K -f 32
check "a kernel that is wrong" ends_with 1 ./bench_allreduce "${short[@]}" \
    --algo "$kernels:wrong" -b 4K -e 4K
check "is told with its wrong element" says "element"

printf '#include "weir/kernel.h"\nWEIR_KERNEL(k, weir_kernel_args, args)\n{ oops }\n' \
    >"$scratch/b.cu"
check "a source that does not compile" ends_with 2 ./bench_allgather --algo "$scratch/b.cu:k"
check "is told with its place" eval 'grep -q "b.cu:3:.*oops" "$err" && ! says "Avg bus"'
check "a kernel that is not there" ends_with 2 ./bench_allgather --algo "$example:gather"
check "is told with those that are" says "it has: allgather"
check "a file that is not there" ends_with 2 ./bench_allgather --algo "$scratch/absent.cu:k"
check "is told before anything starts" one_line_says "absent.cu:k" "No such file"
check "a name that is none" ends_with 2 ./bench_allgather --algo "$example:"
check "an unknown word still names what is known" \
    eval 'ends_with 2 ./bench_allgather --algo nope && one_line_says nope packet FILE.cu:NAME'
list=$(./bench_allreduce --list-algos)
host=$(awk '$2 == "host" { printf ", %s", $1 }' <<<"$list")
net=$(awk '$2 == "host" { host[$1] } $2 == "net" && !($1 in host) { printf "%s%s", sep, $1; sep = ", " }' \
    <<<"$list")
check "the table names algorithms of one node and across nodes" test -n "$host" -a -n "$net"
check "what is known is named once, what needs several nodes apart" \
    eval 'ends_with 2 ./bench_allreduce --backend host --algo nope &&
        one_line_says "auto, all$host; only across nodes: $net; or a"'
tap_done
