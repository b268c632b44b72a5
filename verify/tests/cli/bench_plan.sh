#!/bin/bash
# --plan FILE of the benchmarks: a plan is measured and verified together with the built-in
# algorithms and peers; a plan that is incorrect, or does not match the run, is rejected before
# anything is measured. Run from the repository's root.
# Needs MPI.
set -u
. verify/tests/support/tap.sh

[ -x ./bench_allreduce ] && [ -x ./bench_allgather ] || {
    skip "plans" "the benchmarks are not built; run make"
    tap_done
}
short=(-n 10 -w 1 --visits 1 --backend host)
# bench RANKS COLLECTIVE OPTION...: forks the ranks, which costs a quarter of a start by mpirun.
bench() { "./bench_$2" -g "$1" "${short[@]}" "${@:3}"; }
says() { grep -qF -- "$1" "$out" "$err"; }
# rows ALGORITHM COUNT: the CSV has exactly COUNT rows of it that passed verification.
rows() {
    awk -F, -v algo="$1" -v count="$2" '
        $10 == "weir" && $11 == algo && $27 == "pass" && $28 == 0 { found++ }
        END { exit found != count }' "$scratch/a.csv"
}

# ref KEY VALUE INDEX SIZE: prints a chunk reference.
ref() { printf '{"%s": %s, "index": %d, "size": %d}' "$1" "$2" "$3" "$4"; }
# move NAME SOURCES DESTINATIONS [MORE]: prints an operation on memory channels.
move() {
    printf '{"name": "%s", "channel_type": "memory", "src_buff": [%s], "dst_buff": [%s]%s}, ' \
        "$1" "$2" "$3" "${4:-}"
}
on() { printf '{"name": "%s", "channel_type": "memory", "channel_ids": [%s]}, ' "$1" "$2"; }
fence='{"name": "nop"}, '

# rank RANK NRANKS OPERATIONS CHUNKS BUFFER: prints one rank of a plan, with one thread block.
# CHUNKS: numbers of input, output and scratch chunks; BUFFER: the buffer that peers access.
rank() {
    local peers="" ids="" remotes="" i=0 peer
    for ((peer = 0; peer < $2; peer++)); do
        [ "$peer" = "$1" ] && continue
        peers+=", $peer" ids+=", $i" i=$((i + 1))
        remotes+=", {\"rank\": $peer, \"type\": \"$5\", \"access_channel_types\": [\"memory\"]}"
    done
    read -r in out_ scratch_ <<<"$4"
    printf '{"id": %d, "input_chunks": %d, "output_chunks": %d, "scratch_chunks": %d,
  "channels": [{"channel_type": "memory", "connected_to": [%s]}], "remote_buffers": [%s],
  "threadblocks": [{"id": 0, "ops": [%s], "channels": [{"channel_type": "memory",
    "channel_ids": [%s]}], "remote_buffer_refs": [{"access_channel_type": "memory",
    "remote_buffer_ids": [%s]}]}]}' "$1" "$in" "$out_" "$scratch_" "${peers:2}" \
        "${remotes:2}" "${3%, }" "${ids:2}" "${ids:2}"
}
# plan NAME COLLECTIVE NRANKS CHUNKS BUFFER [KEYS]: prints a plan; `ops RANK NRANKS` prints the
# operations of a rank.
plan() {
    local r list=""
    for ((r = 0; r < $3; r++)); do list+=", $(rank "$r" "$3" "$(ops "$r" "$3")" "$4" "$5")"; done
    printf '{"name": "%s", "collective": "%s", "protocol": "Simple"%s, "gpus": [%s]}\n' \
        "$1" "$2" "${6:-}" "${list:2}"
}
all() { seq -s ', ' 0 $(($1 - 2)); }

