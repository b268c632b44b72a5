#!/bin/bash
# bench_moe as users run it: every layout with its faults, types, routings, CSV, bad options, and the
# MPI candidate. Run from the repository's root.
set -u
. verify/tests/support/tap.sh
[ -x ./bench_moe ] || { echo "1..0 # SKIP bench_moe is not built; run make"; exit 0; }

small=(--tokens 33 --hidden 512 -n 4 -w 1 --topk 3)
csv=$scratch/moe.csv

passes() { ends_with 0 ./bench_moe -g 2 "${small[@]}" "$@"; }
# The fault is found on the row of its phase, by a message with token, source, expert, rank and row.
finds_fault() { # LAYOUT FAULT PATTERN
    ends_with 1 ./bench_moe -g 2 "${small[@]}" --chain 0 --layout "$1" --inject "$2" &&
        grep -qE -- "$3" "$err" && grep -q 'N/A' "$out"
}
changes_nothing() { # FAULT OPTION...
    local fault=$1
    shift
    ends_with 2 ./bench_moe -g 2 "${small[@]}" --inject "$fault" "$@" && grep -qF -- "--inject $fault changed nothing" "$err"
}
refuses() { # PATTERN OPTION...
    local pattern=$1
    shift
    ends_with 2 ./bench_moe -g 2 "$@" && grep -qF -- "$pattern" "$err"
}

row='token [0-9]+ from rank [01] for expert [0-9]+ did not arrive on rank 0: row [0-9]+ .* holds'
sum='combine: token [0-9]+ from rank [01].*expert [0-9]+ on rank [01], row [0-9]+'
for layout in expert rank flat; do
    check "$layout: results are right" passes --layout "$layout" --csv "$csv"
    check "$layout: drop-token is found" finds_fault $layout drop-token "$row only bytes 0x00"
    check "$layout: wrong-expert is found" finds_fault $layout wrong-expert "$row token [0-9]+ from rank"
    check "$layout: stale-row is found" finds_fault $layout stale-row "$row .* of an earlier call"
    check "$layout: flip-bit is found" finds_fault $layout flip-bit "$row token 0 from rank 0"
    check "$layout: lose-count is found" \
        finds_fault $layout lose-count 'count of expert 0 on rank 0 is .*last row [0-9]+ is token [0-9]+ from rank'
    check "$layout: overflow is found" \
        finds_fault $layout overflow 'row [0-9]+ on rank 0 was written, .*expert 3; .* token [0-9]+ from rank'
    weight='weight of token [0-9]+ from rank 0 for expert [0-9]+ on rank 0, row'
    [ $layout = expert ] && weight="as if its weight were .*expert [0-9]+ on rank [01], row"
    check "$layout: wrong-weight is found" finds_fault $layout wrong-weight "$weight"
    check "$layout: swap-outputs is found" finds_fault $layout swap-outputs "$sum"
done

# Of fp8 rows scales are a part: what lies in the wrong place is named there, too.
fp8_row="$row token [0-9]+ from rank"
for fault in "drop-token $row only bytes 0x00" "wrong-expert $fp8_row" "stale-row $row .* of an earlier call" "flip-bit $row" \
    'lose-count count of expert 0 on rank 0 is .*last row [0-9]+ is token [0-9]+ from rank' \
    'overflow row [0-9]+ on rank 0 was written, .*expert 7; .* token [0-9]+ from rank' \
    'wrong-weight as if its weight were .*expert [0-9]+ on rank [01], row' "swap-outputs $sum"; do
    check "fp8: ${fault%% *} is found" eval 'ends_with 1 ./bench_moe -g 2 "${small[@]}" --chain 0 --experts 16 --dispatch-dtype fp8 \
        --inject "${fault%% *}" && grep -qE -- "${fault#* }" "$err"'
