"""Plans for targets that can make less than a processor, or align their buffers otherwise."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import pytest

from lowtide.checking import check_plan
from lowtide.compiler import DEFAULT_PLAN, ModulePlan, plan
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion.cluster import KernelKind
from lowtide.fusion.priority_fusion import fuse_by_priority
from lowtide.fusion.target_record import CPU_TARGET, TargetRecord
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.buffer import AllocationKind
from lowtide.testing.check_pass import assert_same_values

TEXT = """
HloModule m

plus { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }

ENTRY main {
  x = f32[48,40] parameter(0)
  y = f32[40,24] parameter(1)
  w = f32[1,24] parameter(2)
  zero = f32[] constant(0)
  e = f32[48,40] exponential(x)
  n = f32[48,40] negate(e)
  t = f32[48,40] tanh(n)
  sum = f32[48] reduce(t, zero), dimensions={1}, to_apply=plus
  wide = f32[48,40] broadcast(sum), dimensions={0}
  less = f32[48,40] subtract(t, wide)
  d = f32[48,24] dot(less, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[48,24] cosine(d)
  u = f32[1,24] tanh(w)
  i = s32[] constant(5)
  z = s32[] constant(0)
  ROOT r = f32[48,24] dynamic-update-slice(c, u, i, z)
}
"""

HEROES = {
    Opcode.REDUCE: KernelKind.REDUCTION,
    Opcode.DOT: KernelKind.CONTRACTION,
    Opcode.DYNAMIC_UPDATE_SLICE: KernelKind.UPDATE,
}


def planned(target: TargetRecord) -> ModulePlan:
    module = parse_hlo(TEXT)
    found = plan(module, replace(DEFAULT_PLAN, target=target))
    assert not check_plan(found.module, found.assignment)
    assert_same_values(module, found.module)
    return found


_NO_MEMBERS = (Opcode.PARAMETER, Opcode.TUPLE)


def bodies(module: Module) -> list[list[Instruction]]:
    entry = module.entry.instructions.values()
    fusions = [x for x in entry if x.opcode is Opcode.FUSION]
    inner = [x.called_computations[0].instructions.values() for x in fusions]
    return [[y for y in body if y.opcode not in _NO_MEMBERS] for body in inner]


@pytest.mark.parametrize("kind", list(HEROES.values()))
def test_nothing_is_fused_into_kernels_that_a_target_lacks(kind: KernelKind) -> None:
    kinds = CPU_TARGET.kinds - {kind, KernelKind.ROWS}
    found = bodies(planned(replace(CPU_TARGET, kinds=kinds)).module)
    fused = {HEROES.get(x.opcode, KernelKind.LOOP) for body in found for x in body}
    assert kind not in fused and fused >= {KernelKind.LOOP}
    whole = bodies(planned(CPU_TARGET).module)
    assert kind in {HEROES.get(x.opcode, KernelKind.LOOP) for body in whole for x in body}


@pytest.mark.parametrize("most", [1, 2, 3])
def test_kernels_have_no_more_members_than_a_target_can_hold(most: int) -> None:
    found = bodies(planned(replace(CPU_TARGET, most_members=most)).module)
    assert max([len(x) for x in found], default=1) <= most
    assert bool(found) == (most > 1)
    assert max([len(x) for x in bodies(planned(CPU_TARGET).module)]) > 3


@pytest.mark.parametrize("launch", [0.0, 1.0])
def test_what_is_fused_depends_on_what_a_launch_takes(launch: float) -> None:
    # Each reader of a shared value would compute it once more: worth it where launches are dear.
    reads = "\n".join([f"  r{i} = f32[64] add(c, p{i})" for i in range(6)])
    given = "\n".join([f"  p{i} = f32[64] parameter({i + 1})" for i in range(6)])
    results = ", ".join([f"r{i}" for i in range(6)])
    text = (
        f"HloModule m\nENTRY e {{\n  x = f32[64] parameter(0)\n{given}\n"
        f"  c = f32[64] power(x, x)\n{reads}\n  ROOT t = ({', '.join(['f32[64]'] * 6)}) "
        f"tuple({results})\n}}"
    )
    machine = replace(CPU_TARGET.machine, launch_seconds=launch, transcendental_seconds=1e-6)
    target = replace(CPU_TARGET, machine=machine)
    found = parse_hlo(text)
    fuse_by_priority(found, target=target)
    powers = sum([x.opcode is Opcode.POWER for body in bodies(found) for x in body])
    assert (powers > 1) == (launch > 0)


@pytest.mark.parametrize("alignment", [1, 16, 256])
def test_offsets_are_aligned_as_a_target_asks(alignment: int) -> None:
    made = planned(replace(CPU_TARGET, alignment=alignment))
    arenas = [x.index for x in made.assignment.allocations if x.kind is AllocationKind.ARENA]
    places = [x.place for x in made.assignment.values if x.place.allocation in arenas]
    assert len(places) > 3
    assert not any(x.offset % gcd(x.nbytes, alignment) for x in places)
