"""Programs that JAX compiled: the cases of the issues that asked for this report."""

from types import SimpleNamespace

import pytest

import lowtide
from lowtide.autopsy.compilers import RebuiltCompiler
from lowtide.autopsy.report import PlanReport
from lowtide.frontend.hlo_proto import write_hlo_module_proto
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import LowtideError

jax = pytest.importorskip("jax")
jnp, lax = jax.numpy, jax.lax

MEMORY_ORDER = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}


def pairwise_bincounts(columns, sizes):
    """Count the pairs of values of each two columns; each count needs an index as long as they."""
    counts = []
    for first, column in zip(sizes, columns, strict=True):
        for second, other in zip(sizes, columns, strict=True):
            index = jnp.ravel_multi_index((column, other), (first, second), mode="clip")
            counts.append(jnp.bincount(index, length=first * second).reshape(first, second))
    return tuple(counts)


@pytest.fixture(scope="module")
def lowered():
    """openxla/xla#35719, smaller: 16 pairs of 4 columns."""
    columns = tuple([jax.ShapeDtypeStruct((20_000,), jnp.int32)] * 4)
    return jax.jit(pairwise_bincounts, static_argnums=1).lower(columns, (3, 4, 5, 6))


def check_bincounts(report: PlanReport, temp_bytes: int) -> None:
    """Check that the order is named, and that the option which cures it was tried."""
    assert report.memory.temp_bytes == temp_bytes
    assert report.autopsy.cause == "order"
    assert report.autopsy.alternatives.plan > 5 * report.autopsy.other_order_arena
    best = min(report.autopsy.helpful, key=lambda x: x.verified_bytes)
    assert best.code == (
        '.compile(compiler_options={"xla_cpu_scheduler_type": '
        '"CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"})'
    )
    assert best.verified_bytes <= report.autopsy.other_order_arena * 1.1
    assert best.code in str(report)


def test_order_is_named_and_the_option_compiled_from_what_was_lowered(lowered):
    compiled = lowered.compile()
    report = lowtide.explain(compiled, lowered=lowered)
    check_bincounts(report, compiled.memory_analysis().temp_size_in_bytes)
    cured = lowered.compile(compiler_options=MEMORY_ORDER).memory_analysis()
    verified = {x.code: x.verified_bytes for x in report.autopsy.remedies}
    outputs = report.memory.output_bytes
    assert min(verified.values()) == cured.temp_size_in_bytes + outputs
    assert "lowered program" in report.autopsy.remedies[1].how


def test_the_option_is_compiled_from_a_compiled_program_alone(lowered):
    compiled = lowered.compile()
    report = lowtide.explain(compiled)
    check_bincounts(report, compiled.memory_analysis().temp_size_in_bytes)
    assert "rebuilt" in report.autopsy.remedies[1].how


def test_donation_is_found_and_compiled():
    shape = jax.ShapeDtypeStruct((256, 256), jnp.float32)
    lowered = jax.jit(lambda params, step: (params * 2 - step, step.sum())).lower(shape, shape)
    report = lowtide.explain(lowered)
    (remedy,) = report.autopsy.helpful
    assert remedy.code == 'jax.jit(f, donate_argnames=["params"])'
    assert remedy.predicted_bytes < 1000
    assert remedy.verified_bytes < 1000
    assert report.autopsy.alternatives.plan > 262144


def conditional_in_scan(params, xs):
    """jax#38145: every fourth step changes the parameters, the others pass them through."""

    def step(carry, x):
        params, count = carry
        update = lambda p: jax.tree.map(lambda w: w - 0.01 * w * x, p)  # noqa: E731
        return (lax.cond(count % 4 == 0, update, lambda p: p, params), count + 1), None

    return lax.scan(step, (params, jnp.int32(0)), xs)[0]


def pops(carry, positions):
    """jax#17845: what stands behind a position moves forward by one place."""

    def pop(carry, position):
        rest = lax.dynamic_slice(carry, (position + 1,), (256,))
        return lax.dynamic_update_slice(carry, rest, (position,)), carry[position]

    return lax.scan(pop, carry, positions)


