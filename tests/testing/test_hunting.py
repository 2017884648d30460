"""The hunter: what it draws is valid and follows from its seed, and nothing that judges is lost."""

import json
import os
import re
import signal
from contextlib import suppress
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from tests.hunting import judges
from tests.hunting import worker as workers
from tests.hunting.again import judge_again
from tests.hunting.arguments import case_arguments, has_ends
from tests.hunting.cells import cells_of
from tests.hunting.certainty import Doubt, doubts
from tests.hunting.coverage import CellCounts, apart, wished
from tests.hunting.families import lines, options, stored, tflite_graphs
from tests.hunting.families.onnx_drawing import GraphDraft
from tests.hunting.families.onnx_layers import LAYERS as LAYERS_OF_GRAPHS
from tests.hunting.family import NAMES, HuntedCase, family, smaller_lines
from tests.hunting.findings import Court, Finding
from tests.hunting.hunt import Hunt
from tests.hunting.judges import Comparison, Conditions, ModuleCourt
from tests.hunting.mutations import mutated
from tests.hunting.operations.layers import LAYERS, layer_types
from tests.hunting.pairs import FUSIBLE, NO_TYPE, links, why_apart
from tests.hunting.state import HuntState
from tests.hunting.summary import summary
from tests.hunting.table import MAKERS, REGIONS
from tests.hunting.worker import JudgeWorker
from tests.hunting.writing import ModuleWish, draw_module
from tests.hunting.xla_differences import known_difference, where_infinities_differ

from lowtide.autopsy.plain_module import plain_module
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Opcode
from lowtide.ir.errors import LowtideError
from lowtide.verifier import verify

PLAIN = Conditions(1, stages=("scheduled",))


@pytest.mark.parametrize("opcode", [*MAKERS, *REGIONS])
def test_every_opcode_is_drawn_in_valid_modules(opcode):
    types = [x[2] for x in wished()["type"] if x[1] == opcode] or ["f32"]
    reached = False
    for seed in range(12):
        text = draw_module(seed, ModuleWish(opcode, types[seed % len(types)])).text
        module = parse_hlo(text)
        verify(module)
        reached = reached or opcode == "constant" or any(x[1] == opcode for x in cells_of(module))
    assert reached


@pytest.mark.parametrize("type_", ["f32", "c64"])
def test_matrices_to_be_factored_are_of_small_numbers(type_):
    found = 0
    for seed in range(9):
        module = parse_hlo(draw_module(seed, ModuleWish("cholesky", type_)).text)
        for computation in module.computations.values():
            for x in computation.instructions.values():
                if x.opcode is Opcode.CHOLESKY and x.operands[0].opcode is Opcode.ADD:
                    given = x.operands[0].operands[0].operands[0]
                    given = given.operands[0] if given.opcode is Opcode.CONVERT else given
                    found += given.opcode is Opcode.CLAMP
                    assert given.opcode is Opcode.CLAMP
    assert found


@pytest.mark.parametrize("layer", LAYERS)
def test_every_layer_is_drawn_in_valid_modules(layer):
    for seed, type_ in enumerate(layer_types(layer)):
        drawn = [draw_module(x, ModuleWish(layer, type_)) for x in (seed, seed + 9)]
        for x in drawn:
            verify(parse_hlo(x.text))
        assert any(("layer", layer, type_) in x.notes for x in drawn)


def test_every_update_meets_every_reader():
    for _, update, reader in wished()["update"]:
        found = set()
        for seed in range(20):
            found |= draw_module(seed, ModuleWish(update=update, reader=reader)).notes
        assert ("update", update, reader) in found


def test_every_pair_that_can_meet_in_a_fusion_is_drawn():
    for _, a, b in wished()["fused"]:
        wish = ModuleWish(a, links(a, b)[0].first_type, partner=b)
        cell = ("fused", *sorted((a, b)))
        assert any(cell in draw_module(seed, wish).notes for seed in range(16)), cell


def test_a_pair_that_is_said_to_be_drawn_is_there():
    for _, a, b in wished()["fused"][::61]:
        drawn = draw_module(1, ModuleWish(a, links(a, b)[0].first_type, partner=b))
        assert {x for x in drawn.notes if x[0] == "fused"} <= cells_of(parse_hlo(drawn.text))


