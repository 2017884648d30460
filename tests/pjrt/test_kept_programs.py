"""Programs that JAX keeps and reads back, and what a compiled program tells of its costs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.pjrt.test_plugin import run

from lowtide.frontend.hlo_proto import write_hlo_module_proto
from lowtide.frontend.hlo_text import parse_hlo

pytest.importorskip("jax")

from lowtide.pjrt.device_assignment import CompileOptions
from lowtide.pjrt.errors import PluginError
from lowtide.pjrt.program_modules import module_of

ONE_DEVICE = CompileOptions(b"", (0,))


def test_programs_that_were_exported_for_the_processor_run_here(tmp_path: Path) -> None:
    script = """
    from jax import export
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    def f(x):
        return jnp.linalg.svd(x, compute_uv=False) + jax.lax.platform_dependent(
            x.sum(), cpu=lambda x: x, default=lambda x: x + 1
        )
    for platforms in (["cpu"], ["tpu", "cpu"]):
        g = export.export(jax.jit(jnp.cumsum), platforms=platforms)
        assert np.array_equal(jax.jit(g(x).call)(x), np.cumsum(x))
    one = export.export(jax.jit(f), platforms=["cpu"])(x)
    wanted = np.linalg.svd(x, compute_uv=False) + x.sum()
    np.testing.assert_allclose(jax.jit(one.call)(x), wanted, rtol=1e-5, atol=1e-4)
    try:
        jax.jit(export.export(jax.jit(jnp.cumsum), platforms=["tpu"])(x).call)(x)
    except ValueError as error:
        print("exported for platforms" in str(error))
    """
    assert run(script, tmp_path) == "True\n"


def test_programs_travel_as_bytes(tmp_path: Path) -> None:
    script = """
    from jax.experimental.serialize_executable import deserialize_and_load, serialize
    from jax.sharding import SingleDeviceSharding
    def f(x, y):
        return {"a": x @ y, "b": y.sum()}
    host = SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host")
    x, y = jnp.ones((2, 3)), jnp.ones((3, 4))
    compiled = jax.jit(f, out_shardings=host).lower(x, y).compile()
    again = deserialize_and_load(*serialize(compiled))
    found = again(x, y)
    assert float(found["b"]) == 12 and found["a"].tolist() == [[3] * 4] * 2
    assert found["a"].sharding.memory_kind == "pinned_host"
    assert again.as_text() == compiled.as_text()
    one, other = again.memory_analysis(), compiled.memory_analysis()
    assert one.temp_size_in_bytes == other.temp_size_in_bytes
    donating = jax.jit(lambda x: x + 1, donate_argnums=0).lower(x).compile()
    deserialize_and_load(*serialize(donating))(x)
    assert x.is_deleted()
    """
    run(script, tmp_path)


def test_exported_programs_run(tmp_path: Path) -> None:
    pytest.importorskip("flatbuffers")
    script = """
    from jax import export
    made = export.export(jax.jit(lambda x: jnp.sin(x) + 1))(jax.ShapeDtypeStruct((4,), np.float32))
    assert made.platforms == ("lowtide",)
    again = export.deserialize(made.serialize())
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_allclose(again.call(x), np.sin(x) + 1, rtol=1e-6)
    """
    run(script, tmp_path)


COUNTED = """
    import sys, warnings
    from jax._src import monitoring
    warnings.simplefilter("error")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    jax.config.update("jax_raise_persistent_cache_errors", True)
    seen = []
    monitoring.register_event_listener(lambda event, **_: seen.append(event.split("/")[-1]))
    x = np.ones((4, 4), np.float32)
    assert jax.jit(lambda x: x @ x + 1)(x)[0, 0] == 5
    print(seen.count("cache_hits"), seen.count("cache_misses"))