done
for fault in $(./bench_moe --inject list); do
    check "$fault is found in the only iteration" ends_with 1 ./bench_moe -g 2 --tokens 33 -n 1 --inject "$fault"
    check "$fault is found although chains are timed in between" ends_with 1 ./bench_moe -g 2 "${small[@]}" --inject "$fault"
    check "$fault is found where ranks have no tokens" ends_with 1 ./bench_moe -g 2 "${small[@]}" --routing ragged --inject "$fault"
    check "$fault is found on the rank that has the token" eval \
        'echo "7 -1 -1" >"$scratch/trace" && ends_with 1 ./bench_moe -g 2 "${small[@]}" --routing "trace:$scratch/trace" --inject $fault'
    check "$fault has no place without choices" changes_nothing "$fault" --routing masked:1
done
check "one token cannot be in another place" changes_nothing wrong-expert --tokens 1 --topk 1 --routing empty


# The planted slow rank is named in both calls; three tries, as other programs use the cores as well.
names_slow_rank() {
    for _ in 1 2 3; do
        passes --chain 0 -n 70 --inject slow-rank:1:500% --csv "$scratch/slow.csv" || return 1
        [ "$(grep -cE '^#   33 tokens, (dispatch|combine), weir: rank 1 \(.*\) is last in [0-9]+% of iterations' "$out")" -ne 2 ] || return 0
    done
    return 1
}
check "a slow rank is named in dispatch and in combine" names_slow_rank
check "the CSV has it in the rows of calls" eval '[ "$(awk -F, "NR == 1 { for (i = 1; i <= NF; i++) if (\$i == \"last_rank\") at = i } { print \$at }" "$scratch/slow.csv" | paste -sd" ")" = "last_rank 1 1 " ]'
check "a slow rank that is not there" refuses '--inject slow-rank:2: there are 2 ranks; give a rank from 0 to 1' --inject slow-rank:2:10

columns() { sed -n 's/^ *X([A-Z0-9_]*, \([a-z0-9_]*\), [A-Z]*).*/\1/p' lib/programs/columns.h | paste -sd,; }
check "the CSV has every column, those of bench_moe included" eval \
    '[ "$(head -n 1 "$csv")" = "$(columns)" ] && grep -q ",tokens,.*,link_bytes,expert_bytes" "$csv"'
check "the CSV has a row for each phase" [ "$(grep -cE ',moe_(dispatch|combine|pair|chain),' "$csv")" -eq 4 ]
check "a manifest is beside the CSV" eval \
    'grep -q "\"program\": \"bench_moe\"" "${csv%.csv}.json" && grep -q "\"dtype\": \"bfloat16\"" "${csv%.csv}.json" &&
        [ "$(grep -c "\"pid\"" "${csv%.csv}.json")" -eq 2 ]'
check "weir-compare reads it" ends_with 0 ./weir-compare "$csv" "$csv"
# Rows of different layouts and routings are different curves, and are named so.
mixed() {
    passes --layout expert --csv "$scratch/e.csv" && passes --layout flat --routing hot --csv "$scratch/f.csv" &&
        passes --layout flat --routing hot --dispatch-dtype fp8 --buffers unregistered --topk 2 --csv "$scratch/g.csv" &&
        cat "$scratch/e.csv" >"$scratch/mixed.csv" && sed 1d "$scratch/f.csv" "$scratch/g.csv" | grep -v ^schema >>"$scratch/mixed.csv"
}
check "rows of three configurations in one file" mixed
names=('uniform, layout expert, topk 3, dispatch bfloat16, memory weir' 'hot, layout flat, topk 3, dispatch bfloat16, memory weir'
    'hot, layout flat, topk 2, dispatch f8e4m3, memory plain')
named() { # PREFIX SUFFIX COUNT FILE: each name is there so often
    local name
    for name in "${names[@]}"; do
        [ "$(grep -cF -- "$1$name$2" "$4")" -eq "$3" ] || { echo "# not $3 times: $1$name$2"; return 1; }
    done
}
check "weir-compare names what distinguishes them" eval \
    'ends_with 0 ./weir-compare "$scratch/mixed.csv" "$scratch/mixed.csv" && named "; " "" 4 "$out"'