@pytest.mark.parametrize(
    ("a", "b", "why"),
    [
        ("and", "ceil", NO_TYPE),
        ("iota", "iota", NO_TYPE),
        ("ceil", "ceil", ""),
        ("complex", "abs", ""),
        ("sine", "cosine", ""),
        ("real", "and", NO_TYPE),
    ],
)
def test_why_operations_cannot_meet(a, b, why):
    assert why_apart(a, b) == why


def test_pairs_that_meet_and_those_that_cannot_are_all_pairs():
    count = len(FUSIBLE)
    assert len(wished()["fused"]) + sum(apart().values()) == count * (count + 1) // 2


def test_a_module_follows_from_seed_and_wish():
    wish = ModuleWish("scatter", "f32")
    assert draw_module(5, wish) == draw_module(5, wish)
    assert draw_module(5, wish) != draw_module(6, wish)
    assert mutated(draw_module(5, wish).text, Random(1)) == mutated(
        draw_module(5, wish).text, Random(1)
    )


def test_some_modules_have_arrays_of_thousands_of_elements():
    counts = []
    for seed in range(24):
        module = parse_hlo(draw_module(seed, ModuleWish("reduce", "f32")).text)
        verify(module)
        shapes = [leaf for x in module.entry.parameters for _, leaf in x.shape.leaves()]
        counts.append(max([x.element_count for x in shapes if x.is_array], default=0))
    assert sum([count > 4000 for count in counts]) >= 2
    assert sum([count <= 2000 for count in counts]) >= 12


def test_arguments_of_every_other_seed_have_all_numbers_of_bits():
    module = parse_hlo(
        "HloModule m\nENTRY e { a = s32[999] parameter(0)\n b = f32[999] parameter(1)\n "
        "c = u4[9] parameter(2)\n ROOT t = (s32[999], f32[999], u4[9]) tuple(a, b, c) }\n"
    )
    small = case_arguments(module, 4)
    assert all(np.abs(x.astype(np.float64)).max() <= 4 for x in small)
    whole, floats, narrow = case_arguments(module, 5)
    assert {int(x).bit_length() for x in whole} == {*range(32)} and (whole < 0).any()
    assert len(np.unique(floats)) > 400 and np.signbit(floats[floats == 0]).any()
    assert narrow.max() <= 15
    assert np.array_equal(whole, case_arguments(module, 5)[0])


def test_what_is_seen_least_is_wished_for():
    counts = CellCounts()
    cells = wished()["update"]
    for _ in range(10):
        counts.add(cells[1:])
    wishes = [counts.wish(Random(seed)) for seed in range(200)]
    updates = [(x.update, x.reader) for x in wishes if x.update]
    assert updates.count(cells[0][1:]) > len(updates) / 20


GOOD = "HloModule m\nENTRY e { a = f32[4] parameter(0)\n ROOT b = f32[4] negate(a) }\n"


def test_judges_agree_on_what_is_right():
    judgement = ModuleCourt(GOOD, PLAIN, lambda judge: None).run()
    assert judgement.findings == ()
    assert {"evaluator", "native", "plan, scheduled"} <= {judge for judge, _ in judgement.seconds}


def test_a_difference_is_a_finding():
    module = parse_hlo(GOOD)
    court = ModuleCourt(GOOD, PLAIN, lambda judge: None)
    x = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    compare = Comparison(module, [x], [-x])
    assert compare.difference([-x]) is None
    court.compare(compare, "other", lambda: [x])
    assert [(x.judge, x.kind) for x in court.findings] == [("other", "wrong")]


def test_one_bit_is_a_finding_where_a_result_is_exact_only():
    for text, is_exact in ((GOOD, True), (GOOD.replace("negate", "sine"), False)):
        module = parse_hlo(text)
        x = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
        compare = Comparison(module, [x], [x])
        assert (compare.difference([np.nextafter(x, np.float32(9))]) is not None) == is_exact


BITS = """HloModule m
ENTRY e {{
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  x = f32[4] {operation}
  y = u32[4] bitcast-convert(x)
  z = s32[4] convert(a)
  ROOT t = (u32[4], s32[4]) tuple(y, z)
}}
"""


