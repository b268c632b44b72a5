#!/bin/sh
# The command line of weir-topo: the summary of recorded machines and of this one, JSON output,
# recordings that read back as the same machine, measured links, and errors, each one line with
# the documented exit code. Run from the repository's root; WEIR_TOPO names another program.

program=${WEIR_TOPO:-./weir-topo}
machines=topo/machines
number=0
failed=0
scratch=$(mktemp -d) || exit 3
trap 'rm -rf "$scratch"' EXIT

# check NAME STATUS: prints one TAP line.
check() {
    number=$((number + 1))
    if [ "$2" -eq 0 ]; then
        printf 'ok %d - %s\n' "$number" "$1"
    else
        printf 'not ok %d - %s\n' "$number" "$1"
        sed 's/^/# /' "$scratch/out" "$scratch/err" 2>/dev/null
        failed=1
    fi
}

# plain ARGUMENTS: prints them without folder names.
plain() {
    printf '%s\n' "$*" | sed "s:$scratch/::g; s:$machines/::g"
}

skip() {
    number=$((number + 1))
    echo "ok $number - $1 # SKIP $2"
}

# run ARGUMENTS: runs weir-topo; leaves its output in $scratch/out and err, its exit code in $code.
run() {
    "$program" "$@" >"$scratch/out" 2>"$scratch/err"
    code=$?
}

# shows NAME PATTERN...: the last run ended with 0, printed nothing on standard error, and its
# output matches every pattern.
shows() {
    name=$1
    shift
    status=0
    [ "$code" -eq 0 ] && [ ! -s "$scratch/err" ] || status=1
    for pattern in "$@"; do
        grep -q -e "$pattern" "$scratch/out" || status=1
    done
    check "$name" $status
}

# refuses CODE PATTERN ARGUMENTS: weir-topo ends with CODE and prints only one line, which matches
# PATTERN, on standard error.
refuses() {
    expected=$1
    pattern=$2
    shift 2
    run "$@"
    status=0
    [ "$code" -eq "$expected" ] || status=1
    [ "$(wc -l <"$scratch/err")" -eq 1 ] || status=1
    [ ! -s "$scratch/out" ] || status=1
    grep -q -e "$pattern" "$scratch/err" || status=1
    check "exit code $expected and one line: weir-topo $(plain "$*")" $status
}

is_json() {
    if command -v python3 >/dev/null 2>&1; then
        python3 -m json.tool "$1" >/dev/null 2>&1
        return
    fi
    [ "$(tr -cd '{[' <"$1" | wc -c)" -eq "$(tr -cd '}]' <"$1" | wc -c)" ] &&
        [ "$(head -c 1 "$1")" = "{" ] && [ "$(tail -n 1 "$1" | tail -c 2)" = "}" ]
}

json_of() {
    run --json "$@"
    status=1
    [ "$code" -eq 0 ] && is_json "$scratch/out" && status=0
    check "weir-topo $(plain --json "$@") prints JSON" $status
}

run
shows "this machine prints its summary, nodes and ranks" \
    "^this machine: .* NUMA node" "digest" "^NUMA" "^Rank"

run --xml $machines/8-gpu-8-nic.xml
shows "8 GPUs: ranks, their NICs, NVLink and switches" \
    "8 GPUs (NVIDIA GPU 80GB), 8 NICs" "^   7     1  cuda7   mlx5_7 " "^cuda0 .*nv450" \
    "^cuda5 .*switch"
run --xml $machines/4-gpu-1-nic.xml --ranks=16
shows "4 GPUs, 16 ranks: cores that are shared are marked" "^  15 .*(shared by 2 ranks)"
run --xml $machines/2-core.xml --ranks 2
shows "2 cores, 2 ranks: one core each" "^   0     0  -  .* 1  0$" "^   1     0  -  .* 1  1$"
run --xml $machines/2-core.xml
status=1
[ "$code" -eq 0 ] && ! grep -q "GPU:" "$scratch/out" && status=0
check "without GPUs there is no table of GPU distances" $status

