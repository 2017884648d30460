from hypothesis import assume, given
from hypothesis import strategies as st

from lowtide.ir.attributes import WindowDimension
from lowtide.ops.windows import positions, taps

WINDOWS = st.builds(
    WindowDimension,
    size=st.integers(1, 5),
    stride=st.integers(1, 4),
    padding_low=st.integers(-2, 4),
    padding_high=st.integers(-2, 4),
    window_dilation=st.integers(1, 3),
    base_dilation=st.integers(1, 4),
)


def laid_out(size: int, window: WindowDimension) -> list[bool]:
    """Return, per place of the dilated and padded dimension, whether an element lies there."""
    places = []
    for _ in range(size):
        places += [True] + [False] * (window.base_dilation - 1)
    places = places[: len(places) - window.base_dilation + 1] if size else []
    low, high = window.padding_low, window.padding_high
    places = [False] * low + places if low >= 0 else places[-low:]
    return places + [False] * high if high >= 0 else places[: max(len(places) + high, 0)]


@given(st.integers(0, 8), WINDOWS)
def test_positions_and_taps_are_those_of_a_window_that_is_moved_by_hand(size, window):
    cut = -min(window.padding_low, 0) - min(window.padding_high, 0)
    assume(cut <= (size - 1) * window.base_dilation + 1 if size else cut == 0)
    places = laid_out(size, window)
    extent = (window.size - 1) * window.window_dilation + 1
    starts = list(range(0, max(len(places) - extent + 1, 0), window.stride))
    assert positions(size, window) == len(starts)
    hits = sum(
        places[start + tap * window.window_dilation]
        for start in starts
        for tap in range(window.size)
    )
    assert taps(size, len(starts), window) == hits