@pytest.mark.parametrize(
    ("operation", "is_free"),
    [
        ("divide(a, b)", [True, True, True, True]),
        ("negate(a)", [False, False, False, False]),
        ("add(a, b)", [False, True, False, False]),
    ],
)
def test_only_bits_of_what_is_rounded_or_no_number_are_free(operation, is_free):
    a = np.array([1.0, np.inf, 3.0, 4.0], np.float32)
    b = np.array([2.0, -np.inf, 5.0, -1.0], np.float32)
    text = BITS.format(operation=operation)
    compare = Comparison(parse_hlo(text), [a, b], [])
    compare.expected = judges.evaluated(compare.module, [a, b])
    bits, numbers = compare.expected
    for place, free in enumerate(is_free):
        other = bits.copy()
        other[place] ^= 1 << 31
        assert (compare.difference([other, numbers]) is None) == free
        wrong = numbers.copy()
        wrong[place] ^= 1
        assert compare.difference([bits, wrong]) is not None


LOOP = """HloModule m
condition {
  s = (s32[], f32[4], u32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(2)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[4], u32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  r = f32[4] sine(x)
  b = u32[4] bitcast-convert(x)
  ROOT t = (s32[], f32[4], u32[4]) tuple(j, r, b)
}
ENTRY e {
  i = s32[] constant(0)
  x = f32[4] parameter(0)
  b = u32[4] bitcast-convert(x)
  s = (s32[], f32[4], u32[4]) tuple(i, x, b)
  ROOT w = (s32[], f32[4], u32[4]) while(s), condition=condition, body=body
}
"""


def test_doubts_go_round_loops():
    found = doubts(parse_hlo(LOOP))
    assert found[0] == Doubt.NONE
    assert found[1] & Doubt.ROUNDED and not found[1] & Doubt.FREE
    assert found[2] & Doubt.FREE


def test_large_integers_that_differ_by_one_are_apart():
    module = parse_hlo("HloModule m\nENTRY e { ROOT a = s64[1] parameter(0) }\n")
    x = np.array([2**62], np.int64)
    assert Comparison(module, [x], [x]).difference([x + 1]) is not None


def test_lines_that_a_case_shows_the_same_without_are_left_out():
    text = "\n".join([f"line {i}" for i in range(23)])
    wanted = {"line 7", "line 19"}
    least = smaller_lines(HuntedCase(text), lambda x: wanted <= {*x.text.splitlines()})
    assert least.text == "line 7\nline 19"


def drawn_by(found, seeds):
    """The valid cases of some seeds."""
    for seed in range(seeds):
        with suppress(LowtideError):
            yield found.draw(seed, Random(seed), CellCounts())


NEEDS = {"onnx": "onnx", "plugin": "jax", "modules": "jax"}


@pytest.mark.parametrize("name", NAMES)
def test_every_family_draws_from_a_seed_what_its_judges_agree_on(name):
    pytest.importorskip(NEEDS.get(name, "numpy"))
    worker = JudgeWorker(name)
    cases = [[*drawn_by(family(name), 3)] for _ in range(2)]
    assert cases[0] == cases[1]
    for case in cases[0]:
        judgement = worker.judge(case)
        assert judgement.findings == () and judgement.seconds
    worker.close()


@pytest.mark.parametrize("name", NAMES)
def test_what_a_family_can_be_asked_to_reach_has_a_table(name):
    found = family(name)
    cells = [x for row in found.tables.values() for x in row]
    assert len(cells) == len({*cells})
    assert {*cells} & {x for case in drawn_by(found, 20) for x in case.cells}


def test_a_region_of_whole_arrays_takes_the_place_of_a_manual_one():
    found = family("devices")
    case = next(x for x in drawn_by(found, 50) if "{manual}" in x.text)
    judgement = found.judge(case, lambda judge: None)
    assert {"whole", "partition", "devices", "native"} <= {x for x, _ in judgement.seconds}


def test_a_budget_that_is_exceeded_is_a_finding(monkeypatch):
    case = HuntedCase(GOOD, options.Chosen(1, (("effort", "fast"),), 0.5, False))
    assert family("options").judge(case, lambda x: None).findings == ()
    compiled = options.compile_module
    monkeypatch.setattr(
        options, "compile_module", lambda m, o: compiled(m, replace(o, memory=None))
    )
    (found,) = family("options").judge(case, lambda x: None).findings
    assert (found.judge, found.kind) == ("budget", "exceeded")


