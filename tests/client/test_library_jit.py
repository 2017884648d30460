"""Functions that libraries jit in their own way are read with the user's names, and of shapes."""

from functools import partial

import pytest

import lowtide
from lowtide.autopsy.jax_compiled import program_of_jax
from lowtide.client.library_jit import module_of_jitted

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
WEIGHTS, X = jnp.ones((64, 32)), jnp.ones((16, 64))


def is_array(leaf) -> bool:
    return isinstance(leaf, jax.Array)


class PackingJit:
    """A decorator that packs arrays into tuples and takes for constants what is none."""

    def __init__(self, function) -> None:
        self.__wrapped__ = function

    def __call__(self, *arguments, **keywords):
        return self.__wrapped__(*arguments, **keywords)

    def lower(self, *arguments, **keywords):
        parts = {"first": arguments[0], "rest": ((*arguments[1:], None), keywords)}
        leaves, trees = {}, {}
        for name, part in parts.items():
            leaves[name], trees[name] = jax.tree.flatten(part)
        dynamic = {
            name: tuple([x if is_array(x) else None for x in leaves[name]]) for name in parts
        }

        def packed(dynamic_nodonate):
            both = {}
            for name, own in leaves.items():
                given = zip(dynamic_nodonate[name], own, strict=True)
                both[name] = jax.tree.unflatten(
                    trees[name], [b if a is None else a for a, b in given]
                )
            rest, named = both["rest"]
            return self.__wrapped__(both["first"], *rest[:-1], **named)

        packed.__name__ = self.__wrapped__.__name__
        return jax.jit(packed).lower(dynamic)


@PackingJit
def step(params, x, *, scale):
    return {"w": params["w"] * scale}, params["act"](x @ params["w"])


PARAMS = {"act": jnp.tanh, "none": None, "w": WEIGHTS}
NAMES = ["params['w']", "x", "scale"]


def shapes_of(tree):
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype) if is_array(x) else x, tree
    )


@pytest.mark.parametrize("given", [lambda tree: tree, shapes_of], ids=["arrays", "shapes"])
def test_packed_arguments_have_the_names_of_the_users_function(given):
    scale = given(jnp.float32(2))
    report = lowtide.explain(step, given(PARAMS), given(X), scale=scale, what_if=True)
    module = module_of_jitted(step, given((PARAMS, X)), {"scale": scale}, program_of_jax)
    assert [x.metadata.op_name for x in module.entry.parameters] == NAMES
    assert "donate:params" in [x.name for x in report.what_if.changes]


def test_the_batch_of_packed_arguments_is_named_by_the_users_names():
    found = lowtide.fit(step, PARAMS, X, scale=jnp.float32(2), dim="B=x:0", limit="100KB")
    given = found.largest.size
    at = partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
    report = lowtide.explain(step, shapes_of(PARAMS), at((given, 64)), scale=at(()))
    assert report.total_bytes <= 100_000


def test_filter_jit_of_equinox():
    equinox = pytest.importorskip("equinox")
    model = equinox.nn.MLP(8, 8, 64, 2, key=jax.random.key(0))

    @equinox.filter_jit(donate="all-except-first")
    def update(x, model):
        return jax.tree.map(lambda a: a * x.sum() if equinox.is_array(a) else a, model)

    kinds = equinox.filter_eval_shape(lambda: model)
    reports = [
        lowtide.explain(update, jnp.ones((32, 8)), model),
        lowtide.explain(update, jax.ShapeDtypeStruct((32, 8), jnp.float32), kinds),
    ]
    assert reports[0].total_bytes == reports[1].total_bytes
    asked = [x.name for x in reports[1].execution.donations_asked]
    assert asked and all(name.startswith("model.layers[") for name in asked)
