"""The size of a model's arena: measured by the package tflite-micro, else reckoned."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from lowtide.frontend.tflite.model import LiteModel
from lowtide.micro.lifetimes import in_lines, lifetimes
from lowtide.micro.planning import MicroPlan
from lowtide.micro.wheel_run import MISSING
from lowtide.records import dataclass

_PARTS: Final = re.compile(rb"Arena allocation (head|tail) (\d+) bytes")
_TRACEBACK: Final = "Traceback (most recent call last):"
_ROOM: Final = 1 << 20
_SECONDS: Final = 300

_TENSOR, _NODE, _END, _FIXED = 24, 64, 64, 512
_NODE_DATA, _CHANNEL = 96, 8
"""Bytes of the tail by what they are for: a tensor, an operator, an input or output, the rest; an
operator's own data, and what a quantized one has for each output channel."""


@dataclass(frozen=True, slots=True)
class ArenaSize:
    """What an arena is made of, in bytes, on a machine with 64-bit addresses.

    `planned_bytes` are those of tensors, `scratch_bytes` what kernels add to the head,
    `tail_bytes` what lasts. `arena_bytes` is the least size that does; `source` says how it is
    known.
    """

    planned_bytes: int
    scratch_bytes: int
    tail_bytes: int
    arena_bytes: int
    source: str

    @property
    def is_measured(self) -> bool:
        """Whether a run has shown it."""
        return self.source.startswith("measured")


def arena_size(model: LiteModel, content: bytes, planned_bytes: int) -> ArenaSize:
    """Return the size of the arena of a model's file, in which tensors take some bytes."""
    measured, reason = _measured(model, content)
    if measured is None:
        tail = in_lines(_tail_bytes(model))
        return ArenaSize(planned_bytes, 0, tail, planned_bytes + tail, f"reckoned: {reason}")
    head, tail, least = measured
    planned = min(planned_bytes, head)
    return ArenaSize(planned, head - planned, tail, least, "measured by tflite-micro")


def online_bytes(model: LiteModel) -> int:
    """Return the bytes of all tensors of the arena, one beside the other."""
    return sum([x.nbytes for g in model.graphs for x in lifetimes(g, range(len(g.operators)))])


def _measured(model: LiteModel, content: bytes) -> tuple[tuple[int, int, int] | None, str]:
    """Head, tail and least arena as a run shows them; or None, and why there are none."""
    most = online_bytes(model) + 2 * _tail_bytes(model) + len(content) + _ROOM
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        path.write_bytes(content)
        words = (str(path), str(len(model.main.inputs)), str(most))
        command = [sys.executable, "-m", "lowtide.micro.wheel_run", *words]
        try:
            run = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return None, "tflite-micro took too long"
    if run.returncode == MISSING:
        return None, "tflite-micro is not installed"
    parts = {name: int(value) for name, value in _PARTS.findall(run.stderr)}
    if run.returncode or set(parts) != {b"head", b"tail"}:
        return None, f"tflite-micro cannot run the model{_reason(run.stderr)}"
    return (parts[b"head"], parts[b"tail"], int(run.stdout)), ""


def _reason(printed: bytes) -> str:
    """What firmware printed first, else the last line of Python's error; "" for nothing."""
    lines = [x.strip() for x in printed.decode("utf-8", "replace").splitlines() if x.strip()]
    own = [x for x in lines if not x.startswith(("Traceback", "File ", "INFO", "WARNING"))]
    first = lines.index(_TRACEBACK) if _TRACEBACK in lines else len(lines)
    said = [x for x in lines[:first] if x in own]
    found = said[:1] or own[-1:]
    return f": {found[0]}" if found else ""


def _tail_bytes(model: LiteModel) -> int:
    """About what the tail takes."""
    found = _FIXED
    for graph in model.graphs:
        found += _TENSOR * len(graph.tensors) + _NODE * len(graph.operators)
        found += _END * (len(graph.inputs) + len(graph.outputs))
        for operator in graph.operators:
            given = [graph.tensors[x] for x in operator.inputs if x >= 0]
            channels = max([len(x.quantization.scales) for x in given], default=0)
            found += _NODE_DATA + (_CHANNEL * channels if channels > 1 else 0)
    return found


def describe(plan: MicroPlan, size: ArenaSize) -> list[str]:
    """Return lines on an arena for people: bound, live, planned, and the parts of the arena."""
    order = "another order than in the file" if plan.is_reordered else "the order in the file"
    return [
        f"  order    {len(plan.order):,} operators in {order}, "
        f"{len(plan.overwrites):,} tensors in the place of another one",
        f"  head     bound {plan.bound_bytes:,}  <=  live {plan.live_bytes:,}  <=  "
        f"planned {plan.head_bytes:,} bytes",
        f"  arena    {size.arena_bytes:,} bytes ({size.source}): planned "
        f"{size.planned_bytes:,}, scratch of kernels {size.scratch_bytes:,}, "
        f"tail {size.tail_bytes:,}",
        *[f"  note     {x}" for x in plan.caveats],
    ]
