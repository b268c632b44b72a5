#!/bin/bash
# The command line of weir-plan: the commands show, cost, check, make and list, and errors, each one
# line with the place in the plan, a remedy and the documented exit code. Run from the
# repository's root; WEIR_PLAN names another program.
. verify/tests/support/tap.sh
. verify/tests/support/weir_plan.sh

# plan OPERATIONS_0 OPERATIONS_1: prints an allgather plan of two ranks with one thread block each,
# which runs the rank's operations (may be empty), and one memory channel in each direction.
plan() {
    local rank list
    printf '{"name": "%s", "collective": "allgather", "protocol": "Simple", "gpus": [' \
        "${name:-exchange}"
    for rank in 0 1; do
        [ $rank = 0 ] && list=$1 || list=$2
        printf '%s{"id": %d, "input_chunks": 2, "output_chunks": 4, "scratch_chunks": 4,
  "channels": [{"channel_type": "memory", "connected_to": [%d]}],
  "remote_buffers": [{"rank": %d, "type": "o", "access_channel_types": ["memory"]}],
  "threadblocks": [{"id": 0, "ops": [%s],
    "channels": [{"channel_type": "memory", "channel_ids": [0]}],
    "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [0]}]}]}' \
            "$([ $rank = 1 ] && echo ', ')" $rank $((1 - rank)) $((1 - rank)) "$list"
    done
    echo ']}'
}

# copy and put INDEX COUNT DESTINATION: print an operation on COUNT chunks from INDEX.
copy() {
    printf '{"name": "copy", "src_buff": [{"type": "i", "index": %d, "size": %d}],
      "dst_buff": [{"type": "o", "index": %d, "size": %d}]}' "$1" "$2" "$3" "$2"
}
put() {
    printf '{"name": "put", "channel_type": "memory", "channel_ids": [0],
      "src_buff": [{"type": "i", "index": %d, "size": %d}],
      "dst_buff": [{"buffer_id": 0, "index": %d, "size": %d}]}' "$1" "$2" "$3" "$2"
}
on_channel() {
    printf '{"name": "%s", "channel_type": "memory", "channel_ids": [0]}' "$1"
}
exchange=$(on_channel signal), fence='{"name": "nop"}'
plan "$(put 0 2 0), $(copy 0 2 0), $fence, $exchange $(on_channel wait)" \
    "$(put 0 2 2), $(copy 0 2 2), $fence, $exchange $(on_channel wait)" >"$scratch/good.json"

prints() {
    local word
    ends_with 0 "$program" "${arguments[@]}" || return 1
    [ ! -s "$err" ] || return 1
    for word; do grep -qF -- "$word" "$out" || { echo "# without: $word"; return 1; }; done
}

# -------------------------------------------------------------------- the command line

arguments=(--help)
check "--help names each command and option" prints "show FILE" "cost FILE" "check FILE ..." "make NAME" list --bytes --rank \
    --summary --topology --svg h200x4 host "exit codes"
arguments=(--version)
check "--version prints the version" prints "weir-plan: weir "
refuses "a missing command is a usage error" 2 "" "expected a command" --help
refuses "an unknown command is a usage error" 2 "frobnicate x" "unknown command frobnicate"
refuses "an unknown option is a usage error" 2 "show --frobnicate x" "unknown option --frobnicate"
refuses "an option before the command is a usage error" 2 "--rank 1 show x" "unknown option --rank"
refuses "a missing FILE is a usage error" 2 "show" "expected FILE"
refuses "two files are a usage error" 2 "show a b" "expected FILE" "got 2"
for command in check fix cost; do
    refuses "$command: a missing FILE is a usage error" 2 "$command" "$command: expected FILE" "got 0"
done
refuses "make: a missing NAME is a usage error" 2 "make" "make: expected NAME" "got 0"
for command in fix cost make; do
    refuses "$command: two operands are a usage error" 2 "$command a b" "$command: expected" "got 2"
