"""Machine code for buffers and storages: made, asked, shared, deleted and freed without Python.

What JAX asks of a buffer in every call is answered here. `is_deleted` of a cell is also its lock:
who takes a reference to the storage sets it to 2 meanwhile, so that no deletion comes between.
"""

from __future__ import annotations

import ctypes
from typing import Final

from lowtide.llvm.callee import external, parameters
from lowtide.llvm.function import Function, Integer
from lowtide.pjrt.blocks import HELD_STORAGE, BufferStorage, HandleCell, Launch, Queue, offset

MALLOC: Final = external("malloc", "ptr", "i64")
FREE: Final = external("free", "void", "ptr")
RETAIN: Final = external("retain", "void", "ptr")
RELEASE_EVENT: Final = external("release", "void", "ptr")
PUSH: Final = external("push", "void", "ptr")
ENTER: Final = external("enter", "ptr", "ptr", "ptr")
_DELETED: Final = external("deleted_error", "ptr")

NUDGED_BYTES: Final = 1 << 20
"""Arrays of Python's of so many bytes or more are given back at once, others at its next turn."""

FRONTS: Final = ("execute", "kind", "result_count")
"""Functions of the table that are machine code, and now and then ask Python: they have the first
slots, in this order."""


def place(f: Function, block: type[ctypes.Structure], base: str, name: str) -> str:
    """Return the address of a field of a block."""
    return f.gep(base, offset(block, name))


def get(
    f: Function, block: type[ctypes.Structure], base: str, name: str, type_: str = "i64"
) -> str:
    """Load a field of a block."""
    return f.load(type_, place(f, block, base, name), 8)


def put(
    f: Function,
    block: type[ctypes.Structure],
    base: str,
    name: str,
    value: Integer,
    type_: str = "i64",
) -> None:
    """Store into a field of a block."""
    f.store(type_, value, place(f, block, base, name), 8)


def add(f: Function, block: type[ctypes.Structure], base: str, name: str, value: Integer) -> str:
    """Add to a field of a block atomically; return what it was."""
    return f.op(f"atomicrmw add ptr {place(f, block, base, name)}, i64 {value} seq_cst")


def argument(f: Function, at: int, type_: str = "ptr") -> str:
    """Load a field of the arguments of a function of the table, by its offset."""
    return f.load(type_, f.gep("%a", at), 8)


def is_null(f: Function, pointer: str) -> str:
    """Return whether a pointer is null, an i1."""
    return f.op(f"icmp eq ptr {pointer}, null")


def go_unless(f: Function, condition: str, label: str) -> None:
    """Go on at a label unless a condition holds."""
    good = f.fresh_label("good")
    f.do(f"br i1 {condition}, label %{good}, label %{label}")
    f.label(good)


def slot(number: int) -> str:
    """Return the constant address of a slot for a function of Python."""
    return f"getelementptr (ptr, ptr @slots, i64 {number})"


def return_any(f: Function, slots: str, count: int) -> None:
    """Write the end of a function that takes what is in one of some slots, or returns null."""
    with f.loop(0, count) as each:
        found = f.op(f"atomicrmw xchg ptr {f.gep(slots, each.index, 'i64')}, ptr null acquire")
        with f.when(f.op(f"icmp ne ptr {found}, null")):
            f.do(f"ret ptr {found}")
            f.label(f.fresh_label("never"))
    f.ret("ptr", "null")


def ask_python(f: Function, name: str) -> str:
    """Write a call of the function of Python behind a front; return its error or null."""
    return f.op(f"call ptr @enter(ptr %a, ptr {slot(FRONTS.index(name))})")


# -- locks, references, bytes --------------------------------------------------------------------


def lock_function() -> Function:
    """Write `i1 lock(ptr cell)`: whether the cell has a storage, and nobody deletes it for now."""
    f = Function("lock", parameters(cell="ptr"), "i1", linkage="internal")
    word = place(f, HandleCell, "%cell", "is_deleted")
    f.do("br label %again")
    f.label("again")
    pair = f.op(f"cmpxchg ptr {word}, i64 0, i64 2 acquire monotonic")
    seen = f.op(f"extractvalue {{ i64, i1 }} {pair}, 0")
    busy = f.compare("eq", seen, 2)
    f.do(f"br i1 {busy}, label %again, label %known")
    f.label("known")
    f.ret("i1", f.compare("eq", seen, 0))
    return f


