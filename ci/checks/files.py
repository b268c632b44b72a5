"""The files of the tree, and the prose in them: comments, strings and documents."""
import functools
import os
import re
import subprocess


class CannotCheck(Exception):
    """A tool or a data file that a check needs is missing."""


@functools.lru_cache(maxsize=None)
def listing():
    """Paths of all files that git knows or would add; without git, of all files."""
    git = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"],
                         capture_output=True, text=True, check=False)
    if git.returncode == 0 and git.stdout:
        paths = git.stdout.split("\n")
    else:
        paths = [os.path.relpath(os.path.join(folder, name))
                 for folder, _, names in os.walk(".") for name in names
                 if not folder.startswith(("./build", "./.git"))]
    return sorted({path for path in paths if os.path.isfile(path)})


@functools.lru_cache(maxsize=None)
def text(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


C_FAMILY = (".c", ".h", ".cu", ".cuh", ".cc", ".hh")
DOCUMENTS = (".md", ".1", ".3", ".7")
OTHER_TEXT = ("LICENSE", ".gitignore", ".clang-format", "ci/codespell.txt", "ci/banned-words.txt")
PLANTED = "verify/tests/cli/lint.sh"  # plants the faults that the checks look for
NO_PROSE = (".svg", ".xml", ".csv", ".json", ".map", ".supp")


def is_prose_file(path):
    """Whether people read the text of this file. Data that programs wrote are not prose."""
    return not path.endswith(NO_PROSE) and (not path.startswith("results/record/") or path.endswith(".md")) \
        and path not in (*OTHER_TEXT, PLANTED)


# A C comment, a string or a character constant, whichever begins first.
C_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
# The same of shell, make, awk and Python.
SCRIPT_TOKEN = re.compile(r'"""(?:.|\n)*?"""|(?:(?<=\s)|^)#[^\n]*|"(?:\\.|[^"\\])*"|\'[^\'\n]*\'', re.M)
CODE_SPAN = re.compile(r"`[^`\n]+`")


def only(pattern, content):
    """The content with everything but the matches of the pattern blanked; lines stay."""
    parts, end = [], 0
    for match in pattern.finditer(content):
        parts.append(re.sub(r"[^\n]", " ", content[end:match.start()]))
        parts.append(match.group())
        end = match.end()
    parts.append(re.sub(r"[^\n]", " ", content[end:]))
    return "".join(parts)


def without(pattern, content):
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), content)


def prose(path):
    """The prose of a file, its lines where they are in the file."""
    content = text(path)
    if path.endswith(".md"):
        return without(CODE_SPAN, content)
    if path.endswith(DOCUMENTS):
        return content
    if path.endswith(C_FAMILY):
        return only(C_TOKEN, content)
    return only(SCRIPT_TOKEN, content)


def fenced(path):
    """Yields (line number, line, whether it is inside a fenced block) of a Markdown file."""
    inside = False
    for number, line in enumerate(text(path).split("\n"), 1):
        if re.match(r"\s*(```|~~~)", line):
            inside = not inside
            continue
        yield number, line, inside