done
for command in list moe; do
    refuses "$command: an operand is a usage error" 2 "$command a" "$command: expected no operands" "got 1"
done
refuses "an option without its value is a usage error" 2 "show x --rank" "--rank needs a value"
refuses "a flag with a value is a usage error" 2 "show --summary=1 x" "--summary takes no value"
refuses "a malformed rank is a usage error" 2 "show --rank 1x x" "--rank 1x"
refuses "a malformed size is a usage error" 2 "show --bytes 1Q x" "--bytes 1Q"
refuses "a size of 0 is a usage error" 2 "show --bytes 0 x" "--bytes 0"

if "$program" show "$scratch/good.json" 2>&1 | grep -q "this build reads no plans"; then
    skip "plans" "built without jansson"
    tap_done
fi
# --------------------------------------------------------------------- malformed plans
refuses "a rank outside the plan is reported with the valid ranks" 2 "show --rank 2 $scratch/good.json" "no rank 2" "0 to 1"
refuses "a size that the chunks do not divide is reported" 2 "show --bytes 1001 $scratch/good.json" "1001" \
    "multiple"
refuses "a missing file ends with 3" 3 "show $scratch/none.json" "none.json" "No such file"
refuses "a folder as FILE ends with 3" 3 "show $scratch" "cannot read"

sed 's/"good"//; s/"gpus": \[/"gpus": [,/' "$scratch/good.json" >"$scratch/bad.json"
refuses "malformed JSON is reported with file and line" 2 "show $scratch/bad.json" "bad.json:1:" "JSON"
head -c 400 "$scratch/good.json" >"$scratch/bad.json"
refuses "a truncated file is reported as malformed JSON" 2 "show $scratch/bad.json" "bad.json:" "JSON"
plan "$(put 0 2 0), $(on_channel signol)" "" >"$scratch/bad.json"
refuses "an unknown operation is reported with rank, thread block and index" 2 "show $scratch/bad.json" "rank 0, thread block 0: op 1: unknown operation 'signol'"
plan "$(put 0 2 0), {}" "" >"$scratch/bad.json"
refuses "an operation without a name is reported with rank, thread block and index" 2 "show $scratch/bad.json" "thread block 0: op 1: name is missing"
plan "$(put 0 2 3)" "" >"$scratch/bad.json"
refuses "chunks out of range are reported with the operation" 2 "show $scratch/bad.json" "op 0 (put)" "chunks 3 to 4" "it has 4"
plan "" "$(on_channel wait | sed 's/\[0\]/[1]/')" >"$scratch/bad.json"
refuses "a channel out of range is reported with the rank" 2 "show $scratch/bad.json" "rank 1" "channel_ids[0] is 1"
sed 's/"connected_to": \[0\]/"connected_to": [7]/' "$scratch/good.json" >"$scratch/bad.json"
refuses "a peer rank out of range is reported with the valid ranks" 2 "show $scratch/bad.json" "names rank 7" "ranks 0 to 1"

echo '[]' >"$scratch/list.json"
refuses "a document that is no object" 2 "show $scratch/list.json" "not a JSON object; expected a plan"

# ------------------------------------------------------------------------------- show

arguments=(show --bytes 4096 "$scratch/good.json")
check "show: prints the plan's summary" \
    prints "plan         exchange" "allgather of 2 ranks, out of place" \
    "operations   10: 2 nop, 2 signal, 2 wait, 2 put, 2 copy" "any bytes"
check "show: prints the bytes that ranks move" \
    prints "2048 bytes  0>1 1>0" "2048 bytes  within 0 1" \
    "chunks of 1024 bytes"
check "show: prints operations with chunks and peers" prints "put       i[0..1] -> rank 1 o[0..1]" \
    "copy      i[0..1] -> o[2..3]" "signal    to rank 1" "wait      for rank 0" "2 nop"