def unlock(f: Function, cell: str, value: int = 0) -> None:
    """Write the end of a lock: 0 leaves the cell as it was, 1 deleted."""
    word = place(f, HandleCell, cell, "is_deleted")
    f.do(f"store atomic i64 {value}, ptr {word} release, align 8")


def account_function(make_room: Function, forget_code: Function) -> Function:
    """Write `void account(ptr queue, i64 nbytes)`: so many bytes more are in use on a device."""
    f = Function("account", parameters(queue="ptr", nbytes="i64"))
    before = add(f, Queue, "%queue", "used", "%nbytes")
    now = f.add(before, "%nbytes")
    peak = f.op(f"atomicrmw max ptr {place(f, Queue, '%queue', 'peak')}, i64 {now} monotonic")
    with f.when(f.compare("sgt", "%nbytes", 0)):
        f.call(make_room, ["%queue", now, peak])
        f.call(forget_code, ["%queue", "%nbytes"])
        add(f, Queue, "%queue", "count", 1)
        f.op(f"atomicrmw max ptr {place(f, Queue, '%queue', 'largest')}, i64 %nbytes monotonic")
    return f


def signal_function(wake: Function) -> Function:
    """Write `void signal(ptr queue)`, which has the worker of a queue look again."""
    f = Function("signal", parameters(queue="ptr"))
    add(f, Queue, "%queue", "signal", 1)
    asleep = place(f, Queue, "%queue", "asleep")
    sleeps = f.op(f"load atomic i64, ptr {asleep} seq_cst, align 8")
    with f.when(f.compare("ne", sleeps, 0)):
        f.call(wake, [place(f, Queue, "%queue", "signal"), 1])
    return f


def free_storage_function(
    account: Function, keep_home: Function, fall: Function, unsettle: Function
) -> Function:
    """Write `void free_storage(ptr storage)`, for one without references."""
    f = Function("free_storage", parameters(storage="ptr"))
    parent = get(f, BufferStorage, "%storage", "parent", "ptr")
    data = get(f, BufferStorage, "%storage", "data", "ptr")
    owns = f.op(f"and i1 {is_null(f, parent)}, {f.op(f'icmp ne ptr {data}, null')}")
    queue = get(f, BufferStorage, "%storage", "queue", "ptr")
    with f.when(owns):
        f.call(account, [queue, f.sub(0, get(f, BufferStorage, "%storage", "nbytes"))])
        f.call(fall, [queue])
    f.call(FREE, [get(f, BufferStorage, "%storage", "block", "ptr")])
    large = f.compare("sge", get(f, BufferStorage, "%storage", "nbytes"), NUDGED_BYTES)
    with f.when(large):
        f.call(unsettle, [queue])
    home = get(f, BufferStorage, "%storage", "home", "ptr")
    with f.when(f.op(f"icmp ne ptr {home}, null")):
        form = [get(f, BufferStorage, "%storage", x) for x in ("pages", "inner", "inner_bytes")]
        f.call(keep_home, [queue, home, *form])
    f.call(FREE, ["%storage"])
    with f.when(f.op(f"icmp ne ptr {parent}, null")):
        f.do(f"call void @release_block(ptr {parent})")
    return f


def release_block_function(free_storage: Function, signal: Function) -> Function:
    """Write `void release_block(ptr block)`, which gives a reference of a counted block back."""
    f = Function("release_block", parameters(block="ptr"))
    old = add(f, BufferStorage, "%block", "refs", -1)
    with f.when(f.compare("eq", old, 1)):
        held = f.compare("ne", get(f, BufferStorage, "%block", "held"), 0)
        f.do(f"br i1 {held}, label %python, label %own")
        f.label("own")
        f.call(free_storage, ["%block"])
        f.do("br label %end")
        f.label("python")
        is_storage = f.compare("eq", get(f, BufferStorage, "%block", "held"), HELD_STORAGE)
        f.do(f"br i1 {is_storage}, label %storage, label %push")
        f.label("storage")
        large = f.compare("sge", get(f, BufferStorage, "%block", "nbytes"), NUDGED_BYTES)
        queue = get(f, BufferStorage, "%block", "queue", "ptr")
        f.call(PUSH, ["%block"])
        f.do(f"br i1 {large}, label %nudge, label %end")
        f.label("nudge")
        put(f, Queue, queue, "sweep", 1)
        f.call(signal, [queue])
        f.do("br label %end")
        f.label("push")
        f.call(PUSH, ["%block"])
        f.do("br label %end")
        f.label("end")
    return f


