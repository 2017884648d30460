"""Random loops whose state is swapped, passed on, replaced or written in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.random_modules import in_place
from tests.random_modules.calls import Steps
from tests.random_modules.drawing import Drawing
from tests.random_modules.elementwise import changed

from lowtide.builder import Op, SubComputation
from lowtide.ir.element_type import ElementType
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape, array_shape, tuple_shape
from lowtide.records import dataclass

COUNTER: Final = array_shape(ElementType.S32)


@dataclass(frozen=True, slots=True)
class _State:
    """The shape of the state: a counter and values, which may lie in a tuple of their own."""

    shapes: tuple[Shape, ...]
    is_nested: bool

    @property
    def shape(self) -> Shape:
        if self.is_nested:
            return tuple_shape([COUNTER, tuple_shape(self.shapes)])
        return tuple_shape([COUNTER, *self.shapes])

    def pack(self, counter: Op, values: list[Op]) -> Op:
        builder = counter.builder
        if self.is_nested:
            return builder.tuple([counter, builder.tuple(values)])
        return builder.tuple([counter, *values])

    def unpack(self, state: Op) -> tuple[Op, list[Op]]:
        return state[0], list(state[1]) if self.is_nested else list(state)[1:]


def carried_loop(drawing: Drawing, steps: Steps) -> Op | None:
    """Draw a loop over a counter and values of common shapes; some start from one value."""
    shapes = tuple([drawing.common_shape() for _ in range(drawing.integer(1, 4))])
    state = _State(shapes, drawing.chance(5))
    values = [drawing.like(shape) for shape in shapes]
    init = state.pack(drawing.builder.constant(0), values)
    condition = _condition(drawing, state)
    loop = drawing.builder.while_(condition, _body(drawing, state, steps), init)
    if drawing.chance(3):
        place = drawing.integer(0, len(values) - 1)
        _, final = state.unpack(loop)
        drawing.pool.append(_both(values[place], final[place]))
    return loop


def _both(a: Op, b: Op) -> Op:
    opcode = Opcode.XOR if a.element_type is ElementType.PRED else Opcode.ADD
    return a.builder.emit(opcode, [a, b])


def _condition(drawing: Drawing, state: _State) -> SubComputation:
    """Whether the counter is below 0 to 3, and perhaps whether a value holds no NaN."""
    limit = drawing.integer(0, 3)
    both = drawing.reducer(Opcode.AND, ElementType.PRED)
    watched = drawing.integer(0, len(state.shapes) - 1) if drawing.chance(4) else None

    def holds(parameter: Op) -> Op:
        counter, values = state.unpack(parameter)
        goes_on = counter.lt(limit)
        if watched is None:
            return goes_on
        value = values[watched]
        equal = value.eq(value)
        if value.rank:
            equal = equal.builder.reduce(equal, True, both, list(range(value.rank)))
        return goes_on & equal

    return drawing.builder.sub_computation("condition", [state.shape], holds)


def _body(drawing: Drawing, state: _State, steps: Steps) -> SubComputation:
    child = Drawing(
        drawing.builder.sub_builder("body"), drawing.choices, drawing.recipe, parent=drawing
    )
    counter, values = state.unpack(child.builder.parameter(0, state.shape))
    child.pool += [*values, counter]
    steps(child, 3)
    if child.chance(3):
        following = _rotated(child, values)
    else:
        following = [child.choice(_NEXT)(child, values, i, counter) for i in range(len(values))]
    return child.builder.build_computation(state.pack(counter + 1, following))


# -- what becomes of a value in one step -------------------------------------------------------


def _rotated(child: Drawing, values: list[Op]) -> list[Op]:
    """Each value goes to the next place of its shape, the last one to the first."""
    following = list(values)
    for shape in dict.fromkeys([value.shape for value in values]):
        places = [i for i, value in enumerate(values) if value.shape is shape]
        for i, place in enumerate(places):
            following[place] = values[places[i - 1]]
    return following


def _same(child: Drawing, values: list[Op], place: int, counter: Op) -> Op:
    return values[place]


def _other(child: Drawing, values: list[Op], place: int, counter: Op) -> Op:
    return child.choice([value for value in values if value.shape is values[place].shape])


def _new(child: Drawing, values: list[Op], place: int, counter: Op) -> Op:
    return child.source(values[place].shape)


def _drawn(child: Drawing, values: list[Op], place: int, counter: Op) -> Op:
    return child.like(values[place].shape)


def _changed(child: Drawing, values: list[Op], place: int, counter: Op) -> Op:
    return child.add(changed(child, values[place]))


def _updated(child: Drawing, values: list[Op], place: int, counter: Op) -> Op:
    return child.add(in_place.update(child, values[place], counter))


def _scattered(child: Drawing, values: list[Op], place: int, counter: Op) -> Op:
    value = values[place]
    if not value.rank or not value.dimensions[0]:
        return value
    return child.add(in_place.scatter_into(child, value))


_NEXT: Final[tuple[Callable[[Drawing, list[Op], int, Op], Op], ...]] = (
    _same,
    _changed,
    _updated,
    _other,
    _drawn,
    _new,
    _scattered,
)