"""


def test_the_cache_of_jax_keeps_programs(tmp_path: Path) -> None:
    folder = str(tmp_path / "cache")
    first = run(COUNTED, tmp_path, JAX_COMPILATION_CACHE_DIR=folder)
    second = run(COUNTED, tmp_path, JAX_COMPILATION_CACHE_DIR=folder)
    misses = int(first.split()[1])
    assert first.split()[0] == "0" and misses > 0
    assert second.split() == [str(misses), "0"]


def test_a_program_of_a_stranger_is_not_run(tmp_path: Path) -> None:
    folder = str(tmp_path / "cache")
    run(COUNTED, tmp_path, JAX_COMPILATION_CACHE_DIR=folder)
    with pytest.raises(AssertionError, match="this user did not compile here"):
        run(
            COUNTED,
            tmp_path,
            JAX_COMPILATION_CACHE_DIR=folder,
            LOWTIDE_CACHE=str(tmp_path / "another"),
        )


def test_what_is_no_program_is_told(tmp_path: Path) -> None:
    script = """
    client = jax.devices()[0].client
    compiled = jax.jit(lambda x: x + 1).lower(np.ones(3, np.float32)).compile()
    data = compiled.runtime_executable().serialize()
    from jaxlib import _jax
    devices = _jax.DeviceList((jax.devices()[0],))
    for given in (data[:100], data[:-1]):
        try:
            client.deserialize_executable(given, devices)
        except Exception as error:
            print(error)
    """
    first, second = run(script, tmp_path).splitlines()
    assert first.endswith("no program that lowtide's platform has made")
    assert second.endswith("the program is a damaged executable: its checksum is wrong")


def test_costs_have_the_names_of_xla(tmp_path: Path) -> None:
    script = """
    x = jnp.ones((8, 16))
    compiled = jax.jit(lambda x: jnp.exp(x @ x.T)).lower(x).compile()
    cost = compiled.cost_analysis()
    assert cost["flops"] == 2 * 8 * 8 * 16 and cost["transcendentals"] == 64
    assert cost["bytes accessed"] >= 4 * (8 * 16 + 8 * 8)
    memory = compiled.memory_analysis()
    assert memory.argument_size_in_bytes == 8 * 16 * 4
    assert memory.output_size_in_bytes == 8 * 8 * 4
    assert memory.alias_size_in_bytes == memory.host_temp_size_in_bytes == 0
    assert memory.peak_memory_in_bytes >= memory.temp_size_in_bytes + 8 * 16 * 4
    donating = jax.jit(lambda x: x + 1, donate_argnums=0).lower(x).compile().memory_analysis()
    assert donating.alias_size_in_bytes == 8 * 16 * 4
    """
    run(script, tmp_path)


TWICE = """HloModule twice
ENTRY %main (x: f32[3,2]) -> (f32[3,2]) {
  %x = f32[3,2]{0,1} parameter(0)
  %y = f32[3,2]{0,1} add(%x, %x)
  ROOT %z = (f32[3,2]{0,1}) tuple(%y)
}"""


def test_programs_come_as_hlo_too() -> None:
    module = module_of("hlo", write_hlo_module_proto(parse_hlo(TWICE)), ONE_DEVICE)
    assert module.entry_layout is not None
    assert str(module.entry_layout.parameters[0]) == "f32[3,2]{0,1}"
    with pytest.raises(PluginError, match="'mlir' or 'hlo', not as 'text'"):
        module_of("text", b"", ONE_DEVICE)


def test_programs_of_other_constants_have_other_fingerprints(tmp_path: Path) -> None:
    """Also of constants that are too large for a text."""
    script = """
    def fingerprint(size, last):
        table = np.ones(size, np.float32)
        table[-1] = last
        table = jnp.asarray(table)
        found = jax.jit(lambda x: x + table).lower(jnp.ones(size, jnp.float32)).compile()
        return found.runtime_executable().fingerprint

    for size in (1, 100, 5000, 300_000):
        found = [fingerprint(size, last) for last in (1, 1, 2)]
        assert found[0] == found[1] != found[2] and found[0], (size, found)
    """
    run(script, tmp_path)
