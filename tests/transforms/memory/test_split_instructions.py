"""Sections run in parts: the same values for whatever is split, and no large value as a whole."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.random_modules import FAMILIES, Recipe, random_module

from lowtide.checking.tolerances import assert_values_close
from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.clone import clone_module
from lowtide.ir.traversal import post_order
from lowtide.passes import PassError
from lowtide.passes.registry import parse_passes
from lowtide.testing.check_pass import assert_same_values, seeded_arguments
from lowtide.transforms.memory.split.alignments import sizes_of
from lowtide.transforms.memory.split.instructions import split_large_instructions
from lowtide.transforms.memory.split.loops import run_in_parts
from lowtide.transforms.memory.split.sections import Section, grown
from lowtide.verifier import verify

ARRAYS = Recipe(
    families=tuple([x for x in FAMILIES if x not in ("calls", "fusion", "transcendental")]),
    empty_arrays=False,
    aliases=False,
    control_dependencies=True,
)


def split_at(
    module: Module, name: str, dimension: int, parts: int
) -> tuple[Module, Section] | None:
    """Return a copy of a module in which the section around a value is run in parts."""
    changed = clone_module(module)
    seed = changed.entry.instructions[name]
    section = grown(post_order(changed.entry), seed, dimension, parts)
    if section is None:
        return None
    run_in_parts(section, parts)
    verify(changed)
    return changed, section


def check_all_splits(module: Module, seen: Counter[tuple[Opcode, bool]]) -> None:
    """Split a module around each of its values, and compare results."""
    arguments = seeded_arguments(module, 0)
    expected = None
    for x in list(module.entry.instructions.values()):
        for dimension, size in enumerate(sizes_of(x.shape) or ()):
            found = split_at(module, x.name, dimension, 2) if size in (2, 4) else None
            if found is None:
                continue
            if expected is None:
                expected = evaluate(module, arguments)
            changed, section = found
            assert_values_close(evaluate(changed, arguments), expected, module.entry.root.shape)
            seen.update([(y.opcode, how.folds) for y, how in section.how.items()])


def test_random_modules_have_the_same_values_wherever_they_are_split() -> None:
    seen: Counter[tuple[Opcode, bool]] = Counter()
    for seed in range(120):
        check_all_splits(random_module(seed, ARRAYS), seen)
    assert {opcode for opcode, _ in seen} >= COMMON
    assert {opcode for opcode, folds in seen if folds} >= {Opcode.DOT, Opcode.REDUCE}


COMMON = {
    *(Opcode.BROADCAST, Opcode.CONVERT, Opcode.CONVOLUTION, Opcode.DOT, Opcode.DYNAMIC_SLICE),
    *(Opcode.DYNAMIC_UPDATE_SLICE, Opcode.GATHER, Opcode.GET_TUPLE_ELEMENT, Opcode.IOTA),
    *(Opcode.REDUCE, Opcode.RESHAPE, Opcode.SCATTER, Opcode.SELECT, Opcode.SORT),
}
RARE = {
    *(Opcode.BITCAST_CONVERT, Opcode.CONCATENATE, Opcode.OPTIMIZATION_BARRIER, Opcode.PAD),
    *(Opcode.REDUCE_WINDOW, Opcode.REVERSE, Opcode.SELECT_AND_SCATTER, Opcode.SLICE),
    *(Opcode.CLAMP, Opcode.TRANSPOSE, Opcode.ADD, Opcode.COMPARE),
}


@pytest.mark.slow
def test_every_operation_is_split_somewhere_in_many_random_modules() -> None:
    seen: Counter[tuple[Opcode, bool]] = Counter()
    for seed in range(1000, 4000):
        check_all_splits(random_module(seed, ARRAYS), seen)
    assert {opcode for opcode, _ in seen} >= COMMON | RARE
    folding = {opcode for opcode, folds in seen if folds}
    assert folding == {Opcode.CONVOLUTION, Opcode.DOT, Opcode.REDUCE, Opcode.SCATTER}


def dot_text(lhs: str, rhs: str, left: int, right: int) -> str:
    return f"dot({lhs}, {rhs}), lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}"


TRAINING = f"""
HloModule m

