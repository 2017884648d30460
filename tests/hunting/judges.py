"""The judges of one module: the evaluator, XLA:CPU, native code and the plan in which it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, final

import numpy as np
from tests.hunting.arguments import case_arguments, has_ends
from tests.hunting.certainty import Doubt, doubts, with_roundings, without_nan_bits
from tests.hunting.findings import Court, Judgement, Tell
from tests.hunting.order_machine import is_simulated
from tests.hunting.orders import BoundAttack
from tests.hunting.roundings import rounded_types
from tests.hunting.xla_judge import run_xla

from lowtide.backends.build import Build, build
from lowtide.backends.cpu import CpuBackend
from lowtide.checking import check_plan
from lowtide.checking.tolerances import worst_difference
from lowtide.compiler import DEFAULT_PLAN, PlanOptions, scheduled
from lowtide.evaluator import array_leaves, evaluate
from lowtide.evaluator.in_arena.run import run_in_arena
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Module
from lowtide.ir.literal import Array
from lowtide.ir.printer import COMPLETE, to_text
from lowtide.llvm.target import host_target, restricted
from lowtide.records import dataclass
from lowtide.runtime.cpu.call import CallOptions, LinkedExecutable
from lowtide.runtime.cpu.program import NativeProgram
from lowtide.search.effort import Effort
from lowtide.verifier import verify

FACTOR: Final = 4.0
"""How many tolerances results may be apart: so many operations in a row may round."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under which a module is judged.

    `seed` is that of its arguments, `effort` that of searches. `stages` are those to which a module
    without a schedule is taken. So many `orders` are held against its bound.
    """

    seed: int
    threads: int = 1
    target: str = "native"
    effort: str = "fast"
    stages: tuple[str, ...] = ("scheduled", "input")
    orders: int = 0


@final
class ModuleCourt(Court):
    """All judges of one module, one after the other."""

    def __init__(self, text: str, conditions: Conditions, tell: Tell) -> None:
        super().__init__(tell)
        self.text = text
        self.conditions = conditions

    def run(self) -> Judgement:
        """Return what all judges say."""
        module = self.ask("text", self._read)
        if module is not None:
            self._judge(module)
        return self.judgement()

    def run_orders(self) -> Judgement:
        """Return whether an order needs less than the bound."""
        self.ask("orders", lambda: self._check_bound(parse_hlo(self.text)))
        return self.judgement()

    def _read(self) -> Module:
        module = parse_hlo(self.text)
        verify(module)
        printed = to_text(module, COMPLETE)
        if to_text(parse_hlo(printed), COMPLETE) != printed:
            self.found("text", "fixpoint", "parse(print(m)) prints otherwise")
        return module

    def _judge(self, module: Module) -> None:
        arguments = case_arguments(module, self.conditions.seed)
        expected = self.ask("evaluator", lambda: evaluated(module, arguments))
        if expected is None:
            return
        compare = Comparison(module, arguments, expected)
        stages = self.conditions.stages[:1] if module.is_scheduled else self.conditions.stages
        for stage in stages:
            self._native(module, arguments, compare, stage)
        if self.conditions.orders:
            self.ask("orders", lambda: self._check_bound(module))
        if not has_ends(module, self.conditions.seed):  # XLA:CPU takes what is next to 0 for 0.
            self.compare(compare, "xla", lambda: run_xla(module, arguments))

    def _check_bound(self, module: Module) -> None:
        with_copies = scheduled(module, PlanOptions("input"))
        if not is_simulated(with_copies):
            return
        attack = BoundAttack(with_copies)
        attack.try_random(self.conditions.seed, self.conditions.orders)
        if attack.least < attack.bound:
            words = f"an order needs {attack.least} bytes, the bound is {attack.bound}"
            self.found("orders", "unsound", words)

    def _native(
        self, module: Module, arguments: Sequence[Array], compare: Comparison, stage: str
    ) -> None:
        name = "native" if stage == "scheduled" else f"native, {stage}"
        target = restricted(host_target(), self.conditions.target)
        backend = CpuBackend(self.conditions.threads, target)
        search = replace(DEFAULT_PLAN.search, effort=Effort(self.conditions.effort))
        options = PlanOptions(stage, search=search)
        built: Build[NativeProgram] | None = self.ask(
            f"build, {stage}", lambda: build(module, backend, options)
        )
        if built is None:
            return
        self.ask(f"plan, {stage}", lambda: self._check_plan(built, stage))
        made = built.plan
        self.compare(compare, f"passes, {stage}", lambda: evaluated(made.module, arguments))
        self.compare(
            compare,
            f"arena, {stage}",
            lambda: array_leaves(
                run_in_arena(made.module, made.assignment, arguments, sanitize=True)
            ),
        )

        def called() -> list[Array]:
            options = CallOptions(huge_pages=False)
            return array_leaves(LinkedExecutable(built.program, options=options)(*arguments))

        self.compare(compare, name, called)

    def _check_plan(self, built: Build[NativeProgram], stage: str) -> None:
        for violation in check_plan(built.plan.module, built.plan.assignment)[:1]:
            self.found(f"plan, {stage}", "violation", str(violation))
        ladder = built.plan.report.ladder
        if not ladder.bound_bytes <= ladder.live_bytes <= ladder.arena_bytes:
            self.found(f"plan, {stage}", "bound", str(ladder))

    def compare(
        self, comparison: Comparison, judge: str, question: Callable[[], list[Array]]
    ) -> None:
        """Add a finding where an answer is not what the evaluator computes."""
        got = self.ask(judge, question, is_ours=judge != "xla")
        words = None if got is None else comparison.difference(got)
        if words is not None:
            self.found(judge, "wrong", words)


class Comparison:
    """What the evaluator computes of a module, to hold other results against."""

    def __init__(
        self, module: Module, arguments: Sequence[Array], expected: Sequence[Array]
    ) -> None:
        self.module = module
        self.arguments = arguments
        self.expected = expected
        leaves = [leaf for _, leaf in module.entry.root.shape.leaves()]
        self.types = [leaf.element_type for leaf in leaves if leaf.is_array]
        found = zip(leaves, doubts(module), strict=True)
        self.doubts = [doubt for leaf, doubt in found if leaf.is_array]
        self._moves: list[list[Array]] = []
        self._signs: list[list[Array]] = []

    def difference(self, got: Sequence[Array]) -> str | None:
        """Return how results differ from those expected, None where they agree."""
        if len(got) != len(self.expected):
            return f"{len(got)} results, expected {len(self.expected)}"
        for number, (a, b) in enumerate(zip(got, self.expected, strict=True)):
            factor = FACTOR if self.doubts[number] & Doubt.ROUNDED else 0.0
            try:
                found = worst_difference(a, b, self.types[number], factor=factor)
            except ValueError as error:
                return f"result {number}: {error}"
            if found is not None and not np.all(self._is_free(number, a, b)):
                return f"result {number} of {self.types[number].value}: {found}"
        return None

    def _is_free(self, number: int, got: Array, expected: Array) -> Any:
        """Whether each element may be what it is, where it is not what is expected."""
        doubt = self.doubts[number]
        if doubt & Doubt.FREE:
            return np.True_
        free = _distance(got, expected) == 0
        if doubt & Doubt.BITS:
            free |= self._follows_nan(number)
        if doubt & Doubt.ROUNDED:
            free |= self._moves_as_far(number, got, expected)
        return free

    def _follows_nan(self, number: int) -> Any:
        """Whether each element follows from the sign of a NaN."""
        if not self._signs:
            for negative in (False, True):
                other = without_nan_bits(self.module, negative)
                self._signs.append(evaluated(other, self.arguments))
        plus, minus = self._signs[0][number], self._signs[1][number]
        return (_distance(plus, minus) > 0) | (_distance(plus, self.expected[number]) > 0)

    def _moves_as_far(self, number: int, got: Array, expected: Array) -> Any:
        """Whether each element moves as far where arguments and results move by a rounding.

        What becomes no number, or one from none, may so only where it does when it is moved.
        """
        self._moves = self._moves or [self._moved(seed) for seed in range(6)]
        spread, leaps = np.zeros(expected.shape), np.zeros(expected.shape, bool)
        with np.errstate(all="ignore"):
            for moved in self._moves:
                far = _distance(moved[number], expected)
                leaps |= np.isinf(far)
                spread = np.maximum(spread, np.where(np.isinf(far), 0.0, far))
            wide = _distance(got, expected)
            magnitude = np.abs(expected.astype(np.complex128))
            scale = np.max(magnitude[np.isfinite(magnitude)], initial=0.0)
            types = {self.types[number], *rounded_types(self.module)}
            relative = max([worst_relative(x.value) for x in types])
        near = wide <= 16 * spread + FACTOR * relative * scale
        return np.where(np.isinf(wide), leaps, near)

    def _moved(self, seed: int) -> list[Array]:
        """What the evaluator computes where arguments and what is rounded are off by roundings."""
        random = np.random.default_rng(seed)
        moved = []
        for x in self.arguments:
            if x.dtype.name in ("float32", "float64", "complex64", "complex128"):
                single = x.dtype.name in ("float32", "complex64")
                unit = 2.0**-21 if single else 2.0**-50
                noise = random.choice([-unit, 0.0, unit], x.shape)
                x = np.asarray(x * (1 + noise)).astype(x.dtype)
            moved.append(x)
        return evaluated(with_roundings(self.module, random), moved)


def _distance(a: Array, b: Array) -> Any:
    """How far elements are apart; integers that differ are at least 1 apart, however large."""
    wide = np.complex128
    with np.errstate(all="ignore"):
        x, y = a.astype(wide), b.astype(wide)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        far = np.where(same, 0.0, np.nan_to_num(np.abs(x - y), nan=np.inf, posinf=np.inf))
    return np.where(a != b, np.maximum(far, 1.0), 0.0) if a.dtype.kind in "iu" else far


def worst_relative(type_: str) -> float:
    """Return the relative error that is a rounding or two in an element type."""
    return {"f64": 1e-10, "c128": 1e-10, "f32": 1e-5, "c64": 1e-5}.get(type_, 2e-2)


def evaluated(module: Module, arguments: Sequence[Array]) -> list[Array]:
    """Return the arrays that the evaluator computes, depth first."""
    with np.errstate(all="ignore"):
        return array_leaves(evaluate(module, list(arguments)))
