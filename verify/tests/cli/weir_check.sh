#!/bin/bash
# weir-check on one node: levels, verdicts, exit codes and report formats. Stand-ins of the benchmarks,
# in the folder of a copy of the program, plant what a healthy node does not have: wrong data, a hang, a
# crash, slowness. Run from the repository's root.
. verify/tests/support/tap.sh

says() { grep -qE -- "$1" "$out"; }
last() { [ "$(tail -n 1 "$out")" = "$1" ]; }

if [ ! -x ./weir-check ]; then
    skip "weir-check" "not built: no hwloc, expat, gsl or jansson"
    tap_done
fi

mkdir "$scratch/tmp"
export TMPDIR="$scratch/tmp"

# ------------------------------------------------------------------ a healthy node
check "a healthy node passes" ends_with 0 ./weir-check --quiet --json "$scratch/good.json" --junit "$scratch/a.xml" \
    --ctrf "$scratch/a.ctrf" --prometheus "$scratch/a.prom" --markdown "$scratch/a.md"
cp "$out" "$scratch/a.txt"
check "the last line says so" eval 'tail -n 1 "$out" | grep -qE "^PASS: [1-9][0-9]* checks$"'
for id in node.cores node.memory node.shm host.copy.all allreduce.1KiB.weir allreduce.16MiB.weir; do
    check "$id is shown with a value" says "^$id +[0-9.]+"
done
check "quick takes 15 s at most, unless the machine is busy" eval 'awk "/^# took/ { exit !(\$3 <= 15) }" "$out" || says "^# busy"'

python=$(command -v python3)
reads() { # reads FILE PROGRAM: python3 runs the program with the JSON document d of the file
    "$python" -c "import json, sys; d = json.load(open(sys.argv[1])); sys.exit(not ($2))" "$1"
}
if [ -n "$python" ]; then
    cpu=$(sed -n 's/^model name[[:blank:]]*: //p' /proc/cpuinfo | head -n 1)
    check "JSON names the processor" reads "$scratch/good.json" "d['cpu'] == '''$cpu'''"
    check "JSON has all checks" reads "$scratch/good.json" \
        "d['tool'] == 'weir-check' and d['schema'] == 1 and d['failed'] == 0 and len(d['checks']) > 8"
    check "CTRF has its required members and counts that add up" reads "$scratch/a.ctrf" \
        "d['results']['tool']['name'] == 'weir-check' and d['results']['summary']['tests'] == len(d['results']['tests']) == sum(d['results']['summary'][k] for k in ('passed', 'failed', 'pending', 'skipped', 'other')) and all({'name', 'status', 'duration'} <= t.keys() for t in d['results']['tests'])"
    check "every number of the table is in all other forms, in the unit that they name" "$python" -B \
        verify/tests/support/tool_numbers.py check "$scratch/a.txt" "$scratch/good.json" "$scratch/a.prom" \
        "$scratch/a.md" "$scratch/a.xml" "$scratch/a.ctrf"
    check "JUnit is well-formed and has the figures" "$python" -c "
import sys, xml.dom.minidom as m
s = m.parse('$scratch/a.xml').documentElement
c = s.getElementsByTagName('testcase')
sys.exit(not (len(c) == int(s.getAttribute('tests')) and any('GB/s' in x.toxml() for x in c)))"
else
    skip "JSON, CTRF and JUnit are well-formed" "no python3"
fi
# The text format of Prometheus: a comment, or a metric with labels in braces and a number.
check "every line of the metrics is in Prometheus' format" eval \
    '[ -s "$scratch/a.prom" ] && ! grep -vqE "^# (HELP|TYPE) weir_[a-z_]+ .+$|^weir_[a-z_]+(\{([a-z]+=\"[^\"]*\",?)+\})? -?[0-9.e+-]+$" "$scratch/a.prom"'
check "metrics have the bus bandwidth of collectives" grep -qE \
    '^weir_busbw_gbs\{collective="allreduce",bytes="16777216",nranks="[0-9]+",candidate="weir",level="quick"\} [0-9.]+$' "$scratch/a.prom"
check "Markdown begins with the verdict" eval 'head -n 1 "$scratch/a.md" | grep -q "^### PASS"'

! long_part "a report on standard output" ||
    check "a report can be written to standard output, before the table" eval \
    'ends_with 0 ./weir-check --quiet --json /dev/stdout && says "\"tool\": \"weir-check\"" && tail -n 1 "$out" | grep -q "^PASS"'

# ------------------------------------------------------------------ the expected hardware
./weir-topo --save "$scratch/here.xml" >"$scratch/topo.txt"
check "the recorded hardware passes" eval \
    'ends_with 0 ./weir-check --quiet --expect-topology "$scratch/here.xml" && says "^topology +0 += 0 +PASS"'
