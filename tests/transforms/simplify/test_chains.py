"""Long chains simplify in work linear in their length, wherever rules look further than one step.

Each chain repeats a step; `{i}` is its number, `{x}` the value before. What is counted is how often
rules are tried, and how often the whole computation is looked over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

import lowtide
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.passes.rewriting import Rewriter, Rule, RuleTable
from lowtide.transforms.simplify import algebraic_simplifier
from lowtide.transforms.simplify.support import Made

LENGTH = 400

CHAINS = (
    ("negations", "p", "", "y{i} = f32[4,6] negate({x})"),
    ("sums with constants", "k", "", "y{i} = s32[4] add({x}, ones)"),
    (
        "a transpose behind everything",
        "t",
        "t = f32[4,6] transpose(q), dimensions={1,0}",
        "y{i} = f32[4,6] sine({x})",
    ),
    (
        "transposes that cancel",
        "p",
        "",
        """a{i} = f32[6,4] transpose({x}), dimensions={1,0}
        b{i} = f32[6,4] cosine(a{i})
        y{i} = f32[4,6] transpose(b{i}), dimensions={1,0}""",
    ),
    (
        "reshapes that cancel",
        "p",
        "",
        """a{i} = f32[24] reshape({x})
        b{i} = f32[24] cosine(a{i})
        y{i} = f32[4,6] reshape(b{i})""",
    ),
    (
        "a broadcast behind everything",
        "w",
        "w = f32[4,6] broadcast(row), dimensions={1}",
        "y{i} = f32[4,6] sine({x})",
    ),
    (
        "slices before everything",
        "p",
        "",
        """a{i} = f32[4,6] sine({x})
        b{i} = f32[4,4] slice(a{i}), slice={[0:4],[1:5]}
        y{i} = f32[4,6] pad(b{i}, zero), padding=0_0x1_1""",
    ),
    ("pads", "row", "", "y{i} = f32[{n}] pad({x}, zero), padding=0_1"),
    ("concatenates", "row", "", "y{i} = f32[{n}] concatenate({x}, one), dimensions={0}"),
    ("maxima", "p", "", "y{i} = f32[4,6] maximum({x}, p)"),
    ("selects", "p", "", "y{i} = f32[4,6] select(mask, {x}, p)"),
    (
        "tuples",
        "p",
        "",
        """a{i} = (f32[4,6], f32[4,6]) tuple(p, {x})
        b{i} = f32[4,6] get-tuple-element(a{i}), index=1
        y{i} = f32[4,6] sine(b{i})""",
    ),
    (
        "conversions",
        "p",
        "",
        """a{i} = f64[4,6] convert({x})
        y{i} = f32[4,6] convert(a{i})""",
    ),
    (
        "updates of one place",
        "p",
        "",
        "y{i} = f32[4,6] dynamic-update-slice({x}, part, here, here)",
    ),
    (
        "parts that other updates leave alone",
        "long",
        "long = f32[500,6] parameter(7)",
        """h{i} = s32[] constant({n})
        a{i} = f32[1,6] slice({x}), slice={[0:1],[0:6]}
        b{i} = f32[1,6] cosine(a{i})
        y{i} = f32[500,6] dynamic-update-slice({x}, b{i}, h{i}, here)""",
    ),
)

SOURCES = """
  p = f32[4,6] parameter(0)
  q = f32[6,4] parameter(1)
  k = s32[4] parameter(2)
  row = f32[6] parameter(3)
  one = f32[1] parameter(4)
  mask = pred[4,6] parameter(5)
  part = f32[1,6] parameter(6)
  zero = f32[] constant(0)
  here = s32[] constant(0)
  unit = s32[] constant(1)
  ones = s32[4] broadcast(unit), dimensions={}"""


def chain(first: str, sources: str, step: str) -> Module:
    lines, x = [sources], first
    for i in range(LENGTH):
        for part in step.split("\n"):
            line = part.strip().replace("{i}", str(i)).replace("{x}", x)
            lines.append(line.replace("{n}", str(7 + i)))
        x = f"y{i}"
    lines[-1] = f"ROOT {lines[-1]}"
    return lowtide.parse_hlo("\n".join(["HloModule m", "", "ENTRY main {", SOURCES, *lines, "}"]))


class Counting:
    """Counts how often rules are tried, and how often computations are looked over."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tried = self.rounds = 0
        self.rewrite = algebraic_simplifier.rewrite
        chosen = RuleTable.of([self.counted(x) for x in algebraic_simplifier.rules() if x.exact])
        monkeypatch.setattr(algebraic_simplifier, "_table", lambda fast_math: chosen)
        monkeypatch.setattr(algebraic_simplifier, "rewrite", self.looked_over)

    def counted(self, rule: Rule) -> Rule:
        def apply(x: Instruction, at: Rewriter) -> Made:
            self.tried += 1
            return rule.apply(x, at)

        return replace(rule, apply=apply)

    def looked_over(
        self, module: Module, rules: RuleTable, computations: Sequence[Computation]
    ) -> Counter[str]:
        self.rounds += 1
        return self.rewrite(module, rules, computations)


@pytest.mark.parametrize(
    ("first", "sources", "step"), [x[1:] for x in CHAINS], ids=[x[0] for x in CHAINS]
)
def test_chains_take_linear_work(
    first: str, sources: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = chain(first, sources, step)
    count = module.instruction_count
    counting = Counting(monkeypatch)
    algebraic_simplifier.simplify(module)
    assert counting.rounds <= 2
    assert counting.tried <= 50 * count


def test_what_loses_its_other_reader_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = """
  none = pred[] constant(false)
  nones = pred[4,6] broadcast(none), dimensions={}
  t = f32[4,6] transpose(q), dimensions={1,0}
  y = f32[4,6] sine(t)
  other = pred[4,6] is-finite(t)
  z = pred[4,6] and(other, nones)
  ROOT r = (f32[4,6], pred[4,6]) tuple(y, z)
"""
    module = lowtide.parse_hlo(f"HloModule m\n\nENTRY main {{{SOURCES}{lines}}}")
    counting = Counting(monkeypatch)
    algebraic_simplifier.simplify(module)
    assert counting.rounds == 2
    assert module.entry.root.operands[0].opcode is Opcode.TRANSPOSE
