"""The values of a module as XLA's HloDataflowAnalysis has them: one view of its positions.

Tuples are values too, as the tables of addresses that they are. Values flow through calls, and
where control flow meets a phi stands for several of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from lowtide.analysis.forwarding import Forwards, passed_on, passed_on_in_xla
from lowtide.ir import Instruction, Module, Opcode, ShapeIndex
from lowtide.ir.shape import index_text
from lowtide.records import dataclass
from lowtide.xla.analysis.hlo_value import HloPosition, HloValue
from lowtide.xla.analysis.position_graph import PositionGraph, Rule, across_calls
from lowtide.xla.analysis.reaching_values import ReachingValues, reaching_values
from lowtide.xla.analysis.value_uses import collect_values, may_use


def hlo_dataflow(
    module: Module,
    *,
    ssa: bool = True,
    bitcast_defines: bool = False,
    relabelling_defines: bool = True,
) -> HloDataflow:
    """Return the values of a verified module.

    With `ssa`, phis make for one value at each position, save in and behind computations that
    several instructions call: `transforms.flatten_call_graph` first. Without, a position has the
    set of all values that may be there. With `bitcast_defines`, a bitcast makes a value; without
    `relabelling_defines`, a reshape or transpose that moves nothing makes none, nor does an
    annotation: that is how lowtide plans, and the default is how XLA does.
    """
    rule = passed_on_in_xla if relabelling_defines else passed_on
    graph = across_calls(module, _Except(rule) if bitcast_defines else rule)
    return HloDataflow(graph, reaching_values(graph, ssa=ssa), ssa=ssa)


@dataclass(frozen=True, slots=True)
class _Except:
    """The rule, but for bitcasts, which pass nothing on."""

    rule: Rule

    def __call__(self, instruction: Instruction) -> Forwards:
        return () if instruction.opcode is Opcode.BITCAST else self.rule(instruction)


@final
class HloDataflow:
    """The values at all positions of a module; it does not change once made.

    Get one from `hlo_dataflow`. `values` are in order of their numbers: phis last; callees before
    callers, operands before users, tuples before their elements.
    """

    def __init__(self, graph: PositionGraph, reaching: ReachingValues, *, ssa: bool) -> None:
        self.module = graph.module
        self.ssa = ssa
        self._graph = graph
        self._reaching = reaching
        self._sets: dict[int, tuple[HloValue, ...]] = {}
        self._value_at: dict[int, HloValue] = {}
        self.values: Final[tuple[HloValue, ...]] = tuple(collect_values(graph, reaching))
        for value in self.values:
            self._value_at[graph.number(value.instruction, value.index)] = value
        for number, found in reaching.several.items():
            values = [self._value_at[x] for x in found]
            self._sets[number] = tuple(sorted(values, key=lambda value: value.number))

    @property
    def instructions(self) -> Sequence[Instruction]:
        """All instructions, computation by computation."""
        return self._graph.instructions

    # -- queries -------------------------------------------------------------------------------

    def value_set(self, instruction: Instruction, index: ShapeIndex = ()) -> tuple[HloValue, ...]:
        """Return the values that may be at a position, in order of their numbers.

        Raises KeyError where the shape has no such index.
        """
        return self._set(self._graph.number(instruction, index))

    def value_at(self, instruction: Instruction, index: ShapeIndex = ()) -> HloValue:
        """Return the only value at a position; raises ValueError where there are several."""
        found = self.value_set(instruction, index)
        if len(found) != 1:
            names = ", ".join(map(str, found))
            raise ValueError(f"{HloPosition(instruction, index)} may be any of {names}")
        return found[0]

    def defined_by(self, instruction: Instruction) -> tuple[HloValue, ...]:
        """Return the values that an instruction defines, outer positions before inner ones."""
        numbers = self._graph.range_of(instruction)
        return tuple([self._value_at[n] for n in numbers if n in self._value_at])

    def defined_at(self, instruction: Instruction, index: ShapeIndex = ()) -> HloValue | None:
        """Return the value that is defined at a position, None where it is passed on."""
        return self._value_at.get(self._graph.number(instruction, index))

    def _set(self, number: int) -> tuple[HloValue, ...]:
        value = self._reaching.at[number]
        return (self._value_at[value],) if value >= 0 else self._sets[value]

    # -- text and checks -----------------------------------------------------------------------

    def __str__(self) -> str:
        lines = [f"HloDataflowAnalysis, module {self.module.name}", "  Instruction value sets:"]
        for instruction in self.instructions:
            lines.append(f"Instruction: \n  {instruction.name}:")
            subshapes = self._graph.subshapes(instruction.shape)
            for index in subshapes.indices:
                names = ", ".join(map(str, self.value_set(instruction, index)))
                at = f"tuple index {index_text(index)}: " if instruction.shape.is_tuple else ""
                lines.append(f"      {at}{names}")
        lines.append("  HloValues:")
        lines += [value_text(value) for value in self.values]
        return "\n".join(lines) + "\n"

    def check(self) -> None:
        """Raise AssertionError unless values, positions, uses and sources agree."""
        for value in self.values:
            _require(value.positions[0] == value.defining, value, "is not defined first")
            _require(len(set(value.positions)) == len(value.positions), value, "is somewhere twice")
            for place in value.positions:
                found = self.value_set(place.instruction, place.index)
                _require(value in found, value, f"is not at {place}")
            self._check_uses(value)
        places = [len(self._set(n)) for n in range(len(self._graph.source))]
        listed = sum([len(value.positions) for value in self.values])
        _require(sum(places) == listed, self.module, "has values at positions they do not list")
        for number, source in enumerate(self._graph.source):
            if source >= 0:
                _require(self._set(number) == self._set(source), number, "differs from its source")
        for number, sources in self._graph.joins.items():
            self._check_join(number, sources)

    def _check_uses(self, value: HloValue) -> None:
        places = set(value.positions)
        for use in value.uses:
            _require(use.position in places, value, f"is not where it is used: {use}")
            _require(may_use(use.instruction, use.operand_index), value, f"is no {use}")

    def _check_join(self, number: int, sources: Sequence[int]) -> None:
        """A join has a phi of its own, or exactly what comes in."""
        own = self._value_at.get(number)
        if own is not None:
            _require(own.is_phi and self._set(number) == (own,), own, "is no phi")
            return
        incoming = {value for source in sources for value in self._set(source)}
        _require(set(self._set(number)) == incoming, number, "is not what comes in")


def _require(condition: bool, what: object, fault: str) -> None:
    if not condition:
        raise AssertionError(f"{what} {fault}")


def value_text(value: HloValue) -> str:
    """Return a value with its positions and uses, one a line."""
    lines = [f"    {value}", "     positions:"]
    lines += [f"      {place}" for place in value.positions]
    lines.append("     uses:")
    lines += [f"      {use}" for use in value.uses]
    return "\n".join([*lines, f"     from instruction: {value.instruction.name}"])