# Each rank puts its block into the outputs of all peers, and copies it into its own output.
ops() {
    local i
    move copy "$(ref type '"i"' 0 1)" "$(ref type '"o"' "$1" 1)"
    printf '%s' "$fence"
    on rlxsignal "$(all "$2")"
    on rlxwait "$(all "$2")"
    printf '%s' "$fence"
    for ((i = 0; i < $2 - 1; i++)); do
        move put "$(ref type '"i"' 0 1)" "$(ref buffer_id $i "$1" 1)" ', "channel_ids": ['$i']'
    done
    printf '%s' "$fence"
    on signal "$(all "$2")"
    on wait "$(all "$2")"
}
for n in 3 4; do plan gather$n allgather $n "1 $n 0" o >"$scratch/gather$n.json"; done
plan a_name_that_is_longer_than_a_row allgather 2 "1 2 0" o \
    ', "min_message_size": 256, "max_message_size": 4096' >"$scratch/ranged.json"

# Two ranks put their inputs into each other's scratch buffer, then reduce.
ops() {
    move put "$(ref type '"i"' 0 1)" "$(ref buffer_id 0 0 1)" ', "channel_ids": [0]'
    printf '%s' "$fence"
    on signal 0
    on wait 0
    printf '%s' "$fence"
    printf '{"name": "re", "src_buff": [%s, %s], "dst_buff": [%s]%s}, %s' \
        "$(ref type '"i"' 0 1)" "$(ref type '"s"' 0 1)" "$(ref type '"o"' 0 1)" "${reduce:-}" "$fence"
    on signal 0
    on wait 0
}
plan sum2 allreduce 2 "1 1 1" s >"$scratch/sum2.json"
reduce=', "reduce_op": "max"' plan max2 allreduce 2 "1 1 1" s >"$scratch/max2.json"
# An incorrect allreduce, which ignores the peer's contribution.
ops() { move copy "$(ref type '"i"' 0 1)" "$(ref type '"o"' 0 1)"; }
plan wrong allreduce 2 "1 1 1" s >"$scratch/wrong.json"

if ! ends_with 0 ./bench_allgather --plan "$scratch/gather4.json" --list-algos &&
    says "reads no plans"; then
    skip "plans" "built without jansson"
    tap_done
fi
check "--list-algos shows the plan" says "plan:gather4         any      4        plan gather4 of"
check "--list-algos with a plan also shows the built-in algorithms" says "packet"

for n in 3 4; do
    check "an allgather plan of $n ranks is correct, also for sizes that its chunks do not divide" \
        ends_with 0 bench $n allgather \
        --plan "$scratch/gather$n.json" -b 1000 -e 30000 -f 30 -d int8 --csv "$scratch/a.csv"
    check "the CSV has the allgather plan of $n ranks, out of place and in place" \
        rows plan:gather$n 4
done
check "an allreduce plan runs in graphs together with a built-in algorithm and MPI" \
    ends_with 0 ci/mpirun -np 2 ./bench_allreduce "${short[@]}" \
    --plan "$scratch/sum2.json" --algo auto --peer mpi -G 2 -b 8 -e 32K -f 4096 --csv "$scratch/a.csv"
check "the CSV has rows of the allreduce plan and of MPI" \
    eval 'rows plan:sum2 4 && grep -q ",mpi:" "$scratch/a.csv"'
check "a plan without a fixed operation runs every operation, with --determinism" \
    ends_with 0 bench 2 allreduce --plan "$scratch/sum2.json" \
    -b 4K -e 4K -o all -d half --determinism
check "a plan with a fixed operation runs that operation" \
    ends_with 0 bench 2 allreduce --plan "$scratch/max2.json" \
    -b 4K -e 4K -o max
check "a plan with a fixed operation is rejected for another operation" \
    ends_with 2 bench 2 allreduce --plan "$scratch/max2.json" -b 4K -e 4K
check "the plan's fixed operation is named in the error" says "reduces with max"
# refuses WORD...: the command $arguments ends with 2, prints every word, and measures nothing.
refuses() {
    local word
    ends_with 2 "${arguments[@]}" || return 1
    for word; do says "$word" || return 1; done
    ! says "Avg bus" && ! says "out-of-place"
}
arguments=(./bench_allgather --plan "$scratch/gather4.json")
check "a plan for another number of ranks is rejected with the command to use" \
    refuses "is for 4 ranks" "has 1" "mpirun -np 4"
