"""Bitcasts, which mean something by the layouts of the whole module, in programs of parts."""

import pytest
from tests.spmd.equal_results import check_equal

from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.ir import Opcode, UnsupportedOpError
from lowtide.spmd.partitioner import partition

TILED = "sharding={devices=[2,1,1]<=[2]}"


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("f32[4,4,4]{0,1,2}", "f32[4,4,4]{2,1,0}"),
        ("f32[4,2,3]{2,1,0}", "f32[4,2,3]{2,1,0}"),
        ("f32[4,2,3]{2,0,1}", "f32[4,6]{1,0}"),
        ("f32[4,2,3]{2,0,1}", "f32[3,8]{0,1}"),
        ("f32[4,2,3]{0,2,1}", "s32[2,3,4]{2,1,0}"),
        ("f32[4,2,3]{0,2,1}", "s16[2,3,8]{1,2,0}"),
        ("s16[4,2,3]{0,2,1}", "s32[2,6]{0,1}"),
    ],
)
@pytest.mark.parametrize("is_fused", [False, True])
def test_bitcasts_read_memory_as_the_whole_module_has_it(given, made, is_fused) -> None:
    """Two of them, the second of which reads the layout that the first one makes."""
    fused = f"""fused {{
  p = {given} parameter(0)
  a = {made} bitcast(p)
  b = {given} bitcast(a)
  ROOT c = {made} bitcast(b)
}}
"""
    body = f"  ROOT z = {made} fusion(x), kind=kCustom, calls=fused\n"
    if not is_fused:
        body = f"  a = {made} bitcast(x)\n  b = {given} bitcast(a)\n  ROOT c = {made} bitcast(b)\n"
    module = parse_hlo(
        f"HloModule m, num_partitions=2\n{fused if is_fused else ''}"
        f"ENTRY e {{\n  x = {given} parameter(0), {TILED}\n{body}}}\n"
    )
    parts = check_equal(module)
    opcodes = {x.opcode for x in parts.module.entry.instructions.values()}
    assert Opcode.BITCAST not in opcodes


def test_a_fused_parameter_has_a_layout_of_its_own() -> None:
    module = parse_hlo(
        f"""HloModule m, num_partitions=2
fused {{
  p = f32[4,4,4]{{0,1,2}} parameter(0)
  ROOT a = f32[4,4,4]{{2,1,0}} bitcast(p)
}}
ENTRY e {{
  x = f32[4,4,4]{{2,1,0}} parameter(0), {TILED}
  ROOT z = f32[4,4,4]{{2,1,0}} fusion(x), kind=kCustom, calls=fused
}}
"""
    )
    check_equal(module)


def test_tiled_layouts_are_refused_by_name() -> None:
    text = f"""HloModule m, num_partitions=2
ENTRY e {{
  x = f32[4,8,8]{{2,1,0:T(2,4)}} parameter(0), {TILED}
  ROOT z = f32[4,64]{{1,0}} bitcast(x)
}}
"""
    with pytest.raises(
        UnsupportedOpError, match=r"%z.: a bitcast of tiled layouts is not partitioned"
    ):
        partition(parse_hlo(text))
