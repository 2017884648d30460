"""The library of clients, and what their executables say about wrong arguments."""

import numpy as np
import pytest
from tests.client.reference import Compiler

from lowtide.builder import Builder
from lowtide.client.library import HOST, ClientLibrary, LocalClient
from lowtide.ir import ElementType, InputError, InvalidModuleError, LowtideError, array_shape
from lowtide.ir.shape import Layout, tuple_shape

F = array_shape(ElementType.F32, (2, 3))
S = array_shape(ElementType.S32)
X, Y = np.ones((2, 3), np.float32), np.full((2, 3), 2, np.float32)


def axpy(finish="build"):
    builder = Builder("axpy")
    a, x, y = [builder.parameter(i, shape) for i, shape in enumerate([S, F, F])]
    return getattr(builder, finish)(builder.convert(a, ElementType.F32) * x + y)


def compiled(module):
    return LocalClient(compiler=Compiler()).compile(module)


def test_the_library_has_one_client_for_the_one_platform():
    client = ClientLibrary.local_client()
    assert client is ClientLibrary.local_client("cpu")
    assert client.platform is HOST
    assert [str(device) for device in client.devices] == ["Host:0"]
    assert client.default_device == client.devices[0]
    with pytest.raises(LowtideError, match=r"no platform 'cuda'; there is: Host"):
        ClientLibrary.local_client("cuda")


@pytest.mark.parametrize("finish", ["build", "build_computation"])
def test_modules_and_computations_run(finish):
    executable = compiled(axpy(finish))
    np.testing.assert_array_equal(executable.run([3, X, Y]), 3 * X + Y)
    assert len(executable.program_shape.parameters) == 3
    assert "axpy" in executable.as_text()
    assert executable.serialize()
    assert executable.memory["schema"] == "lowtide.memory/1"


def test_consume_is_passed_on():
    executable = compiled(axpy())
    executable.run([3, X, Y])
    executable.run([3, X, Y], consume=True)
    assert executable.executable.consumed == [False, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([3, X], r"expected 3 .*, found 2; the first one missing is parameter 2 .*f32\[2,3\]"),
        ([3, X, Y, Y], "expected 3 arguments, found 4$"),
        ([3, X.T, Y], r"argument 1, parameter 1 .*expected f32\[2,3\] .*found float32\[3, 2\]"),
        ([3, X, Y.astype(np.float64)], r"argument 2, .*\(dtype float32\), found float64\[2, 3\]"),
        ([3, X.astype(">f4"), Y], r"found float32\[2, 3\] in the other order of bytes"),
        ([2**40, X, Y], "argument 0, parameter 0 .*, cannot be 1099511627776"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        compiled(axpy()).run(arguments)


class OnlyDLPack:
    """An array that NumPy opens by DLPack alone."""

    def __init__(self, array):
        self.__dlpack__ = array.__dlpack__
        self.__dlpack_device__ = array.__dlpack_device__


@pytest.mark.parametrize("form", [OnlyDLPack, memoryview])
def test_arguments_may_be_what_shows_an_array(form):
    np.testing.assert_array_equal(compiled(axpy()).run([3, form(X), form(Y)]), 3 * X + Y)


def test_arguments_are_the_leaves_of_tuples_and_bits_may_be_unsigned():
    builder = Builder("pairs")
    shape = array_shape(ElementType.BF16, (2,))
    pair = builder.parameter(0, tuple_shape([shape, shape]))
    executable = compiled(builder.build(pair[0] + pair[1]))
    one = np.array([0x3F80, 0x4000], np.uint16)
    assert executable.run([one, one]).tolist() == [2, 4]


def test_argument_layouts_have_to_fit():
    client = LocalClient(compiler=Compiler())
    column_major = F.with_layout(Layout((0, 1)))
    executable = client.compile(axpy(), [S, column_major, F])
    made = executable.executable.module
    assert made.entry_layout.parameters[1] is column_major
    np.testing.assert_array_equal(executable.run([3, X, Y]), 3 * X + Y)
    with pytest.raises(InputError, match="3 argument layouts expected, found 1"):
        client.compile(axpy(), [S])
    with pytest.raises(InputError, match=r"argument layout 1 .*expected f32\[2,3\], found s32\[\]"):
        client.compile(axpy(), [S, S, F])
    with pytest.raises(TypeError, match="argument layout 0: expected a Shape, found 1"):
        client.compile(axpy(), [1, S, F])


def test_only_valid_modules_are_compiled():
    module = axpy()
    module.entry.root.set_shape(S)
    with pytest.raises(InvalidModuleError):
        compiled(module)
    with pytest.raises(TypeError, match=r"found Builder: call build\(\)"):
        compiled(Builder("unfinished"))
