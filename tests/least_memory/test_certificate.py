"""Certificates of the bound on every compilation, held against damage and against other modules."""

import ast
import json
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.certificate.cases import compact, copied, signed
from tests.least_memory.drawing import drawn_module
from tests.least_memory.exhaustive import Search
from tests.least_memory.programs import barrier_program, branch_program, dot, entry, loop_program

from lowtide.certificate.compilation import compilation_certificate
from lowtide.checking import compilation_problem, compilation_proof
from lowtide.checking.compilation_problem import differences, how_it_runs
from lowtide.checking.compilation_proof import REJECTED, VALID, check_compilation
from lowtide.cli import verify_compilation
from lowtide.compiler.compilation_bound import certify_compilations, normal_forms
from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.ir import Opcode
from lowtide.least_memory import least_memory
from lowtide.least_memory.kinds import _FREE, Kind, runs_behind

PROOF = Path(compilation_proof.__file__)
CHECKERS = (PROOF, Path(compilation_problem.__file__))


def certificate_of(module, found):
    return compilation_certificate([(module, found)])


def certified(module):
    return certificate_of(module, least_memory(module))


def verdict_of(document):
    return check_compilation(compact(signed(document)))


# -- what is right ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(0, 300, 50))
def test_certificates_are_valid_and_say_the_bound(seed) -> None:
    for number in range(seed, seed + 50):
        module = drawn_module(number, 2 + number % 6)
        document = certified(module)
        beyond = least_memory(module).nbytes - document["problem"]["forms"][0]["arguments"]
        assert verdict_of(document)[::2] == (VALID, max(0, beyond))
        assert not differences(document["problem"]["forms"][0], module)


@pytest.mark.parametrize(
    ("text", "bound"),
    [(loop_program(), 1_204), (loop_program("x"), 1_204), (branch_program(), 1_200)],
)
def test_what_runs_inside_has_a_step_of_its_own(text, bound) -> None:
    document = certified(parse_hlo(text))
    assert document["evidence"][0][0]["when"] == "inside"
    assert verdict_of(document).bound == bound
    assert not differences(document["problem"]["forms"][0], parse_hlo(text))


def test_barriers_make_two_forms_and_the_least_holds() -> None:
    module = parse_hlo(barrier_program())
    document = certify_compilations(module)
    assert len(document["problem"]["forms"]) == 2
    assert verdict_of(document).bound == 800
    forms = normal_forms(module)
    assert not verify_compilation.differences(document, forms)
    other = copied(document)
    del other["problem"]["forms"][1], other["evidence"][1]
    assert "it has 1 forms" in verify_compilation.differences(other, forms)[0]


def test_the_end_of_a_program_may_be_what_needs_most() -> None:
    shape = "f32[64]{0}"
    text = f"  x = f32[] parameter(0)\n  ROOT y = {shape} broadcast(x), dimensions={{}}\n"
    document = certified(parse_hlo(entry(text)))
    assert document["evidence"] == [[{"at": 0, "when": "end", "flow": []}]]
    assert verdict_of(document).bound == 256


# -- what is wrong ---------------------------------------------------------------------------------


def damaged(value, rng):
    """Change one number, word or list somewhere in a document, in place."""
    while True:
        keys = [*value] if isinstance(value, dict) else [*range(len(value))]
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(value[key], dict | list) and value[key] and rng.random() < 0.9:
            value = value[key]
        elif isinstance(value[key], int):
            value[key] = max(0, value[key] + rng.choice((-1, 1, 4, 60, 400)))
            return
        elif isinstance(value[key], str):
            words = ("given", "free", "behind", "once", "apart", "during", "after", "before", "end")
            value[key] = rng.choice(words)
            return
        else:
            value[key] = rng.choice(([], [0], [1], [[0, 1, 60]]))
            return


@pytest.mark.parametrize("seed", range(0, 60, 10))
def test_no_damage_proves_more_than_any_compilation_needs(seed) -> None:
    """A certificate that is valid, and about the module, has a bound that holds."""
    passed = 0
    for number in range(seed, seed + 10):
        rng = random.Random(number)
        module = drawn_module(number, 2 + number % 4)
        document = certified(module)
        arguments = document["problem"]["forms"][0]["arguments"]
        least = Search(module.entry).least() - arguments
        for _ in range(150):
            forged = copied(document)
            for _ in range(rng.choice((1, 1, 2, 3))):
                damaged(forged["evidence" if rng.random() < 0.6 else "problem"], rng)
            try:
                forged["bound"] = max(0, proved(forged))
            except (ValueError, TypeError, LookupError):
                continue
            found = verdict_of(forged)
            if found.answer == VALID and not differences(forged["problem"]["forms"][0], module):
                passed += 1
                assert found.bound <= max(0, least)
    assert passed >= 10


