"""`lowtide plan --assigner` and `lowtide run --order`."""

import json

import pytest

MODULE = """HloModule m, buffer_donor={ (0, {}) }

layer {
  p = f32[64]{0} parameter(0)
  s = f32[64]{0} sine(p)
  c = f32[64]{0} reverse(p), dimensions={0}
  ROOT a = f32[64]{0} add(s, c)
}

ENTRY main {
  x = f32[64]{0} parameter(0)
  y = f32[64]{0} call(x), to_apply=layer
  d = f32[64]{0} reverse(x), dimensions={0}
  e = f32[64]{0} cosine(d)
  z = f32[64]{0} call(y), to_apply=layer
  ROOT r = (f32[64]{0}, f32[64]{0}) tuple(z, e)
}
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "m.hlo"
    path.write_text(MODULE)
    return path


@pytest.mark.parametrize("assigner", ["arena", "xla", "xla1.14"])
@pytest.mark.parametrize("suffix", ["json", "pb"])
def test_every_assigners_plan_runs_from_its_file(lowtide, path, tmp_path, assigner, suffix):
    file = tmp_path / f"plan.{suffix}"
    assert lowtide("plan", path, "--assigner", assigner, "--json", "-o", file) == 0
    document = json.loads(lowtide.out)
    assert document["assigner"] == assigner
    kinds = {x["kind"] for x in document["allocations"]}
    assert ("output" in kinds) == (assigner != "arena")
    ladder = document["ladder"]
    assert ladder["bound_bytes"] <= ladder["live_bytes"] <= ladder["arena_bytes"]
    total = sum(x["bytes"] for x in document["peak"]["buffers"])
    assert total == ladder["live_bytes"] + document["alias_bytes"]
    assert document["alias_bytes"] == 256
    assert lowtide("run", path, "--plan", file, "--sanitize") == 0
    assert lowtide("verify", file) == 0


def test_the_screen_compares_with_our_own_plan(lowtide, path):
    assert lowtide("plan", path, "--assigner", "xla") == 0
    (line,) = [x for x in lowtide.out.splitlines() if x.startswith("Beyond the arguments")]
    theirs, ours = [int(x.replace(",", "")) for x in line.split() if x[0].isdigit()]
    assert ours <= theirs
    assert lowtide("plan", path, "--assigner", "best") == 1
    assert "no assigner 'best'; there are: arena, xla, xla1.14" in lowtide.err


def test_plans_for_less_order_need_no_less(lowtide, path):
    sizes = []
    for order in ("sequential", "launch", "dependency"):
        assert lowtide("run", path, "--order", order, "--sanitize", "--json") == 0
        document = json.loads(lowtide.out)
        assert (document["engine"], document["order"]) == ("arena", order)
        sizes.append(document["arena_bytes"])
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    assert lowtide("run", path, "--order", "launch") == 0
    assert "overlapping as launch allows" in lowtide.out


def test_orders_that_cannot_be(lowtide, path, tmp_path):
    assert lowtide("run", path, "--order", "random") == 1
    assert "no order 'random'; there are: sequential, launch, dependency" in lowtide.err
    plan = tmp_path / "plan.json"
    assert lowtide("plan", path, "-o", plan) == 0
    assert lowtide("run", path, "--order", "launch", "--plan", plan) == 1
    assert "leave out --plan" in lowtide.err
