"""A strict reader of Prometheus's text format: refuses what a scraper may only tolerate.

read(text) returns {metric: {labels as a sorted tuple of pairs: value}}. Refused: a sample without a
TYPE before it, a second TYPE or HELP, samples of one metric that are apart, the same sample twice,
bad names, escapes and numbers, a last line without its end.
"""
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)$")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)')
TYPES = ("counter", "gauge", "histogram", "summary", "untyped")


class Malformed(ValueError):
    pass


def read_labels(text, line):
    labels, at = {}, 0
    while at < len(text):
        found = LABEL.match(text, at)
        if not found or found[1] in labels:
            raise Malformed(f"labels: {line}")
        labels[found[1]] = found[2]
        at = found.end()
    return tuple(sorted(labels.items()))


def read_comment(line, seen, types):
    words = line.split(" ", 3)
    if len(words) < 4 or words[1] not in ("HELP", "TYPE"):
        raise Malformed(f"comment: {line}")
    if (words[1], words[2]) in seen:
        raise Malformed(f"twice: {line}")
    seen.add((words[1], words[2]))
    if words[1] == "TYPE":
        if words[3] not in TYPES:
            raise Malformed(f"type: {line}")
        types[words[2]] = words[3]


def read(text):
    metrics, types, seen, current = {}, {}, set(), None
    if text and not text.endswith("\n"):
        raise Malformed("the last line has no end")
    for line in text.splitlines():
        if line.startswith("#"):
            read_comment(line, seen, types)
            continue
        found = SAMPLE.match(line)
        if not found or found[1] not in types:
            raise Malformed(f"sample: {line}")
        name, labels = found[1], read_labels(found[2] or "", line)
        if name != current and name in metrics:
            raise Malformed(f"apart from the other samples: {line}")
        current = name
        samples = metrics.setdefault(name, {})
        if labels in samples:
            raise Malformed(f"twice: {line}")
        samples[labels] = float(found[3])
    return metrics
