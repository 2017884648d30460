"""`lowtide planners`: the strategies that there are, what they do, and where they come from."""

from __future__ import annotations

import sys
from textwrap import wrap
from typing import TYPE_CHECKING, Final, NamedTuple

from lowtide.cli.arguments import JsonOption

if TYPE_CHECKING:
    from lowtide.report.drawing import Paint


class _Planner(NamedTuple):
    """A planner: how it is asked for, what it does, where it comes from, what it takes."""

    kind: str
    name: str
    sentence: str
    source: str
    takes: tuple[str, ...] = ()


_GRAPHS: Final = (
    _Planner(
        "graphs",
        "planning.nnvm.plan",
        "storage for the entries of a graph by reference counts, in place where an operator can",
        "NNVM (2016-2018), graph memory planning; also with TVM's Relay rules",
    ),
    _Planner(
        "graphs",
        "planning.relax.plan",
        "storage tokens for the tensors of a block, reused once nothing refers to them",
        "TVM Relax, static block memory planning",
    ),
    _Planner(
        "graphs",
        "planning.tflite_arena.plan",
        "offsets in an arena for tensors by the order in which operators use them",
        "TensorFlow Lite, arena planner of the CPU runtime",
    ),
    _Planner(
        "graphs",
        "planning.usmp.plan",
        "offsets in memory pools by size, by conflicts or by hill climbing, with hints on size",
        "TVM, unified static memory planner",
    ),
    _Planner(
        "graphs",
        "planning.heap.simulate",
        "offsets from the list of what is allocated, freed and shared, by one of many algorithms",
        "XLA, heap simulator, today's and that of TensorFlow 1.14",
    ),
)
"""What takes a graph or a list of events, and is called from Python."""

_TITLES: Final = {
    "offsets": "offsets in an arena: --strategy offsets:NAME, --packing NAME",
    "objects": "shared objects: --strategy objects:NAME",
    "graphs": "of graphs and events: functions of lowtide.planning",
}


def planners(json: JsonOption = False) -> None:
    """List the memory planners, with what they do and their source.

    Other packages add strategies by the entry points `lowtide.offsets` and `lowtide.objects`.
    """
    from lowtide.cli import console
    from lowtide.options import display_for
    from lowtide.report.drawing import Paint

    found = [*_strategies(), *_GRAPHS]
    if json:
        rows = [{**x._asdict(), "takes": list(x.takes)} for x in found]
        console.write_json({"schema": "lowtide.planners/1", "planners": rows})
        return
    display = display_for(sys.stdout)
    console.write("\n".join(_table(found, display.width, Paint(color=display.color))))


def _strategies() -> list[_Planner]:
    from lowtide.planning import object_strategies, offset_strategies

    found = [
        _Planner("offsets", x.name, x.sentence, x.source, tuple(sorted(x.takes)))
        for x in offset_strategies().values()
    ]
    for strategy in object_strategies().values():
        takes = ["reallocation graph"] if strategy.reallocation else []
        if strategy.dimensions - {1}:
            takes.append("images")
        row = (strategy.name, strategy.sentence, strategy.source)
        found.append(_Planner("objects", *row, tuple(takes)))
    return found


def _table(rows: list[_Planner], width: int, paint: Paint) -> list[str]:
    """The planners by kind: name, sentence, and source below."""
    lines: list[str] = []
    for kind, title in _TITLES.items():
        chosen = [x for x in rows if x.kind == kind]
        lines += [*([""] if lines else []), paint("title", title)]
        for row in chosen:
            takes = f" Takes {', '.join(row.takes)}." if row.takes else ""
            lines.append(f"  {row.name}")
            text = f"{row.sentence.rstrip('.')}.{takes}"
            lines += [f"      {x}" for x in wrap(text, width - 6)]
            lines += [paint("dim", f"      {x}") for x in wrap(row.source, width - 6)]
    return lines
