#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
python_packages prometheus_client==0.26.0
says "prometheus_client's parser appends _total to the samples of a counter that has no such ending, in a text format in which both are valid, so that a metric read and written again has another name"
cat >parse.py <<'P'
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

class Text:
    def collect(self):
        return text_string_to_metric_families("# TYPE calls counter\ncalls 3\n# TYPE bytes_total counter\nbytes_total 4\n")

registry = CollectorRegistry()
registry.register(Text())
print(*sorted(line.split()[0] for line in generate_latest(registry).decode().splitlines() if line[0] != "#"))
P
expect "samples calls and bytes_total after reading and writing" "bytes_total calls_total" "$(python3 parse.py)"
finish
