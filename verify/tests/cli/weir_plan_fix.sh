#!/bin/bash
# weir-plan fix: plans whose fences, flushes, waits or handshakes were taken out are proved again,
# with no more changes than needed; a plan that cannot be corrected is reported and not written.
# Run from the repository's root; WEIR_PLAN names another program.
. verify/tests/support/tap.sh
. verify/tests/support/weir_plan.sh

"$program" make allreduce_ring -n 3 -o "$scratch/ring.json"
if ! "$program" check "$scratch/ring.json" >"$out" 2>&1 || ! command -v python3 >/dev/null 2>&1; then
    skip "weir-plan fix" "no JSON reader in this build, or no python3"
    tap_done
fi

# spoil FILE SCRIPT: prints the plan after a Python script, for which ranks is the list of ranks;
# keep(test) leaves only operations that pass it, and at(rank, block) is the list of operations.
spoil() {
    python3 - "$1" "$2" <<'END'
import json, sys

plan = json.load(open(sys.argv[1]))
ranks = plan["gpus"]


def at(rank, block):
    return ranks[rank]["threadblocks"][block]["ops"]


def keep(test):
    def kept(ops):
        for op in ops:
            if "ops" in op:
                op["ops"] = kept(op["ops"])
        return [op for op in ops if test(op)]
    for rank in ranks:
        for block in rank["threadblocks"]:
            block["ops"] = kept(block["ops"])


def rename(**names):
    for rank in ranks:
        for block in rank["threadblocks"]:
            for op in block["ops"]:
                op["name"] = names.get(op["name"], op["name"])


exec(sys.argv[2])
json.dump(plan, sys.stdout)
END
}

fixes() {
    ends_with 0 "$program" fix "$1" -o "$2" && [ ! -s "$err" ] && cp "$out" "$scratch/printed" &&
        ends_with 0 "$program" check "$2"
}
# mends FILE: the plan is fixed; fixing the result changes nothing; and the same plan yields the same
# result.
mends() {
    rm -f "$scratch"/fixed*.json
    fixes "$1" "$scratch/fixed.json" && fixes "$1" "$scratch/fixed2.json" &&
        cmp "$scratch/fixed.json" "$scratch/fixed2.json" && fixes "$scratch/fixed.json" "$scratch/fixed3.json" &&
        grep -qx '  none' "$scratch/printed" && cmp "$scratch/fixed.json" "$scratch/fixed3.json"
}

# ------------------------------------------------------------------- plans of the library

check "a proved plan is copied" eval 'mends "$scratch/ring.json" && cmp "$scratch/ring.json" "$scratch/fixed.json"'
for name in $("$program" list | sed 's/ .*//'); do
    "$program" make "$name" -n 4 -o "$scratch/whole.json" 2>/dev/null || continue
    spoil "$scratch/whole.json" 'keep(lambda op: op["name"] != "nop")' >"$scratch/fenceless.json"
    check "$name: fences are put back" mends "$scratch/fenceless.json"
    spoil "$scratch/whole.json" 'rename(signal="rlxsignal", wait="rlxwait")' >"$scratch/relaxed.json"
    check "$name: signals and waits are made strong" mends "$scratch/relaxed.json"
done

# ---------------------------------------------------------------------- one fix at a time

# restores SCRIPT CHANGES: a plan that a script spoils gets exactly these changes, and is then the
# original.
restores() {
    spoil "$scratch/ring.json" "$1" >"$scratch/spoiled.json"
    mends "$scratch/spoiled.json" && fixes "$scratch/spoiled.json" "$scratch/fixed.json" &&
        cmp "$scratch/ring.json" "$scratch/fixed.json" &&
        [ "$(grep -c '^  rank' "$scratch/printed")" -eq "$2" ]
}
check "a missing fence is added at its place" \
    restores 'ops = at(1, 0); del ops[[op["name"] for op in ops].index("nop")]' 1
check "its place is printed" grep -q '^  rank 1, thread block 0, op [0-9]*: nop added$' "$scratch/printed"
check "a relaxed wait is made strong" \
    restores 'ops = at(2, 0); ops[[op["name"] for op in ops].index("wait")]["name"] = "rlxwait"' 1
check "what it was is printed" \
    grep -q '^  rank 2, thread block 0, op [0-9]*: wait in place of rlxwait to rank [0-9]$' "$scratch/printed"

