"""The algebraic simplifier: the rules of all families, applied until none fits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Final

from lowtide.ir import Computation, Module, Opcode
from lowtide.ir.traversal import all_callees
from lowtide.passes.interface import Pass, example
from lowtide.passes.rewriting import Rule, RuleTable, rewrite

_OF_MANY: Final[frozenset[Opcode] | None] = None
"""Stands for the opcodes of a file with rules for most of them."""

FILES: Final[Mapping[str, frozenset[Opcode] | None]] = {
    "arithmetic": frozenset(
        {
            *(Opcode.ADD, Opcode.AND, Opcode.DIVIDE, Opcode.MAXIMUM, Opcode.MINIMUM),
            *(Opcode.MULTIPLY, Opcode.NEGATE, Opcode.OR, Opcode.SUBTRACT, Opcode.XOR),
        }
    ),
    "broadcast": _OF_MANY,
    "comparison": frozenset({Opcode.AND, Opcode.COMPARE, Opcode.OR}),
    "concatenate": frozenset({Opcode.CONCATENATE, Opcode.REVERSE}),
    "conversion": frozenset(
        {
            *(Opcode.AND, Opcode.BITCAST, Opcode.BITCAST_CONVERT, Opcode.CONCATENATE),
            *(Opcode.CONVERT, Opcode.COPY, Opcode.OR, Opcode.REDUCE_PRECISION, Opcode.XOR),
        }
    ),
    "convolution": frozenset({Opcode.CONVOLUTION, Opcode.TRANSPOSE}),
    "devices": frozenset(
        {
            *(Opcode.ALL_GATHER, Opcode.ALL_REDUCE, Opcode.ALL_TO_ALL),
            *(Opcode.COLLECTIVE_BROADCAST, Opcode.GET_DIMENSION_SIZE, Opcode.PARTITION_ID),
            *(Opcode.REDUCE_SCATTER, Opcode.REPLICA_ID, Opcode.SET_DIMENSION_SIZE),
        }
    ),
    "division": frozenset({Opcode.DIVIDE, Opcode.MULTIPLY, Opcode.REMAINDER}),
    "dot": frozenset({Opcode.DOT, Opcode.TRANSPOSE}),
    "dynamic": frozenset({Opcode.DYNAMIC_SLICE, Opcode.DYNAMIC_UPDATE_SLICE, Opcode.SLICE}),
    "flooring": frozenset({Opcode.SELECT}),
    "gather": frozenset({Opcode.GATHER, Opcode.SCATTER, Opcode.SLICE}),
    "logic": frozenset(
        {
            *(Opcode.AND, Opcode.MAXIMUM, Opcode.MINIMUM, Opcode.NOT, Opcode.OR),
            *(Opcode.POPULATION_COUNT, Opcode.SHIFT_LEFT, Opcode.SHIFT_RIGHT_ARITHMETIC),
            *(Opcode.SHIFT_RIGHT_LOGICAL, Opcode.XOR),
        }
    ),
    "pad": frozenset({Opcode.ADD, Opcode.CONCATENATE, Opcode.PAD}),
    "powers": frozenset(
        {
            *(Opcode.ADD, Opcode.ASINH, Opcode.ATANH, Opcode.DIVIDE, Opcode.EXPONENTIAL),
            *(Opcode.EXPONENTIAL_MINUS_ONE, Opcode.LOG, Opcode.LOG_PLUS_ONE, Opcode.MULTIPLY),
            *(Opcode.POWER, Opcode.RSQRT, Opcode.SINH, Opcode.SQRT, Opcode.TANH),
        }
    ),
    "reduction": frozenset({Opcode.REDUCE}),
    "reshape": _OF_MANY,
    "selection": frozenset(
        {
            *(Opcode.CLAMP, Opcode.CONVERT, Opcode.MAXIMUM, Opcode.MINIMUM, Opcode.MULTIPLY),
            Opcode.SELECT,
        }
    ),
    "several_results": frozenset({Opcode.REDUCE, Opcode.SORT}),
    "signs": frozenset(
        {
            *(Opcode.ABS, Opcode.CEIL, Opcode.COMPLEX, Opcode.COSH, Opcode.COSINE, Opcode.FLOOR),
            *(Opcode.IMAG, Opcode.IS_FINITE, Opcode.MAXIMUM, Opcode.MULTIPLY, Opcode.REAL),
            *(Opcode.ROUND_NEAREST_AFZ, Opcode.ROUND_NEAREST_EVEN, Opcode.SIGN),
        }
    ),
    "slice": frozenset({Opcode.SLICE}),
    "transpose": _OF_MANY,
    "tuples": frozenset(
        {Opcode.ADD_DEPENDENCY, Opcode.AFTER_ALL, Opcode.GET_TUPLE_ELEMENT, Opcode.TUPLE}
    ),
    "windows": frozenset({Opcode.REDUCE_WINDOW}),
}
"""The files of rules in the order in which rules are tried, with the opcodes that these are for.

