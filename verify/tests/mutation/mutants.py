"""The lists of mutants: reading them, and applying one to the text of a file.

A list (*.mutants) holds blocks of this form, divided by empty lines; lines with # are comments:

    @ FILE TEST...
    - original text
    + replacement

The original text occurs exactly once in FILE; any white space in it matches any other. Both texts
may have several lines, and the replacement may be missing. Each TEST is a C test or emulator test
("test_boot"), one of a build with the checker of memory order ("order/test_order"), or a script
("cli/weir_compare.sh"); the quickest one that kills the mutant comes first. In
place of tests, "equivalent: reason" says why no test can kill it, and "unseen: reason" why none
does.
"""

import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[2]
VERDICTS = ("equivalent", "unseen")


class Mutant:
    """One block of a list. where: "LIST:LINE" of its head."""

    def __init__(self, where, head):
        self.where = where
        self.old, self.new = [], []
        self.verdict = self.reason = None
        words = head.split()
        if len(words) < 2:
            raise ValueError(f"{where}: expected '@ FILE TEST...', found '@ {head}'")
        self.file, self.tests = words[0], words[1:]
        if words[1].rstrip(":") in VERDICTS:
            self.verdict = words[1].rstrip(":")
            self.reason = " ".join(words[2:])
            self.tests = []
            if not self.reason:
                raise ValueError(f"{where}: '{self.verdict}' needs a reason")

    @property
    def folder(self):
        return str(pathlib.PurePath(self.file).parent)

    def pattern(self):
        """The original text as a regular expression in which white space is free."""
        words = re.findall(r"\w+|[^\w\s]", " ".join(self.old))
        return r"\s*".join(re.escape(word) for word in words)

    def apply(self, text):
        """Returns the mutated text; raises ValueError if the original text is not there once."""
        if not self.old:
            raise ValueError(f"{self.where}: no original text")
        found = list(re.finditer(self.pattern(), text))
        if len(found) != 1:
            raise ValueError(f"{self.where}: {self.file} contains the original text "
                             f"{len(found)} times, expected once: {' '.join(self.old)}")
        begin, end = found[0].span()
        mutated = text[:begin] + "\n".join(self.new) + text[end:]
        if mutated.split() == text.split():
            raise ValueError(f"{self.where}: the replacement changes nothing")
        return mutated

    def line(self, text):
        """The line of the file at which the original text begins."""
        return text.count("\n", 0, re.search(self.pattern(), text).start()) + 1

    def __str__(self):
        head = f"{self.verdict}: {self.reason}" if self.verdict else " ".join(self.tests)
        lines = [f"@ {self.file} {head}"]
        return "\n".join(lines + [f"- {one}" for one in self.old] + [f"+ {one}" for one in self.new])


def read_list(path):
    """Returns the mutants of a list; raises ValueError with file and line if it is malformed."""
    mutants, current = [], None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        where = f"{path.name}:{number}"
        kind, text = line[:1], line[1:].strip()
        if not line.strip() or kind == "#":
            current = None
        elif kind == "@":
            current = Mutant(where, text)
            mutants.append(current)
        elif kind in "-+" and current:
            (current.old if kind == "-" else current.new).append(text)
        else:
            raise ValueError(f"{where}: expected a line with @, -, + or #, found '{line}'")
    return mutants


def read_lists(paths=None):
    """Returns the mutants of these lists, or of all."""
    return [one for path in (paths or sorted(HERE.glob("*.mutants"))) for one in read_list(path)]
