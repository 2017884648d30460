"""Options of calls and of LOWTIDE_OPTIONS on the platform "lowtide", and explain of programs."""

from __future__ import annotations

from pathlib import Path

from tests.pjrt.test_plugin import run

PROGRAM = """
def f(x):
    return jnp.tanh(x @ x) @ x + 1
x = np.ones((128, 128), np.float32)
def refused(**options):
    try:
        jax.jit(f, compiler_options=options).lower(x).compile()
    except jax.errors.JaxRuntimeError as error:
        return str(error)
    raise AssertionError(options)
"""


def test_options_of_a_call_reach_the_compiler(tmp_path: Path) -> None:
    script = (
        PROGRAM
        + """
from lowtide.pjrt.compile_options import lowtide_options
from lowtide.options import Options
from lowtide.pjrt.device_assignment import read_options
from jaxlib import _jax
given = _jax.CompileOptions()
given.env_option_overrides = [
    ("memory", "1GiB"), ("effort", "fast"), ("threads", 2), ("check", True), ("cache", "false")]
found = lowtide_options(read_options(given.SerializeAsString()).overrides)
assert found == Options(memory=1 << 30, effort="fast", threads=2, check="first", cache=False)
options = {"memory": "1GiB", "effort": "fast", "threads": 2, "check": True}
for check in (True, "always"):
    y = jax.jit(f, compiler_options={**options, "check": check})(x)
    np.testing.assert_allclose(y, f(x), rtol=1e-5)
within = jax.jit(f, compiler_options={"memory": 150_000}).lower(x).compile()
assert within.memory_analysis().temp_size_in_bytes <= 150_000
"""
    )
    run(script, tmp_path)


def test_wrong_options_are_errors_that_name_what_is_right(tmp_path: Path) -> None:
    script = (
        PROGRAM
        + """
assert "No such compile option: 'memry'; did you mean 'memory'?" in refused(memry="1GiB")
assert "expected a size" in refused(memory="1Gx")
assert "effort is one of fast, default, proof; found 'ful'" in refused(effort="ful")
assert "threads: 'two' is not a valid whole number" in refused(threads="two")
assert "threads" in refused(threads=-1) and "threads" in refused(threads=True)
assert "at most 4,096; found 5000" in refused(threads=5000)
assert "autotune: 3 is not a valid bool" in refused(autotune=3)
assert "check is one of never, first, always" in refused(check="maybe")
text = refused(memory="1KiB")
assert text.startswith("RESOURCE_EXHAUSTED") and "smallest budget known to do is" in text, text
assert np.isfinite(jax.jit(f)(x)).all()
"""
    )
    run(script, tmp_path)


def test_options_of_xla_mean_nothing_and_one_warning_says_so(tmp_path: Path) -> None:
    script = (
        PROGRAM
        + """
import warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for value in (True, False):
        jax.jit(f, compiler_options={"xla_embed_ir_in_executable": value})(x)
assert [str(x.message) for x in seen if "xla_embed" in str(x.message)] == [
    "xla_embed_ir_in_executable is an option of XLA, and means nothing to lowtide"]
"""
    )
    run(script, tmp_path)


def test_the_environment_has_options_for_all_programs(tmp_path: Path) -> None:
    script = (
        PROGRAM
        + """
text = refused()
assert "may use" in text and "1,024" in text, text
assert jax.jit(f, compiler_options={"memory": "1MiB"})(x).shape == (128, 128)
"""
    )
    run(script, tmp_path, LOWTIDE_OPTIONS="memory=1KiB, effort=fast")
    for wrong in ("memry=1KiB", "memory", "threads=1,threads=2"):
        script = PROGRAM + 'assert "LOWTIDE_OPTIONS" in refused()'
        run(script, tmp_path, LOWTIDE_OPTIONS=wrong)


def test_explain_knows_the_plan_of_a_compiled_program(tmp_path: Path) -> None:
    script = (
        PROGRAM
        + """
import lowtide
compiled = jax.jit(f).lower(x).compile()
report = lowtide.explain(compiled)
memory = compiled.memory_analysis()
assert report.argument_bytes == memory.argument_size_in_bytes == 128 * 128 * 4
assert report.temp_bytes == memory.temp_size_in_bytes
assert "beyond its arguments" in str(report)
"""
    )
    run(script, tmp_path)
