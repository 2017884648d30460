"""The platform taken for one of the family "cpu": by names of devices, rules, branches, numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("jax")

from tests.pjrt.test_plugin import run

from lowtide.options import device_count
from lowtide.pjrt.family import FamilyRules, MemberName


def test_a_name_is_that_of_the_platform_and_equals_that_of_the_family() -> None:
    name = MemberName("lowtide")
    assert all(x == name and name == x for x in ("cpu", "lowtide")) and name in ("cpu", "gpu")
    assert name not in ("gpu", "tpu") and name != "gpu" and name != 1
    assert not any(name != x or x != name for x in ("cpu", "lowtide"))
    assert {"lowtide": 1}[name] == 1 and name not in {"cpu": 1} and f"{name}" == "lowtide"
    assert name.upper() == "LOWTIDE" and MemberName("other") != name


def test_rules_of_the_family_hold_where_the_platform_has_none() -> None:
    class Primitive:
        def __init__(self, name: str) -> None:
            self.name = name

    sine, product, later = Primitive("sin"), Primitive("dot_general"), Primitive("later")
    shared = {sine: "cpu's", product: "cpu's"}
    rules = FamilyRules({sine: "own"}, shared)
    assert rules[sine] == "own" and product not in rules and later not in rules
    with pytest.raises(KeyError):
        rules[product]
    shared[later] = "a library's"
    assert later in rules and rules[later] == "a library's"


LIBRARY = """
    device = jax.devices()[0]
    if device.platform not in ("cpu", "gpu", "tpu"):
        raise SystemExit(f"Unsupported device: {device}")
    assert device.platform == "lowtide" and device.client.platform == "lowtide"
    assert jax.default_backend() == "lowtide" and device.device_kind == "lowtide"
    near = jax.devices("cpu")[0]
    assert jax.local_devices(backend="cpu")[0] == near
    print(near.platform == "cpu", near.client.platform, jax.device_put(jnp.ones(2), near).devices())
    with jax.default_device(near):
        assert jnp.ones(3).devices() == {near}

    def by_platform(**rest):
        return lambda x: jax.lax.platform_dependent(x, cpu=jnp.sin, tpu=jnp.cos, **rest)
    for function, wanted in (
        (by_platform(), jnp.sin),
        (by_platform(default=jnp.cos), jnp.sin),
        (by_platform(lowtide=jnp.exp), jnp.exp),
        (lambda x: jax.lax.platform_dependent(x, tpu=jnp.cos, default=jnp.exp), jnp.exp),
    ):
        for how in (lambda f: f, jax.jit, lambda f: jax.jit(jax.vmap(f)), jax.vmap):
            x = jnp.arange(3.0)
            np.testing.assert_allclose(how(function)(x), wanted(x), rtol=1e-6)
    try:
        jax.jit(lambda x: jax.lax.platform_dependent(x, tpu=jnp.cos))(1.0)
    except NotImplementedError as error:
        print("lowtide" in str(error))

    from jax.interpreters import mlir
    from jax.extend.core import Primitive
    twice = Primitive("twice")
    twice.def_abstract_eval(lambda x: x)
    rule = mlir.lower_fun(lambda x: x * 2, multiple_results=False)
    mlir.register_lowering(twice, rule, platform="cpu")
    print(jax.jit(twice.bind)(jnp.arange(3)).tolist())
"""


@pytest.mark.parametrize("platforms", ["lowtide", "lowtide,cpu"])
def test_what_libraries_ask_of_a_cpu_holds(tmp_path: Path, platforms: str) -> None:
    own = platforms == "lowtide"
    device = "lowtide {LowtideDevice(id=0)}" if own else "cpu {CpuDevice(id=0)}"
    assert run(LIBRARY, tmp_path, platforms) == f"True {device}\nTrue\n[0, 2, 4]\n"


def test_so_many_devices_as_are_asked_of_the_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOWTIDE_DEVICES", raising=False)
    script = """
    jax.config.update("jax_num_cpu_devices", 3)
    mesh = jax.make_mesh((3,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    x = jax.device_put(jnp.arange(6), jax.NamedSharding(mesh, jax.P("x")))
    print(len(jax.devices()), [s.data.tolist() for s in x.addressable_shards])
    """
    assert run(script, tmp_path) == "3 [[0, 1], [2, 3], [4, 5]]\n"
    flag = "--xla_force_host_platform_device_count"
    monkeypatch.setenv("XLA_FLAGS", f"{flag}=2 --xla_other=9 {flag}=4")
    assert (device_count(), device_count(-1), device_count(3)) == (4, 4, 3)
    monkeypatch.setenv("LOWTIDE_DEVICES", "5")
    assert device_count(3) == 5


def test_decompositions_are_computed_whatever_algorithm_is_named(tmp_path: Path) -> None:
    script = """
    from jax.lax import linalg
    x = np.random.default_rng(0).normal(size=(2, 6, 6)).astype(np.float32)
    x = x + x.transpose(0, 2, 1)
    wanted = np.linalg.eigvalsh(x)
    for name in linalg.EighImplementation:
        vectors, values = linalg.eigh(x, implementation=name)
        np.testing.assert_allclose(values, wanted, atol=1e-4)
        np.testing.assert_allclose(x @ vectors, vectors * values[:, None], atol=1e-4)
    for begin, end in ((0, 6), (0, 2), (2, 5), (5, 6)):
        vectors, values = jax.jit(lambda x: linalg.eigh(x, subset_by_index=(begin, end)))(x)
        assert vectors.shape == (2, 6, end - begin)
        np.testing.assert_allclose(values, wanted[:, begin:end], atol=1e-4)
        np.testing.assert_allclose(x @ vectors, vectors * values[:, None], atol=1e-4)
    for part in ((0, 7), (-1, 2)):
        try:
            jax.jit(lambda x: linalg.eigh(x, subset_by_index=part)).lower(x)
        except ValueError as error:
            assert f"0 <= first <= end <= 6, found {part}" in str(error), error
        else:
            raise AssertionError(part)
    for name in linalg.SvdAlgorithm:
        values = linalg.svd(x, algorithm=name, compute_uv=False)
        np.testing.assert_allclose(values, np.linalg.svd(x)[1], atol=1e-4)
    asked = {"full_matrices": False, "compute_uv": False, "subset_by_index": None}
    unnamed = jax.jit(lambda x: linalg.svd_p.bind(x, **asked))
    np.testing.assert_allclose(unnamed(x)[0], np.linalg.svd(x)[1], atol=1e-4)
    for name in linalg.EigImplementation:
        values = linalg.eig(x, implementation=name)[0]
        np.testing.assert_allclose(np.sort(values.real), wanted, atol=1e-4)
    """
    run(script, tmp_path)
