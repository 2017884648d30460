"""Checks of one rewrite rule: the body of a computation before and after it."""

from __future__ import annotations

import numpy as np

from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.clone import clone_module
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.module import Module
from lowtide.ir.printer import fingerprint
from lowtide.ir.shape import Shape
from lowtide.passes.dead_code import remove_dead_code
from lowtide.passes.rewriting import DEAD, Rule, rewrite
from lowtide.testing.check_pass import assert_same_values, seeded_arguments
from lowtide.verifier import verify


def check_rule(rule: Rule, before: str, after: str | None, outside: str = "") -> None:
    """Assert that a rule makes `after` of `before`, which are the lines of an ENTRY computation.

    None for `after` says that the rule does not fit. `outside` has further computations. Values
    before and after have to agree: to the last bit where the rule is exact, also for infinities,
    NaN (whatever its payload), zeros of both signs and the least numbers.
    """
    module = module_of(before, outside)
    original = clone_module(module)
    fired = rewrite(module, [rule])
    verify(module)
    if after is None:
        assert not set(fired) - {DEAD}, f"{rule.name} fired:\n{module}"
        return
    assert fired[rule.name], f"{rule.name} did not fire:\n{module}"
    expected = module_of(after, outside)
    remove_dead_code(expected)
    remove_dead_code(module)
    assert fingerprint(module) == fingerprint(expected), f"got\n{module}\nexpected\n{expected}"
    if not rule.exact:
        assert_same_values(original, module)
        return
    for seed in range(3):
        arguments = special_arguments(original, seed)
        for old, new in zip(
            leaves(evaluate(original, arguments)), leaves(evaluate(module, arguments)), strict=True
        ):
            assert bits(old) == bits(new), f"{rule.name} is not exact: {old} became {new}"


def module_of(body: str, outside: str = "") -> Module:
    """Return the module whose entry computation has these lines; the last one is its root."""
    lines = [line.strip() for line in body.strip().split("\n") if line.strip()]
    if not any(line.startswith("ROOT") for line in lines):
        lines[-1] = f"ROOT {lines[-1]}"
    text = "\n".join(["HloModule m", "", outside, "", "ENTRY main {", *lines, "}"])
    module = parse_hlo(text)
    verify(module)
    return module


def special_arguments(module: Module, seed: int) -> list[Array]:
    """Return an argument for each leaf of the parameters, with the numbers that break rules."""
    random = np.random.default_rng(seed)
    plain = seeded_arguments(module, seed)
    shapes = [leaf for p in module.entry.parameters for _, leaf in p.shape.leaves()]
    arrays = [shape for shape in shapes if shape.is_array]
    return [_special(x, shape, random) for x, shape in zip(plain, arrays, strict=True)]


def _special(plain: Array, shape: Shape, random: np.random.Generator) -> Array:
    element_type = shape.element_type
    if not (element_type.is_floating or element_type.is_complex) or not plain.size:
        return plain
    dtype = DTYPES[element_type]
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45]).astype(dtype)
    chosen = odd[random.integers(0, len(odd), plain.shape)]
    return np.where(random.random(plain.shape) < 0.5, chosen, plain).astype(dtype)


def leaves(value: object) -> list[Array]:
    """Return the arrays in a value, those of tuples in order."""
    if isinstance(value, tuple | list):
        return [leaf for element in value for leaf in leaves(element)]
    assert isinstance(value, np.ndarray | np.generic)
    return [np.asarray(value)]


def bits(array: Array) -> bytes:
    """Return the bytes of an array, every NaN spelled alike."""
    if array.dtype.kind in "biu":
        return array.tobytes()
    unlike: Array = np.not_equal(array, array)
    numbers: Array = np.where(unlike, np.zeros((), array.dtype), array)
    return numbers.tobytes() + unlike.tobytes()
