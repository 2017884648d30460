"""What lives at the peak is computed once more behind it, where that is cheap and saves memory."""

from math import inf
from typing import Any

import pytest
from tests.random_modules import MEMORY, random_module

from lowtide import compiler
from lowtide.analysis.dataflow import dataflow
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion import peak_lowering
from lowtide.fusion.cluster import KernelKind
from lowtide.fusion.cluster_graph import ClusterGraph
from lowtide.fusion.epilogues import store_behind_products
from lowtide.fusion.kernel_choices import KernelChoices
from lowtide.fusion.legality import joined_by_all
from lowtide.fusion.live_memory import live_memory
from lowtide.fusion.peak import Estimate, estimated
from lowtide.fusion.peak_lowering import Allowance, PeakLowering
from lowtide.fusion.priority_fusion import fuse_by_priority
from lowtide.fusion.priority_queue import fused_clusters
from lowtide.fusion.recomputing import recompute_behind
from lowtide.fusion.refusal import FusionRefusal
from lowtide.fusion.target_record import CPU_TARGET
from lowtide.ir import Module
from lowtide.ir.clone import clone_module
from lowtide.scheduling.module_scheduler import best_of
from lowtide.testing.check_pass import assert_same_values
from lowtide.verifier import verify

LAYERS = 4
SHAPE = "f32[256,256]"
BYTES = 256 * 256 * 4


def training(*activation: str, reader: str = "negate(a@)") -> Module:
    """Layers h' = activation(h @ w), and a backward pass that reads x = h @ w and the activation a.

    The backward pass reads a by `reader`. @ stands for the number of the layer.
    """
    lines = [f"h0 = {SHAPE} parameter(0)", f"w = {SHAPE} parameter(1)"]
    for i in range(LAYERS):
        product = f"{SHAPE} dot(h{i}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        lines += [f"x{i} = {product}", *[line.replace("@", str(i)) for line in activation]]
        lines.append(f"h{i + 1} = {SHAPE} reverse(a{i}), dimensions={{0}}")
    lines.append(f"g{LAYERS} = {SHAPE} sort(h{LAYERS}), dimensions={{1}}, to_apply=less")
    for i in reversed(range(LAYERS)):
        lines.append(f"v{i} = {SHAPE} multiply(x{i}, g{i + 1})")
        lines.append(f"b{i} = {SHAPE} {reader}".replace("@", str(i)))
        lines.append(f"d{i} = {SHAPE} multiply(v{i}, b{i})")
        product = f"{SHAPE} dot(d{i}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}"
        lines.append(f"g{i} = {product}")
    body = "\n  ".join([*lines[:-1], f"ROOT {lines[-1]}"])
    return parse_hlo(f"HloModule training\n\n{LESS}\nENTRY main {{\n  {body}\n}}\n")


LESS = """less {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = pred[] compare(p, q), direction=LT
}
"""
TANH = f"t@ = {SHAPE} tanh(x@)"


def fused(module: Module, *, with_peak: bool) -> int:
    """Fuse a copy, check it, and return the bytes live at once in our plan of it."""
    copy = clone_module(module)
    fuse_by_priority(copy, best_of if with_peak else None)
    verify(copy)
    assert_same_values(module, copy, seeds=1)
    return compiler.plan(copy, compiler.PlanOptions("input")).report.ladder.live_bytes


def test_a_cheap_value_is_computed_once_more():
    """Without, x and a of each layer live at the peak; with it, x alone."""
    module = training(TANH, f"a@ = {SHAPE} divide(t@, x@)")
    assert fused(module, with_peak=False) >= 2 * LAYERS * BYTES
    assert fused(module, with_peak=True) <= (LAYERS + 4) * BYTES


def test_so_is_a_chain_of_them():
    module = training(TANH, f"y@ = {SHAPE} sine(t@)", f"a@ = {SHAPE} divide(y@, t@)")
    assert fused(module, with_peak=True) <= (LAYERS + 4) * BYTES


def test_what_would_keep_as_much_alive_is_left():
    """The activation is made of what only it reads: to keep that instead saves nothing."""
    ordered = f"y@ = {SHAPE} sort(x@), dimensions={{1}}, to_apply=less"
    module = training(ordered, f"t@ = {SHAPE} tanh(y@)", f"a@ = {SHAPE} divide(t@, y@)")
    assert fused(module, with_peak=True) == fused(module, with_peak=False)


