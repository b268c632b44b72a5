"""Reads what a program prints for --help, which it makes from its option table: for manual pages
(generate) and for shell completion (completion).
"""
import re
import subprocess
import sys
from typing import NamedTuple


class Option(NamedTuple):
    flags: list  # ["-b", "--minbytes"]
    value: str   # "SIZE", "auto|host|cuda"; "" if the option takes none
    text: str


class Row(NamedTuple):
    """A row of a table of other things than options, such as commands."""
    term: str
    text: str


class Heading(NamedTuple):
    text: str


class Paragraph(NamedTuple):
    text: str


class Help(NamedTuple):
    synopsis: list
    blocks: list  # of the four classes above


FLAGS = re.compile(r"^ {2,8}(?P<flags>--?[\w-]+(?:, --?[\w-]+)*)(?P<rest>.*)$")
ROW = re.compile(r"^ {2,4}(?P<term>\S+(?: \S+)*) {2,}(?P<text>\S.*)$")


def usage(program):
    command = program if "/" in program else "./" + program
    done = subprocess.run([command, "--help"], capture_output=True, text=True, check=False,
                          timeout=60)
    if done.returncode != 0 or not done.stdout:
        sys.exit(f"{program} --help ended with {done.returncode}, expected 0 and a text: "
                 f"{done.stderr.strip()[:200]}")
    return done.stdout


def option_of(match):
    """An option and its value; what follows is text. A value is separated from the option by one
    blank, or from the text by two, or ends the line."""
    rest = match.group("rest")
    value = re.match(r"^(?: (\S+(?: \[\S+\])?)| +((?:[A-Z]|\S*\|)\S*)(?=  |$))(.*)$", rest)
    if value:
        return Option(match.group("flags").split(", "), value.group(1) or value.group(2),
                      value.group(3).strip())
    return Option(match.group("flags").split(", "), "", rest.strip())


def joined(block, line):
    return block._replace(text=(block.text + " " + line.strip()).strip())


def read(program):
    lines = usage(program).rstrip("\n").split("\n")
    synopsis = [re.sub(r"^usage: *", "", lines.pop(0))]
    while lines and lines[0].startswith(" "):
        synopsis.append(lines.pop(0).strip())
    blocks, fresh = [], True  # fresh: the next line of text begins a paragraph
    for line in lines:
        option, row = FLAGS.match(line), ROW.match(line)
        last = blocks[-1] if blocks else None
        if not line:
            fresh = True
        elif line.startswith("        ") and isinstance(last, (Option, Row)):
            blocks[-1] = joined(last, line)
        elif option:
            blocks.append(option_of(option))
        elif row and not isinstance(last, Paragraph):
            blocks.append(Row(row.group("term"), row.group("text")))
        elif re.match(r"^[a-z].*:$", line):
            blocks.append(Heading(line[:-1]))
        elif fresh or not isinstance(last, Paragraph):
            blocks.append(Paragraph(line.strip()))
            fresh = False
        else:
            blocks[-1] = joined(last, line)
    return Help(synopsis, blocks)
