#!/bin/bash
# The command line of weir-plan: what it shows of plans, and that every refusal is one line
# with the right exit code, the place and a remedy. TAP on standard output; run from the top
# folder. WEIR_PLAN names another program.
. verify/tests/support/tap.sh

program=${WEIR_PLAN:-./weir-plan}

# A block's operations ($1: rank 0's, $2: rank 1's; may be empty) as a plan of two ranks that
# exchange their input: allgather, one memory channel each way.
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

# One operation each. $1: index of chunks, $2: how many, $3: where they go.
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

# refuses "name" CODE "arguments" WORD...
refuses() {
    local name=$1 code=$2
    read -ra arguments <<<"$3"
    shift 3
    check "$name" refused "$code" "$@"
}
refused() {
    local code=$1
    shift
    ends_with "$code" "$program" "${arguments[@]}" && [ ! -s "$out" ] && one_line_says "$@"
}

# -------------------------------------------------------------------- the command line

arguments=(--help)
check "--help names each command and option" prints "show FILE" "cost FILE" "check FILE ..." "make NAME" list --bytes --rank \
    --summary --topology --svg h200x4 host "exit codes"
arguments=(--version)
check "--version names the version" prints "weir-plan: weir "
refuses "no command" 2 "" "expected a command" --help
refuses "an unknown command" 2 "frobnicate x" "unknown command frobnicate"
refuses "an unknown option" 2 "show --frobnicate x" "unknown option --frobnicate"
refuses "an option before its command" 2 "--rank 1 show x" "unknown option --rank"
refuses "no file" 2 "show" "expected FILE"
refuses "two files" 2 "show a b" "expected FILE" "got 2"
refuses "an option without its value" 2 "show x --rank" "--rank: expected a value"
refuses "a flag with a value" 2 "show --summary=1 x" "unknown option --summary=1"
refuses "a rank that is none" 2 "show --rank 1x x" "--rank 1x"
refuses "bytes that are none" 2 "show --bytes 1Q x" "--bytes 1Q"
refuses "no bytes" 2 "show --bytes 0 x" "--bytes 0"

if "$program" show "$scratch/good.json" 2>&1 | grep -q "this build reads no plans"; then
    skip "plans" "a build without jansson"
    tap_done
fi
# ---------------------------------------------------------------------- plans that are none
refuses "a rank that the plan has not" 2 "show --rank 2 $scratch/good.json" "no rank 2" "0 to 1"
refuses "a message that does not divide" 2 "show --bytes 1001 $scratch/good.json" "1001" \
    "multiple"
refuses "a file that is not there" 3 "show $scratch/none.json" "none.json" "No such file"
refuses "a folder" 3 "show $scratch" "cannot read"

sed 's/"good"//; s/"gpus": \[/"gpus": [,/' "$scratch/good.json" >"$scratch/bad.json"
refuses "malformed JSON, with its position" 2 "show $scratch/bad.json" "bad.json:1:" "JSON"
head -c 400 "$scratch/good.json" >"$scratch/bad.json"
refuses "half a file" 2 "show $scratch/bad.json" "bad.json:" "JSON"
plan "$(put 0 2 0), $(on_channel signol)" "" >"$scratch/bad.json"
refuses "an unknown operation" 2 "show $scratch/bad.json" "signol" "rank 0" "thread block 0" "op 1"
plan "$(put 0 2 3)" "" >"$scratch/bad.json"
refuses "chunks out of range" 2 "show $scratch/bad.json" "op 0 (put)" "chunks 3 to 4" "it has 4"
plan "" "$(on_channel wait | sed 's/\[0\]/[1]/')" >"$scratch/bad.json"
refuses "a channel out of range" 2 "show $scratch/bad.json" "rank 1" "channel_ids[0] is 1"
sed 's/"connected_to": \[0\]/"connected_to": [7]/' "$scratch/good.json" >"$scratch/bad.json"
refuses "a rank out of range" 2 "show $scratch/bad.json" "names rank 7" "ranks 0 to 1"

# ------------------------------------------------------------------------------- show

arguments=(show --bytes 4096 "$scratch/good.json")
check "show: the plan's summary" prints "plan         exchange" "allgather of 2 ranks, out of place" \
    "operations   10: 2 nop, 2 signal, 2 wait, 2 put, 2 copy" "any bytes"
check "show: what ranks move" prints "2048 bytes  0>1 1>0" "2048 bytes  within 0 1" \
    "chunks of 1024 bytes"