# Counts, chunks, bytes and times of show and cost follow from the plan's file.
if command -v python3 >/dev/null 2>&1; then
    for made in allreduce_ring allreduce_direct allgather_direct alltoall_packets; do
        "$program" make $made -n 3 -o "$scratch/made.json"
        check "show, cost: the numbers of $made follow from the plan" ends_with 0 \
            python3 -B verify/tests/support/tool_numbers.py plan "$program" "$scratch/made.json" 196608
    done
fi

is_xml() {
    if command -v xmllint >/dev/null 2>&1; then
        xmllint --noout "$1"
    elif command -v python3 >/dev/null 2>&1; then
        python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$1"
    else
        grep -q '^<svg' "$1" && [ "$(tail -n 1 "$1")" = "</svg>" ]
    fi
}
draws() {
    prints "${words[@]}" && is_xml "$out" && ! grep -qi "<script" "$out" &&
        [ "$(grep -c '<title>rank [01], thread block 0, op ' "$out")" -eq "$1" ]
}
arguments=(show --svg --bytes 64K "$scratch/good.json")
words=("</svg>" 'role="img"' '<title id="title">' '<desc id="desc">' "prefers-color-scheme: dark" \
    "put       i[0..1] -&gt; rank 1 o[0..1]" "memory of rank 1" "critical path")
