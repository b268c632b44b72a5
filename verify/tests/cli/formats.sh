#!/bin/bash
# Files of other tools are read field by field: each sample of verify/tests/formats has the rows, written by hand, that
# weir-compare must make of it, and its messages. Then what launchers and log collectors put around the lines of a log. Run from
# the repository's root.
set -u
. verify/tests/support/tap.sh

program=./weir-compare
if [ ! -x $program ]; then
    skip "formats of other tools" "not built here: no GSL or no jansson"
    tap_done
fi
formats=verify/tests/formats

# rows FILE: the rows that weir-compare makes of a file, as name=value of each field that is not empty, but for the run's name.
rows() {
    rm -f "$scratch/rows.csv"
    $program --ranks 4 --csv "$scratch/rows.csv" "$1" >"$out" 2>"$err"
    [ ! -f "$scratch/rows.csv" ] || awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) name[i] = $i; next }
        { line = ""; for (i = 1; i <= NF; i++) if ($i != "" && name[i] != "run_id") line = line (line == "" ? "" : " ") name[i] "=" $i; print line }' "$scratch/rows.csv"
}
# says_all FILE WANT: the messages are those of the lines "!..." of WANT, in their order, and no others.
says_all() {
    local line number=0
    while IFS= read -r line; do
        number=$((number + 1))
        [[ $(sed -n "${number}p" "$err") = "$1${line#!}"* ]] || { echo "# message $number: '$(sed -n "${number}p" "$err")', expected '$1${line#!}'"; return 1; }
    done < <(grep '^!' "$2")
    [ "$(grep -vc '^weir-compare: ' "$err")" -eq $number ] || { echo "# more messages: $(sed -n "$((number + 1))p" "$err")"; return 1; }
}
same_rows() { # FILE WANT
    rows "$1" >"$scratch/got"
    grep -v '^!' "$2" >"$scratch/want"
    diff "$scratch/want" "$scratch/got" | sed 's/^/# /' >"$scratch/difference"
    cat "$scratch/difference"
    [ ! -s "$scratch/difference" ] && says_all "$1" "$2"
}
for want in "$formats"/*.want; do
    for file in "${want%.want}".{log,txt,json,csv}; do
        [ -f "$file" ] || continue
        check "every field of $(basename "$file") is right" same_rows "$file" "$want"
    done
done

# What is around the lines: the same rows come out. Each variant is a program that changes the lines of a log.
stamp=2026-01-02T03:04:
around() {
    case $1 in
    'nothing') cat ;;
    'mpirun --tag-output') sed 's/^/[1,0]<stdout>:/' ;;
    'mpirun --tag-output of 100 ranks and more') sed 's/^/[1,128]<stdout>:/' ;;
    'mpirun --tag-output, tags inside lines') awk 'NR % 3 == 0 { $0 = substr($0, 1, 9) "[1,0]<stdout>:" substr($0, 10) } { print "[1,0]<stdout>:" $0 }' ;;
    'prterun --output tag') sed 's/^/[prterun-blade1-123@1,0]<stdout>: /' ;;
    'prterun --output tag-detailed') sed 's/^/[prterun-blade1-123@1,0][blade1:7001]<stdout>: /' ;;
    'mpirun --timestamp-output') awk '{ printf "Fri Jan  2 03:04:%02d 2026<stdout>:%s\n", NR % 60, $0 }' ;;
    'both') awk '{ printf "Fri Jan  2 03:04:%02d 2026[1,0]<stdout>:%s\n", NR % 60, $0 }' ;;
    'srun -l') sed 's/^/0: /' ;;
    'srun -l of many tasks') sed 's/^/  0: /' ;;
    'mpiexec -prepend-rank' | 'Intel MPI -l') sed 's/^/[0] /' ;;
    'torchrun') sed 's/^/[default0]:/' ;;
    'pdsh') sed 's/^/blade1: /' ;;
    'kubectl --prefix') sed 's|^|[pod/launcher-x7k2p/main] |' ;;
    'kubectl --prefix --timestamps') awk -v stamp=$stamp '{ printf "[pod/launcher-x7k2p/main] %s%02d.%dZ %s\n", stamp, NR % 60, 123456789 / (1 + NR % 3), $0 }' ;;
    'docker logs -t') awk -v stamp=$stamp '{ printf "%s%02d.%dZ %s\n", stamp, NR % 60, 123456789 / (1 + NR % 3), $0 }' ;;
    'docker compose') sed 's/^/launcher-0  | /' ;;
    'docker compose in colours') sed 's/^\(.*\)$/'$'\033''[36mlauncher-0  | '$'\033''[0m\1/' ;;
    'stern') sed 's/^/launcher-x7k2p main /' ;;
    'CRI') awk -v stamp=$stamp '{ printf "%s%02d.%dZ stdout F %s\n", stamp, NR % 60, 123456789 / (1 + NR % 3), $0 }' ;;
    'CRI with partial lines') awk -v stamp=$stamp '{ h = int(length($0) / 2); printf "%s%02d.%dZ stdout P %s\n%s%02d.5Z stdout F %s\n", stamp, NR % 60, NR, substr($0, 1, h), stamp, NR % 60, substr($0, h + 1) }' ;;
    'journalctl') awk '{ printf "Jan 02 03:04:%02d blade1 nccl[7001]: %s\n", NR % 60, $0 }' ;;
    'GitHub Actions') awk -v stamp=$stamp '{ printf "%s%02d.1234567Z %s\n", stamp, NR % 60, $0 }' ;;
    'gh run view --log') awk -v stamp=$stamp -v t='\t' '{ printf "bench%sRun benchmark%s%s%02d.1234567Z %s\n", t, t, stamp, NR % 60, $0 }' ;;
    'GitLab') awk -v stamp=$stamp '{ printf "%s%02d.123456Z 01O %s\n", stamp, NR % 60, $0 }' ;;
    'Jenkins') awk -v stamp=$stamp '{ printf "[%s%02d.123Z] %s\n", stamp, NR % 60, $0 }' ;;
    'ts') awk '{ printf "Jan 02 03:04:%02d %s\n", NR % 60, $0 }' ;;
    'ts -s') awk '{ printf "00:00:%02d %s\n", NR % 60, $0 }' ;;
    'ts %.s') awk '{ printf "1767323045.%06d %s\n", NR, $0 }' ;;
    'a logging module') awk '{ printf "2026-01-02 03:04:%02d,123 - INFO - %s\n", NR % 60, $0 }' ;;
    'grep') sed 's/^/night.log:/' ;;
    'grep -n') awk '{ print NR ":" $0 }' ;;
    'a quotation') sed 's/^/> /' ;;
    'an indented block') sed 's/^/    /' ;;
    'tabs between columns') sed 's/   */\t/g' ;;
    'a diff') sed 's/^/+/' ;;
    'colours') sed 's/^\(.*\)$/'$'\033''[32m\1'$'\033''[0m/' ;;
    'a byte order mark') printf '\357\273\277'; cat ;;
    'line ends of Windows') sed 's/$/\r/' ;;
    'UTF-16') printf '\377\376'; iconv -f ASCII -t UTF-16LE ;;
    'progress that is overwritten') sed 's/^/  5%\r 95%\r/' ;;
    'Docker JSON') awk -v stamp=$stamp '{ gsub(/"/, "\\\""); printf "{\"log\":\"%s\\n\",\"stream\":\"stdout\",\"time\":\"%s%02dZ\"}\n", $0, stamp, NR % 60 }' ;;
    'journald JSON') awk '{ gsub(/"/, "\\\""); printf "{\"__CURSOR\":\"s%d\",\"MESSAGE\":\"%s\",\"_PID\":\"7\"}\n", NR, $0 }' ;;
    'a log service') echo '['; awk '{ gsub(/"/, "\\\""); printf "%s{\"timestamp\":%d,\"textPayload\":\"%s\"}", (NR > 1 ? ",\n" : ""), NR, $0 }'; echo ']' ;;
    esac
}
variants=(nothing 'mpirun --tag-output' 'mpirun --tag-output, tags inside lines' 'mpirun --tag-output of 100 ranks and more' 'prterun --output tag' 'prterun --output tag-detailed'
    'mpirun --timestamp-output' both 'srun -l' 'srun -l of many tasks' 'mpiexec -prepend-rank' 'torchrun' pdsh 'kubectl --prefix'
    'kubectl --prefix --timestamps' 'docker logs -t' 'docker compose' 'docker compose in colours' stern CRI 'CRI with partial lines' journalctl
    'GitHub Actions' 'gh run view --log' GitLab Jenkins ts 'ts -s' 'ts %.s' 'a logging module' grep 'grep -n' 'a quotation' 'an indented block'
    'tabs between columns' 'a diff' colours 'a byte order mark' 'line ends of Windows' UTF-16 'progress that is overwritten' 'Docker JSON' 'journald JSON' 'a log service')
