#!/bin/bash
# Files that weir-compare and weir-report write: each is replaced at once or not at all, a failure says why, names are plain text for
# a terminal, metrics of several runs can be beside each other, CTRF has the form of its schema; and a store whose writer was
# killed. Run from the repository's root.
set -u
. verify/tests/support/tap.sh

program=./weir-compare
if [ ! -x $program ]; then
    skip "files that are written" "not built here: no GSL or no jansson"
    tap_done
fi
grep -v ',fail,' results/sample.csv >"$scratch/a.csv"
has() { grep -qE -- "$1" "$out"; }

# Each output: its name and its option.
declare -A outputs=([json]=--json [junit]=--junit [ctrf]=--ctrf [prometheus]=--prometheus [markdown]=--markdown [csv]=--csv
    [rows]=--rows-json [suspects]=--suspects)
for kind in "${!outputs[@]}"; do
    option=${outputs[$kind]} file=$scratch/out.$kind from=$scratch/a.csv code=0
    [ $kind != suspects ] || from=results/sample.csv code=1 # a wrong row, so that there is a suspect
    echo old >"$file" && chmod 640 "$file" && ln -f "$file" "$file.old"
    check "$option replaces the file" eval 'ends_with $code $program $option "$file" "$from" "$from" && [ -s "$file" ] && ! grep -qx old "$file" && grep -qx old "$file.old"'
    check "$option keeps its permissions, and leaves nothing else" eval '[ "$(stat -c %a "$file")" = 640 ] && ! ls "$file".[0-9]* 2>/dev/null'
    echo old >"$file"
    # A file may have no byte: as on a full disk, but without root. Messages go through a pipe.
    # shellcheck disable=SC2069 # the table is not wanted
    limited() { trap '' XFSZ; ulimit -f 0; exec $program "$option" "$file" "$from" "$from" 2>&1 >/dev/null; }
    (limited) | cat >"$scratch/limited.err"
    # shellcheck disable=SC2034 # used by eval below
    limited_code=${PIPESTATUS[0]}
    check "$option: a file that cannot be written is named with the reason, and the old one stays" eval \
        '[ $limited_code -eq $((code ? code : 3)) ] && grep -q "out.$kind: File too large" "$scratch/limited.err" && grep -qx old "$file" && ! ls "$file".[0-9]* 2>/dev/null'
    check "$option: a full device is said" eval '$program $option /dev/full "$from" "$from" >/dev/null 2>"$err"; grep -q "/dev/full: No space left on device" "$err"'
done
echo old >"$scratch/target" && ln -s target "$scratch/link" && ln "$scratch/target" "$scratch/target.old"
check "a link stays, and what it leads to is replaced at once" eval \
    'ends_with 0 $program --json "$scratch/link" "$scratch/a.csv" "$scratch/a.csv" && [ -L "$scratch/link" ] && grep -q schema "$scratch/target" && grep -qx old "$scratch/target.old"'
cp "$scratch/a.csv" "$scratch/read.csv"
for outputs in "--json $scratch/both --junit $scratch/both" "--markdown $scratch/read.csv" "--csv $scratch/read.csv"; do
    # Outputs are words to split.
    # shellcheck disable=SC2086
    check "an output that overwrites another or what is read is refused ($outputs)" eval \
        'ends_with 2 $program $outputs "$scratch/read.csv" "$scratch/read.csv" && one_line_says "an output needs a separate file" && [ ! -e "$scratch/both" ] && cmp -s "$scratch/a.csv" "$scratch/read.csv"'
done
check "a file in a folder that is not there is named" eval 'ends_with 3 $program --json "$scratch/none/x.json" "$scratch/a.csv" "$scratch/a.csv" && one_line_says "none/x.json: No such file"'
if [ -x ./weir-report ]; then
    echo old >"$scratch/page.html"
    # shellcheck disable=SC2069 # the table is not wanted
    page() { trap '' XFSZ; ulimit -f 0; exec ./weir-report -o "$scratch/page.html" "$scratch/a.csv" 2>&1 >/dev/null; }
    (page) | cat >"$scratch/page.err"; code=${PIPESTATUS[0]}
    check "a page that cannot be written ends with 3, and the old one stays" eval '[ $code -eq 3 ] && grep -q "page.html: " "$scratch/page.err" && grep -qx old "$scratch/page.html"'
    check "links that cannot be read: one line says so, without a second reason" eval \
        'ends_with 3 ./weir-report -o "$scratch/x.html" --links "$scratch/none" "$scratch/a.csv" && one_line_says "none: " "--links" && [ ! -e "$scratch/x.html" ]'
