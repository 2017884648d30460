"""Layouts of other machines: tiles and packed elements run as ordinary arrays."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from tests.native.comparing import compiled, flat, reference

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import ElementType
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.literal import DTYPES
from lowtide.transforms.layout.plain_memory import to_plain_memory

HOST = """HloModule m, is_scheduled=true
ENTRY e {
  p = f32[6,5]{0,1:T(8,128)S(5)} parameter(0)
  s = (f32[6,5]{0,1:T(8,128)}, f32[6,5]{0,1:T(8,128)S(5)}, u32[]) copy-start(p)
  d = f32[6,5]{0,1:T(8,128)} copy-done(s)
  n = f32[6,5]{0,1} negate(d)
  ROOT r = f32[6,5]{0,1:S(5)} copy(n)
}
"""

PACKED = """HloModule m
ENTRY e {
  p = s4[7,3]{1,0:E(4)} parameter(0)
  q = s4[7,3]{1,0:E(4)} add(p, p)
  s = s32[7,3] convert(q)
  ROOT t = (s4[7,3]{1,0:E(4)}, s32[7,3]) tuple(q, s)
}
"""

TILED_BITCAST = """HloModule m
ENTRY e {
  p = f32[16,128]{1,0:T(8,128)} parameter(0)
  ROOT r = f32[2048]{0:T(1024)} bitcast(p)
}
"""


def test_host_memory_and_tiles() -> None:
    p = np.arange(30, dtype=np.float32).reshape(6, 5)
    (got,) = flat(compiled(HOST)(p))
    np.testing.assert_array_equal(got, -p)


def test_packed_integers() -> None:
    p = np.arange(-8, 13).reshape(7, 3).astype(np.int8)
    p = np.where(p > 7, p - 16, p).astype(DTYPES[ElementType.S4])
    got, expected = flat(compiled(PACKED)(p)), flat(reference(PACKED, [p]))
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a.astype(np.int32), b.astype(np.int32))


def test_bytes_of_tiles_are_not_read_in_another_form() -> None:
    with pytest.raises(UnsupportedOpError, match=r"bitcast.*tiles or packed elements"):
        compiled(TILED_BITCAST)


ORDERS = ("{1,0}", "{0,1}")


@pytest.mark.parametrize("orders", list(product(ORDERS, ORDERS, ORDERS)), ids="".join)
def test_a_scheduled_ragged_exchange_in_any_layout(orders: tuple[str, str, str]) -> None:
    given, into, result = orders
    text = f"""HloModule m, is_scheduled=true
ENTRY e {{
  p = f32[4,3]{given} parameter(0)
  o = f32[5,3]{into} parameter(1)
  i = s32[1] constant({{1}})
  n = s32[1] constant({{2}})
  j = s32[1] constant({{3}})
  k = s32[1] constant({{2}})
  ROOT r = f32[5,3]{result} ragged-all-to-all(p, o, i, n, j, k), replica_groups={{{{0}}}}
}}
"""
    p = np.arange(12, dtype=np.float32).reshape(4, 3)
    o = -np.arange(15, dtype=np.float32).reshape(5, 3)
    (found,) = flat(compiled(text)(p, o))
    np.testing.assert_array_equal(found, np.concatenate([o[:3], p[1:3]]))


def test_nothing_changes_where_layouts_are_plain() -> None:
    module = parse_hlo(HOST)
    assert to_plain_memory(module) == 3
    before = str(module)
    assert to_plain_memory(module) == 0
    assert str(module) == before
    assert "{0,1:S(5)}" in before and "T(" not in before
