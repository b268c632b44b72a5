"""The programs in docs/user run as they are printed."""
import os
import re
import subprocess

import pytest
import weir
from free_port import free_port


def blocks(source, page):
    with open(os.path.join(source, "docs", "user", page), encoding="utf-8") as file:
        return re.findall(r"```python\n(.*?)```", file.read(), re.S)


def job(python, program, size, tmp_path):
    """Runs a program on all ranks as torchrun does; returns what they print."""
    file = tmp_path / "program.py"
    file.write_text(program)
    port, store = str(free_port()), str(free_port())
    jobs = [subprocess.Popen([python, file], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env=dict(os.environ, RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank),
                                      MASTER_ADDR="127.0.0.1", MASTER_PORT=store, WEIR_BOOT_PORT=port))
            for rank in range(size)]
    found = [one.communicate(timeout=60) for one in jobs]
    assert all(one.returncode == 0 for one in jobs), found
    return [said for said, _ in found]


def test_the_quick_start(python, source, tmp_path):
    program = blocks(source, "python.md")[0]
    assert len(program.strip().splitlines()) <= 10
    said = job(python, program, 3, tmp_path)
    assert [one.split()[:3] for one in said] == [[str(rank), "3", "3.0"] for rank in range(3)]
    assert all("(30,)" in one for one in said), said


def test_the_layer_of_the_page(python, source, tmp_path):
    said = job(python, blocks(source, "moe.md")[0], 2, tmp_path)
    assert sorted(said) == ["0 (16, 64) 1.5 4.5\n", "1 (16, 64) 1.5 4.5\n"]


def test_the_program_over_nccl(python, source, tmp_path):
    text = blocks(source, "nccl.md")[0].replace("build/libweir_nccl.so", weir.library_path("libweir_nccl.so"))
    program = tmp_path / "program.py"
    program.write_text(text)
    done = subprocess.run([python, program], capture_output=True, text=True, timeout=60)
    said = [f"{rank} [3.0, 3.0, 3.0, 3.0]" for rank in range(2)]
    assert sorted(done.stdout.splitlines()) == said, done.stdout + done.stderr


def test_the_layer_of_the_examples(python, source):
    pytest.importorskip("torch")
    program = os.path.join(source, "examples", "moe_layer.py")
    with open(program, encoding="utf-8") as file:
        assert len(file.readlines()) < 100
    done = subprocess.run([python, program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "the losses differ" in done.stdout, done.stdout + done.stderr


def test_the_program_for_pytorch(python, source, tmp_path):
    pytest.importorskip("torch")
    said = job(python, blocks(source, "pytorch.md")[0], 2, tmp_path)
    assert said == [f"{rank} [1.0, 1.0, 1.0, 1.0] [1.0, 1.0, 1.0, 1.0]\n" for rank in range(2)]


def test_the_methods_for_engines_exist(source):
    pytest.importorskip("torch")
    from weir.engines import EngineCommunicator
    with open(os.path.join(source, "docs", "user", "vllm.md"), encoding="utf-8") as file:
        rows = [row.split("|")[1] for row in file if row.startswith("| `")]
    named = re.findall(r"`(\w+)`", " ".join(rows))
    assert len(named) > 12
    for name in set(named) - {"available", "disabled"}:
        assert callable(getattr(EngineCommunicator, name)), name


def test_the_reference_is_current(python, source, tmp_path):
    subprocess.run([python, os.path.join(source, "docs", "man", "python-reference"), tmp_path], check=True, cwd=tmp_path)
    with open(os.path.join(source, "docs", "user", "python-reference.md"), encoding="utf-8") as file:
        assert file.read() == (tmp_path / "python-reference.md").read_text(), "run docs/man/python-reference docs/user"


def test_the_line_with_spawn(source):
    import numpy
    line = blocks(source, "python.md")[1].strip()
    call, _, right = line.partition("# ")
    assert eval(call, {"weir": weir, "numpy": numpy}) == eval(right)


def test_the_exceptions_of_the_page_exist(source):
    with open(os.path.join(source, "docs", "user", "python.md"), encoding="utf-8") as file:
        rows = re.findall(r"^\| `weir\.(\w+)` \| (?:`(\w+)`)? ?\|", file.read(), re.M)
    assert len(rows) >= 6
    for name, base in rows:
        kind = getattr(weir, name)
        assert issubclass(kind, weir.WeirError) and (not base or base in [one.__name__ for one in kind.__mro__])


def test_the_methods_of_the_page_exist(source):
    with open(os.path.join(source, "docs", "user", "python.md"), encoding="utf-8") as file:
        text = file.read()
    named = re.findall(r"^\| `(\w+)\(", text, re.M)
    assert len(named) >= 9
    for name in named:
        assert hasattr(weir.Communicator, name), name
    with pytest.raises(AttributeError):
        weir.Communicator.no_method
