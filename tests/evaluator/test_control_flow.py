import numpy as np
import pytest
from tests.evaluator.against_xla import run_text

SCALAR_BODY = "HloModule m\n"


def branches(count, index, *, predicate=False):
    """The value that a conditional picks among the constants 0, 1, ... of its branches."""
    parts = [
        f"b{i} {{\n p{i} = s32[] parameter(0)\n ROOT r{i} = s32[] constant({i})\n}}"
        for i in range(count)
    ]
    if predicate:
        attributes = "true_computation=b0, false_computation=b1"
    else:
        attributes = f"branch_computations={{{', '.join(f'b{i}' for i in range(count))}}}"
    kind = "pred" if predicate else "s32"
    entry = f"""ENTRY e {{
      i = {kind}[] parameter(0)
      z = s32[] constant(9)
      ROOT r = s32[] conditional(i, {", ".join("z" * count)}), {attributes}
    }}"""
    (found,) = run_text("\n".join(["HloModule m", *parts, entry]), index)
    return int(found)


@pytest.mark.parametrize(("index", "chosen"), [(0, 0), (2, 2), (3, 2), (-1, 2)])
def test_an_index_out_of_range_takes_the_last_branch(index, chosen):
    assert branches(3, np.array(index, np.int32)) == chosen


def test_the_first_branch_is_for_true():
    assert branches(2, np.array(True), predicate=True) == 0
    assert branches(2, np.array(False), predicate=True) == 1


LOOP = """HloModule m
body {{
  s = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[2] get-tuple-element(s), index=1
  k = s32[] constant({step})
  j = s32[] add(i, k)
  y = f32[2] add(x, x)
  ROOT t = (s32[], f32[2]) tuple(j, {carried})
}}
cond {{
  s = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(10)
  ROOT r = pred[] compare(i, n), direction=LT
}}
ENTRY e {{
  z = s32[] constant(0)
  p = f32[2] parameter(0)
  t = (s32[], f32[2]) tuple(z, p)
  {entry}
}}"""


def test_a_loop_runs_until_its_condition_fails():
    entry = "ROOT w = (s32[], f32[2]) while(t), condition=cond, body=body"
    text = LOOP.format(step=1, carried="y", entry=entry)
    count, x = run_text(text, np.array([1, 3], np.float32))
    assert int(count) == 10
    assert x.tolist() == [1024, 3072]


def test_a_loop_that_changes_nothing_ends_in_its_state():
    entry = "ROOT w = (s32[], f32[2]) while(t), condition=cond, body=body"
    text = LOOP.format(step=0, carried="x", entry=entry)
    count, x = run_text(text, np.array([1, 3], np.float32))
    assert int(count) == 0
    assert x.tolist() == [1, 3]


def test_a_loop_that_no_result_depends_on_is_not_run():
    entry = """w = (s32[], f32[2]) while(t), condition=cond, body=body
      ROOT r = f32[2] negate(p)"""
    text = LOOP.format(step=0, carried="y", entry=entry)
    (found,) = run_text(text, np.array([1, 3], np.float32))
    assert found.tolist() == [-1, -3]


def test_ten_thousand_iterations_do_not_deepen_the_stack():
    text = LOOP.format(
        step=1, carried="x", entry="ROOT w = (s32[], f32[2]) while(t), condition=cond, body=body"
    ).replace("constant(10)", "constant(10000)")
    count, _ = run_text(text, np.zeros(2, np.float32))
    assert int(count) == 10000


def test_calls_fusions_and_asynchronous_calls_run_their_computation():
    text = """HloModule m
    double {
      p = f32[2] parameter(0)
      ROOT r = f32[2] add(p, p)
    }
    ENTRY e {
      p = f32[2] parameter(0)
      c = f32[2] call(p), to_apply=double
      f = f32[2] fusion(c), kind=kLoop, calls=double
      s = ((f32[2]), f32[2], u32[]) async-start(f), calls=double
      u = ((f32[2]), f32[2], u32[]) async-update(s)
      ROOT d = f32[2] async-done(u)
    }"""
    (found,) = run_text(text, np.array([1, 2], np.float32))
    assert found.tolist() == [8, 16]


def test_copies_tokens_and_barriers_pass_values_on():
    text = """HloModule m
    ENTRY e {
      p = f32[2] parameter(0)
      s = (f32[2], f32[2], u32[]) copy-start(p)
      d = f32[2] copy-done(s)
      k = token[] after-all()
      a = f32[2] add-dependency(d, k)
      t = (f32[2], f32[2]) tuple(a, p)
      b = (f32[2], f32[2]) opt-barrier(t)
      ROOT r = f32[2] get-tuple-element(b), index=0
    }"""
    (found,) = run_text(text, np.array([1, 2], np.float32))
    assert found.tolist() == [1, 2]


def test_a_loop_that_draws_until_it_succeeds_goes_on_while_its_state_stays():
    text = """HloModule m
    more { s = (s32[]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      z = s32[] constant(0)
      ROOT r = pred[] compare(i, z), direction=EQ }
    body { s = (s32[]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      low = f32[] constant(0)
      high = f32[] constant(1)
      x = f32[] rng(low, high), distribution=rng_uniform
      most = f32[] constant(0.9)
      is_done = pred[] compare(x, most), direction=GT
      one = s32[] constant(1)
      n = s32[] select(is_done, one, i)
      ROOT t = (s32[]) tuple(n) }
    ENTRY e { z = s32[] constant(0)
      t = (s32[]) tuple(z)
      w = (s32[]) while(t), condition=more, body=body
      ROOT r = s32[] get-tuple-element(w), index=0 }"""
    for seed in range(4):
        (found,) = run_text(text, seed=seed)
        assert found == 1
