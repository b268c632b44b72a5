#!/usr/bin/env python3
"""Writes the ctypes declarations of weir's public headers.

    python/generate.py INCLUDE_FOLDER OUTPUT

Reads weir.h, algo.h, plan.h and, if present, moe.h, blocks.h, norm.h and quantized.h from INCLUDE_FOLDER and writes a
Python module with their constants, enumerations, structures, initialisers and functions. The build of the wheel
runs it, so that the declarations are those of the library that the wheel contains.

The C compiler (CC, else cc) preprocesses the headers, and pycparser parses them. What is not
translated ends the program with exit code 1 and one line with file, line and reason: a construct
that is skipped would be a call with wrong arguments later.
"""
import os
import re
import shlex
import subprocess
import sys

from pycparser import c_ast, c_generator, c_parser

HEADERS = ["weir.h", "algo.h", "plan.h", "moe.h", "blocks.h", "norm.h", "quantized.h"]
OPTIONAL = {"moe.h", "blocks.h", "norm.h", "quantized.h"}
FIXED = {f"{sign}int{bits}_t": f"c_{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
SCALARS = {
    "void": "None", "char": "c_char", "signed char": "c_byte", "unsigned char": "c_ubyte",
    "short": "c_short", "unsigned short": "c_ushort", "int": "c_int", "unsigned": "c_uint",
    "unsigned int": "c_uint", "long": "c_long", "unsigned long": "c_ulong",
    "long long": "c_longlong", "unsigned long long": "c_ulonglong", "float": "c_float",
    "double": "c_double", "size_t": "c_size_t", "uintptr_t": "c_size_t", **FIXED}
KNOWN_NUMBERS = {"UINT32_MAX": 0xFFFFFFFF, "INT32_MAX": 0x7FFFFFFF}
# Instead of the system's headers. An aligned member becomes an array of this length (see marked).
ALIGNED = "weir_is_aligned"
PRELUDE = "".join(f"typedef int {name};\n" for name in ("size_t", "uintptr_t", *FIXED)) + \
    "#define __attribute__(x)\n"


class NotUnderstood(Exception):
    """A construct that this program does not translate."""


def refuse(node, why):
    text = " ".join(c_generator.CGenerator().visit(node).split())
    raise NotUnderstood(f"{node.coord.file}:{node.coord.line}: {why}: {text}")


def marked(path):
    """The text of a header without includes, and with a mark that pycparser can read at aligned members."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"^[ \t]*#[ \t]*include.*", "", file.read(), flags=re.M)
    return f'#line 1 "{path}"\n' + re.sub(r"__attribute__\(\(aligned\(\d+\)\)\)", f"[{ALIGNED}]", text)


def preprocess(paths):
    """Returns the headers' C without directives, lines marked, and their macros: [(place, name, value)]."""
    command = shlex.split(os.environ.get("CC") or "cc")
    done = subprocess.run([*command, "-E", "-dD", "-x", "c", "-"], input=PRELUDE + "\n".join(map(marked, paths)),
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotUnderstood(done.stderr.split("\n")[0])
    lines, macros, path, number = [], [], "", 0
    for line in done.stdout.split("\n"):
        mark = re.match(r'# (\d+) "([^"]*)"', line)
        if mark:
            number, path = int(mark.group(1)), mark.group(2)
        elif line.startswith("#define ") and path in paths:
            macros.append((f"{path}:{number}", *(line.split(" ", 2) + [""])[1:3]))
        lines.append("" if line.startswith("#") and not mark else line)
        number += not mark
    return "\n".join(lines), macros


class Declarations:
    """What the headers declare, in their order."""

    def __init__(self):
        self.constants = dict(KNOWN_NUMBERS)  # name: value
        self.enums = {}        # name: [(member, value)]
        self.structs = {}      # name: [(field, ctypes expression)]
        self.opaque = set()
        self.aliases = {}      # name: ctypes expression
        self.callbacks = {}    # name: expression
        self.functions = {}    # name: (result, [parameters], prototype)
        self.initialisers = {}  # structure: [value]
        self.order = []

    def add(self, node, kind, name, value):
        known = getattr(self, kind)
        if name in known:
            refuse(node, f"'{name}' is declared twice")
        known[name] = value
        self.order.append((kind, name))

    # ---------------------------------------------------------------- expressions

    def value(self, node):
        """The value of a constant expression; None for NULL."""
        if isinstance(node, c_ast.Constant):
            if node.type in ("float", "double"):
                return float(node.value.rstrip("fF"))
            return node.value.strip('"') if node.type == "string" else int(node.value.rstrip("uUlL"), 0)
        if isinstance(node, c_ast.ID):
            if node.name == "NULL":
                return None
            if node.name not in self.constants:
                raise NotUnderstood(f"{node.coord.file}:{node.coord.line}: unknown constant '{node.name}'")
            return self.constants[node.name]
        if isinstance(node, c_ast.UnaryOp) and node.op == "-":
            return -self.value(node.expr)
        if isinstance(node, c_ast.BinaryOp) and node.op in "+ - * << |".split():
            left, right = self.value(node.left), self.value(node.right)
            return {"+": left + right, "-": left - right, "*": left * right, "|": left | right,
                    "<<": left << right if node.op == "<<" else 0}[node.op]
        return refuse(node, "expression")

    # ---------------------------------------------------------------------- types

    def kind(self, node):
        """The ctypes expression of a type; "opaque" for one that is only passed by address."""
        if isinstance(node, c_ast.TypeDecl):
            return self.named(node.type)
        if isinstance(node, c_ast.ArrayDecl):
            return f"({self.complete(node, self.kind(node.type), 'array')} * {self.value(node.dim)})"
        if isinstance(node, c_ast.PtrDecl) and isinstance(node.type, c_ast.FuncDecl):
            return f"CFUNCTYPE({', '.join(self.signature(node.type))})"
        if isinstance(node, c_ast.PtrDecl):
            is_text = isinstance(node.type, c_ast.TypeDecl) and getattr(node.type.type, "names", 0) == ["char"]
            if not is_text:
                self.kind(node.type)  # a known type
            return "c_char_p" if is_text else "c_void_p"
        return refuse(node, "type")

    def named(self, node):
        if isinstance(node, c_ast.Enum) and node.name in self.enums:
            return "c_int"
        if isinstance(node, c_ast.Struct):
            return node.name if node.name in self.structs else "opaque"
        if not isinstance(node, c_ast.IdentifierType):
            return refuse(node, "type")
        name = " ".join(node.names)
        if name in self.structs or name in self.callbacks:
            return name
        if name in self.opaque:
            return "opaque"
        return "c_int" if name in self.enums else SCALARS.get(name) or self.aliases.get(name) or \
            refuse(node, "unknown type")

    def complete(self, node, kind, what):
        if kind in ("opaque", "None"):
            refuse(node, f"{what} of incomplete type")
        return kind

    def signature(self, node):
        """The result's and the parameters' types of a function."""
        result = self.kind(node.type)
        if result == "opaque":
            refuse(node, "result of incomplete type")
        kinds = []
        for one in node.args.params if node.args else []:
            kind = "c_void_p" if isinstance(one.type, c_ast.ArrayDecl) else self.kind(one.type)
            if not (kind == "None" and one.name is None):  # (void)
                kinds.append(self.complete(one, kind, "parameter"))
        return [result, *kinds]

    # --------------------------------------------------------------- declarations

    def fields(self, struct):
        """The members of a structure; None if ctypes cannot lay them out (aligned members): such a structure is
        passed by address only."""
        found = []
        for member in struct.decls:
            if getattr(member, "bitsize", None):
                refuse(member, "bit-field")
            at = member.type
            while isinstance(at, c_ast.ArrayDecl):
                if isinstance(at.dim, c_ast.ID) and at.dim.name == ALIGNED:
                    return None
                at = at.type
            kind = self.complete(member, self.kind(member.type), f"member '{member.name}'")
            # An address stays an address: c_char_p would copy a text on each access.
            found.append((member.name, "c_void_p" if kind == "c_char_p" else kind))
        return found

    def enumerators(self, enum):
        found, value = [], -1
        for one in enum.values.enumerators:
            value = self.value(one.value) if one.value else value + 1
            found.append((one.name, value))
            self.constants[one.name] = value
        return found

    def type_definition(self, node):
        of = node.type.type if isinstance(node.type, c_ast.TypeDecl) else None
        if isinstance(of, c_ast.Struct):
            fields = self.fields(of) if of.decls else None
            if fields is None:
                self.opaque.add(node.name)
            else:
                self.add(node, "structs", node.name, fields)
        elif isinstance(of, c_ast.Enum) and of.values:
            self.add(node, "enums", node.name, self.enumerators(of))
        elif isinstance(node.type, c_ast.PtrDecl) and isinstance(node.type.type, c_ast.FuncDecl):
            self.add(node, "callbacks", node.name, self.kind(node.type))
        else:
            self.aliases[node.name] = self.complete(node, self.kind(node.type), "alias")

    def declaration(self, node):
        if isinstance(node, c_ast.Typedef):
            self.type_definition(node)
        elif isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl):
            result, *kinds = self.signature(node.type)
            text = " ".join(c_generator.CGenerator().visit(node).split())
            self.add(node, "functions", node.name, (result, kinds, text))
        elif isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.Enum) and not node.name:
            self.order += [("constants", name) for name, _ in self.enumerators(node.type)]
        elif isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.Struct) and not node.type.decls:
            self.opaque.add(node.type.name)
        else:
            refuse(node, "declaration")

    def macro(self, place, name, text):
        """Takes constants and initialisers; checks that every other macro is of a known kind."""
        if name == "WEIR_API" or not text:
            return
        if "(" in name:
            raise NotUnderstood(f"{place}: macro: {name} {text}")
        try:
            made = c_parser.CParser().parse(f"int x = {text.replace('sizeof', '(long)')};", place).ext[0].init
            if name.endswith("_INIT"):
                self.initialiser(place, name, re.match(r"\{\s*sizeof\((\w+)\)", text).group(1), made.exprs[1:])
            else:
                self.constants[name] = self.value(made)
                self.order.append(("constants", name))
        except (c_parser.ParseError, NotUnderstood, AttributeError) as error:
            if isinstance(error, NotUnderstood) and "values" in str(error):
                raise
            raise NotUnderstood(f"{place}: macro: {name} {text}") from error

    def initialiser(self, place, name, struct, members):
        """Takes #define WEIR_X_INIT {sizeof(weir_x), ...}."""
        values = [self.value(one) for one in members]
        if len(values) + 1 != len(self.structs[struct]):
            raise NotUnderstood(f"{place}: {name} has {len(values) + 1} values, {struct} has "
                                f"{len(self.structs[struct])} members")
        self.initialisers[struct] = values

    def read(self, paths):
        text, macros = preprocess(paths)
        for one in macros:
            if not one[1].endswith("_INIT"):
                self.macro(*one)
        for node in c_parser.CParser().parse(text, "").ext:
            if node.coord.file in paths:
                self.declaration(node)
        for one in macros:
            if one[1].endswith("_INIT"):
                self.macro(*one)


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
            parts += [f'        ("{field}", {type_}),' for field, type_ in found.structs[name]]
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
    paths = [os.path.join(folder, header) for header in HEADERS]
    found.read([path for path in paths if os.path.exists(path) or os.path.basename(path) not in OPTIONAL])
    return module_text(found)


def main():
    if len(sys.argv) != 3:
        print("usage: python/generate.py INCLUDE_FOLDER OUTPUT", file=sys.stderr)
        return 2
    try:
        text = generate(sys.argv[1])
    except (NotUnderstood, c_parser.ParseError, OSError) as error:
        print(f"python/generate.py: {error}", file=sys.stderr)
        return 1
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
