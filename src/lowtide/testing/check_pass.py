"""Checks of one pass on one module: text in, text out."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Protocol

import numpy as np

from lowtide.checking.tolerances import assert_values_close
from lowtide.evaluator import evaluate as value_of
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.clone import clone_module
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.module import Module
from lowtide.ir.printer import COMPLETE, to_text
from lowtide.ir.shape import Shape
from lowtide.testing.filecheck import file_check, parse_checks
from lowtide.verifier import verify


class ModulePass(Protocol):
    """What `check_pass` needs of a pass."""

    def run(self, module: Module) -> bool:
        """Transform the module; return whether anything changed."""


def check_pass(
    transform: ModulePass | Callable[[Module], bool],
    text: str,
    changed: bool = True,
    evaluate: bool = False,
) -> Module:
    """Run a pass, or a function that is one, on the module of `text`, and return the result.

    Asserts that the module is valid before and after; that the pass says whether it changed the
    text, truly and as `changed` says; that the text then matches the CHECK lines of `text`, if it
    has any (see `filecheck`). With `evaluate` the values before and after have to agree on seeded
    arguments, within the tolerances of their types.
    """
    module = parse_hlo(text)
    verify(module)
    original = clone_module(module)
    before = to_text(module, COMPLETE)
    run = transform if callable(transform) else transform.run
    reported = run(module)
    verify(module)
    after = to_text(module, COMPLETE)
    assert reported == (after != before), (
        f"the pass returned {reported}, but the text {'differs' if after != before else 'is equal'}"
        f"\n--- before\n{before}\n--- after\n{after}"
    )
    assert reported == changed, f"the pass returned {reported}, not {changed}\n{after}"
    checks = parse_checks(text)
    if checks:
        file_check(after, checks)
    if evaluate:
        assert_same_values(original, module)
    return module


def assert_same_values(before: Module, after: Module, *, seeds: int = 2) -> None:
    """Assert that two modules compute the same from seeded arguments."""
    for seed in range(seeds):
        arguments = seeded_arguments(before, seed)
        expected, got = value_of(before, arguments), value_of(after, arguments)
        assert_values_close(got, expected, before.entry.root.shape)


def seeded_arguments(module: Module, seed: int) -> list[Array]:
    """Return an argument for each leaf of the parameters, the same for equal shapes and seeds.

    Numbers are small: integers from -4 to 4, or 0 to 4, and multiples of 1/8 between -2 and 2, so
    that indices are often in range and short sums are exact.
    """
    leaves = [leaf for p in module.entry.parameters for _, leaf in p.shape.leaves()]
    shapes = [leaf for leaf in leaves if leaf.is_array]
    text = ",".join([str(shape.static()) for shape in shapes])
    random = np.random.default_rng([seed, zlib.crc32(text.encode())])
    return [_small_numbers(shape, random) for shape in shapes]


def _small_numbers(shape: Shape, random: np.random.Generator) -> Array:
    element_type, sizes = shape.element_type, shape.dimensions
    dtype = DTYPES[element_type]
    if element_type.is_floating:
        return (random.integers(-16, 17, sizes) / 8).astype(dtype)
    if element_type.is_complex:
        real, imaginary = random.integers(-16, 17, (2, *sizes)) / 8
        return np.asarray(real + 1j * imaginary).astype(dtype)
    if not element_type.is_integer:
        return np.asarray(random.integers(0, 2, sizes)).astype(dtype)
    most = min(4, (1 << element_type.bits - element_type.is_signed) - 1)
    least = max(-4, -(1 << element_type.bits - 1)) if element_type.is_signed else 0
    return np.asarray(random.integers(least, most + 1, sizes)).astype(dtype)