json_of
json_of --xml $machines/8-gpu-8-nic.xml --ranks 16
json_of --xml $machines/4-gpu-1-nic.xml --ranks 3
json_of --xml $machines/2-core.xml
cp $machines/2-core.xml "$scratch/a\"b\\c.xml"
json_of --xml "$scratch/a\"b\\c.xml"

# The numbers of the text are those of the JSON object: counts, sizes, devices, ranks, links.
if command -v python3 >/dev/null 2>&1; then
    for options in "" "--xml $machines/8-gpu-8-nic.xml --ranks 3" "--xml $machines/4-gpu-1-nic.xml --ranks 16" \
        "--xml $machines/4-node-64-core.xml --ranks 5"; do
        # shellcheck disable=SC2086 # options are words
        python3 -B verify/tests/support/tool_numbers.py topo ./weir-topo $options >"$scratch/out" 2>"$scratch/err"
        check "weir-topo $(plain "$options"): text and JSON have the same numbers" $?
    done
fi

run --save "$scratch/saved.xml"
before=$(sed -n 's/.*digest *//p' "$scratch/out")
run --xml "$scratch/saved.xml"
after=$(sed -n 's/.*digest *//p' "$scratch/out")
status=1
[ -n "$before" ] && [ "$before" = "$after" ] && status=0
check "a recording of this machine has this machine's digest" $status

status=1
[ -s "$scratch/saved.xml" ] && ! grep -q -i -e "name=\"hostname\"" -e "name=\"address\"" "$scratch/saved.xml" && status=0
check "a recording contains neither host name nor addresses" $status

if command -v taskset >/dev/null 2>&1 && [ "$(nproc)" -ge 2 ]; then
    cpu=$(taskset -pc $$ | sed 's/.*: *\([0-9]*\).*/\1/')
    taskset -c "$cpu" "$program" >"$scratch/out" 2>"$scratch/err"
    code=$?
    shows "a process that is bound to one hardware thread is reported as bound" \
        "this process may use 1 on 1"
else
    skip "a process that is bound to one hardware thread is reported as bound" \
        "needs taskset and two cores"
fi

# redirected NAME=VALUE: weir-topo shows this machine, and names the variable on one line.
redirected() {
    env "$1" "$program" >"$scratch/out" 2>"$scratch/err"
    status=1
    [ "$(sed -n 's/.*digest *//p' "$scratch/out")" = "$before" ] &&
        [ "$(grep -c "^weir-topo: warning: ${1%%=*} is set, .*--xml FILE" "$scratch/err")" -eq 1 ] && status=0
    check "${1%%=*} does not change what this machine is, and is named" $status
}
redirected HWLOC_XMLFILE=$machines/8-gpu-8-nic.xml
redirected "HWLOC_SYNTHETIC=node:2 core:4 pu:2"
redirected HWLOC_FSROOT=/no/such/root

run --help
shows "--help lists every option" --ranks --json --xml --save --version --help
run --version
shows "--version prints the version" "weir-topo: weir [0-9]"

refuses 2 "unknown option --frobnicate" --frobnicate
refuses 2 "unexpected word machine: options start with -" machine
refuses 2 "takes no value" --json=yes
refuses 2 "needs a value: N" --ranks
refuses 2 "from 1 to" --ranks 0
refuses 2 "from 1 to" --ranks 3x
refuses 2 "from 1 to" --ranks 99999999999999999999
refuses 2 "No such file" --xml "$scratch/none.xml"
refuses 2 "weir-topo --save" --xml Makefile
refuses 2 "weir-topo --save" --xml topo
head -c 20000 $machines/8-gpu-8-nic.xml >"$scratch/cut.xml"
refuses 2 "weir-topo --save" --xml "$scratch/cut.xml"
HWLOC_LIBXML=0
export HWLOC_LIBXML
refuses 2 "weir-topo --save" --xml "$scratch/cut.xml"
unset HWLOC_LIBXML
refuses 2 "cannot write" --save "$scratch/none/x.xml"

