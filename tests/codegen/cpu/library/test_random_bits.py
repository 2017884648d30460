"""Random bits natively and by the evaluator, bit for bit."""

import numpy as np
import pytest
from tests.codegen.cpu.library.running import TARGETS, check, run

from lowtide.ir.errors import UnsupportedOpError

SHAPES = [(), (1,), (7,), (1000,), (5, 7), (3, 4, 5), (6, 100), (5, 3001), (9, 3), (0,)]


def text_of(algorithm: str, words: int, type_: str, shape) -> str:
    sizes = ",".join(map(str, shape))
    return f"""
HloModule m

ENTRY main {{
  x = u64[{words}] parameter(0)
  ROOT r = (u64[{words}], {type_}[{sizes}]) rng-bit-generator(x), algorithm={algorithm}
}}
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("algorithm", "words"), [("rng_three_fry", 2), ("rng_philox", 2), ("rng_default", 3)]
)
def test_words_and_next_state(algorithm, words, target):
    state = np.array([0x123456789ABCDEF0, (1 << 64) - 5, 77][:words], np.uint64)
    for shape in SHAPES:
        check(text_of(algorithm, words, "u32", shape), [state], target)
    for type_ in ("u64", "s8", "u4", "u16"):
        check(text_of(algorithm, words, type_, (6, 11)), [state], target)


def test_states_that_are_not_defined_are_refused():
    with pytest.raises(UnsupportedOpError, match="takes a state"):
        run(text_of("rng_three_fry", 3, "u32", (4,)), [np.zeros(3, np.uint64)])
