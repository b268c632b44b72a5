#!/bin/bash
# ci/nightly: its plan; nightly runs with simulated benchmarks (one slower, one that hangs, one that
# crashes); resuming an interrupted run; and a small run of the real benchmark. Run from the
# repository's root.
set -u
. verify/tests/support/tap.sh

# build FOLDER FACTOR LINES: a build with a simulated bench_allreduce, which needs no MPI. FACTOR
# multiplies its times at 4096 bytes; LINES are shell commands that it runs first.
build() {
    mkdir -p "$1"
    cat >"$1/bench_allreduce" <<STUB
#!/bin/bash
factor=$2
$3
STUB
    cat >>"$1/bench_allreduce" <<'STUB'
low=8 high=32768 type=float
while [ $# -gt 0 ]; do
    case $1 in
    -b) low=$2 ;;
    -e) high=$2 ;;
    -d) type=$2 ;;
    --csv) csv=$2 ;;
    esac
    shift
done
# The CSV's name contains the round. The noise is 1%, the same in every run.
awk -v low="$low" -v high="$high" -v type="$type" -v csv="$csv" -v factor="$factor" '
    BEGIN {
        name = csv; sub(/.*\//, "", name); round = substr(name, 2) + 0
        srand(round * 1000 + (factor > 1) * 17 + low); id = name ":" factor
        print "schema,run_id,utc,host,collective,backend,transport,nranks,nnodes,contender,algo,dtype,redop,root,placement,bytes,count,iters,median_us,min_us,max_us,p99_us,ci_low_us,ci_high_us,algbw_gbs,busbw_gbs,verify,wrong" >csv
        for (b = 8; b <= 32768; b *= 2)
            if (b >= low && b <= high) {
                us = (10 + b / 1000) * (0.99 + 0.02 * rand()) * (b == 4096 ? factor : 1)
                printf "1,%s,u,h,allreduce,host,shm,4,1,weir,ring,%s,sum,-1,out,%d,2,20,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,,,pass,0\n", id, type, b, us, us * .95, us * 1.2, us * 1.1, us * .998, us * 1.002 >csv
            }
    }'
echo '{}' >"${csv%.csv}.json"
[ -z "${wrong:-}" ] || sed -i "$wrong" "$csv"
[ -n "${broken:-}" ] || echo '# Collective test concluded: bench_allreduce'
exit "${code:-0}"
STUB
    chmod +x "$1/bench_allreduce"
}
has() { grep -qE -- "$1" "$out" "$err"; }
folder() { echo "$scratch/$1"/2*; }
night() { # expected status, store, candidate, options...
    local expected=$1 store=$2 candidate=$3
    shift 3
    ends_with "$expected" ci/nightly --matrix "$scratch/matrix" --baseline "$scratch/base" \
        --candidate "$scratch/$candidate" --store "$scratch/$store" "$@"
}

build "$scratch/base" 1 ''
build "$scratch/same" 1.0001 ''
build "$scratch/slow" 1.10 ''
build "$scratch/hang" 1.0001 '[[ "$*" != *bfloat16* ]] || sleep 60'
build "$scratch/crash" 1.0001 '[[ "$*" != *bfloat16* ]] || { echo "a GPU fell off" >&2; exit 139; }'
cat >"$scratch/matrix" <<'END'
[nightly]
rounds = 3
confirm = 6
launch = env RANKS={n}
[sums]            # a remark
program = bench_allreduce
ranks = 4
types = float bfloat16
options = -b 8 -e 32768
END

check "--dry-run ends with 0" ends_with 0 ci/nightly --dry-run --matrix "$scratch/matrix"
check "--dry-run prints the command of each cell of the matrix" \
    eval 'has "^sums-n4-float: env RANKS=4 DIR/bench_allreduce -d float -b 8" && has "^sums-n4-bfloat16: "'
