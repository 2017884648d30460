"""Machine code for large results: their pages move out of the arena, as in `runtime.cpu.handover`.

A result gets a stretch of memory, its home, into which the pages move. Where an earlier result's
home waits with its pages, these move into the hole, and so no page is ever filled again.
"""

from __future__ import annotations

from typing import Final

from lowtide.llvm.callee import COPY, external, parameters, variadic
from lowtide.llvm.function import Function, Integer
from lowtide.pjrt.blocks import HOMES, BufferStorage, ResultRecord, offset
from lowtide.pjrt.native_objects import RETAIN, get, place, put, return_any
from lowtide.runtime.cpu.pages import HUGE_PAGE

_MAP: Final = external("mmap", "ptr", "ptr", "i64", "i32", "i32", "i32", "i64")
_UNMAP: Final = external("munmap", "i32", "ptr", "i64")
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


def _keep_or_unmap(f: Function, push: Function, record: str, first: str, home: str) -> None:
    """Write that a home waits, or is given back to the system where enough do."""
    kept = f.call(push, [place(f, ResultRecord, record, first), home])
    with f.when(f.op(f"xor i1 {kept}, true")):
        f.call(_UNMAP, [home, get(f, ResultRecord, record, "pages")])


def give_home_function(push: Function) -> Function:
    """Write `void give_home(ptr record, ptr home)`, for a result that is gone."""
    f = Function("give_home", parameters(record="ptr", home="ptr"), linkage="internal")
    _keep_or_unmap(f, push, "%record", "full0", "%home")
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
        f.call(_UNMAP, [start, ahead])
    behind = f.sub(HUGE_PAGE, ahead)
    with f.when(f.compare("ne", behind, 0)):
        f.call(_UNMAP, [f.gep(found, "%nbytes"), behind])
    f.ret("ptr", found)
    return f


def _mapped(f: Function, nbytes: Integer) -> str:
    return f.call(_MAP, ["null", nbytes, _READ_WRITE, _PRIVATE_UNRESERVED, -1, 0])


def take_over_function(
    pop: Function, push: Function, reserve: Function, account: Function
) -> Function:
    """Write `i1 take_over(ptr record, ptr storage, ptr begin, ptr launch)`.

    The result at `begin` in an arena becomes the storage's; whether there was memory for it.
    """
    given = parameters(record="ptr", storage="ptr", begin="ptr", launch="ptr")
    f = Function("take_over", given, "i1", linkage="internal")
    words = {
        x: get(f, ResultRecord, "%record", x)
        for x in ("data", "inner", "inner_bytes", "pages", "remainder", "nbytes")
    }
    full, hollow = (place(f, ResultRecord, "%record", x) for x in ("full0", "hollow0"))
    waiting = f.call(pop, [hollow])
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
    other = f.call(pop, [full])
    with f.when(f.op(f"icmp ne ptr {other}, null")):
        _move(f, f.gep(other, words["inner"]), words["inner_bytes"], hole)
        _keep_or_unmap(f, push, "%record", "hollow0", other)
    data = f.gep(home, words["data"])
    f.call(COPY, [data, "%begin", f.sub(words["inner"], words["data"]), "false"])
    end = f.add(words["inner"], words["inner_bytes"])
    rest = f.sub(f.add(words["data"], words["nbytes"]), end)
    f.call(COPY, [f.gep(home, end), f.gep(start, end), rest, "false"])
    f.call(RETAIN, ["%launch"])
    for name, value in (("home", home), ("record", "%record"), ("launch", "%launch")):
        put(f, BufferStorage, "%storage", name, value, "ptr")
    put(f, BufferStorage, "%storage", "data", data, "ptr")
    f.call(account, [get(f, BufferStorage, "%storage", "queue", "ptr"), words["nbytes"]])
    f.do("ret i1 true")
    f.label("stuck")
    f.call(_UNMAP, [home, words["pages"]])
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


assert offset(ResultRecord, "full1") - offset(ResultRecord, "full0") == 8