check "so do its checks" eval \
    'ends_with 0 ./weir-compare --junit "$scratch/mixed.xml" "$scratch/mixed.csv" "$scratch/mixed.csv" && named "weir, " "" 4 "$scratch/mixed.xml"'
check "and the report" eval 'ends_with 0 ./weir-report -o "$scratch/mixed.html" "$scratch/mixed.csv" && named "<td>weir, " "</td>" 4 "$scratch/mixed.html"'
if command -v gnuplot >/dev/null; then
    check "whose plots have a line each" named ">weir, " "; bytes " 8 "$scratch/mixed.html"
else
    skip "plots of several layouts" "no gnuplot"
fi
printf 'weir-links 1\nbackend host\nendpoints 2\npair 0 1 1 0.001\npair 1 0 1 0.001\ntogether 8 1\n' >"$scratch/links"
check "--ceiling gives percentages of the measured links" eval \
    'passes --ceiling "$scratch/links" --csv "$csv" && awk -F , "NR > 1 && \$41 <= 0 { bad = 1 } END { exit bad }" "$csv"'
check "--ceiling with an unusable file" refuses '--ceiling' "${small[@]}" --ceiling "$csv"
check "fp8, masked choices, alignment" passes --dispatch-dtype fp8 --routing masked:0.4 --alignment 16
check "ranks without tokens" passes --routing empty --layout flat
check "a trace, float, unregistered memory" eval \
    'printf "0 1 2\n3 -1 5\n" >"$scratch/trace" && passes --routing "trace:$scratch/trace" -d float --buffers plain'
check "the help says what is refused" eval \
    './bench_moe --help | tr -s " \n" " " >"$out" && grep -qF -- "--tune FILE refused: dispatch and combine have one algorithm each" "$out"'
check "experts that cannot be divided" refuses '7: they cannot be divided evenly among 2 ranks' --experts 7
for list in '1,,2' ',1' '1,' '1,+2' '0x4'; do
    check "the list of tokens '$list'" refuses "--tokens $list: expected up to 32 numbers" --tokens "$list"
done
check "an empty list of tokens" refuses "--tokens '': expected up to 32 numbers" --tokens ''
check "numbers are read strictly" eval \
    'refuses "-n (--iters) +5: expected a whole number" -n +5 && refuses "--hidden 0x40: expected a whole number" --hidden 0x40'

check "rows that are not multiples of 16 bytes" refuses 'multiple of 16 bytes' --hidden 20
check "an unknown routing" refuses 'expected uniform, zipf:A' --routing even
check "a trace with an expert that does not exist" eval \
    'echo "0 1 9" >"$scratch/trace" && ! passes --routing "trace:$scratch/trace" && grep -q "line 1: give 3 numbers" "$err"'
check "an average above --min-bw" eval 'passes --min-bw 1e-6 && tail -n 1 "$out" | grep -qE "^# PASS: average bus bandwidth .* \(--min-bw\)$"'
check "an average below NCCL_TESTS_MIN_BW" eval \
    'NCCL_TESTS_MIN_BW=1e6 ends_with 1 ./bench_moe -g 2 "${small[@]}" && tail -n 1 "$out" | grep -qE "^# FAIL: .* below 900000 GB/s \(90% of NCCL_TESTS_MIN_BW\)$"'
check "a floor that is no bandwidth" refuses '--min-bw fast: expected a number of 0 or more' --min-bw fast
check "a file that cannot be written" refuses '--csv /absent/a.csv' "${small[@]}" --csv /absent/a.csv
check "a backend that does not exist" refuses '--backend gpu: expected one of auto|host|cuda' --backend gpu
check "graphs on the host" refuses 'only calls on GPU memory can be captured' "${small[@]}" --backend host -G 1
check "a number of graph launches" refuses '-G (--cudagraph) 20: expected 0 or 1: each timed call is one replay' -G 20
check "graphs with a peer" refuses '--cudagraph 1: calls of --peer nccl-ep are not captured' -G 1 --peer nccl-ep
check "-G 0 is the default" passes -G 0