def new_storage_function(account: Function) -> Function:
    """Write `ptr new_storage(ptr queue, ptr data, i64 nbytes, i64 held)`, with one reference."""
    given = parameters(queue="ptr", data="ptr", nbytes="i64", held="i64")
    f = Function("new_storage", given, "ptr")
    found = f.call(MALLOC, [ctypes.sizeof(BufferStorage)])
    put(f, BufferStorage, found, "refs", 1)
    put(f, BufferStorage, found, "held", "%held")
    put(f, BufferStorage, found, "is_odd", 0)
    put(f, BufferStorage, found, "nbytes", "%nbytes")
    for name, value in (("data", "%data"), ("queue", "%queue")):
        put(f, BufferStorage, found, name, value, "ptr")
    for name in ("next", "parent", "block", "home"):
        put(f, BufferStorage, found, name, "null", "ptr")
    with f.when(f.op("icmp ne ptr %data, null")):
        f.call(account, ["%queue", "%nbytes"])
    f.ret("ptr", found)
    return f


# -- cells ---------------------------------------------------------------------------------------


def new_cell_function() -> Function:
    """Write `ptr new_cell(ptr device, ptr type, i64 nbytes, ptr storage, ptr event)`.

    `type` is dimensions, rank and number. References to storage and event are taken over.
    """
    given = parameters(device="ptr", type="ptr", nbytes="i64", storage="ptr", event="ptr")
    f = Function("new_cell", given, "ptr")
    cell = f.call(MALLOC, [ctypes.sizeof(HandleCell)])
    memory = get(f, HandleCell, "%device", "memory", "ptr")
    for name, value in (("table", "null"), ("next", "null"), ("device", "%device")):
        put(f, HandleCell, cell, name, value, "ptr")
    for name, value in (("memory", memory), ("event", "%event"), ("of", "%storage")):
        put(f, HandleCell, cell, name, value, "ptr")
    for nth, name in enumerate(("dimensions", "rank", "number")):
        put(f, HandleCell, cell, name, f.load("i64", f.gep("%type", 8 * nth), 8))
    put(f, HandleCell, cell, "nbytes", "%nbytes")
    for name, number in (("held", 0), ("is_deleted", 0)):
        put(f, HandleCell, cell, name, number)
    f.ret("ptr", cell)
    return f


def drop_function(release_block: Function, lock: Function) -> Function:
    """Write `void drop(ptr cell)`, which deletes what a buffer has, if anything."""
    f = Function("drop", parameters(cell="ptr"))
    with f.when(f.call(lock, ["%cell"])):
        unlock(f, "%cell", 1)
        storage = get(f, HandleCell, "%cell", "of", "ptr")
        with f.when(f.op(f"icmp ne ptr {storage}, null")):
            f.call(release_block, [storage])
    return f


def let_go_function(drop: Function) -> Function:
    """Write `void let_go(ptr cell)`, the end of what a cell of a buffer or a program refers to."""
    f = Function("let_go", parameters(cell="ptr"))
    f.call(drop, ["%cell"])
    event = get(f, HandleCell, "%cell", "event", "ptr")
    with f.when(f.op(f"icmp ne ptr {event}, null")):
        f.call(RELEASE_EVENT, [event])
    return f


def destroy_function(let_go: Function, signal: Function, unsettle: Function) -> Function:
    """Write the function that destroys an object: what Python holds goes on its list.

    A worker is asked to see to that at once: there may be a program in it, with all that it has.
    """
    f = Function("destroy", parameters(a="ptr"), "ptr")
    cell = argument(f, 16)
    with f.when(f.op(f"icmp ne ptr {cell}, null")):
        held = f.compare("ne", get(f, HandleCell, cell, "held"), 0)
        f.do(f"br i1 {held}, label %python, label %own")
        f.label("own")
        f.call(let_go, [cell])
        f.call(FREE, [cell])
        f.do("br label %end")
        f.label("python")
        f.call(PUSH, [cell])
        sweeper = f.op("load atomic ptr, ptr @sweeper acquire, align 8")
        with f.when(f.op(f"icmp ne ptr {sweeper}, null")):
            put(f, Queue, sweeper, "sweep", 1)
            f.call(unsettle, [sweeper])
            f.call(signal, [sweeper])
        f.do("br label %end")
        f.label("end")
    f.ret("ptr", "null")
    return f


