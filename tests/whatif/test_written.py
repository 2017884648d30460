"""What a change is said to save beside what it saves once it is written in the program's source."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import lowtide
from lowtide.report.what_if import ChangeOutcome

jax = pytest.importorskip("jax")
jnp = jax.numpy
from tests.whatif.model_programs import models  # noqa: E402
from tests.whatif.programs import WRITTEN, Program, made_again, norm, spec  # noqa: E402
from tests.whatif.programs import programs as plain_programs  # noqa: E402

BATCH = 16
CLOSE = 0.02
"""How far what is not said to be about right may be from it."""


def programs(batch: int) -> dict[str, Program]:
    """Return all programs for so many examples, by name."""
    return {**plain_programs(batch), **models(batch)}


FAST = ("experts", "momentum", "cache", "nearest", "recurrent")
NAMES = [pytest.param(x, marks=() if x in FAST else pytest.mark.slow) for x in programs(BATCH)]
UNWRITABLE = {"offload", "chunk"}
"""Kinds for which JAX on a CPU has no other program: it has no second memory, and what a chunk is
of is no function of the source. They are always said to be about right."""


def report(program: Program, donated: Sequence[str] = (), **options: Any) -> lowtide.MemoryReport:
    """The report on a program, traced anew."""
    jax.clear_caches()
    function, arguments = program
    how = {"donate_argnames": list(donated)} if donated else {}
    module = lowtide.jit(function, **how).lower(*arguments).module
    return lowtide.explain(module, effort="fast", **options)


def written(change: ChangeOutcome, name: str) -> lowtide.MemoryReport | None:
    """The report on a program with a change in its source; None where that cannot be written."""
    kind, _, of = change.name.partition(":")
    program = programs(BATCH)[name]
    if kind == "batch":
        return report(programs(BATCH // 2)[name])
    if kind == "donate":
        names = re.search(r"donate_argnames=(\[.*\])", change.code)
        assert names is not None
        return report(program, json.loads(names[1]))
    if kind == "budget":
        memory = re.search(r'memory="(.*)"', change.code)
        assert memory is not None
        return report(program, memory=memory[1])
    if kind == "bf16":
        if of not in names_of(program[0]):
            return None
        return report(narrowed(program, of, is_updated=change.code.endswith("its new value too")))
    if kind in UNWRITABLE:
        return None
    WRITTEN.add(change.name)
    return report(program)


def names_of(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


def narrowed(program: Program, name: str, *, is_updated: bool) -> Program:
    """A program that gets an argument in bfloat16, reads it in float32, and updates it so."""
    function, arguments = program
    place = names_of(function).index(name)
    sizes = [sorted({x.shape for x in jax.tree.leaves(own)}) for own in arguments]
    before = sizes[:place].count(sizes[place])

    def narrow(x: Any) -> Any:
        return jax.ShapeDtypeStruct(x.shape, jnp.bfloat16 if x.dtype == np.float32 else x.dtype)

    def call(*given: Any) -> Any:
        read = jax.tree.map(
            lambda x: x.astype(jnp.float32) if x.dtype == jnp.bfloat16 else x, given[place]
        )
        made = function(*given[:place], read, *given[place + 1 :])
        return updated(made) if is_updated else made

    def updated(made: Any) -> Any:
        parts = list(made) if isinstance(made, tuple) else [made]
        like = [
            i
            for i, part in enumerate(parts)
            if sorted({x.shape for x in jax.tree.leaves(part)}) == sizes[place]
        ]
        at = like[before]
        parts[at] = jax.tree.map(lambda x: x.astype(jnp.bfloat16), parts[at])
        return tuple(parts) if isinstance(made, tuple) else parts[0]

    call.__signature__ = inspect.signature(function)
    narrow_arguments = [
        jax.tree.map(narrow, x) if i == place else x for i, x in enumerate(arguments)
    ]
    return call, tuple(narrow_arguments)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_change_saves_is_what_it_saves_when_written(name: str) -> None:
    """Within 2%, or said to be about right; nothing is said of a change that saves nothing."""
    WRITTEN.clear()
    base = report(programs(BATCH)[name], what_if=True)
    assert base.what_if is not None and base.what_if.changes
    exact = 0
    for change in base.what_if.changes:
        WRITTEN.clear()
        found = written(change, name)
        if found is None:
            assert change.is_about, change.name
            continue
        print(f"{name}: {change.label} {change.total_bytes:,}, written {found.total_bytes:,}")
        if change.is_about:
            assert found.total_bytes < base.total_bytes, change.name
        else:
            exact += 1
            assert change.total_bytes == pytest.approx(found.total_bytes, rel=CLOSE), change.name
    WRITTEN.clear()
    assert exact


def head(params, x):
    """Layers in a loop, and a last one."""
    for w in params[:-1]:
        x = jnp.sin(x @ w)
        x = x * jax.nn.sigmoid(x)
    return jnp.tanh(x @ params[-1])


def gradient_of(function):
    """A step that gives the gradient of a function's mean, by each of the examples."""

    def step(params, x):
        return jax.grad(lambda p: function(p, x).mean())(params)

    return step


