"""Elements anywhere in an array that are loaded and stored one by one.

Most processors take as long to gather a vector as to load its elements.
"""

from __future__ import annotations

from lowtide.codegen.value import vector_type
from lowtide.llvm.function import Function


def lane_places(fn: Function, narrow: str, lanes: int) -> list[str]:
    """Return the lanes of a <lanes x i32> that are not negative, as i64.

    Each leaves the vector by itself. Two at once, as halves of an i64, are quicker, but LLVM takes
    the lower half for all of it where lanes are chosen between constants.
    """
    found = []
    for number in range(lanes):
        lane = fn.op(f"extractelement <{lanes} x i32> {narrow}, i64 {number}")
        found.append(fn.op(f"zext i32 {lane} to i64"))
    return found


def load_apart(fn: Function, element: str, pointers: dict[int, str], lanes: int, align: int) -> str:
    """Return a vector with the elements at addresses, by lane, and zeros in all other lanes."""
    whole = vector_type(element, lanes)
    found = "poison" if len(pointers) == lanes else "zeroinitializer"
    for lane, pointer in pointers.items():
        value = fn.load(element, pointer, align)
        found = fn.op(f"insertelement {whole} {found}, {element} {value}, i64 {lane}")
    return found


def store_apart(
    fn: Function, element: str, vector: str, pointers: dict[int, str], lanes: int, align: int
) -> None:
    """Store the lanes of a vector at addresses, by lane; the last one stays where two are equal."""
    whole = vector_type(element, lanes)
    for lane, pointer in pointers.items():
        value = fn.op(f"extractelement {whole} {vector}, i64 {lane}")
        fn.store(element, value, pointer, align)