check "show --svg: draws well-formed XML with a box for each operation" draws 10
check "show --svg: draws arrows from signals to waits, and from puts to their destinations" \
    [ "$(grep -c 'class="arrow" .*d="M[0-9]' "$out")/$(grep -c '^<path class="arrow land"' "$out")" = 3/3 ]
"$program" make allgather_direct -n 48 -o "$scratch/large.json"
printf 'base = host\nranks = 48\n' >"$scratch/machine"
refuses "show --svg: more thread blocks than can be drawn are refused" 2 \
    "show --svg --bytes 48K --topology $scratch/machine $scratch/large.json" "2304 thread blocks" "limits: 2048" "--rank"
arguments=(show --svg --bytes 48K --topology "$scratch/machine" --rank 3 "$scratch/large.json")
check "show --svg: one rank of them is drawn" prints "<svg " "<title>rank 3, "
more_keys() {
    keys=$(seq -f '"novel%g": 1,' 1 20 | tr '\n' ' ')
    sed "s/^{/{$keys/" "$scratch/good.json" >"$scratch/novel.json"
    "$program" show --summary "$scratch/novel.json" >"$out" 2>"$err" &&
        [ "$(grep -c "unknown key 'novel" "$err")" -eq 16 ]
}
check "of many unknown keys the first 16 are reported" more_keys
arguments=(show --svg --rank 1 "$scratch/good.json")
words=("rank 1")
check "show --svg --rank: draws only that rank" draws 5
sed 's/"exchange"/"a<b>\&c\\u0007"/' "$scratch/good.json" >"$scratch/odd.json"
arguments=(show --svg "$scratch/odd.json")
words=("a&lt;b&gt;&amp;c?")
check "show --svg: escapes names" draws 10
refuses "show --svg: a rank outside the plan is a usage error" 2 "show --svg --rank 2 $scratch/good.json" "no rank 2"
refuses "show: --topology without --svg is a usage error" 2 "show --topology host $scratch/good.json" "--svg"

# ------------------------------------------------------------------------------- cost

cat >"$scratch/machine" <<'END'
# With these values a put of 1e6 bytes takes 1 + 20 us, a copy 1 + 10 us.
base = host
ranks = 2
launch_us = 10
op_us = 1
fence_us = 0
signal_us = 2
block_gbs = 100
pair_gbs = 50
link_gbs = 1000
memory_gbs = 1000 # plenty
machine_gbs = 0
END
# estimate BYTES FILE [TOPOLOGY]: prints the estimated microseconds.
estimate() {
    timeout 60 "$program" cost --bytes "$1" --topology "${3:-$scratch/machine}" "$2" | sed -n 's/^time *\([0-9.]*\) us.*/\1/p'
}

arguments=(cost --bytes 2000000 "--topology=$scratch/machine" "$scratch/good.json")
check "cost: adds launch 10, put 21, copy 11, signal 1 + 2 and wait 1 us" \
    prints "time         46.00 us" \
    "topology     machine" "1000000        20.00    43.5%  rank 0 > rank 1 and 1 more" \
    "bound        20.00 us, 43%: 1000000 bytes rank 0 > rank 1 at 50 GB/s" \
    "take 34.00 us, signals and packets between them 2.00 us, the launch 10.00 us"

grows() {
    local bytes us before=0
    for bytes in 32 4K 64K 1M 16M 1G; do
        us=$(estimate $bytes "$1" h200x8)
        awk "BEGIN { exit !($us >= $before && $us > 0) }" || return 1
        before=$us
    done
    awk "BEGIN { exit !($us > 1000) }"
}
check "cost: more bytes take longer" grows "$scratch/good.json"

slower_by() {
    awk "BEGIN { exit !($(estimate "$1" "$scratch/good.json") + $2 == \
                        $(estimate "$1" "$scratch/good.json" "$scratch/other")) }"
}
{ cat "$scratch/machine"; echo 'signal_us = 5'; } >"$scratch/other"
check "cost: a slower signal counts once" slower_by 2000000 3
{ cat "$scratch/machine"; printf 'machine_ranks = 1\nnet_us = 4\nnet_gbs = 25\n'; } >"$scratch/other"
check "cost: a network takes 20 us more for the bytes, 4 for the signal" slower_by 2000000 24
{ cat "$scratch/machine"; echo 'link_gbs = 25'; } >"$scratch/other"
check "cost: the bandwidth of all links of a rank bounds each link" slower_by 2000000 20

# A second thread block copies, 11 us, and waits at a barrier for the first, which puts, 21 us.
barrier='{"name": "barrier", "barrier_id": 0, "num_threadblocks": 2}'
plan "$(put 0 2 0), $barrier, $exchange $(on_channel wait)" "$(put 0 2 2), $barrier, $exchange $(on_channel wait)" |
    sed "s@\"threadblocks\": \[@&{\"id\": 1, \"ops\": [$(copy 0 2 0 | tr -d '\n'), $barrier]}, @" >"$scratch/barrier.json"
{ cat "$scratch/machine"; echo 'barrier_us = 5'; } >"$scratch/other"
check "cost: adds launch 10, put 21, barrier 5 + 1, signal 1 + 2 and wait 1 us" \
    eval '[ "$(estimate 2000000 "$scratch/barrier.json" "$scratch/other")" = 41.00 ]'

plan "$(on_channel wait)" "$(on_channel wait)" >"$scratch/stuck.json"
refuses "cost: a wait without a signal is reported with its place" 2 "cost $scratch/stuck.json" "rank 0" "thread block 0" \
    "op 0 (wait)" "for ever" "weir-plan check"
# ahead CREDITS: prints an allgather in which a block may be CREDITS turns of a pipeline ahead of another.
ahead() {
    local rank peer
    local shared='"channels": [{"channel_type": "memory", "channel_ids": [0]}],
        "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [0]}]'
    # loop ACQUIRED OPERATION RELEASED: prints a pipeline of 16 bytes a turn.
    loop() {
        printf '{"name": "pipeline", "iter_context": {"unit_size": 16, "num_chunks": 1}, "ops": [
            {"name": "sem_acquire", "semaphore_ids": [%d]}, %s, %s, %s, {"name": "sem_release", "semaphore_ids": [%d]}]}' \
            "$1" "$fence" "$2" "$fence" "$3"
    }
    printf '{"name": "ahead", "collective": "allgather", "protocol": "Simple", "gpus": ['
    for rank in 0 1; do
        peer=$((1 - rank))
        printf '%s{"id": %d, "input_chunks": 1, "output_chunks": 2, "scratch_chunks": 1,
            "channels": [{"channel_type": "memory", "connected_to": [%d]}],
            "remote_buffers": [{"rank": %d, "type": "o", "access_channel_types": ["memory"]}],
            "semaphores": [{"init_value": 0}, {"init_value": %d}], "threadblocks": [' \
            "${comma:-}" $rank $peer $peer "$1"
        printf '{"id": 0, %s, "ops": [%s, %s, %s, %s, %s, %s, %s, %s, %s]}, ' "$shared" \
            "$(on_channel rlxsignal)" "$fence" "$(on_channel rlxwait)" "$(copy 0 1 $rank)" \
            "$(loop 0 "$(put 0 1 $rank | sed 's/"i"/"s"/')" 1)" "$(on_channel signal)" "$fence" "$(on_channel wait)" "$fence"
        printf '{"id": 1, %s, "ops": [%s]}]}' "$shared" "$(loop 1 "$(copy 0 1 0 | sed 's/"o"/"s"/')" 0)"
        local comma=', '
    done
    echo ']}'
}
ahead 20 >"$scratch/ahead.json"
arguments=(cost --bytes 64 "$scratch/ahead.json")
check "cost: says nothing of lengths that the plan is proved for" eval 'prints "time" && ! grep -q reject "$out"'
arguments=(cost --bytes 1M "$scratch/ahead.json")
check "cost: says that executors reject longer messages" prints "executors reject messages of this length" "turns of a pipeline"
sed 's/"init_value": 0/"init_value": 1/' "$scratch/ahead.json" >"$scratch/wrong.json"
arguments=(cost --bytes 64 "$scratch/wrong.json")
check "cost: says that executors reject a wrong plan" prints "executors reject this plan" "weir-plan check $scratch/wrong.json"
refuses "cost: an unknown topology is reported with the known ones" 2 "cost --topology h300 $scratch/good.json" h300 h200x4 host
echo 'ranks = 1' >"$scratch/bad"
refuses "cost: a topology with too few ranks is a usage error" 2 "cost --topology $scratch/bad $scratch/good.json" \
    "2 ranks" "bad has 1"
printf '\npair_gbs = 0\n' >"$scratch/bad"
refuses "cost: a bandwidth of 0 is reported with file and line" 2 "cost --topology $scratch/bad $scratch/good.json" "bad:2:"
echo 'pair_gbp = 1' >"$scratch/bad"
refuses "cost: an unknown key is reported with file and line" 2 "cost --topology $scratch/bad $scratch/good.json" "bad:1:" "key = value"
printf 'ranks = 2\nmachine_ranks = 1\n' >"$scratch/bad"
refuses "cost: a topology of several nodes without a network is a usage error" 2 "cost --topology $scratch/bad $scratch/good.json" net_gbs
echo "# nothing but a remark" >"$scratch/empty"
refuses "cost: a topology without a line is a usage error" 2 "cost --topology $scratch/empty $scratch/good.json" "contains no line"
cat >"$scratch/links" <<'END'
weir-links 1
machine 0
backend host
endpoints 2
pair 0 1 5 0.3
pair 1 0 5 0.3
together 1000 4
END
arguments=(cost --bytes 2000000 --topology "$scratch/links" "$scratch/good.json")
check "cost: accepts links that weir-topo measured" prints "2 cores, measured" \
    "1000000 bytes out of rank 0 at 4 GB/s"

# ---------------------------------------------------------------- check, make and list

# good.json puts into outputs before their ranks' launches have begun.
is_json() { ! command -v python3 >/dev/null 2>&1 || python3 -m json.tool "$out" >/dev/null; }
arguments=(list)
check "list: prints collectives and their schedules" \
    prints allreduce_ring allgather_direct broadcast_chain \
    "shares go round a ring"
"$program" make allreduce_ring -n 3 -o "$scratch/ring.json"
"$program" make --ranks=4 --instances 2 --in-place allreduce_direct >"$scratch/direct.json"
"$program" make reduce_direct --op max -n 2 >"$scratch/max.json"
arguments=(check "$scratch/ring.json" "$scratch/direct.json" "$scratch/max.json")
check "make: check accepts the plans that it writes" \
    prints "ring.json: accepted: allreduce of 3 ranks" \
    "direct.json: accepted: allreduce of 4 ranks, no deadlock, no race" "for every length"
arguments=(show "$scratch/direct.json")
check "make: honours --instances and --in-place" \
    prints "4 ranks, in place" "2 thread blocks per rank"
check "make: writes the operation of --op into the plan" grep -q '"max"' "$scratch/max.json"

finds() {
    local word
    ends_with 2 "$program" "${arguments[@]}" || return 1
    for word; do grep -qF -- "$word" "$out" || { echo "# without: $word"; return 1; }; done
}
arguments=(check "$scratch/good.json")
check "check: prints the fault and its place" \
    finds "good.json: rejected: " "race: rank 0, thread block 0, op 0 (put)" \
    "race: rank 1"
check "check: prints each violation once" \
    eval 'one_line_says "1 of 1 plan rejected" && [ "$(cat "$out" "$err" | grep -c "rank 0, thread block 0, op 0 (put)")" -eq 1 ]'
arguments=(check "$scratch/good.json" "$scratch/ring.json" "$scratch/stuck.json" "$scratch/none.json")
check "check: continues with the other files after a fault" \
    finds "good.json: rejected: " "ring.json: accepted" \
    "stuck.json: rejected" "deadlock: rank 0, thread block 0, op 0 (wait)" "none.json: not checked: cannot read"
check "check: counts the rejected plans" one_line_says "3 of 4 plans rejected"
arguments=(check --json "$scratch/good.json" "$scratch/ring.json" "$scratch/none.json")
check "check --json: prints verdict, fault and place" \
    finds '"accepted": false' '"fault": "race"' '"thread_block": 0' '"accepted": true' \
    '"error": "cannot read'
check "check --json: prints valid JSON" is_json
# waiting: prints an allgather of 4 ranks in which ranks 0 and 1 wait for each other, 2 for 0, and 3 for 1.
waiting() {
    local rank to comma='' list
    printf '{"name": "waiting", "collective": "allgather", "protocol": "Simple", "gpus": ['
    for rank in 0 1 2 3; do
        [ $rank -lt 2 ] && to=$((rank + 2)) || to=
        case $rank in 0) list='1, 2' ;; 1) list='0, 3' ;; 2) list=0 ;; 3) list=1 ;; esac
        printf '%s{"id": %d, "input_chunks": 1, "output_chunks": 4, "scratch_chunks": 0,
            "channels": [{"channel_type": "memory", "connected_to": [%s]}],
            "threadblocks": [{"id": 0, "channels": [{"channel_type": "memory", "channel_ids": [%s]}],
                "ops": [%s%s]}]}' "$comma" $rank "$list" "$([ $rank -lt 2 ] && echo '0, 1' || echo 0)" \
            "$(on_channel wait)" "${to:+, $(on_channel signal), $(on_channel signal | sed 's/\[0\]/[1]/')}"
        comma=', '
    done
    echo ']}'
}
waiting >"$scratch/waiting.json"
arguments=(check "$scratch/waiting.json")
check "check: a rank outside of a cycle names the cycle once" \
    finds "deadlock: rank 2, thread block 0, op 0 (wait)" ": a cycle of the last 2"
