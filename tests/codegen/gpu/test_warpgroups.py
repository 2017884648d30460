"""Products by warpgroups: the emulator beside the evaluator, and faults that are planted."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.codegen.gpu.programs import check, program_of, templates, text_of
from tests.runtime.gpu.test_assembling import needs_assembler

from lowtide.cli.inputs import generated
from lowtide.codegen.gpu import warpgroup_shapes, warpgroups
from lowtide.codegen.gpu.threads import tile_of_block
from lowtide.emulator.device import on_emulated_device
from lowtide.emulator.shadow import EmulationError
from lowtide.evaluator.evaluate import parameter_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.llvm.function import Function
from lowtide.runtime.gpu.assembling import assembler
from lowtide.runtime.gpu.program import GpuProgram

TARGET = "cuda:sm_90a"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One whole tile is enough, so that small products have them."""
    monkeypatch.setattr(warpgroup_shapes, "LEAST_TILES", 1)
    yield


def few_multiprocessors(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    for module in (warpgroups, warpgroup_shapes):
        monkeypatch.setattr(module, "MULTIPROCESSORS", count)


def dot(
    rows: int, columns: int, depth: int, lies: str = "kn", type_: str = "bf16", result: str = "f32"
) -> str:
    """A product; of each operand `lies` tells what lies side by side: the depth (k) or not."""
    left = f"{rows},{depth}" if lies[0] == "k" else f"{depth},{rows}"
    right = f"{columns},{depth}" if lies[1] == "k" else f"{depth},{columns}"
    return (
        f"  x = {type_}[{left}] parameter(0)\n"
        f"  y = {type_}[{right}] parameter(1)\n"
        f"  ROOT z = {result}[{rows},{columns}] dot(x, y), "
        f"lhs_contracting_dims={{{int(lies[0] == 'k')}}}, "
        f"rhs_contracting_dims={{{int(lies[1] == 'k')}}}\n"
    )


BATCHED = """
  x = bf16[2,130,192] parameter(0)
  y = bf16[192,2,72] parameter(1)
  ROOT z = bf16[2,130,72] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={1},
    lhs_contracting_dims={2}, rhs_contracting_dims={0}
"""
EPILOGUE = """
  x = bf16[136,200] parameter(0)
  y = bf16[200,130] parameter(1)
  b = bf16[130] parameter(2)
  d = bf16[136,130] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  w = bf16[136,130] broadcast(b), dimensions={1}
  s = bf16[136,130] add(d, w)
  z = bf16[] constant(0)
  n = bf16[136,130] broadcast(z), dimensions={}
  ROOT r = bf16[136,130] maximum(s, n)
"""
COMPUTED = """
  x = f32[200,136] parameter(0)
  y = bf16[203,72] parameter(1)
  e = bf16[200,136] convert(x)
  t = bf16[136,200] transpose(e), dimensions={1,0}
  s = bf16[200,72] slice(y), slice={[3:203], [0:72]}
  ROOT z = f32[136,72] dot(t, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}
"""
CONVOLUTION = """
  x = bf16[2,9,8,16] parameter(0)
  w = bf16[3,3,16,64] parameter(1)
  ROOT c = f32[2,9,8,64] convolution(x, w), window={size=3x3 pad=1_1x1_1 rhs_reversal=1x0},
    dim_labels=b01f_01io->b01f
"""
FEATURES_FIRST = """
  x = bf16[2,16,9,10] parameter(0)
  w = bf16[64,16,3,3] parameter(1)
  ROOT c = bf16[2,64,9,10] convolution(x, w), window={size=3x3 pad=1_1x1_1 stride=1x1},
    dim_labels=bf01_oi01->bf01
"""
RUN = {
    **{
        f"{lies} {type_}": dot(256, 264, 200, lies, type_)
        for lies, type_ in (
            ("kn", "bf16"),
            ("kk", "bf16"),
            ("mn", "bf16"),
            ("mk", "bf16"),
            ("kn", "f16"),
            ("mk", "f16"),
        )
    },
    "a result of 16 bits": dot(128, 256, 128, "kn", "bf16", "bf16"),
    "every end": dot(133, 75, 139),
    "every end, across": dot(133, 75, 139, "mk"),
    "ends at 8": dot(136, 72, 136, "mn"),
    "ends at 4": dot(132, 68, 132, "kk", "f16"),
    "as deep as what is ahead": dot(128, 64, 128),
    "one step deeper": dot(128, 64, 192),
    "one step": dot(128, 64, 64),
    "a step and a little": dot(128, 64, 72),
    "two parts of the depth": dot(256, 136, 512),
    "two parts with every end": dot(133, 75, 511, "mk"),
    "batches": BATCHED,
    "an epilogue": EPILOGUE,
    "computed operands": COMPUTED,
    "a convolution": CONVOLUTION,
    "a convolution of windows along the rows": FEATURES_FIRST,
}


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("entry", RUN.values(), ids=RUN)
def test_products_equal_the_evaluator(entry: str) -> None:
    assert set(templates(check(entry, 1e-2, target=TARGET))) >= {"wgmma"}


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("multiprocessors", [132, 1])
@pytest.mark.parametrize("number", range(4))
def test_tiles_of_each_shape(
    number: int, multiprocessors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there are few multiprocessors a block makes several tiles, and one of them fewer."""
    sizes = warpgroup_shapes.SIZES[number]
    monkeypatch.setattr(warpgroup_shapes, "SIZES", (sizes,))
    few_multiprocessors(monkeypatch, multiprocessors)
    rows, columns = sizes[0].rows, sizes[0].columns
    program = check(dot(3 * rows - 8, columns, 264), 1e-4, target=TARGET)
    (launch,) = [x for kernel in program.kernels for x in kernel.launches]
    assert launch.shared_bytes > 0
    assert launch.blocks == 3 if multiprocessors == 132 else launch.blocks < 3


@pytest.mark.parametrize(
    ("target", "entry", "template"),
    [
        (TARGET, dot(4096, 4096, 4096), "wgmma"),
        (TARGET, dot(4096, 4096, 4096, "mk", "f16", "f16"), "wgmma"),
        (TARGET, dot(120, 256, 4096), "mma"),
        (TARGET, dot(256, 256, 512), "wgmma"),
        (TARGET, dot(4096, 4096, 48), "mma"),
        (TARGET, dot(4096, 4096, 4096, type_="f32"), "ffma"),
        ("cuda:sm_90", dot(4096, 4096, 4096), "mma"),
    ],
)
def test_what_runs_by_warpgroups(target: str, entry: str, template: str) -> None:
    assert templates(program_of(entry, target)) == [template]


@pytest.mark.parametrize(("down", "across", "group"), [(8, 3, 4), (7, 3, 4), (3, 5, 4), (1, 1, 16)])
def test_blocks_make_each_tile_once(down: int, across: int, group: int) -> None:
    """Those of a group lie below each other."""
    found = [_tile(x, down, across, group) for x in range(down * across)]
    assert sorted(found) == [(i, j) for i in range(down) for j in range(across)]
    assert [x for x, _ in found[: min(group, down)]] == list(range(min(group, down)))


def _tile(block: int, down: int, across: int, group: int) -> tuple[int, int]:
    fn = Function("f")
    found = tile_of_block(fn, f"{block}", (down, across), group)
    names: dict[str, int] = {f"{block}": block}
    for line in fn.lines:
        name, text = line.strip().split(" = ")
        names[name] = _value(text, names)
    row, column = (x if isinstance(x, int) else names[x] for x in found)
    return row, column


def _value(text: str, names: dict[str, int]) -> int:
    """What an instruction makes of integers."""
    word, rest = text.split(" ", 1)
    values = [names[x] if x in names else int(x) for x in re.findall(r"%[\w.]+|(?<= )-?\d+", rest)]
    rules = {
        "urem": lambda a, b: a % b,
        "udiv": lambda a, b: a // b,
        "mul": lambda a, b: a * b,
        "add": lambda a, b: a + b,
        "icmp": lambda a, b: int(a < b),
        "select": lambda c, a, b: a if c else b,
    }
    return int(rules[word](*values))


# -- faults ----------------------------------------------------------------------------------------

COPIED, STORED = dot(128, 64, 832), dot(128, 64, 833, type_="f16")
CALL = r"^  (?:%\S+ = )?call .*@{}.*\n"
FAULTS = {
    "no fence of the proxy, copies": (COPIED, r"wgmma\.proxy\.fence", "", "without a fence"),
    "no fence of the proxy, stores": (STORED, r"wgmma\.proxy\.fence", "", "without a fence"),
    "no barrier": (COPIED, r"llvm\.nvvm\.barrier", "", "a race in shared memory"),
    "no barrier, stores": (STORED, r"llvm\.nvvm\.barrier", "", "a race in shared memory"),
    "no wgmma.fence": (COPIED, r"wgmma\.fence", "", "no wgmma.fence came after"),
    "no wait for copies": (COPIED, r"llvm\.nvvm\.cp\.async\.wait", "", "without a|a race"),
    "no groups of copies": (COPIED, r"llvm\.nvvm\.cp\.async\.commit", "", "without a|a race"),
    "no groups of products": (COPIED, r"wgmma\.commit", "", "a race in shared memory"),
    "no wait for the last products": (COPIED, r"wgmma\.wait\.0", "1", "without a wait for its"),
    "too late a wait for products": (COPIED, r"wgmma\.wait\.1", "2", "a race in shared memory"),
}
"""What is taken out of a kernel, or what stands in its place, and what is said."""


def planted(entry: str, call: str, instead: str) -> GpuProgram:
    """Return a program whose calls are taken out, each of them, or wait for other groups."""
    program = program_of(entry, TARGET)
    (text,) = program.texts
    if instead:
        before = call.replace("\\", "")
        wrong = text.replace(f"@{before}.", f"@{before[:-1]}{instead}.")
    else:
        wrong = re.sub(CALL.format(call), "", text, flags=re.MULTILINE)
    assert wrong != text
    lines = dict.fromkeys(x for x in wrong.splitlines() if x.startswith("declare"))
    rest = [x for x in wrong.splitlines() if not x.startswith("declare")]
    return replace(program, texts=("\n".join([*lines, *rest, ""]),))


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    entry, call, instead, said = FAULTS[name]
    program = planted(entry, call, instead)
    arguments = generated(list(parameter_leaves(parse_hlo(text_of(entry)))), 0)
    with pytest.raises(EmulationError, match=said):
        on_emulated_device(program)(*arguments)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("number", range(4))
def test_each_barrier_is_needed(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the loop, one for each step that follows it, and one ahead of the next tile."""
    monkeypatch.setattr(warpgroup_shapes, "SIZES", warpgroup_shapes.SIZES[-1:])
    few_multiprocessors(monkeypatch, 1)
    entry = dot(384, 64, 832)
    program = program_of(entry, TARGET)
    (text,) = program.texts
    places = list(re.finditer(CALL.format(r"llvm\.nvvm\.barrier"), text, re.MULTILINE))
    assert len(places) == 4
    there = places[number]
    wrong = replace(program, texts=(text[: there.start()] + text[there.end() :],))
    arguments = generated(list(parameter_leaves(parse_hlo(text_of(entry)))), 0)
    with pytest.raises(EmulationError, match=r"a race in shared memory|without a fence"):
        on_emulated_device(wrong)(*arguments)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("entry", [COPIED, STORED])
def test_without_a_fault_nothing_is_said(entry: str) -> None:
    arguments = generated(list(parameter_leaves(parse_hlo(text_of(entry)))), 0)
    found = on_emulated_device(program_of(entry, TARGET))(*arguments)
    assert np.isfinite(np.asarray(found).astype(np.float32)).all()


# -- machine code ----------------------------------------------------------------------------------

LARGE = {
    "copied": dot(4096, 4096, 1024, "kn", "bf16", "bf16"),
    "across": dot(4096, 4096, 1024, "mk", "f16", "f16"),
    "ends": dot(4100, 4101, 1023),
    "epilogue": EPILOGUE.replace("136", "4096").replace("130", "4096").replace("200", "1024"),
    "computed": COMPUTED.replace("136", "4096").replace("72", "4096"),
    "convolution": CONVOLUTION.replace("2,9,8", "32,56,56")
    .replace("16", "128")
    .replace("bf128", "bf16"),
}


@needs_assembler
@pytest.mark.parametrize("name", LARGE)
def test_products_are_not_waited_for_one_by_one(name: str, tmp_path: Path) -> None:
    """What ptxas says where it has to: C75.."""
    program = program_of(LARGE[name], TARGET)
    assert "wgmma" in templates(program)
    (tmp_path / "k.ptx").write_text(program.ptx())
    command = [assembler(), "-v", "-arch=sm_90a", "-o", "k.cubin", "k.ptx"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "C75" not in done.stderr
    assert "0 bytes spill stores" in done.stderr