check "other hardware than expected ends with 6, and each difference in words" eval \
    'ends_with 6 ./weir-check --quiet --expect-topology topo/machines/4-gpu-1-nic.xml &&
    says "^topology\.[0-9]+ .*MISSING .*GPU 2 \(cuda2, 0000:41:00.0\) is missing in this machine"'
sed 's/<gpu/<gnu/; s/"0000/"000/' topo/machines/2-core.xml | head -c 300 >"$scratch/cut.xml"
check "a file that is no machine is a usage error" eval \
    'ends_with 2 ./weir-check --quiet --expect-topology "$scratch/cut.xml" && grep -q "cut.xml: .*weir-topo --save" "$err"'
check "the hardware of a fleet is not compared" ends_with 2 ./weir-check --fleet --expect-topology "$scratch/here.xml"

# ------------------------------------------------- what stand-ins of the benchmarks plant
mkdir "$scratch/bin"
cp ./weir-check "$scratch/bin"
# plant BODY: the benchmarks become scripts, which find the path of --csv in $csv and the size in $size.
plant() {
    local name
    for name in allreduce alltoall allgather reduce_scatter broadcast reduce sendrecv alltoallv; do
        cat >"$scratch/bin/bench_$name" <<END
#!/bin/bash
while [ \$# -gt 0 ]; do
    case \$1 in --csv) csv=\$2 ;; -b) size=\$2 ;; esac
    shift
done
$1
END
        chmod +x "$scratch/bin/bench_$name"
    done
}
# These run on one core, as the measurements between cores, which take most of the time, are not their subject.
one_core=''
if command -v taskset >/dev/null; then one_core="taskset -c $(taskset -pc $$ | sed 's/.*: //; s/[^0-9].*//')"; fi
planted() { $one_core "$scratch/bin/weir-check" --quiet --timeout 1 "$@"; }
# row MICROSECONDS GB/S: what a benchmark writes to its CSV file.
row='row() { printf "schema,collective,nranks,nnodes,contender,dtype,redop,root,placement,bytes,count,iters,median_us,algbw_gbs,busbw_gbs,verify,wrong\n5,allreduce,2,1,weir,float,sum,-1,out,16777216,4194304,20,%s,%s,%s,pass,0\n" "$1" "$2" "$2" >"$csv"; }'

plant 'echo "bench: 7 wrong elements" >&2; exit 1'
check "wrong data ends with 1" ends_with 1 planted
check "wrong data is named" says "^allreduce.1KiB.weir: WRONG: .*7 wrong elements"
plant "$row"'; row 5 3; sed -i "s/,pass,0$/,fail,7/" "$csv"; exit 1'
check "a row with wrong data ends with 1" ends_with 1 planted
check "its wrong elements are counted" says "^allreduce.16MiB.weir: WRONG: .*; 7 wrong elements"
plant 'echo "bench: rank 1 waits for rank 0" >&2; exit 4'
check "a deadline ends with 4" ends_with 4 planted
check "a deadline is named with the benchmark's report" says "^allreduce.1KiB.weir: HUNG: .*rank 1 waits for rank 0"
plant 'kill -SEGV $$'
check "a crash ends with 3" ends_with 3 planted
check "a crash is named with its signal" says "^allreduce.16MiB.weir: ERROR: .*signal 11"
check "its report is all that is printed" [ ! -s "$err" ]
plant 'echo "bench: WEIR_INVARIANT=x: expected a number" >&2; exit 2'
check "a benchmark that refuses to run ends with 3" ends_with 3 planted
check "its reason is named" says "^allreduce.1KiB.weir: ERROR: .*WEIR_INVARIANT=x: expected a number"
check "a fault of --inject that nothing finds ends with 3" eval \
    'ends_with 3 planted --inject nope && says "^inject: ERROR: .*no collective found nope"'
plant "$row; row 1 5"
check "a program that ends well passes" ends_with 0 planted --json "$scratch/fast.json"
# The peers that a benchmark measured are checks of their own, each with its row.
plant "$row; row 1 5; sed 's/,weir,/,nccl:2.28.9,/; s/,5,5,pass/,6,6,pass/; 1d' \"\$csv\" >\"\$csv.more\"; sed 's/,weir,/,mpi:openmpi-4.1.4,/; s/,5,5,pass/,4,4,pass/; 1d' \"\$csv\" >>\"\$csv.more\"; cat \"\$csv.more\" >>\"\$csv\"; rm \"\$csv.more\""
check "benchmarks with two peers pass" ends_with 0 planted --json "$scratch/peers.json"
check "each peer of a collective is a check with its figure" eval '
    says "^allreduce.16MiB.weir +5.00 GB/s" && says "^allreduce.16MiB.nccl:2.28.9 +6.00 GB/s" && says "^allreduce.16MiB.mpi:openmpi-4.1.4 +4.00 GB/s"'
