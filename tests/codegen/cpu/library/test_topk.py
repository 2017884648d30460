"""Top-k natively and by the evaluator."""

import numpy as np
import pytest
from tests.codegen.cpu.library.running import TARGETS, check

from lowtide.codegen.cpu.library.topk import TopKScan
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.literal import DTYPES

CASES = [
    # shape, k, and whether most elements are only looked at
    ((1,), 1, False),
    ((3, 40), 40, False),
    ((2, 3, 100), 8, True),
    ((3, 2000), 5, True),
    ((1, 5001), 700, True),
    ((0, 9), 2, False),
]


def text_of(type_: str, shape, k: int, largest: bool) -> str:
    sizes, results = (",".join(map(str, x)) for x in (shape, (*shape[:-1], k)))
    return f"""
HloModule m

ENTRY main {{
  x = {type_}[{sizes}] parameter(0)
  ROOT t = ({type_}[{results}], s32[{results}]) topk(x), k={k}, largest={str(largest).lower()}
}}
"""


def rows(kind: str, shape, dtype):
    """Numbers in an order that is easy or hard to scan."""
    random = np.random.default_rng(3)
    values = random.integers(0, 100, shape)
    if kind == "ascending":
        return np.sort(values, axis=-1).astype(dtype)
    if kind == "descending":
        return np.sort(values, axis=-1)[..., ::-1].astype(dtype)
    if kind == "special":
        strange = random.choice([0.0, -0.0, np.nan, np.inf, -np.inf], shape)
        return np.where(values < 30, strange, values).astype(dtype)
    return values.astype(dtype)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_floats(case, target):
    shape, k, scans = case
    for largest in (True, False):
        text = text_of("f32", shape, k, largest)
        assert TopKScan(parse_hlo(text).entry.root).scans == scans
        for kind in ("random", "ascending", "descending", "special"):
            check(text, [rows(kind, shape, np.float32)], target)


@pytest.mark.parametrize("k", [3, 100])
def test_calls_that_xla_left_in_a_schedule(k):
    text = f"""HloModule m, is_scheduled=true

greater {{
  a = f32[] parameter(0) b = f32[] parameter(1)
  i = s32[] parameter(2) j = s32[] parameter(3)
  ROOT c = pred[] compare(a, b), direction=GT }}

ENTRY main {{
  x = f32[2,100] parameter(0)
  ROOT t = (f32[2,{k}], s32[2,{k}]) custom-call(x), custom_call_target="TopK",
    called_computations={{greater}}
}}
"""
    for kind in ("random", "special"):
        check(text, [rows(kind, (2, 100), np.float32)])


@pytest.mark.parametrize("type_", ["f64", "s32", "u8", "f16", "bf16", "s64"])
def test_types(type_):
    shape = (2, 300)
    text = text_of(type_, shape, 7, True)
    dtype = DTYPES[parse_hlo(text).entry.parameters[0].shape.element_type]
    for kind in ("random", "ascending"):
        check(text, [rows(kind, shape, dtype)])
