#!/usr/bin/env python3
"""Writes the ctypes declarations of weir's public headers.

    python/generate.py INCLUDE_FOLDER OUTPUT

Reads weir.h, algo.h, plan.h and, if present, moe.h from INCLUDE_FOLDER and writes a Python module
with their constants, enumerations, structures, initialisers and functions. The build of the wheel
runs it, so that the declarations are those of the library that the wheel contains.

It understands the subset of C that these headers use. Anything else ends it with exit code 1 and
one line with file, line and the declaration: a construct that is skipped would be a call with wrong
arguments later.
"""
import os
import re
import sys

HEADERS = ["weir.h", "algo.h", "plan.h", "moe.h"]
OPTIONAL = {"moe.h"}
# Macros of the compiler that are not defined for the host's C.
UNDEFINED = {"__cplusplus", "__CUDACC_RTC__", "__CUDACC__", "WEIR_EMULATED"}
SCALARS = {
    "void": "None", "char": "c_char", "signed char": "c_byte", "unsigned char": "c_ubyte",
    "short": "c_short", "unsigned short": "c_ushort", "int": "c_int", "unsigned": "c_uint",
    "unsigned int": "c_uint", "long": "c_long", "unsigned long": "c_ulong",
    "long long": "c_longlong", "unsigned long long": "c_ulonglong", "float": "c_float",
    "double": "c_double", "size_t": "c_size_t", "int8_t": "c_int8", "uint8_t": "c_uint8",
    "int16_t": "c_int16", "uint16_t": "c_uint16", "int32_t": "c_int32", "uint32_t": "c_uint32",
    "int64_t": "c_int64", "uint64_t": "c_uint64", "uintptr_t": "c_size_t"}
WORDS = {"signed", "unsigned", "short", "long", "int", "char"}
KNOWN_NUMBERS = {"UINT32_MAX": 0xFFFFFFFF, "INT32_MAX": 0x7FFFFFFF}
TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z_]\w*)|(?P<number>0[xX][0-9a-fA-F]+|\d+)[uUlL]*"
                   r"|(?P<string>\"[^\"]*\")|(?P<mark><<|[{}()\[\];,*=+\-:.&|/]))")


class NotUnderstood(Exception):
    """A construct that this program does not translate."""


class Tokens:
    """The tokens of one header, with their lines."""

    def __init__(self, path, text):
        self.path, self.items, self.at = path, [], 0
        for number, line in enumerate(text.split("\n"), 1):
            place = 0
            while line[place:].strip():
                match = TOKEN.match(line, place)
                if not match:
                    raise NotUnderstood(f"{path}:{number}: unexpected text: {line.strip()}")
                self.items.append((match.group(match.lastgroup), match.lastgroup, number))
                place = match.end()

    def peek(self, ahead=0):
        return self.items[self.at + ahead][0] if self.at + ahead < len(self.items) else None

    def take(self, expected=None):
        if self.at >= len(self.items):
            raise NotUnderstood(f"{self.path}: unexpected end")
        word = self.items[self.at][0]
        if expected is not None and word != expected:
            self.fail(f"expected '{expected}', found '{word}'")
        self.at += 1
        return word

    def take_if(self, word):
        if self.peek() == word:
            self.at += 1
            return True
        return False

    def take_name(self):
        if self.at < len(self.items) and self.items[self.at][1] == "name":
            return self.take()
        return self.fail(f"expected a name, found '{self.peek()}'")

    def fail(self, why):
        at = min(self.at, len(self.items) - 1)
        line = self.items[at][2]
        near = " ".join(item[0] for item in self.items[max(0, at - 6):at + 6])
        raise NotUnderstood(f"{self.path}:{line}: {why}, near: {near}")


def without_comments(text):
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())
    return re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", blank, text, flags=re.S))


def is_active(path, number, directive):
    """Evaluates #ifdef, #ifndef and #if defined(X) for the host's C."""
    match = re.fullmatch(r"#\s*(ifdef|ifndef|if)\s+(?:defined\s*\(?\s*)?(\w+)\s*\)?", directive)
    if not match or (match.group(1) == "if" and "defined" not in directive):
        raise NotUnderstood(f"{path}:{number}: conditional: {directive}")
    word, name = match.groups()
    if word == "ifndef" and re.fullmatch(r"WEIR_\w*H", name):
        return True
    if name not in UNDEFINED:
        raise NotUnderstood(f"{path}:{number}: unknown condition: {directive}")
    return word == "ifndef"