for example in ci/examples/matrix-*.ini; do
    check "--dry-run accepts the example $(basename "$example")" \
        ends_with 0 ci/nightly --dry-run --matrix "$example"
done
for wrong in "--matrix /none" --matrix "--matrix $scratch/matrix" "--matrix $scratch/matrix --dry-run --rounds 0" \
    "--matrix $scratch/matrix --dry-run --min-effect 5" "--matrix $scratch/matrix --dry-run --alpha 2" --bogus; do
    # The arguments are split into words.
    # shellcheck disable=SC2086
    check "usage error: ${wrong//$scratch/}" ends_with 2 ci/nightly $wrong
done
printf '[x]\nprogram = rm\nranks = 2\n' >"$scratch/bad"
check "a program that is not a benchmark is a usage error" \
    ends_with 2 ci/nightly --dry-run --matrix "$scratch/bad"
printf '[x]\nprogram = bench_reduce\nrank = 2\n' >"$scratch/bad"
check "an unknown key of the matrix is a usage error" \
    ends_with 2 ci/nightly --dry-run --matrix "$scratch/bad"
check "an unknown key of the matrix is reported with file and line" has 'bad:3: no key'
if [ ! -x ./weir-compare ]; then
    skip "nightly runs" "weir-compare is not built here"
    tap_done
fi
check "a store that cannot be made is one line" \
    eval 'ends_with 3 ci/nightly --launch env --matrix "$scratch/matrix" --baseline . --candidate . --store /proc/none && one_line_says /proc/none "another --store"'

check "a nightly run without a change ends with 0" night 0 quiet same
check "a nightly run with one row 1.10x slower ends with 1" night 1 loud slow
# A line that may hide wrong data, and another row that looks slower until it is measured again.
build "$scratch/hidden" 1.10 '[[ "$*" != *-sum.csv* ]] && wrong="3s/,pass,0/,FAIL,3/" || factor=1.0001'
check "a line of the screening that cannot be used ends with 3, whatever the confirmation says" night 3 lines hidden
check "the confirmation alone would have passed" eval '[ -s "$(folder lines)/suspects.csv" ] && ! grep -q "[1-9][0-9]* regressed" "$(folder lines)/verdict.md"'
run=$(folder loud)
check "the slower row is named as regressed in both types" \
    eval '[ "$(grep -cE "^ +4096 .* (float|bfloat16) .*regressed" "$run/verdict.txt")" -eq 2 ] && grep -q "^2 regressed" "$run/verdict.md"'
check "only the slower row is measured again to confirm it" \
    eval '[ "$(ls "$run"/confirm/a/*.csv | wc -l)" -ge 12 ] && ! grep -q ",8," "$run"/confirm/b/r1-sums-n4-float-4096-sum.csv'
check "the run's folder has plan, log, verdicts and manifests" \
    eval '[ -s "$run/plan" ] && [ -s "$run/log" ] && [ -s "$run/verdict.json" ] && [ -s "$run/verdict.xml" ] && [ -f "$run/screen/a/r1-sums-n4-float.json" ]'
rm "$run/verdict.txt" "$run/confirm/b/r6-sums-n4-float-4096-sum.csv" "$run/screen/a/r3-sums-n4-float.csv"
touch "$scratch/mark"
check "an interrupted run is resumed with the same result" \
    night 1 loud slow --resume "$(basename "$run")"
check "a resumed run measures only what was missing" \
    eval '[ "$(find "$run" -name "r*.csv" -newer "$scratch/mark" | wc -l)" -eq 2 ] && [ -s "$run/verdict.txt" ]'
check "resuming with another plan is a usage error" \
    night 2 loud slow --resume "$(basename "$run")" --rounds 4
check "a benchmark that crashes in a cell ends the run with 3" night 3 crashed crash
run=$(folder crashed)
check "a crash is recorded with cell, status and last line of output" \
    grep -q 'screen b r1-sums-n4-bfloat16: ended with 139: a GPU fell off' "$run/failures"
