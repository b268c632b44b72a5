"""Relative links in Markdown: the file must exist, and the heading if the link names one."""
import os
import re

from checks.files import CODE_SPAN, fenced, listing, without

LINK = re.compile(r"\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")


def slug(heading):
    """The anchor that GitHub makes of a heading."""
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(path):
    found = set()
    for _, line, inside in fenced(path):
        heading = re.match(r"#+\s+(.*)", line)
        if heading and not inside:
            name, count = slug(heading.group(1)), 1
            while (f"{name}-{count}" if count > 1 else name) in found:
                count += 1
            found.add(name if count == 1 else f"{name}-{count - 1}")
        found.update(re.findall(r'(?:id|name)="([^"]+)"', line))
    return found


def problem(path, target):
    """What is wrong with a link of this file, or None."""
    if re.match(r"[a-z]+:", target):
        return None
    name, _, anchor = target.partition("#")
    file = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
    if not os.path.exists(file):
        return f"{target}: there is no {file}"
    if anchor and file.endswith(".md") and anchor not in anchors(file):
        return f"{target}: {file} has no heading with the anchor #{anchor}"
    return None


def check():
    for path in listing():
        if not path.endswith(".md"):
            continue
        for number, line, inside in fenced(path):
            if inside:
                continue
            for target in LINK.findall(without(CODE_SPAN, line)):
                message = problem(path, target)
                if message:
                    yield path, number, "dead link", message
