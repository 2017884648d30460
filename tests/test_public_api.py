"""The names of `import lowtide`: what they are, and that importing them costs nothing."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.support import EXAMPLES

import lowtide

ROOT = Path(__file__).parents[1]
PROMISED = {
    "parse_hlo", "read", "verify", "evaluate", "explain", "Options", "LowtideError",
    "HloTextError", "InvalidModuleError", "UnsupportedOpError", "Module", "__version__",
    "check", "compile", "deserialize", "diff", "jit", "ClientLibrary", "Executable",
    "OverMemoryError",
}  # fmt: skip


def test_every_public_name_exists():
    assert set(lowtide.__all__) >= PROMISED
    for name in lowtide.__all__:
        assert getattr(lowtide, name) is not None
        assert name in dir(lowtide)
    with pytest.raises(AttributeError, match="no attribute 'complie'") as found:
        _ = lowtide.complie
    assert (found.value.name, found.value.obj) == ("complie", lowtide)  # a traceback suggests


def test_version_is_that_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert lowtide.__version__ == project["version"]


def test_import_loads_nothing():
    code = (
        "import sys; before = set(sys.modules); import lowtide; lowtide.__version__;"
        "loaded = set(sys.modules) - before - {'lowtide', 'lowtide.files'};"
        "print(*sorted(loaded - {'lowtide.files.module_files'}))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    allowed = {"typing", "importlib", "warnings"}
    assert {name.split(".")[0] for name in found.stdout.split()} <= allowed | set(
        sys.stdlib_module_names
    )


def test_use_loads_no_optional_library():
    """Of OR-tools it loads the maximum flows only, which take 50 ms, for the bound of explain."""
    code = (
        "import sys, lowtide;"
        f"print(lowtide.explain({str(EXAMPLES / 'mlp.hlo.xz')!r}));"
        "bad = {'jax', 'llvmlite', 'onnx', 'google', 'rich', 'typer'};"
        "bad |= {'ortools.sat', 'ortools.linear_solver', 'ortools.constraint_solver'};"
        "sys.exit(' '.join(bad & set(sys.modules)) or 0)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert (found.returncode, found.stderr) == (0, b"")


def test_explain_takes_a_path_or_a_module():
    path = EXAMPLES / "mlp.hlo.xz"
    module = lowtide.read(path)
    reports = [lowtide.explain(x) for x in (path, str(path), module)]
    assert len({report.ladder for report in reports}) == 1
    assert str(reports[0]).startswith("jit_mlp   ")
    assert reports[0].to_json()["schema"] == "lowtide.memory/1"
    as_written = lowtide.explain(module, lowtide.Options(stage="input"))
    assert str(as_written).startswith("jit_mlp   49 instructions")
    assert as_written.ladder.arena_bytes >= reports[0].ladder.arena_bytes
    with pytest.raises(lowtide.LowtideError, match="no stage 'x'"):
        lowtide.explain(module, lowtide.Options(stage="x"))


def test_explain_verifies():
    module = lowtide.parse_hlo("HloModule m\nENTRY e { ROOT c = f32[2] constant({1,2}) }")
    module.entry.root.set_shape(lowtide.read(EXAMPLES / "mlp.hlo.xz").entry.root.shape)
    with pytest.raises(lowtide.InvalidModuleError):
        lowtide.explain(module)


def test_compile_takes_a_path_or_a_module():
    path = EXAMPLES / "mlp.hlo.xz"
    module = lowtide.read(path)
    made = [lowtide.compile(x, threads=1) for x in (path, str(path), module)]
    assert all(isinstance(x, lowtide.Executable) for x in made)
    assert len({x.serialize() for x in made}) == 1
    assert lowtide.deserialize(made[0].serialize()).memory["schema"] == "lowtide.memory/1"
    broken = lowtide.parse_hlo("HloModule m\nENTRY e { ROOT c = f32[2] constant({1,2}) }")
    broken.entry.root.set_shape(module.entry.root.shape)
    with pytest.raises(lowtide.InvalidModuleError):
        lowtide.compile(broken)
    with pytest.raises(lowtide.InputError, match="no such file"):
        lowtide.compile("nope.hlo")


def test_explain_takes_a_function_and_specs():
    jax = pytest.importorskip("jax")

    def double(x, times, unused):
        return x @ x.T * times

    spec = jax.ShapeDtypeStruct((64, 32), "float32")
    staged = jax.jit(double, static_argnums=1)
    fast = lowtide.jit(double, static_argnums=1)
    reports = [
        lowtide.explain(staged, spec, 2.0, spec),
        lowtide.explain(fast, spec, 2.0, spec),
        lowtide.explain(fast, spec, 2.0, spec, options=lowtide.Options()),
        lowtide.explain(lambda x, y: double(x, 2.0, y), spec, y=spec),
    ]
    assert {x.ladder.arena_bytes for x in reports} == {reports[0].ladder.arena_bytes}
    assert reports[0].ladder.arena_bytes >= 64 * 64 * 4
    with pytest.raises(TypeError, match="arguments are only for functions"):
        lowtide.explain(EXAMPLES / "mlp.hlo.xz", spec)
    with pytest.raises(TypeError, match="effort: for modules and functions; a program of JAX's"):
        lowtide.explain(staged.lower(spec, 2.0, spec), effort="fast")
    with pytest.raises(TypeError, match="expected a path, a Module, a function"):
        lowtide.explain(3)


def test_explain_keeps_options_from_the_function():
    jax = pytest.importorskip("jax")
    spec = jax.ShapeDtypeStruct((64, 64), "float32")

    def product(x):
        return x @ x @ x

    plain = lowtide.explain(product, spec)
    limited = lowtide.explain(product, spec, memory="1MB")
    assert limited.ladder.arena_bytes == plain.ladder.arena_bytes
    with pytest.raises(lowtide.OverMemoryError):
        lowtide.explain(product, spec, memory=1)
    with pytest.raises(lowtide.OverMemoryError):
        lowtide.jit(product, memory=1).explain(spec)
    module = lowtide.jit(product).lower(spec).module
    with pytest.raises(lowtide.OverMemoryError):
        lowtide.explain(module, memory=1)
    with pytest.raises(lowtide.OverMemoryError):
        lowtide.explain(module, lowtide.Options(effort="fast"), memory=1)
    with pytest.raises(TypeError, match="memory may be an option of lowtide or one of"):
        lowtide.explain(lambda x, **more: x, spec, memory=1)
    scaled = lowtide.explain(lambda x, memory: x * memory, spec, memory=spec)
    assert scaled.argument_bytes == 2 * 64 * 64 * 4


def test_functions_and_their_stages_have_names():
    jax = pytest.importorskip("jax")

    def double(x):
        return x + x

    fast = lowtide.jit(double)
    assert repr(fast).endswith("double: 0 programs compiled>")
    assert "double" in fast._repr_html_() and "<lowtide" not in fast._repr_html_()
    lowered = fast.lower(jax.ShapeDtypeStruct((4,), "float32"))
    assert repr(lowered).startswith("<Lowered jit_double: ")
    assert repr(lowered.compile()).startswith("<Compiled <Executable jit_double: ")
