"""The kind of thunk that a device runs for each instruction, named as in XLA's dumps."""

from __future__ import annotations

from typing import Final

from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import CustomCall
from lowtide.xla.analysis.gpu_ordering import NOT_LAUNCHED

_OPCODE_KINDS: Final = {
    Opcode.CALL: "sequential",
    Opcode.CHOLESKY: "custom-call",
    Opcode.DOT: "gemm",
    Opcode.REPLICA_ID: "replica-id",
}
_SAME_NAME: Final = frozenset(
    {
        Opcode.ALL_GATHER,
        Opcode.ALL_GATHER_DONE,
        Opcode.ALL_GATHER_START,
        Opcode.ALL_REDUCE,
        Opcode.ALL_REDUCE_DONE,
        Opcode.ALL_REDUCE_START,
        Opcode.ALL_TO_ALL,
        Opcode.ASYNC_DONE,
        Opcode.ASYNC_START,
        Opcode.ASYNC_UPDATE,
        Opcode.COLLECTIVE_BROADCAST,
        Opcode.COLLECTIVE_PERMUTE,
        Opcode.COLLECTIVE_PERMUTE_DONE,
        Opcode.COLLECTIVE_PERMUTE_START,
        Opcode.CONDITIONAL,
        Opcode.CONVOLUTION,
        Opcode.COPY,
        Opcode.COPY_DONE,
        Opcode.COPY_START,
        Opcode.CUSTOM_CALL,
        Opcode.FFT,
        Opcode.INFEED,
        Opcode.OUTFEED,
        Opcode.PARTITION_ID,
        Opcode.RAGGED_ALL_TO_ALL,
        Opcode.RECV,
        Opcode.RECV_DONE,
        Opcode.REDUCE_SCATTER,
        Opcode.SEND,
        Opcode.SEND_DONE,
        Opcode.TRIANGULAR_SOLVE,
        Opcode.WHILE,
    }
)
_CUSTOM_KINDS: Final = (
    ("__cublas$lt", "cublasLt-matmul"),
    ("__cublas$", "gemm"),
    ("__cudnn$conv", "convolution"),
    ("__cudnn$", "cudnn"),
)
"""By the start of the target's name."""


def has_thunk(instruction: Instruction) -> bool:
    """Whether a device has anything to do for an instruction."""
    return instruction.opcode not in NOT_LAUNCHED


def thunk_kind(instruction: Instruction) -> str:
    """Return the kind of thunk that runs an instruction; what has no kind of its own is a kernel.

    Raises ValueError where there is none, e.g. for a tuple.
    """
    opcode = instruction.opcode
    if not has_thunk(instruction):
        raise ValueError(f"{instruction.name}: nothing is launched for {opcode}")
    if opcode is Opcode.CUSTOM_CALL:
        target = instruction.attributes_as(CustomCall).target
        kinds = [kind for start, kind in _CUSTOM_KINDS if target.startswith(start)]
        return kinds[0] if kinds else opcode.value
    if opcode is Opcode.FUSION:
        root = instruction.called_computations[0].root.opcode
        return "gemm" if root is Opcode.DOT else "kernel"
    return opcode.value if opcode in _SAME_NAME else _OPCODE_KINDS.get(opcode, "kernel")