arguments=(bench 2 allreduce --plan "$scratch/wrong.json")
check "an incorrect plan is rejected with rank, operation and missing contribution" \
    refuses "rank 0" "op 0 (copy)" "the contribution of rank 1 is missing"
arguments=(./bench_allreduce --plan "$scratch/gather4.json")
check "a plan for another collective is rejected" \
    refuses "is a plan for allgather" "measures allreduce"
arguments=(./bench_allgather --plan "$scratch/ranged.json" -b 256 -e 8K)
check "message sizes outside the plan's range are rejected" refuses "256 to 4096 bytes" "-e is 8192"
check "message sizes within the plan's range are measured" \
    ends_with 0 bench 2 allgather --plan "$scratch/ranged.json" -b 256 -e 4K -f 16 \
    --csv "$scratch/a.csv"
check "a plan's long name is truncated in the CSV" rows plan:a_name_that_is_longer_than 4
# The contract of buffers, docs/user/buffers.md.
./weir-plan make alltoall_direct -n 2 --in-place -o "$scratch/alltoall.json"
./weir-plan make reduce_chain -n 2 --in-place -o "$scratch/reduce.json"
check "an alltoall plan in place is validated in both placements, beside MPI" \
    ends_with 0 ci/mpirun -np 2 ./bench_alltoall "${short[@]}" --plan "$scratch/alltoall.json" --algo auto --peer mpi \
    -b 1000 -e 30000 -f 30 -d int8 --csv "$scratch/a.csv"
check "the CSV has the alltoall plan and MPI in both placements, the built-in algorithm in one" \
    eval 'rows plan:alltoall_direct 4 &&
        [ "$(grep -c "mpi:.*,pass," "$scratch/a.csv")" = 4 ] &&
        [ "$(grep -v ",plan:" "$scratch/a.csv" | grep -c ",weir,.*,out,.*,pass,")" = 2 ] &&
        ! grep -v ",plan:" "$scratch/a.csv" | grep ",weir,.*,in,"'
check "wrong data of an alltoall in place are found" \
    ends_with 1 bench 2 alltoall --plan "$scratch/alltoall.json" -b 4K -e 4K --inject drop-chunk
check "their placement is reported" \
    says "in place: rank 1" "never written (still this rank's input)"
check "a reduce plan in place leaves the output of other ranks unchanged out of place" \
    ends_with 0 bench 2 reduce --plan "$scratch/reduce.json" -b 4K -e 4K -o avg --csv "$scratch/a.csv"
check "the CSV has the reduce plan in both placements" rows plan:reduce_chain 2
# Both ranks exchange the block that the peer reduces, in place; then overwrite it.
ops() {
    move put "$(ref type '"i"' $((1 - $1)) 1)" "$(ref buffer_id 0 0 1)" ', "channel_ids": [0]'
    printf '%s' "$fence"
    on signal 0
    on wait 0
    printf '%s' "$fence"
    printf '{"name": "re", "src_buff": [%s, %s], "dst_buff": [%s]}, %s' \
        "$(ref type '"i"' "$1" 1)" "$(ref type '"s"' 0 1)" "$(ref type '"o"' 0 1)" "$fence"
    move copy "$(ref type '"s"' 0 1)" "$(ref type '"i"' $((1 - $1)) 1)"
    printf '%s' "$fence"
    on signal 0
    on wait 0
}
plan overwrites reduce_scatter 2 "2 1 1" s ', "inplace": true' >"$scratch/overwrites.json"
check "a reduce_scatter in place may overwrite the blocks of other ranks" \
    ends_with 0 bench 2 reduce_scatter --plan "$scratch/overwrites.json" -b 4K -e 4K
plan overwrites reduce_scatter 2 "2 1 1" s >"$scratch/overwrites.json"
arguments=(bench 2 reduce_scatter --plan "$scratch/overwrites.json" -b 4K -e 4K)
check "out of place it may not" refuses "which the caller keeps" "op 7 (copy)"
echo '{"name": "x",' >"$scratch/bad.json"
arguments=(./bench_allgather --plan "$scratch/bad.json")
check "malformed JSON is rejected with file and line" \
    refuses "bad.json:2:" "expected a plan in JSON"