def preprocess(path, text):
    """Returns the lines of the active branches without directives, and the macros' definitions."""
    text = re.sub(r"\\\n", lambda m: "\x00", without_comments(text))
    lines, macros, active = [], [], []
    for number, line in enumerate(text.split("\n"), 1):
        word = line.strip().replace("\x00", " ")
        rest = "\n" * line.count("\x00")
        if not word.startswith("#"):
            lines.append((word if all(active) else "") + rest)
            continue
        lines.append(rest)
        if re.match(r"#\s*if", word):
            active.append(is_active(path, number, word))
        elif re.match(r"#\s*else", word):
            active[-1] = not active[-1]
        elif re.match(r"#\s*endif", word):
            active.pop()
        elif re.match(r"#\s*define", word) and all(active):
            macros.append((number, re.sub(r"\s+", " ", re.sub(r"#\s*define\s+", "", word))))
        elif not re.match(r"#\s*(include|define)", word):
            raise NotUnderstood(f"{path}:{number}: directive: {word}")
    return "\n".join(lines), macros


class Declarations:
    """What the headers declare, in their order."""

    def __init__(self):
        self.constants = dict(KNOWN_NUMBERS)  # name: value
        self.enums = {}        # name: [(member, value)]
        self.structs = {}      # name: [(field, ctypes expression, C type)]
        self.opaque = set()
        self.aliases = {"weir_stream": "c_void_p"}
        self.callbacks = {}    # name: expression
        self.functions = {}    # name: (result, [parameters], prototype)
        self.initialisers = {}  # structure: [value]
        self.order = []

    # ---------------------------------------------------------------- expressions

    def expression(self, tokens, ends):
        """Evaluates an integer expression up to, not including, one of the tokens `ends`."""
        words, depth = [], 0
        while depth or tokens.peek() not in ends:
            word = tokens.peek()
            depth += {"(": 1, ")": -1}.get(word, 0)
            if word is None or depth < 0:
                tokens.fail("expression does not end")
            if re.match(r"[A-Za-z_]", word):
                if word not in self.constants:
                    tokens.fail(f"unknown constant '{word}'")
                word = str(self.constants[word])
            words.append(tokens.take())
            words[-1] = word
        text = " ".join(words)
        if not re.fullmatch(r"[0-9a-fA-Fx()+\-*|<\s]+", text):
            tokens.fail(f"expression '{text}'")
        return int(eval(text, {"__builtins__": {}}))  # digits and operators only

    # ---------------------------------------------------------------------- types

    def base_type(self, tokens):
        """Reads a type without its stars; returns (ctypes expression, name in C)."""
        tokens.take_if("const")
        for keyword in ("struct", "enum"):
            if tokens.take_if(keyword):
                name = tokens.take_name()
                tokens.take_if("const")
                known = self.structs if keyword == "struct" else self.enums
                return (name if name in known and keyword == "struct" else
                        "c_int" if keyword == "enum" and name in known else "opaque"), name
        words = [tokens.take_name()]
        while words[-1] in WORDS and tokens.peek() in WORDS:
            words.append(tokens.take())
        tokens.take_if("const")
        name = " ".join(words)
        if name in SCALARS:
            return SCALARS[name], name
        if name in self.enums:
            return "c_int", name
        if name in self.structs or name in self.callbacks:
            return name, name
        if name in self.aliases:
            return self.aliases[name], name
        if name in self.opaque:
            return "opaque", name
        return tokens.fail(f"unknown type '{name}'")

    def pointers(self, tokens, base, name):
        """Adds the stars that follow to a type."""
        stars = 0
        while tokens.take_if("*"):
            stars += 1
            tokens.take_if("const")
        if stars == 0:
            return base
        return "c_char_p" if stars == 1 and name == "char" else "c_void_p"

    def complete(self, tokens, kind, what):
        if kind in ("opaque", "None"):
            tokens.fail(f"{what} of incomplete type")
        return kind

    def parameters(self, tokens):
        """Reads a parameter list after its opening parenthesis."""
        kinds = []
        if tokens.peek() == "void" and tokens.peek(1) == ")":
            tokens.take()
        while not tokens.take_if(")"):
            kind, name = self.base_type(tokens)
            kind = self.pointers(tokens, kind, name)
            if tokens.peek() == "(":
                kind, _ = self.function_pointer(tokens, kind)
            elif tokens.peek() not in (",", ")"):
                tokens.take_name()
                if tokens.take_if("["):
                    while not tokens.take_if("]"):
                        tokens.take()
                    kind = "c_void_p"
            kinds.append(self.complete(tokens, kind, "parameter"))
            if tokens.peek() != ")":
                tokens.take(",")
        return kinds

    def function_pointer(self, tokens, result):
        """Reads (*name)(parameters) after the result's type."""
        tokens.take("(")
        tokens.take("*")
        name = tokens.take_name()
        tokens.take(")")
        tokens.take("(")
        return f"CFUNCTYPE({', '.join([result, *self.parameters(tokens)])})", name

    # --------------------------------------------------------------- declarations

    def attributes(self, tokens):
        """Reads attributes; returns True if there was one. Only aligned(N) is understood."""
        found = False
        while tokens.take_if("__attribute__"):
            for word in ("(", "(", "aligned", "("):
                tokens.take(word)
            self.expression(tokens, {")"})
            for word in (")", ")", ")"):
                tokens.take(word)
            found = True
        return found

    def fields(self, tokens):
        """Reads the members of a structure; returns None if ctypes cannot lay them out (aligned
        members): such a structure is passed by address only."""
        found, is_aligned = [], False
        while not tokens.take_if("}"):
            base, name = self.base_type(tokens)
            while True:
                kind = self.pointers(tokens, base, name)
                # An address stays an address: c_char_p would copy a text on each access.
                kind = "c_void_p" if kind == "c_char_p" else kind
                if tokens.peek() == "(":
                    kind, field = self.function_pointer(tokens, kind)
                else:
                    field = tokens.take_name()
                    while tokens.take_if("["):
                        size = self.expression(tokens, {"]"})
                        tokens.take("]")
                        kind = f"{self.complete(tokens, kind, 'array')} * {size}"
                    if tokens.peek() == ":":
                        tokens.fail("bit-field")
                is_aligned |= self.attributes(tokens)
                found.append((field, self.complete(tokens, kind, f"member '{field}'"), name))
                if not tokens.take_if(","):
                    break
            tokens.take(";")
        return None if is_aligned else found

    def enumerators(self, tokens):
        found, value = [], -1
        while not tokens.take_if("}"):
            name = tokens.take_name()
            value = self.expression(tokens, {",", "}"}) if tokens.take_if("=") else value + 1
            found.append((name, value))
            self.constants[name] = value
            if tokens.peek() != "}":
                tokens.take(",")
        return found

    def add(self, tokens, kind, name, value):
        known = getattr(self, kind)
        if name in known:
            tokens.fail(f"'{name}' is declared twice")
        known[name] = value
        self.order.append((kind, name))

    def type_definition(self, tokens):
        if tokens.peek() == "struct" and tokens.peek(2) == "{":
            tokens.take()
            name = tokens.take_name()
            tokens.take()
            fields = self.fields(tokens)
            tokens.take(name)
            if fields is None:
                self.opaque.add(name)
            else:
                self.add(tokens, "structs", name, fields)
        elif tokens.peek() == "struct":
            tokens.take()
            name = tokens.take_name()
            tokens.take(name)
            self.opaque.add(name)
        elif tokens.peek() == "enum":
            tokens.take()
            name = tokens.take_name()
            tokens.take("{")
            members = self.enumerators(tokens)
            tokens.take(name)
            self.add(tokens, "enums", name, members)
        else:
            base, name = self.base_type(tokens)
            kind = self.pointers(tokens, base, name)
            if tokens.peek() == "(":
                kind, name = self.function_pointer(tokens, kind)
                self.add(tokens, "callbacks", name, kind)
            else:
                self.aliases[tokens.take_name()] = self.complete(tokens, kind, "alias")
        tokens.take(";")

    def function(self, tokens):
        start = tokens.at
        base, name = self.base_type(tokens)
        result = self.pointers(tokens, base, name)
        if result == "opaque":
            tokens.fail("result of incomplete type")
        name = tokens.take_name()
        tokens.take("(")
        kinds = self.parameters(tokens)
        text = " ".join(item[0] for item in tokens.items[start:tokens.at])
        tokens.take(";")
        self.add(tokens, "functions", name, (result, kinds, text))

    def header(self, path):
        with open(path, encoding="utf-8") as file:
            text, macros = preprocess(path, file.read())
        for number, macro in macros:
            self.macro(path, number, macro)
        tokens = Tokens(path, text)
        while tokens.peek() is not None:
            if tokens.take_if("typedef"):
                self.type_definition(tokens)
            elif tokens.take_if("WEIR_API"):
                self.function(tokens)
            elif tokens.peek() == "enum" and tokens.peek(1) == "{":
                tokens.take()
                tokens.take()
                for name, value in self.enumerators(tokens):
                    self.order.append(("constants", name))
                tokens.take(";")
            elif tokens.peek() == "struct" and tokens.peek(2) == ";":
                tokens.take()
                self.opaque.add(tokens.take_name())
                tokens.take()
            else:
                tokens.fail("declaration")
        for number, macro in macros:
            self.initialiser(path, number, macro)

    def macro(self, path, number, text):
        """Takes constants; checks that every other macro is of a known kind."""
        name, _, value = text.partition(" ")
        if re.fullmatch(r"\(?(0x[0-9a-fA-F]+|\d+)[uUlL]*\)?", value):
            self.constants[name] = int(value.strip("()uUlL"), 0)
            self.order.append(("constants", name))
        elif re.fullmatch(r'"[^"]*"', value):
            self.constants[name] = value.strip('"')
            self.order.append(("constants", name))
        elif value in KNOWN_NUMBERS:
            self.constants[name] = KNOWN_NUMBERS[value]
            self.order.append(("constants", name))
        elif not (value == "" or name == "WEIR_API" or name.endswith("_INIT")):
            raise NotUnderstood(f"{path}:{number}: macro: {text}")

    def initialiser(self, path, number, text):
        """Takes #define WEIR_X_INIT {sizeof(weir_x), ...}."""
        name, _, value = text.partition(" ")
        if not name.endswith("_INIT"):
            return
        match = re.fullmatch(r"\{ ?sizeof\((\w+)\)(?:, (.*?))? ?\}", value)
        if not match or match.group(1) not in self.structs:
            raise NotUnderstood(f"{path}:{number}: initialiser: {text}")
        struct, words = match.group(1), re.split(r", ?", match.group(2) or "")
        values = []
        for word in words:
            if word == "NULL":
                values.append(None)
            elif re.fullmatch(r"-?\d+", word):
                values.append(int(word))
            elif word in self.constants:
                values.append(self.constants[word])
            else:
                raise NotUnderstood(f"{path}:{number}: initialiser of {struct}: {word}")
        if len(values) + 1 != len(self.structs[struct]):
            raise NotUnderstood(f"{path}:{number}: {name} has {len(values) + 1} values, {struct} "
                                f"has {len(self.structs[struct])} members")
        self.initialisers[struct] = values


