"""Bytes moved and kernels started by a program."""

from benchmarks.module_traffic import Traffic, module_traffic

from lowtide.frontend.hlo_text import parse_hlo

SCALE = """
scaled {
  p = f32[64] parameter(0)
  two = f32[] constant(2)
  twos = f32[64] broadcast(two), dimensions={}
  ROOT r = f32[64] multiply(p, twos)
}
"""


def traffic(computations: str, entry: str) -> Traffic:
    return module_traffic(parse_hlo(f"HloModule m\n{computations}\nENTRY e {{\n{entry}\n}}\n"))


def test_a_fusion_is_one_kernel_that_reads_and_writes_once() -> None:
    entry = "x = f32[64] parameter(0)\nROOT f = f32[64] fusion(x), kind=kLoop, calls=scaled"
    assert traffic(SCALE, entry) == Traffic(512, 1)


def test_operations_count_operands_and_results_and_arguments_count_nothing() -> None:
    entry = "x = f32[64] parameter(0)\ny = f32[64] negate(x)\nROOT z = f32[64] add(x, y)"
    assert traffic("", entry) == Traffic(512 + 768, 2)


BODY = """
body {
  state = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  x = f32[64] get-tuple-element(state), index=1
  y = f32[64] negate(x)
  ROOT next = (s32[], f32[64]) tuple(i, y)
}

condition {
  state = (s32[], f32[64]) parameter(0)
  ROOT go = pred[] constant(true)
}
"""


def test_loops_count_each_iteration_that_is_known() -> None:
    loop = """
      init = (s32[], f32[64]) parameter(0)
      ROOT w = (s32[], f32[64]) while(init), condition=condition, body=body"""
    once = traffic(BODY, loop)
    known = f'{loop}, backend_config={{"known_trip_count":{{"n":"5"}}}}'
    assert traffic(BODY, known) == once.times(5)
    assert once.kernels == 1


BRANCHES = """
little {
  p = f32[8] parameter(0)
  ROOT r = f32[8] negate(p)
}

much {
  p = f32[8] parameter(0)
  q = f32[8] negate(p)
  ROOT r = f32[8] multiply(q, q)
}
"""


def test_a_conditional_counts_its_dearest_branch() -> None:
    entry = """
      p = pred[] parameter(0)
      x = f32[8] parameter(1)
      ROOT c = f32[8] conditional(p, x, x), true_computation=little, false_computation=much"""
    assert traffic(BRANCHES, entry).kernels == 2
    swapped = entry.replace("little", "x").replace("much", "little").replace("=x", "=much")
    assert traffic(BRANCHES, swapped) == traffic(BRANCHES, entry)


def test_a_custom_call_counts_operands_and_results() -> None:
    entry = (
        "x = f32[64] parameter(0)\n"
        'ROOT t = (f32[8], s32[8]) custom-call(x), custom_call_target="any"'
    )
    assert traffic("", entry) == Traffic(256 + 64, 1)