# Rank 1 puts its input into the output of rank 0.
ops() {
    [ "$1" = 1 ] && move copy "$(ref type '"i"' 0 1)" "$(ref type '"o"' 0 1)"
    printf '%s' "$fence"
    on rlxsignal 0
    on rlxwait 0
    printf '%s' "$fence"
    [ "$1" = 1 ] && move put "$(ref type '"i"' 0 1)" "$(ref buffer_id 0 0 1)" ', "channel_ids": [0]'
    printf '%s' "$fence"
    on signal 0
    on wait 0
}
plan rooted broadcast 2 "1 1 0" o >"$scratch/rooted.json"
arguments=(bench 2 broadcast --plan "$scratch/rooted.json")
check "a rooted plan is rejected for another root, and its root is named" \
    refuses "its root is rank 1: give -r 1"
check "a rooted plan runs with its root" ends_with 0 "${arguments[@]}" -r 1 -b 4K -e 4K
arguments=(./bench_broadcast --plan "$scratch/bad.json" -r all)
check "-r all is rejected with a plan" refuses "a plan has one root"
arguments=(./bench_alltoallv --plan "$scratch/gather4.json")
check "--plan is rejected by bench_alltoallv" refuses "equal blocks" bench_alltoall
arguments=(./bench_allgather --plan "$scratch/gather4.json" --tune "$scratch/t")
check "--plan together with --tune is rejected" refuses "leave one out"

# Plans in a tuning table, which weir's selection uses.
mkdir "$scratch/plans" "$scratch/other"
./weir-plan make allreduce_oneshot -n 2 -o "$scratch/plans/oneshot.json"
./weir-plan make allreduce_oneshot -n 3 -o "$scratch/plans/three.json"
./weir-plan make allgather_ring -n 2 -o "$scratch/plans/ring.json"
./weir-plan make allreduce_direct -n 2 -o "$scratch/other/oneshot.json"
cp "$scratch/wrong.json" "$scratch/bad.json" "$scratch/plans"
selected() { grep -q "^# Algorithms of weir   : $1" "$out"; }
warnings() { [ "$(grep -c "weir\[[0-9]\] warn: .*table:$1" "$err")" = "$2" ]; }
cat >"$scratch/table" <<END
# collective max_ranks cores max_bytes algorithm
allreduce 2 any 1K plan:plans/oneshot.json
allreduce 2 any 8K packet
allreduce 2 any 64K plan:$scratch/plans/oneshot.json
END
export WEIR_TUNING=$scratch/table
check "auto serves calls with the plans of a tuning table, and between them with algorithms" \
    ends_with 0 bench 2 allreduce -b 512 -e 512K -f 8 --csv "$scratch/a.csv"
check "sizes beyond the table's rows go to the built-in table" \
    selected "plan:allreduce_oneshot 512 to 32768 B, packet 4096 B, [a-z]* 262144 B"
check "the CSV names the plan" rows plan:allreduce_oneshot 4
check "sizes that the plan's chunks do not divide are correct" \
    ends_with 0 bench 2 allreduce -d int8 -b 1 -e 999 -i 237 --csv "$scratch/a.csv"
check "and served by the plan" rows plan:allreduce_oneshot 10
check "averages go to the next row" ends_with 0 bench 2 allreduce -o avg -b 512 -e 512
check "which names an algorithm" selected "packet 512 B"
check "a plan for another number of ranks is no fault" \
    eval 'ends_with 0 bench 1 allreduce -b 512 -e 512 && warnings "" 0'
cat >"$scratch/table" <<END
allreduce 2 any 1K plan:plans/none.json
allreduce 2 any 8K plan:plans/wrong.json
allreduce 2 any 64K plan:plans/bad.json
allreduce 2 any - plan:plans/ring.json
END
check "plans that cannot be used are skipped" ends_with 0 bench 2 allreduce -b 512 -e 512K -f 8
check "each with one warning that names the table's line and the reason" \
    eval 'warnings "1: .*No such file" 1 && warnings "2: .*rank 1 is missing" 1 &&
        warnings "3: .*expected a plan in JSON" 1 && warnings "4: .*plan for allgather" 1'