@pytest.mark.parametrize("way", ["bytes", "file", "twice", "cache", "other process"])
def test_a_stored_program_of_other_bits_is_a_finding(way, monkeypatch):
    case = HuntedCase(GOOD, (1, way))
    assert family("stored").judge(case, lambda x: None).findings == ()
    results = iter(range(10))
    plain = stored.array_leaves
    monkeypatch.setattr(stored, "array_leaves", lambda x: [y + next(results) for y in plain(x)])
    (found,) = family("stored").judge(case, lambda x: None).findings
    assert (found.judge, found.kind) == (way, "wrong")


def test_changed_bytes_that_are_taken_are_a_finding(monkeypatch):
    case = HuntedCase(GOOD, (1, "damaged"))
    assert family("stored").judge(case, lambda x: None).findings == ()
    monkeypatch.setattr(stored, "deserialize_executable", lambda x: None)
    (found,) = family("stored").judge(case, lambda x: None).findings
    assert (found.judge, found.kind) == ("damaged", "wrong")


@pytest.mark.parametrize(
    "follows", [[], [{"node": "GlobalMaxPool", "of": ["y"], "results": ["z"]}]]
)
def test_a_reference_of_other_sizes_than_the_standard_is_no_judge(follows):
    pytest.importorskip("onnx")
    pool = {"strides": [1, 1], "pads": [0, 1, 0, 1], "kernel_shape": [2, 3]}
    rows = [
        {"input": "x", "type": "float32", "sizes": [4, 4, 3, 5]},
        {"node": "MaxPool", "of": ["x"], "results": ["y"], "with": pool, "rounded": False},
        *[x | {"with": {}, "rounded": False} for x in follows],
    ]
    case = HuntedCase("\n".join([json.dumps(x) for x in rows]), 1)
    found = family("onnx").judge(case, lambda x: None)
    assert found.findings == ()
    assert [x for x, _ in found.silent] == ["reference"] or "native" in dict(found.seconds)


@pytest.mark.parametrize("type_", ["float32", "int8"])
def test_every_operator_of_tflite_can_follow_one_that_leaves_a_vector(type_):
    for _, name, operator_type in family("tflite").tables["operator"]:
        for sizes in [(6,), (1,)] if operator_type == type_ else []:
            draft = tflite_graphs.LiteDraft(Random(len(name)), type_)
            draft.sizes = sizes
            draft.add(name)
            assert any("node" in x for x in draft.lines)


def test_resized_graphs_of_onnx_have_no_nan():
    operands = []
    for seed in range(20):
        draft = GraphDraft(Random(seed))
        LAYERS_OF_GRAPHS["Resize"](draft)
        rows = lines.documents("\n".join(draft.lines))
        made = {y: x["node"] for x in rows if "node" in x for y in x["results"]}
        operands += [made.get(x["of"][0]) for x in rows if x.get("node") == "Resize"]
    assert len(operands) > 9
    assert {*operands} == {"Where"}


def test_results_of_lines_are_held_against_each_other():
    for got, rounded, kind in (
        (np.float32([1, 2]), False, None),
        (np.float32([1, 2.00001]), True, None),
        (np.float32([1, 2.00001]), False, "wrong"),
        (np.float64([1, 2]), False, "wrong"),
    ):
        court = Court(lambda judge: None)
        lines.compare(court, "native", [got], [np.float32([1, 2])], [rounded])
        assert [x.kind for x in court.findings] == ([] if kind is None else [kind])


def test_a_rounding_of_a_result_on_the_way_counts():
    """Next to 1 an arc cosine moves by much more than its argument does."""
    text = GOOD.replace(
        "ROOT b = f32[4] negate(a)", "b = f32[4] cosine(a)\n ROOT c = f32[4] acos(b)"
    )
    x = np.full(4, 1e-4, np.float32)
    module = parse_hlo(text)
    compare = Comparison(module, [x], judges.evaluated(module, [x]))
    below = np.nextafter(np.float32(1), np.float32(0))
    for right in (np.float32(1), below):
        assert compare.difference([np.full(4, np.arccos(right), np.float32)]) is None
    assert compare.difference([np.full(4, 0.1, np.float32)]) is not None


