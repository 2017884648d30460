"""`lowtide verify CERTIFICATE`: the three answers, and what is taken for a certificate."""

import gzip
import json

import pytest
from tests.budgeting.chains import training_step
from tests.certificate.cases import signed
from tests.certificate.graphs import bulky, memory_graph_of

from lowtide.certificate.modules import differences, module_orders
from lowtide.certificate.orders import Ordered, budget_certificate, order_certificate
from lowtide.compiler import plan
from lowtide.compiler.certificates import arena_of, certificate_of, scheduled_plan
from lowtide.frontend.files import read_input
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.planning.certificates import certificate_text, offsets_certificate
from lowtide.planning.plans import arena_packing
from lowtide.planning.problem import TensorUsageRecord, packing_problem
from lowtide.scheduling.proof import CutBound


@pytest.fixture
def certificate(tmp_path):
    """Return a function that writes the certificate of two buffers that live together."""

    def write(second=4):
        problem = packing_problem([TensorUsageRecord(4, 0, 1), TensorUsageRecord(4, 1, 2)])
        document = offsets_certificate(problem, arena_packing(problem, [0, second]))
        path = tmp_path / "certificate.json"
        path.write_text(certificate_text(document))
        return path

    return write


def test_a_plan_that_is_optimal(lowtide, certificate) -> None:
    assert lowtide("verify", certificate()) == 0
    assert lowtide.out == "valid and optimal: 8 bytes, and no plan is smaller\n"
    assert not lowtide.err


def test_a_plan_that_may_be_improved(lowtide, certificate) -> None:
    assert lowtide("verify", certificate(second=8)) == 2
    assert lowtide.out == "valid, bound not certified: 12 bytes; 8 bytes are needed\n"
    assert not lowtide.err


def test_a_plan_that_is_wrong(lowtide, certificate) -> None:
    path = certificate(second=0)
    assert lowtide("verify", path) == 4
    assert lowtide.out == "rejected: buffers 0 and 1 overlap at step 1\n"
    assert f"{path}: the certificate is rejected" in lowtide.err


@pytest.mark.parametrize("second", [0, 4, 8])
def test_the_answer_as_json(lowtide, certificate, second) -> None:
    status = lowtide("verify", certificate(second), "--json")
    document = json.loads(lowtide.out)
    assert list(document) == ["answer", "detail", "size", "bound"]
    assert document["answer"] == {
        0: "valid and optimal", 2: "valid, bound not certified", 4: "rejected",
    }[status]  # fmt: skip


def test_a_compressed_certificate(lowtide, certificate) -> None:
    path = certificate()
    packed = path.with_suffix(".json.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert lowtide("verify", packed) == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("lowtide.certificate/2", "lowtide.plan/1"),
        ('"evidence"', '"evidencf"'),
        ('"height":8', '"height":7'),
        ('"height":8', '"height":8,'),
        ('"tree":[1]', '"tree":[\x01]'),
        ('"tree":[1]', '"tree":[é]'),
    ],
)
def test_damage_does_not_make_it_something_else(lowtide, certificate, old, new) -> None:
    path = certificate()
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new), encoding="latin-1")
    assert lowtide("verify", path) == 4
    assert lowtide.out.startswith("rejected: ")


def test_a_certificate_goes_alone(lowtide, certificate) -> None:
    path = certificate()
    assert lowtide("verify", path, path) == 1
    assert "a certificate of kind offsets goes without MODULE" in lowtide.err
    assert lowtide("verify", path, "--capacity", 9) == 1
    assert "a certificate goes without --capacity" in lowtide.err


@pytest.fixture
def ordered(tmp_path):
    """Return the certificate of a module as it compiles, and the file of that text."""
    made = plan(parse_hlo(LOOP))
    document, text = certificate_of(made), str(made.module)
    (tmp_path / "order.json").write_text(certificate_text(document))
    (tmp_path / "scheduled.hlo").write_text(text)
    return tmp_path / "order.json", tmp_path / "scheduled.hlo", document


LOOP = """HloModule m

body {
  state = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  x = f32[64] get-tuple-element(state), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[64] exponential(x)
  z = f32[64] multiply(x, y)
  ROOT out = (s32[], f32[64]) tuple(next, z)
}

condition {
  state = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  most = s32[] constant(4)
  ROOT less = pred[] compare(i, most), direction=LT
}

ENTRY main {
  a = f32[64] parameter(0)
  zero = s32[] constant(0)
  b = f32[64] negate(a)
  begin = (s32[], f32[64]) tuple(zero, b)
  loop = (s32[], f32[64]) while(begin), condition=condition, body=body
  r = f32[64] get-tuple-element(loop), index=1
  ROOT s = f32[64] add(r, a)
}
"""


def test_the_module_of_an_order(lowtide, ordered, tmp_path) -> None:
    certificate, text, _ = ordered
    source = tmp_path / "m.hlo"
    source.write_text(LOOP)
    for module in (text, source):
        assert lowtide("verify", certificate, module) in (0, 2)
        assert lowtide.out.startswith("valid")
    source.write_text(LOOP.replace("f32[64]", "f32[65]"))
    assert lowtide("verify", certificate, source) == 4
    assert "is not what it is about" in lowtide.out
    assert "main: other bytes" in lowtide.out
    assert "one whose search ended early may be another" in lowtide.out
    assert lowtide("verify", certificate, tmp_path / "order.json") == 1
    text.write_text(text.read_text().replace("f32[64]", "f32[65]"))
    assert lowtide("verify", certificate, text) == 4
    assert "made anew" not in lowtide.out


