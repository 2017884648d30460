"""Cost of planning: analyses, copy insertion, schedule, packing, assignment, by module size.

    python benchmarks/planning.py [INSTRUCTIONS ...]

Modules are generated: a training-like step of matrix products and elementwise operations on blocks
that are read once more much later, with a loop of many carried arrays, updates in place and donated
arguments. Seconds are of CPU time, on this machine; `units` are per instruction, where a unit is
one iteration of `for i in range(n): d[i & 1023] = (i,)` timed in the same process.
"""

from __future__ import annotations

import argparse
import random
from time import perf_counter, process_time

from lowtide import compiler
from lowtide.frontend.hlo_text import parse_hlo

SIZES = (2_500, 10_000, 40_000, 60_000)
BLOCK = "f32[64,64]"


def unit() -> float:
    """Return the seconds of one iteration of the loop."""
    n = 1_000_000
    d: dict[int, tuple[int]] = {}
    start = perf_counter()
    for i in range(n):
        d[i & 1023] = (i,)
    return (perf_counter() - start) / n


def generated(count: int) -> str:
    """Return the text of a module of about `count` instructions."""
    draw = random.Random(count)
    carried = max(4, count // 40)
    donated = max(2, count // 50)
    state = ", ".join(["s32[]", *[BLOCK] * carried])
    lines = ["loop {", f"  p = ({state}) parameter(0)", "  i = s32[] get-tuple-element(p), index=0"]
    lines += ["  one = s32[] constant(1)", "  next = s32[] add(i, one)"]
    for k in range(1, carried + 1):
        lines.append(f"  x{k} = {BLOCK} get-tuple-element(p), index={k}")
        if k % 2:
            lines.append(f"  y{k} = {BLOCK} sine(x{k})")
        else:
            lines.append(f"  y{k} = {BLOCK} dynamic-update-slice(x{k}, y{k - 1}, i, i)")
    elements = ", ".join([f"y{k}" for k in range(1, carried + 1)])
    lines += [f"  ROOT r = ({state}) tuple(next, {elements})", "}", "while_condition {"]
    lines += [f"  p = ({state}) parameter(0)", "  i = s32[] get-tuple-element(p), index=0"]
    lines += ["  limit = s32[] constant(9)", "  ROOT less = pred[] compare(i, limit), direction=LT"]
    lines += ["}", "ENTRY main {"]
    lines += [f"  a{k} = {BLOCK} parameter({k})" for k in range(donated)]
    names = [f"a{k}" for k in range(donated)]
    for i in range(count - 5 * carried - 5 * donated):
        near, far = names[-1], draw.choice(names[-200:])
        operation = draw.choice(("add", "multiply", "dot", "subtract"))
        extra = ", lhs_contracting_dims={1}, rhs_contracting_dims={0}" if operation == "dot" else ""
        lines.append(f"  v{i} = {BLOCK} {operation}({near}, {far}){extra}")
        names.append(f"v{i}")
    lines.append("  zero = s32[] constant(0)")
    initial = ", ".join([names[-1 - k % 100] for k in range(carried)])
    lines.append(f"  s = ({state}) tuple(zero, {initial})")
    lines.append(f"  w = ({state}) while(s), condition=while_condition, body=loop")
    lines += [f"  o{k} = {BLOCK} get-tuple-element(w), index={k + 1}" for k in range(donated)]
    lines += [f"  n{k} = {BLOCK} subtract(a{k}, o{k})" for k in range(donated)]
    results = ", ".join([f"n{k}" for k in range(donated)])
    lines += [f"  ROOT r = ({', '.join([BLOCK] * donated)}) tuple({results})", "}"]
    pairs = ", ".join([f"{{{k}}}: ({k}, {{}}, may-alias)" for k in range(donated)])
    return "\n".join([f"HloModule step, input_output_alias={{ {pairs} }}", *lines])


def main() -> None:
    """Print one line a size, with the seconds of each stage."""
    parser = argparse.ArgumentParser(description="cost of planning")
    parser.add_argument("instructions", nargs="*", type=int)
    sizes = parser.parse_args().instructions or SIZES
    print(f"{'instructions':>12s} {'copies':>7s} {'seconds':>8s} {'units':>7s}  stages")
    for size in sizes:
        module = parse_hlo(generated(size))
        before = unit()
        start = process_time()
        plan = compiler.plan(module, compiler.PlanOptions("input"))
        seconds = process_time() - start
        count = module.instruction_count
        units = seconds / count / min(before, unit())
        stages = "  ".join([f"{k} {v:.2f}" for k, v in plan.report.seconds.items() if v >= 0.01])
        copies = len(plan.copies.copies)
        print(f"{count:12,d} {copies:7,d} {seconds:8.2f} {units:7.0f}  {stages}")


if __name__ == "__main__":
    main()