def delete_function(drop: Function) -> Function:
    """Write Buffer_Delete."""
    f = Function("delete", parameters(a="ptr"), "ptr")
    f.call(drop, [argument(f, 16)])
    f.ret("ptr", "null")
    return f


def is_deleted_function() -> Function:
    """Write Buffer_IsDeleted."""
    f = Function("is_deleted", parameters(a="ptr"), "ptr")
    word = place(f, HandleCell, argument(f, 16), "is_deleted")
    found = f.op(f"load atomic i64, ptr {word} acquire, align 8")
    f.store("i8", f.op(f"zext i1 {f.compare('eq', found, 1)} to i8"), f.gep("%a", 24), 1)
    f.ret("ptr", "null")
    return f


def borrow_function(lock: Function) -> Function:
    """Write `ptr borrow(ptr cell)`: a new reference to the storage, null for a deleted buffer."""
    f = Function("borrow", parameters(cell="ptr"), "ptr")
    go_unless(f, f.call(lock, ["%cell"]), "gone")
    storage = get(f, HandleCell, "%cell", "of", "ptr")
    f.call(RETAIN, [storage])
    unlock(f, "%cell")
    f.do(f"ret ptr {storage}")
    f.label("gone")
    f.ret("ptr", "null")
    return f


def share_function(borrow: Function) -> Function:
    """Write Buffer_IncreaseExternalReferenceCount: the storage gets one more reference."""
    f = Function("share", parameters(a="ptr"), "ptr")
    go_unless(f, f.op(f"icmp ne ptr {f.call(borrow, [argument(f, 16)])}, null"), "gone")
    f.do("ret ptr null")
    f.label("gone")
    f.ret("ptr", f.call(_DELETED, []))
    return f


def give_back_function(release_block: Function) -> Function:
    """Write Buffer_DecreaseExternalReferenceCount, also for a buffer that was deleted since."""
    f = Function("give_back", parameters(a="ptr"), "ptr")
    f.call(release_block, [get(f, HandleCell, argument(f, 16), "of", "ptr")])
    f.ret("ptr", "null")
    return f


def element_type_function() -> Function:
    """Write Buffer_ElementType, also of a buffer that was deleted."""
    f = Function("element_type", parameters(a="ptr"), "ptr")
    number = get(f, HandleCell, argument(f, 16), "number")
    f.store("i32", f.op(f"trunc i64 {number} to i32"), f.gep("%a", 24), 4)
    f.ret("ptr", "null")
    return f


# -- answers that are kept -----------------------------------------------------------------------


def kind_function() -> Function:
    """Write Memory_Kind: Python is asked once for each memory."""
    f = Function("kind", parameters(a="ptr"), "ptr")
    memory = argument(f, 16)
    known = get(f, HandleCell, memory, "dimensions", "ptr")
    go_unless(f, f.op(f"icmp ne ptr {known}, null"), "ask")
    f.store("ptr", known, f.gep("%a", 24), 8)
    f.store("i64", get(f, HandleCell, memory, "rank"), f.gep("%a", 32), 8)
    f.do("ret ptr null")
    f.label("ask")
    error = ask_python(f, "kind")
    go_unless(f, is_null(f, error), "failed")
    put(f, HandleCell, memory, "rank", argument(f, 32, "i64"))
    put(f, HandleCell, memory, "dimensions", argument(f, 24), "ptr")
    f.do("ret ptr null")
    f.label("failed")
    f.ret("ptr", error)
    return f


def result_count_function() -> Function:
    """Write Executable_NumOutputs: Python is asked once for each handle."""
    f = Function("result_count", parameters(a="ptr"), "ptr")
    program = argument(f, 16)
    known = get(f, HandleCell, program, "rank")
    go_unless(f, f.compare("ne", known, 0), "ask")
    f.store("i64", f.sub(known, 1), f.gep("%a", 24), 8)
    f.do("ret ptr null")
    f.label("ask")
    error = ask_python(f, "result_count")
    go_unless(f, is_null(f, error), "failed")
    put(f, HandleCell, program, "rank", f.add(argument(f, 24, "i64"), 1))
    f.do("ret ptr null")
    f.label("failed")
    f.ret("ptr", error)
    return f


assert offset(Launch, "refs") == offset(BufferStorage, "refs") == 0
assert offset(Launch, "held") == offset(BufferStorage, "held")
