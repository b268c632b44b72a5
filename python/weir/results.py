"""Reads the CSV files of the benchmarks.

    frame = weir.results.load("a.csv", "b.csv")
    weir.results.plot(frame)

`load` returns a pandas DataFrame if pandas is installed, otherwise a list of dictionaries.
"""
from __future__ import annotations

import csv
import os
from typing import Any, Optional, Union

from ._svg import Chart
from .errors import InvalidError

# Columns that are numbers; docs/user/csv-columns.md describes all columns.
WHOLE = frozenset("schema nranks nnodes root bytes count iters wrong".split())
REAL_ENDINGS = ("_us", "_gbs")


def _value(column: str, text: str) -> Any:
    if text == "":
        return None
    try:
        if column in WHOLE:
            return int(text)
        if column.endswith(REAL_ENDINGS):
            return float(text)
    except ValueError:
        raise InvalidError(f"column {column}: '{text}' is not a number") from None
    return text


def rows(path: Union[str, "os.PathLike[str]"]) -> list[dict[str, Any]]:
    """Returns the rows of one file, by column name; empty fields are None.

    Times are in microseconds, bandwidths in GB/s (1e9 bytes). Raises InvalidError, with file and line, if
    the file is not a result of weir's benchmarks.
    """
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        header = next(reader, [])
        if header[:2] != ["schema", "run_id"]:
            raise InvalidError(f"{os.fspath(path)}: expected a CSV file of a weir benchmark, whose header "
                               "begins with schema,run_id")
        found = []
        for fields in reader:
            if len(fields) != len(header):
                raise InvalidError(f"{os.fspath(path)}:{reader.line_num}: {len(fields)} fields; expected "
                                   f"{len(header)}")
            try:
                found.append({name: _value(name, text) for name, text in zip(header, fields)})
            except InvalidError as error:
                raise InvalidError(f"{os.fspath(path)}:{reader.line_num}: {error}") from None
        return found


def load(*paths: Union[str, "os.PathLike[str]"]) -> Any:
    """Returns the rows of all files: a pandas.DataFrame, or without pandas a list of dictionaries."""
    found = [row for path in paths for row in rows(path)]
    try:
        import pandas
    except ImportError:
        return found
    return pandas.DataFrame(found)


def plot(results: Any, *, x: str = "bytes", y: str = "median_us", axes: Optional[Any] = None, svg: bool = False) -> Any:
    """Plots one line for each collective, candidate, placement and number of ranks over message size, on logarithmic
    axes.

    results: what `load` returned. axes: of matplotlib, to draw into; None: new ones. Returns the axes, or without
    matplotlib, or with svg, an object with `svg()` and `save(path)`. A notebook shows either.
    """
    rows = results if isinstance(results, list) else results.to_dict("records")
    sizes = {row.get("nranks") for row in rows}
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row[x] and row[y] and row[y] == row[y]:
            label = " ".join((row["collective"], row["contender"], row["placement"]))
            label += f", {row.get('nranks')} ranks" if len(sizes) > 1 else ""
            lines.setdefault(label, []).append((row[x], row[y]))
    lines = {label: sorted(lines[label]) for label in sorted(lines)}
    if not svg and axes is None:
        try:
            import matplotlib.pyplot
            _, axes = matplotlib.pyplot.subplots()
        except ImportError:
            svg = True
    if svg or axes is None:
        return Chart(lines, x, y)
    for label, points in lines.items():
        axes.plot([p[0] for p in points], [p[1] for p in points], marker=".", label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.legend()
    return axes