mkdir "$scratch/records"
for node in 01 02 03 04 05 06 07 08 09; do cp $machines/4-gpu-1-nic.xml "$scratch/records/node$node.xml"; done
cp $machines/2-core.xml "$scratch/records/login.xml"
run --nodes "$scratch/records"
shows "--nodes shows the nodes of a job as kinds with their numbers" '^10 nodes of 2 kinds$' \
    '^  9 x 8 cores, .* 4 GPUs .* (topology [0-9a-f]*): node01, node02, node03, node04, \.\.\.$' \
    '^  1 x .* (topology [0-9a-f]*): login$'
mkdir "$scratch/empty"
refuses 2 "no .xml file; write one on each node with --save" --nodes "$scratch/empty"
refuses 2 "none" --nodes "$scratch/none"
cp /dev/null "$scratch/records/cut.xml"
refuses 2 "cut.xml" --nodes "$scratch/records"

run --quiet --measure "$scratch/links" --ranks 3
# Of a busy machine.
sed -i '/^weir-topo: warning: the link from .* measure again$/d; /^weir-topo: links between cores: .* left$/d' "$scratch/err"
shows "--measure measures the links between cores" 'between 3 cores' 'GB/s of the slowest'
status=1
[ "$(grep -c '^pair ' "$scratch/links")" -eq 6 ] && [ "$(grep -c '^together ' "$scratch/links")" -ge 5 ] &&
    awk '$1 == "pair" && ($4 <= 0 || $5 <= 0) { bad = 1 } $1 == "together" && $3 <= 0 { bad = 1 }
        END { exit bad }' "$scratch/links" && status=0
check "--measure writes bandwidth and latency of each pair, and the bandwidth of all together" \
    $status
refuses 2 "give --ranks 2 to" --measure "$scratch/links" --ranks 1
refuses 2 "recorded machine cannot be measured" --measure "$scratch/links" --xml $machines/4-gpu-1-nic.xml
refuses 2 "none/links" --measure "$scratch/none/links" --ranks 2

if [ -w /dev/full ]; then
    "$program" >/dev/full 2>"$scratch/err"
    code=$?
    status=1
    [ "$code" -eq 3 ] && grep -q "standard output" "$scratch/err" && status=0
    check "standard output on a full disk ends with 3" $status
else
    skip "standard output on a full disk ends with 3" "needs /dev/full"
fi

# --svg: a picture with a box for each device.
# picture NAME BOXES PATTERN FILE: it has so many boxes, and the pattern.
picture() {
    run --xml "$4" --svg
    status=1
    [ "$code" -eq 0 ] && [ "$(grep -c '<rect ' "$scratch/out")" -eq "$2" ] && grep -q -- "$3" "$scratch/out" && status=0
    check "$1" $status
}
picture "--svg draws NUMA nodes, GPUs and NICs, and the NVLinks between all GPUs" 19 'NVLink, 450 GB/s' $machines/8-gpu-8-nic.xml
status=1
[ "$(grep -c '<line ' "$scratch/out")" -eq 8 ] && head -n 1 "$scratch/out" | grep -q '^<svg xmlns=' && status=0
check "--svg joins each GPU with its NIC" $status
picture "--svg of a machine without GPUs has its NIC" 3 'eth0' $machines/2-core.xml
sed 's/name="CPUModel" value="[^"]*"/name="CPUModel" value="A processor whose name is twice as wide as the machine around it"/' $machines/2-core.xml >"$scratch/wide.xml"
# Bold letters of this size are at most 8 wide on average; the picture is as wide as its title of 64.
picture "--svg is as wide as a long name of the processor" 3 'viewBox="0 0 \(5[3-9].\|[6-9]..\) .*' "$scratch/wide.xml"
if command -v xmllint >/dev/null 2>&1; then
    sed 's/NVIDIA GPU 24GB/A \&lt;b\&gt; \&amp; \&quot;/g' $machines/4-gpu-1-nic.xml >"$scratch/names.xml"
    run --xml "$scratch/names.xml" --svg
    xmllint --noout "$scratch/out" 2>"$scratch/err"
    check "--svg is well-formed with any name" $?
