"""The protocol of thunks: what each reads, writes and runs."""

from typing import get_args

import pytest

from lowtide.ir.buffer import BufferSlice
from lowtide.ir.thunk import (
    BundleThunk,
    ConditionalThunk,
    CopyThunk,
    KernelThunk,
    Thunk,
    WhileThunk,
    all_thunks,
    unbundled,
)

A, B, C, D = (BufferSlice(0, 64 * i, 64) for i in range(4))
KERNEL = KernelThunk("k", 0, (A, B, C), 2, D)
COPY = CopyThunk("c", A, B)
NESTED = {
    "loop": WhileThunk("w", (KERNEL,), A, (COPY, KERNEL)),
    "choice": ConditionalThunk("i", B, is_predicate=False, branches=((KERNEL,), (), (COPY,))),
    "bundle": BundleThunk("b", "f", 1e-6, (COPY, KERNEL)),
}


def test_bytes() -> None:
    assert (KERNEL.reads, KERNEL.writes, KERNEL.touches) == ((A, B), (C,), (A, B, C, D))
    assert (COPY.reads, COPY.writes, COPY.touches) == ((A,), (B,), (A, B))
    assert (NESTED["loop"].reads, NESTED["choice"].reads, NESTED["bundle"].reads) == (
        (A,),
        (B,),
        (),
    )
    assert not any(x.writes for x in NESTED.values())


@pytest.mark.parametrize("thunk", NESTED.values(), ids=NESTED)
def test_sequences_are_what_is_mapped(thunk: Thunk) -> None:
    assert thunk.map_sequences(lambda x: x) == thunk
    doubled = thunk.map_sequences(lambda x: x * 2)
    assert doubled.sequences == tuple([x * 2 for x in thunk.sequences])
    assert len(list(all_thunks([doubled]))) == 2 * len(list(all_thunks([thunk]))) - 1


def test_what_runs_nothing_is_mapped_to_itself() -> None:
    for thunk in (KERNEL, COPY):
        assert thunk.sequences == ()
        assert thunk.map_sequences(lambda x: x * 2) is thunk


def test_every_kind_has_the_protocol() -> None:
    for kind in get_args(Thunk):
        assert all(hasattr(kind, name) for name in ("reads", "writes", "sequences"))


def test_parts_take_the_place_of_bundles_at_any_depth() -> None:
    loop = WhileThunk("w", (NESTED["bundle"],), A, (NESTED["bundle"], COPY))
    (found,) = unbundled([loop])
    assert found == WhileThunk("w", (COPY, KERNEL), A, (COPY, KERNEL, COPY))
