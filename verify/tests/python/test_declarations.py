"""The generated declarations equal the headers, as the C compiler reads them."""
import ctypes
import os
import shutil
import subprocess
import sys

import pytest
from weir import _declarations as declared

COMPILER = shutil.which(os.environ.get("CC", "cc"))
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler")


def compiled(source, tmp_path, text):
    """Returns what a C program with the public headers prints."""
    file = tmp_path / "program.c"
    file.write_text("#include <weir/plan.h>\n#include <weir/moe.h>\n#include <weir/blocks.h>\n#include <weir/norm.h>\n#include <weir/quantized.h>\n#include <stddef.h>\n#include <stdio.h>\n" + text)
    program = tmp_path / "program"
    subprocess.run([COMPILER, "-std=c11", f"-I{source}/lib/include", "-o", program, file], check=True)
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout


@needs_compiler
def test_sizes_and_offsets_are_the_compilers(source, tmp_path):
    lines, expected = [], []
    for structure in declared.STRUCTURES:
        name = structure.__name__
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        expected.append(f"{name} {ctypes.sizeof(structure)}")
        for field, _ in structure._fields_:
            lines.append(f'printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}), '
                         f'sizeof((({name} *)0)->{field}));')
            at = getattr(structure, field)
            expected.append(f"{name}.{field} {at.offset} {at.size}")
    text = "int main(void) {\n" + "\n".join(lines) + "\nreturn 0;\n}\n"
    assert compiled(source, tmp_path, text).splitlines() == expected
    assert len(expected) > 100


@needs_compiler
def test_constants_are_the_compilers(source, tmp_path):
    names = [name for name, value in vars(declared).items()
             if name.startswith("WEIR_") and isinstance(value, int)]
    for kind in vars(declared).values():
        if isinstance(kind, type) and issubclass(kind, declared.IntEnum) and kind is not declared.IntEnum:
            names += kind.__members__
    values = {name: getattr(declared, name, None) for name in names}
    for kind in (declared.Status, declared.Dtype, declared.Op, declared.Collective):
        values.update({name: int(member) for name, member in kind.__members__.items()})
    names = [name for name, value in values.items() if value is not None]
    text = "int main(void) {\n" + "\n".join(f'printf("%lld\\n", (long long){name});' for name in names)
    found = compiled(source, tmp_path, text + "\nreturn 0;\n}\n").split()
    assert [int(one) for one in found] == [values[name] for name in names]


@needs_compiler
def test_initialisers_are_the_compilers(source, tmp_path):
    from weir._library import default_of
    for name in declared.INITIALISERS:
        macro = name.upper() + "_INIT"
        text = (f"int main(void) {{ {name} x; for (size_t i = 0; i < sizeof x; i++) ((char *)&x)[i] = 0;\n"
                f"const {name} y = {macro};\n")
        for field, _ in getattr(declared, name)._fields_:
            text += f"x.{field} = y.{field};\n"
        text += 'for (size_t i = 0; i < sizeof x; i++) printf("%02x", ((unsigned char *)&x)[i]);return 0;}'
        assert compiled(source, tmp_path, text) == bytes(default_of(name)).hex()


def test_every_exported_function_is_declared(source):
    """The headers that are read declare everything but the inline functions and MPI's bootstrap."""
    from weir._library import library_path
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("no nm")
    listed = subprocess.run([nm, "-D", "--defined-only", library_path()], check=True, capture_output=True,
                            text=True).stdout
    exported = {line.split()[2] for line in listed.splitlines() if " T weir_" in line}
    assert exported - {"weir_boot_mpi_create_from"} == set(declared.FUNCTIONS)


def generate(source, headers, output):
    return subprocess.run([sys.executable, f"{source}/python/generate.py", str(headers), str(output)],
                          capture_output=True, text=True)


