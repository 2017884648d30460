"""The hunter: what it draws is valid and follows from its seed, and nothing that judges is lost."""

import json
import os
import re
import signal
from random import Random

import numpy as np
import pytest

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.testing.hunting import worker as workers
from lowtide.testing.hunting.cells import cells_of
from lowtide.testing.hunting.coverage import CellCounts, wished
from lowtide.testing.hunting.hunt import Hunt
from lowtide.testing.hunting.judges import Comparison, Conditions, Court, Finding
from lowtide.testing.hunting.mutations import mutated
from lowtide.testing.hunting.state import HuntState
from lowtide.testing.hunting.summary import summary
from lowtide.testing.hunting.table import MAKERS, REGIONS
from lowtide.testing.hunting.worker import JudgeWorker
from lowtide.testing.hunting.writing import ModuleWish, draw_module
from lowtide.testing.hunting.xla_differences import known_difference
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


def test_every_update_meets_every_reader():
    for _, update, reader in wished()["update"]:
        found = set()
        for seed in range(20):
            found |= draw_module(seed, ModuleWish(update=update, reader=reader)).notes
        assert ("update", update, reader) in found


def test_a_module_follows_from_seed_and_wish():
    wish = ModuleWish("scatter", "f32")
    assert draw_module(5, wish) == draw_module(5, wish)
    assert draw_module(5, wish) != draw_module(6, wish)
    assert mutated(draw_module(5, wish).text, Random(1)) == mutated(
        draw_module(5, wish).text, Random(1)
    )


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
    judgement = Court(GOOD, PLAIN, lambda judge: None).judgement()
    assert judgement.findings == ()
    assert {"evaluator", "native", "plan, scheduled"} <= {judge for judge, _ in judgement.seconds}


def test_a_difference_is_a_finding():
    module = parse_hlo(GOOD)
    court = Court(GOOD, PLAIN, lambda judge: None)
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
    worker = JudgeWorker(60.0 if kind == "crash" else 12.0)
    (finding,) = worker.judge(GOOD, PLAIN).findings
    worker.close()
    assert finding.kind == kind
    assert finding.judge == ("native" if kind == "crash" else "xla")


def test_a_hunt_goes_on_where_it_stopped(tmp_path):
    state = HuntState.opened(tmp_path)
    state.next_seed, state.modules = 7, 6
    state.counts.add([("type", "add", "f32")])
    state.findings["native: wrong"] += 2
    state.last["native: wrong"] = 3
    state.save()
    again = HuntState.opened(tmp_path)
    assert (again.next_seed, again.modules) == (7, 6)
    assert again.counts.reached[("type", "add", "f32")] == 1
    assert again.findings == {"native: wrong": 2}
    assert "| native: wrong | 2 | 3 |" in summary(again)
    assert json.loads((tmp_path / "state.json").read_text())["next_seed"] == 7


def test_a_hunt_counts_what_it_judges_and_keeps_what_it_finds(tmp_path, monkeypatch):
    lines = []
    hunt = Hunt(HuntState.opened(tmp_path), lines.append)
    found = Finding("native", "wrong", "result 0 is 1")

    def judge(text, conditions):
        return workers.Judgement((found,), (), (("native", 0.0),))

    monkeypatch.setattr(hunt.worker, "judge", judge)
    hunt._one(3)
    assert hunt.state.modules == 1
    assert hunt.state.findings == {"native: wrong": 1}
    names = sorted(x.name for x in (tmp_path / "finds").iterdir())
    assert names[0].endswith("-native-least.hlo") and names[1].endswith("-native.hlo")
    parse_hlo((tmp_path / "finds" / names[0]).read_text())


INNER = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


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
    ],
)
def test_xla_is_no_judge_of_what_it_is_known_to_do_otherwise(line: str, is_known: bool) -> None:
    names = {name: shape for shape, name in re.findall(r"([a-z0-9]+\[[0-9,]*\]) (%[ab])", line)}
    given = [
        f"  {x} = {shape} parameter({i})" for i, (x, shape) in enumerate(sorted(names.items()))
    ]
    text = "\n".join(["HloModule m", "ENTRY e {", *given, f"  ROOT r = {line}", "}"])
    assert (known_difference(parse_hlo(text)) is not None) == is_known
