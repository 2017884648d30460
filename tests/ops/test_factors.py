"""An operation on parts along a factor gives parts, or terms, of what the whole one gives."""

from dataclasses import replace

import numpy as np
import pytest
from tests.builder_cases import CASES, build
from tests.spmd.test_operations import OPERATIONS, REDUCERS

from lowtide.builder import Builder, SubComputation
from lowtide.evaluator import evaluate
from lowtide.evaluator.values import value_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Instruction, Module, Opcode, Shape, array_shape, tuple_shape
from lowtide.ir.attributes import Dimensions
from lowtide.ir.clone import clone_module
from lowtide.ir.literal import DTYPES
from lowtide.ops.factors import record
from lowtide.ops.factors.record import FactorKind, arrays_of, factors_of
from lowtide.ops.resizing import attributes_at
from lowtide.ops.table import TABLE

OF_PARTS = (FactorKind.PASSED, FactorKind.SUMMED, FactorKind.CHOSEN, FactorKind.APPLIED)
"""Kinds that need nothing but parts; tests/spmd has the others on devices."""

MORE = {
    "bitcast of a column": "ROOT r = f32[12,8]{0,1} bitcast(x)",
    "bitcast of rows": "ROOT r = f32[4,2,12]{2,1,0} bitcast(x)",
    "merged rows of a bitcast": "ROOT r = f32[24,4] bitcast(x)",
    "scatter of columns": """
      i = s32[1] constant({2})
      u = f32[1,12] slice(y), slice={[0:1], [0:12]}
      ROOT r = f32[8,12] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""",
    "gather by batches": """
      i = s32[8,3] constant({{0,1,2},{3,4,5},{6,7,8},{9,10,11},{0,0,0},{1,2,1},{4,4,5},{11,0,9}})
      ROOT r = f32[8,3] gather(x, i), offset_dims={}, collapsed_slice_dims={1},
        start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0},
        index_vector_dim=2, slice_sizes={1,1}""",
    "pointwise convolution": """
      a = f32[2,4,12] reshape(x)
      b = f32[1,4,24] reshape(y)
      ROOT r = f32[2,24,12] convolution(a, b), window={size=1}, dim_labels=bf0_0io->bf0""",
    "cholesky": """
      a = f32[24,2,2] reshape(x)
      ROOT r = f32[24,2,2] cholesky(a), lower=true""",
    "triangular solve": """
      a = f32[6,4,4] reshape(x)
      b = f32[6,4,4] reshape(y)
      ROOT r = f32[6,4,4] triangular-solve(a, b), left_side=true, lower=true,
        unit_diagonal=false, transpose_a=NO_TRANSPOSE""",
    "windows apart": """
      z = f32[] constant(-inf)
      ROOT r = f32[8,6] reduce-window(x, z), window={size=1x2 stride=1x2}, to_apply=max""",
}


def module_of(body: str) -> Module:
    text = f"x = f32[8,12] parameter(0)\n y = f32[8,12] parameter(1)\n {body}"
    return parse_hlo(f"HloModule m\n{REDUCERS}\nENTRY e {{\n {text}\n}}")


def examples():
    """Every operation of the builder's cases, and of the programs, that has factors."""
    modules = {opcode.value: build(opcode) for opcode in CASES}
    modules |= {f"of {name}": module_of(body) for name, body in (OPERATIONS | MORE).items()}
    for name, module in modules.items():
        for x in module.entry.instructions.values():
            if factors_of(x).sizes:
                yield pytest.param(x, id=f"{name}-{x.name}")


EXAMPLES = list(examples())


def test_every_opcode_with_factors_has_an_example():
    seen = {example.values[0].opcode for example in EXAMPLES}
    named = {opcode for opcode, row in TABLE.items() if row.factors or row.elementwise}
    assert named - seen == {Opcode.CUSTOM_CALL}, "of these one says itself what its batches are"


def values_for(x: Instruction) -> list[np.ndarray]:
    """Whole numbers for all operands; constants have their values."""
    random = np.random.default_rng(7)
    values = []
    for operand in x.operands:
        shape = operand.shape
        if operand.opcode is Opcode.CONSTANT:
            values.append(np.asarray(operand.attributes.literal.array))
        elif shape.element_type.name == "PRED":
            values.append(random.integers(0, 2, shape.dimensions).astype(bool))
        else:
            values.append(
                random.integers(1, 4, shape.dimensions).astype(DTYPES[shape.element_type])
            )
    return values


