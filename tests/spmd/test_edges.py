"""What shows only at the edges: indices beyond ends, numbers that round, sums that are not linear.

Arrays are so large that it costs least to leave them where they are.
"""

import numpy as np
import pytest
from tests.spmd.equal_results import ADD_AND_MAX, partitioned_text

from lowtide.ir import ElementType
from lowtide.ir.literal import DTYPES

ROWS, COLUMNS = "{devices=[4,1]<=[4]}", "{devices=[1,4]<=[4]}"
BOTH, TURNED = "{devices=[2,2]<=[4]}", "{devices=[2,2]<=[2,2]T(1,0)}"
WHOLE = "{replicated}"
SHARDINGS = (ROWS, COLUMNS, BOTH, TURNED)
COUNT, WIDTH = 256, 64
X = np.random.default_rng(0).integers(1, 9, (COUNT, WIDTH)).astype(np.float32)


def places(kind, size):
    """Indices far before, at and far behind the ends of a dimension."""
    ends = np.iinfo(kind)
    found = [0, 1, size // 4, size // 2 - 1, size - 1, size, size + 3, -1, -size // 4, ends.max]
    return np.array([x for x in (*found, ends.min) if ends.min <= x <= ends.max], kind)


def checked(parameters, body, arguments):
    """Partition a module of parameters, pairs of a type and a sharding, and compare."""
    lines = [
        f"  p{i} = {kind} parameter({i}), sharding={sharding}"
        for i, (kind, sharding) in enumerate(parameters)
    ]
    head = "HloModule m, num_partitions=4, allow_spmd_sharding_propagation_to_output={true}\n"
    text = head + ADD_AND_MAX + "ENTRY e {\n" + "\n".join(lines) + f"\n{body}\n}}\n"
    return partitioned_text(text, arguments)


@pytest.mark.parametrize("kind", ["s8", "s32", "s64", "u8", "u32", "u64"])
@pytest.mark.parametrize("x", SHARDINGS)
def test_indices_beyond_both_ends(x, kind):
    """A gather and slices stop at the ends, a scatter leaves out what is behind them."""
    found = places(DTYPES[ElementType(kind)], COUNT)
    n = len(found)
    given = [(f"f32[{COUNT},{WIDTH}]", x), (f"{kind}[{n}]", WHOLE)]
    checked(
        given,
        f"""ROOT r = f32[{n},{WIDTH}] gather(p0, p1), offset_dims={{1}}, collapsed_slice_dims={{0}},
        start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{WIDTH}}}""",
        [X, found],
    )
    updates = np.arange(n * WIDTH, dtype=np.float32).reshape(n, WIDTH)
    checked(
        [*given, (f"f32[{n},{WIDTH}]", WHOLE)],
        f"""ROOT r = f32[{COUNT},{WIDTH}] scatter(p0, p1, p2), update_window_dims={{1}},
        inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1,
        to_apply=add""",
        [X, found, updates],
    )
    for place in found.tolist():
        start = np.array(place, found.dtype)
        checked(
            [given[0], (f"{kind}[]", WHOLE)],
            "ROOT r = f32[5,3] dynamic-slice(p0, p1, p1), dynamic_slice_sizes={5,3}",
            [X, start],
        )
        checked(
            [given[0], (f"{kind}[]", WHOLE), ("f32[5,3]", WHOLE)],
            f"ROOT r = f32[{COUNT},{WIDTH}] dynamic-update-slice(p0, p2, p1, p1)",
            [X, start, updates.ravel()[:15].reshape(5, 3)],
        )


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16", "f8e5m2", "s8", "u16", "f64"])
def test_counted_numbers_are_rounded_once(kind):
    checked(
        [("f32[4096]", "{devices=[4]<=[4]}")],
        f"""i = {kind}[4096] iota(), iota_dimension=0
        f = f32[4096] convert(i)
        ROOT r = f32[4096] add(p0, f)""",
        [np.zeros(4096, np.float32)],
    )


SUMS = f"""z = f32[] constant(0)
  a = f32[{COUNT}] reduce(p0, z), dimensions={{1}}, to_apply=add
  b = f32[{COUNT}] reduce(p1, z), dimensions={{1}}, to_apply=add
  h = f32[{COUNT}] negate(p2)"""
"""Two sums whose terms lie on several devices, and an array that is whole."""

BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder", "atan2")
UNARY = ("negate", "abs", "tanh", "exponential", "cosine", "floor", "sign", "logistic")


@pytest.mark.parametrize("reducer", ["add", "max"])
@pytest.mark.parametrize("opcode", BINARY)
def test_of_sums_only_what_is_linear_comes_before_they_are_added(opcode, reducer):
    last = f"ROOT t = f32[{COUNT}] add(r, h)"
    for pair in ("a, b", "a, h", "h, b", "a, a"):
        body = f"{SUMS}\n  r = f32[{COUNT}] {opcode}({pair})\n  {last}"
        checked(SUM_PARAMETERS, body.replace("to_apply=add", f"to_apply={reducer}"), SUM_ARGUMENTS)


@pytest.mark.parametrize("opcode", UNARY)
def test_functions_of_sums(opcode):
    body = f"{SUMS}\n  r = f32[{COUNT}] {opcode}(a)\n  ROOT t = f32[{COUNT}] add(r, b)"
    checked(SUM_PARAMETERS, body, SUM_ARGUMENTS)


@pytest.mark.parametrize("kind", ["bf16", "f16", "s32", "s8", "f64", "pred"])
def test_sums_in_another_type(kind):
    """Terms are added before a conversion that rounds."""
    body = f"""{SUMS}
  s = {kind}[{COUNT}] convert(a)
  ROOT r = f32[{COUNT}] convert(s)"""
    checked(SUM_PARAMETERS, body, SUM_ARGUMENTS)


TERMS = np.random.default_rng(1).integers(-900, 900, (2, COUNT, WIDTH)).astype(np.float32)
TERMS[:, :, 0] += 0.5
SUM_PARAMETERS = [(f"f32[{COUNT},{WIDTH}]", COLUMNS)] * 2 + [(f"f32[{COUNT}]", WHOLE)]
SUM_ARGUMENTS = [*TERMS, X[:, 0]]


@pytest.mark.parametrize("reducer", ["add", "max"])
@pytest.mark.parametrize("x", [WHOLE, ROWS, COLUMNS])
def test_what_a_scatter_begins_with_counts_once(x, reducer):
    """Updates lie on several devices; one of them alone combines its own with the operand."""
    rng = np.random.default_rng(2)
    n = 4096
    where = rng.integers(-1, 9, n).astype(np.int32)
    checked(
        [("f32[8,4]", x), (f"s32[{n}]", "{devices=[4]<=[4]}"), (f"f32[{n},4]", ROWS)],
        f"""ROOT r = f32[8,4] scatter(p0, p1, p2), update_window_dims={{1}},
        inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1,
        to_apply={reducer}""",
        [rng.integers(1, 9, (8, 4)).astype("f4"), where, rng.integers(1, 9, (n, 4)).astype("f4")],
    )


@pytest.mark.parametrize("result", SHARDINGS)
@pytest.mark.parametrize("given", SHARDINGS)
def test_a_result_lies_over_an_argument_where_their_tiles_are_alike(given, result):
    text = f"""HloModule m, num_partitions=4, input_output_alias={{ {{}}: (0, {{}}, may-alias) }}
ENTRY e {{
  x = f32[8,12] parameter(0), sharding={given}
  ROOT n = f32[8,12] negate(x), sharding={result}
}}
"""
    made = partitioned_text(text).module
    assert made.entry_layout is not None
    alike = made.entry_layout.parameters[0] is made.entry_layout.result
    assert len(made.input_output_aliases) == alike
    assert len(made.buffer_donors) == (not alike)