@pytest.fixture
def planted(source, tmp_path):
    """A copy of the headers that a test changes; returns a function (old, new) -> the generator's run."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    folder = tmp_path / "weir"
    shutil.copytree(f"{source}/lib/include/weir", folder)

    def plant(old, new, header="weir.h"):
        text = (folder / header).read_text()
        assert old in text
        (folder / header).write_text(text.replace(old, new, 1))
        return generate(source, folder, tmp_path / "out.py")

    plant.output = tmp_path / "out.py"
    return plant


def module_of(path):
    space = {"__name__": "planted"}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return space


def test_a_changed_structure_changes_the_declarations(planted):
    done = planted("int min_ranks, max_ranks;", "int min_ranks; double more[3]; int max_ranks;")
    assert done.returncode == 0, done.stderr
    changed = module_of(planted.output)["weir_algo_info"]
    assert changed.more.size == 24
    assert ctypes.sizeof(changed) > ctypes.sizeof(declared.weir_algo_info)


def test_an_initialiser_that_lacks_a_member_is_refused(planted):
    done = planted("int device;           /* cuda:", "int more; int device; /* cuda:")
    assert done.returncode == 1
    members = len(declared.weir_comm_config._fields_)
    assert f"WEIR_COMM_CONFIG_INIT has {members} values, weir_comm_config has {members + 1} members" in done.stderr


def test_a_changed_parameter_changes_the_declarations(planted):
    done = planted("weir_comm_barrier(weir_comm *comm)", "weir_comm_barrier(weir_comm *comm, double seconds)")
    assert done.returncode == 0, done.stderr
    space = module_of(planted.output)
    assert space["FUNCTIONS"]["weir_comm_barrier"] == (ctypes.c_int, (ctypes.c_void_p, ctypes.c_double))


def test_a_new_enumerator_shifts_the_values(planted):
    done = planted("WEIR_INT8,     /*", "WEIR_INT4, WEIR_INT8, /*")
    assert done.returncode == 0, done.stderr
    assert module_of(planted.output)["Dtype"].WEIR_FLOAT == declared.Dtype.WEIR_FLOAT + 1


@pytest.mark.parametrize("text, words", [
    ("typedef union weir_u { int a; } weir_u;", "weir.h"),
    ("WEIR_API weir_status weir_new(weir_unknown *x);", "before: *"),
    ("typedef struct weir_bits { int a : 3; } weir_bits;", "bit-field"),
    ("typedef struct weir_held { weir_comm comm; } weir_held;", "incomplete type"),
    ("#if WEIR_VERSION_MAJOR >\n#endif", "error"),
    ("#define WEIR_TWICE(x) ((x) * 2)", "macro"),
    ("#define WEIR_ONE(x) 1", "macro"),
    ("#define WEIR_SOME sizeof(int)", "macro"),
    ("static inline int weir_zero(void) { return 0; }", "declaration"),
    ("extern int weir_variable;", "declaration"),
    ("typedef enum weir_odd { WEIR_ODD = SOMETHING } weir_odd;", "unknown constant 'SOMETHING'"),
    ("WEIR_API int weir_text(const char *text) @;", "'@'")])
def test_what_is_not_understood_is_refused_in_one_line(planted, text, words):
    mark = "/* -------------------------------------------------------------- algorithms */"
    done = planted(mark, mark + "\n" + text)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and words in done.stderr and "weir.h:" in done.stderr


def test_conditions_are_the_compilers(planted):
    mark = "/* -------------------------------------------------------------- algorithms */"
    done = planted(mark, mark + """
#if WEIR_VERSION_MAJOR > 3 || defined(__cplusplus)
enum { WEIR_FROM_CONDITION = 1 };
#elif WEIR_UNIQUE_ID_BYTES == 128
enum { WEIR_FROM_CONDITION = 2 << 3 };
#endif""")
    assert done.returncode == 0, done.stderr
    assert module_of(planted.output)["WEIR_FROM_CONDITION"] == 16


def test_aligned_members_are_not_laid_out_wrongly():
    """ctypes cannot align members, so that structure must not be declared."""
    assert not hasattr(declared, "weir_params")