def run(x: Instruction, values: list[np.ndarray], shape: Shape, attributes) -> list[np.ndarray]:
    """What the operation makes of values, by other attributes."""
    module = clone_module(x.parent.module)
    called = [SubComputation(module.computations[c.name]) for c in x.called_computations]
    module.entry = module.add_computation("alone")
    alone = Builder.inside(module.entry)
    operands = [
        alone.parameter(i, array_shape(y.shape.element_type, value.shape, y.shape.layout))
        for i, (y, value) in enumerate(zip(x.operands, values, strict=True))
    ]
    module.entry.root = alone.emit(x.opcode, operands, attributes, called, shape).instruction
    return [np.asarray(y) for y in value_leaves(evaluate(module, values))]


def places(array, factor: int) -> list[int] | None:
    """The dimensions that begin with a factor; None where it stands behind another one."""
    found = [d for d, own in enumerate(array) if factor in own]
    return None if any(array[d][0] != factor for d in found) else found


def cut(value: np.ndarray, dimensions: list[int], part: int, parts: int) -> np.ndarray:
    for d in dimensions:
        value = np.split(value, parts, d)[part]
    return value


def scaled(shape: Shape, dimensions: list[int], parts: int) -> Shape:
    sizes = [n // parts if d in dimensions else n for d, n in enumerate(shape.dimensions)]
    return array_shape(shape.element_type, tuple(sizes), shape.layout)


def neutral(opcode: Opcode, value: np.ndarray) -> np.ndarray:
    return np.full_like(value, {Opcode.MAXIMUM: -np.inf, Opcode.ADD: 0}[opcode])


COMBINE = {Opcode.ADD: np.add, Opcode.MAXIMUM: np.maximum}


@pytest.mark.parametrize("x", EXAMPLES)
def test_parts(x: Instruction):
    found, values = factors_of(x), values_for(x)
    whole = run(x, values, x.shape, x.attributes)
    leaves = arrays_of(x.shape)
    for factor, (size, kind) in enumerate(zip(found.sizes, found.kinds, strict=True)):
        given = [places(array, factor) for array in found.operands]
        made = [places(array, factor) for array in found.results]
        if kind not in OF_PARTS or None in given or None in made:
            continue
        parts = next(n for n in range(2, size + 1) if size % n == 0)
        shapes = [scaled(s, d, parts) for s, d in zip(leaves, made, strict=True)]
        shape = tuple_shape(shapes) if x.shape.is_tuple else shapes[0]
        results = []
        for part in range(parts):
            taken = [cut(v, d, part, parts) for v, d in zip(values, given, strict=True)]
            if part and kind is FactorKind.SUMMED:
                for once in found.once:
                    taken[once] = neutral(found.reduction, taken[once])
            if part and kind is FactorKind.APPLIED:
                taken[: len(leaves)] = results.pop()
            attributes = attributes_at(x, [v.shape for v in taken], shapes[0].dimensions)
            results.append(run(x, taken, shape, attributes))
        if kind is FactorKind.CHOSEN:
            rows = [np.stack(own) for own in zip(*results, strict=True)]
            rest = values[len(rows) :]
            results = [run(x, [*rows, *rest], x.shape, Dimensions((0,)))]
        for number, (one, dimensions) in enumerate(zip(whole, made, strict=True)):
            own = [result[number] for result in results]
            if kind is FactorKind.PASSED:
                assert dimensions, "what is passed on is in each result"
                for part, value in enumerate(own):
                    assert_close(value, cut(one, dimensions, part, parts))
            elif kind is FactorKind.SUMMED:
                assert not dimensions
                total = own[0]
                for value in own[1:]:
                    total = COMBINE[found.reduction](total, value)
                assert_close(total, one)
            else:
                assert_close(own[-1], one)


def assert_close(got: np.ndarray, wanted: np.ndarray) -> None:
    assert got.shape == wanted.shape
    kind = np.complex128 if np.iscomplexobj(got) else np.float64
    np.testing.assert_allclose(got.astype(kind), wanted.astype(kind), rtol=1e-5, atol=1e-5)


def test_a_wrong_factor_is_found(monkeypatch):
    rows = dict(TABLE)
    rows[Opcode.REVERSE] = replace(TABLE[Opcode.REVERSE], factors="computing.elementwise")
    monkeypatch.setattr(record, "TABLE", rows)
    with pytest.raises(AssertionError):
        test_parts(module_of(OPERATIONS["reverse"]).entry.root)


def test_a_custom_call_says_what_its_batches_are():
    text = """ROOT r = f32[8,3] custom-call(x, y), custom_call_target="f",
      frontend_attributes={num_batch_dims="1"}"""
    found = factors_of(module_of(text).entry.root)
    assert (found.sizes, found.kinds) == ((8,), (FactorKind.PASSED,))
    assert found.arrays == (((0,), ()),) * 3
