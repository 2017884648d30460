"""Findings on divisions of a program over devices: time against memory, and what to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from lowtide.records import dataclass
from lowtide.report.drawing import Paint, elide, elide_start, visible
from lowtide.report.schema import Json, TextReport
from lowtide.report.units import Unit, unit_for

SCHEMA: Final = "lowtide.shardings/1"

_LEAST_NAME: Final = 8
"""So much of a name is shown, however narrow the screen."""

DimensionNames = tuple[tuple[str, ...], ...]
"""Of one array, the names of the axes that split each dimension, major first."""


def spec_text(names: DimensionNames) -> str:
    """Return a `PartitionSpec` as JAX programs write it, `P` for short, such as `P(None, "x")`."""
    parts = []
    for own in names:
        quoted = ", ".join([_quoted(name) for name in own])
        parts.append(f"({quoted})" if len(own) > 1 else quoted or "None")
    while parts and parts[-1] == "None":
        parts.pop()
    return f"P({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class ShardingChoice:
    """One division: the mesh, how each array lies, and what a step of it takes.

    `mesh` has the names and sizes of axes, major first. `results` are in the order of the leaves of
    the result. `peak_bytes` are those of one device, arguments and all; `wire_bytes` those that it
    sends in a step, `seconds` the simulated time of one. `has_paths` says whether arrays have the
    names that they have in the program's pytree, and not those of instructions.
    """

    mesh: Mapping[str, int]
    arguments: Mapping[str, DimensionNames]
    results: tuple[DimensionNames, ...]
    peak_bytes: int
    wire_bytes: int
    seconds: float
    has_paths: bool = True

    def to_json(self) -> Json:
        """Return the entry of the schema's `choices`."""
        return {
            "mesh": dict(self.mesh),
            "arguments": {name: spec_text(own) for name, own in self.arguments.items()},
            "results": [spec_text(own) for own in self.results],
            "peak_bytes": self.peak_bytes,
            "wire_bytes": self.wire_bytes,
            "seconds": self.seconds,
        }

    def python_lines(self) -> list[str]:
        """Return lines of a JAX script with the mesh and the shardings.

        Its function `shardings` returns those of an argument, given the name of that; where names
        are those of instructions, those of all arguments, which it is given in their order.
        """
        names = ", ".join([_quoted(name) for name in self.mesh])
        sizes = ", ".join(map(str, self.mesh.values()))
        comma = "," if len(self.mesh) == 1 else ""
        return [
            "import jax",
            "from jax.sharding import AxisType, NamedSharding, PartitionSpec as P",
            # Of explicit axes, the usual ones of a mesh, the program would have to say how each
            # product of two divided arrays lies.
            f"auto = (AxisType.Auto,) * {len(self.mesh)}",
            f"mesh = jax.make_mesh(({sizes}{comma}), ({names}{comma}), axis_types=auto)",
            *(self._lines_by_name() if self.has_paths else self._lines_in_order()),
            "result_specs = [  # in the order of jax.tree.leaves",
            *[f"    {row}" for row in _runs(self.results)],
            "]",
        ]

    def _lines_by_name(self) -> list[str]:
        split = {name: own for name, own in self.arguments.items() if any(own)}
        return [
            "specs = {  # of arrays by name; P() of all others",
            *[f"    {_quoted(name)}: {spec_text(own)}," for name, own in split.items()],
            "}",
            "def shardings(name, argument):",
            "    key = lambda path: name + jax.tree_util.keystr(path)",
            "    put = lambda path, x: NamedSharding(mesh, specs.get(key(path), P()))",
            "    return jax.tree_util.tree_map_with_path(put, argument)",
        ]

    def _lines_in_order(self) -> list[str]:
        return [
            "specs = [  # of all arrays that the program uses, in the order of jax.tree.leaves",
            *[f"    {row}" for row in _runs(tuple(self.arguments.values()))],
            "]",
            "def shardings(*arguments):",
            "    put = [NamedSharding(mesh, spec) for spec in specs]",
            "    return jax.tree.unflatten(jax.tree.structure(arguments), put)",
        ]


def _quoted(name: str) -> str:
    return f'"{name}"' if '"' not in name and "\\" not in name else repr(name)


def _runs(results: Sequence[DimensionNames]) -> list[str]:
    """The shardings of results, one a line; equal ones in a row as one."""
    rows: list[tuple[str, int]] = []
    for own in results:
        text = spec_text(own)
        if rows and rows[-1][0] == text:
            rows[-1] = (text, rows[-1][1] + 1)
        else:
            rows.append((text, 1))
    return [f"{text}," if count == 1 else f"*[{text}] * {count}," for text, count in rows]


