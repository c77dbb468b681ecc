"""Charts as inline SVG: no script needed to see them, coloured by the page's style sheet.

Whatever comes from data goes through `escape`; the rest is numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup, escape

WIDTH, HEIGHT = 420, 300
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 12, 34
#: The style sheet has so many colours; clusters beyond share the last.
COLOURS = 6


def colour(place: int) -> str:
    return f"c{min(place, COLOURS - 1)}"


def scatter(
    points: np.ndarray, places: np.ndarray, numbers: Sequence[int], *, label: str, chart: str
) -> Markup:
    """Points coloured by cluster; `numbers` are those of the examples in the page's data."""
    up = "second component"
    if np.ptp(points[:, 1]) < 1e-3 * np.ptp(points[:, 0]):
        # One component says all: heights only keep points from hiding each other.
        up = "(spread at random)"
        points = np.stack([points[:, 0], np.random.default_rng(0).random(len(points))], 1)
    low, high = points.min(0), points.max(0)
    scale = np.where(high > low, high - low, 1)
    unit = (points - low) / scale
    xs = LEFT + 6 + unit[:, 0] * (WIDTH - LEFT - RIGHT - 12)
    ys = HEIGHT - BOTTOM - 6 - unit[:, 1] * (HEIGHT - TOP - BOTTOM - 12)
    # Small clusters last, so that they lie on top.
    order = np.argsort(places, kind="stable")
    dots = Markup("").join(
        Markup('<circle cx="{}" cy="{}" r="3.5" class="dot {}" data-n="{}"/>').format(
            f"{xs[i]:.1f}", f"{ys[i]:.1f}", colour(int(places[i])), numbers[i]
        )
        for i in order
    )
    return _framed(_axes("first component", up) + dots, label, chart, interactive=True)


def lines(
    xs: Sequence[float], series: Sequence[Sequence[float | None]], *, label: str, chart: str
) -> Markup:
    """A line a cluster over epochs; values from 0 to 1."""
    low, high = min(xs), max(xs)
    inner = WIDTH - LEFT - RIGHT

    def across(value: float) -> float:
        return LEFT + (0.5 if high == low else (value - low) / (high - low)) * inner

    body = _axes("epoch", "", percent=True)
    for value in xs:
        body += _text(across(value), HEIGHT - BOTTOM + 14, f"{value:g}", "middle")
    for place, values in enumerate(series):
        known = [(across(x), _up(v)) for x, v in zip(xs, values, strict=True) if v is not None]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in known)
        body += Markup('<polyline points="{}" class="line {}"/>').format(path, colour(place))
        for x, y in known:
            body += Markup('<circle cx="{}" cy="{}" r="3" class="dot {}"/>').format(
                f"{x:.1f}", f"{y:.1f}", colour(place)
            )
    return _framed(body, label, chart)


def bars(
    names: Sequence[str],
    values: Sequence[float],
    *,
    label: str,
    chart: str,
    intervals: Sequence[Sequence[float]] | None = None,
    classes: Sequence[str] | None = None,
    percent: bool = False,
) -> Markup:
    """Horizontal bars from 0 to 1, with intervals where there are any."""
    row, left = 22, 170
    height = row * len(names) + 26
    inner = WIDTH - left - 44
    body = Markup("")
    for i, (name, value) in enumerate(zip(names, values, strict=True)):
        y = i * row + 4
        kind = classes[i] if classes is not None else "c0"
        body += _text(left - 6, y + 13, shortened(name, 26), "end")
        body += Markup('<rect x="{}" y="{}" width="{}" height="15" class="bar {}"/>').format(
            left, y, f"{max(value, 0) * inner:.1f}", kind
        )
        end = value
        if intervals is not None:
            low, high = intervals[i]
            body += Markup('<path d="M{} {}H{}" class="whisker"/>').format(
                f"{left + low * inner:.1f}", f"{y + 7.5:.1f}", f"{left + high * inner:.1f}"
            )
            end = high
        says = f"{100 * value:.1f}" if percent else f"{value:.2f}"
        body += _text(left + end * inner + 4, y + 13, says, "start")
    return _framed(body, label, chart, height=height)


def shortened(text: str, most: int = 60) -> str:
    """Cut for display; line breaks and control characters are blanks."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * most])
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def _up(value: float) -> float:
    return HEIGHT - BOTTOM - value * (HEIGHT - TOP - BOTTOM)


def _axes(across: str, up: str, percent: bool = False) -> Markup:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    body = Markup('<path d="M{l} {t}V{b}H{r}" class="axis"/>').format(
        l=LEFT, t=TOP, b=bottom, r=right
    )
    body += _text((LEFT + right) / 2, HEIGHT - 4, across, "middle")
    if percent:
        for share in (0, 0.5, 1):
            body += _text(LEFT - 6, _up(share) + 4, f"{100 * share:.0f} %", "end")
            body += Markup('<path d="M{} {}H{}" class="grid"/>').format(
                LEFT, f"{_up(share):.1f}", right
            )
    elif up:
        middle = (TOP + bottom) / 2
        body += Markup(
            '<text x="{x}" y="{y}" text-anchor="middle" transform="rotate(-90 {x} {y})">{text}'
            "</text>"
        ).format(x=LEFT - 14, y=middle, text=up)
    return body


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(
        f"{x:.1f}", f"{y:.1f}", anchor, text
    )


def _framed(
    body: Markup, label: str, chart: str, *, interactive: bool = False, height: int = HEIGHT
) -> Markup:
    focus = Markup(' tabindex="0"') if interactive else ""
    return Markup('<svg viewBox="0 0 {} {}" class="chart {}" role="img" aria-label="{}"{}>').format(
        WIDTH, height, chart, escape(label), focus
    ) + body + Markup("</svg>")  # fmt: skip