check "and built-in algorithms serve the calls" \
    eval 'says "# Algorithms of weir" && ! says "plan:allreduce"'
# by_rank COMMAND...: rank R reads the table in the folder rR.
by_rank() {
    # shellcheck disable=SC2016
    bash -c 'ci/mpirun -np 1 env WEIR_TUNING="$0/r0/table" "${@}" : -np 1 env WEIR_TUNING="$0/r1/table" "${@}"' \
        "$scratch" "$@"
}
mkdir "$scratch/r0" "$scratch/r1"
echo 'allreduce 2 any - plan:oneshot.json' | tee "$scratch/r0/table" >"$scratch/r1/table"
cp "$scratch/plans/oneshot.json" "$scratch/r0"
cp "$scratch/other/oneshot.json" "$scratch/r1"
unset WEIR_TUNING
check "ranks that read different plans skip the row" \
    ends_with 0 by_rank ./bench_allreduce "${short[@]}" -b 512 -e 512
check "with one warning" eval 'warnings "1: .*differs between rank 0 and rank 1" 1 && ! says "plan:"'
rm "$scratch/r1/oneshot.json"
check "a plan that one rank cannot read is skipped on all" \
    ends_with 0 by_rank ./bench_allreduce "${short[@]}" -b 512 -e 512
check "with a warning of that rank" \
    eval 'grep -q "weir\[1\] warn: .*r1/table:1: the row is skipped: cannot read" "$err" && ! says "plan:"'
echo 'alltoallv 2 any - plan:oneshot.json' >"$scratch/r0/table"
check "a plan for alltoallv is an error of the table" \
    eval '! WEIR_TUNING=$scratch/r0/table bench 2 alltoallv -b 512 -e 512 >"$out" 2>"$err" &&
        says "table:1: plan:oneshot.json of alltoallv"'

# Across nodes, emulated by WEIR_HOSTID: port channels serve, memory channels cannot.
by_node() {
    ci/mpirun -np 2 env WEIR_HOSTID=a WEIR_TRANSPORT=tcp "$@" : -np 2 env WEIR_HOSTID=b WEIR_TRANSPORT=tcp "$@"
}
mkdir "$scratch/nodes"
./weir-plan make allreduce_hierarchical -n 4 -o "$scratch/nodes/hierarchical.json"
./weir-plan make allreduce_oneshot -n 4 -o "$scratch/nodes/oneshot.json"
printf 'allreduce 4 net %s\n' '2K plan:nodes/oneshot.json' '- plan:nodes/hierarchical.json' >"$scratch/table"
export WEIR_TUNING=$scratch/table
check "a plan with port channels serves calls across nodes" \
    ends_with 0 by_node ./bench_allreduce "${short[@]}" -b 1K -e 64K -f 64
check "a plan with memory channels between nodes is skipped, and calls go to the next row" \
    eval 'selected "plan:allreduce_hierarchical 1024 to 65536 B" && warnings "1: the row is skipped from now on: .*on another node" 1'
unset WEIR_TUNING
check "--tune measures a folder's plans across nodes" ends_with 0 by_node ./bench_allreduce "${short[@]}" \
    --tune="$scratch/tuned_net" --plan-dir "$scratch/nodes" -b 64K -e 64K --csv "$scratch/a.csv"
check "and leaves out a plan that they cannot run" \
    eval 'rows plan:allreduce_hierarchical 2 && says "not measured: rank 0 failed" && says "on another node"'

# A plan that the checker rejects, although this executor happens to run it rightly.
./weir-plan make allreduce_ring -n 2 -o "$scratch/relaxed.json"
sed '/"type": "i",/{n;s/"index": 0/"index": 1/}' "$scratch/relaxed.json" >"$scratch/wrong_data.json"
sed -i 's/"name": "signal"/"name": "rlxsignal"/' "$scratch/relaxed.json"
arguments=(./bench_allreduce -g 2 "${short[@]}" -b 64 -e 64 --plan "$scratch/relaxed.json")
check "a plan that is not proved is rejected" ends_with 2 "${arguments[@]}"
check "--unproved measures it" ends_with 0 "${arguments[@]}" --unproved --csv "$scratch/a.csv"
check "and says that it was rejected, with the violation" \
    says "--unproved: the plan is rejected and measured nevertheless" "rank "
