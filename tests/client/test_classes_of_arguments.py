"""Functions of the interface name what they expect where something of another class is given."""

import numpy as np
import pytest

import lowtide

TEXT = "HloModule m\nENTRY e {\n  p = f32[4] parameter(0)\n  ROOT r = f32[4] negate(p)\n}"
TAKE_A_MODULE = {
    "verify": lowtide.verify,
    "evaluate": lambda x: lowtide.evaluate(x, [np.zeros(4, np.float32)]),
    "compile_for_ranks": lowtide.compile_for_ranks,
}


@pytest.mark.parametrize("given", [None, 3, TEXT], ids=["nothing", "number", "text"])
@pytest.mark.parametrize("name", TAKE_A_MODULE)
def test_what_is_no_module(name, given):
    found = type(given).__name__
    with pytest.raises(TypeError, match=f"^expected a Module, found {found}$"):
        TAKE_A_MODULE[name](given)


@pytest.mark.parametrize("given", [TEXT.encode(), 3, None], ids=["bytes", "number", "nothing"])
def test_what_is_no_text(given):
    with pytest.raises(TypeError, match=f"^expected a str, found {type(given).__name__}$"):
        lowtide.parse_hlo(given)


def test_what_are_no_options():
    module = lowtide.parse_hlo(TEXT)
    for call in (
        lambda: lowtide.compile(module, options={"threads": 2}),
        lambda: lowtide.jit(np.sin, options={"threads": 2}),
        lambda: lowtide.deserialize(b"", {"threads": 2}),
        lambda: lowtide.compile_for_ranks(module, {"threads": 2}),
    ):
        with pytest.raises(TypeError, match="Options, found dict"):
            call()


def test_a_module_is_no_executable():
    with pytest.raises(TypeError, match=r"^expected an Executable, found Module$"):
        lowtide.run_on_devices(lowtide.parse_hlo(TEXT), [[]])