fi

# Names from the command line and from files, with a terminal's sequences in one and two bytes, and what is no UTF-8.
evil=$'\033[31mX\302\233m\200\177'
cp "$scratch/a.csv" "$scratch/$evil.csv"
printf 'allreduce 8 contender=%s <= 1 us\n' "$evil" >"$scratch/floors"
printf '%s 8 <= 1 us\n' "$evil" >"$scratch/bad-floors"
sed "s/,h,/,$evil,/; s/,weir,/,weir:1:$evil,/" "$scratch/a.csv" >"$scratch/evil.csv"
printf '# nThread 1 nGpus 1\n# Collective test starting: %s\n' "$evil" >"$scratch/evil.log"
printf '# OSU MPI %s Latency Test v7\n# Size Avg Latency(us)\n1 1\n' "$evil" >"$scratch/evil.txt"
printf '{"results":[{"rows":[{"%s":1}]}]}' "$evil" >"$scratch/evil-rows.json"
plain() { ! LC_ALL=C grep -q $'[\001-\010\013-\037\177\200]\|\302\233' "$1"; }
says_plainly() { # CODE arguments of weir-compare
    local code=$1
    shift
    ends_with "$code" $program "$@" && plain "$out" && plain "$err"
}
check "the name of a source is shown as plain text" says_plainly 0 "$scratch/$evil.csv" "$scratch/a.csv"
check "a missing source is shown as plain text" says_plainly 3 "$scratch/none-$evil" "$scratch/a.csv"
check "an output's name is shown as plain text" says_plainly 3 --json "$scratch/none/$evil" "$scratch/a.csv" "$scratch/a.csv"
check "an option is shown as plain text" says_plainly 2 "--$evil" "$scratch/a.csv"
check "an expectation is shown as plain text" says_plainly 3 --expect "$scratch/floors" "$scratch/a.csv"
check "an invalid expectation is shown as plain text" says_plainly 2 --expect "$scratch/bad-floors" "$scratch/a.csv"
check "hosts and candidates of a CSV are shown as plain text" says_plainly 0 "$scratch/evil.csv" "$scratch/evil.csv"
for file in evil.log evil.txt evil-rows.json; do
    check "what is wrong with $file is shown as plain text" eval "$program --ranks 2 --csv '$scratch/x.csv' '$scratch/$file' >'$out' 2>'$err'; plain '$out' && plain '$err' && [ -s '$err' ]"
done
check "a missing run of a store is shown as plain text" says_plainly 3 --store "$scratch" --accept "$evil"

# Metrics of several runs in one folder: no two samples have the same name and labels.
check "two verdicts are written as metrics" eval 'ends_with 0 $program --prometheus "$scratch/one.prom" "$scratch/a.csv" "$scratch/a.csv" &&
    ends_with 1 $program --prometheus "$scratch/two.prom" results/sample.csv results/sample.csv && ends_with 0 $program --format prometheus "$scratch/a.csv" "$scratch/a.csv" && cp "$out" "$scratch/three.prom"'
check "both verdicts are there" eval 'grep -q "^weir_compare_failed{output=\"one\"} 0$" "$scratch/one.prom" && grep -q "^weir_compare_failed{output=\"two\"} 1$" "$scratch/two.prom" &&
    grep -q "^weir_compare_exit_code{output=\"two\"} 1$" "$scratch/two.prom" && grep -q "^weir_compare_failed{output=\"a.csv\"} 0$" "$scratch/three.prom"'
check "no sample is there twice" eval '[ -z "$(cat "$scratch"/{one,two,three}.prom | grep -v "^#" | sed "s/ [^ ]*$//" | sort | uniq -d)" ]'
check "heads of a metric are the same in all files" eval '[ -z "$(cat "$scratch"/{one,two,three}.prom | grep "^# HELP" | sort -u | cut -d" " -f3 | uniq -d)" ]'