else
    skip "--svg is well-formed with any name" "no xmllint"
fi

# --nccl and --diff: machines that NCCL has described.
# describe WIDTH LINKS: a processor with two GPUs, the first with so many lanes and NVLinks.
describe() {
    cat <<END
<system version="1">
  <cpu numaid="1" affinity="ff00" arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1"/>
  <cpu numaid="0" affinity="00ff" arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1">
    <pci busid="0000:01:00.0" class="0x030200" vendor="0x10de" device="0x20b0" link_speed="16.0 GT/s PCIe" link_width="$1">
      <gpu dev="0" sm="80" rank="0" gdr="1"><nvlink target="0000:02:00.0" count="$2" tclass="0x030200"/></gpu>
    </pci>
    <pci busid="0000:02:00.0" class="0x030200" vendor="0x10de" device="0x20b0" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="80" rank="1" gdr="1"><nvlink target="0000:01:00.0" count="4" tclass="0x030200"/></gpu>
    </pci>
  </cpu>
</system>
END
}
describe 16 4 >"$scratch/whole.nccl"
describe 8 4 >"$scratch/narrow.nccl"
run --nccl "$scratch/whole.nccl"
shows "--nccl shows a machine that NCCL has described" '16 cores, 2 NUMA nodes, 2 GPUs (NVIDIA GPU sm_80), no NIC' \
    '^  0  cuda0   0000:01:00.0     0       31.5' '^cuda0 .*nv100'
json_of --nccl "$scratch/whole.nccl"
picture_of_nccl() { "$program" --nccl "$scratch/whole.nccl" --svg | grep -q 'NVLink, 100 GB/s'; }
picture_of_nccl
check "--nccl with --svg draws it" $?
refuses 2 "whole.nccl: this is NCCL's description .* --nccl FILE" --xml "$scratch/whole.nccl"
refuses 2 "2-core.xml:[0-9]*: <topology> is not NCCL's" --nccl $machines/2-core.xml
refuses 2 "expected one of them" --xml $machines/2-core.xml --nccl "$scratch/whole.nccl"
refuses 2 "recorded machine cannot be measured" --measure "$scratch/links" --nccl "$scratch/whole.nccl"
run --diff "$scratch/whole.nccl" "$scratch/whole.nccl"
shows "--diff of equal machines says so" '^no difference between '
run --diff "$scratch/whole.nccl" "$scratch/narrow.nccl"
status=1
[ "$code" -eq 1 ] && [ ! -s "$scratch/err" ] && [ "$(wc -l <"$scratch/out")" -eq 1 ] &&
    grep -q '^GPU 0 .*PCIe link .*: 31.5 GB/s in .*whole.nccl, 15.8 GB/s in .*narrow.nccl$' "$scratch/out" && status=0
check "--diff says what differs, and ends with 1" $status
run --diff "$scratch/saved.xml"
shows "--diff with one file compares this machine" '^no difference between .*saved.xml and this machine$'
refuses 2 "No such file" --diff "$scratch/none" "$scratch/whole.nccl"
refuses 2 "whole.nccl2: " --diff "$scratch/whole.nccl" "$scratch/whole.nccl2"
mkdir "$scratch/described"
for node in 1 2 3; do cp "$scratch/whole.nccl" "$scratch/described/node$node.xml"; done
cp $machines/2-core.xml "$scratch/described/login.xml"
run --nodes "$scratch/described"
shows "--nodes reads files of NCCL as well" '^4 nodes of 2 kinds$' '^  3 x 16 cores, .* 2 GPUs .*: node1, node2, node3$'
refuses 2 "unexpected word" --diff "$scratch/whole.nccl" "$scratch/whole.nccl" third