# plan OPS_0 OPS_1 [COLLECTIVE]: prints a plan of two ranks with these operations, in which every rank
# has a memory channel and a port channel to the other one.
plan() {
    python3 - "$@" <<'END'
import json, sys

CHANNELS = [("memory", [0]), ("port", [0])]


def op(text):
    """NAME [SRC[,SRC] > DST[,DST]] [@m|@p] as JSON; a reference is LETTER INDEX, of the peer r LETTER INDEX."""
    words = text.split()
    made = {"name": words[0]}
    for word in words[1:]:
        if word[0] == "@":
            made.update(channel_type="memory" if word[1] == "m" else "port", channel_ids=[0])
        elif word != ">":
            key = "dst_buff" if "src_buff" in made else "src_buff"
            made[key] = [{"buffer_id": "ios".index(one[1]), "index": int(one[2:]), "size": 1} if one[0] == "r" else
                         {"type": one[0], "index": int(one[1:]), "size": 1} for one in word.split(",")]
    return made


ranks = [{"id": rank, "input_chunks": 1, "output_chunks": 2, "scratch_chunks": 2,
          "channels": [{"channel_type": kind, "connected_to": [1 - rank]} for kind, _ in CHANNELS],
          "remote_buffers": [{"rank": 1 - rank, "type": kind, "access_channel_types": ["memory", "port"]} for kind in "ios"],
          "threadblocks": [{"id": block, "ops": [op(one) for one in ops.split(";") if one.strip()],
                            "channels": [{"channel_type": kind, "channel_ids": ids} for kind, ids in CHANNELS],
                            "remote_buffer_refs": [{"access_channel_type": kind, "remote_buffer_ids": [0, 1, 2]}
                                                   for kind, _ in CHANNELS]}
                           for block, ops in enumerate(text.split("|") if text else [])]}
         for rank, text in enumerate(sys.argv[1:3])]
print(json.dumps({"name": "two", "collective": sys.argv[3] if len(sys.argv) > 3 else "allgather", "protocol": "Simple", "gpus": ranks}))
END
}
# changes WORDS...: the plan in two.json is fixed, and each of these changes is printed.
changes() {
    local word
    mends "$scratch/two.json" && fixes "$scratch/two.json" "$scratch/fixed.json" || return 1
    for word; do grep -qE "^  (rank .*: )?$word\$" "$scratch/printed" || { cat "$scratch/printed"; return 1; }; done
}

plan "copy i0 > o0; put i0 > ro0 @m" "copy i0 > o1; put i0 > ro1 @m" >"$scratch/two.json"
check "handshakes are added at the begin and at the end" \
    changes "rlxsignal added to rank 1" "rlxwait added to rank 0" "signal added to rank 0" "wait added to rank 1"
plan "copy i0 > o0; rlxsignal @p; rlxwait @p; nop; pws i0 > ro0 @p; wait @p" \
    "copy i0 > o1; rlxsignal @p; rlxwait @p; nop; pws i0 > ro1 @p; wait @p" >"$scratch/two.json"
check "a flush is added" changes "flush added to rank 1" "flush added to rank 0"
plan "copy i0 > o0; rlxsignal @p; rlxwait @p; nop; pws i0 > ro0 @p; flush @p; signal @m; wait @m; wait @p" \
    "copy i0 > o1; rlxsignal @p; rlxwait @p; nop; pws i0 > ro1 @p; flush @p; signal @m; wait @p" >"$scratch/two.json"
check "a wait that is missing is added" changes "wait added to rank 0"
plan "copy i0 > o0; copy i0 > s0; nop; signal @m; wait @m; nop; get rs0 > o1 @m" \
    "copy i0 > o1; copy i0 > s0; nop; signal @m; wait @m; nop; get rs0 > o0 @m" >"$scratch/two.json"
check "what only launches lack is the other half of scratch, or a handshake" \
    changes "(use_double_scratch_buffer set|rlxwait added to rank 0)"
plan "copy i0 > s0; nop; signal @m" "wait @m; nop; get rs0 > o0 @m" custom >"$scratch/two.json"
check "the other half of scratch is not used if it does not suffice" \
    eval 'changes "rlxsignal added to rank 0" "rlxwait added to rank 1" && ! grep -q double "$scratch/printed"'
plan "copy i0 > s1 | copy s1 > o0; rlxsignal @m; rlxwait @m; nop; put i0 > ro0 @m; nop; signal @m; wait @m" \
    "copy i0 > s1 | copy s1 > o1; rlxsignal @m; rlxwait @m; nop; put i0 > ro1 @m; nop; signal @m; wait @m" >"$scratch/two.json"
check "thread blocks get a semaphore" changes "sem_release added" "sem_acquire added"

