#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs curl
debian_packages prometheus-node-exporter=1.5.0-1+b6
says "node_exporter's textfile collector drops the sample of a second file whose HELP text differs, although its labels do too; it answers 200 and reports no scrape error, and only its log says so"
mkdir text
printf '# HELP job_failed Failed rows.\n# TYPE job_failed gauge\njob_failed{job="a"} 1\n' >text/a.prom
printf '# HELP job_failed Failed checks.\n# TYPE job_failed gauge\njob_failed{job="b"} 6\n' >text/b.prom
port=$((20000 + $$ % 10000))
root/usr/bin/prometheus-node-exporter --web.listen-address="127.0.0.1:$port" --collector.disable-defaults \
    --collector.textfile --collector.textfile.directory="$work/text" >log 2>&1 &
exporter=$!
for ((i = 0; i < 100; i++)); do curl -fs "http://127.0.0.1:$port/metrics" >got 2>/dev/null && break; sleep 0.1; done
curl -s -o got -w '%{http_code}' "http://127.0.0.1:$port/metrics" >code
kill $exporter
expect "answer" 200 "$(cat code)"
expect "samples" 'job_failed{job="a"} 1' "$(grep '^job_failed' got)"
expect "reported error" "node_textfile_scrape_error 0" "$(grep '^node_textfile_scrape_error' got)"
finish
