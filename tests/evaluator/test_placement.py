"""Values do not depend on where the operands lie: neither on their address nor on their strides."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lowtide.evaluator import complex_functions, evaluate, float_functions, value_leaves
from lowtide.evaluator.placement import placed
from lowtide.evaluator.registry import MULTIPLIED, ROUNDED, ROUNDED_IF_COMPLEX
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Opcode, UnsupportedOpError
from lowtide.ir.literal import DTYPES, ELEMENT_TYPES

ADD = "add { a = T[] parameter(0)  b = T[] parameter(1)  ROOT c = T[] add(a, b) }\n"
ODD = (
    "odd { a = T[] parameter(0)  b = T[] parameter(1)  c = T[] exponential(a)"
    "  d = T[] add(a, b)  ROOT e = T[] multiply(c, d) }\n"
)
GE = (
    "ge { a = T[] parameter(0)  b = T[] parameter(1)"
    "  ROOT c = pred[] compare(a, b), direction=GE }\n"
)
ZERO = "zero = T[] constant(ZERO)\n"
X = "x = T[33,70] parameter(0)\n"
Y = "y = T[33,70] parameter(1)\n"

CASES = {
    Opcode.ALL_REDUCE: (ADD, X + "ROOT r = T[33,70] all-reduce(x), to_apply=add"),
    Opcode.BATCH_NORM_TRAINING: (
        "",
        X + "s = T[70] parameter(1)\no = T[70] parameter(2)\nROOT r = (T[33,70], T[70], T[70]) "
        "batch-norm-training(x, s, o), epsilon=0.1, feature_index=1",
    ),
    Opcode.BATCH_NORM_INFERENCE: (
        "",
        X + "s = T[70] parameter(1)\no = T[70] parameter(2)\nROOT r = T[33,70] "
        "batch-norm-inference(x, s, o, s, o), epsilon=0.1, feature_index=1",
    ),
    Opcode.BATCH_NORM_GRAD: (
        "",
        X + Y + "s = T[70] parameter(2)\nROOT r = (T[33,70], T[70], T[70]) "
        "batch-norm-grad(x, s, s, s, y), epsilon=0.1, feature_index=1",
    ),
    Opcode.CHOLESKY: (
        "",
        X + "g = T[33,33] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
        "ROOT r = T[33,33] cholesky(g), lower=true",
    ),
    Opcode.CONVOLUTION: (
        "",
        "x = T[2,9,8,5] parameter(0)\ny = T[3,3,5,7] parameter(1)\nROOT r = T[2,7,6,7] "
        "convolution(x, y), window={size=3x3}, dim_labels=b01f_01io->b01f",
    ),
    Opcode.DOT: (
        "",
        X + Y + "v = T[70] parameter(2)\n"
        "a = T[33,33] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
        "b = T[70,70] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
        "c = T[33] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "d = T[] dot(v, v), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
        "e = T[33] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
        "ROOT r = (T[33,33], T[70,70], T[33], T[], T[33]) tuple(a, b, c, d, e)",
    ),
    Opcode.FFT: (
        "",
        "x = c64[33,70] parameter(0)\nROOT r = c64[33,70] fft(x), fft_type=FFT, fft_length={70}",
    ),
    Opcode.MAP: (ODD, X + Y + "ROOT r = T[33,70] map(x, y), dimensions={0,1}, to_apply=odd"),
    Opcode.RAGGED_DOT: (
        "",
        "x = T[11,70] parameter(0)\ny = T[3,70,5] parameter(1)\ng = s32[3] constant({4,5,2})\n"
        "ROOT r = T[11,5] ragged-dot(x, y, g), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
    ),
    Opcode.REDUCE: (
        ADD + ODD,
        X + ZERO + "a = T[33] reduce(x, zero), dimensions={1}, to_apply=add\n"
        "b = T[70] reduce(x, zero), dimensions={0}, to_apply=add\n"
        "c = T[] reduce(x, zero), dimensions={0,1}, to_apply=add\n"
        "d = T[70] reduce(x, zero), dimensions={0}, to_apply=odd\n"
        "ROOT r = (T[33], T[70], T[], T[70]) tuple(a, b, c, d)",
    ),
    Opcode.REDUCE_SCATTER: (
        ADD,
        X + "ROOT r = T[33,70] reduce-scatter(x), dimensions={0}, to_apply=add",
    ),
    Opcode.REDUCE_WINDOW: (
        ADD,
        X + ZERO + "ROOT r = T[30,61] reduce-window(x, zero), window={size=4x10}, to_apply=add",
    ),
    Opcode.SCATTER: (
        ADD,
        X + "u = T[4,70] parameter(1)\ni = s32[4,1] constant({{0},{3},{3},{0}})\n"
        "ROOT r = T[33,70] scatter(x, i, u), update_window_dims={1}, "
        "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
        "to_apply=add",
    ),
    Opcode.SELECT_AND_SCATTER: (
        ADD + GE,
        X + "s = T[11,14] parameter(1)\n" + ZERO + "ROOT r = T[33,70] select-and-scatter(x, s, "
        "zero), window={size=3x5 stride=3x5}, select=ge, scatter=add",
    ),
    Opcode.SORT: (GE, X + "ROOT r = T[33,70] sort(x), dimensions={1}, to_apply=ge"),
    Opcode.TRIANGULAR_SOLVE: (
        "",
        "a = T[33,33] parameter(0)\nb = T[33,70] parameter(1)\nROOT r = T[33,70] "
        "triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
    ),
    Opcode.CUSTOM_CALL: (
        "",
        "x = T[33,33] parameter(0)\nROOT r = (T[33,33], s32[33], s32[]) custom-call(x), "
        'custom_call_target="lapack_LETTERgetrf_ffi", api_version=API_VERSION_TYPED_FFI',
    ),
}
"""By opcode, computations and the body of an entry that runs it; T is the element type."""

NOT_HERE = {
    Opcode.ALL_REDUCE_START: "the same handler as all-reduce",
    Opcode.SCALED_DOT: "the same products as dot",
    Opcode.SCAN: "runs a computation whose instructions have their own handlers",
}

BINARY = frozenset({Opcode.ATAN2, Opcode.POWER, Opcode.DIVIDE, Opcode.MULTIPLY, Opcode.COMPLEX})
BINARY |= {Opcode.ADD, Opcode.SUBTRACT, Opcode.MAXIMUM, Opcode.MINIMUM, Opcode.REMAINDER}

LETTERS = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}


def texts(element_type: str) -> dict[str, str]:
    """A module for each case, by name, of an element type."""
    found = {}
    for opcode, (computations, body) in CASES.items():
        found[opcode.value] = f"{computations}ENTRY main {{\n{body}\n}}\n"
    for opcode in sorted({*float_functions.FUNCTIONS, *complex_functions.FUNCTIONS}):
        operands, given = ("x, y", X + Y) if opcode in BINARY else ("x", X)
        result = {Opcode.IS_FINITE: "pred", Opcode.COMPLEX: "c64"}.get(opcode, "T")
        if element_type.startswith("c") and opcode in (Opcode.ABS, Opcode.REAL, Opcode.IMAG):
            result = {"c64": "f32", "c128": "f64"}[element_type]
        body = f"{given}ROOT r = {result}[33,70] {opcode.value}({operands})"
        found[opcode.value] = f"ENTRY main {{\n{body}\n}}\n"
    zero = "(0, 0)" if element_type.startswith("c") else "0"
    words = {"T[": f"{element_type}[", "LETTER": LETTERS[element_type], "ZERO": zero}
    return {name: _with(f"HloModule m\n{text}", words) for name, text in found.items()}


def _with(text: str, words: dict[str, str]) -> str:
    for word, meant in words.items():
        text = text.replace(word, meant)
    return text


def values_of(shape):
    """Numbers in (0.1, 1), which every function takes; of matrices the diagonal is larger."""
    random = np.random.default_rng(shape.element_count)
    dtype = DTYPES[shape.element_type]
    array = 0.1 + 0.8 * random.random(shape.dimensions)
    if dtype.kind == "c":
        array = array + 1j * random.random(shape.dimensions)
    if shape.rank == 2 and shape.dimensions[0] == shape.dimensions[1]:
        array = array + 9 * np.eye(shape.dimensions[0])
    return array.astype(dtype)


def shifted(array, nbytes):
    """The same array so many bytes behind a multiple of 64."""
    room = np.empty(array.nbytes + 128, np.uint8)
    start = -room.ctypes.data % 64 + nbytes
    found = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


def places(array):
    """The same array in other places and with other strides."""
    size = array.itemsize
    for nbytes in sorted({size, 2 * size, 24 // size * size, 64 - size}):
        yield shifted(array, nbytes)
    yield np.asfortranarray(array)
    backward = tuple([slice(None, None, -1)] * array.ndim)
    yield array[backward].copy()[backward]
    spread = np.zeros([2 * n for n in array.shape], array.dtype)
    every = tuple([slice(None, None, 2)] * array.ndim)
    spread[every] = array
    yield spread[every]


def run(text, moved):
    """The bytes of the results of a module, its arguments moved to each of some places."""
    module = parse_hlo(text)
    arguments = [shifted(values_of(x.shape), 0) for x in module.entry.parameters]
    rows = zip(*[list(places(x)) for x in arguments], strict=True) if moved else [arguments]
    results = []
    for row in rows:
        leaves = value_leaves(evaluate(module, list(row)))
        results.append([np.asarray(x) for x in leaves])
    return results


def check(element_type, text):
    """Raise AssertionError where a result depends on the places of the arguments."""
    (expected,) = run(text, moved=False)
    for found in run(text, moved=True):
        for a, b in zip(found, expected, strict=True):
            assert a.tobytes() == b.tobytes(), np.abs(a - b).max()
    return expected


OF_REAL_NUMBERS = {
    *("ceil", "complex", "erf", "floor", "is-finite", "maximum", "minimum", "remainder"),
    *("round-nearest-afz", "round-nearest-even"),
}
"""Operations that complex numbers do not have."""


@pytest.mark.parametrize("element_type", ["f32", "f64", "c64", "c128"])
@pytest.mark.parametrize("name", sorted(texts("f32")))
def test_results_do_not_depend_on_places(name: str, element_type: str) -> None:
    if element_type.startswith("c") and name in OF_REAL_NUMBERS:
        with pytest.raises(UnsupportedOpError):
            run(texts(element_type)[name], moved=False)
    else:
        check(element_type, texts(element_type)[name])


def test_each_operation_that_rounds_is_here() -> None:
    wanted = {x.value for x in (*MULTIPLIED, *ROUNDED, *ROUNDED_IF_COMPLEX)} - {
        x.value for x in NOT_HERE
    }
    assert wanted <= texts("f32").keys()
    assert not {x.value for x in NOT_HERE} & texts("f32").keys()


def test_an_array_times_itself_is_not_another_sum() -> None:
    text = texts("f64")["dot"]
    text = text.replace(
        "dot(x, y), lhs_contracting_dims={1}", "dot(x, OTHER), lhs_contracting_dims={1}"
    )
    module = parse_hlo(text.replace("OTHER", "x"))
    other = parse_hlo(text.replace("OTHER", "y"))
    x, _, v = [values_of(p.shape) for p in module.entry.parameters]
    for one, two in zip(
        value_leaves(evaluate(module, [x, x, v])),
        value_leaves(evaluate(other, [x, x.copy(), v])),
        strict=True,
    ):
        assert np.asarray(one).tobytes() == np.asarray(two).tobytes()


def test_what_is_in_its_place_is_not_copied() -> None:
    array = np.ones((3, 4), np.float32)
    assert placed(array) is array
    for other in places(array[:, :1].copy()):
        found = placed(other)
        assert found.strides == (4, 4)
        assert found.ctypes.data % 16 == 0
        assert found.tobytes() == other.tobytes()
    column = np.ones((1, 8), np.float64)[:, ::8]
    assert column.flags.c_contiguous
    assert placed(column).strides == (8, 8)
    assert placed((array,))[0] is array


# -- other kernels of OpenBLAS -------------------------------------------------------------------


def kernels() -> list[str]:
    """The kernels of OpenBLAS that this processor can run, as OPENBLAS_CORETYPE names them."""
    try:
        flags = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return []
    needed = {"Prescott": "pni", "Haswell": "avx2", "Zen": "avx2", "SkylakeX": "avx512bw"}
    return [name for name, flag in needed.items() if flag in flags]


def results(names: list[str]) -> dict[str, np.ndarray]:
    """The results of all cases of a type; raises AssertionError where one depends on places."""
    found = {}
    for element_type in ("f64", "c64"):
        for name in names:
            leaves = check(element_type, texts(element_type)[name])
            found |= {f"{element_type} {name} {i}": x for i, x in enumerate(leaves)}
    return found


BLAS = ["dot", "cholesky", "convolution", "triangular-solve", "ragged-dot", "custom-call"]


@pytest.mark.parametrize("kernel", kernels())
def test_other_kernels_of_openblas_round_otherwise_only(kernel: str, tmp_path: Path) -> None:
    file = tmp_path / "results.npz"
    subprocess.run(
        [sys.executable, "-m", "tests.evaluator.test_placement", str(file)],
        env={**os.environ, "OPENBLAS_CORETYPE": kernel},
        cwd=Path(__file__).parents[2],
        check=True,
    )
    here = results(BLAS)
    with np.load(file) as stored:
        assert set(stored) == set(here)
        for name, array in stored.items():
            if array.dtype.kind not in "fc":
                assert array.tolist() == here[name].tolist(), name
                continue
            assert ELEMENT_TYPES[array.dtype].is_floating or array.dtype.kind == "c"
            precise = 1e-12 if array.dtype == np.float64 else 1e-4
            np.testing.assert_allclose(array, here[name], rtol=precise, atol=precise, err_msg=name)


if __name__ == "__main__":
    np.savez(sys.argv[1], **results(BLAS))
