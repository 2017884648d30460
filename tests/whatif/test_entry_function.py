"""The function of a program, its place, and what compiled it, told by the calls in the module."""

import pytest

import lowtide
from lowtide.compiler import PlanOptions, plan
from lowtide.ir import SourceLocation
from lowtide.ir.metadata import FileLocation, Metadata, StackFrame, StackFrames
from lowtide.search.deadline import Deadline
from lowtide.search.effort import SearchOptions
from lowtide.whatif.baseline import Baseline
from lowtide.whatif.checkpointing import checkpoint_changes
from lowtide.whatif.entry_function import JAX_JIT, entry_function

TEXT = """HloModule jit_step

ENTRY main {
  x = f32[8] parameter(0)
  a = f32[8] negate(x)
  ROOT b = f32[8] add(a, a)
}
"""
GRADIENT = """HloModule jit_step

ENTRY main {
  x = f32[64,64] parameter(0)
  a = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[64,64] sine(a)
  c = f32[64,64] dot(b, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f32[64,64] dot(c, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT e = f32[64,64] dot(d, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
INPUT = PlanOptions("input", search=SearchOptions(deadline=Deadline()))
OWN, SITE = "/home/me/train.py", "/venv/lib/python3.12/site-packages"
AROUND = {
    "jax.jit": [],
    "nnx.jit": [(f"{SITE}/flax/nnx/transforms/compilation.py", "JitFn.__call__", 138)],
    "eqx.filter_jit": [
        (f"{SITE}/equinox/_jit.py", "_filter_jit_cache.<locals>.fun_wrapped", 55),
        (f"{SITE}/equinox/_jit.py", "_call", 244),
    ],
}


def module_with(*calls: list[tuple[str, str, int]], text: str = TEXT):
    """Return a module whose operations come from calls, each from the inside out."""
    module = lowtide.parse_hlo(text)
    known = sorted(
        {name for stack in calls for file, function, _ in stack for name in (file, function)}
    )
    locations, frames, tops = [], [], []
    for stack in calls:
        parent = 0
        for file, function, line in reversed(stack):
            ids = known.index(file) + 1, known.index(function) + 1
            locations.append(FileLocation(*ids, line))
            frames.append(StackFrame(len(locations), parent))
            parent = len(frames)
        tops.append(parent)
    module.stack_frames = StackFrames(tuple(known), tuple(known), tuple(locations), tuple(frames))
    for name, top in zip(("a", "b"), tops, strict=False):
        module.entry.instructions[name].set_metadata(Metadata(op_name=name, stack_frame_id=top))
    return module


@pytest.mark.parametrize("decorator", AROUND)
def test_the_decorator_that_the_user_wrote(decorator):
    around = [*AROUND[decorator], (OWN, "main", 90), (OWN, "<module>", 99)]
    library = [(f"{SITE}/flax/nnx/nn/linear.py", "Linear.__call__", 422)]
    first = [*library, (OWN, "make.<locals>.step", 12), *around]
    second = [(OWN, "loss", 3), (OWN, "make.<locals>.step", 11), *around]
    found = entry_function(module_with(first, second))
    assert (found.name, found.decorator.name) == ("step", decorator)
    assert found.source == SourceLocation(OWN, 11, "make.<locals>.step")


def test_a_decorator_within_the_function_is_not_the_programs():
    stack = [(OWN, "inner", 4), *AROUND["nnx.jit"], (OWN, "step", 12), (OWN, "<module>", 99)]
    assert entry_function(module_with(stack)).decorator is JAX_JIT


def test_without_a_call_of_the_function_its_place_is_the_outermost_one():
    found = entry_function(module_with([(OWN, "<lambda>", 7), (OWN, "<module>", 99)]))
    assert found.source == SourceLocation(OWN, 99, "<module>")
    unknown = entry_function(module_with(text=TEXT.replace("jit_step", "a.module")))
    assert (unknown.name, unknown.source) == ("f", None)


def test_what_to_write():
    nnx, equinox = [
        entry_function(module_with([(OWN, "step", 1), *AROUND[x]])).decorator
        for x in ("nnx.jit", "eqx.filter_jit")
    ]
    assert nnx.donating("step", ["a", "b"]) == 'nnx.jit(step, donate_argnames=["a", "b"])'
    assert equinox.donating("step", ["a"]).startswith(
        'eqx.filter_jit(step, donate="all-except-first")'
    )
    assert nnx.within("step", 10) == 'lowtide.jit(step, memory="10B")'
    assert 'compiler_options={"memory": "10B"}' in equinox.within("step", 10)


def test_the_advice_for_nnx_and_equinox_names_their_decorators():
    nnx, eqx = pytest.importorskip("flax.nnx"), pytest.importorskip("equinox")
    jnp = pytest.importorskip("jax.numpy")

    def step(model, x):
        model.kernel[...] = model.kernel[...] - jnp.sum(model(x))
        return x.sum()

    model, x = nnx.Linear(256, 256, rngs=nnx.Rngs(0)), jnp.ones((8, 256))
    before = lowtide.explain(nnx.jit(step), model, x, what_if=True)
    change = next(x for x in before.what_if.changes if x.name == "donate:model")
    assert change.code == 'nnx.jit(step, donate_argnames=["model"])'
    after = lowtide.explain(nnx.jit(step, donate_argnames=["model"]), model, x)
    assert after.total_bytes == change.total_bytes < before.total_bytes

    def update(x, weights):
        return weights - jnp.sum(x)

    x, weights = jnp.ones(8), jnp.ones((256, 256))
    before = lowtide.explain(eqx.filter_jit(update), x, weights, what_if=True)
    change = next(x for x in before.what_if.changes if x.name == "donate:weights")
    assert change.code.startswith('eqx.filter_jit(update, donate="all-except-first")')
    after = lowtide.explain(eqx.filter_jit(update, donate="all-except-first"), x, weights)
    assert after.total_bytes == change.total_bytes < before.total_bytes


@pytest.mark.parametrize(
    ("library", "code"),
    [
        ("flax/linen/module.py", "nn.remat(Block)"),
        ("flax/nnx/nn/linear.py", "nnx.remat(Block.__call__)"),
        ("equinox/_module/_prebuilt.py", "eqx.filter_checkpoint(Block)"),
        ("haiku/_src/module.py", "hk.remat(Block)"),
    ],
)
def test_a_module_is_wrapped_by_its_library(library, code):
    stack = [(OWN, "Block.__call__", 5), (f"{SITE}/{library}", "call", 9), (OWN, "step", 12)]
    module = module_with(stack, stack, text=GRADIENT)
    base = Baseline(module, plan(module, INPUT), INPUT)
    assert code in [change.code for change in checkpoint_changes(base)]