check "a cell that crashed twice is not run again" eval '[ "$(wc -l <"$run/failures")" -eq 2 ]'
check "the other cells are judged, and the crashed cell's rows are reported missing" \
    grep -q '0 regressed.*no difference.*13 missing in B' "$run/verdict.txt"
check "a benchmark that hangs in a cell ends the run with 3" \
    night 3 hung hang --limit 1 --rounds 1 --confirm 1
check "a hang is recorded with the time limit" \
    grep -q 'hung; ended after 1 s' "$(folder hung)/failures"

# A launcher that gets a signal in the middle ends with 0 or 1, and leaves a CSV with some rows.
for code in 0 1; do
    build "$scratch/broken$code" 1.0001 "broken=yes code=$code; [[ \"\$*\" = *bfloat16* ]] || broken= code=0"
    check "a benchmark that is broken off with $code ends the run with 3" night 3 broken$code broken$code --rounds 1 --confirm 1
    run=$(folder broken$code)
    check "it is recorded as broken off, and its rows are not used ($code)" eval \
        'grep -q "screen b r1-sums-n4-bfloat16: broken off: ended with $code" "$run/failures" && [ ! -e "$run/screen/b/r1-sums-n4-bfloat16.csv" ] && [ -s "$run/screen/b/r1-sums-n4-bfloat16.partial" ]'
done

# Wrong data fail the night: in both builds, in a cell's row that the baseline lacks, and if the screening alone shows them.
spoil='s/^\(.*,out,64,\)2,20,[0-9.,]*,,,pass,0$/\12,20,,,,,,,,,fail,3/'
build "$scratch/wrong" 1.0001 "wrong='$spoil' code=1"
build "$scratch/once" 1.0001 "wrong= code=0; [[ \"\$*\" = *screen* || \"\$*\" != */r2-sums-n4-float.csv* ]] || wrong='$spoil' code=1"
check "wrong data of the candidate end with 1" night 1 wrong wrong --rounds 1 --confirm 1
check "the verdict's files have the wrong rows" eval 'run=$(folder wrong); grep -q "wrong results in B" "$run/verdict.txt" && grep -qE "^weir_compare_failed([{].*[}])? [12]$" "$run/verdict.prom" && grep -q "wrong results in B" "$run/verdict.xml"'
check "wrong data in both builds end with 1" ends_with 1 ci/nightly --matrix "$scratch/matrix" --baseline "$scratch/wrong" --candidate "$scratch/wrong" --store "$scratch/both" --rounds 1 --confirm 1
check "wrong data in one run of the screening alone end with 1" night 1 once once --rounds 2 --confirm 1
check "the verdict names them" eval 'run=$(folder once); grep -q "regressed: wrong results in B" "$run/verdict.txt" && grep -q "\"b\": {[^}]*\"failed\": true" "$run/verdict.json"'

# 12 runs of half a second each.
build "$scratch/slowly" 1.0001 'sleep 0.5'
on_terminal() { # arguments of a night; the output of the terminal is in $out
    script -qec "ci/nightly --matrix $scratch/matrix --baseline $scratch/slowly --candidate $scratch/slowly --store $scratch/seen $*" "$out" >/dev/null
}
if command -v script >/dev/null; then
    check "a nightly run on a terminal ends with 0" on_terminal
    check "it shows phase, cell, percent and time left" \
        grep -qE "$(printf '\r\033\\[K')nightly: screen, sums-n4-(float|bfloat16): ([5-9][0-9]|100)%, 0 min [0-9] s left" "$out"
    check "--quiet shows no progress" eval 'on_terminal --quiet && ! grep -q "% left\|s left" "$out"'
else
    skip "progress of a nightly run" "no script(1)"
fi

# --strict: one round each says nothing about differences of a few percent.
build "$scratch/vague" 1.05 ''
check "a row that nothing can be decided about ends with 0 without --strict" \
    night 0 lenient vague --rounds 1 --confirm 1