add {{
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT z = f32[] add(p, q)
}}

ENTRY main {{
  x = f32[64,16] parameter(0)
  w = f32[16,128] parameter(1)
  v = f32[128,16] parameter(2)
  zero = f32[] constant(0)
  h = f32[64,128] {dot_text("x", "w", 1, 0)}
  zeros = f32[64,128] broadcast(zero), dimensions={{}}
  a = f32[64,128] maximum(h, zeros)
  y = f32[64,16] {dot_text("a", "v", 1, 0)}
  squares = f32[64,16] multiply(y, y)
  loss = f32[] reduce(squares, zero), dimensions={{0,1}}, to_apply=add
  dy = f32[64,16] add(y, y)
  dv = f32[128,16] {dot_text("a", "dy", 0, 0)}
  da = f32[64,128] {dot_text("dy", "v", 1, 1)}
  mask = pred[64,128] compare(h, zeros), direction=GT
  dh = f32[64,128] select(mask, da, zeros)
  dw = f32[16,128] {dot_text("x", "dh", 0, 0)}
  ROOT r = (f32[], f32[16,128], f32[128,16]) tuple(loss, dw, dv)
}}
"""
"""A layer and its gradients: all that is computed of a batch goes through without meeting it."""


def test_a_training_step_is_run_for_one_part_of_the_batch_after_the_other() -> None:
    module = parse_hlo(TRAINING)
    changed = clone_module(module)
    assert split_large_instructions(changed, parts=8) == 1
    verify(changed)
    whole = {f"f32[{n},{m}]" for n, m in ((64, 128), (64, 16))}
    made = [x for c in changed.computations.values() for x in c.instructions.values()]
    large = [x for x in made if str(x.shape.without_layout()) in whole]
    assert not [x.name for x in large if x.opcode is not Opcode.BROADCAST and not is_input(x)]
    assert_same_values(module, changed)


def is_input(x: Instruction) -> bool:
    return x.opcode in (Opcode.PARAMETER, Opcode.GET_TUPLE_ELEMENT)


NARROW_SUM = """
HloModule m

ENTRY main {
  x = bf16[64,4] parameter(0)
  y = bf16[64,256] parameter(1)
  e = bf16[64,256] negate(y)
  ROOT d = bf16[4,256] dot(x, e), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}
"""


def test_sums_of_narrow_numbers_are_kept_wide_between_the_parts() -> None:
    found = split_at(parse_hlo(NARROW_SUM), "e", 0, 4)
    assert found is not None
    changed, section = found
    assert [x.opcode for x in section.folds] == [Opcode.DOT]
    (loop,) = [x for x in changed.entry.instructions.values() if x.opcode is Opcode.WHILE]
    assert "f32[4,256]" in str(loop.shape)


@pytest.mark.parametrize("parts", [-1, 0, 1])
def test_less_than_two_parts_are_an_error(parts: int) -> None:
    (step,) = parse_passes(f"split-large-instructions{{parts={parts}}}")
    with pytest.raises(PassError, match=f"parts is 2 or more, found {parts}"):
        step.run(parse_hlo(NARROW_SUM))


BARRIERS = """
HloModule m

ENTRY main {
  x = f32[512,32] parameter(0)
  w = f32[32,32] parameter(1)
  e = f32[512,32] negate(x)
  both = (f32[512,32], f32[32,32]) tuple(e, w)
  kept = (f32[512,32], f32[32,32]) opt-barrier(both)
  k = f32[512,32] get-tuple-element(kept), index=0
  l = f32[32,32] get-tuple-element(kept), index=1
  d = f32[512,32] dot(k, l), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  f = f32[512,32] dot(d, l), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT g = f32[32,32] dot(d, f), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}
"""


def test_a_dimension_leads_through_the_barriers_of_checkpoints() -> None:
    module = parse_hlo(BARRIERS)
    changed = clone_module(module)
    assert split_large_instructions(changed, parts=4, rounds=1) == 1
    body = changed.computations["part"].instructions.values()
    assert Opcode.OPTIMIZATION_BARRIER in {x.opcode for x in body}
    assert_same_values(module, changed)
