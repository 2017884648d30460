"""Results in buffers of their own: the bound counts them so, and every plan has them so."""

import pytest
from tests.certificate.cases import compact

from lowtide import compiler
from lowtide.checking.compilation_proof import VALID, check_compilation
from lowtide.compiler.compilation_bound import certify_compilations, normal_forms
from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.least_memory.results import with_own_results
from lowtide.testing.check_pass import seeded_arguments
from lowtide.testing.check_rule import leaves

ROW = "f32[100]"
BYTES = 400


def program(root: str, header: str = "") -> str:
    shapes = {"a": ROW, "e": ROW, "v": "f32[10,10]", "c": "f32[2]"}
    results = root.split(", ")
    types = ", ".join([shapes[x] for x in results])
    last = f"ROOT r = ({types}) tuple({root})" if len(results) > 1 else f"ROOT r = {types} copy(a)"
    return f"""HloModule m{header}

ENTRY main {{
  a = {ROW} parameter(0)
  e = {ROW} exponential(a)
  v = f32[10,10] bitcast(a)
  c = f32[2] constant({{1, 2}})
  {last}
}}
"""


ALIASED = ", input_output_alias={ {0}: (0, {}, must-alias) }"
CASES = {
    "an argument": ("a, e", "", 2 * BYTES),
    "a view of an argument": ("e, v", "", 2 * BYTES),
    "one value twice": ("e, e", "", 2 * BYTES),
    "an argument twice": ("a, v", "", 2 * BYTES),
    "a constant": ("e, c", "", BYTES + 8),
    "an argument that is offered": ("a, e", ALIASED, BYTES),
    "an offered argument twice": ("a, v", ALIASED, BYTES),
    "results of their own": ("e, c", "", BYTES + 8),
}


@pytest.mark.parametrize("name", CASES)
def test_results_count_for_themselves(name: str) -> None:
    root, header, expected = CASES[name]
    module = parse_hlo(program(root, header))
    ladder = compiler.explain(module).ladder
    ladder.check()
    assert ladder.compilation_bound_bytes == ladder.arena_bytes == expected


@pytest.mark.parametrize("name", CASES)
def test_the_certificate_is_about_these_results(name: str) -> None:
    root, header, expected = CASES[name]
    document = certify_compilations(parse_hlo(program(root, header)))
    verdict = check_compilation(compact(document))
    assert verdict.answer == VALID
    assert verdict.bound == expected


def test_a_module_is_copied_only_where_results_are_shared() -> None:
    own = parse_hlo(program("e, v", ALIASED.replace("{0}", "{1}")))
    assert with_own_results(own) is own
    shared = parse_hlo(program("e, e"))
    before = str(shared)
    changed = with_own_results(shared)
    assert changed is not shared and str(shared) == before
    assert with_own_results(changed) is changed
    given = seeded_arguments(shared, 0)
    for x, y in zip(leaves(evaluate(shared, given)), leaves(evaluate(changed, given)), strict=True):
        assert x.tobytes() == y.tobytes()


def test_a_single_argument_as_the_result() -> None:
    module = parse_hlo(f"HloModule m\n\nENTRY main {{\n  ROOT a = {ROW} parameter(0)\n}}\n")
    (form,) = normal_forms(module)
    assert form.entry.root.opcode.value == "copy"