sed 's/"value": 5,/"value": 50,/' "$scratch/fast.json" >"$scratch/faster.json"
# Other tests may use the processors now, which excuses slowness of the host, so it is tried again.
found_slow() { for _ in 1 2; do planted --baseline "$scratch/faster.json" >"$out" 2>"$err"; [ $? -eq 5 ] && return; sleep 1; done; says "^# busy"; }
check "bandwidth below the baseline ends with 5, if the node is not busy" found_slow
check "then the figure and the baseline are shown" eval \
    'says "^# busy" || says "^allreduce.16MiB.weir: SLOW: .*5.00 GB/s, expected >= 40.00 GB/s \(baseline"'

# ------------------------------------------------------------------- missing parts
check "fewer GPUs than --gpus end with 6" ends_with 6 planted --gpus 99 --json "$scratch/gpus.json" --junit "$scratch/gpus.xml"
check "the check is named, with what to look at" eval 'says "^gpus: MISSING: .*expected >= 99" && says "look at: nvidia-smi"'
check "what to do is said" says "^  action: reboot$"
check "files state the action: of the check, and of the report" eval \
    '[ "$(grep -c "\"action\": \"reboot\"" "$scratch/gpus.json")" = 2 ] && grep -q "action: reboot" "$scratch/gpus.xml"'
check "the last line counts failures" eval 'tail -n 1 "$out" | grep -qE "^FAIL: 1 of [0-9]+ checks$"'
sed 's/\("value": \)\([0-9.]*\)/\1\2/; /"id": "node.cores"/,/"value"/s/"value": [0-9]*/"value": 4096/' "$scratch/fast.json" >"$scratch/more.json"
check "fewer cores than the baseline end with 6" ends_with 6 planted --baseline "$scratch/more.json"
check "the baseline is named" says "^node.cores: MISSING: .*expected >= 4096 \(baseline $scratch/more.json\)"

# --------------------------------------------------- errors that GPUs count, and throttling
# A recorded machine with 4 GPUs in place of this one, a stand-in of the driver's library, and benchmarks that change the counters of one GPU,
# so that they rise while the checks run.
if command -v "${CC:-cc}" >/dev/null &&
    "${CC:-cc}" -shared -fPIC -o "$scratch/machine.so" verify/tests/support/hwloc_machine_standin.c -lhwloc -ldl &&
    "${CC:-cc}" -shared -fPIC -fvisibility=hidden -o "$scratch/libnvidia-ml.so.1" verify/tests/support/nvml_counters_standin.c; then
    counters=$scratch/counters
    # gpus LINE...: the counters of the machine's 4 GPUs; the driver does not find those without a line.
    gpus() { printf '%s\n' "${1:+0000:02:00.0 $1}" "${2:+0000:03:00.0 $2}" "${3:+0000:41:00.0 $3}" "${4:+0000:42:00.0 $4}"; }
    # become LINE...: the same from the first benchmark on.
    become() { plant "$row; row 1 5; printf '%s\n' $(gpus "$@" | sed "s/.*/'&'/" | tr '\n' ' ') >'$counters'"; }
    # CUDA is kept from looking for GPUs, which are not there.
    machine() {
        gpus '3 0 4 0x0' '-1 -1 -1 0x0' '0 0 4 0x0' '0 7 4 0x1' >"$counters"
        $one_core env LD_PRELOAD="$scratch/machine.so" STANDIN_MACHINE=topo/machines/4-gpu-1-nic.xml CUDA_VISIBLE_DEVICES= STANDIN_COUNTERS="$counters" \
            LD_LIBRARY_PATH="$scratch${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$scratch/bin/weir-check" --quiet "$@"
    }
    become '3 0 4 0x0' '-1 -1 -1 0x0' '0 0 4 0x0' '0 7 4 0x1'
    check "GPUs without new errors, or without counters, pass" ends_with 0 machine
    check "errors from before the checks are shown, and do not count" eval \
        'says "^gpu0.ecc.uncorrected +0 +<= 0 +PASS .*3 before" && says "^gpu3.nvlink.errors +0 +<= 0 +PASS .*7 before"'
    check "active links are counted" says '^gpu2.nvlinks +4 +'
    become '3 0 4 0x0' '-1 -1 -1 0x24' '0 0 4 0x0' '0 7 4 0x1'
    check "throttling ends with 5" ends_with 5 machine
    check "the GPU is named with the reasons" says '^gpu1.throttled: SLOW: .*power-cap\+heat'
    become '5 0 4 0x0' '-1 -1 -1 0x0' '0 0 3 0x0' '0 12 4 0x1'
    check "ECC errors, NVLink errors and a lost link end with 6" ends_with 6 machine
    check "the GPU with new ECC errors is named" says '^gpu0.ecc.uncorrected: MISSING: .*: 2, expected <= 0'
    check "the GPU whose link went down is named" says '^gpu2.nvlinks: MISSING: .*: 3, expected = 4'
    check "the GPU with new NVLink errors is named" says '^gpu3.nvlink.errors: MISSING: .*: 5, expected <= 0'
    check "it is said what to look at" says 'look at: nvidia-smi nvlink -e'
    check "a reset is the action for each of them" eval '[ "$(grep -c "^  action: reset the GPU$" "$out")" = 3 ]'
    check "nothing else fails" eval 'tail -n 1 "$out" | grep -qE "^FAIL: 3 of [0-9]+ checks$"'
    become '-1 0 4 0x0' '-1 -1 -1 0x0' '' '0 7 4 0x1'
    check "a GPU that the driver loses ends with 6" ends_with 6 machine
    check "it is named" says '^gpu2.driver: MISSING: .*by its bus id: Not Found'
    check "a counter that is no longer reported is named" says '^gpu0.ecc.uncorrected: MISSING: .*no longer reports'
    check "without a driver the counters are skipped" eval \
        'machine() { $one_core env -u STANDIN_COUNTERS LD_PRELOAD="$scratch/machine.so" STANDIN_MACHINE=topo/machines/4-gpu-1-nic.xml CUDA_VISIBLE_DEVICES= LD_LIBRARY_PATH="$scratch" "$scratch/bin/weir-check" --quiet; }; ends_with 0 machine && says "^gpu2.driver .* skipped .*Driver Not Loaded"'