def test_what_an_opaque_operation_reads_later_is_stored():
    ordered = "sort(a@), dimensions={1}, to_apply=less"
    module = training(TANH, f"a@ = {SHAPE} divide(t@, x@)", reader=ordered)
    assert fused(module, with_peak=True) == fused(module, with_peak=False)


def test_the_peak_is_never_raised():
    for seed in range(60):
        module = random_module(seed, MEMORY)
        module.schedule = None
        with_peak, without = [fused(module, with_peak=x) for x in (True, False)]
        assert with_peak <= without * 1.02, seed


@pytest.mark.slow
def test_it_is_the_same_each_time():
    module = random_module(7, MEMORY)
    module.schedule = None
    texts = set()
    for _ in range(3):
        copy = clone_module(module)
        fuse_by_priority(copy, best_of)
        texts.add(str(copy))
    assert len(texts) == 1


def bottlenecks(blocks: int) -> Module:
    """Blocks x' = x + f(x) with a narrow middle; the sum is read by the next f and the next sum."""
    narrow = "f32[256,16]"
    lines = [f"p = {SHAPE} parameter(0)", f"w = {narrow} parameter(1)"]
    lines.append(f"x0 = {SHAPE} sort(p), dimensions={{1}}, to_apply=less")
    for i in range(blocks):
        inner = "lhs_contracting_dims={1}, rhs_contracting_dims="
        lines += [
            f"y{i} = {narrow} dot(x{i}, w), {inner}{{0}}",
            f"z{i} = {SHAPE} dot(y{i}, w), {inner}{{1}}",
            f"e{i} = {SHAPE} sort(z{i}), dimensions={{1}}, to_apply=less",
            f"x{i + 1} = {SHAPE} add(x{i}, e{i})",
        ]
    body = "\n  ".join([*lines[:-1], f"ROOT {lines[-1]}"])
    return parse_hlo(f"HloModule bottlenecks\n\n{LESS}\nENTRY main {{\n  {body}\n}}\n")


def test_a_sum_is_stored_where_its_terms_would_live_longer():
    """Computed by both its readers, a sum would keep its terms alive, which sums are, too."""
    module = bottlenecks(6)
    assert fused(module, with_peak=False) > 2.9 * BYTES
    assert fused(module, with_peak=True) < 2.2 * BYTES


SUM = """add {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = f32[] add(p, q)
}
"""