wrapped() { # VARIANT SAMPLE
    around "$1" <"$formats/$2" >"$scratch/wrapped.log"
    rows "$scratch/wrapped.log" >"$scratch/got"
    grep -v '^!' "$formats/${2%.*}.want" | diff - "$scratch/got" | head -n 4 | sed 's/^/# /' >"$scratch/difference"
    cat "$scratch/difference"
    [ ! -s "$scratch/difference" ]
}
# OSU states the number of ranks only in its command.
{ echo '$ mpirun -np 6 ./osu_alltoall'; sed -n 8,11p "$formats/osu-full.txt"; } >"$scratch/command.txt"
check "the ranks of OSU are those of the command before it" eval \
    '$program --csv "$scratch/command.csv" "$scratch/command.txt" >"$out" 2>"$err" && grep -q ",6,.*,out,6144," "$scratch/command.csv"'
# Rows that do not belong together.
sed 's/cputime/   time/g' "$formats/nccl-cputime-iterations.log" >"$scratch/time.log"
check "times of the processor are not compared with times" eval 'ends_with 3 $program "$scratch/time.log" "$formats/nccl-cputime-iterations.log" && one_line_says "A has plain times, B has times of the processor"'
sed 's/Group  1/Group  0/' "$formats/nccl-groups.log" | grep -v 'Rank  [13]' | sed 's/Rank  2/Rank  1/' >"$scratch/group.log"
check "a group of several is not compared with the same ranks alone" eval 'ends_with 3 $program "$scratch/group.log" "$formats/nccl-groups.log" && one_line_says "B has times of several groups at once"'
imb_time() { sed "s/ 7.25 /$(printf %5s "$1") /" "$formats/imb-2018.txt" >"$scratch/$2"; }
imb_time 0.07 a.txt; imb_time 0.08 b.txt; imb_time 70.07 c.txt; imb_time 80.07 d.txt
check "what the last printed digit leaves open is inconclusive" eval 'ends_with 0 $program --start-noise 0.1% "$scratch/a.txt" "$scratch/b.txt" && grep -q inconclusive "$out"'
check "the same ratio with more digits is certain" ends_with 1 $program --start-noise 0.1% "$scratch/c.txt" "$scratch/d.txt"
echo 'allreduce 512 contender=nccl place=out busbw >= 0.0256 GB/s' >"$scratch/floors"
check "a bandwidth that is printed as 0.03 is that of the time" eval \
    'ends_with 0 $program --expect "$scratch/floors" "$scratch/group.log" && grep -q "met (0.0256" "$out"'