A file is loaded once an instruction of such an opcode is looked at.
"""


@cache
def rules_in(file: str) -> tuple[Rule, ...]:
    """Return the rules of a file as they stand there; pairs of rules one after the other."""
    found = vars(import_module(f"{__package__}.{file}")).values()
    return tuple(
        [y for x in found for y in (x if isinstance(x, tuple) else (x,)) if isinstance(y, Rule)]
    )


def rules() -> tuple[Rule, ...]:
    """Return the rules of all files of this folder, those of one file in their order."""
    return tuple([rule for file in FILES for rule in rules_in(file)])


def rules_of(opcode: Opcode) -> list[Rule]:
    """Return the rules for an opcode, in the order in which they are tried."""
    files = [file for file, opcodes in FILES.items() if opcodes is None or opcode in opcodes]
    return [rule for file in files for rule in rules_in(file) if opcode in rule.opcodes]


@cache
def _table(*, fast_math: bool) -> RuleTable:
    """The rules that may be applied, by opcode; one table serves for all modules."""
    return RuleTable(lambda opcode: [x for x in rules_of(opcode) if x.exact or fast_math])


def simplify(module: Module, *, fast_math: bool = False) -> int:
    """Apply all rules until none fits; return how many times one did.

    Values stay the same to the last bit, but for NaNs and where HLO leaves it open: in the order of
    a reduction and the accuracy of powers. `fast_math` lets rules in which may round otherwise,
    lose the sign of a zero, or take no number for an infinity or NaN.
    """
    chosen = _table(fast_math=fast_math)
    changes = 0
    seen = {x: x.version for x in module.computations.values() if _is_settled(x, chosen)}
    # A rule looks further than the neighbours of what changed: what it missed fits another time.
    while waiting := [x for x in module.computations.values() if seen.get(x) != x.version]:
        seen.update({x: x.version for x in waiting})
        called = {x: _called(x) for x in waiting}
        fired = rewrite(module, chosen, waiting).total()
        changes += fired
        for x in waiting:
            if x.version == seen[x] and called[x] == _called(x):
                x.kept[_SETTLED, chosen] = (x.version, called[x])
        if not fired:  # Versions move where rules make something in vain, too.
            break
    return changes


_SETTLED: Final = "settled by rules of algebra"


def _is_settled(computation: Computation, table: RuleTable) -> bool:
    """Whether no rule fitted when last all were tried, and nothing has changed here since."""
    found = computation.kept.get((_SETTLED, table))
    return found == (computation.version, _called(computation))


def _called(computation: Computation) -> tuple[tuple[Computation, int], ...]:
    """What a computation calls, as it is now: rules look at that, too."""
    return tuple([(x, x.version) for x in all_callees(computation)])


PASSES: Final = (
    Pass(
        "algsimp",
        simplify,
        "Simplifies by the rules of algebra.",
        *example(
            """
HloModule m

ENTRY main {
- x = s32[4] parameter(0)
- zero = s32[] constant(0)
- zeros = s32[4] broadcast(zero), dimensions={}
- ROOT sum = s32[4] add(zeros, x)
+ ROOT x = s32[4] parameter(0)
}
"""
        ),
        meanings=(("fast_math", "also rules that may round otherwise, and assume finite numbers"),),
    ),
)