def test_a_scheduled_module_that_was_optimized_anew(lowtide, tmp_path) -> None:
    source, made = tmp_path / "m.hlo", tmp_path / "m.certificate.json"
    source.write_text(str(plan(parse_hlo(LOOP)).module))
    assert lowtide("plan", source, "-o", made, "--reoptimize") == 0
    assert lowtide("verify", made, source, "--reoptimize") in (0, 2)


def test_a_budget_of_a_memory_graph_is_not_that_of_a_module(lowtide, tmp_path) -> None:
    """Its ticks are those of a file: of a module they come from what it runs."""
    made = plan(parse_hlo(LOOP))
    orders, budget = module_orders(made.module, {}), made.report.ladder.arena_bytes
    document = budget_certificate(orders, str(made.module).encode(), budget, [], packed=False)
    certificate, source = tmp_path / "c.json", tmp_path / "m.hlo"
    certificate.write_text(certificate_text(document))
    source.write_text(LOOP)
    assert lowtide("verify", certificate) == 0
    assert lowtide("verify", certificate, source) == 4
    assert "it is about the order of a memory graph, not a module" in lowtide.out


def test_another_plan_within_the_budget(lowtide, tmp_path) -> None:
    made, source = tmp_path / "m.certificate.json", tmp_path / "m.hlo"
    source.write_text(str(training_step(layers=5)))
    assert lowtide("plan", source, "-o", made, "--effort", "fast", "--budget", "9KiB") == 0
    assert lowtide("verify", made, source, "--effort", "fast") in (0, 2)
    document = json.loads(made.read_bytes())
    document["plan"]["problem"]["text"] = "0" * 64
    made.write_text(certificate_text(signed(document)))
    assert lowtide("verify", made, source, "--effort", "fast") == 4
    assert "the plan is that of another text; the plan is made anew" in lowtide.out


def test_a_plan_writes_its_certificate(lowtide, tmp_path) -> None:
    source, made = tmp_path / "m.hlo", tmp_path / "m.certificate.json"
    source.write_text(LOOP)
    assert lowtide("plan", source, "-o", made, "--json") == 0
    ladder = json.loads(lowtide.out)["ladder"]
    assert lowtide("verify", made, source, "--json") in (0, 2)
    verdict = json.loads(lowtide.out)
    assert (verdict["bound"], verdict["size"]) == (ladder["bound_bytes"], ladder["arena_bytes"])
    assert lowtide("plan", source, "-o", made, "--assigner", "xla") == 1
    assert "a certificate is of a plan by --assigner arena" in lowtide.err


def test_the_certificate_of_a_text_with_comments(lowtide, ordered, tmp_path) -> None:
    """The digest of the printed text counts where the file has another one."""
    certificate, text, _ = ordered
    (tmp_path / "commented.hlo").write_text("// first\n" + text.read_text())
    assert lowtide("verify", certificate, tmp_path / "commented.hlo") in (0, 2)


def test_a_memory_graph_writes_its_certificate(lowtide, tmp_path) -> None:
    graph, made = tmp_path / "g.json", tmp_path / "g.certificate.json"
    graph.write_text(json.dumps(bulky()))
    assert lowtide("plan", graph, "-o", made) == 0
    assert lowtide("verify", made, graph) == 0
    assert lowtide.out == "valid and optimal: 16 bytes, and no plan is smaller\n"
    assert lowtide("plan", graph, "-o", made, "--budget", "14B") == 0
    assert lowtide("verify", made, graph) in (0, 2)
    assert "ticks of 1e-13 s" in lowtide.out
    assert lowtide("plan", graph, "-o", made, "--budget", "1B") == 2
    assert lowtide("verify", made, graph) == 0
    assert lowtide.out == "valid and optimal: no plan fits\n"


@pytest.mark.parametrize("field", ["bytes", "kept", "order"])
def test_facts_that_are_not_those_of_the_module(ordered, field) -> None:
    """A certificate that is right by itself, of another graph under the digest of the module."""
    _, text, document = ordered
    graph, plan = document["problem"]["graphs"][-1], document["plan"]
    made = scheduled_plan(read_input(str(text)).module)
    computations, arena = module_orders(made.module, {}), arena_of(made).rows
    assert differences(document, computations, arena) == []
    if field == "bytes":
        graph["bytes"][0] += 1
    if field == "kept":
        graph["kept"] = []
    if field == "order":
        plan["orders"][-1]["steps"].reverse()
    (found,) = differences(document, computations, arena)
    assert f"main: other {field}" in found or "main: another order" in found


def test_a_memory_graph(lowtide, tmp_path) -> None:
    document = bulky()
    text = json.dumps(document)
    (tmp_path / "g.json").write_text(text)
    graph = memory_graph_of(document)
    ordered = Ordered("bulky", graph, [0, 1, 2, 3], CutBound(0, 2))
    made = order_certificate([ordered], text.encode())
    (tmp_path / "c.json").write_text(certificate_text(made))
    assert lowtide("verify", tmp_path / "c.json", tmp_path / "g.json") == 0
    assert lowtide.out == "valid and optimal: 16 bytes, and no plan is smaller\n"
    (tmp_path / "g.json").write_text(text + "\n")
    assert lowtide("verify", tmp_path / "c.json", tmp_path / "g.json") == 4
