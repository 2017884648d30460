"""The check of contracts: each kind of breach, planted, is one clear error."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("jax")

from tests.pjrt.test_plugin import run

OPTIONS = {"LOWTIDE_OPTIONS": "check=contracts", "LOWTIDE_DEVICES": "4"}

GOOD = """
    mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    def put(x, *spec):
        return jax.device_put(x, jax.NamedSharding(mesh, jax.P(*spec)))
    x = put(jnp.arange(32.0).reshape(8, 4), "x", "y")
    y = jax.jit(lambda x: (x @ x.T).sum(0))(x)
    z = jax.jit(lambda x: x * 2, donate_argnums=0)(x)
    assert x.is_deleted() and not y.is_deleted()
    for call in (lambda: jnp.sin(x), lambda: z.at[0].set(x[0])):
        try:
            call()
        except (RuntimeError, ValueError) as error:
            assert "deleted" in str(error), error
    host = jax.NamedSharding(mesh, jax.P(), memory_kind="pinned_host")
    far = jax.jit(lambda y: y + 1, out_shardings=host)(y)
    assert far.sharding.memory_kind == "pinned_host"
    one = jax.device_put(np.arange(6).reshape(2, 3), jax.devices()[1])
    print(np.asarray(jax.device_put(one, jax.devices()[2]) + 1).tolist(), y.tolist()[:2])
    step = jax.jit(lambda a, b: (a + b, b[::-1]), donate_argnums=0)
    a, b = jnp.ones(1000), jnp.zeros(1000)
    for _ in range(5):
        a, b = step(a, b)
    print(float(a.sum()))
    print(np.asarray(jax.jit(lambda: jnp.zeros((0, 3)))()).shape, jax.random.key(1).shape)
    ref = jax.new_ref(jnp.zeros(3))
    jax.jit(lambda r: r.__setitem__(0, 1.0))(ref)
    print(ref[...].tolist())
"""


@pytest.mark.parametrize("platforms", ["lowtide", "lowtide,cpu"])
def test_good_programs_run_as_without(tmp_path: Path, platforms: str) -> None:
    checked = run(GOOD, tmp_path, platforms, **OPTIONS)
    assert checked == run(GOOD, tmp_path, platforms, LOWTIDE_DEVICES="4")
    assert checked.splitlines()[1] == "1000.0"


PLANTS = {
    "a sharding that does not divide": (
        """
        import lowtide.pjrt.partitioning as home
        from lowtide.pjrt.partitioning import shardings_of
        def wrong(module):
            found = shardings_of(module)
            return found and (found[0], found[0][:1] * len(found[1]))
        home.shardings_of = wrong
        """,
        'jax.jit(lambda x: x[:1])(put(jnp.ones((4, 2)), "x"))',
        "is told to be cut into [2, 1] tiles of [1, 1], which do not make [1, 2]",
    ),
    "axes that no mesh names": (
        """
        import lowtide.spmd.annotations as home
        home.on_whole_axes = lambda tiling, meshes: tiling
        """,
        'row = jax.make_mesh((4,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))\n'
        'x = jax.device_put(jnp.ones((4, 3)), jax.NamedSharding(row, jax.P("x")))\n'
        "jax.jit(lambda x: x.reshape(2, 2, 3))(x)",
        "no axes of AbstractMesh('x': 4",
    ),
    "results in another memory": (
        """
        import lowtide.pjrt.execution as home
        home.place_results = lambda program, call, device: None
        """,
        'jax.jit(lambda x: x + 1, out_shardings=jax.NamedSharding(mesh, jax.P("x"), memory_kind='
        '"pinned_host"))(put(jnp.ones(4), "x"))',
        "and JAX is told of float32[2]{0} in pinned_host memory",
    ),
    "a call that changes its arguments": (
        """
        import ctypes
        import lowtide.pjrt.execution as home
        usual, places = home.with_tokens, []
        def wrong(results):
            for at in places:
                ctypes.c_float.from_address(at).value = 7
            return usual(results)
        home.with_tokens = wrong
        """,
        # Four workers must not ask for the shards: JAX makes them at the first time, unguarded.
        'import time\ngiven = put(jnp.ones(4), "x")\n'
        "places.append(given.addressable_shards[0].data.unsafe_buffer_pointer())\n"
        "jax.jit(lambda x: x + 1)(given).tolist()\n"
        "for _ in range(1000):\n    time.sleep(0.01)\n    jnp.ones(2)",
        "was not donated, and the call has changed it",
    ),
    "a donated argument that stays": (
        """
        import lowtide.pjrt.programs as home
        import lowtide.pjrt.launching as other
        class Wrong(home.PluginProgram):
            @property
            def donated(self):
                return self.__dict__["donated"] if not self.hidden else ()
            @donated.setter
            def donated(self, value):
                self.__dict__["donated"] = value
            hidden = False
        home.PluginProgram = Wrong
        usual = other.LaunchedProgram.__init__
        def init(self, program):
            program.hidden = True
            usual(self, program)
            program.hidden = False
        other.LaunchedProgram.__init__ = init
        """,
        "jax.jit(lambda x: x + 1, donate_argnums=0)(jnp.ones(3))",
        "was donated and is not marked as deleted",
    ),
    "a copy in another place": (
        """
        import lowtide.pjrt.buffers as home
        usual = home.memory_at
        home.memory_at = lambda address: usual(address).device.memories[1]
        """,
        "jax.device_put(jnp.arange(3), jax.devices()[1])",
        "the copy of an array is int32[3]{0} in pinned_host memory",
    ),
    "another element type": (
        """
        import lowtide.pjrt.launching as home
        usual = home._results
        def wrong(program, made, places):
            records = usual(program, made, places)
            if program.name == "jit_half":
                records[0].number = 4
            return records
        home._results = wrong
        """,
        "half = lambda x: x / 2\nhalf.__name__ = 'half'\njax.jit(half)(jnp.ones(3))",
        "and JAX is told of float32[3]{0}",
    ),
}


@pytest.mark.parametrize("name", PLANTS)
def test_what_is_broken_is_told(tmp_path: Path, name: str) -> None:
    plant, call, message = PLANTS[name]
    script = f"""
jax.devices()
mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
def put(x, *spec):
    return jax.device_put(x, jax.NamedSharding(mesh, jax.P(*spec)))
from textwrap import dedent
exec(dedent({plant!r}))
try:
    exec({call!r})
    print("nothing was told")
except Exception as error:
    print(type(error).__name__, error)
"""
    told = run(script, tmp_path, **OPTIONS)
    kind, _, text = told.partition(" ")
    assert kind in ("JaxRuntimeError", "ValueError"), told  # by the path that JAX has taken
    assert text.startswith("INTERNAL: contract broken: ") and message in text, told
    assert told.count("\n") == 1, told


def test_the_check_is_one_of_the_whole_process(tmp_path: Path) -> None:
    script = """
    try:
        jax.jit(lambda x: x, compiler_options={"check": "contracts"})(1)
    except Exception as error:
        print(error)
    """
    assert "set LOWTIDE_OPTIONS=check=contracts" in run(script, tmp_path)
    wrong = run(script, tmp_path, LOWTIDE_OPTIONS="check=contracs")
    assert "found 'contracs'; did you mean 'contracts'?" in wrong