else
    skip "errors that GPUs count" "no compiler"
fi

# A hang: weir-check ends the program, and whatever it started, after twice its deadline.
plant 'sleep 300 & echo $! >>"'"$scratch"'/pids"; sleep 300'
check "a program that does not end is killed, with 4" ends_with 4 timeout 100 $one_core "$scratch/bin/weir-check" --quiet --timeout 1
check "it is named" says "^allreduce.1KiB.weir: HUNG"
runs() { grep -q '^State:[^Z]*$' "/proc/$1/status" 2>/dev/null; } # a zombie does not run
none_left() { local pid; while read -r pid; do runs "$pid" && return 1; done <"$scratch/pids"; return 0; }
check "nothing that it started is left" none_left
check "no temporary file is left" eval '[ -z "$(ls -A "$TMPDIR")" ]'

# ---------------------------------------------------------------------- usage errors
usage() { ends_with 2 ./weir-check "$@" && [ "$(wc -l <"$err")" -eq 1 ]; }
check "an unknown option is a usage error" usage --fast
check "an unknown level is a usage error" usage --level slow
check "options of a fleet need --fleet" usage --bisect
check "--rank without --address is a usage error" usage --fleet --rank 0 --nodes 2
check "a malformed number is a usage error" usage --gpus many
echo '{}' >"$scratch/none.json"
check "a baseline that is no report is a usage error" usage --baseline "$scratch/none.json"
check "it says how to record one" grep -q -- "--json" "$err"
check "a baseline that is not there ends with 3" ends_with 3 ./weir-check --baseline "$scratch/absent.json"
echo 'gpu X | y' >"$scratch/rules"
check "a malformed rule is named with its line" eval 'usage --models "$scratch/rules" && grep -q "rules:1: expected" "$err"'
check "--help lists the exit codes" eval 'ends_with 0 ./weir-check --help && says "5 slow"'
check "--fleet without a launcher says how to start it" eval 'env -u RANK -u WORLD_SIZE ./weir-check --fleet >"$out" 2>"$err"; [ $? -eq 2 ] && grep -q "srun, mpirun" "$err"'
fleet="./weir-check --fleet --rank 0 --nodes 2 --timeout 1 --quiet"
# shellcheck disable=SC2086 # several words
check "a node that does not come is missing" ends_with 6 $fleet --address "127.0.0.1:$((20000 + RANDOM % 12000))"
check "it is named in the report" says "^fleet.nodes: MISSING: .*rank 1 has not joined"
# The address is reserved for documentation; no host has it.
# shellcheck disable=SC2086
check "an address of another host is an error" ends_with 3 $fleet --address 203.0.113.1:20000
check "then there is no report" eval '! says "fleet.nodes" && grep -q "cannot listen" "$err"'
tap_done