LOOPED = [jax.ShapeDtypeStruct((32, 32), np.float32) for _ in range(6)]
EXAMPLES = jax.ShapeDtypeStruct((512, 32), np.float32)


def parts_of(function, wrap):
    """The function on an eighth of the examples at a time."""

    def in_parts(params, x):
        part = wrap(lambda row: function(params, row[None])[0])
        return jax.lax.map(part, x, batch_size=len(x) // 8)

    return in_parts


def test_parts_of_what_has_a_gradient_are_checkpoints() -> None:
    """Without them, each part saves for its gradient what the parts were to spare."""
    step, arguments = gradient_of(head), (LOOPED, EXAMPLES)
    base = report((step, arguments), what_if=True)
    assert base.what_if is not None
    (change,) = [x for x in base.what_if.changes if x.name == "chunk:8"]
    assert change.code == "jax.lax.map(jax.checkpoint(f), x, batch_size=len(x) // 8)"
    found = report((gradient_of(parts_of(head, jax.checkpoint)), arguments))
    bare = report((gradient_of(parts_of(head, lambda f: f)), arguments))
    assert change.total_bytes == pytest.approx(found.total_bytes, rel=0.25)
    assert found.total_bytes < 0.6 * bare.total_bytes


def test_parts_of_what_is_applied_are_as_they_stand() -> None:
    base = report(programs(BATCH)["nearest"], what_if=True)
    assert base.what_if is not None
    codes = {x.code for x in base.what_if.changes if x.name.startswith("chunk")}
    assert codes and all("checkpoint" not in code for code in codes)


def test_parts_of_what_has_no_gradient_beside_one_are_as_they_stand() -> None:
    """The largest value is made beside the gradient of a small one."""

    def step(params, x, points):
        apart = jnp.exp(-jnp.sum((points[:, None] - points[None]) ** 2, -1))
        return gradient_of(head)(params, x), jnp.sort(apart, 0)[::7]

    few, points = jax.ShapeDtypeStruct((8, 32), np.float32), spec(512, 3)
    base = report((step, (LOOPED, few, points)), what_if=True)
    assert base.what_if is not None
    codes = {x.code for x in base.what_if.changes if x.name.startswith("chunk")}
    assert codes and all("checkpoint" not in code for code in codes)


def test_the_line_says_where_a_figure_is_about_right() -> None:
    base = report(programs(BATCH)["recurrent"], what_if=True)
    assert base.what_if is not None
    about = {x.name: x.is_about for x in base.what_if.changes}
    assert about["checkpoint:loops"] and not about["batch:1/2"]
    assert "checkpoint:loops (about)" in str(base)
    rows = {x["name"]: x["about"] for x in base.to_json()["what_if"]["changes"]}
    assert rows == about


def test_arguments_that_may_be_data_or_state_leave_the_batch_open() -> None:
    """A result has the shape of the points, so these could be what a step updates."""
    base = report(programs(BATCH)["nearest"], what_if=True)
    assert base.what_if is not None
    assert "batch:1/2" not in {x.name for x in base.what_if.changes}
    assert "points:0" in base.what_if.question and "--batch" in base.what_if.question


def test_a_checkpoint_is_planned_as_it_is_once_it_is_written() -> None:
    """Calls of a layer, one after the other, and of what is in it, each of whose calls is apart."""
    given = models(BATCH)["adapters"]
    for name in ("checkpoint:adapted", "checkpoint:wide"):
        WRITTEN.clear()
        said = report(given, what_if=name)
        WRITTEN.add(name)
        real = report(models(BATCH)["adapters"])
        assert said.total_bytes == pytest.approx(real.total_bytes, rel=CLOSE), name
    WRITTEN.clear()


def test_what_a_checkpoint_computes_again_already_gets_no_other_one() -> None:
    WRITTEN.clear()
    with pytest.raises(lowtide.LowtideError, match="a checkpoint computes it again already"):
        report(models(2)["checkpointed"], what_if="checkpoint:heads")


def unnamed(params, x):
    """A gradient through layers that are lambdas, and products in a list."""

    def loss(own):
        h = x
        for w in own:
            h = h + (lambda h: jnp.tanh(sum([jnp.sin(h @ w) for _ in range(2)])))(norm(h))
        return (h**2).sum()

    return jax.grad(loss)(params)


def test_a_checkpoint_is_of_what_a_program_can_name_or_wraps_where_it_is_written() -> None:
    found = report((unnamed, (LOOPED, EXAMPLES)), what_if=True).what_if
    assert found is not None
    names = [*found.useless, *[x.name for x in found.changes]]
    names += [x.partition(" (")[0] for x in found.impossible]
    names = [x for x in names if x.startswith("checkpoint:")]
    assert "checkpoint:unnamed.loss.<lambda>" in names
    assert not [x for x in names if "comp>" in x or "genexpr>" in x or "module>" in x]
    code = {x.name: x.code for x in found.changes}
    assert code["checkpoint:unnamed.loss.<lambda>"].startswith("jax.checkpoint(lambda ...)")


def wide(x, w):
    """Products whose gradient saves several values."""
    h = jnp.sin(x @ w)
    return jnp.tanh(h * jax.nn.sigmoid(h)) @ w.T


def tower(x, weights):
    """Layers in a loop, and what follows them once."""
    for w in weights:
        x = x + wide(norm(x), w)
    return jnp.cos(x)


def two_towers(params, x):
    """The gradient of two calls on one line, each of which has a loop."""
    again = made_again(tower)
    return jax.grad(lambda p: (again(again(x, p[:2]), p[2:]) ** 2).sum())(params)


def two_lambdas(params, x):
    """The gradient of layers that are lambdas of one function, one of them larger."""
    wrapped = "checkpoint:two_lambdas.loss.<lambda>" in {y.rpartition(":")[0] for y in WRITTEN}

    def loss(p):
        h = x
        wrap = jax.checkpoint if wrapped else lambda layer: layer
        for w in p:
            h = h + wrap(lambda h, w=w: jnp.tanh(jnp.sin(jnp.cos(h @ w)) @ w.T))(norm(h))
            h = h + (lambda h, w=w: jnp.cos(h @ w) @ w.T)(norm(h))
        return (h**2).sum()

    return jax.grad(loss)(params)


WIDE = ([jax.ShapeDtypeStruct((32, 128), np.float32) for _ in range(4)], EXAMPLES)


def checkpoints_of(function, arguments):
    """The checkpoints that are worth it, by name, in the order of their lines."""
    WRITTEN.clear()
    found = report((function, arguments), what_if=True).what_if
    assert found is not None
    own = [x for x in found.changes if x.name.startswith("checkpoint:")]
    return {x.name: x for x in sorted(own, key=lambda x: x.source.line if x.source else 0)}


def test_calls_that_stand_side_by_side_are_told_apart() -> None:
    """A tower around layers is advised, too; lines that begin anew are those of its loop."""
    said = checkpoints_of(two_towers, WIDE)
    assert {"checkpoint:tower", "checkpoint:wide"} <= set(said)
    WRITTEN.add("checkpoint:tower")
    real = report((two_towers, WIDE))
    WRITTEN.clear()
    assert said["checkpoint:tower"].total_bytes == pytest.approx(real.total_bytes, rel=CLOSE)
    assert "if it loops" not in said["checkpoint:tower"].code


def test_lambdas_of_one_function_are_told_apart() -> None:
    said = checkpoints_of(two_lambdas, WIDE)
    assert len(said) == 2 and all(".<lambda>:" in x for x in said)
    first = next(iter(said))
    WRITTEN.add(first)
    real = report((two_lambdas, WIDE))
    WRITTEN.clear()
    assert said[first].total_bytes == pytest.approx(real.total_bytes, rel=CLOSE)
    assert said[first].code.startswith("jax.checkpoint(lambda ...)")


def wide_layer(w, x):
    """What `layered` calls by itself and in a scan."""
    h = jnp.tanh(x @ w["a"])
    return x + jnp.sin(h @ w["b"]) @ w["c"]


def layered(layer, between=lambda x: x):
    """A step of layers of which most are a scan, with something `between` these."""

    def apply(params, x):
        x = layer(params["second"], layer(params["first"], x))
        x, _ = jax.lax.scan(lambda x, w: (layer(w, between(x)), None), x, params["rest"])
        return layer(params["last"], x)

    return gradient_of(apply)


def layers(*count):
    """Weights of so many layers."""
    return {"a": spec(*count, 32, 128), "b": spec(*count, 128, 128), "c": spec(*count, 128, 32)}


def test_a_checkpoint_of_a_layer_is_one_in_scans_too() -> None:
    params = {"first": layers(), "second": layers(), "rest": layers(4), "last": layers()}
    arguments = params, spec(1024, 32)
    base = report((layered(wide_layer), arguments), what_if=True)
    assert base.what_if is not None
    (change,) = [x for x in base.what_if.changes if x.name == "checkpoint:wide_layer"]
    found = report((layered(jax.checkpoint(wide_layer)), arguments))
    assert change.total_bytes == pytest.approx(found.total_bytes, rel=CLOSE)


def test_a_checkpoint_of_a_part_of_a_scan_leaves_the_rest_of_it() -> None:
    """What the scan has beside the layer is saved as before: no figure counts it as run again."""
    params = {"first": layers(), "second": layers(), "rest": layers(4), "last": layers()}
    step = layered(wide_layer, between=lambda x: jnp.sin(x) * jnp.cos(x))
    base = report((step, (params, spec(1024, 32))), what_if="checkpoint:wide_layer")
    loops = report((step, (params, spec(1024, 32))), what_if="checkpoint:loops")
    assert base.total_bytes > loops.total_bytes


def nested(layer):
    """A step with a layer in a scan of another scan, and at two more places."""

    def apply(params, x):
        def outer(x, w):
            return jax.lax.scan(lambda x, _: (layer(w, x), None), x, None, length=3)[0], None

        x, _ = jax.lax.scan(outer, layer(params["first"], x), params["rest"])
        return layer(params["last"], x)

    return gradient_of(apply)


def test_a_checkpoint_in_loops_of_loops_promises_no_more_than_it_gives() -> None:
    arguments = {"first": layers(), "rest": layers(4), "last": layers()}, spec(1024, 32)
    base = report((nested(wide_layer), arguments), what_if="checkpoint:wide_layer")
    found = report((nested(jax.checkpoint(wide_layer)), arguments))
    assert base.total_bytes >= found.total_bytes / (1 + CLOSE)


def scored(params, x):
    """A scan, and scores of what it gives that are larger than all that it saves."""
    states = scanned(params, x)
    return jax.nn.log_softmax(states @ params[1]).max(-1)


def scanned(params, x):
    """States one after the other."""
    return jax.lax.scan(lambda h, x: (jnp.sin(h @ params[0]) + x,) * 2, x[0], x)[1]


def test_changes_of_loops_stand_where_the_loop_does() -> None:
    arguments = [spec(16, 16), spec(16, 1024)], spec(24, 8, 16)
    found = report((gradient_of(scored), arguments), what_if=True).what_if
    assert found is not None
    places = {x.name: x.source.function for x in found.changes if x.source is not None}
    assert places["checkpoint:loops"] == "scanned"
