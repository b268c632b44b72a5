"""The tutorial docs/user/python-tutorial.py: every cell runs and prints what its #> lines say; charts are right."""
import contextlib
import io
import os
import re
import xml.etree.ElementTree as tree

import pytest
import weir
import weir.results


def cells(text):
    """Yields the code and the expected output of the cells of a notebook in percent format."""
    for kind, body in re.findall(r"^# %%([^\n]*)\n(.*?)(?=^# %%|\Z)", text, re.M | re.S):
        if "[markdown]" in kind:
            assert all(line.startswith("#") or not line for line in body.splitlines()), body
            continue
        lines = body.splitlines()
        yield "\n".join(lines), "".join(line[2:].strip() + "\n" for line in lines if line.startswith("#>"))


def run(text):
    """Runs the cells in one namespace, as a notebook does; returns it. AssertionError for another output."""
    space = {"__name__": "__main__"}
    for number, (code, expected) in enumerate(cells(text), 1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"cell {number}", "exec"), space)
        assert printed.getvalue() == expected, f"cell {number}"
    return space


@pytest.fixture
def tutorial(source):
    with open(os.path.join(source, "docs", "user", "python-tutorial.py"), encoding="utf-8") as file:
        return file.read()


def test_the_tutorial(tutorial):
    assert len(list(cells(tutorial))) >= 7
    chart = run(tutorial)["chart"]
    assert chart._repr_svg_().count("<polyline") == 2


def test_the_runner_finds_another_output(tutorial):
    assert "#> 12 rows" in tutorial
    text = "# %%\nprint(6 * 2, 'rows')\n#> {} rows\n"
    run(text.format(12))
    with pytest.raises(AssertionError, match="cell 1"):
        run(text.format(13))
    with pytest.raises(ZeroDivisionError):
        run("# %%\n1 / 0\n")


def rows_of(*points, **columns):
    return [{"collective": "allreduce", "contender": "weir", "placement": "in", "bytes": a, "median_us": b, **columns}
            for a, b in points]


def test_a_chart_of_svg(tmp_path):
    rows = rows_of((1 << 20, 100.0), (8, 1.0), (1 << 10, 10.0)) + rows_of((8, 2.0), (1 << 20, None), contender="a<b")
    chart = weir.results.plot(rows, svg=True)
    chart.save(tmp_path / "a.svg")
    root = tree.parse(tmp_path / "a.svg").getroot()
    name = "{http://www.w3.org/2000/svg}"
    lines = [[tuple(map(float, point.split(","))) for point in line.get("points").split()] for line in root.iter(name + "polyline")]
    assert sorted(map(len, lines)) == [1, 3]
    line = max(lines, key=len)
    assert [a for a, _ in line] == sorted(a for a, _ in line) and [b for _, b in line] == sorted((b for _, b in line), reverse=True)
    # Logarithmic: each decade of time has the same height.
    assert abs((line[0][1] - line[1][1]) - (line[1][1] - line[2][1])) < 0.2
    texts = [one.text for one in root.iter(name + "text")]
    assert {"allreduce a<b in", "allreduce weir in", "bytes", "median_us", "8", "512K"} <= set(texts)


def test_lines_of_different_numbers_of_ranks():
    text = weir.results.plot(rows_of((8, 1.0), nranks=2) + rows_of((8, 2.0), nranks=8), svg=True).svg()
    assert text.count("<polyline") == 2 and "allreduce weir in, 2 ranks" in text and "allreduce weir in, 8 ranks" in text


def test_a_chart_without_results():
    assert "no results with a time" in weir.results.plot(rows_of((8, None)), svg=True).svg()
    one = weir.results.plot(rows_of((64, 3.0)), svg=True).svg()
    assert one.count("<circle") == 1 and "nan" not in one


def test_a_plot_of_matplotlib():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("svg")
    axes = weir.results.plot(rows_of((8, 1.0), (16, 2.0)))
    assert axes.get_xscale() == "log" and len(axes.lines) == 1
    assert weir.results.plot(rows_of((8, 1.0)), axes=axes) is axes and len(axes.lines) == 2
