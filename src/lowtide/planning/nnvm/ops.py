"""The traits of an operation that a planner needs: where it may write in place, what it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final

from lowtide.planning.registry import nearest
from lowtide.records import dataclass

ASSIGN: Final = frozenset({"_assign", "assign"})
"""Operations that write input 1 over the variable that is input 0."""


class Pattern(IntEnum):
    """Dependence of the elements of a result on those of the inputs, the simplest way first."""

    ELEMENT_WISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    REDUCTION = 3
    OUT_ELEMENT_WISE_FUSABLE = 4
    OPAQUE = 8


@dataclass(frozen=True, slots=True)
class NnvmOp:
    """An operation.

    `inplace_pairs` are pairs (input, output) in which the output may take the input's place, those
    preferred first. Where `identity` says so, the output is the same bytes, and the input may have
    other readers; it is as long as `inplace_pairs`, or empty. Of `ignore_inputs` only the shapes
    are read.
    """

    inplace_pairs: tuple[tuple[int, int], ...] = ()
    identity: tuple[bool, ...] = ()
    ignore_inputs: tuple[int, ...] = ()
    pattern: Pattern = Pattern.OPAQUE

    def __post_init__(self) -> None:
        if self.identity and len(self.identity) != len(self.inplace_pairs):
            raise ValueError(
                f"field 'identity' has {len(self.identity)} values, 'inplace_pairs' "
                f"{len(self.inplace_pairs)}: expected as many, or none"
            )
        if len(set(self.ignore_inputs)) != len(self.ignore_inputs):
            raise ValueError("field 'ignore_inputs' names an input twice")

    def is_identity(self, pair: int) -> bool:
        """Whether pair number `pair` changes no byte."""
        return bool(self.identity) and self.identity[pair]


OpTable = Mapping[str, NnvmOp]
"""Operations by name."""

_FIELDS: Final = ("inplace_pairs", "identity", "ignore_inputs", "pattern")


def read_op(fields: Mapping[str, Any], where: str) -> NnvmOp:
    """Return the operation that a JSON object describes; `where` stands in front of errors.

    Absent fields are empty, and the pattern is opaque. Raises ValueError for a malformed field.
    """
    try:
        return NnvmOp(
            tuple([_pair(pair) for pair in fields.get("inplace_pairs") or ()]),
            tuple([bool(flag) for flag in fields.get("identity") or ()]),
            tuple([_position(i, "ignore_inputs") for i in fields.get("ignore_inputs") or ()]),
            _pattern(fields.get("pattern")),
        )
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _pair(pair: Any) -> tuple[int, int]:
    if not isinstance(pair, Sequence) or len(pair) != 2:
        raise ValueError(f"field 'inplace_pairs': expected pairs [input, output], found {pair!r}")
    return _position(pair[0], "inplace_pairs"), _position(pair[1], "inplace_pairs")


def _position(number: Any, field: str) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"field {field!r}: expected a number from 0 on, found {number!r}")
    return number


def _pattern(pattern: Any) -> Pattern:
    if pattern is None:
        return Pattern.OPAQUE
    if isinstance(pattern, str):
        names = [x.name.lower() for x in Pattern]
        if pattern not in names:
            raise nearest(pattern, names, "pattern")
        return Pattern[pattern.upper()]
    if pattern not in [x.value for x in Pattern]:
        raise ValueError(f"field 'pattern': expected one of {[*map(int, Pattern)]}, not {pattern}")
    return Pattern(pattern)


def op_table(ops: Mapping[str, NnvmOp | Mapping[str, Any]] | None) -> OpTable:
    """Return the operations of a table whose rows may be JSON objects; None means `OPS`.

    The assignment is known to each table. Raises ValueError for a malformed row.
    """
    if ops is None:
        return OPS
    rows = {name: OPS[name] for name in sorted(ASSIGN)}
    for name, row in ops.items():
        if not isinstance(row, NnvmOp | Mapping):
            raise ValueError(f"op {name!r}: expected an object with {', '.join(_FIELDS)}")
        rows[name] = row if isinstance(row, NnvmOp) else read_op(row, f"op {name!r}")
    return rows


# -- common operations -------------------------------------------------------------------------

_FIRST: Final = ((0, 0),)
_EITHER: Final = ((0, 0), (1, 0))

_ROWS: Final[tuple[tuple[str, NnvmOp], ...]] = (
    (
        "abs cast ceil clip copy cos erf exp expm1 floor gelu hard_sigmoid leaky_relu log log1p "
        "logical_not negative reciprocal relu round rsqrt sigmoid sign sin softplus sqrt square "
        "tan tanh trunc __add_scalar__ __sub_scalar__ __rsub_scalar__ __mul_scalar__ "
        "__div_scalar__ __rdiv_scalar__ __pow_scalar__ __rpow_scalar__ __lshift_scalar__ "
        "__rshift_scalar__",
        NnvmOp(_FIRST, pattern=Pattern.ELEMENT_WISE),
    ),
    (
        "elemwise_add elemwise_sub elemwise_mul elemwise_div elemwise_mod elemwise_pow "
        "elemwise_max elemwise_min greater less logical_and logical_or",
        NnvmOp(_EITHER, pattern=Pattern.ELEMENT_WISE),
    ),
    (
        "add sub mul div mod pow maximum minimum broadcast_add broadcast_sub broadcast_mul "
        "broadcast_div broadcast_mod broadcast_pow broadcast_max broadcast_min broadcast_maximum "
        "broadcast_minimum broadcast_greater broadcast_less broadcast_equal",
        NnvmOp(_EITHER, pattern=Pattern.BROADCAST),
    ),
    ("broadcast_to", NnvmOp(pattern=Pattern.BROADCAST)),
    ("where", NnvmOp(((1, 0), (2, 0)), pattern=Pattern.ELEMENT_WISE)),
    ("identity stop_gradient", NnvmOp(_FIRST, (True,), pattern=Pattern.ELEMENT_WISE)),
    ("reshape", NnvmOp(_FIRST, (True,), pattern=Pattern.INJECTIVE)),
    ("expand_dims flatten squeeze", NnvmOp(_FIRST, pattern=Pattern.INJECTIVE)),
    ("reshape_like", NnvmOp(_FIRST, (True,), (1,), Pattern.INJECTIVE)),
    ("zeros_like ones_like full_like", NnvmOp(_FIRST, (), (0,), Pattern.ELEMENT_WISE)),
    ("full ones zeros arange", NnvmOp(pattern=Pattern.ELEMENT_WISE)),
    ("broadcast_like slice_like", NnvmOp((), (), (1,), Pattern.INJECTIVE)),
    (
        "concatenate flip gather_nd pad repeat reverse slice split strided_slice take tile "
        "transpose upsampling",
        NnvmOp(pattern=Pattern.INJECTIVE),
    ),
    ("argmax argmin max mean min prod sum", NnvmOp(pattern=Pattern.REDUCTION)),
    (
        "conv2d conv2d_transpose conv3d dense matmul batch_matmul max_pool2d avg_pool2d "
        "global_avg_pool2d global_max_pool2d",
        NnvmOp(pattern=Pattern.OUT_ELEMENT_WISE_FUSABLE),
    ),
    ("batch_norm dropout l2_normalize layer_norm log_softmax lrn softmax sort topk", NnvmOp()),
    ("_assign assign", NnvmOp(((1, 0),))),
)

OPS: Final[OpTable] = MappingProxyType({name: op for names, op in _ROWS for name in names.split()})
"""Operations that many graphs have, under their names in NNVM and Relay."""
