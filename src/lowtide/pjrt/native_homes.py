"""Machine code for large results: their pages move out of the arena, as in `runtime.cpu.handover`.

A result gets a stretch of memory, its home, into which the pages move. The hole that it leaves is
filled before the next run, with the pages of a home that waits: none is ever cleared again.
"""

from __future__ import annotations

from typing import Final

from lowtide.llvm.callee import COPY, external, parameters, variadic
from lowtide.llvm.function import Function, Integer
from lowtide.pjrt.blocks import HOMES, BufferStorage, ResultRecord, WaitingHome, offset
from lowtide.pjrt.native_idle import UNMAP
from lowtide.pjrt.native_objects import get, go_unless, place, put, return_any
from lowtide.runtime.cpu.pages import HUGE_PAGE

_MAP: Final = external("mmap", "ptr", "ptr", "i64", "i32", "i32", "i32", "i64")
_REMAP: Final = variadic("mremap", "ptr", ("ptr", "i64", "i64", "i32"), ("ptr",))
_READ_WRITE: Final = 3
_PRIVATE_UNRESERVED: Final = 0x4022
_KEEP_PLACE: Final = 7
"""What `mremap` is asked for: a move to a fixed place, which leaves the old one mapped."""

_FAILED: Final = "inttoptr (i64 -1 to ptr)"


def push_home_function() -> Function:
    """Write `i1 push_home(ptr slots, ptr home)`: whether there was room."""
    given = parameters(slots="ptr", home="ptr")
    f = Function("push_home", given, "i1", linkage="internal")
    with f.loop(0, HOMES) as each:
        slot = f.gep("%slots", each.index, "i64")
        pair = f.op(f"cmpxchg ptr {slot}, ptr null, ptr %home release monotonic")
        with f.when(f.op(f"extractvalue {{ ptr, i1 }} {pair}, 1")):
            f.do("ret i1 true")
            f.label(f.fresh_label("never"))
    f.ret("i1", "false")
    return f


def pop_home_function() -> Function:
    """Write `ptr pop_home(ptr slots)`: one that waits, or null."""
    f = Function("pop_home", parameters(slots="ptr"), "ptr", linkage="internal")
    return_any(f, "%slots", HOMES)
    return f


def refill_function(find_home: Function, push: Function) -> Function:
    """Write `void refill(ptr queue, ptr record, ptr begin)`, ahead of a run.

    Pages that wait move to where the result will lie in an arena.
    """
    given = parameters(queue="ptr", record="ptr", begin="ptr")
    f = Function("refill", given, linkage="internal")
    inner_bytes = get(f, ResultRecord, "%record", "inner_bytes")
    home = f.call(find_home, ["%queue", inner_bytes])
    with f.when(f.op(f"icmp ne ptr {home}, null")):
        data, inner = (get(f, ResultRecord, "%record", x) for x in ("data", "inner"))
        hole = f.gep("%begin", f.sub(inner, data))
        pages, from_ = (get(f, WaitingHome, home, x) for x in ("pages", "inner"))
        _move(f, f.gep(home, from_), inner_bytes, hole)
        f.call(push, ["%record", home, pages, from_])
    return f


def keep_hollow_function(push: Function) -> Function:
    """Write `void keep_hollow(ptr record, ptr home, i64 pages, i64 inner)`.

    Addresses whose pages moved away wait for the next result of this place, if they suit it and
    there is room; else they go back to the system.
    """
    given = parameters(record="ptr", home="ptr", pages="i64", inner="i64")
    f = Function("keep_hollow", given, linkage="internal")
    remainder = get(f, ResultRecord, "%record", "remainder")
    large = f.compare("sge", get(f, ResultRecord, "%record", "nbytes"), HUGE_PAGE)
    number = f.op("ptrtoint ptr %home to i64")
    found = f.select(large, "i64", f.op(f"and i64 {number}, {HUGE_PAGE - 1}"), 0)
    alike = f.compare("eq", found, remainder)
    for name in ("pages", "inner"):
        same = f.compare("eq", get(f, ResultRecord, "%record", name), f"%{name}")
        alike = f.op(f"and i1 {alike}, {same}")
    go_unless(f, alike, "odd")
    go_unless(f, f.call(push, [place(f, ResultRecord, "%record", "hollow0"), "%home"]), "odd")
    f.do("ret void")
    f.label("odd")
    f.call(UNMAP, ["%home", "%pages"])
    return f