def test_no_number_is_right_only_where_a_rounding_makes_it():
    text = GOOD.replace("negate", "sqrt")
    x = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    module = parse_hlo(text)
    compare = Comparison(module, [x], judges.evaluated(module, [x]))
    assert compare.difference([np.full(4, np.nan, np.float32)]) is not None
    assert compare.difference([np.full(4, np.inf, np.float32)]) is not None


def test_a_signature_leaves_numbers_out():
    one, two = (Finding("build", "CodeError", f"%v.{i} is 8 bits") for i in (1, 2))
    assert one.signature == two.signature
    assert one.signature != Finding("build", "TypeError", one.words).signature


def dies(pipe):
    """A judge that dies of its first module."""
    pipe.recv()
    pipe.send("native")
    os.kill(os.getpid(), signal.SIGKILL)


def sleeps(pipe):
    """A judge that says nothing."""
    pipe.recv()
    pipe.send("xla")
    signal.pause()


@pytest.mark.parametrize(("serve", "kind"), [(dies, "crash"), (sleeps, "hang")])
def test_a_process_that_dies_or_hangs_is_a_finding(serve, kind, monkeypatch):
    monkeypatch.setattr(workers, "serve", serve)
    worker = JudgeWorker("modules", 60.0 if kind == "crash" else 4.0)
    (finding,) = worker.judge(HuntedCase(GOOD, PLAIN)).findings
    worker.close()
    assert finding.kind == kind
    assert finding.judge == ("native" if kind == "crash" else "xla")


def test_a_hunt_goes_on_where_it_stopped(tmp_path):
    state = HuntState.opened(tmp_path)
    state.next_seed, state.cases = 7, 6
    state.counts.add([("type", "add", "f32")])
    state.findings["native: wrong"] += 2
    state.last["native: wrong"] = 3
    state.save()
    again = HuntState.opened(tmp_path)
    assert (again.next_seed, again.cases) == (7, 6)
    assert again.counts.reached[("type", "add", "f32")] == 1
    assert again.findings == {"native: wrong": 2}
    assert "| native: wrong | 2 | 3 | differs |" in summary("modules", again)
    assert json.loads((tmp_path / "state.json").read_text())["next_seed"] == 7


def test_a_hunt_can_begin_with_seeds_that_none_had(tmp_path):
    state = HuntState.opened(tmp_path, 700)
    assert (state.first_seed, state.next_seed) == (700, 700)
    state.next_seed = 704
    state.save()
    again = HuntState.opened(tmp_path, 900)
    assert (again.first_seed, again.next_seed) == (700, 704)
    assert "seeds since the last finding: 4 of 4 from 700 on" in summary("stored", again)


def test_finds_that_are_judged_again_have_an_end_or_not(tmp_path):
    state = HuntState.opened(tmp_path)
    mended, broken = "native: wrong [abs]", "native: ShapeError no such thing [abs]"
    state.write_find("1-least", f"native: wrong\nwords\n{PLAIN}", GOOD)
    state.first[mended] = "1-least"
    bad = GOOD.replace("ROOT", "ROOT ROOT")
    worker = JudgeWorker("modules", 60.0)
    (finding,) = worker.judge(HuntedCase(bad, PLAIN)).findings[:1]
    worker.close()
    state.write_find("2-least", f"{finding.signature}\nwords\n{PLAIN}", bad)
    state.first[broken] = "2-least"
    judge_again("modules", state, lambda line: None)
    assert HuntState.opened(tmp_path).ended == {mended}


def test_a_hunt_counts_what_it_judges_and_keeps_what_it_finds(tmp_path, monkeypatch):
    lines = []
    hunt = Hunt("modules", HuntState.opened(tmp_path), lines.append)
    found = Finding("native", "wrong", "result 0 is 1")

    def judge(case):
        return workers.Judgement((found,), (), (("native", 0.0),))

    monkeypatch.setattr(hunt.worker, "judge", judge)
    hunt._one(3)
    assert hunt.state.cases == 1
    (key,) = hunt.state.findings
    assert key.startswith("native: wrong [") and hunt.state.findings[key] == 1
    names = sorted(x.name for x in (tmp_path / "finds").iterdir())
    assert names[0].endswith("-native-least.txt") and names[1].endswith("-native.txt")
    parse_hlo((tmp_path / "finds" / names[0]).read_text())


