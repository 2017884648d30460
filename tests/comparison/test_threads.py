"""Real questions of users: the page shows what is printed, the cause is named, the remedy works."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.comparison.guide import masked
from tests.comparison.threads import outputs, threads

import lowtide

jax = pytest.importorskip("jax")
THREADS = {x.name: x for x in threads()}
Names = dict[str, Any]


def words(output: str) -> str:
    """Return an output as one line, so that a sentence is found wherever it was broken."""
    return " ".join(output.split())


def check_pairs(said: list[str], names: Names) -> None:
    assert "cause: order" in said[0]
    assert "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED" in said[0] and "compiled to check" in said[0]
    lowered = jax.jit(names["pairs"]).lower(*names["columns"])
    theirs = lowtide.explain(lowered).memory.ladder.arena_bytes
    option = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
    remedied = lowtide.explain(lowered.compile(compiler_options=option))
    assert remedied.memory.ladder.arena_bytes < theirs / 4
    assert names["report"].ladder.arena_bytes < theirs / 4


def check_pop(said: list[str], names: Names) -> None:
    assert "(pop.py:14) copies 8,000.0 KB each iteration" in said[0]
    assert "its state could be changed in place, as lowtide's own plan does" in said[0]
    assert "carried in place" in said[1]
    report = lowtide.explain(names["step"], names["line"])
    assert report.execution is not None
    assert all(x.in_place for x in report.execution.loops)


def check_cond(said: list[str], names: Names) -> None:
    assert "cause: in-place" in said[0] and "(cond.py:20) copies" in said[0]

    def mended(table: Any) -> Any:
        def body(table: Any, step: Any) -> Any:
            table = jax.lax.cond(step % 10 == 0, names["add"], names["keep"], table)
            return table, table[1, 1]

        return jax.lax.scan(body, table, jax.numpy.arange(1000))

    step = jax.jit(mended, donate_argnums=0).lower(names["table"])
    (loop,) = lowtide.explain(step).autopsy.loops
    assert loop.in_place and not loop.planned_bytes
    own = lowtide.explain(names["step"], names["table"])
    assert own.execution is not None and own.execution.loops[0].in_place


def check_vmap(said: list[str], names: Names) -> None:
    assert "irreducible" in said[0] and "vmap.py:9 in totals.total" in said[0]
    as_written = lowtide.Options(memory_priority=0)
    report = lowtide.explain(names["totals"], names["x"], options=as_written)
    assert "irreducible 64.0 MB (100%)" in words(str(report))
    assert lowtide.explain(names["totals"], names["x"]).total_bytes < report.total_bytes / 8

    def mended(x: Any) -> Any:
        def total(place: Any) -> Any:
            return x.at[place].set(7.0).sum()

        return jax.lax.map(total, jax.numpy.arange(len(x)), batch_size=len(x) // 8)

    found = lowtide.explain(mended, names["x"], options=as_written)
    assert found.total_bytes < report.total_bytes / 7


def check_checkpoint(said: list[str], names: Names) -> None:
    assert "30 x f32[8192,256]" in said[0]
    assert "saved for the backward pass 125.8 MB (86%)" in said[1]
    given = names["step"], names["weights"], names["x"]
    theirs = lowtide.explain(names["step"].lower(*given[1:])).memory.ladder.arena_bytes
    assert lowtide.explain(*given).ladder.arena_bytes < 0.6 * theirs
    assert lowtide.explain(*given, memory="80MB").ladder.arena_bytes <= 80_000_000


def check_training(said: list[str], names: Names) -> None:
    assert "saved for the backward pass" in said[0]
    assert "checkpoint:block (about) train.py:15 in loss jax.checkpoint(block)" in said[0]
    given = [names["w"]] * 4, names["x"]
    before = lowtide.explain(names["train"], *given, what_if=True)
    assert before.what_if is not None
    (promised,) = [x for x in before.what_if.changes if x.name == "checkpoint:block"]
    names["block"] = jax.checkpoint(names["block"])
    after = lowtide.explain(lambda *x: names["train"](*x), *given).total_bytes  # Traced anew.
    assert before.total_bytes - after > 0.9 * promised.saved_bytes > 0


def check_donation(said: list[str], names: Names) -> None:
    assert "donating momentum['w'] has no effect" in said[0]
    assert "output {0} has its dimensions, but is bf16[2048,2048], made at donate.py:9" in said[0]

    def mended(params: Any, momentum: Any, gradients: Any) -> Any:
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
        return jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum), momentum

    step = jax.jit(mended, donate_argnums=(0, 1))
    report = lowtide.explain(step, *[names["tree"]] * 3)
    assert report.alias_bytes == report.output_bytes


def check_update(said: list[str], names: Names) -> None:
    assert "carried in place" in said[0]
    (loop,) = lowtide.explain(names["step"].lower(names["x"])).autopsy.loops
    assert loop.in_place and not loop.planned_bytes


def check_constant(said: list[str], names: Names) -> None:
    assert "constant f32[1000,1000] of 4,000.0 KB, read at constant.py:11 in look_up" in said[0]
    assert "make it an argument" in said[0]

    def mended(table: Any, x: Any) -> Any:
        return jax.numpy.tanh(x @ table).sum()

    report = lowtide.explain(mended, names["table"], names["x"])
    assert report.constant_bytes == 0 and report.largest_constant is None


def check_fit(said: list[str], names: Names) -> None:
    assert "is the largest that fits 64.0 MB" in said[0] and "does not fit, proved" in said[0]
    given = jax.grad(names["loss"]), names["weights"], names["images"]
    found = lowtide.fit(*given, dim="B=images:0", limit="64MB")
    assert found.largest is not None and found.next is not None
    sizes = found.largest.size, found.next.size
    peaks = [
        lowtide.explain(*given[:2], jax.ShapeDtypeStruct((size, 512), "float32")).total_bytes
        for size in sizes
    ]
    assert peaks[0] <= 64_000_000 < peaks[1] and sizes[1] == sizes[0] + 1


def check_regression(said: list[str], names: Names) -> None:
    assert said[0].startswith("peak +66.8 MB")
    first = said[0].partition(" live over ")[0]
    assert "stored now, joined by a kernel before: f32[256,256,256]" in first
    assert "(value.py:9 in value)" in said[0]
    back = lowtide.diff(names["after"], names["before"], names["as_written"])
    assert back.nbytes < 0 and "joined by a kernel now" in str(back)


CHECKS: dict[str, Callable[[list[str], Names], None]] = {
    "xla#35719": check_pairs,
    "jax#17845": check_pop,
    "jax#38145": check_cond,
    "jax#23358": check_vmap,
    "jax#19822": check_checkpoint,
    "jax#21583": check_training,
    "jax#9237": check_donation,
    "jax#40101": check_update,
    "jax#14655": check_constant,
    "jax#31292": check_fit,
    "jax#23548": check_regression,
}


def test_each_thread_has_a_test() -> None:
    assert list(CHECKS) == list(THREADS)


@pytest.mark.parametrize("name", CHECKS)
def test_the_cause_is_named_and_the_remedy_works(name: str) -> None:
    thread = THREADS[name]
    found = list(outputs(thread))
    for (file, _, shown), (output, _) in zip(thread.programs, found, strict=True):
        assert masked(output) == masked(shown), f"{file}: python -m tests.comparison.threads"
    CHECKS[name]([words(output) for output, _ in found], found[-1][1])