def reserve_function() -> Function:
    """Write `ptr reserve(i64 nbytes, i64 remainder)`: new pages; -1 where there are none.

    From a huge page on they begin at `remainder` modulo one.
    """
    f = Function("reserve", parameters(nbytes="i64", remainder="i64"), "ptr", linkage="internal")
    large = f.compare("sge", "%nbytes", HUGE_PAGE)
    more = f.select(large, "i64", HUGE_PAGE, 0)
    given = f.add("%nbytes", more)
    start = _mapped(f, given)
    lost = f.op(f"icmp eq ptr {start}, {_FAILED}")
    plain = f.op(f"or i1 {lost}, {f.op(f'xor i1 {large}, true')}")
    with f.when(plain):
        f.do(f"ret ptr {start}")
        f.label(f.fresh_label("never"))
    number = f.op(f"ptrtoint ptr {start} to i64")
    ahead = f.op(f"and i64 {f.sub('%remainder', number)}, {HUGE_PAGE - 1}")
    found = f.gep(start, ahead)
    with f.when(f.compare("ne", ahead, 0)):
        f.call(UNMAP, [start, ahead])
    behind = f.sub(HUGE_PAGE, ahead)
    with f.when(f.compare("ne", behind, 0)):
        f.call(UNMAP, [f.gep(found, "%nbytes"), behind])
    f.ret("ptr", found)
    return f


def _mapped(f: Function, nbytes: Integer) -> str:
    return f.call(_MAP, ["null", nbytes, _READ_WRITE, _PRIVATE_UNRESERVED, -1, 0])


def take_over_function(pop: Function, reserve: Function, account: Function) -> Function:
    """Write `i1 take_over(ptr record, ptr storage, ptr begin)`.

    The result at `begin` in an arena becomes the storage's; whether there was memory for it.
    """
    given = parameters(record="ptr", storage="ptr", begin="ptr")
    f = Function("take_over", given, "i1", linkage="internal")
    words = {
        x: get(f, ResultRecord, "%record", x)
        for x in ("data", "inner", "inner_bytes", "pages", "remainder", "nbytes")
    }
    waiting = f.call(pop, [place(f, ResultRecord, "%record", "hollow0")])
    (home,) = f.choose(
        f.op(f"icmp ne ptr {waiting}, null"),
        ["ptr"],
        lambda: [waiting],
        lambda: [f.call(reserve, [words["pages"], words["remainder"]])],
    )
    _refuse_if(f, f.op(f"icmp eq ptr {home}, {_FAILED}"), "lost")
    start = f.gep("%begin", f.sub(0, words["data"]))
    hole, inside = f.gep(start, words["inner"]), f.gep(home, words["inner"])
    moved = _move(f, hole, words["inner_bytes"], inside)
    _refuse_if(f, f.op(f"icmp eq ptr {moved}, {_FAILED}"), "stuck")
    data = f.gep(home, words["data"])
    f.call(COPY, [data, "%begin", f.sub(words["inner"], words["data"]), "false"])
    end = f.add(words["inner"], words["inner_bytes"])
    rest = f.sub(f.add(words["data"], words["nbytes"]), end)
    f.call(COPY, [f.gep(home, end), f.gep(start, end), rest, "false"])
    put(f, BufferStorage, "%storage", "home", home, "ptr")
    for name in ("pages", "inner", "inner_bytes"):
        put(f, BufferStorage, "%storage", name, words[name])
    put(f, BufferStorage, "%storage", "data", data, "ptr")
    f.call(account, [get(f, BufferStorage, "%storage", "queue", "ptr"), words["nbytes"]])
    f.do("ret i1 true")
    f.label("stuck")
    f.call(UNMAP, [home, words["pages"]])
    f.do("br label %lost")
    f.label("lost")
    f.ret("i1", "false")
    return f


def _move(f: Function, source: str, nbytes: str, target: str) -> str:
    return f.call(_REMAP, [source, nbytes, nbytes, _KEEP_PLACE, target])


def _refuse_if(f: Function, condition: str, label: str) -> None:
    good = f.fresh_label("good")
    f.do(f"br i1 {condition}, label %{label}, label %{good}")
    f.label(good)


assert offset(ResultRecord, "hollow1") - offset(ResultRecord, "hollow0") == 8