def test_a_conditional_that_passes_its_carry_through_stays_in_place():
    params = {"w": jax.ShapeDtypeStruct((64, 64), jnp.float32)}
    lowered = jax.jit(conditional_in_scan).lower(params, jax.ShapeDtypeStruct((8,), jnp.float32))
    report = lowtide.explain(lowered)
    (loop,) = report.autopsy.loops
    assert loop.in_place
    assert f"Loops change their state in place: {loop.loop}." in str(report)


def test_a_carry_that_is_sliced_and_updated_is_copied_for_nothing():
    carry = jax.ShapeDtypeStruct((10_000,), jnp.float32)
    lowered = jax.jit(pops).lower(carry, jax.ShapeDtypeStruct((8,), jnp.int32))
    report = lowtide.explain(lowered)
    (loop,) = report.autopsy.loops
    assert loop.in_place
    assert loop.planned_bytes >= 40_000
    assert "its state could be changed in place" in " ".join(str(report).split())
    assert report.autopsy.alternatives.plan >= report.autopsy.other_order_arena + 39_000


def test_what_xla_refuses_is_said():
    text = """HloModule refused
    ENTRY main { x = f32[4] parameter(0)
      ROOT y = f32[4] custom-call(x), custom_call_target="no_such_function" }"""
    (outcome,) = RebuiltCompiler(parse_hlo(text)).compile([{}])
    assert outcome.error
    (outcome,) = RebuiltCompiler(parse_hlo(text.replace("refused", "m, num_partitions=2"))).compile(
        [{}]
    )
    assert outcome.error == "it is a program for several devices"


def test_an_unknown_option_is_said():
    text = "HloModule m\nENTRY main { x = f32[4] parameter(0) ROOT y = f32[4] negate(x) }"
    good, bad = RebuiltCompiler(parse_hlo(text)).compile([{}, {"no_such_option": "1"}])
    assert not good.error
    assert "no_such_option" in bad.error


def test_programs_that_libraries_wrap_are_those_inside():
    """As `filter_jit` of equinox has them: stages of its own, with JAX's as attributes."""
    x = jax.ShapeDtypeStruct((64, 64), jnp.float32)
    plain = jax.jit(lambda x: jnp.tanh(x @ x) @ x)

    def lower(*specs):
        inner = plain.lower(*specs)

        def compile(compiler_options=None):
            return SimpleNamespace(compiled=inner.compile(compiler_options))

        return SimpleNamespace(lowered=inner, as_text=inner.as_text, compile=compile)

    def wrapped(x):
        return plain(x)

    wrapped.lower = lower
    assert lowtide.explain(wrapped, x).total_bytes == lowtide.explain(plain, x).total_bytes
    fitted = lowtide.fit(wrapped, x, dim="B=0:0,0:1", limit="1MB")
    assert fitted.largest.size == lowtide.fit(plain, x, dim="B=0:0,0:1", limit="1MB").largest.size
    own, inner = wrapped.lower(x), plain.lower(x)
    expected = lowtide.explain(inner.compile(), lowered=inner).memory.temp_bytes
    assert lowtide.explain(own).memory.temp_bytes == expected
    assert lowtide.explain(own.compile(), lowered=own).memory.temp_bytes == expected


def test_other_things_are_refused():
    with pytest.raises(TypeError, match="found int"):
        lowtide.explain(3)
    text = "HloModule m\nENTRY main { ROOT x = f32[4] parameter(0) }"
    proto = write_hlo_module_proto(parse_hlo(text))
    silent = SimpleNamespace(
        runtime_executable=lambda: SimpleNamespace(
            hlo_modules=lambda: [SimpleNamespace(as_serialized_hlo_module_proto=lambda: proto)],
            client=SimpleNamespace(platform="gpu"),
        ),
        memory_analysis=lambda: None,
    )
    with pytest.raises(LowtideError, match="does not say what memory was planned; platform: gpu"):
        lowtide.explain(silent)