check "it ends with 1 with --strict" night 1 strict vague --rounds 1 --confirm 1 --strict
check "it has been measured again, and is a failure in the verdict's files" eval \
    'run=$(folder strict); [ -s "$run/suspects.csv" ] && [ -n "$(ls "$run/confirm/b")" ] && has "inconclusive" && grep -q "<failure message=\"inconclusive" "$run/verdict.xml"'
check "--strict ends with 0 if everything is decided" night 0 decided same --strict
run=$(folder decided)
check "the verdict is there as CTRF and as metrics" eval 'grep -q "\"reportFormat\": \"CTRF\"" "$run/verdict.ctrf.json" && grep -q "^weir_compare_failed{output=\"verdict\"} 0$" "$run/verdict.prom"'
check "the verdict's Markdown begins with a summary" eval 'sed -n "1,8p" "$run/verdict.md" | grep -q "^| Hosts | h | h |$"'
if [ -x ./weir-topo ]; then
    check "the machine is there as a picture" grep -q '^<svg ' "$run/topology.svg"
fi

# A launcher that is not there is reported before anything is created.
check "a launcher that is not there ends with 3" night 3 absent same --launch 'no-such-launcher -n {n}'
check "it is named with where to name another, and nothing has begun" \
    eval 'one_line_says "no-such-launcher is no program here" "launch =" && [ ! -e "$scratch/absent" ]'
check "the launcher is the first word after assignments" night 3 absent same --launch 'env A=1 B=2 /none/srun -n {n}'
check "a launcher that is no file is named" one_line_says "/none/srun is no program here"

