"""Sedans and pick-ups, told apart by their shape alone."""

from __future__ import annotations

from spare.synthetic.brushes import Canvas, Rng, gray, near, placed, scaled, vivid

#: Mean and spread of a car's measures, as shares of its length: (sedan, pick-up). They overlap.
MEASURES = {
    "deck": ((0.18, 0.04), (0.39, 0.05)),  # flat part behind the cabin: the trunk or the bed
    "rear_slope": ((0.13, 0.035), (0.04, 0.025)),
    "hood": ((0.25, 0.035), (0.21, 0.03)),
    "windshield": ((0.15, 0.03), (0.09, 0.025)),
    "belt": ((0.235, 0.025), (0.275, 0.025)),
    "roof": ((0.39, 0.03), (0.47, 0.035)),
    "clearance": ((0.06, 0.015), (0.09, 0.018)),
    "wheel": ((0.08, 0.008), (0.095, 0.01)),
}


def draw_car(canvas: Canvas, kind: int, rng: Rng) -> None:
    measures = {}
    for name, by_kind in MEASURES.items():
        mean, spread = by_kind[kind]
        measures[name] = max(rng.normal(mean, spread), 0.02)
    deck, slope, hood = measures["deck"], measures["rear_slope"], measures["hood"]
    belt, roof, low = measures["belt"], measures["roof"], measures["clearance"]
    wheel = measures["wheel"]
    roof_front = max(1 - hood - measures["windshield"], deck + slope + 0.08)
    screen_foot = max(1 - hood, roof_front + 0.03)
    at = placed(
        0.5 + rng.uniform(-0.03, 0.03),
        0.5 + rng.uniform(-0.03, 0.03),
        0.5 * rng.uniform(0.9, 1.1),
        mirrored=rng.random() < 0.5,
        turned=rng.normal(0, 0.04),
        middle=(0.5, -0.2),
    )
    body = vivid(rng)
    dark = scaled(body, 0.6)
    canvas.polygon([at(0.0, -0.02), at(1.0, -0.02), at(1.02, 0.03), at(-0.02, 0.03)], gray(45))
    outline = [
        (0, low),
        (0, belt),
        (deck, belt),
        (deck + slope, roof),
        (roof_front, roof),
        (screen_foot, belt),
        (1, belt * rng.uniform(0.75, 0.95)),
        (1, low),
    ]
    edge = [at(x, -y) for x, y in outline]
    canvas.polygon(edge, body)
    canvas.line([*edge, edge[0]], scaled(body, 0.45), 0.008)
    glass = near((70, 85, 100), 25, rng) if rng.random() < 0.7 else near((190, 205, 215), 20, rng)
    top, sill = roof - 0.03, belt + 0.01
    lean = (roof_front - screen_foot) * (top - sill) / (roof - belt)
    pane = [
        (deck + 0.035, sill),
        (deck + 0.035 + slope * 0.8, top),
        (screen_foot - 0.03 + lean, top),
        (screen_foot - 0.03, sill),
    ]
    canvas.polygon([at(x, -y) for x, y in pane], glass)
    pillar = (deck + slope + roof_front) / 2
    canvas.line([at(pillar, -sill), at(pillar, -roof)], body, 0.012)
    canvas.line([at(0, -low - 0.03), at(1, -low - 0.03)], dark, 0.012)
    canvas.line([at(deck, -low), at(deck, -belt)], dark, 0.008)
    for x in (rng.uniform(0.17, 0.22), rng.uniform(0.78, 0.83)):
        canvas.circle(at, x, -wheel, wheel * 1.05, gray(30))
        canvas.circle(at, x, -wheel, wheel * 0.5, gray(rng.uniform(120, 200)))