check "and checks it" rows plan:allreduce_ring 2
check "--unproved finds wrong data of a plan that is wrong" \
    ends_with 1 ./bench_allreduce -g 2 "${short[@]}" -b 64 -e 64 --plan "$scratch/wrong_data.json" --unproved
check "and reports it" says "wrong data"
arguments=(./bench_allreduce --plan "$scratch/relaxed.json" --unproved --verify off)
check "--unproved needs verification" refuses "--unproved needs verification"
arguments=(./bench_allreduce --unproved)
check "--unproved needs --plan" refuses "it is for --plan FILE"

# --tune with plans.
arguments=(./bench_allgather --plan-dir "$scratch/plans")
check "--plan-dir without --tune is rejected" refuses "it is for --tune FILE"
arguments=(./bench_allreduce --plan-dir "$scratch/plans" --tune="$scratch/tuned" -o avg)
check "--plan-dir is rejected for averages" refuses "plans serve neither alltoallv nor averages"
arguments=(bench 2 allreduce --plan-dir "$scratch/none" --tune="$scratch/tuned" -b 512 -e 512)
check "--plan-dir is rejected if it cannot be read" refuses "none: it cannot be read"
check "--tune measures the plans of --plan-dir beside the algorithms" \
    ends_with 0 bench 2 allreduce --tune="$scratch/tuned" --plan-dir "$scratch/plans" \
    -b 512 -e 32K -f 64 --csv "$scratch/a.csv"
check "a line for the plan says where it was selected, or how much slower it was" \
    eval '[ "$(grep -cE "^# plan:plans/[a-z]+.json *: (selected for [0-9]|not selected: at best [0-9.]+% (slower|faster) than [a-z_0-9]+, for )" "$out")" -eq 1 ]'
check "the CSV has the plan for this collective and number of ranks, and the algorithms" \
    eval 'rows plan:allreduce_oneshot 4 && rows fused 4 && ! says "three.json"'
check "faulty plans are reported and not measured" \
    says "not measured: $scratch/plans/wrong.json" "not measured: $scratch/plans/bad.json"
check "the library reads the table" \
    eval 'WEIR_TUNING=$scratch/tuned ends_with 0 bench 2 allreduce -b 512 -e 32K -f 64 && ! says "warn:"'

# once COMMAND ...: each of its two ranks reads and proves one plan once.
once() {
    WEIR_LOG=debug "$@" >"$out" 2>"$err" &&
        [ "$(grep -c 'debug: plan .*: read$' "$err")" -eq 2 ] && [ "$(grep -c 'debug: plan .*: proved$' "$err")" -eq 2 ]
}
mkdir "$scratch/once"
./weir-plan make allreduce_oneshot -n 2 -o "$scratch/once/allreduce.json"
./weir-plan make broadcast_direct -n 2 -o "$scratch/broadcast.json"
printf 'broadcast 2 own - plan:broadcast.json\nbroadcast 2 shared - plan:broadcast.json\n' >"$scratch/once.table"
check "a rank reads and proves the plan of --plan once" \
    once ./bench_allreduce -g 2 "${short[@]}" -b 64 -e 64 --plan "$scratch/once/allreduce.json"
check "a rank reads and proves a plan with a root once" \
    once ./bench_broadcast -g 2 "${short[@]}" -b 64 -e 64 --plan "$scratch/broadcast.json"
check "a rank reads and proves each plan of --plan-dir once" \
    once ./bench_allreduce -g 2 "${short[@]}" -b 64 -e 64 --tune="$scratch/tuned_once" --plan-dir "$scratch/once"
check "a rank reads and proves the plan of a tuning table's row once" \
    once env WEIR_TUNING="$scratch/once.table" ./bench_broadcast -g 2 "${short[@]}" -b 64 -e 64
tap_done