NORMALIZED = f"""HloModule m

{SUM}
ENTRY main {{
  a = {SHAPE} parameter(0)
  b = {SHAPE} parameter(1)
  w = {SHAPE} parameter(2)
  zero = f32[] constant(0)
  d = {SHAPE} dot(a, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  e = {SHAPE} dot(b, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  s = {SHAPE} add(d, e)
  m = f32[256] reduce(s, zero), dimensions={{0}}, to_apply=add
  ms = {SHAPE} broadcast(m), dimensions={{1}}
  c = {SHAPE} subtract(s, ms)
  q = {SHAPE} multiply(c, c)
  v = f32[256] reduce(q, zero), dimensions={{0}}, to_apply=add
  vs = {SHAPE} broadcast(v), dimensions={{1}}
  o = {SHAPE} divide(c, vs)
  ROOT r = {SHAPE} dot(o, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""


def test_what_all_readers_make_of_a_product_is_stored_by_its_kernel():
    """The sum lies over one of its terms; else both live until the last of its readers."""
    module = parse_hlo(NORMALIZED)
    graph = ClusterGraph(module.entry, CPU_TARGET)
    named = module.entry.instructions
    total, first, second = named["s"], named["d"], named["e"]
    joints = joined_by_all(graph.owner[total], graph.reading(total), CPU_TARGET)
    assert not isinstance(joints, FusionRefusal)
    graph.absorb(graph.owner[total], joints)
    assert {x.root for x in graph.reading(first)} == {x.root for x in graph.reading(second)}
    before = estimate_of(graph)
    assert store_behind_products(graph, before) == 1
    after = estimate_of(graph)
    assert graph.owner[total].kind is KernelKind.CONTRACTION
    assert (first in graph.owner) != (second in graph.owner)
    assert after.peak_bytes <= before.peak_bytes - BYTES


CELL_TWICE = """HloModule m
ENTRY e {
  h = f32[1,17] parameter(0)
  c = f32[1,17] parameter(1)
  x = f32[1,68] parameter(2)
  y = f32[1,68] parameter(3)
  w = f32[17,68] parameter(4)
  d = f32[1,68] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[1,68] add(x, d)
  o = f32[1,17] slice(a), slice={[0:1],[51:68]}
  g = f32[1,17] slice(a), slice={[0:1],[34:51]}
  oc = f32[1,17] divide(c, o)
  gc = f32[1,17] multiply(c, g)
  n = f32[1,17] add(c, gc)
  e = f32[1,68] dot(oc, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[1,68] add(y, e)
  p = f32[1,17] slice(b), slice={[0:1],[51:68]}
  q = f32[1,17] slice(b), slice={[0:1],[17:34]}
  pc = f32[1,17] divide(c, p)
  qc = f32[1,17] divide(c, q)
  m = f32[1,17] multiply(qc, n)
  ROOT r = (f32[1,17], f32[1,17]) tuple(pc, m)
}"""


def test_a_product_whose_operand_is_stored_otherwise_is_looked_at_as_it_is_then() -> None:
    """Both products live at one peak; the second reads what its operand is made of."""
    graph = fused_clusters(parse_hlo(CELL_TWICE).entry, CPU_TARGET)
    before = estimate_of(graph)
    assert store_behind_products(graph, before) == 2
    assert all(
        value in graph.owner or value in graph.alone
        for cluster in graph.owner.values()
        for value in cluster.inputs
    )
    assert estimate_of(graph).peak_bytes <= before.peak_bytes


def estimate_of(graph: ClusterGraph) -> Estimate:
    """The peak of clusters, in an order by the simple schedulers."""
    return estimated(
        live_memory(graph, dataflow(graph.computation)[graph.computation], (), {}), best_of
    )


def test_what_is_made_of_a_larger_value_at_the_peak_is_computed_where_it_is_read():
    """Both halves of a product are read at the peak anyway, which what is made of them adds to."""
    module = parse_hlo(f"""HloModule m

ENTRY main {{
  a = {SHAPE} parameter(0)
  w = f32[256,512] parameter(1)
  u = f32[256,8] parameter(2)
  d = f32[256,512] dot(a, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  e = {SHAPE} slice(d), slice={{[0:256],[0:256]}}
  f = {SHAPE} slice(d), slice={{[0:256],[256:512]}}
  t = {SHAPE} tanh(e)
  s = {SHAPE} sine(t)
  c = {SHAPE} cosine(s)
  x = {SHAPE} multiply(c, f)
  ROOT r = f32[256,8] dot(x, u), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
""")
    assert fused(module, with_peak=False) >= 3 * BYTES
    assert fused(module, with_peak=True) <= 2 * BYTES + BYTES // 16


def members_at(graph: ClusterGraph, estimate: Estimate, price: float) -> tuple[float, object]:
    """What is computed where at a price for a byte, and from which price on that is otherwise."""
    trial = graph.copy()
    found = recompute_behind(trial, estimate, price)
    return found.next_price, {x: list(cluster.members) for x, cluster in trial.owner.items()}


def test_below_the_next_price_the_same_is_computed_once_more() -> None:
    module = training(*[f"{x}@ = {SHAPE} tan({y}@)" for x, y in ("tx", "kt", "yk", "ny", "an")])
    flow = dataflow(module.entry)[module.entry]
    graph = fused_clusters(module.entry, CPU_TARGET)
    estimate = estimated(live_memory(graph, flow, (), {}), best_of)
    next_price, members = members_at(graph, estimate, 1e-15)
    assert 1e-15 < next_price < inf
    assert members_at(graph, estimate, next_price * (1 - 1e-8)) == (next_price, members)
    assert members_at(graph, estimate, next_price * (1 + 1e-8))[1] != members


@pytest.mark.parametrize("classes", [1000, 4096])
def test_a_loss_needs_one_array_of_logits(classes) -> None:
    """It reads them before exponentials take their place, or the sum computes what it reads.

    What it takes of them is stored, of all that it computes of that the first part.
    """
    jax = pytest.importorskip("jax")
    numpy = jax.numpy

    def loss(w: Any, x: Any, labels: Any) -> Any:
        likely = jax.nn.log_softmax(numpy.tanh(x) @ w)
        return -numpy.mean(numpy.take_along_axis(likely, labels[:, None], -1))

    shapes = [((32, classes), "float32"), ((512, 32), "float32"), ((512,), "int32")]
    arguments = [jax.ShapeDtypeStruct(*x) for x in shapes]
    lowered = jax.jit(jax.value_and_grad(loss, (0, 1))).lower(*arguments)
    module = parse_hlo(lowered.compiler_ir("hlo").as_hlo_text())
    logits = 512 * classes * 4
    assert compiler.plan(module).report.ladder.live_bytes < 1.2 * logits


READ_TWICE = """HloModule m
ENTRY e {
  x = f32[64,64] parameter(0)
  w = f32[64,64] parameter(1)
  d = f32[64,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  n = f32[64,64] negate(d)
  first = f32[64,64] add(n, d)
  second = f32[64,64] multiply(n, d)
  ROOT r = (f32[64,64], f32[64,64]) tuple(first, second)
}"""


def test_readers_are_not_made_again_for_what_a_product_cannot_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each reads the product besides: to find that by making them would take their square."""
    module = parse_hlo(READ_TWICE)
    graph = ClusterGraph(module.entry, CPU_TARGET)
    product, value = [module.entry.instructions[x] for x in "dn"]
    joints = joined_by_all(graph.owner[value], graph.reading(value), CPU_TARGET)
    assert not isinstance(joints, FusionRefusal)
    graph.absorb(graph.owner[value], joints)
    made = []
    rebuilt = ClusterGraph._rebuilt

    def noted(self: ClusterGraph, root: Any, members: Any) -> Any:
        made.append(root)
        return rebuilt(self, root, members)

    monkeypatch.setattr(ClusterGraph, "_rebuilt", noted)
    assert not graph.split(value, graph.reading(product), graph.owner[product])
    assert made == [value]
    assert graph.split(value, graph.reading(product))


WIDE_SIGNS = f"""
HloModule signs

{LESS}
ENTRY main {{
  p = f32[128,128] parameter(0)
  w = f32[128,128] parameter(1)
  sorted = f32[128,128] sort(p), dimensions={{1}}, to_apply=less
  twice = f32[128,128] add(p, p)
  part = f32[128,128] divide(sorted, twice)
  less_part = f32[128,128] negate(part)
  unread = f32[128,128] dot(less_part, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  sign = f32[128,128] sign(twice)
  again = f32[128,128] sign(sign)
  unread_too = f32[128,128] dot(again, w), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  product = f32[128,128] dot(less_part, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  whole = f32[128,128] floor(product)
  most = f32[128,128] maximum(whole, sign)
  second = f32[128,128] dot(most, w), lhs_contracting_dims={{0}}, rhs_contracting_dims={{1}}
  a = f32[128,128] add(second, most)
  b = f32[128,128] add(a, again)
  c = f32[128,128] divide(b, less_part)
  d = f32[128,128] add(c, sign)
  e = f32[128,128] divide(d, sorted)
  third = f32[128,128] dot(e, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  f = f32[128,128] multiply(third, p)
  ROOT g = f32[128,128] abs(f)
}}
"""


def lowered_peak(module: Module, monkeypatch: pytest.MonkeyPatch, *, always_spreads: bool) -> int:
    """Return the least peak of clusters, where values may be left to late readers or not."""
    peaks = []
    settled = PeakLowering._settled

    def kept(self: PeakLowering, found: Any, *given: Any) -> Any:
        found = found._replace(may_spread=True) if always_spreads else found
        peaks.append(settled(self, found, *given))
        return peaks[-1]

    with monkeypatch.context() as patch:
        patch.setattr(PeakLowering, "_settled", kept)
        KernelChoices(module, best_of, CPU_TARGET).within(Allowance(0.0))
    return min([x.best.peak_bytes for x in peaks])


def test_late_readers_alone_compute_a_value_where_that_needs_less(monkeypatch) -> None:
    """Early readers could compute it, too, in no more time, and then the peak would be higher."""
    monkeypatch.setattr(peak_lowering, "_LARGE", 0)
    module = parse_hlo(WIDE_SIGNS)
    whole = lowered_peak(module, monkeypatch, always_spreads=True)
    assert lowered_peak(module, monkeypatch, always_spreads=False) < whole
    assert fused(module, with_peak=True) < whole
