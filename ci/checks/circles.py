"""Circles of calls: files that call each other, directly or through others.

Calls are read from the sources: a name before a parenthesis in the body of a function, also in the
inline functions and macros of headers that the body uses. Calls through pointers do not count. The
table "Files that call each other" in docs/developer/architecture.md must list exactly the circles
that there are, each as paths in code spans, of which one without a folder is in the folder of the one
before it. There are limits to how many circles there may be, and of how many files.
"""
import collections
import functools
import os
import re
import sys

from checks.files import C_TOKEN, CODE_SPAN, C_FAMILY, listing, text

PAGE, HEADING = "docs/developer/architecture.md", "## Files that call each other"
MOST_CIRCLES, MOST_FILES = 8, 7
FOLDERS = ("lib/", "bench/", "topo/", "results/", "verify/", "python/")
NAME = re.compile(r"[A-Za-z_]\w*")
CALL = re.compile(r"(?<![\w.])(?<!->)([A-Za-z_]\w*)\s*\(")
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(.*)$", re.M)
DIRECTIVE = re.compile(r"^[ \t]*#.*$", re.M)
ATTRIBUTE = re.compile(r"__attribute__\s*\(\(.*?\)\)|__launch_bounds__\s*\([^()]*\)|\b_Alignas\s*\([^()]*\)")


class File:
    """What one file defines: for each function the names that its body uses; macros likewise."""
    def __init__(self, path):
        content = C_TOKEN.sub(lambda token: " " if token.group()[0] == "/" else '""', text(path))
        content = content.replace("\\\n", " ")
        self.macros = dict(MACRO.findall(content))
        self.functions, self.hidden = {}, set()
        for head, body in functions(DIRECTIVE.sub("", content)):
            names = CALL.findall(ATTRIBUTE.sub("", head))
            if not names or re.search(r"\)\s*$|\)\s*const\s*$", head) is None:
                continue
            self.functions.setdefault(names[0], set()).update(CALL.findall(body))
            if re.search(r"\bstatic\b", head):
                self.hidden.add(names[0])


def functions(content):
    """Yields (head, body) of each block at the top level that may be a function."""
    depth, begin, opened = 0, 0, 0
    for match in re.finditer(r"[{};]", content):
        sign, at = match.group(), match.start()
        if sign == "{":
            if depth == 0:
                head = content[begin:at]
                if re.search(r'\bextern\s*""\s*$|\bnamespace\b[^()]*$', head):
                    begin = at + 1
                    continue
                opened = at
            depth += 1
        elif sign == "}" and depth:
            depth -= 1
            if depth == 0:
                head = content[begin:opened]
                if "=" not in head.split("(")[0]:
                    yield head, content[opened:at]
                begin = at + 1
        elif depth == 0:
            begin = at + 1


def sources():
    return [path for path in listing() if path.startswith(FOLDERS) and path.endswith(C_FAMILY)
            and not path.startswith("verify/tests/")]


def calls():
    """For each source file, the source files whose functions it calls."""
    files = {path: File(path) for path in sources()}
    headers = {path: file for path, file in files.items() if path.endswith(("h", "hh"))}
    public, shared = collections.defaultdict(set), collections.defaultdict(set)
    for path, file in files.items():
        if path in headers:
            for name, used in file.functions.items():
                shared[name] |= used
            for name, body in file.macros.items():
                shared[name] |= set(NAME.findall(body))
        else:
            for name in file.functions.keys() - file.hidden:
                public[name].add(path)

    @functools.lru_cache(maxsize=None)
    def behind(name):
        """What using a name of a header uses, itself included."""
        found, left = set(), [name]
        while left:
            one = left.pop()
            if one not in found:
                found.add(one)
                left += shared.get(one, ())
        return found

    graph = {}
    for path, file in files.items():
        if path in headers:
            continue
        own = {name: set(NAME.findall(body)) for name, body in file.macros.items()}
        used = set().union(*file.functions.values())
        used |= set().union(*(own[name] for name in used & own.keys()))
        names = set().union(*(behind(name) for name in used - file.functions.keys())) - file.functions.keys()
        graph[path] = set().union(*(public.get(name, ()) for name in names)) - {path}
    return graph


def circles(graph):
    """The strongly connected components of two or more files (Tarjan's algorithm)."""
    number, low, stack, found = {}, {}, [], []
    sys.setrecursionlimit(10 * len(graph) + 1000)

    def follow(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in graph[node]:
            if other not in number:
                follow(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == number[node]:
            part = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(part) > 1:
                found.append(frozenset(part))

    for node in sorted(graph):
        if node not in number:
            follow(node)
    return found


def rows():
    """The rows of the table: [(line number, files)]."""
    found, inside = [], False
    for number, line in enumerate(text(PAGE).splitlines(), 1):
        inside = line == HEADING or (inside and not line.startswith("## "))
        spans = CODE_SPAN.findall(line.split("|")[1]) if inside and line.startswith("| `") else []
        files, folder = [], ""
        for span in (span.strip("`") for span in spans):
            folder = os.path.dirname(span) or folder
            files.append(os.path.join(folder, os.path.basename(span)))
        if files:
            found.append((number, frozenset(files)))
    return found


def short(files):
    """The files as a row lists them."""
    folder, parts = None, []
    for path in sorted(files):
        parts.append(os.path.basename(path) if os.path.dirname(path) == folder else path)
        folder = os.path.dirname(path)
    return ", ".join(f"`{part}`" for part in parts)


def check():
    if PAGE not in listing():
        return
    listed = rows()
    first = text(PAGE).splitlines().index(HEADING) + 1 if HEADING in text(PAGE) else 1
    found = circles(calls())
    for files in found:
        if files not in [row for _, row in listed]:
            yield PAGE, first, "circle", f"these files call each other, and no row lists just them: {short(files)}"
        if len(files) > MOST_FILES:
            yield PAGE, first, "circle", f"{len(files)} files call each other, at most {MOST_FILES} may: {short(files)}"
    for number, files in listed:
        if files not in found:
            yield PAGE, number, "row", f"these files do not call each other in a circle: {short(files)}"
    if len(found) > MOST_CIRCLES:
        yield PAGE, first, "circles", f"there are {len(found)} circles of files, at most {MOST_CIRCLES} may be"
