"""A chart of lines on logarithmic axes as SVG, for notebooks and files, without other packages."""
from __future__ import annotations

import math
import os
from typing import Mapping, Sequence, Union
from xml.sax.saxutils import escape

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333", "#8C564B")
WIDTH, HEIGHT = 860, 440
LEFT, RIGHT, TOP, BOTTOM = 70, 250, 24, 52  # margins; the legend is in the right one
Points = Sequence[tuple[float, float]]


def _short(number: float) -> str:
    """Returns a number as axes show it: 512, 4K, 16M, 0.1."""
    for unit, size in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if number >= size and number % size == 0:
            return f"{int(number // size)}{unit}"
    return f"{number:g}"


class _Axis:
    """A logarithmic axis from the smallest to the largest value, with its marks."""

    def __init__(self, values: Sequence[float], base: int, start: float, end: float) -> None:
        self.base, self.start, self.end = base, start, end
        low, high = math.log(min(values), base), math.log(max(values), base)
        self.low, self.high = math.floor(low + 1e-9), math.ceil(high - 1e-9)
        if self.low == self.high:
            self.high += 1

    def place(self, value: float) -> float:
        share = (math.log(value, self.base) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def marks(self) -> list[float]:
        step = max(1, math.ceil((self.high - self.low) / 9))
        return [float(self.base) ** power for power in range(self.low, self.high + 1, step)]


class Chart:
    """Lines on logarithmic axes. A notebook shows the object; `save` writes a file, `svg` returns the text."""

    def __init__(self, lines: Mapping[str, Points], x: str, y: str) -> None:
        """lines: label and (x, y) points, all positive. x, y: labels of the axes."""
        self.lines = {label: sorted(points) for label, points in lines.items() if points}
        self.x, self.y = x, y

    def _repr_svg_(self) -> str:
        return self.svg()

    def save(self, path: "Union[str, os.PathLike[str]]") -> None:
        """Writes the chart to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg())

    def svg(self) -> str:
        """Returns the chart as an SVG document."""
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
                 'font-family="sans-serif" font-size="12" fill="#333">',
                 f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
        if not self.lines:
            return "\n".join([*parts, f'<text x="{LEFT}" y="{HEIGHT / 2}">no results with a time</text>', "</svg>"])
        points = [point for line in self.lines.values() for point in line]
        across = _Axis([point[0] for point in points], 2, LEFT, WIDTH - RIGHT)
        up = _Axis([point[1] for point in points], 10, HEIGHT - BOTTOM, TOP)
        parts += self._grid(across, up)
        for index, (label, line) in enumerate(self.lines.items()):
            parts += self._line(label, [(across.place(a), up.place(b)) for a, b in line], index)
        return "\n".join([*parts, "</svg>"])

    def _grid(self, across: _Axis, up: _Axis) -> list[str]:
        bottom, right, parts = HEIGHT - BOTTOM, WIDTH - RIGHT, []
        for value in across.marks():
            at = across.place(value)
            parts += [f'<path d="M{at:.1f} {TOP}V{bottom}" stroke="#e4e4e4"/>',
                      f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{_short(value)}</text>']
        for value in up.marks():
            at = up.place(value)
            parts += [f'<path d="M{LEFT} {at:.1f}H{right}" stroke="#e4e4e4"/>',
                      f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{value:g}</text>']
        middle = (TOP + bottom) / 2
        return parts + [
            f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#333"/>',
            f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(self.x)}</text>',
            f'<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle">{escape(self.y)}</text>']

    def _line(self, label: str, places: list[tuple[float, float]], index: int) -> list[str]:
        colour, right, top = COLOURS[index % len(COLOURS)], WIDTH - RIGHT + 18, TOP + 8 + 18 * index
        dash = ' stroke-dasharray="6 3"' if index // len(COLOURS) % 2 else ""
        text = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        return [f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>',
                *(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.6" fill="{colour}"/>' for a, b in places),
                f'<path d="M{right} {top}h22" stroke="{colour}" stroke-width="1.8"{dash}/>',
                f'<text x="{right + 28}" y="{top + 4}">{escape(label)}</text>']