# The same prefixes around CSV and lines of JSON.
for file in rccl-columns-moved.csv rccl-lines.json; do
    for variant in 'mpirun --tag-output' 'srun -l' 'docker logs -t' 'a byte order mark' colours; do
        case $variant in colours) [ $file = rccl-lines.json ] || continue ;; esac
        # shellcheck disable=SC2034 # used by eval below
        formats_of=$file
        check "the rows of $file are the same behind: $variant" eval 'around "$variant" <"$formats/$formats_of" >"$scratch/data.log"; rows "$scratch/data.log" >"$scratch/got"; grep -v "^!" "$formats/${formats_of%.*}.want" | diff - "$scratch/got" >"$out"'
    done
done
# jansson has no whole numbers beyond 64 bits with a sign.
with_large_numbers() { # SAMPLE
    sed 's/{/{"hash": 18446744073709551615, "other": -18446744073709551615, /' "$formats/$1" >"$scratch/large.json"
    rows "$scratch/large.json" >"$scratch/got"
    grep -v '^!' "$formats/${1%.*}.want" | diff - "$scratch/got" >/dev/null
}
for file in nccl-appended.json rccl-groups.json rccl-lines.json; do
    check "unsigned numbers of 64 bits, which are not read, do not spoil $file" with_large_numbers $file
done
# Two pods with a run each, whose lines are mixed.
grep -v 'Rank  1\|Out of' "$formats/nccl-footer-failed.log" | awk -v stamp=2026-01-02T03:04: '{ for (p = 0; p < 2; p++) printf "[pod/w-%d/x] %s%02d.%dZ %s\n", p, stamp, NR, p + 1, $0 }' >"$scratch/pods.log"
check "mixed lines of two pods are two runs" eval '[ "$(rows "$scratch/pods.log" | grep -c "nranks=1 .*median_us=20.00")" -eq 2 ]'
check "runs of one rank each are named" grep -q "2 runs of one rank each, not one run of 2 ranks" "$err"

for variant in "${variants[@]}"; do
    for sample in nccl-two-nodes.log osu-full.txt imb-2021.txt; do
        check "the rows of $sample are the same behind: $variant" wrapped "$variant" $sample
    done
done
tap_done
