"""Random scheduled programs of one device with collectives, and their graphs."""

from random import Random

from lowtide import compiler
from lowtide.compiler import ModulePlan
from lowtide.cost.devices import DEVICES
from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.ir import Module
from lowtide.ir.clone import clone_module
from lowtide.overlap.pairs import make_pairs
from lowtide.overlap.step_graph import StepModel

DEVICE = DEVICES["accelerator"]

HEAD = """HloModule m, is_scheduled=true, num_partitions=2
sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = f32[] add(p, q)
}
ENTRY e {
  x0 = f32[64,64] parameter(0)
  x1 = f32[64,64] parameter(1)
"""
ALL = "replica_groups={{0,1}}, use_global_device_ids=true"


def random_text(seed: int, count: int) -> str:
    """Return a program of so many operations, a third of them collectives."""
    random = Random(seed)
    lines = []
    for number in range(2, 2 + count):
        x, y = (f"x{random.randrange(max(0, number - 4), number)}" for _ in range(2))
        kind = random.randrange(6)
        if kind == 0:
            rest = f"all-reduce({x}), channel_id={number}, {ALL}, to_apply=sum"
        elif kind == 1:
            rest = f"collective-permute({x}), channel_id={number}, "
            rest += "source_target_pairs={{0,1},{1,0}}"
        elif kind == 2:
            rest = f"dot({x}, {y}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        elif kind == 3:
            rest = f"tanh({x})"
        else:
            rest = f"{random.choice(['add', 'subtract'])}({x}, {y})"
        lines.append(f"  x{number} = f32[64,64] {rest}")
    used = " ".join(lines)
    loose = [f"x{k}" for k in range(2 + count) if f"x{k})" not in used and f"x{k}," not in used]
    shapes = ", ".join(["f32[64,64]"] * len(loose))
    lines.append(f"  ROOT t = ({shapes}) tuple({', '.join(loose)})")
    return HEAD + "\n".join(lines) + "\n}\n"


def random_module(seed: int, count: int = 12) -> Module:
    """Return such a program."""
    return parse_hlo(random_text(seed, count))


def split(module: Module) -> ModulePlan:
    """Return the plan of a copy of a module whose collectives are in two halves."""
    planned = compiler.plan(module)
    copy = clone_module(planned.module)
    make_pairs(copy)
    return compiler.plan(copy)


def model_of(module: Module) -> StepModel:
    """Return the step graphs of a module whose collectives are put in two halves."""
    return StepModel(split(module).module, DEVICE)
