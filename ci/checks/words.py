"""Words that the project does not use: ci/banned-words.txt says which, and what to say instead."""
import re

from checks.files import CannotCheck, is_prose_file, listing, prose, text

TABLE = "ci/banned-words.txt"


def rules():
    """The rows of the table: (regular expression, which also finds it in one of several lines, what to
    say instead, exception or None)."""
    if TABLE not in listing():
        raise CannotCheck(f"{TABLE} is missing")
    for number, line in enumerate(text(TABLE).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [field.strip() for field in re.split(r"\s{2,}", line.strip())]
        if len(fields) not in (2, 3):
            raise CannotCheck(f"{TABLE}:{number}: expected: regex  say instead  [exception]")
        exception = re.compile(fields[2]) if len(fields) == 3 else None
        yield re.compile(fields[0]), re.compile(fields[0], re.MULTILINE), fields[1], exception


def check():
    table = list(rules())
    for path in listing():
        if not is_prose_file(path):
            continue
        content = prose(path)
        # Few rows find anything in a file: only those are searched line by line.
        found = [row for row in table if row[1].search(content)]
        for number, line in enumerate(content.split("\n") if found else [], 1):
            for regex, _, instead, exception in found:
                for match in regex.finditer(line):
                    if exception and exception.search(f"{path}: {line.strip()}"):
                        continue
                    word = match.group().strip(' .:;*/"#').lower()
                    yield path, number, f'"{word}"', f"say {instead}"