# --write-nccl: NCCL's form of a recorded machine, and of this one.
run --xml $machines/8-gpu-8-nic.xml --write-nccl "$scratch/written.nccl"
run --diff $machines/8-gpu-8-nic.xml "$scratch/written.nccl"
shows "--write-nccl: --diff finds no difference from the recording" '^no difference between '
run --write-nccl "$scratch/here.nccl"
run --diff "$scratch/here.nccl"
shows "--write-nccl: --diff finds no difference from this machine" '^no difference between .* and this machine$'
printf '%s\n' '0000:13:00.0 0000:05:00.0' 'numa 0 0 0-7' >"$scratch/map"
run --xml $machines/8-gpu-8-nic.xml --write-nccl "$scratch/guest.nccl" --guest "$scratch/map"
run --nccl "$scratch/guest.nccl"
shows "--guest gives a GPU the guest's address" ' 8 cores, 1 NUMA node, 1 GPU, no NIC' '0000:05:00.0 .*63.0'
echo '0000:13:00.1 0000:05:00.0' >"$scratch/map"
refuses 2 "map:1: no GPU or NIC of the host" --xml $machines/8-gpu-8-nic.xml --write-nccl "$scratch/guest.nccl" \
    --guest "$scratch/map"
refuses 2 "map2: cannot read the map: No such file" --write-nccl "$scratch/guest.nccl" --guest "$scratch/map2"
refuses 2 "needs --write-nccl" --guest "$scratch/map"
refuses 2 "cannot write" --write-nccl "$scratch/none/x.nccl"

# --nccl-graph: rings and trees on a machine.
# graph ORDER: a file with two rings, the second twice, and a tree from a NIC to a NIC.
graph() {
    echo '<graphs version="1">
<graph id="0" pattern="4" crossnic="0" nchannels="3" speedintra="20" speedinter="20" typeintra="NVL" typeinter="PIX" samechannels="0">'
    for order in "0 1 2 3" "$1" "$1"; do
        echo '<channel>'
        for gpu in $order; do echo "<gpu dev=\"0x$gpu\" rank=\"$gpu\"/>"; done
        echo '</channel>'
    done
    echo '</graph>
<graph id="1" pattern="1" crossnic="0" nchannels="1" speedintra="12.5" speedinter="6" typeintra="NVL" typeinter="PIX" samechannels="0">
<channel><net dev="0x100000000000002"/><gpu dev="0x100000000000000"/><gpu dev="3"/><net dev="1"/></channel></graph></graphs>'
}
graph "0 2 1 3" >"$scratch/graph.xml"
run --xml $machines/4-gpu-1-nic.xml --nccl-graph "$scratch/graph.xml"
shows "--nccl-graph shows rings and trees, and what their GPUs share" \
    '^ring (graph 0): 3 channels, 20 GB/s each between GPUs (NVL)$' '^    1 x  cuda0 cuda1 cuda2 cuda3   (2 root, 2 numa)$' \
    '^    2 x  cuda0 cuda2 cuda1 cuda3   (4 numa)$' '^balanced tree (graph 1): 1 channel, 12.5 .*, 6 GB/s to NICs (PIX)$' \
    '^    1 x  net2 cuda0 cuda3 net1   (1 numa)$'
run --xml $machines/8-gpu-8-nic.xml --nccl-graph "$scratch/graph.xml"
shows "--nccl-graph: steps over NVLink need no remark" '^    1 x  cuda0 cuda1 cuda2 cuda3$'
json_of --xml $machines/4-gpu-1-nic.xml --nccl-graph "$scratch/graph.xml"
run --xml $machines/4-gpu-1-nic.xml --nccl-graph "$scratch/graph.xml" --svg
status=1 # four, four and two GPUs; a ring has as many arrows as GPUs, a chain one less
[ "$(grep -c '<circle ' "$scratch/out")" -eq 10 ] && [ "$(grep -c 'marker-end' "$scratch/out")" -eq 9 ] &&
    grep -q '>2 x ring<' "$scratch/out" && status=0
