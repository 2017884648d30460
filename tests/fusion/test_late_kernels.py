"""Kernels that run once more behind the peak, next to their late readers."""

import pytest
from tests.fusion.test_peak_lowering import LESS

from lowtide import compiler
from lowtide.compiler.proposals import needs
from lowtide.cost.module_times import run_seconds
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion.late_kernels import run_kernels_late
from lowtide.fusion.priority_fusion import fuse_by_priority
from lowtide.fusion.target_record import CPU_TARGET
from lowtide.ir import Module
from lowtide.ir.clone import clone_module
from lowtide.scheduling.module_scheduler import best_of
from lowtide.testing.check_pass import assert_same_values
from lowtide.transforms.common_subexpressions import merge_common_subexpressions
from lowtide.verifier import verify


def filters_training(layers: int, places: int = 32, features: int = 64) -> Module:
    """Convolutions and activations, and backward the gradients by the filters.

    Such a gradient takes the batch, which is small, as the features of an image.
    """
    image = f"f32[4,{places},{places},{features}]"
    kernel = f"f32[3,3,{features},{features}]"
    window = "window={size=3x3 pad=1_1x1_1}"
    lines = [f"h0 = {image} parameter(0)", f"k = {kernel} parameter(1)"]
    for i in range(layers):
        lines += [
            f"x{i} = {image} convolution(h{i}, k), {window}, dim_labels=b01f_01io->b01f",
            f"t{i} = {image} tanh(x{i})",
            f"h{i + 1} = {image} multiply(t{i}, x{i})",
        ]
    lines.append(f"g{layers} = {image} sort(h{layers}), dimensions={{3}}, to_apply=less")
    taps = f"window={{size={places}x{places} pad=1_1x1_1}}, dim_labels=f01b_i01o->01bf"
    for i in reversed(range(layers)):
        lines += [
            f"d{i} = {image} multiply(g{i + 1}, x{i})",
            f"filter{i} = {kernel} convolution(h{i}, d{i}), {taps}",
            f"g{i} = {image} convolution(d{i}, k), {window}, dim_labels=b01f_01oi->b01f",
        ]
    made = [f"g0={image}", *[f"filter{i}={kernel}" for i in range(layers)]]
    shapes, names = [", ".join([x.split("=")[k] for x in made]) for k in (1, 0)]
    body = "\n  ".join([*lines, f"ROOT out = ({shapes}) tuple({names})"])
    return parse_hlo(f"HloModule filters\n\n{LESS}\nENTRY main {{\n  {body}\n}}\n")


def planned(module: Module, priority: float) -> compiler.ModulePlan:
    return compiler.plan(module, compiler.PlanOptions(memory_priority=priority))


def test_what_is_dear_inside_of_its_reader_is_computed_again_by_itself() -> None:
    """Each layer keeps x beside its activation h; behind the peak h is made of x anew."""
    module = filters_training(6)
    machine = CPU_TARGET.machine
    without, found = planned(module, 0.0), planned(module, 0.03)
    saved = without.report.ladder.arena_bytes - found.report.ladder.arena_bytes
    assert saved >= 2 * 4 * 32 * 32 * 64 * 4
    seconds = [run_seconds(x.module.entry, machine) for x in (without, found)]
    assert seconds[1] <= 1.03 * seconds[0]
    verify(found.module)


@pytest.mark.parametrize("time_share", [0.01, 0.1, 1.0])
def test_kernels_run_again_only_for_less_and_within_their_time(time_share) -> None:
    module = filters_training(4, places=16, features=32)
    fuse_by_priority(module, best_of)
    copy = clone_module(module)
    count = run_kernels_late(copy, best_of, time_share)
    verify(copy)
    assert_same_values(module, copy, seeds=1)
    before, after = [needs(x, CPU_TARGET.machine) for x in (module, copy)]
    assert after[1] <= before[1] * (1 + time_share)
    assert after[0] < before[0] if count else str(copy) == str(module)
    assert count or time_share < 1


def test_what_runs_again_is_not_merged_with_the_first_run() -> None:
    module = filters_training(4, places=16, features=32)
    fuse_by_priority(module, best_of)
    assert run_kernels_late(module, best_of, 1.0)
    count = module.instruction_count
    merge_common_subexpressions(module)
    assert module.instruction_count == count


def test_nothing_runs_again_without_time() -> None:
    module = filters_training(6)
    fuse_by_priority(module, best_of)
    text = str(module)
    assert run_kernels_late(module, best_of, 0.0) == 0 and str(module) == text


@pytest.mark.parametrize("opcode", ["copy", "rng"])
def test_only_loops_over_a_result_run_again(opcode) -> None:
    made = {"copy": "copy(x)", "rng": "rng(zero, one), distribution=rng_uniform"}[opcode]
    module = parse_hlo(f"""
HloModule m

{LESS}
ENTRY main {{
  x = f32[512,512] parameter(0)
  zero = f32[] constant(0)
  one = f32[] constant(1)
  e = f32[512,512] {made}
  y = f32[512,512] sort(e), dimensions={{1}}, to_apply=less
  z = f32[512,512] sort(y), dimensions={{0}}, to_apply=less
  ROOT product = f32[512,512] multiply(z, e)
}}
""")
    assert run_kernels_late(module, time_share=1.0) == 0


@pytest.mark.parametrize("time_share", [0.03, 1.0])
def test_values_made_of_one_another_run_again_once_each(time_share) -> None:
    array, count = "f32[512,512]", 6
    lines = [f"x = {array} parameter(0)", f"v0 = {array} negate(x)"]
    opcodes = ("negate", "abs")
    lines += [f"v{i} = {array} {opcodes[i % 2]}(v{i - 1})" for i in range(1, count)]
    rows, values = count * 512, ", ".join([f"v{i}" for i in range(count)])
    product = "lhs_contracting_dims={1}, rhs_contracting_dims={1}"
    lines += [
        f"y = f32[{rows},512] concatenate({values}), dimensions={{0}}",
        f"all = f32[{rows},{rows}] dot(y, y), {product}",
        f"t0 = {array} slice(all), slice={{[0:512], [0:512]}}",
        *[f"t{i + 1} = {array} multiply(t{i}, v{count - 1 - i})" for i in range(count)],
        f"ROOT r = {array} dot(t{count}, t{count}), {product}",
    ]
    body = "\n  ".join(lines)
    module = parse_hlo(f"HloModule chain\n\nENTRY main {{\n  {body}\n}}\n")
    before = needs(module, CPU_TARGET.machine)
    assert run_kernels_late(module, time_share=time_share) == count
    verify(module)
    after = needs(module, CPU_TARGET.machine)
    assert before[0] - after[0] == count * 512 * 512 * 4