plan "copy i0 > o0; copy i0 > s0; wait @m; nop; get rs0 > o1 @m; nop; signal @m" \
    "copy i0 > o1; copy i0 > s0; get rs0 > o0 @m; nop; signal @m; wait @m" >"$scratch/two.json"
check "a signal is added before what waits for its answer" changes "signal added to rank 1" "wait added to rank 0"
plan "copy i0 > o0; copy i0 > s0; nop; signal @m; wait @m; nop; get rs0 > o1 @m; nop; signal @m; wait @m" \
    "copy i0 > o1; copy i0 > s0; nop; signal @m; wait @m; wait @m; signal @m | get rs0 > o0 @m" >"$scratch/two.json"
check "no wait is added for a signal that has one" changes "signal added to rank 1" "wait added to rank 0"

runs() { ends_with 0 ./bench_allgather -g 2 -b 64 -e 64K -f 8 -n 4 -w 1 --plan "$scratch/fixed.json"; }
check "a plan that was fixed runs with right results" runs

# --------------------------------------------------------------- plans that stay wrong

cp "$scratch/ring.json" "$scratch/kept.json"
# remains SCRIPT WORD...: a spoiled ring is refused with 1 and one line, every word is printed, and
# the file that was to be replaced stays.
remains() {
    local word
    spoil "$scratch/ring.json" "$1" >"$scratch/spoiled.json"
    shift
    ends_with 1 "$program" fix "$scratch/spoiled.json" -o "$scratch/kept.json" &&
        one_line_says "remain" "no fix corrects" "kept.json is not written" && cmp "$scratch/ring.json" "$scratch/kept.json" || return 1
    for word; do grep -qF -- "$word" "$out" || { echo "# without: $word"; return 1; }; done
}
check "a wrong chunk remains, and nothing is written" \
    remains 'at(0, 0)[0]["src_buff"][0]["index"] ^= 1' "result: rank " "with these changes, which do not suffice:"
check "a missing signal remains" \
    remains 'ops = at(0, 0); del ops[[op["name"] for op in ops].index("signal")]' "deadlock: rank "
plan "copy i0 > o0; put i0 > ro0 @m" "" >"$scratch/two.json"
check "a rank without thread blocks takes part in no fix" \
    eval 'ends_with 1 "$program" fix "$scratch/two.json" -o "$scratch/kept.json" && one_line_says "no fix corrects"'
check "what could be corrected is printed with what remains" \
    remains 'keep(lambda op: op["name"] != "nop"); at(0, 0)[0]["src_buff"][0]["index"] ^= 1' "result: rank " "nop added"

# ------------------------------------------------------------------------- bad input

head -c 200 "$scratch/ring.json" >"$scratch/bad.json"
refuses "a missing -o is a usage error" 2 "fix $scratch/ring.json" "-o"
refuses "a missing FILE is a usage error" 2 "fix -o $scratch/x.json" "expected FILE"
refuses "two files are a usage error" 2 "fix a b -o $scratch/x.json" "expected FILE" "got 2"
refuses "-o without a name is a usage error" 2 "fix $scratch/ring.json -o" "-o"
refuses "an option of another command is a usage error" 2 "fix --strict $scratch/ring.json -o $scratch/x.json" "--strict"
refuses "malformed JSON ends with 2" 2 "fix $scratch/bad.json -o $scratch/x.json" "bad.json:" "JSON"
refuses "a missing file ends with 3" 3 "fix $scratch/none.json -o $scratch/x.json" "none.json" "No such file"
refuses "a folder as FILE ends with 3" 3 "fix $scratch -o $scratch/x.json" "cannot read"
refuses "a file that cannot be written ends with 3" 3 "fix $scratch/ring.json -o $scratch/none/x.json" "none/x.json"
check "nothing is written then" [ ! -e "$scratch/x.json" ]
if [ -w /dev/full ]; then
    refuses "a full disk ends with 3" 3 "fix $scratch/ring.json -o /dev/full" "/dev/full"
fi

spoil "$scratch/ring.json" 'keep(lambda op: op["name"] != "nop")' >"$scratch/same.json"
chmod 640 "$scratch/same.json"
check "a file can be replaced by its correction" fixes "$scratch/same.json" "$scratch/same.json"
check "it keeps its permissions, and no other file is left" \
    eval '[ "$(stat -c %a "$scratch/same.json")" = 640 ] && [ "$(find "$scratch" -name "same.json*" | wc -l)" -eq 1 ]'

tap_done
