"""Tables of measurements in docs/performance: they must be those that the files in results/record give, and each of
these files must be named in its folder's README and serve a figure.

A table follows a comment that describes it, and ends at the next comment:

    <!-- figures: ratios; HEADING = FILE FILTER... FILE FILTER...; HEADING = ... -->
    <!-- figures: times bytes 8 2048 ...; HEADING = FILE FILTER...; ... -->   (or: times tokens 1 16 ...)
    <!-- end of figures -->

`ratios` has a row for each collective and a column for each heading: the geometric mean over sizes of the
peer's time divided by weir's, and the least ratio with its size. `times` has a row for each heading and a
column for each size: weir's time, and the peer's if there is one. FILTER is COLUMN=VALUE,VALUE...; it applies
to the file before it. One rule counts everywhere: out of place, no rows of 0 bytes, the default distribution,
the mean over runs, and of several modes of a library the fastest at each size.
"""
import csv
import glob
import math
import os
import re

from checks.files import text

RECORD = "results/record"
PAGES = "docs/performance/*.md"
USERS = (PAGES, "docs/pictures/*.gp", "lib/plan/cost/fleets/*.csv")  # what takes figures from records
BEGIN = re.compile(r"<!-- figures: (.*?) -->")
END = "<!-- end of figures -->"
ORDER = ("allreduce", "reduce_scatter", "reduce", "allgather", "broadcast", "alltoall", "alltoallv", "gather",
         "scatter", "sendrecv", "dispatch", "combine", "pair", "chain")
DEFAULT_DIST = re.compile(r"|spread:1|uniform/.*")
PEERS_HEADING = re.compile(r"# (\w+), (\d+) ranks, ")


class BadMark(Exception):
    """A comment that describes no table, or a table without data."""


def rows_of_results(lines):
    """Rows of weir's CSV; MoE's have a number of tokens in the place of a size."""
    for row in csv.DictReader(lines):
        if row["placement"] == "out" and int(row["bytes"]) > 0 and DEFAULT_DIST.fullmatch(row.get("dist") or ""):
            row["collective"] = row["collective"].replace("moe_", "")
            row["us"] = row["median_us"]
            yield row


def rows_of_nccl_tests(lines):
    """Rows of nccl-tests' programs, as launch,memory,...,library,run,bytes,out_of_place_us,in_place_us."""
    for row in csv.DictReader(lines):
        if int(row["bytes"]) > 0:
            yield {**row, "collective": row["collective"].replace("all_", "all"), "contender": row["library"],
                   "memory": re.sub("-R |[ -]", "", row["memory"]), "us": row["out_of_place_us"]}


def rows_of_peers(lines):
    """Rows of verify/tests/perf/mpi-peers, which have the fastest peer's time beside weir's."""
    about = {}
    for line in lines:
        fields, heading = line.split(), PEERS_HEADING.match(line)
        if heading:
            about = {"collective": heading.group(1), "nranks": heading.group(2)}
        elif about and fields and fields[0] == "out":
            yield {**about, "bytes": fields[3], "contender": "weir", "us": fields[4]}
            yield {**about, "bytes": fields[3], "contender": "peer", "us": fields[5]}


def rows_of_moe(lines):
    """Rows of bench_moe that were gathered as machine,kind,run,tokens,phase,us,..."""
    for row in csv.DictReader(lines):
        if not row["machine"].startswith("#"):
            yield {**row, "collective": row["phase"], "contender": "weir"}


READERS = {"schema,": rows_of_results, "launch,": rows_of_nccl_tests, "machine,": rows_of_moe}


def read(name):
    """The rows of a record, whichever format it has."""
    path = os.path.join(RECORD, name)
    if not os.path.isfile(path):
        raise BadMark(f"there is no {path}")
    lines = text(path).splitlines()
    for number, line in enumerate(lines[:8]):
        for start, reader in READERS.items():
            if line.startswith(start):
                return reader(lines[number:])
    return rows_of_peers(lines)


def measured(words):
    """Times by (collective, size), each as (weir, peer or None), of 'FILE FILTER... FILE FILTER...'."""
    sources = []
    for word in words.split():
        key, equals, value = word.partition("=")
        if equals:
            sources[-1][1][key] = value.split(",")
        else:
            sources.append((word, {}))
    found = {}
    for name, filters in sources:
        for row in read(name):
            if all(row.get(key) in values for key, values in filters.items()):
                place = row["collective"], int(row.get("tokens") or row["bytes"])
                modes = found.setdefault(place, {}).setdefault(row["contender"].startswith("weir"), {})
                modes.setdefault((row["contender"], row.get("memory")), []).append(float(row["us"]))
    fastest = {place: {who: min(sum(times) / len(times) for times in modes.values())
                       for who, modes in both.items()} for place, both in found.items()}
    result = {place: (both[True], both.get(False)) for place, both in fastest.items() if True in both}
    if not result:
        raise BadMark(f"no row of '{words.strip()}'")
    return result