# CTRF's schema, as rules: required members, and their types.
if python3 -c 'import json' 2>/dev/null; then
    ctrf_rules() {
        python3 - "$1" <<'PY'
import json, sys
def rule(holds, text):
    if not holds:
        print("# CTRF:", text); sys.exit(1)
top = json.load(open(sys.argv[1]))
rule(top["reportFormat"] == "CTRF" and top["specVersion"].count(".") == 2, "head")
results = top["results"]
rule(isinstance(results["tool"]["name"], str) and results["tool"]["name"], "tool")
summary = results["summary"]
for key in ("tests", "passed", "failed", "pending", "skipped", "other", "start", "stop"):
    rule(type(summary[key]) is int and summary[key] >= 0, key)
counts = {state: sum(test["status"] == state for test in results["tests"]) for state in ("passed", "failed", "skipped", "pending", "other")}
rule(all(summary[state] == count for state, count in counts.items()), "counts")
rule(summary["tests"] == len(results["tests"]) > 0 and summary["start"] <= summary["stop"], "sums")
allowed = {"name", "status", "duration", "suite", "message", "extra"}
for test in results["tests"]:
    rule(set(test) <= allowed and isinstance(test["name"], str) and test["name"], "test")
    rule(test["status"] in counts and type(test["duration"]) in (int, float) and test["duration"] >= 0, "status")
    rule(isinstance(test["suite"], list) and test["suite"] and all(isinstance(name, str) and name for name in test["suite"]), "suite")
    rule(isinstance(test.get("message", ""), str) and isinstance(test["extra"], dict), "message")
PY
    }
    $program --ctrf "$scratch/a.ctrf" results/sample.csv results/sample.csv >/dev/null 2>&1
    check "CTRF of a comparison keeps the schema's rules" ctrf_rules "$scratch/a.ctrf"
    echo 'allreduce 32 <= 1 us' >"$scratch/floors"
    $program --ctrf "$scratch/b.ctrf" --expect "$scratch/floors" results/sample.csv >/dev/null 2>&1
    check "CTRF of expectations keeps the schema's rules" ctrf_rules "$scratch/b.ctrf"
    check "the suite is a list of one name" grep -q '"suite": \[' "$scratch/a.ctrf"
else
    skip "CTRF's rules" "no python3"
fi

# A store whose writer was killed in the middle of a run leaves a journal that the next reader undoes.
if $program --store "$scratch/s.db" --add 1 "$scratch/a.csv" 2>&1 | grep -q 'has no SQLite' || ! python3 -c 'import sqlite3' 2>/dev/null; then
    skip "a store whose writer was killed" "no SQLite here, or no python3"
else
    killed() { # leaves a changed file and the journal that undoes it
        python3 - "$1" <<'PY'
import os, sqlite3, sys
store = sqlite3.connect(sys.argv[1], isolation_level=None)
store.execute("PRAGMA cache_size = 1")
store.execute("BEGIN IMMEDIATE")
columns = [row[1] for row in store.execute("PRAGMA table_info(rows)")]
for i in range(3000):
    store.execute("INSERT INTO rows(%s) SELECT %s FROM rows WHERE run = '1' LIMIT 1" % (",".join(f'"{c}"' for c in columns), ",".join("'2'" if c == "run" else f'"{c}"' for c in columns)))
os._exit(9)
PY
        [ -s "$1-journal" ]
    }
    for reading in 'compared' 'listed' 'latest'; do
        cp "$scratch/s.db" "$scratch/k.db"
        killed "$scratch/k.db"
        check "a writer that is killed leaves a journal ($reading)" [ -s "$scratch/k.db-journal" ]
        case $reading in
        compared) check "its store can be read" ends_with 0 $program --store "$scratch/k.db" 1 1 ;;
        listed) check "a store as a source can be read" ends_with 0 $program "$scratch/k.db" "$scratch/a.csv" ;;
        latest) check "its last run is the one before" ends_with 0 $program --store "$scratch/k.db" latest 1 ;;
        esac
    done
    check "what the killed writer had added is not there" ends_with 3 $program --store "$scratch/k.db" 2 1
fi
tap_done