def python_class(name):
    return "".join(word.capitalize() for word in name.removeprefix("weir_").split("_"))



def module_text(found):
    """The text of the module."""
    parts = ['"""Declarations of weir\'s public headers; written by python/generate.py."""',
             "# ruff: noqa", "from __future__ import annotations", "",
             "from ctypes import (CFUNCTYPE, Structure, c_byte, c_char, c_char_p, c_double, c_float,",
             "                    c_int, c_int8, c_int16, c_int32, c_int64, c_long, c_longlong,",
             "                    c_short, c_size_t, c_ubyte, c_uint, c_uint8, c_uint16, c_uint32,",
             "                    c_uint64, c_ulong, c_ulonglong, c_ushort, c_void_p)",
             "from enum import IntEnum",
             "from typing import Any", ""]
    for kind, name in found.order:
        if kind == "constants":
            value = found.constants[name]
            parts.append(f"{name} = {value!r}")
        elif kind == "enums":
            parts += ["", "", f"class {python_class(name)}(IntEnum):",
                      f'    """enum {name}."""']
            parts += [f"    {member} = {value}" for member, value in found.enums[name]]
            parts += ["", ""]
        elif kind == "callbacks":
            parts += [f"{name} = {found.callbacks[name]}"]
        elif kind == "structs":
            parts += ["", "", f"class {name}(Structure):", f'    """struct {name}."""',
                      "    _fields_ = ["]
            parts += [f'        ("{field}", {type_}),' for field, type_, _ in found.structs[name]]
            parts += ["    ]", "", ""]
    parts += ["", "", "# WEIR_X_INIT: the values of all members after the size.",
              "INITIALISERS: dict[str, tuple[Any, ...]] = {"]
    parts += [f'    "{name}": {tuple(values)!r},' for name, values in found.initialisers.items()]
    parts += ["}", "", "# name: (result, parameters)",
              "FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {"]
    for name, (result, kinds, text) in found.functions.items():
        listed = ", ".join(kinds) + ("," if len(kinds) == 1 else "")
        parts += [f"    # {text}", f'    "{name}": ({result}, ({listed})),']
    parts += ["}", "", "STRUCTURES = (" + ", ".join(found.structs) + ",)", ""]
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(parts))


def generate(folder):
    """Returns the module's text for the headers in a folder."""
    found = Declarations()
    for header in HEADERS:
        path = os.path.join(folder, header)
        if header not in OPTIONAL or os.path.exists(path):
            found.header(path)
    return module_text(found)


def main():
    if len(sys.argv) != 3:
        print("usage: python/generate.py INCLUDE_FOLDER OUTPUT", file=sys.stderr)
        return 2
    try:
        text = generate(sys.argv[1])
    except (NotUnderstood, OSError) as error:
        print(f"python/generate.py: {error}", file=sys.stderr)
        return 1
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