# The GitHub workflow, two nights on one runner, as bash -e runs its steps: a repository with a tag, and simulated programs.
if command -v git >/dev/null; then
    runner=$scratch/runner
    mkdir -p "$runner/repository/ci/examples"
    cp ci/nightly "$runner/repository/ci"
    cp ci/examples/nightly-github.yml "$runner"
    printf '[nightly]\nrounds = 2\nconfirm = 1\n[sums]\nprogram = bench_allreduce\nranks = 4\noptions = -b 8 -e 32768\n' >"$runner/repository/ci/examples/matrix-gpu.ini"
    printf '#!/bin/sh\nshift 2\nexec "$@"\n' >"$runner/repository/ci/mpirun"
    printf '#!/bin/sh\ntouch deps.were.installed\n' >"$runner/repository/ci/deps"
    build "$runner/repository/source" 1.0001 ''
    for tool in compare report; do printf '#!/bin/sh\nexec %s/weir-%s "$@"\n' "$PWD" $tool >"$runner/repository/source/weir-$tool"; done
    printf 'all:\n\tcp source/* .\ntest-long:\n\t@echo tested\n' >"$runner/repository/Makefile"
    chmod +x "$runner/repository/source"/* "$runner/repository/ci/mpirun" "$runner/repository/ci/deps"
    (cd "$runner/repository" && git init -q . && git add . && git -c user.name=x -c user.email=x@x commit -qm 1 && git tag v1)
    # steps: prints the commands of the workflow's `run:` keys, in their order.
    steps() {
        awk '/^        run: [^|]/ { sub(/^        run: /, ""); print; next }
             /^        run: \|$/ { inside = 1; next }
             inside && /^          / { print substr($0, 11); next }
             { inside = 0 }' "$runner/nightly-github.yml"
    }
    github_night() {
        cd "$runner/repository" && git clean -ffdxq && GITHUB_STEP_SUMMARY=$runner/summary bash -eo pipefail -c "$(steps)"
    }
    check "the workflow has steps that run" [ "$(steps | wc -l)" -ge 12 ]
    for night in first second; do
        check "the GitHub workflow's $night night ends with 0" ends_with 0 eval '(github_night)'
    done
    check "each night has its folder in the store, and the second its own summary" eval \
        '[ "$(find "$runner/nights" -maxdepth 1 -name "2*" | wc -l)" -eq 2 ] && [ "$(grep -c "^### Verdict" "$runner/summary")" -eq 2 ]'
    check "the night's files and report are collected" \
        eval '[ -s "$runner/repository/night/verdict.xml" ] && [ -s "$runner/repository/night/night.html" ]'
else
    skip "the GitHub workflow" "no git"
fi

# The commands of the guide, in their order. commands_of PATTERN: prints the block that has a line with it.
commands_of() {
    awk -v pattern="$1" '/^```/ { if (inside && found) printf "%s", block; inside = !inside; block = ""; found = 0; next }
        inside { block = block $0 "\n"; if (index($0, pattern)) found = 1 }' docs/user/nightly.md
}
if [ -x ./weir-report ]; then
    mkdir "$scratch/home"
    cp -r "$scratch/quiet" "$scratch/home/nights"
    guide_reports() {
        { commands_of builds.html && commands_of 'baseline latest'; } >"$scratch/commands"
        [ "$(wc -l <"$scratch/commands")" -eq 5 ] || return 1
        sed -i "s,-o \([a-z]*\.html\),-o $scratch/home/\1," "$scratch/commands"
        HOME=$scratch/home PATH=$PWD:$PATH bash -euo pipefail "$scratch/commands"
    }
    check "the guide's commands for reports work after the first night, in their order" ends_with 0 guide_reports
    check "they make three pages" eval '[ "$(find "$scratch/home" -maxdepth 1 -name "*.html" -size +2k | wc -l)" -eq 3 ]'
    rm "$scratch/home/nights/baseline"
    check "without --accept there is no baseline" \
        ends_with 3 ./weir-report -o "$scratch/none.html" --store "$scratch/home/nights" baseline latest
    check "the message names --accept" grep -q -- '--accept NAME' "$err"
fi
check "the plan states the number of runs" eval 'ci/nightly --dry-run --matrix "$scratch/matrix" | grep -q "3 rounds of both builds (12 runs)"'

if [ -x ./bench_allreduce ] && [ -x ./bench_alltoallv ] && long_part "a night of the guide's slow candidate"; then
    # The slow candidate of the guide, in a night of this build. A busy machine may need more than 3 rounds.
    gate_test() {
        commands_of 'slow:100' | sed '/--candidate \. /d;s,slower,'"$scratch"'/slower,;s,--store gate-test.*,--store '"$scratch"'/gate-test --rounds 4 --quiet,' >"$scratch/commands"
        [ "$(wc -l <"$scratch/commands")" -ge 6 ] && bash -u "$scratch/commands"
    }
    check "the guide's slow candidate ends a night with 1" ends_with 1 gate_test
    check "the slow candidate's rows are regressed, and the night says why" \
        eval 'grep -q "regressed" "$(folder gate-test)/verdict.txt" && grep -q "inject slow:100" "$(folder gate-test)/verdict.txt"'
fi

if [ -x ./bench_allreduce ]; then
    printf '[nightly]\nrounds = 2\nconfirm = 1\nlimit = 60\n[real]\nprogram = bench_allreduce\nranks = 2\noptions = --backend host -b 64K -e 64K -n 12 -c 0\n' >"$scratch/matrix"
    cp -f "$PWD/bench_allreduce" "$scratch/base/bench_allreduce"
    real_night() { # noise may look like a slow-down
        ci/nightly --matrix "$scratch/matrix" --baseline "$scratch/base" --candidate "$scratch/base" \
            --store "$scratch/real" >"$out" 2>"$err" </dev/null
        [ $? -le 1 ]
    }
    check "a small run of the real benchmark against itself ends with 0 or 1" real_night
    check "the small run starts the benchmark at least 4 times" \
        eval '[ "$(ls "$(folder real)"/screen/?/r*.csv | wc -l)" -ge 4 ]'
fi
tap_done