INNER = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
NORM = (
    "({0}[5,4], {0}[4], {0}[4]) batch-norm-training({0}[5,4] %a, {0}[4] %b, {0}[4] %b), "
    "epsilon=0.25, feature_index=1"
)
SOLVE = "left_side=true, lower=true, transpose_a=NO_TRANSPOSE"


@pytest.mark.parametrize(
    ("line", "is_known"),
    [
        (f"f32[2,3] dot(f32[2,0] %a, f32[0,3] %b), {INNER}", True),
        (f"f32[2,3] dot(f32[2,5] %a, f32[5,3] %b), {INNER}", False),
        ("f16[4] atan2(f16[4] %a, f16[4] %b)", True),
        ("f32[4] atan2(f32[4] %a, f32[4] %b)", False),
        ("c64[4] log(c64[4] %a)", True),
        ("f32[4] log(f32[4] %a)", False),
        ("s4[4] add(s4[4] %a, s4[4] %b)", True),
        ("s8[4] add(s8[4] %a, s8[4] %b)", False),
        ("f32[4,4] dynamic-update-slice(f32[4,4] %a, f32[4,4] %a, s32[] %b, s32[] %b)", True),
        (f"f32[9,5,3] triangular-solve(f32[9,5,5] %a, f32[9,5,3] %b), {SOLVE}", True),
        (f"f32[8,5,3] triangular-solve(f32[8,5,5] %a, f32[8,5,3] %b), {SOLVE}", False),
        (f"f32[9,32,3] triangular-solve(f32[9,32,32] %a, f32[9,32,3] %b), {SOLVE}", False),
        (NORM.format("f16"), True),
        (NORM.format("bf16"), False),
    ],
)
def test_xla_is_no_judge_of_what_it_is_known_to_do_otherwise(line: str, is_known: bool) -> None:
    names = {name: shape for shape, name in re.findall(r"([a-z0-9]+\[[0-9,]*\]) (%[ab])", line)}
    given = [
        f"  {x} = {shape} parameter({i})" for i, (x, shape) in enumerate(sorted(names.items()))
    ]
    text = "\n".join(["HloModule m", "ENTRY e {", *given, f"  ROOT r = {line}", "}"])
    assert (known_difference(parse_hlo(text)) is not None) == is_known


LATER = """HloModule m

later {
  a = s32[] parameter(0)
  ROOT b = s32[] parameter(1)
}

ENTRY e {
"""
BYTE, TO_UNSIGNED = "f8e4m3fn", "ROOT r = u64[4] convert(b)"
ROWS = "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}"


@pytest.mark.parametrize(
    ("lines", "is_known"),
    [
        (("z = f32[] constant(0)", "ROOT r = f32[] atan2(z, z)"), True),
        (
            (
                *("c = c64[] constant((0, 0))", "z = f32[] imag(c)", "y = f32[] negate(z)"),
                "ROOT r = f32[] atan2(y, z)",
            ),
            True,
        ),
        (("z = u8[] constant(0)", "ROOT r = u8[] divide(z, z)"), True),
        (("a = u8[] parameter(0)", "z = u8[] constant(0)", "ROOT r = u8[] divide(a, z)"), False),
        (
            (
                *("a = f32[4] parameter(0)", "b = s32[4] convert(a)", "c = u32[4] convert(b)"),
                *("d = u32[4] reverse(c), dimensions={0}", "ROOT r = f16[4] convert(d)"),
            ),
            True,
        ),
        (
            (*("a = s32[4] parameter(0)", "c = u32[4] convert(a)"), "ROOT r = f16[4] convert(c)"),
            False,
        ),
        (("a = s64[4] parameter(0)", f"b = {BYTE}[4] convert(a)", TO_UNSIGNED), True),
        (("a = f32[4] parameter(0)", f"b = {BYTE}[4] convert(a)", TO_UNSIGNED), False),
        ((f"b = {BYTE}[4] parameter(0)", TO_UNSIGNED), False),
        (
            (
                *("a = s32[4,1] parameter(0)", "p = s32[4,1] parameter(1)"),
                "w = s32[4,1] copy(a)",
                f"ROOT r = s32[4,1] scatter(a, w, p), {ROWS}, index_vector_dim=1, to_apply=later",
            ),
            True,
        ),
        (
            (
                *("a = s32[4,1] parameter(0)", "p = s32[4,1] parameter(1)"),
                "w = s32[4,1] add(a, a)",
                f"ROOT r = s32[4,1] scatter(a, w, p), {ROWS}, index_vector_dim=1, to_apply=later",
            ),
            False,
        ),
    ],
)
def test_xla_is_no_judge_of_what_several_operations_show(
    lines: tuple[str, ...], is_known: bool
) -> None:
    module = parse_hlo(LATER + "\n".join([f"  {x}" for x in lines]) + "\n}\n")
    assert (known_difference(module) is not None) == is_known