# Two ranks with different command lines, started by torchrun's variables: all end with 2 before they measure, and one line names
# the option. The arguments of rank 1 follow a colon.
two_ranks() ( # WORD...: in a subshell, which has the variables alone
    first=() status=0
    while [ "$1" != : ]; do first+=("$1"); shift; done
    shift
    export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 WEIR_BOOT_PORT
    WEIR_BOOT_PORT=$(python3 verify/tests/support/free_port.py)
    RANK=1 LOCAL_RANK=1 ./bench_moe -T 10 "$@" >"$scratch/out1" 2>"$scratch/err1" </dev/null &
    RANK=0 LOCAL_RANK=0 ./bench_moe -T 10 "${first[@]}" >"$out" 2>"$err" </dev/null || status=$?
    wait $! || [ $? -eq $status ] || status="$status, the other rank with another code"
    cat "$scratch/err1" >>"$err"
    echo "# ended with $status"
    [ "$status" = "$two_end_with" ]
)
ranks_differ() { # MESSAGE WORD... : WORD...
    local message=$1 two_end_with=2
    shift
    two_ranks "$@" && one_line_says "$message" "give all ranks the same program and options"
}
has() { echo "rank 1 has $1 where rank 0 has $2:"; }
# Each option that changes what ranks do: the value of rank 0, which is no default, and that of rank 1.
# shellcheck disable=SC2034 # used in eval
while read -r option one other; do
    check "ranks that differ in $option" eval \
        'ranks_differ "$(has "$option $other" "$option $one")" $option $one : $option $other'
done <<'END'
--tokens 8,4 8
--hidden 512 256
--experts 8 7
--topk 1 3
--routing zipf:1 hot
--layout rank flat
--alignment 2 4
-d float half
--dispatch-dtype fp8 same
--chain 1 0
-G 0 1
--buffers plain weir
-n 5 9
-w 1 2
--seed 1 2
--inject flip-bit overflow
--backend host auto
--sms 1 2
END
check "ranks of which one has a model's sizes" ranks_differ "$(has '--hidden 1024' '--hidden 4096')" --model qwen3 :
check "ranks of which one has a peer" ranks_differ "$(has 'no --peer' '--peer nccl-ep')" --peer nccl-ep:/a.so :
check "ranks of which one injects a fault" ranks_differ "$(has '--inject drop-token' 'no --inject')" : --inject drop-token
check "ranks of which one only prints the help" ranks_differ "$(has '--help' 'a measurement')" : --help
check "the only problem of a rank that is not the first" eval \
    'two_end_with=2 && two_ranks --hidden 64 : --hidden 20 && one_line_says "multiple of 16 bytes"'
check "the problem that all ranks have is reported once" eval \
    'two_end_with=2 && two_ranks --experts 7 : --experts 7 && one_line_says "7: they cannot be divided evenly among 2 ranks"'
echo "0 1 2" >"$scratch/trace"
echo "2 1 0" >"$scratch/other"
check "ranks whose traces differ" eval \
    'two_end_with=2 && two_ranks "${small[@]}" --routing "trace:$scratch/trace" : "${small[@]}" --routing "trace:$scratch/other" &&
     one_line_says "--routing trace:" "give all nodes the same file"'
echo "0 1 2" >"$scratch/other"
check "traces, files and deadlines may have other names on each rank" eval \
    'two_end_with=0 && two_ranks "${small[@]}" --routing "trace:$scratch/trace" --csv "$csv" --quiet : \
        "${small[@]}" --routing "trace:$scratch/other" -T 20 --min-bw 0'

