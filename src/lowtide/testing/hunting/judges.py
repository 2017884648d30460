"""The judges of one module: the evaluator, XLA:CPU, native code and the plan in which it runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, Final

import numpy as np

from lowtide.backends.build import Build, build
from lowtide.backends.cpu import CpuBackend
from lowtide.checking import check_plan
from lowtide.checking.tolerances import worst_difference
from lowtide.compiler import DEFAULT_PLAN, PlanOptions, scheduled
from lowtide.evaluator import Token, evaluate, value_leaves
from lowtide.evaluator.in_arena.run import run_in_arena
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Module
from lowtide.ir.errors import LowtideError, UnsupportedOpError
from lowtide.ir.literal import Array
from lowtide.ir.printer import COMPLETE, to_text
from lowtide.llvm.target import host_target, restricted
from lowtide.records import dataclass
from lowtide.runtime.cpu.call import CallOptions, LinkedExecutable
from lowtide.runtime.cpu.program import NativeProgram
from lowtide.search.effort import Effort
from lowtide.testing.check_pass import seeded_arguments
from lowtide.testing.hunting.order_machine import is_simulated
from lowtide.testing.hunting.orders import BoundAttack
from lowtide.testing.hunting.roundings import exact_outputs, reads_bits, rounded_types
from lowtide.testing.hunting.xla_judge import run_xla
from lowtide.verifier import verify

FACTOR: Final = 4.0
"""How many tolerances results may be apart: so many operations in a row may round."""

TELL = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Finding:
    """A disagreement: who says so, of what kind, and the first line of the words."""

    judge: str
    kind: str
    words: str

    @property
    def signature(self) -> str:
        """What findings of one cause have in common: numbers and names are left out."""
        words = "" if self.kind == "wrong" else re.sub(r"[%\w.-]*\d[\w.-]*", "#", self.words)
        return f"{self.judge}: {self.kind} {words[:100]}".strip()


@dataclass(frozen=True, slots=True)
class Judgement:
    """What came of a module: findings, and which judges could not say anything, with the reason."""

    findings: tuple[Finding, ...]
    silent: tuple[tuple[str, str], ...]
    seconds: tuple[tuple[str, float], ...]


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


class Court:
    """All judges of one module, one after the other."""

    def __init__(self, text: str, conditions: Conditions, tell: TELL) -> None:
        self.text = text
        self.conditions = conditions
        self.tell = tell
        self.findings: list[Finding] = []
        self.silent: list[tuple[str, str]] = []
        self.seconds: list[tuple[str, float]] = []

    def judgement(self) -> Judgement:
        """Return what all judges say."""
        module = self.ask("text", self._read)
        if module is not None:
            self._judge(module)
        return Judgement(tuple(self.findings), tuple(self.silent), tuple(self.seconds))

    def ask(self, judge: str, question: Callable[[], Any]) -> Any:
        """Return an answer; None with a finding where it fails, silent where it is unsupported."""
        self.tell(judge)
        start = perf_counter()
        try:
            return question()
        except UnsupportedOpError as error:
            self.silent.append((judge, _first_line(error)))
        except LowtideError as error:
            self.findings.append(Finding(judge, type(error).__name__, _first_line(error)))
        except Exception as error:
            if judge == "xla":
                self.silent.append((judge, _first_line(error)))
            else:
                self.findings.append(Finding(judge, type(error).__name__, _first_line(error)))
        finally:
            self.seconds.append((judge, perf_counter() - start))
        return None

    def _read(self) -> Module:
        module = parse_hlo(self.text)
        verify(module)
        printed = to_text(module, COMPLETE)
        if to_text(parse_hlo(printed), COMPLETE) != printed:
            self.findings.append(Finding("text", "fixpoint", "parse(print(m)) prints otherwise"))
        return module

    def _judge(self, module: Module) -> None:
        arguments = seeded_arguments(module, self.conditions.seed)
        expected = self.ask("evaluator", lambda: _evaluated(module, arguments))
        if expected is None:
            return
        compare = Comparison(module, arguments, expected)
        stages = self.conditions.stages[:1] if module.is_scheduled else self.conditions.stages
        for stage in stages:
            self._native(module, arguments, compare, stage)
        if self.conditions.orders:
            self.ask("orders", lambda: self._check_bound(module))
        self.compare(compare, "xla", lambda: run_xla(module, arguments))

    def _check_bound(self, module: Module) -> None:
        with_copies = scheduled(module, PlanOptions("input"))
        if not is_simulated(with_copies):
            return
        attack = BoundAttack(with_copies)
        attack.try_random(self.conditions.seed, self.conditions.orders)
        if attack.least < attack.bound:
            words = f"an order needs {attack.least} bytes, the bound is {attack.bound}"
            self.findings.append(Finding("orders", "unsound", words))

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
        self.compare(compare, f"passes, {stage}", lambda: _evaluated(made.module, arguments))
        self.compare(
            compare,
            f"arena, {stage}",
            lambda: _flat(run_in_arena(made.module, made.assignment, arguments, sanitize=True)),
        )

        def called() -> list[Array]:
            options = CallOptions(huge_pages=False)
            return _flat(LinkedExecutable(built.program, options=options)(*arguments))

        self.compare(compare, name, called)

    def _check_plan(self, built: Build[NativeProgram], stage: str) -> None:
        for violation in check_plan(built.plan.module, built.plan.assignment)[:1]:
            self.findings.append(Finding(f"plan, {stage}", "violation", str(violation)))
        ladder = built.plan.report.ladder
        if not ladder.bound_bytes <= ladder.live_bytes <= ladder.arena_bytes:
            self.findings.append(Finding(f"plan, {stage}", "bound", str(ladder)))

    def compare(
        self, comparison: Comparison, judge: str, question: Callable[[], list[Array]]
    ) -> None:
        """Add a finding where an answer is not what the evaluator computes."""
        got = self.ask(judge, question)
        words = None if got is None else comparison.difference(got)
        if words is not None:
            self.findings.append(Finding(judge, "wrong", words))


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
        exact = exact_outputs(module)
        self.exact = exact if len(exact) == len(self.types) else [all(exact)] * len(self.types)
        self._moves: list[list[Array]] = []

    def difference(self, got: Sequence[Array]) -> str | None:
        """Return how results differ from those expected, None where they agree."""
        if len(got) != len(self.expected):
            return f"{len(got)} results, expected {len(self.expected)}"
        for number, (a, b) in enumerate(zip(got, self.expected, strict=True)):
            factor = 0.0 if self.exact[number] else FACTOR
            try:
                found = worst_difference(a, b, self.types[number], factor=factor)
            except ValueError as error:
                return f"result {number}: {error}"
            if found is not None and not self._is_free(number, a, b):
                return f"result {number} of {self.types[number].value}: {found}"
        return None

    def _is_free(self, number: int, got: Array, expected: Array) -> bool:
        """Whether the elements that differ move as far where arguments move by a rounding."""
        if reads_bits(self.module):
            return True
        if self.exact[number]:
            return False
        self._moves = self._moves or [self._moved(seed) for seed in range(6)]
        spread = np.zeros(expected.shape)
        with np.errstate(all="ignore"):
            for moved in self._moves:
                far = _distance(moved[number], expected)
                spread = np.maximum(spread, far)
            wide = _distance(got, expected)
            magnitude = np.abs(expected.astype(np.complex128))
            scale = np.max(magnitude[np.isfinite(magnitude)], initial=0.0)
            types = {self.types[number], *rounded_types(self.module)}
            relative = max([worst_relative(x.value) for x in types])
        return bool(np.all(wide <= 16 * spread + FACTOR * relative * scale))

    def _moved(self, seed: int) -> list[Array]:
        """What the evaluator computes of arguments that are off by roundings."""
        random = np.random.default_rng(seed)
        moved = []
        for x in self.arguments:
            if x.dtype.name in ("float32", "float64", "complex64", "complex128"):
                single = x.dtype.name in ("float32", "complex64")
                unit = 2.0**-21 if single else 2.0**-50
                noise = random.choice([-unit, 0.0, unit], x.shape)
                x = np.asarray(x * (1 + noise)).astype(x.dtype)
            moved.append(x)
        return _evaluated(self.module, moved)


def _distance(a: Array, b: Array) -> Any:
    wide = np.complex128
    x, y = a.astype(wide), b.astype(wide)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    return np.where(same, 0.0, np.nan_to_num(np.abs(x - y), nan=np.inf, posinf=np.inf))


def worst_relative(type_: str) -> float:
    """Return the relative error that is a rounding or two in an element type."""
    return {"f64": 1e-10, "c128": 1e-10, "f32": 1e-5, "c64": 1e-5}.get(type_, 2e-2)


def _evaluated(module: Module, arguments: Sequence[Array]) -> list[Array]:
    with np.errstate(all="ignore"):
        return _flat(evaluate(module, list(arguments)))


def _flat(value: Any) -> list[Array]:
    return [x for x in value_leaves(value) if x is not None and not isinstance(x, Token)]


def _first_line(error: BaseException) -> str:
    lines = [x for x in str(error).splitlines() if x.strip()]
    return lines[0][:300] if lines else type(error).__name__