def size_text(size):
    """A size as options spell it; blocks of alltoallv make sizes a little below a power of two."""
    power_of_two = 1 << round(math.log2(size))
    size = power_of_two if abs(size - power_of_two) < 0.02 * size else size
    for unit, power in (("G", 30), ("M", 20), ("K", 10)):
        if size >= 1 << power:
            return f"{size / (1 << power):.3g}{unit}"
    return str(size)


def time_text(us):
    return f"{us:.0f}" if us >= 100 else f"{us:.1f}" if us >= 10 else f"{us:.2f}"


def ratios(columns):
    """The lines of a table of ratios; columns: (heading, times)."""
    cells = {}
    for heading, times in columns:
        by_collective = {}
        for (collective, size), (weir, peer) in times.items():
            if peer is not None:
                by_collective.setdefault(collective, []).append((peer / weir, size))
        for collective, found in by_collective.items():
            mean = math.exp(sum(math.log(ratio) for ratio, _ in found) / len(found))
            least, size = min(found)
            of_tokens = ORDER.index(collective) >= ORDER.index("dispatch")
            cells[collective, heading] = f"{mean:.2f} ({least:.2f}: {size if of_tokens else size_text(size)})"
    headings = [heading for heading, _ in columns]
    yield "| collective | " + " | ".join(headings) + " |"
    yield "|---" * (len(headings) + 1) + "|"
    for collective in ORDER:
        if any((collective, heading) in cells for heading in headings):
            row = [cells.get((collective, heading), "") for heading in headings]
            yield f"| {collective} | " + " | ".join(row) + " |"


def nearest(times, size):
    """The times of the size, or of a size at most a quarter smaller, which blocks of alltoallv make."""
    near = [(other, both) for (_, other), both in times.items() if 0.75 * size <= other <= size]
    return max(near)[1] if near else None


def times_of(kind, sizes, rows):
    """The lines of a table of times; rows: (heading, times)."""
    yield f"| us, {kind}: | " + " | ".join(str(size) if kind == "tokens" else size_text(size) for size in sizes) + " |"
    yield "|---" * (len(sizes) + 1) + "|"
    for heading, times in rows:
        cells = []
        for size in sizes:
            both = nearest(times, size)
            cells.append("" if both is None else " / ".join(time_text(us) for us in both if us is not None))
        yield f"| {heading} | " + " | ".join(cells) + " |"


def table(description):
    """The lines of the table that a comment describes."""
    form, *parts = description.split(";")
    named = []
    for part in parts:
        heading, equals, words = part.partition(" = ")
        if not equals:
            raise BadMark(f"expected HEADING = FILE FILTER..., got '{part.strip()}'")
        named.append((heading.strip(), measured(words)))
    form, *sizes = form.split()
    if form == "ratios":
        return list(ratios(named))
    if form == "times" and sizes and sizes[0] in ("bytes", "tokens"):
        return list(times_of(sizes[0], [int(size) for size in sizes[1:]], named))
    raise BadMark(f"expected ratios, times bytes or times tokens, got '{form}'")


def tables(path):
    """Yields (number of the comment's line, lines in the page, lines that the records give or None, problem)."""
    lines = text(path).split("\n")
    for number, line in enumerate(lines, 1):
        mark = BEGIN.fullmatch(line)
        if not mark:
            continue
        end = next((index for index in range(number, len(lines)) if lines[index].startswith("<!--")), None)
        if end is None or lines[end] != END:
            yield number, [], None, f"no '{END}' follows"
            continue
        try:
            yield number, lines[number:end], table(mark.group(1)), None
        except BadMark as reason:
            yield number, lines[number:end], None, str(reason)


def unused():
    """Records that the folder's README does not name, or that no figure is taken from."""
    index = os.path.join(RECORD, "README.md")
    named = text(index) if os.path.isfile(index) else ""
    used = "".join(text(path) for pattern in USERS for path in glob.glob(pattern))
    for path in sorted(glob.glob(os.path.join(RECORD, "*"))):
        name = os.path.basename(path)
        if path != index and f"`{name}`" not in named:
            yield path, 1, "record", f"{index} does not say which figure it serves"
        if path != index and name not in used:
            yield path, 1, "record", "no figure is taken from it; delete it"


def check():
    yield from unused()
    for path in sorted(glob.glob(PAGES)):
        for number, old, new, reason in tables(path):
            if new is None:
                yield path, number, "figures", reason
                continue
            for index in range(max(len(old), len(new))):
                was, now = (lines[index] if index < len(lines) else "nothing" for lines in (old, new))
                if was != now:
                    yield path, number + 1 + index, "figures", f"has {was}, {RECORD} gives {now}; run ci/figures"


def write():
    """Writes the tables of all pages anew; returns the findings that remain."""
    for path in sorted(glob.glob(PAGES)):
        lines = text(path).split("\n")
        for number, old, new, _ in reversed(list(tables(path))):
            if new is not None:
                lines[number:number + len(old)] = new
        if "\n".join(lines) != text(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join(lines))
    text.cache_clear()
    return list(check())