# The path of GPU memory, on a simulated GPU: data are copied there and back, and checked.
standin=${O:-build}/tests/bench_moe_standin
if [ -x "$standin" ]; then
    export WEIR_BACKEND=host
    on_gpu() { ends_with "$1" "$standin" -g 2 "${small[@]}" "${@:2}"; }
    # Replays of captured calls: the places that they read get another routing each time.
    captured() { on_gpu "$1" -G 1 "${@:2}"; }
    # in_layouts RUN WHERE: RUN is on_gpu or captured; WHERE says so in the names.
    in_layouts() {
        local layout fault
        for layout in expert rank flat; do
            check "$layout: ranks with different numbers of tokens, $2" "$1" 0 --layout $layout --routing ragged
            for fault in $(./bench_moe --inject list); do
                check "$layout: $fault $2 is found" eval \
                    "$1 1 --chain 0 --layout $layout --inject $fault && grep -q 'N/A' \"\$out\""
            done
        done
    }
    in_layouts on_gpu "on a simulated GPU"
    in_layouts captured "in a replayed graph"
    check "fp8 on a simulated GPU, unregistered memory" on_gpu 0 --dispatch-dtype fp8 --buffers plain
    for layout in expert rank flat; do
        check "$layout: results of replayed graphs are right" captured 0 --layout $layout --csv "$scratch/graph.csv"
    done
    check "fp8 in replayed graphs, unregistered memory" captured 0 --dispatch-dtype fp8 --buffers plain
    check "chains of all lengths in replayed graphs" eval 'captured 0 --chain 1 && captured 0 --chain 2 && captured 0 --chain 7'
    check "the header says that calls are replays" grep -q '^# Timing: .*; calls are replays of graphs;' "$out"
    graphs_in() { awk -F , '$39 ~ /\/graph$/' "$1" | wc -l; } # rows whose dist says so
    check "the CSV distinguishes graphs from streams" eval \
        '[ "$(graphs_in "$scratch/graph.csv")" -eq 4 ] && on_gpu 0 --layout flat --csv "$scratch/stream.csv" && [ "$(graphs_in "$scratch/stream.csv")" -eq 0 ]'
    check "weir-compare reads both, and matches none of their rows" eval \
        'ends_with 0 ./weir-compare "$scratch/graph.csv" "$scratch/graph.csv" && ends_with 3 ./weir-compare "$scratch/stream.csv" "$scratch/graph.csv"'
    check "weir-report reads both" ends_with 0 ./weir-report -o "$scratch/report.html" "$scratch/stream.csv" "$scratch/graph.csv"
    check "one rank's calls are compared with copies" eval \
        'ends_with 0 "$standin" -g 1 "${small[@]}" && grep -qE "combine: [0-9]+ bytes are read and written; a copy" "$out"'
    unset WEIR_BACKEND
else
    skip "the path of GPU memory" "bench_moe_standin is not built; run make tests"
fi
if command -v mpirun >/dev/null && ci/mpirun -np 2 ./bench_moe --version >/dev/null 2>&1; then
    for layout in expert rank flat; do
        check "$layout: MPI's rows are right too" ends_with 0 \
            ci/mpirun -np 2 ./bench_moe "${small[@]}" --layout $layout --routing ragged --peer mpi
    done
    # shellcheck disable=SC2034 # used in eval
    across=(ci/mpirun -np 2 env WEIR_HOSTID=a ./bench_moe "${small[@]}" --csv "$csv" : -np 2 env WEIR_HOSTID=b ./bench_moe "${small[@]}")
    check "4 ranks on 2 emulated nodes: rows are right" eval \
        'ends_with 0 "${across[@]}" && grep -q "node-first" "$csv"'
    [ ! -x "$standin" ] || check "--peer mpi on a simulated GPU" eval \
        'ends_with 2 ci/mpirun -np 2 "$standin" "${small[@]}" --peer mpi && grep -q "on the host only" "$err"'
else
    skip "MPI as a candidate" "no mpirun"
fi
tap_done