@pytest.mark.parametrize(("type_", "is_known"), [("c64", True), ("f32", False)])
def test_xla_is_not_asked_for_complex_functions_for_which_it_has_no_code(
    type_: str, is_known: bool
) -> None:
    text = f"""HloModule m

inner {{
  a = {type_}[4,3] parameter(0)
  ROOT b = {type_}[4,3] sinh(a)
}}

ENTRY e {{
  a = {type_}[4,3] parameter(0)
  ROOT r = {type_}[4,3] fusion(a), kind=kLoop, calls=inner
}}
"""
    module = parse_hlo(text)
    for given in (module, plain_module(module)):  # The judge takes fusions apart.
        assert (known_difference(given) is not None) == is_known


@pytest.mark.parametrize(("step", "is_known"), [("slice", True), ("add", False)])
def test_what_a_computation_is_given_may_be_what_xla_does_otherwise(
    step: str, is_known: bool
) -> None:
    steps = {"slice": "slice(a), slice={[0:2]}", "add": "add(b, b)"}
    text = f"""HloModule m

narrowed {{
  a = u32[4] parameter(0)
  b = u32[2] constant({{1, 2}})
  c = u32[2] {steps[step]}
  ROOT d = bf16[2] convert(c)
}}

ENTRY e {{
  a = u32[4] parameter(0)
  ROOT r = bf16[2] call(a), to_apply=narrowed
}}
"""
    assert (known_difference(parse_hlo(text)) is not None) == is_known


@pytest.mark.parametrize(("groups", "is_known"), [(1, False), (2, True)])
def test_xla_multiplies_infinities_by_zeros_between_groups(groups: int, is_known: bool) -> None:
    line = f"convolution(a, b), dim_labels=bf_io->bf, feature_group_count={groups}"
    module = parse_hlo(
        "HloModule m\nENTRY e {\n  a = f32[2,2] parameter(0)\n"
        f"  b = f32[{2 // groups},6] parameter(1)\n  ROOT r = f32[2,6] {line}\n}}"
    )
    assert (where_infinities_differ(module) is not None) == is_known


@pytest.mark.parametrize(("order", "is_known"), [("TOTALORDER", False), ("FLOAT", True)])
def test_xla_puts_nan_elsewhere_where_they_have_no_place(order: str, is_known: bool) -> None:
    module = parse_hlo(
        "HloModule m\norder {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
        f"  ROOT r = pred[] compare(a, b), direction=LT, type={order}\n}}\nENTRY e {{\n"
        "  x = f32[9] parameter(0)\n  ROOT s = f32[9] sort(x), dimensions={0}, to_apply=order\n}"
    )
    assert (where_infinities_differ(module) is not None) == is_known


@pytest.mark.parametrize(("element_type", "wanted"), [("f32", True), ("bf16", False)])
def test_products_in_bf16_have_no_numbers_next_to_0(element_type: str, wanted: bool) -> None:
    shape = f"{element_type}[2,2]"
    dot = "dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    text = f"HloModule m\nENTRY e {{\n  x = {shape} parameter(0)\n  ROOT y = {shape} {dot}\n}}"
    assert has_ends(parse_hlo(text), 5) is wanted
