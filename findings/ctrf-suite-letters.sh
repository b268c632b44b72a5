#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
python_packages otr-ctrf-bridge==0.1.0
says "CTRF's field suite is a list; a converter takes a string, which older writers put there, apart into one nested level for each letter"
report() {
    printf '{"reportFormat":"CTRF","specVersion":"0.0.0","results":{"tool":{"name":"tool"},"summary":{"tests":1,"passed":1,
"failed":0,"pending":0,"skipped":0,"other":0,"start":0,"stop":1},"tests":[{"name":"sum","status":"passed","duration":1,"suite":%s}]}}' "$1" >report.json
    otr-ctrf ctrf2otr report.json | grep -o ' name="[^"]*"' | sed 's/.*name="//; s/"//' | xargs
}
expect 'levels of "suite": ["abc"]' "pytest session abc sum" "$(report '["abc"]')"
expect 'levels of "suite": "abc"' "pytest session a b c sum" "$(report '"abc"')"
finish