check "check: no wait is named twice in a chain" \
    eval '! grep -E "(it would come from .*){3}" "$out"'
name=twice plan "$(on_channel signal), $(on_channel signal)" "$(on_channel wait)" >"$scratch/twice.json"
arguments=(check "$scratch/twice.json")
check "check: counts have their noun in the right number" finds " 2 times and waits for it 1 time: "
sed -n '/^```json$/,/^```$/{/^```/!p}' docs/user/plans-json.md >"$scratch/page.json"
arguments=(check "$scratch/page.json")
check "the plan in docs/user/plans-json.md is accepted" prints "accepted: broadcast of 2 ranks" "for every length"
sed 's/"rlxwait"/"nop"/' "$scratch/page.json" >"$scratch/page-wrong.json"
arguments=(check "$scratch/page-wrong.json")
check "the plan in docs/user/plans-json.md needs each of its signals" finds rejected
refuses "check: malformed JSON is reported with file and line" 2 "check $scratch/bad" "bad:1:" "JSON"
refuses "make: an unknown plan is a usage error" 2 "make allreduce_star -n 4" allreduce_star "weir-plan list"
refuses "make: a missing number of ranks is a usage error" 2 "make allreduce_ring" "-n 8"
refuses "make: too few ranks are a usage error" 2 "make allreduce_ring -n 1" "--ranks) 1" "from 2"
refuses "make: an unknown operation is a usage error" 2 "make reduce_direct -n 2 --op xor" "--op xor"
refuses "make: a file that cannot be written ends with 3" 3 "make allreduce_ring -n 2 -o $scratch/none/x" "none/x"
refuses "list: an operand is a usage error" 2 "list x" "no operands"

