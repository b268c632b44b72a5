"""Commands in Markdown: programs, make targets, paths and options that documents name must exist. Also
the reverse for result files: every column must be documented.

Code spans and fenced blocks are read. An option is looked up in the sources that read the options of
the program before it; an option that stands alone in a code span, in those of all programs.
"""
import functools
import glob
import os
import re
import subprocess

from checks.files import CODE_SPAN, fenced, listing, text

# The programs' names and the sources that define their options.
PROGRAMS = {r"bench_(?!moe|blocks|replay)\w+": ["bench/options/*.[ch]", "bench/program.c"],
            r"bench_moe": ["bench/moe/*.[ch]"], r"bench_blocks": ["bench/blocks/*.[ch]"],
            r"bench_replay": ["bench/replay/*.[ch]"],
            r"weir-topo": ["topo/cli/*.c"],
            r"weir-plan": ["lib/plan/cli/*.c"],
            r"weir-compare": ["results/cli/weir_compare.c"],
            r"weir-report": ["results/cli/weir_report.c"],
            r"weir-check": ["bench/health/cli/*.c"],
            r"weir-nightly": ["ci/nightly"],  # the names that ci/install gives to scripts
            r"weir-mpirun": ["ci/mpirun"]}
TOP = r"(?:lib|bench|verify|topo|results|ci|python|docs|examples)"
PATH = re.compile(rf"(?<![\w./$@}}~-])(?:\./)?({TOP}/[\w./*{{}},+-]*[\w*}}/])")
PROGRAM = re.compile(r"(?<![\w-])(?:\./)?(bench_[a-z_]+|weir-[a-z]+|ci/[\w-]+|results/plot|verify/tests/run)(?![\w./-])")
MAKE = re.compile(r"(?:^|[;&|(] *|\$ )make((?: +[^\s;&|#`)]+)*)")
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]*)")


def contents(patterns):
    return "\n".join(text(path) for pattern in patterns for path in sorted(glob.glob(pattern)))


@functools.lru_cache(maxsize=None)
def options_of(program):
    """The long options that a program's sources mention."""
    for name, patterns in PROGRAMS.items():
        if re.fullmatch(name, program):
            sources = contents(patterns)
            return set(re.findall(r'"(?:--)?([a-z][a-z0-9-]*)"', sources)) | \
                set(OPTION.findall(sources))
    return set(OPTION.findall(contents([program])))


@functools.lru_cache(maxsize=None)
def all_options():
    programs = ["bench_x", *list(PROGRAMS)[1:], *scripts()]
    return set().union(*(options_of(program) for program in programs))


@functools.lru_cache(maxsize=None)
def scripts():
    return [path for path in listing()
            if text(path).startswith("#!") and not path.startswith("verify/tests/cli/")]


@functools.lru_cache(maxsize=None)
def make_targets():
    files = ["Makefile", *glob.glob("ci/make/*.mk")]
    return {goal for path in files for goal in re.findall(r"^([a-z][a-z-]*):", text(path), re.M)}


def program_exists(name):
    if name.startswith("bench_"):
        return glob.glob(f"bench/{name}.c")
    if name in ("weir-nightly", "weir-mpirun"):
        return os.path.exists(PROGRAMS[name][0])
    if name.startswith("weir-"):
        source = f"weir_{name[5:]}.c"
        return any(path.endswith("/" + source) or path == f"lib/plan/cli/{source}" for path in listing()) \
            or (name == "weir-plan" and glob.glob("lib/plan/cli/*.c")) \
            or glob.glob(f"ci/pkgconfig/{name}.pc.in") or glob.glob(f"docs/man/{name}*") or glob.glob(f"ci/debian/{name}.install")
    return name in listing()


@functools.lru_cache(maxsize=None)
def path_exists(path, base):
    """Whether a path exists from the top or from the document's folder, or is made by a command."""
    path = re.sub(r"[A-Z]{3,}", "*", path)  # a placeholder, as in NAME.c
    return all(glob.glob(choice) or glob.glob(os.path.join(base, choice)) or ignored(choice)
               for choice in expand(path))


def expand(path):
    """a/{b,c}.h as a/b.h and a/c.h."""
    match = re.search(r"\{([^{}]*)\}", path)
    if not match:
        return [path]
    return [choice for word in match.group(1).split(",")
            for choice in expand(path[:match.start()] + word + path[match.end():])]


def ignored(path):
    """Whether git ignores the path: it is made by a command."""
    return any(subprocess.run(["git", "check-ignore", "-q", name], check=False,
                              stderr=subprocess.DEVNULL).returncode == 0
               for name in (path, path.rstrip("/") + "/"))


def check_command(command, base):
    """Yields (kind, message) for one code span or one line of a fenced block."""
    for path in PATH.findall(command):
        if not path_exists(path, base):
            yield "missing path", path
    for words in MAKE.findall(command):
        for word in words.split():
            if re.fullmatch(r"[a-z][a-z-]*", word) and word not in make_targets():
                yield "missing target", f"make {word}"
    programs = [match for match in PROGRAM.finditer(command)]
    for index, match in enumerate(programs):
        name = match.group(1)
        if name.startswith("bench_") and not re.match(r"\./|bench_\w+ +-", command[match.start():]):
            continue  # perhaps a type or a function
        if name.startswith(("bench_", "weir-")) and not program_exists(name):
            yield "missing program", name
            continue
        end = programs[index + 1].start() if index + 1 < len(programs) else len(command)
        arguments = re.split(r" [|;&#:>] |\s;|&&|\)", command[match.end():end])[0]
        for option in OPTION.findall(arguments):
            if option not in options_of(name):
                yield "missing option", f"{name} has no --{option}"
    if command.startswith("--"):
        option = OPTION.match(command)
        if option and option.group(1) not in all_options():
            yield "missing option", f"no program has --{option.group(1)}"


def commands(path):
    """Yields (line number, command) of a Markdown file; lines that end with a backslash joined."""
    started, parts = 0, ""
    for number, line, inside in fenced(path):
        if not inside:
            for span in CODE_SPAN.findall(line):
                yield number, span[1:-1]
        elif line.endswith("\\"):
            started, parts = started or number, parts + line[:-1]
        else:
            yield started or number, parts + line
            started, parts = 0, ""


COLUMNS, COLUMNS_PAGE = "lib/programs/columns.h", "docs/user/csv-columns.md"


def undocumented_columns():
    """Yields (line number, name) of each column of result files that the page does not list."""
    if not os.path.exists(COLUMNS):
        return
    documented = set(CODE_SPAN.findall(text(COLUMNS_PAGE))) if os.path.exists(COLUMNS_PAGE) else set()
    for number, line in enumerate(text(COLUMNS).splitlines(), 1):
        for name in re.findall(r"X\([A-Z0-9_]+, (\w+), [A-Z]+\)", line):
            if f"`{name}`" not in documented:
                yield number, name


def check():
    for number, name in undocumented_columns():
        yield COLUMNS, number, "undocumented column", f"{name} is not in {COLUMNS_PAGE}"
    for path in listing():
        if path.endswith(".md"):
            for number, command in commands(path):
                for kind, message in check_command(command, os.path.dirname(path)):
                    yield path, number, kind, message
