"""Folder dependencies: an #include may only reach a folder that the table allows.

The tables are in lib/README.md, for the library's folders, and in ci/dependencies.txt, for the
others: rows "| folder | contents | may use |". A folder may use itself, the public headers, and what
its row lists: folders with their subfolders, "the above" for all rows before it, "public API",
"everything", or "nothing". A subfolder with its own row does not follow its parent's.
"""
import os
import re

from checks.files import C_FAMILY, CannotCheck, listing, text

PUBLIC = "lib/include/weir"
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+["<]([^">]+)[">]', re.M)
TABLES = {"lib/README.md": "lib/", "ci/dependencies.txt": ""}


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def names(cell, base):
    """The folders that a cell lists, as paths; words that are no folders stay as they are."""
    cell = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cell).replace("`", "")
    for word in re.split(r"[,;]| and ", cell):
        word = word.strip().rstrip("/")
        if word and word != "-":
            yield word if word.startswith("lib/") or not os.path.isdir(base + word) else base + word


def table(path, base):
    """Rows of the table of one file: [(line number, folder, what it lists)]."""
    rows, inside = [], False
    if path not in listing():
        return rows
    for number, line in enumerate(text(path).splitlines(), 1):
        if not line.startswith("|"):
            inside = False
        elif cells(line)[-1].lower() == "may use":
            inside = True
        elif inside and not re.match(r"\|[\s:|-]+$", line):
            for folder in names(cells(line)[0], base):
                rows.append((number, folder, list(names(cells(line)[-1], base))))
    return rows


def row_of(path, folders):
    """The folder of the table that a file belongs to: the longest that contains it."""
    inside = [folder for folder in folders if path.startswith(folder + "/")]
    return max(inside, key=len, default=None)


def resolve(path, name):
    for base in (os.path.dirname(path), "lib/include", "lib", "."):
        found = os.path.normpath(os.path.join(base, name))
        if os.path.isfile(found):
            return found
    return None


def allowed_by(rows):
    """For each folder, the set of folders it may use, or None for everything."""
    allowed, above = {}, []
    for _, folder, listed in rows:
        uses = set()
        for word in listed:
            if word == "the above":
                uses.update(above)
            elif word == "everything":
                uses = None
                break
            elif word == "public API":
                uses.add(PUBLIC)
            elif word != "nothing":
                uses.add(word)
        allowed[folder] = uses
        above.append(folder)
    return allowed


def check_tables(rows, allowed, path):
    """Rows that name no folder, and pairs of folders that may use each other."""
    for number, folder, listed in rows:
        if not os.path.isdir(folder):
            yield path, number, "table", f"{folder} is no folder"
        for word in listed:
            if not os.path.isdir(word) and word not in ("the above", "everything", "nothing", "public API"):
                yield path, number, "table", f"{folder}: {word} is no folder"
        for other in allowed[folder] or ():
            if folder in (allowed.get(other) or ()):
                yield path, number, "circle", f"{folder} and {other} may use each other"


def may_use(used, home, allowed):
    uses = allowed[home]
    if uses is None or used.startswith((home + "/", PUBLIC + "/")):
        return True
    return any(used.startswith(folder + "/") for folder in uses)


def check():
    rows, allowed, unknown = [], {}, []
    for path, base in TABLES.items():
        of_file = table(path, base)
        if not of_file and path in listing():
            unknown.append(base)
            yield path, 1, "table", 'there is no table whose last column is "may use"'
        rows += of_file
        allowed = allowed_by(rows)
        yield from check_tables(of_file, allowed, path)
    if not any(path in listing() for path in TABLES):
        raise CannotCheck(f"none of {', '.join(TABLES)} exists")
    for path in listing():
        if not path.endswith(C_FAMILY):
            continue
        home = row_of(path, allowed)
        if home is None and any(path.startswith(base) for base in unknown if base):
            continue
        if home is None:
            yield path, 1, "no row", "no table has a row for this file's folder"
            continue
        for number, line in enumerate(text(path).splitlines(), 1):
            include = INCLUDE.match(line)
            used = resolve(path, include.group(1)) if include else None
            if used and not may_use(used, home, allowed):
                other = row_of(used, allowed) or os.path.dirname(used)
                yield path, number, "include", f"{home} may not use {other} ({used})"