"$program" show --svg --bytes 256K "$scratch/ring.json" >"$out"
check "the picture in docs/user/plans.md equals the output of weir-plan" \
    cmp "$out" lib/plan/examples/allreduce_ring.svg

# Control characters of a plan's texts reach no output of weir-plan or of a benchmark. Each key of
# the plan in turn gets an escape sequence at the end of its value, or of its name.
printf '1 2\n3 \033[31m\n' >"$scratch/matrix"
"$program" make allreduce_oneshot -n 2 -o "$scratch/plain.json"
no_controls() {
    "$@" >"$out" 2>&1
    ! LC_ALL=C grep -q "$(printf '[\001-\010\013-\037\177]')" "$out"
}
for key in name collective protocol channel_type '"name": "put' '"gpus'; do
    case $key in
    \"*) script='s/'$key'/&\\u001b[31mX/' ;;
    *) script='s/\("'$key'": "[a-zA-Z_]*\)"/\1\\u001b[31mX"/' ;;
    esac
    sed "$script" "$scratch/plain.json" >"$scratch/controls.json"
    for with in check "check --strict" "check --json" show "show --svg" cost; do
        # shellcheck disable=SC2086
        check "$with prints no control character of: $key" no_controls "$program" $with "$scratch/controls.json"
    done
    check "a benchmark prints no control character of: $key" no_controls \
        ./bench_allreduce -g 2 -b 1K -e 1K -n 2 -w 1 --plan "$scratch/controls.json"
done
printf '{"name": \033[31m' >"$scratch/controls.json"
check "an error of JSON prints no control character" no_controls "$program" check "$scratch/controls.json"
check "a wrong name of a command prints no control character" no_controls "$program" "$(printf 'che\033ck')"
check "a matrix's word prints no control character" no_controls \
    ./bench_alltoallv -g 2 -b 8K -e 8K -n 2 --dist "matrix:$scratch/matrix"
check "a baseline's name prints no control character" no_controls \
    ./weir-check --level quick --baseline "$scratch/$(printf 'no\033ne')"

samples=../shared/plans
if [ -d $samples ]; then
    reads() { "$program" show "$1" >"$out" 2>"$err" && "$program" cost "$1" >"$out" 2>"$err" &&
        "$program" show --svg "$1" >"$out" 2>"$err" && is_xml "$out"; }
    for sample in $samples/*.json; do check "show, cost and show --svg read ${sample##*/}" reads "$sample"; done
else
    skip "show, cost and show --svg of other tools' plans" "no $samples"
fi

tap_done
