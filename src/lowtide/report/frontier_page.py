"""Memory against time as a page: one file with a picture, without a network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from lowtide.records import dataclass
from lowtide.report.drawing import harmless

_WIDTH, _HEIGHT = 900, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 20, 20, 50
_TICKS: Final = 6
_PERCENT: Final = 100.0


@dataclass(frozen=True, slots=True)
class Curve:
    """Points of (bytes, extra seconds), most bytes first; `kind` is "plan", "bound", "variant"."""

    name: str
    kind: str
    points: tuple[tuple[int, float], ...]


def frontier_html(
    title: str, curves: Sequence[Curve], base_seconds: float, remarks: Sequence[str]
) -> str:
    """Return the page: bytes across, time in per cent of `base_seconds` up, a step per point."""
    base = base_seconds or 1.0
    shown = [x for x in curves if x.points]
    most = max([size for x in shown for size, _ in x.points], default=1) or 1
    top = max([_PERCENT * extra / base for x in shown for _, extra in x.points], default=1.0) or 1.0
    scale = _Scale(most, top * 1.05)
    drawn = [_drawn(x, scale, base) for x in shown]
    legend = [f'<li class="{x.kind}">{escape(harmless(x.name))}</li>' for x in shown]
    parts = [
        "<!DOCTYPE html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(harmless(title))}</title>',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{escape(harmless(title))}</h1>",
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
        *_axes(scale),
        *drawn,
        "</svg>",
        f"<ul>{''.join(legend)}</ul>",
        *[f"<p>{escape(harmless(x))}</p>" for x in remarks],
        "</body></html>\n",
    ]
    return "\n".join(parts)


_STYLE: Final = (
    "body{font:14px sans-serif;max-width:960px;margin:2em auto;padding:0 1em}"
    "h1{font-size:18px}svg{width:100%;height:auto}path{fill:none;stroke-width:2}"
    ".plan{stroke:#1668b3;color:#1668b3}.bound{stroke:#b3261e;color:#b3261e}"
    ".variant{stroke:#6b7d2c;color:#6b7d2c;stroke-dasharray:6 4}"
    "circle.plan{fill:#1668b3}circle.bound{fill:#b3261e}circle.variant{fill:#6b7d2c}"
    ".axis{stroke:#888;stroke-width:1}text{font-size:12px;fill:#444}li{stroke:none}"
)


@dataclass(frozen=True, slots=True)
class _Scale:
    """From bytes and per cent to places in the picture."""

    most: int
    top: float

    def x(self, nbytes: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * nbytes / self.most, 2)

    def y(self, percent: float) -> float:
        return round(_HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * percent / self.top, 2)


def _axes(scale: _Scale) -> list[str]:
    low, left = scale.y(0), scale.x(0)
    lines = [
        f'<path class="axis" d="M{left} {_TOP}V{low}H{_WIDTH - _RIGHT}"/>',
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 8}" text-anchor="middle">'
        "MB beyond the arguments</text>",
        f'<text x="14" y="{_HEIGHT / 2}" transform="rotate(-90 14 {_HEIGHT / 2})" '
        'text-anchor="middle">more time, %</text>',
    ]
    for k in range(_TICKS):
        nbytes, percent = scale.most * k / (_TICKS - 1), scale.top * k / (_TICKS - 1)
        lines.append(
            f'<text x="{scale.x(nbytes)}" y="{low + 18}" text-anchor="middle">'
            f"{nbytes / 1e6:,.4g}</text>"
        )
        up = scale.y(percent) + 4
        lines.append(f'<text x="{left - 8}" y="{up}" text-anchor="end">{percent:.3g}</text>')
    return lines


def _drawn(curve: Curve, scale: _Scale, base: float) -> str:
    """A step line: a plan serves all budgets up to that before; a bound holds up to its bytes."""
    rows = [(size, _PERCENT * extra / base) for size, extra in curve.points]
    path = [f"M{scale.x(rows[0][0])} {scale.y(rows[0][1])}"]
    for size, percent in rows[1:]:
        across, up = f"H{scale.x(size)}", f"V{scale.y(percent)}"
        path += [across, up] if curve.kind == "bound" else [up, across]
    name = escape(harmless(curve.name))
    dots = [
        f'<circle class="{curve.kind}" cx="{scale.x(size)}" cy="{scale.y(percent)}" r="3">'
        f"<title>{name}: {size:,} bytes, {percent:.3f}% more time</title></circle>"
        for size, percent in rows
    ]
    return f'<path class="{curve.kind}" d="{"".join(path)}"/>{"".join(dots)}'
