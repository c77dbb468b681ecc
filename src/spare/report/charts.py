"""Charts as inline SVG: they need no script, and take their colors from the page's style sheet.

Whatever comes from data is escaped; the rest is numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup, escape

WIDTH, HEIGHT = 420, 300
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 12, 34
#: Colors of the style sheet; clusters beyond share the last.
COLORS = 6


def color(number: int) -> str:
    """The CSS class of a cluster's color, counted from 0."""
    return f"c{min(number, COLORS - 1)}"


def scatter(
    points: np.ndarray, clusters: np.ndarray, numbers: Sequence[int], *, label: str
) -> Markup:
    """Points colored by cluster; `numbers` are those of the examples in the page's data."""
    vertical = "second component"
    if np.ptp(points[:, 1]) < 1e-3 * np.ptp(points[:, 0]):
        # There is only one component: heights merely keep points from hiding each other.
        vertical = "(spread at random)"
        points = np.stack([points[:, 0], np.random.default_rng(0).random(len(points))], 1)
    low, high = points.min(0), points.max(0)
    scale = np.where(high > low, high - low, 1)
    unit = (points - low) / scale
    xs = LEFT + 6 + unit[:, 0] * (WIDTH - LEFT - RIGHT - 12)
    ys = HEIGHT - BOTTOM - 6 - unit[:, 1] * (HEIGHT - TOP - BOTTOM - 12)
    # Small clusters last, so that they lie on top.
    order = np.argsort(clusters, kind="stable")
    dots = Markup("").join(
        Markup('<circle cx="{}" cy="{}" r="3.5" class="dot {}" data-n="{}"/>').format(
            f"{xs[i]:.1f}", f"{ys[i]:.1f}", color(int(clusters[i])), numbers[i]
        )
        for i in order
    )
    body = _axes("first component", vertical) + dots
    return _framed(body, label, "scatter", interactive=True)


def lines(xs: Sequence[float], series: Sequence[Sequence[float | None]], *, label: str) -> Markup:
    """One line per cluster over epochs; values from 0 to 1."""
    low, high = min(xs), max(xs)
    inner = WIDTH - LEFT - RIGHT

    def across(value: float) -> float:
        return LEFT + (0.5 if high == low else (value - low) / (high - low)) * inner

    body = _axes("epoch", "", percent=True)
    for value in xs:
        body += _text(across(value), HEIGHT - BOTTOM + 14, f"{value:g}", "middle")
    for number, values in enumerate(series):
        known = [(across(x), _up(v)) for x, v in zip(xs, values, strict=True) if v is not None]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in known)
        body += Markup('<polyline points="{}" class="line {}"/>').format(path, color(number))
        for x, y in known:
            body += Markup('<circle cx="{}" cy="{}" r="3" class="dot {}"/>').format(
                f"{x:.1f}", f"{y:.1f}", color(number)
            )
    return _framed(body, label, "lines")


def bars(
    names: Sequence[str],
    values: Sequence[float],
    *,
    label: str,
    intervals: Sequence[Sequence[float]] | None = None,
    colors: Sequence[str] | None = None,
    percent: bool = False,
) -> Markup:
    """Horizontal bars from 0 to 1, with intervals if they are given."""
    row, left = 22, 170
    height = row * len(names) + 26
    inner = WIDTH - left - 44
    body = Markup("")
    for i, (name, value) in enumerate(zip(names, values, strict=True)):
        y = i * row + 4
        body += _text(left - 6, y + 13, shortened(name, 26), "end")
        body += Markup('<rect x="{}" y="{}" width="{}" height="15" class="bar {}"/>').format(
            left, y, f"{max(value, 0) * inner:.1f}", colors[i] if colors is not None else "c0"
        )
        end = value
        if intervals is not None:
            low, high = intervals[i]
            body += Markup('<path d="M{} {}H{}" class="whisker"/>').format(
                f"{left + low * inner:.1f}", f"{y + 7.5:.1f}", f"{left + high * inner:.1f}"
            )
            end = high
        number = f"{100 * value:.1f}" if percent else f"{value:.2f}"
        body += _text(left + end * inner + 4, y + 13, number, "start")
    return _framed(body, label, "bars", height=height)


def shortened(text: str, most: int = 60) -> str:
    """Text cut for display; line breaks and control characters become blanks."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * most])
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def _up(value: float) -> float:
    return HEIGHT - BOTTOM - value * (HEIGHT - TOP - BOTTOM)


def _axes(horizontal: str, vertical: str, percent: bool = False) -> Markup:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    body = Markup('<path d="M{l} {t}V{b}H{r}" class="axis"/>').format(
        l=LEFT, t=TOP, b=bottom, r=right
    )
    body += _text((LEFT + right) / 2, HEIGHT - 4, horizontal, "middle")
    if percent:
        for share in (0, 0.5, 1):
            body += _text(LEFT - 6, _up(share) + 4, f"{100 * share:.0f} %", "end")
            body += Markup('<path d="M{} {}H{}" class="grid"/>').format(
                LEFT, f"{_up(share):.1f}", right
            )
    elif vertical:
        middle = (TOP + bottom) / 2
        body += Markup(
            '<text x="{x}" y="{y}" text-anchor="middle" transform="rotate(-90 {x} {y})">{text}'
            "</text>"
        ).format(x=LEFT - 14, y=middle, text=vertical)
    return body


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(
        f"{x:.1f}", f"{y:.1f}", anchor, text
    )


def _framed(
    body: Markup, label: str, kind: str, *, interactive: bool = False, height: int = HEIGHT
) -> Markup:
    focus = Markup(' tabindex="0"') if interactive else ""
    return Markup('<svg viewBox="0 0 {} {}" class="chart {}" role="img" aria-label="{}"{}>').format(
        WIDTH, height, kind, escape(label), focus
    ) + body + Markup("</svg>")  # fmt: skip
