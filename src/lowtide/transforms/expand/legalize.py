"""All expanders at once, and which operations they leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache, partial
from importlib import import_module
from typing import Final

from lowtide.ir import Module, Opcode
from lowtide.passes.interface import Pass, example
from lowtide.passes.needs import Trait, features_of
from lowtide.passes.rewriting import Rule, RuleTable
from lowtide.transforms.expand.support import expand

EXPANDED: Final = frozenset(
    {
        *(Opcode.BATCH_NORM_GRAD, Opcode.BATCH_NORM_INFERENCE, Opcode.BATCH_NORM_TRAINING),
        *(Opcode.LOGISTIC, Opcode.MAP, Opcode.RNG, Opcode.SCALED_DOT),
    }
)
"""The operations for which `legalize` writes simpler ones."""

CORE: Final = frozenset(Opcode) - EXPANDED
"""The operations that code has to be generated for.

After `legalize`, gathers and scatters among them have their index vectors last, no window of a
reduce-window is cumulative, no reduction looks for a place, scans are chains of elements, no few
lines are transformed whose length has a large prime factor, and element-wise operations compute in
one floating point type.

Operations stay in the core where one kernel moves less memory than what can be written in their
place: select-and-scatter (no places in memory), topk (no sorted rows), rng-bit-generator (no words
of the cipher), cholesky and triangular-solve (no masks for each step). The passes that write these
out are for targets without such a kernel.
"""


def legalize(module: Module) -> int:
    """Write operations outside of `CORE` as simpler ones; return the number of changes.

    What `outside_core` names afterwards has a type or shape that its expander does not take.
    """
    changes = 0
    if Opcode.RNG in features_of(module):
        from lowtide.transforms.expand.rng import expand_rng  # Few modules load it.

        changes += expand_rng(module)
    if not _is_mixed(module):
        changes += expand(module, _table(mixed=False))
    if _is_mixed(module):
        changes += expand(module, _table(mixed=True))
    if Trait.TOTAL_ORDER in features_of(module):
        from lowtide.transforms.expand.total_order import expand_total_order  # Few modules load it.

        changes += expand_total_order(module)
    return changes


def _is_mixed(module: Module) -> bool:
    """Whether anything may compute in several types: most instructions have a rule for that."""
    return Trait.MIXED in features_of(module)


def outside_core(module: Module) -> dict[Opcode, int]:
    """Return how often a module has each operation outside of `CORE`, in alphabetical order."""
    found = Counter(
        [
            x.opcode
            for computation in module.computations.values()
            for x in computation.instructions.values()
            if x.opcode not in CORE
        ]
    )
    return dict(sorted(found.items()))


MIXED_TYPES: Final = "mixed_types"
"""The file of rules for modules of several types of floating point numbers, or of complex ones."""

FILES: Final[Mapping[str, frozenset[Opcode] | None]] = {
    "arg_reduce": frozenset({Opcode.REDUCE}),
    "batch_norm": frozenset(
        {Opcode.BATCH_NORM_GRAD, Opcode.BATCH_NORM_INFERENCE, Opcode.BATCH_NORM_TRAINING}
    ),
    "cumulative": frozenset({Opcode.REDUCE_WINDOW}),
    "index_form": frozenset({Opcode.GATHER, Opcode.SCATTER}),
    "logistic": frozenset({Opcode.LOGISTIC}),
    "map": frozenset({Opcode.MAP}),
    MIXED_TYPES: None,
    "rough_fft": frozenset({Opcode.FFT}),
    "scaled_dot": frozenset({Opcode.SCALED_DOT}),
    "scan": frozenset({Opcode.SCAN}),
    "simple_scatter": frozenset({Opcode.SCATTER}),
}
"""The files of rules in the order in which rules are tried, with the opcodes that these are for.

None stands for most opcodes. A file is loaded once an instruction of such an opcode is looked at.
"""


@cache
def _table(*, mixed: bool) -> RuleTable:
    """The rules by opcode, without those for several types of numbers where these are one."""
    return RuleTable(partial(rules_of, mixed=mixed))


def rules_of(opcode: Opcode, *, mixed: bool) -> list[Rule]:
    """Return the rules for an opcode, in the order in which they are tried."""
    files = [
        file
        for file, opcodes in FILES.items()
        if (mixed and file == MIXED_TYPES if opcodes is None else opcode in opcodes)
    ]
    return [rule for file in files for rule in rules_in(file) if opcode in rule.opcodes]


@cache
def rules_in(file: str) -> tuple[Rule, ...]:
    """Return the rules of a file, which is loaded for them."""
    found: tuple[Rule, ...] = import_module(f"{__package__}.{file}").RULES
    return found


PASSES: Final = (
    Pass(
        "legalize",
        legalize,
        "Writes operations outside of a small core as simpler ones.",
        *example(
            """
HloModule m

-half {
- a = f32[] parameter(0)
- b = f32[] constant(0.5)
- ROOT c = f32[] multiply(a, b)
+ENTRY main {
+ constant.1 = f32[] constant(1)
+ broadcast.2 = f32[4] broadcast(constant.1), dimensions={}
+ x = f32[4] parameter(0)
+ constant = f32[] constant(0.5)
+ broadcast = f32[4] broadcast(constant), dimensions={}
+ multiply = f32[4] multiply(x, broadcast)
+ negate = f32[4] negate(multiply)
+ exponential = f32[4] exponential(negate)
+ broadcast.1 = f32[4] broadcast(constant.1), dimensions={}
+ add = f32[4] add(exponential, broadcast.1)
+ ROOT divide = f32[4] divide(broadcast.2, add)
}

-ENTRY main {
- x = f32[4] parameter(0)
- y = f32[4] map(x), dimensions={0}, to_apply=half
- ROOT z = f32[4] logistic(y)
-}
-"""
        ),
    ),
)