@dataclass(frozen=True, slots=True)
class ShardingReport(TextReport):
    """The divisions of a program over devices that fit, the quickest first.

    None of them is both slower and larger than another one. `memory_bytes` is what a device may
    hold, None for any. `bound_bytes` is what no division of the arguments and results needs less
    than; `least_bytes` the least of all that were planned, None where none was. `estimated` and
    `planned` count what was tried; `remarks` say what ended the search early, and what was left
    aside.
    """

    module: str
    devices: int
    memory_bytes: int | None
    bound_bytes: int
    least_bytes: int | None
    choices: tuple[ShardingChoice, ...]
    estimated: int
    planned: int
    remarks: tuple[str, ...] = field(default=())

    @property
    def best(self) -> ShardingChoice | None:
        """The quickest division that fits, None where none is known."""
        return self.choices[0] if self.choices else None

    def __repr__(self) -> str:
        count = len(self.choices)
        return visible(f"<ShardingReport {self.module}: {count} choices on {self.devices} devices>")

    def __str__(self) -> str:
        return visible("\n".join(sharding_lines(self)))

    def to_json(self) -> Json:
        """Return the report in the schema "lowtide.shardings/1"."""
        return {
            "schema": SCHEMA,
            "module": self.module,
            "devices": self.devices,
            "memory_bytes": self.memory_bytes,
            "bound_bytes": self.bound_bytes,
            "least_bytes": self.least_bytes,
            "choices": [x.to_json() for x in self.choices],
            "estimated": self.estimated,
            "planned": self.planned,
            "remarks": list(self.remarks),
        }

    def failure(self) -> str:
        """Return in one line why nothing fits, and which cap would do; "" where something fits."""
        if self.choices:
            return ""
        least = "" if self.least_bytes is None else f"; {self.least_bytes:,} would do"
        least += "".join([f"; {x}" for x in self.remarks])
        over = f"over {self.devices} devices"
        if self.memory_bytes is None:
            return f"no division {over} was planned{least}"
        if self.memory_bytes < self.bound_bytes:
            return (
                f"{self.memory_bytes:,} bytes a device were allowed, but no division of the "
                f"arguments {over} needs less than {self.bound_bytes:,}{least}"
            )
        return (
            f"no division {over} was found that needs at most {self.memory_bytes:,} bytes a "
            f"device; none can need less than {self.bound_bytes:,}{least}"
        )


def sharding_lines(report: ShardingReport, width: int = 100, *, color: bool = False) -> list[str]:
    """Return the report for people on `width` columns, as lines; code is not cut."""
    paint = Paint(color=color)
    if not report.choices:
        return [report.failure()]
    unit = unit_for(max([x.peak_bytes for x in report.choices]))
    cap = report.memory_bytes
    allowed = "" if cap is None else f", {unit_for(cap).text(cap)} each"
    lines = [
        elide(f"{report.module} on {report.devices} devices{allowed}: time against memory", width),
        "",
        *_table(report.choices, unit, width, paint),
        "",
        f"Arguments and results alone take {unit.text(report.bound_bytes)} a device or more, "
        "however divided.",
        elide(f"Divisions planned: {report.planned}; only estimated: {report.estimated}.", width),
        *[elide(f"{x[0].upper()}{x[1:]}.", width) for x in report.remarks],
        "",
        paint("dim", "The first one, for a script:"),
        "",
        *report.choices[0].python_lines(),
    ]
    return lines


def _table(choices: Sequence[ShardingChoice], unit: Unit, width: int, paint: Paint) -> list[str]:
    sent = unit_for(max([x.wire_bytes for x in choices]))
    header = ("", "step ms", f"peak {unit.name}", f"sends {sent.name}", "mesh")
    rows = [
        (
            str(number),
            f"{x.seconds * 1e3:,.3f}",
            unit.number(x.peak_bytes),
            sent.number(x.wire_bytes),
            ", ".join([f"{name}={size}" for name, size in x.mesh.items()]),
        )
        for number, x in enumerate(choices, 1)
    ]
    widths = [max([len(row[i]) for row in (header, *rows)]) for i in range(5)]
    lines = []
    room = width - sum([each + 2 for each in widths])
    texts = ("splits", *[_splits(x, room) for x in choices])
    for row, what in zip((header, *rows), texts, strict=True):
        cells = [f"{cell:>{widths[i]}}" for i, cell in enumerate(row[:4])]
        cells.append(f"{row[4]:<{widths[4]}}")
        lines.append(elide("  ".join([*cells, what]), width).rstrip())
    lines[0] = paint("dim", lines[0])
    return lines


def _splits(choice: ShardingChoice, width: int) -> str:
    """Which dimension of how many arrays each axis splits, by the last of them, in a width.

    Of names that are too long the ends are left, in which they differ.
    """
    parts = []
    share = (width - 2 * (len(choice.mesh) - 1)) // max(1, len(choice.mesh))
    for axis in choice.mesh:
        places = [
            f"{name}:{dimension}"
            for name, own in choice.arguments.items()
            for dimension, axes in enumerate(own)
            if axis in axes
        ]
        more = f" and {len(places) - 1:,} more" if len(places) > 1 else ""
        place = places[-1] if places else "nothing"
        room = max(_LEAST_NAME, share - len(f"{axis}: {more}"))
        parts.append(f"{axis}: {elide_start(place, room)}{more}")
    return "; ".join(parts)
