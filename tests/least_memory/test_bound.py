"""The bound on every compilation of programs with loops, branches, constants and barriers."""

import pytest
from tests.least_memory.programs import (
    BYTES,
    SQUARE,
    barrier_program,
    branch_program,
    dot,
    entry,
    loop_program,
)

from lowtide import compiler
from lowtide.compiler.compilation_bound import CompilationBound
from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.least_memory import least_memory
from lowtide.report.memory import Ladder


def test_a_loop_needs_its_state_and_what_its_body_makes() -> None:
    """Both arguments, the counter, and x, y and z of the body: w is the argument's."""
    found = least_memory(parse_hlo(loop_program()))
    assert found.nbytes == 2 * BYTES + 4 + 3 * BYTES
    assert found.at is not None and found.at.name == "f"


def test_what_the_caller_keeps_over_a_loop_is_added() -> None:
    made = dot("e", "x", "w") + dot("y", "e", "w")
    text = loop_program("e").replace("  zero =", f"{made}  zero =").replace("zero, x", "zero, y")
    assert least_memory(parse_hlo(text)).nbytes == 2 * BYTES + 4 + 3 * BYTES + BYTES


def test_the_larger_branch_counts() -> None:
    found = least_memory(parse_hlo(branch_program()))
    assert found.nbytes == 4 + BYTES + 3 * BYTES  # The arguments, then p, a and b.


def test_arguments_stay_unless_they_are_offered() -> None:
    body = f"  x = {SQUARE} parameter(0)\n{dot('y', 'x', 'x')}{dot('ROOT z', 'y', 'y')}"
    plain = least_memory(parse_hlo(entry(body))).nbytes
    head = "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }"
    donated = least_memory(parse_hlo(entry(body, head))).nbytes
    donor = least_memory(parse_hlo(entry(body, "HloModule m, buffer_donor={ (0, {}) }"))).nbytes
    assert (plain, donated, donor) == (3 * BYTES, 2 * BYTES, 2 * BYTES)


def test_constants_take_nothing() -> None:
    ones = "{" + ",".join(["{" + ",".join(["1"] * 10) + "}"] * 10) + "}"
    body = f"  x = {SQUARE} parameter(0)\n  k = {SQUARE} constant({ones})\n"
    assert least_memory(parse_hlo(entry(f"{body}{dot('ROOT y', 'x', 'k')}"))).nbytes == 800


def test_less_work_proves_less() -> None:
    lines = [dot(f"x{i}", f"x{i - 1}", f"x{i - 1}") for i in range(1, 40)]
    wide = dot("w", "x20", "k").replace(SQUARE, "f32[10,40]{1,0}")
    body = f"  x0 = {SQUARE} parameter(0)\n  k = f32[10,40]{{1,0}} parameter(1)\n{''.join(lines)}"
    body += f"{wide}  ROOT t = ({SQUARE}, f32[10,40]{{1,0}}) tuple(x39, w)\n"
    module = parse_hlo(entry(body))
    whole, part = least_memory(module), least_memory(module, 500)
    assert whole.is_whole and not part.is_whole
    assert 0 < part.nbytes <= whole.nbytes


def test_barriers_may_go() -> None:
    module = parse_hlo(barrier_program())
    bound = CompilationBound()
    bound.look(module)
    assert bound.found is not None
    assert bound.found.nbytes == 3 * BYTES < least_memory(module).nbytes


def test_explain_tells_it_and_plans_stay_above() -> None:
    report = compiler.explain(parse_hlo(loop_program()))
    least = report.ladder.compilation_bound_bytes
    assert least == 3 * BYTES + 4 <= report.ladder.live_bytes
    assert report.to_json()["ladder"]["compilation_bound_bytes"] == least
    told = "no compilation without recomputation of products and loops needs less than 1,204 B"
    assert told in str(report)
    assert compiler.plan(parse_hlo(loop_program())).report.ladder.compilation_bound_bytes is None


def test_explain_tells_what_is_stored_then() -> None:
    """The counter, what the loop changes, what it makes; its other state is an argument."""
    cut = compiler.explain(parse_hlo(loop_program())).compilation_cut
    assert cut is not None and cut.once == ("products", "loops")
    assert cut.when in ("after", "during") and cut.instruction in ("y", "z")
    assert sum([x.nbytes for x in cut.stored]) == 3 * BYTES + 4
    state = [x for x in cut.stored if x.kind == "state"]
    assert BYTES in [x.nbytes for x in state] and cut.is_whole
    assert all(x.to_json()["name"].startswith("p{") for x in state)


def test_a_line_names_the_program_s_own_lines() -> None:
    source = 'metadata={source_file="a/step.py" source_line=3}'
    made = dot("y", "x", "x").replace(
        "contracting_dims={0}\n", f"contracting_dims={{0}}, {source}\n"
    )
    text = entry(f"  x = {SQUARE} parameter(0)\n{made}{dot('ROOT z', 'y', 'x')}")
    report = str(compiler.explain(parse_hlo(text)))
    assert "shown during z: 400 of step.py:3, 400 of z" in report


def test_nothing_is_said_of_kinds_that_a_program_lacks() -> None:
    text = entry(f"  x = {SQUARE} parameter(0)\n  ROOT y = {SQUARE} sine(x)\n")
    told = "no compilation needs less than 400 B: nothing can be gained"
    assert told in str(compiler.explain(parse_hlo(text)))


def test_a_bound_above_a_plan_is_a_fault() -> None:
    Ladder(10, 20, 30, 20).check()
    with pytest.raises(AssertionError, match="the plan stands, the bound is wrong"):
        Ladder(10, 20, 30, 21).check()


def test_a_slice_of_a_product_reads_it_stored() -> None:
    """The argument, the product, and its slice, which overwrites the product."""
    half = "f32[5,10]{1,0}"
    slice_ = f"  ROOT s = {half} slice(y), slice={{[0:5], [0:10]}}\n"
    body = f"  x = {SQUARE} parameter(0)\n{dot('y', 'x', 'x')}{slice_}"
    assert least_memory(parse_hlo(entry(body))).nbytes == 2 * BYTES
    sine = f"  ROOT s = {SQUARE.replace('f32', 'f16')} convert(y)\n"
    assert least_memory(parse_hlo(entry(body.replace(slice_, sine)))).nbytes == 1.5 * BYTES


def test_what_is_made_of_a_later_product_is_not_stored_before_it() -> None:
    """While the first product runs, its result is stored: the sum waits for the second one."""
    body = f"""  x = {SQUARE} parameter(0)
{dot("a", "x", "x")}{dot("b", "a", "x")}  c = f16[10,10]{{1,0}} convert(a)
  d = f16[10,10]{{1,0}} convert(b)
  ROOT s = f16[10,10]{{1,0}} add(c, d)
"""
    assert least_memory(parse_hlo(entry(body))).nbytes == 2.5 * BYTES