check "show: operations, with chunks and peers" prints "put       i[0..1] -> rank 1 o[0..1]" \
    "copy      i[0..1] -> o[2..3]" "signal    to rank 1" "wait      for rank 0" "2 nop"

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
check "show --svg: an XML picture with a box for each operation" draws 10
check "show --svg: arrows to waits, and to where puts land" \
    [ "$(grep -c 'class="arrow" .*d="M[0-9]' "$out")/$(grep -c '^<path class="arrow land"' "$out")" = 3/3 ]
arguments=(show --svg --rank 1 "$scratch/good.json")
words=("rank 1")
check "show --svg --rank: one rank" draws 5
sed 's/"exchange"/"a<b>\&c\\u0007"/' "$scratch/good.json" >"$scratch/odd.json"
arguments=(show --svg "$scratch/odd.json")
words=("a&lt;b&gt;&amp;c?")
check "show --svg: names that XML would misread" draws 10
refuses "show --svg: no such rank" 2 "show --svg --rank 2 $scratch/good.json" "no rank 2"
refuses "show: a topology without a picture" 2 "show --topology host $scratch/good.json" "--svg"

# ------------------------------------------------------------------------------- cost

cat >"$scratch/machine" <<'END'
# Round numbers: a put of 1e6 bytes takes 1 + 20 us, a copy 1 + 10.
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
# estimate BYTES FILE [TOPOLOGY]: its microseconds.
estimate() {
    "$program" cost --bytes "$1" --topology "${3:-$scratch/machine}" "$2" | sed -n 's/^time *\([0-9.]*\) us.*/\1/p'
}

arguments=(cost --bytes 2000000 "--topology=$scratch/machine" "$scratch/good.json")
check "cost: launch 10, put 21, copy 11, signal 1 + 2, wait 1 us" prints "time         46.00 us" \
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
check "cost: what a rank's links do together bounds each" slower_by 2000000 20

plan "$(on_channel wait)" "$(on_channel wait)" >"$scratch/stuck.json"
refuses "cost: waits that nothing ends" 2 "cost $scratch/stuck.json" "rank 0" "thread block 0" \
    "op 0 (wait)" "for ever" "weir-plan check"
refuses "cost: no such topology" 2 "cost --topology h300 $scratch/good.json" h300 h200x4 host
echo 'ranks = 1' >"$scratch/bad"
refuses "cost: a topology with fewer ranks" 2 "cost --topology $scratch/bad $scratch/good.json" \
    "2 ranks" "bad has 1"
printf '\npair_gbs = 0\n' >"$scratch/bad"
refuses "cost: a bandwidth of nothing" 2 "cost --topology $scratch/bad $scratch/good.json" "bad:2:"
echo 'pair_gbp = 1' >"$scratch/bad"
refuses "cost: an unknown key" 2 "cost --topology $scratch/bad $scratch/good.json" "bad:1:" "key = value"
printf 'ranks = 2\nmachine_ranks = 1\n' >"$scratch/bad"
refuses "cost: machines without a network" 2 "cost --topology $scratch/bad $scratch/good.json" net_gbs
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
check "cost: links that weir-topo measured" prints "2 cores, measured" \
    "1000000 bytes out of rank 0 at 4 GB/s"

# ---------------------------------------------------------------- check, make and list

# good.json puts into outputs before their ranks' launches have begun.
is_json() { ! command -v python3 >/dev/null 2>&1 || python3 -m json.tool "$out" >/dev/null; }
arguments=(list)
check "list: collectives and their schedules" prints allreduce_ring allgather_direct broadcast_chain \
    "shares go round a ring"
"$program" make allreduce_ring -n 3 -o "$scratch/ring.json"
"$program" make --ranks=4 --instances 2 --in-place allreduce_direct >"$scratch/direct.json"
"$program" make reduce_direct --op max -n 2 >"$scratch/max.json"
arguments=(check "$scratch/ring.json" "$scratch/direct.json" "$scratch/max.json")
check "make: plans that check accepts" prints "ring.json: accepted: allreduce of 3 ranks" \
    "direct.json: accepted: allreduce of 4 ranks, no deadlock, no race" "for every length"
arguments=(show "$scratch/direct.json")
check "make: instances and placement" prints "4 ranks, in place" "2 thread blocks per rank"
check "make: the operation" grep -q '"max"' "$scratch/max.json"

finds() {
    local word
    ends_with 2 "$program" "${arguments[@]}" || return 1
    for word; do grep -qF -- "$word" "$out" || { echo "# without: $word"; return 1; }; done
}
arguments=(check "$scratch/good.json")
check "check: what is wrong, and where" finds "good.json: rejected: " "race: rank 0, thread block 0, op 0 (put)" \
    "race: rank 1"
check "check: the first of it is the failure's line" one_line_says "good.json: rank" "op 0 (put)"
arguments=(check "$scratch/good.json" "$scratch/ring.json" "$scratch/stuck.json" "$scratch/none.json")
check "check: goes on with the other files" finds "good.json: rejected: " "ring.json: accepted" \
    "stuck.json: rejected" "deadlock: rank 0, thread block 0, op 0 (wait)" "none.json: not checked: cannot read"
check "check: and counts them" one_line_says "3 of 4 plans rejected"
arguments=(check --json "$scratch/good.json" "$scratch/ring.json" "$scratch/none.json")
check "check --json" finds '"accepted": false' '"fault": "race"' '"thread_block": 0' '"accepted": true' \
    '"error": "cannot read'
check "check --json: is JSON" is_json
refuses "check: no JSON" 2 "check $scratch/bad" "bad:1:" "JSON"
refuses "make: no such plan" 2 "make allreduce_star -n 4" allreduce_star "weir-plan list"
refuses "make: no number of ranks" 2 "make allreduce_ring" "-n 8"
refuses "make: one rank" 2 "make allreduce_ring -n 1" "--ranks 1" "from 2"
refuses "make: an unknown operation" 2 "make reduce_direct -n 2 --op xor" "--op xor"
refuses "make: a file that cannot be written" 3 "make allreduce_ring -n 2 -o $scratch/none/x" "none/x"
refuses "list: a word too many" 2 "list x" "no operands"

"$program" show --svg --bytes 256K "$scratch/ring.json" >"$out"
check "the picture in docs/user/plans.md is what weir-plan draws; see there for the commands" \
    cmp "$out" lib/plan/examples/allreduce_ring.svg

samples=../shared/plans
if [ -d $samples ]; then
    reads() { "$program" show "$1" >"$out" 2>"$err" && "$program" cost "$1" >"$out" 2>"$err" &&
        "$program" show --svg "$1" >"$out" 2>"$err" && is_xml "$out"; }
    for sample in $samples/*.json; do check "show, cost and picture: ${sample##*/}" reads "$sample"; done
else
    skip "show and cost of plans by others" "no $samples"
fi

tap_done
