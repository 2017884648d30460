"""Objects compiled ahead of time: what they hold, and that C programs compute what is right."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.frontend.tflite.making import Graph, model_bytes

import lowtide
from lowtide.backends.aot.files import _c_string
from lowtide.cli.main import main
from lowtide.client.aot import AotRequest, compile_aot, write_aot
from lowtide.ir.errors import InputError, UnsupportedOpError
from lowtide.llvm.named_targets import NAMED_TARGETS

C_COMPILER = shutil.which("cc")
needs_c = pytest.mark.skipif(C_COMPILER is None, reason="no C compiler (cc)")

PERCEPTRON = """
HloModule perceptron
ENTRY e {
  x = f32[4,8] parameter(0)
  w = f32[8,3] parameter(1)
  b = f32[3] constant({0.5, -1, 2})
  d = f32[4,3] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bb = f32[4,3] broadcast(b), dimensions={1}
  s = f32[4,3] add(d, bb)
  ROOT t = f32[4,3] tanh(s)
}
"""

CONVOLUTION = """
HloModule convolution
most { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT m = f32[] maximum(a, b) }
ENTRY e {
  x = f32[2,12,12,3] parameter(0)
  w = f32[3,3,3,5] parameter(1)
  c = f32[2,12,12,5] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  z = f32[] constant(0)
  zb = f32[2,12,12,5] broadcast(z), dimensions={}
  r = f32[2,12,12,5] maximum(c, zb)
  low = f32[] constant(-inf)
  ROOT p = f32[2,6,6,5] reduce-window(r, low), window={size=1x2x2x1 stride=1x2x2x1}, to_apply=most
}
"""

RECURRENCE = """
HloModule recurrence
more { s = (s32[], f32[4,16], f32[16,16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(7)
  ROOT c = pred[] compare(i, n), direction=LT }
step { s = (s32[], f32[4,16], f32[16,16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f32[4,16] get-tuple-element(s), index=1
  w = f32[16,16] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  d = f32[4,16] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g = f32[4,16] logistic(d)
  k = f32[4,16] multiply(g, h)
  ROOT t = (s32[], f32[4,16], f32[16,16]) tuple(j, k, w) }
ENTRY e {
  h = f32[4,16] parameter(0)
  w = f32[16,16] parameter(1)
  z = s32[] constant(0)
  s = (s32[], f32[4,16], f32[16,16]) tuple(z, h, w)
  r = (s32[], f32[4,16], f32[16,16]) while(s), condition=more, body=step
  i = s32[] get-tuple-element(r), index=0
  k = f32[4,16] get-tuple-element(r), index=1
  ROOT t = (s32[], f32[4,16]) tuple(i, k)
}
"""

BRANCHES = """
HloModule branches
first { x = f32[8] parameter(0)
  ROOT n = f32[8] negate(x) }
second { x = f32[8] parameter(0)
  ROOT e = f32[8] exponential(x) }
third { x = f32[8] parameter(0)
  ROOT e = f32[8] add(x, x) }
ENTRY e {
  i = s32[] parameter(0)
  x = f32[8] parameter(1)
  ROOT c = f32[8] conditional(i, x, x, x), branch_computations={first, second, third}
}
"""

OVERWRITTEN = """
HloModule overwritten, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY e {
  x = f32[4,4] parameter(0)
  u = f32[1,4] parameter(1)
  i = s32[] parameter(2)
  z = s32[] constant(0)
  d = f32[4,4] dynamic-update-slice(x, u, i, z)
  ROOT t = (f32[4,4], f32[4,4]) tuple(d, x)
}
"""

PROGRAMS = {
    "perceptron": PERCEPTRON,
    "convolution": CONVOLUTION,
    "recurrence": RECURRENCE,
    "branches": BRANCHES,
    "overwritten": OVERWRITTEN,
}

DRIVER = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "NAME.h"
static void *room(size_t bytes, size_t alignment) {
  if (alignment < sizeof(void *)) alignment = sizeof(void *);
  return aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
}
static const size_t given[] = {GIVEN}, made[] = {MADE};
int main(int count, char **files) {
  const void *args[sizeof given / sizeof *given + 1];
  void *results[sizeof made / sizeof *made];
  FILE *in = fopen(files[1], "rb"), *out = fopen(files[2], "wb");
  for (size_t i = 0; i + 1 < sizeof given / sizeof *given; i++) {
    void *array = room(given[i], 64);
    if (fread(array, 1, given[i], in) != given[i]) return 2;
    args[i] = array;
  }
  for (size_t i = 0; i + 1 < sizeof made / sizeof *made; i++) results[i] = room(made[i], 8);
  void *arena = room(UPPER_ARENA_BYTES + 64, UPPER_ARENA_ALIGNMENT);
  memset((char *)arena + UPPER_ARENA_BYTES, 0x5A, 64);
  for (int again = 0; again < 2; again++) if (NAME_run(arena, args, results)) return 3;
  for (int i = 0; i < 64; i++) if (((char *)arena)[UPPER_ARENA_BYTES + i] != 0x5A) return 4;
  for (size_t i = 0; i + 1 < sizeof made / sizeof *made; i++) fwrite(results[i], 1, made[i], out);
  return fclose(out);
}
"""


def arguments_of(module):
    generator = np.random.default_rng(7)
    found = []
    for parameter in module.entry.parameters:
        sizes = parameter.shape.dimensions
        if parameter.shape.element_type.is_floating:
            found.append(generator.uniform(-1, 1, sizes).astype(np.float32))
        else:
            found.append(np.int32(1))
    return found


def arrays_of(value):
    return [np.asarray(x) for x in (value if isinstance(value, tuple) else (value,))]


def run_in_c(module, folder, request, arguments, wanted, *, around=()):
    """Results of a C program that links the object, beside the list of what it is given."""
    made = compile_aot(module, request).program
    write_aot(made, folder)
    name = request.name
    given = [np.asarray(x) for x in arguments]
    if made.weights is not None:
        given.append(np.frombuffer((folder / f"{name}.weights").read_bytes(), np.uint8))
    sizes = ", ".join([f"{x.nbytes}u" for x in given] + ["0"])
    outs = ", ".join([f"{x.nbytes}u" for x in wanted] + ["0"])
    text = DRIVER.replace("NAME", name).replace("UPPER", name.upper())
    (folder / "main.c").write_text(text.replace("GIVEN", sizes).replace("MADE", outs))
    program = folder / "main"
    libraries = ["-lm"] if set(made.needs) - {"memcpy", "memmove", "memset"} else []
    files = [folder / "main.c", folder / f"{name}.o"]
    command = [C_COMPILER, "-Wall", "-Werror", "-o", program, *files, *libraries]
    subprocess.run(command, check=True, cwd=folder)
    (folder / "in").write_bytes(b"".join([x.tobytes() for x in given]))
    subprocess.run([*around, program, folder / "in", folder / "out"], check=True)
    found, content, begin = [], (folder / "out").read_bytes(), 0
    for x in wanted:
        found.append(np.frombuffer(content[begin:][: x.nbytes], x.dtype).reshape(x.shape))
        begin += x.nbytes
    return found


def assert_close(found, wanted):
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=2e-6)


@needs_c
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_c_program_computes_what_the_evaluator_does(name, tmp_path):
    module = lowtide.parse_hlo(PROGRAMS[name])
    arguments = arguments_of(module)
    wanted = arrays_of(lowtide.evaluate(module, arguments))
    for target in ("cpu", "x86-64"):
        if target == "cpu" or "x86" in AotRequest().backend().target.triple:
            request = AotRequest(target, "thing")
            assert_close(run_in_c(module, tmp_path, request, arguments, wanted), wanted)


@needs_c
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="no valgrind")
def test_no_byte_outside_is_touched(tmp_path):
    module = lowtide.parse_hlo(CONVOLUTION)
    arguments = arguments_of(module)
    wanted = arrays_of(lowtide.evaluate(module, arguments))
    around = ("valgrind", "--quiet", "--error-exitcode=9", "--leak-check=no")
    request = AotRequest("x86-64-v2")
    assert_close(run_in_c(module, tmp_path, request, arguments, wanted, around=around), wanted)


@needs_c
def test_weights_lie_in_a_file_of_their_own(tmp_path):
    module = lowtide.parse_hlo(PERCEPTRON)
    arguments = arguments_of(module)
    wanted = arrays_of(lowtide.evaluate(module, arguments))
    request = AotRequest(weights_apart=True)
    assert_close(run_in_c(module, tmp_path, request, arguments, wanted), wanted)
    assert "#define MODEL_WEIGHTS 2" in (tmp_path / "model.h").read_text()
    damaged = np.zeros((tmp_path / "model.weights").stat().st_size, np.uint8)
    (tmp_path / "in").write_bytes(b"".join([x.tobytes() for x in (*arguments, damaged)]))
    subprocess.run([tmp_path / "main", tmp_path / "in", tmp_path / "out"], check=True)
    found = np.frombuffer((tmp_path / "out").read_bytes(), np.float32).reshape(4, 3)
    np.testing.assert_allclose(found, np.tanh(arguments[0] @ arguments[1]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", NAMED_TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_objects_need_nothing_but_copies(name, target):
    made = compile_aot(lowtide.parse_hlo(PROGRAMS[name]), AotRequest(target)).program
    allowed = {"memcpy", "memmove", "memset"}
    if target in ("x86-64", "x86-64-v2"):
        allowed |= {"fma", "fmaf"}
    assert set(made.needs) <= allowed


@pytest.mark.skipif(shutil.which("nm") is None, reason="no nm")
def test_the_symbols_are_those_that_nm_finds(tmp_path):
    made = compile_aot(lowtide.parse_hlo(RECURRENCE), AotRequest("x86-64")).program
    path = tmp_path / "model.o"
    path.write_bytes(made.object)
    listed = subprocess.run(["nm", path], check=True, capture_output=True, text=True).stdout
    undefined = re.findall(r"^ +U (\S+)$", listed, re.MULTILINE)
    assert list(made.needs) == sorted(undefined) != []
    assert re.findall(r" T (\S+)$", listed, re.MULTILINE) == ["model_run"]


@needs_c
@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake")
def test_cmake_and_the_wrapper_of_cpp(tmp_path):
    made = compile_aot(lowtide.parse_hlo(PERCEPTRON), AotRequest("cpu", "net")).program
    write_aot(made, tmp_path / "net")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.15)\nproject(p LANGUAGES C CXX)\n"
        "set(CMAKE_CXX_STANDARD 17)\nadd_subdirectory(net)\nadd_executable(p main.cpp)\n"
        "target_link_libraries(p net)\n"
    )
    (tmp_path / "main.cpp").write_text(
        '#include "net.hpp"\n'
        "static float x[32], w[24], y[12];\n"
        "int main() { static lowtide::net n; if (n.run({x, w}, {y})) return 1;\n"
        "  return y[0] > 0.46f && y[0] < 0.47f && y[2] > 0.96f ? 0 : 2; }\n"
    )
    built = tmp_path / "build"
    quiet = {"check": True, "capture_output": True}
    subprocess.run(["cmake", "-S", tmp_path, "-B", built], **quiet)
    subprocess.run(["cmake", "--build", built], **quiet)
    subprocess.run([built / "p"], check=True)


def test_equal_modules_give_equal_bytes():
    first, second = [
        compile_aot(lowtide.parse_hlo(CONVOLUTION), AotRequest("aarch64")).program for _ in range(2)
    ]
    assert first.object == second.object


def test_what_needs_the_process_is_refused_by_name():
    factor = (
        "HloModule m\nENTRY e { x = f32[4,4] parameter(0)\n ROOT bad = (f32[4,4], f32[4], s32[]) "
        'custom-call(x), custom_call_target="outside", api_version=API_VERSION_STATUS_RETURNING }'
    )
    with pytest.raises(UnsupportedOpError, match="%bad"):
        compile_aot(lowtide.parse_hlo(factor), AotRequest())


def test_wrong_requests():
    with pytest.raises(InputError, match=r"no processor 'z80'.* x86-64-v3"):
        AotRequest("z80")
    with pytest.raises(InputError, match="letters, digits"):
        AotRequest("cpu", "1 2")


def test_the_command(lowtide_command, tmp_path):
    path = tmp_path / "p.hlo"
    path.write_text(PERCEPTRON)
    folder = tmp_path / "made"
    assert lowtide_command("compile", path, "--aot", folder, "--target", "x86-64-v3") == 0
    names = sorted([x.name for x in folder.iterdir()])
    assert names == ["CMakeLists.txt", "model.h", "model.hpp", "model.o"]
    assert lowtide_command("compile", path, "--target", "aarch64") == 1
    assert lowtide_command("compile", path, "--aot", folder, "-o", tmp_path / "x") == 1
    assert lowtide_command("compile", path, "--name", "x") == 1
    assert lowtide_command("compile", path, "--aot", folder, "--memory", 1) == 2


@pytest.fixture
def lowtide_command():
    from lowtide.cli.main import main

    return lambda *words: main([str(x) for x in words])


def test_the_program_of_the_page_runs_a_model_with_its_weights(tmp_path):
    """The listing of docs/aot.md, as it stands there; names are those of the model."""
    page = (Path(__file__).parents[2] / "docs" / "aot.md").read_text()
    listing = page.partition("```c\n")[2].partition("```")[0]
    graph = Graph()
    x = graph.given((1, 24))
    weights = graph.constant(np.linspace(-1, 1, 24 * 700, dtype=np.float32).reshape(700, 24))
    graph.outputs = [graph.op("FULLY_CONNECTED", [x, weights], (1, 700), {0: 1})]
    path = tmp_path / "model.tflite"
    path.write_bytes(model_bytes(graph))
    folder = tmp_path / "net"
    command = ["compile", str(path), "--aot", str(folder), "--name", "net", "--weights-file"]
    assert main([*command, "--target", "cpu"]) == 0
    header = (folder / "net.h").read_text()
    assert "#define NET_ARGUMENTS 2\n" in header
    assert "#define NET_WEIGHTS 1\n" in header
    assert '#define NET_ARGUMENT_0_NAME "tensor 0"\n' in header
    assert '#define NET_RESULT_0_NAME "tensor 2"\n' in header
    assert (folder / "net.weights").stat().st_size >= 24 * 700 * 4
    if C_COMPILER is None:
        pytest.skip("no C compiler (cc)")
    (folder / "program.c").write_text(listing)
    build = [C_COMPILER, "-std=c11", "-Wall", "-Werror", "program.c", "net.o", "-o", "program"]
    subprocess.run(build, cwd=folder, check=True)
    given = np.linspace(-2, 1, 24, dtype=np.float32).reshape(1, 24)
    made = subprocess.run(
        ["./program"], cwd=folder, input=given.tobytes(), capture_output=True, check=True
    ).stdout
    wanted = np.maximum(
        given @ np.linspace(-1, 1, 24 * 700, dtype=np.float32).reshape(700, 24).T, 0
    )
    np.testing.assert_allclose(np.frombuffer(made, np.float32), wanted[0], rtol=1e-4, atol=1e-4)


def test_names_that_c_cannot_hold_as_they_are():
    assert _c_string('a"b\\c?') == '"a\\042b\\134c\\077"'
    assert _c_string("é\n1") == '"\\303\\251\\0121"'