def proved(document):
    """What the checker finds proved, asked by a certificate that claims a wrong bound."""
    detail = verdict_of({**document, "bound": 10**12}).detail
    return int(detail.split(" is claimed, ")[1].split()[0])


def flows(document):
    return document["evidence"][0][-1]["flow"]


DAMAGES = {
    "more through the arc of a value": (
        lambda d: flows(d)[0].__setitem__(2, 10**6),
        "more than its room",
    ),
    "an arc that there is not": (lambda d: flows(d).append([0, 0, 1]), "more than its room, 0"),
    "a flow that is lost": (lambda d: flows(d).pop(), "gets more, or less, than it sends"),
    "an operation that may run again": (
        lambda d: d["evidence"][0][-1].__setitem__("at", 2),
        "may run any number of times",
    ),
    "an unknown moment": (lambda d: d["evidence"][0][-1].__setitem__("when", "often"), "often"),
    "a step too few": (lambda d: d["evidence"][0].clear(), "shorter"),
    "a claim of more": (lambda d: d.__setitem__("bound", 4_000), "4000 is claimed"),
    "a value made twice": (
        lambda d: d["problem"]["forms"][0]["computations"][0]["operations"][0][3].append(0),
        "one maker each",
    ),
    "an unknown kind": (
        lambda d: d["problem"]["forms"][0]["computations"][0]["operations"][0].__setitem__(1, "so"),
        "each is one of",
    ),
    "a plan": (lambda d: d["plan"].__setitem__("height", 1), "expected none"),
    "no forms": (lambda d: d["problem"]["forms"].clear(), "one at least"),
    "another schema": (lambda d: d.__setitem__("schema", "x"), "unknown"),
    "another kind": (lambda d: d.__setitem__("kind", "order"), "expected compilation"),
}


def chained():
    body = f"  x = f32[10,10]{{1,0}} parameter(0)\n{dot('a', 'x', 'x')}{dot('b', 'a', 'a')}"
    sine = "  ROOT c = f32[10,10]{1,0} sine(b)\n"
    return parse_hlo(entry(f"{body}{sine}"))


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_told(name) -> None:
    document = certified(chained())
    damage, told = DAMAGES[name]
    assert verdict_of(document).answer == VALID
    damage(document)
    found = verdict_of(document)
    assert found.answer == REJECTED and told in found.detail


def test_a_product_is_not_in_place_nor_a_sort_apart() -> None:
    """The moment "during" counts operands and results together: not of what may overwrite them."""
    document = certified(chained())
    for row in document["problem"]["forms"][0]["computations"][0]["operations"]:
        if row[1] == "apart":
            row[1] = "once"
    assert "may be in place" in verdict_of(document).detail


def test_what_runs_inside_has_to_be_what_the_operation_runs() -> None:
    document = certified(parse_hlo(loop_program()))
    document["problem"]["forms"][0]["computations"][1]["name"] = "other"
    assert "other is not what runs" in verdict_of(document).detail
    document = certified(parse_hlo(loop_program()))
    row = document["problem"]["forms"][0]["computations"][0]["operations"][0]
    assert row[4]  # The state counts with the loop, and no second time with its caller.
    row[4] = []
    assert differences(document["problem"]["forms"][0], parse_hlo(loop_program()))


def test_the_state_of_a_loop_counts_in_its_body_only() -> None:
    """A flow through what the loop changes has no room, though it is in memory then."""
    module = parse_hlo(loop_program())
    found = least_memory(module)
    first = replace(found.moments[0], without=())
    assert first.cut().nbytes > found.moments[0].cut().nbytes
    forged = replace(found, moments=(first, *found.moments[1:]))
    assert "has more than its room, 0" in verdict_of(certificate_of(module, forged)).detail


def test_moments_are_not_added_but_where_one_is_inside_the_other() -> None:
    document = certified(parse_hlo(loop_program()))
    document["evidence"][0][0]["when"] = "after"
    assert "step 0: unexpected after" in verdict_of(document).detail


def test_what_is_kept_twice_counts_once() -> None:
    body = "  x = f32[] parameter(0)\n  ROOT y = f32[64]{0} broadcast(x), dimensions={}\n"
    document = certified(parse_hlo(entry(body)))
    document["problem"]["forms"][0]["computations"][0]["kept"] *= 2
    assert proved(document) == 256


