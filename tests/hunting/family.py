"""Families of cases by name: what each draws from a seed, and who judges that."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from random import Random
from typing import Any, Final, Protocol

from tests.hunting.cells import Cell
from tests.hunting.coverage import CellCounts
from tests.hunting.findings import Judgement, Tell
from tests.hunting.writing import draw_module

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.errors import LowtideError
from lowtide.ir.printer import COMPLETE, to_text
from lowtide.records import dataclass
from lowtide.reduce.minimize import minimize
from lowtide.verifier import verify


@dataclass(frozen=True, slots=True)
class HuntedCase:
    """What is judged: a text, the conditions under which it runs, and the cells that it reaches."""

    text: str
    conditions: Any = None
    cells: frozenset[Cell] = frozenset()


Shows = Callable[[HuntedCase], bool]


class HuntedFamily(Protocol):
    """Cases of one kind. `draw` and `smaller` run here, `judge` in a process of its own."""

    @property
    def tables(self) -> dict[str, tuple[Cell, ...]]:
        """The cells that cases can be asked to reach, by table."""
        ...

    def draw(self, seed: int, random: Random, counts: CellCounts) -> HuntedCase:
        """Return the case of a seed. Raises LowtideError where what was drawn is not valid."""
        ...

    def judge(self, case: HuntedCase, tell: Tell) -> Judgement:
        """Return what the judges say of a case."""
        ...

    def smaller(self, case: HuntedCase, shows: Shows) -> HuntedCase:
        """Return a smaller case that shows the same."""
        ...

    def words(self, case: HuntedCase) -> str:
        """Return what tells a small case from others: the operations that it has."""
        ...


def smaller_module(case: HuntedCase, shows: Shows) -> HuntedCase:
    """Return the case with a smaller module that shows the same."""
    try:
        least = minimize(
            parse_hlo(case.text), lambda x: shows(replace(case, text=to_text(x, COMPLETE)))
        )
    except (LowtideError, ValueError):
        return case
    return replace(case, text=to_text(least, COMPLETE))


def smaller_lines(case: HuntedCase, shows: Shows) -> HuntedCase:
    """Return the case without the lines that it shows the same without."""
    lines = case.text.splitlines()
    size = len(lines) // 2
    while size:
        start = 0
        while start < len(lines):
            shorter = replace(case, text="\n".join([*lines[:start], *lines[start + size :]]))
            if shows(shorter):
                lines = shorter.text.splitlines()
            else:
                start += size
        size //= 2
    return replace(case, text="\n".join(lines))


def opcodes_of(case: HuntedCase) -> str:
    """Return the operations of a module, each once."""
    try:
        module = parse_hlo(case.text)
    except LowtideError:
        return ""
    named = {
        x.opcode.value
        for computation in module.computations.values()
        for x in computation.instructions.values()
    }
    return " ".join(sorted(named - {"parameter", "constant", "tuple", "get-tuple-element"}))


class ModuleFamily:
    """Cases whose text is a module, made smaller as modules are."""

    def smaller(self, case: HuntedCase, shows: Shows) -> HuntedCase:
        """Return the least module that shows the same."""
        return smaller_module(case, shows)

    def words(self, case: HuntedCase) -> str:
        """Return the operations of the module."""
        return opcodes_of(case)


def drawn_text(seed: int, random: Random, counts: CellCounts) -> str:
    """Return a valid module; raises LowtideError where what was drawn is none."""
    text = draw_module(seed, counts.wish(random)).text
    verify(parse_hlo(text))
    return text


def without_schedule(text: str) -> str:
    """Return a module's text without its schedule and its aliases."""
    head, line, rest = text.partition("\n")
    return re.split(r", (?:is_scheduled|input_output_alias)=", head)[0] + line + rest


_FAMILIES: Final[Mapping[str, tuple[str, str]]] = {
    "modules": ("modules", "Modules"),
    "orders": ("modules", "Orders"),
    "devices": ("devices", "OnDevices"),
    "collectives": ("collectives", "Collectives"),
    "plugin": ("plugin", "PluginPrograms"),
    "options": ("options", "UnderOptions"),
    "stored": ("stored", "StoredPrograms"),
    "onnx": ("onnx_graphs", "OnnxGraphs"),
    "tflite": ("tflite_graphs", "LiteGraphs"),
}
"""By name the file and the class: a family is imported where it is hunted."""

NAMES: Final = tuple(_FAMILIES)


def family(name: str) -> HuntedFamily:
    """Return the family of a name; raises KeyError where there is none."""
    file, kind = _FAMILIES[name]
    found = import_module(f"tests.hunting.families.{file}")
    made: HuntedFamily = getattr(found, kind)()
    return made
