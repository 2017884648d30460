"""Contents of programs: their arguments, results and operations, and what two have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from lowtide.ir import Instruction, Module, Opcode
from lowtide.records import dataclass
from lowtide.report.schema import Json

_CARRIERS: Final = frozenset(
    {
        *(Opcode.BITCAST, Opcode.CALL, Opcode.CONSTANT, Opcode.COPY, Opcode.FUSION),
        *(Opcode.GET_TUPLE_ELEMENT, Opcode.PARAMETER, Opcode.TUPLE),
    }
)
"""What passes values on, or runs operations that count themselves."""


@dataclass(frozen=True, slots=True)
class ProgramContents:
    """What a program takes, gives and does, as texts with how often each occurs.

    Arguments are names with shapes, results shapes, operations opcodes with the shapes of their
    results. `kinds` are arguments without their sizes: names, element types and ranks. `is_named`
    is whether names are those of the source, and not what a compiler counted.
    """

    arguments: Mapping[str, int]
    results: Mapping[str, int]
    operations: Mapping[str, int]
    kinds: Mapping[str, int]
    is_named: bool = True


@dataclass(frozen=True, slots=True)
class CommonPart:
    """How many of one kind of thing two programs have in common, and how many each has."""

    what: str
    shared: int
    before: int
    after: int

    def __str__(self) -> str:
        sides = f"{self.before:,} and {self.after:,}"
        return f"{self.shared:,} of {sides} {self.what}"

    def to_json(self) -> Json:
        """Return the entry of the schema's `common`."""
        return {
            "what": self.what,
            "shared": self.shared,
            "before": self.before,
            "after": self.after,
        }


def contents_of(module: Module) -> ProgramContents:
    """Return the contents of a module, which may be planned already."""
    arguments, kinds = Counter[str](), Counter[str]()
    for parameter in module.entry.parameters:
        name = parameter.metadata.op_name or parameter.name
        for _, leaf in parameter.shape.leaves():
            arguments[f"{name}: {leaf.with_default_layout()}"] += 1
            kinds[f"{name}: {leaf.element_type.value} {leaf.rank if leaf.is_array else 0}"] += 1
    root = module.entry.root.shape
    results = Counter([str(leaf.with_default_layout()) for _, leaf in root.leaves()])
    operations = Counter(
        [
            _operation(x)
            for computation in module.computations.values()
            for x in computation.instructions.values()
            if x.opcode not in _CARRIERS
        ]
    )
    is_named = any(x.metadata.op_name for x in module.entry.parameters)
    return ProgramContents(arguments, results, operations, kinds, is_named)


def in_common(before: ProgramContents, after: ProgramContents) -> tuple[CommonPart, ...]:
    """Return how many arguments, results and operations two programs have in common."""
    rows = (
        ("arguments", *_comparable(before, after, before.arguments, after.arguments)),
        ("results", before.results, after.results),
        ("operations", before.operations, after.operations),
    )
    return tuple([_part(what, first, second) for what, first, second in rows])


def share_arguments(before: ProgramContents, after: ProgramContents) -> bool:
    """Whether an argument of one is one of the other, of any sizes; so are programs without any."""
    if not before.kinds and not after.kinds:
        return True
    return bool(_part("", *_comparable(before, after, before.kinds, after.kinds)).shared)


def _comparable(
    before: ProgramContents,
    after: ProgramContents,
    first: Mapping[str, int],
    second: Mapping[str, int],
) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Texts of arguments of two programs, without names where only one has those of its source."""
    if before.is_named == after.is_named:
        return first, second
    return _without_names(first), _without_names(second)


def _without_names(arguments: Mapping[str, int]) -> Mapping[str, int]:
    found = Counter[str]()
    for text, count in arguments.items():
        found[text.rpartition(": ")[2]] += count
    return found


def _part(what: str, before: Mapping[str, int], after: Mapping[str, int]) -> CommonPart:
    shared = sum([min(count, after.get(text, 0)) for text, count in before.items()])
    return CommonPart(what, shared, sum(before.values()), sum(after.values()))


def _operation(x: Instruction) -> str:
    return f"{x.opcode.value} {x.shape.with_default_layout()}"