check "--nccl-graph with --svg draws a line for each way" $status
status=1 # the middles of the GPUs' boxes are at 84, 222, 360 and 498
[ "$(sed -n 's/.*d="M\([0-9]*\) .* \([0-9]*\) [0-9]*" fill.*marker-end.*/\1-\2/p' "$scratch/out" | xargs)" = \
    "84-222 222-360 360-498 498-84 84-360 360-222 222-498 498-84 84-498" ] && status=0
check "--nccl-graph with --svg draws each arrow from a GPU to the next" $status
graph "0 1 2 9" >"$scratch/graph9.xml"
refuses 2 "graph9.xml:13: the machine has no GPU 9" --xml $machines/4-gpu-1-nic.xml --nccl-graph "$scratch/graph9.xml"
graph "0 1 2 1" >"$scratch/twice.xml"
refuses 2 "twice.xml:13: GPU 1 is in this channel twice" --xml $machines/4-gpu-1-nic.xml --nccl-graph "$scratch/twice.xml"
refuses 2 "whole.nccl:1: <system> is not NCCL's graphs.*--nccl FILE" --nccl "$scratch/whole.nccl" --nccl-graph "$scratch/whole.nccl"
refuses 2 "graph.xml:1: these are NCCL's graphs, which --nccl-graph" --nccl "$scratch/graph.xml"
refuses 2 "graph.xml: this is NCCL's graphs.*--nccl-graph" --xml "$scratch/graph.xml"
for bad in 's/pattern="4"/pattern="44"/' 's/dev="0x1"/dev="x"/' 's/id="0" //' '/<gpu dev="0x[0-3]"/d' 's/<graph /<grap /'; do
    sed "$bad" "$scratch/graph.xml" >"$scratch/bad.xml"
    refuses 2 "bad.xml:[0-9]*: [^ ]*" --xml $machines/4-gpu-1-nic.xml --nccl-graph "$scratch/bad.xml"
done

# The driver's facts about GPUs: its library and the machine are simulated.
if "${CC:-cc}" -shared -fPIC -o "$scratch/machine.so" verify/tests/support/hwloc_machine_standin.c -lhwloc -ldl \
    2>"$scratch/err" && "${CC:-cc}" -shared -fPIC -DSTANDIN_ANY -o "$scratch/libnvidia-ml.so.1" \
    verify/tests/support/nvml_standin.c 2>"$scratch/err"; then
    STANDIN_MACHINE=$machines/4-gpu-1-nic.xml LD_LIBRARY_PATH=$scratch LD_PRELOAD=$scratch/machine.so \
        "$program" --write-nccl "$scratch/driver.nccl" >"$scratch/out" 2>"$scratch/err"
    status=1
    [ "$(grep -c '<gpu dev="[0-3]" sm="90">' "$scratch/driver.nccl")" -eq 4 ] &&
        [ "$(grep -c '<nvlink target="0000:ab:00.0" count="5" tclass="0x068000"/>' "$scratch/driver.nccl")" -eq 4 ] &&
        [ "$(grep -c '<nvlink target="fffffff:ffff:ff" count="6" ' "$scratch/driver.nccl")" -eq 4 ] && status=0
    check "--write-nccl has what the driver knows about GPUs" $status
else
    skip "--write-nccl has what the driver knows about GPUs" "no compiler, or no headers of hwloc"
fi

if command -v python3 >/dev/null 2>&1; then
    python3 $machines/recipe.py "$scratch"
    status=0
    for machine in "$machines"/*.xml; do
        cmp -s "$machine" "$scratch/${machine##*/}" || status=1
    done
    check "the recorded machines equal the output of their generator" $status
else
    skip "the recorded machines equal the output of their generator" "needs python3"
fi

echo "1..$number"
exit $failed
