"""StableHLO from files: text, bytecode, exports of JAX, unknown sizes, and what is refused."""

import contextlib
import sys
from pathlib import Path

import numpy as np
import pytest

import lowtide
from lowtide.frontend import stablehlo_conversion
from lowtide.frontend.file_kinds import looks_like_stablehlo
from lowtide.frontend.files import read_input
from lowtide.ir import HloTextError, InputError
from lowtide.processes import child

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax import export  # noqa: E402


def function(x, y):
    return jnp.tanh(x @ y).sum(0), jnp.sort(x, axis=1)


def exported(rows="8", platforms=None):
    sizes = export.symbolic_shape(f"{rows}, 16")
    x = jax.ShapeDtypeStruct(sizes, np.float32)
    y = jax.ShapeDtypeStruct((16, 4), np.float32)
    return export.export(jax.jit(function), platforms=platforms)(x, y)


def written(folder: Path, name: str, data: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


FORMS = {
    "text.mlir": lambda x: x.mlir_module(),
    "commented.txt": lambda x: "// a comment\n\n  // another\n" + x.mlir_module(),
    "portable.mlirbc": lambda x: x.mlir_module_serialized,
    "function.bin": lambda x: bytes(x.serialize()),
}


def runs_right(module, rows: int) -> None:
    rng = np.random.default_rng(rows)
    x = rng.random((rows, 16), np.float32)
    y = rng.random((16, 4), np.float32)
    found = lowtide.compile(module)(x, y)
    for result, expected in zip(found, function(x, y), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5)


@pytest.mark.parametrize("name", FORMS)
def test_each_form_is_read(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, name, FORMS[name](exported()))
    runs_right(lowtide.read(path), 8)


@pytest.mark.parametrize("name", FORMS)
def test_unknown_sizes_are_given(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, name, FORMS[name](exported("2*b")))
    with pytest.raises(InputError, match=r"sizes are unknown of arg0, a tensor<\?x16x.*--shape"):
        lowtide.read(path)
    for rows in (2, 6):
        runs_right(read_input(path, shapes={"arg0": (rows, 16)}).module, rows)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"arg0": (4, 17)}, r"argument arg0 is tensor<\?x16xf32>, which has no sizes 4,17"),
        ({"arg0": (4,)}, "has no sizes 4"),
        ({"arg1": (16, 5), "arg0": (4, 16)}, r"argument arg1 is tensor<16x4xf32>"),
        ({"ar0": (4, 16)}, "no argument 'ar0'; did you mean 'arg0'"),
        ({"arg0": (5, 16)}, "divisible|Division|shape"),
    ],
)
def test_wrong_sizes_are_refused(tmp_path: Path, shapes, message: str) -> None:
    path = written(tmp_path, "x.mlir", exported("2*b").mlir_module())
    with pytest.raises(InputError, match=message) as caught:
        read_input(path, shapes=shapes)
    assert "\n" not in str(caught.value)


def test_errors_of_texts_have_a_place(tmp_path: Path) -> None:
    text = exported().mlir_module().replace("stablehlo.tanh", "stablehlo.tanhh")
    row = next(n for n, x in enumerate(text.splitlines(), 1) if "tanhh" in x)
    with pytest.raises(HloTextError, match=r"custom op 'stablehlo\.tanhh' is unknown") as caught:
        lowtide.read(written(tmp_path, "x.mlir", text))
    assert caught.value.line == row


def test_lines_are_those_of_the_file_where_it_names_no_others(tmp_path: Path) -> None:
    text = "module {\n func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
    text += "  %y = stablehlo.sine %x : tensor<2xf32>\n  return %y : tensor<2xf32>\n }\n}\n"
    path = written(tmp_path, "x.mlir", text)
    source = lowtide.read(path).entry.root.source
    assert (source.file, source.line) == (str(path), 3)
    lowered = jax.jit(lambda x: jnp.sin(x) * 2).lower(1.0)
    path = written(tmp_path, "y.mlir", lowered.as_text(debug_info=True))
    assert lowtide.read(path).entry.root.source.file == __file__


@pytest.mark.parametrize(
    ("platforms", "chosen"), [(("tpu", "cpu", "cuda"), 1), (("cuda", "tpu"), 2)]
)
def test_of_several_platforms_the_code_for_cpus_is_read(
    tmp_path: Path, platforms: tuple[str, ...], chosen: int
) -> None:
    """Else that for the first one; sizes that were left open count from the user's arguments."""

    def told(x, y):
        added = {"cpu": lambda x: x + 1, "cuda": lambda x: x + 2, "tpu": lambda x: x + 3}
        return jax.lax.platform_dependent(x, **{k: added[k] for k in platforms}) * y

    sizes = [export.symbolic_shape("n"), (1,)]
    whole = export.export(jax.jit(told), platforms=platforms)(
        *[jax.ShapeDtypeStruct(x, np.float32) for x in sizes]
    )
    path = written(tmp_path, "x.bin", bytes(whole.serialize()))
    module = lowtide.read(path, shapes={"arg0": (3,)})
    assert [str(x.shape) for x in module.entry.parameters] == ["f32[3]{0}", "f32[1]{0}"]
    found = lowtide.compile(module)(np.arange(3, dtype=np.float32), np.full(1, 2, np.float32))
    np.testing.assert_array_equal(found, 2 * (np.arange(3) + chosen))
    with pytest.raises(InputError, match="there are arg0, arg1"):
        lowtide.read(path, shapes={"arg2": (3,)})


def damaged():
    whole = exported()
    yield "module {", "expected operation name"
    yield "module { }", "expected a function @main or one public function, found none"
    yield whole.mlir_module_serialized[:500], "not StableHLO that is read"
    yield bytes(whole.serialize())[:1300], "cut off or damaged"


