"""The version: WEIR_VERSION in lib/include/weir/weir.h is the only one, and what names it agrees.

Its three numbers are WEIR_VERSION's, no source repeats it as a string, texts that name a version of weir
name this one, and the newest section of CHANGELOG.md (below "Unreleased", if there is one) is its own and
short. Files of other times are not read: records, tests with their samples, findings.
"""
import re

from checks.files import CannotCheck, listing, text

HEADER = "lib/include/weir/weir.h"
CHANGELOG = "CHANGELOG.md"
RECIPE = "/package.py"  # Spack's, which must repeat the version
CHANGELOG_LINES = 30
OTHER_TIMES = ("results/record/", "verify/tests/", "findings/")
# weir X.Y.Z, weir-X.Y.Z-linux, weir version X.Y.Z, the tag vX.Y.Z, and what only these files say.
NAMED = re.compile(r"""\bweir[-_ ](?:version )?(\d+\.\d+\.\d+)|[`"]v(\d+\.\d+\.\d+)[`"]""")
NAMED_IN = {"README.md": re.compile(r"\[(\d+\.\d+\.\d+)\]\(CHANGELOG\.md\)"),
            "docs/README.md": re.compile(r"release-notes\.md\)[^\n]*?(\d+\.\d+\.\d+)"),
            "docs/user/release-notes.md": re.compile(r"^# [^\n]*?(\d+\.\d+\.\d+)")}
RECIPE_VERSION = re.compile(r'\bversion\("(\d[^"]*)"')


def line_of(content, offset):
    return content.count("\n", 0, offset) + 1


def the_version():
    """The version, after a check of its three numbers: (version, findings)."""
    if HEADER not in listing():
        raise CannotCheck(f"there is no {HEADER}")
    header = text(HEADER)
    found = re.search(r'^#define WEIR_VERSION "(.*)"', header, re.M)
    if not found:
        return None, []
    numbers = [re.search(rf"^#define WEIR_VERSION_{part} (\d+)$", header, re.M) for part in ("MAJOR", "MINOR", "PATCH")]
    joined = ".".join(number.group(1) if number else "?" for number in numbers)
    if joined == found.group(1):
        return joined, []
    return found.group(1), [(HEADER, line_of(header, found.start()), "version",
                             f"WEIR_VERSION is {found.group(1)}, but its three numbers are {joined}")]


def check_changelog(version):
    content = text(CHANGELOG)
    sections = [match for match in re.finditer(r"^## (.*)$", content, re.M) if match.group(1) != "Unreleased"]
    if not sections or sections[0].group(1).split()[0] != version:
        yield CHANGELOG, line_of(content, sections[0].start()) if sections else 1, "version", \
            f"the newest section is not that of {version}"
        return
    end = sections[1].start() if len(sections) > 1 else len(content)
    lines = len(content[sections[0].start():end].strip().splitlines())
    if lines > CHANGELOG_LINES:
        yield CHANGELOG, line_of(content, sections[0].start()), "length", \
            f"the section of {version} has {lines} lines, at most {CHANGELOG_LINES} may be"


def check():
    version, findings = the_version()
    yield from findings
    if version is None:
        return
    if CHANGELOG in listing():
        yield from check_changelog(version)
    literal = re.compile(rf'["\'](?:weir )?{re.escape(version)}["\']')
    for path in listing():
        if path.startswith(OTHER_TIMES) or path in (HEADER, CHANGELOG):
            continue
        content = text(path)
        patterns = [NAMED, *filter(None, [NAMED_IN.get(path), RECIPE_VERSION if path.endswith(RECIPE) else None])]
        for match in (match for pattern in patterns for match in pattern.finditer(content)):
            named = next(filter(None, match.groups()))
            if named != version:
                yield path, line_of(content, match.start()), "version", f"names weir {named}, {HEADER} is {version}"
        for match in [] if path.endswith((".md", RECIPE)) else literal.finditer(content):
            yield path, line_of(content, match.start()), "literal", f"repeats the version: take it from {HEADER}"