def test_what_may_run_behind_an_operation_does_not_wait_for_it() -> None:
    """Of a sine and a slice of a product the slice waits, and so does what reads the sine whole."""
    text = f"""  x = f32[10,10]{{1,0}} parameter(0)
{dot("a", "x", "x")}  s = f32[10,10]{{1,0}} sine(a)
  c = f32[10,10]{{1,0}} cosine(s)
  t = f32[5,10]{{1,0}} slice(s), slice={{[0:5], [0:10]}}
{dot("d", "c", "x")}  ROOT r = (f32[10,10]{{1,0}}, f32[5,10]{{1,0}}) tuple(d, t)
"""
    (section,) = certified(parse_hlo(entry(text)))["problem"]["forms"][0]["computations"]
    program = compilation_proof._Program(section)
    number = {row[0]: k for k, row in enumerate(section["operations"])}
    waiting = {program.is_absent(number["t"]), program.is_absent(number["d"])}
    assert program.behind(number["a"]) == waiting
    assert program.ends(number["a"], "after") == (waiting, {program.later + number["a"]})


CHANGES = {
    "another entry": lambda f: f["computations"][0].__setitem__("name", "other"),
    "arguments": lambda f: f.__setitem__("arguments", 1),
    "lasting": lambda f: f.__setitem__("lasting", 1),
    "other a": lambda f: f["computations"][0]["operations"][0].__setitem__(1, "free"),
    "other a, b": lambda f: f["computations"][0]["bytes"].__setitem__(1, 4_000),
    "other results": lambda f: f["computations"][0].__setitem__("kept", [0]),
    "other b": lambda f: f["computations"][0]["operations"][1].__setitem__(2, [0]),
    "does not run": lambda f: f["computations"].append(
        {"name": "c", "operations": [], "bytes": [], "kept": []}
    ),
}


@pytest.mark.parametrize("told", CHANGES)
def test_a_problem_has_to_be_that_of_the_module(told) -> None:
    form = certified(chained())["problem"]["forms"][0]
    assert not differences(form, chained())
    CHANGES[told](form)
    assert told in "; ".join(differences(form, chained()))


STRANGE = {
    "nothing": b"",
    "no text": b"\xff\xfe{}",
    "a number": b"1",
    "null": b"null",
    "lists in lists": b"[" * 10**5 + b"]" * 10**5,
    "spaces": compact(signed(certified(chained()))).replace(b'"bound":', b'"bound": '),
    "a name twice": compact(signed(certified(chained()))).replace(b'"plan":', b'"plan":{},"plan":'),
    "a negative number": compact(certified(chained())).replace(b'"bound":800', b'"bound":-8'),
    "another digest": compact({**certified(chained()), "sha256": "0" * 64}),
}


@pytest.mark.parametrize("name", STRANGE)
def test_strange_input_is_rejected(name) -> None:
    found = check_compilation(STRANGE[name])
    assert found.answer == REJECTED and found.detail.isprintable() and len(found.detail) < 300


# -- the checkers themselves -----------------------------------------------------------------------


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from [x.name for x in node.names]
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def test_the_checkers_are_short_and_share_nothing_with_the_search() -> None:
    assert sum([len(x.read_text().splitlines()) for x in CHECKERS]) < 500
    assert {x.split(".")[0] for x in imports(PROOF)} <= sys.stdlib_module_names
    own = [x for x in imports(CHECKERS[1]) if x.startswith("lowtide")]
    assert own and all(x.startswith(("lowtide.checking", "lowtide.ir")) for x in own)


def test_the_kinds_of_operations_are_those_of_the_search() -> None:
    """Two tables, by two ways: by opcode here, by what operations mean there."""
    words = {Kind.APART: "apart", Kind.IN_PLACE: "once"}
    for opcode in Opcode:
        if opcode in (Opcode.PARAMETER, Opcode.CONSTANT):
            assert how_it_runs(opcode) == "given"
            continue
        found = _kind(opcode)
        expected = words.get(found, "free")
        assert how_it_runs(opcode) == ("behind" if _is_behind(opcode) else expected), opcode


class _Named:
    """As much of an instruction as the tables of the search look at."""

    def __init__(self, opcode) -> None:
        self.opcode = opcode


def _kind(opcode):
    from lowtide.least_memory.kinds import kind_of

    return kind_of(_Named(opcode))


def _is_behind(opcode):
    return runs_behind(_Named(opcode))


def test_products_are_apart_and_so_is_all_that_reads_elements_more_than_once() -> None:
    apart = {x for x in Opcode if _kind(x) is Kind.APART}
    assert {Opcode.DOT, Opcode.CONVOLUTION, Opcode.SELECT_AND_SCATTER} <= apart
    assert not apart & _FREE


def test_certificates_are_equal_bytes_for_equal_modules() -> None:
    assert json.dumps(certified(chained())) == json.dumps(certified(chained()))