@pytest.mark.parametrize("number", range(4))
def test_what_is_not_read_is_one_error(tmp_path: Path, number: int, capfd) -> None:
    data, message = list(damaged())[number]
    with pytest.raises(InputError, match=message):
        lowtide.read(written(tmp_path, "x.mlir", data))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("value", [0, 5, 255])
def test_a_damaged_export_is_one_error(value: int) -> None:
    """Or it is read: not every byte says something."""
    data = bytes(exported().serialize())
    for place in range(4, len(data), 3):
        damaged = bytearray(data)
        damaged[place] = value
        with contextlib.suppress(ValueError):
            stablehlo_conversion.exported_code(bytes(damaged))


def test_what_is_not_installed_is_no_damage(monkeypatch) -> None:
    def missing(data):
        raise ImportError("Please install 'flatbuffers'")

    monkeypatch.setattr(export, "deserialize", missing)
    with pytest.raises(InputError, match=r"takes flatbuffers: pip install 'lowtide\[jax\]'"):
        stablehlo_conversion.exported_code(b"")


def test_the_library_may_end_its_process(tmp_path: Path, monkeypatch) -> None:
    path = written(tmp_path, "x.mlir", exported().mlir_module())
    monkeypatch.setattr(child, "_CODE", "import os; os.kill(os.getpid(), 11)")
    with pytest.raises(InputError, match=r"x.mlir: .* ended while it did \(signal 11\)"):
        lowtide.read(path)
    monkeypatch.setattr(child, "_CODE", "1 / 0")
    with pytest.raises(InputError, match="ZeroDivisionError"):
        lowtide.read(path)


def test_an_application_without_a_python_reads_it(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    module = lowtide.read(written(tmp_path, "x.mlir", exported().mlir_module()))
    assert len(module.entry.parameters) == 2


FUNCTION = """  func.func @NAME(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.tanh %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
"""


def functions(*names: str) -> str:
    return "module {\n" + "".join([FUNCTION.replace("@NAME", x) for x in names]) + "}\n"


@pytest.mark.parametrize("first", ["@forward", "public @forward"])
def test_the_only_public_function_is_where_a_module_begins(tmp_path: Path, first: str) -> None:
    text = functions(first, "private @other")
    module = lowtide.read(written(tmp_path, "m.mlir", text))
    x = np.linspace(-1, 1, 4, dtype=np.float32)
    np.testing.assert_allclose(lowtide.compile(module)(x), np.tanh(x), rtol=1e-6)


@pytest.mark.parametrize("first", ["@forward", "public @forward"])
def test_of_several_functions_one_is_called_main(tmp_path: Path, first: str) -> None:
    path = written(tmp_path, "m.mlir", functions(first, "@backward"))
    with pytest.raises(InputError, match="one public function, found @forward, @backward"):
        lowtide.read(path)


def test_quantized_types_are_named(tmp_path: Path) -> None:
    text = functions("@main").replace("tensor<4xf32>", "tensor<4x!quant.uniform<i8:f32, 0.5:3>>")
    with pytest.raises(InputError, match=r"m\.mlir:2:\d+: quantized types"):
        lowtide.read(written(tmp_path, "m.mlir", text))


def of_devices(body: str) -> str:
    """A module for eight devices that takes the rows of an array apart; `body` is its work."""
    return f"""module @m attributes {{mhlo.num_partitions = 8 : i32}} {{
  sdy.mesh @mesh = <["a"=8]>
  func.func public @main(%arg0: tensor<16x4xf32>) -> tensor<16x4xf32> {{
    {body}
    return %0 : tensor<16x4xf32>
  }}
}}
"""


MANUAL = """%0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"a"}, {}]>]
        out_shardings=[<@mesh, [{"a"}, {}]>] manual_axes={"a"} (%x: tensor<2x4xf32>) {
      %1 = stablehlo.tanh %x : tensor<2x4xf32>
      sdy.return %1 : tensor<2x4xf32>
    } : (tensor<16x4xf32>) -> tensor<16x4xf32>"""
CONSTRAINED = """%1 = stablehlo.tanh %arg0 : tensor<16x4xf32>
    %0 = sdy.sharding_constraint %1 <@mesh, [{"a"}, {}]> : tensor<16x4xf32>"""


@pytest.mark.parametrize("body", [MANUAL, CONSTRAINED])
def test_a_module_for_several_devices_is_one(tmp_path: Path, body: str) -> None:
    """Each device has its rows, also where no sharding is said of the argument itself."""
    module = lowtide.read(written(tmp_path, "m.mlir", of_devices(body)))
    assert module.num_partitions == 8
    assert lowtide.explain(module).argument_bytes == 2 * 4 * 4
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(16, 4)
    np.testing.assert_allclose(lowtide.compile(module)(x), np.tanh(x), rtol=1e-6)


@pytest.mark.parametrize(("count", "message"), [("-8", "below 2147483648"), ("6", "has 8 devices")])
def test_a_wrong_number_of_devices_is_one_error(tmp_path: Path, count: str, message: str) -> None:
    text = of_devices(MANUAL).replace("= 8 : i32", f"= {count} : i32")
    with pytest.raises(InputError, match=message):
        lowtide.explain(lowtide.read(written(tmp_path, "m.mlir", text)))


@pytest.mark.parametrize(
    "data", [b"", b"HloModule m", b"// HLO\nHloModule m", b"\n\x03abcML\xefR", b"ML", b"//"]
)
def test_other_files_are_not_taken_for_it(data: bytes) -> None:
    assert not looks_like_stablehlo(data)
