"""Machine code for lists, errors and events, and for the way into Python, as text."""

from __future__ import annotations

from typing import Final

LISTS: Final = """
@destroyed = internal global ptr null
@refusing = internal global i64 0
@table = internal constant { i64, i64, ptr, ptr, ptr, ptr, ptr } {
  i64 56, i64 8, ptr null, ptr @error_free, ptr @error_text, ptr @error_code, ptr @error_payloads }

declare ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @refuse() {
  store atomic i64 1, ptr @refusing seq_cst, align 8
  ret void
}

define internal void @push(ptr %object) {
  %next = getelementptr i8, ptr %object, i64 8
  %first = load atomic ptr, ptr @destroyed monotonic, align 8
  br label %push
push:
  %old = phi ptr [ %first, %0 ], [ %seen, %push ]
  store ptr %old, ptr %next
  %tried = cmpxchg ptr @destroyed, ptr %old, ptr %object release monotonic
  %seen = extractvalue { ptr, i1 } %tried, 0
  %pushed = extractvalue { ptr, i1 } %tried, 1
  br i1 %pushed, label %end, label %push
end:
  ret void
}

define ptr @take() {
  %first = atomicrmw xchg ptr @destroyed, ptr null acquire
  ret ptr %first
}
"""
"""Destroyed objects: a list that any thread pushes to, and that Python takes whole."""

ERRORS: Final = """
define ptr @new_error(i32 %code, ptr %text, i64 %size) {
  %whole = add i64 %size, 40
  %error = call ptr @malloc(i64 %whole)
  store ptr @table, ptr %error
  %size.at = getelementptr i8, ptr %error, i64 16
  store i64 %size, ptr %size.at
  %code.at = getelementptr i8, ptr %error, i64 24
  store i32 %code, ptr %code.at
  %text.at = getelementptr i8, ptr %error, i64 32
  call void @llvm.memcpy.p0.p0.i64(ptr %text.at, ptr %text, i64 %size, i1 false)
  ret ptr %error
}

define void @error_free(ptr %error) {
  call void @free(ptr %error)
  ret void
}

define void @error_text(ptr %error, ptr %to, ptr %count) {
  %text = getelementptr i8, ptr %error, i64 32
  store ptr %text, ptr %to
  %size.at = getelementptr i8, ptr %error, i64 16
  %size = load i64, ptr %size.at
  store i64 %size, ptr %count
  ret void
}

define i32 @error_code(ptr %error) {
  %code.at = getelementptr i8, ptr %error, i64 24
  %code = load i32, ptr %code.at
  ret i32 %code
}

define void @error_payloads(ptr %error, ptr %visit, ptr %given) {
  ret void
}

define ptr @destroy_error(ptr %a) {
  %error.at = getelementptr i8, ptr %a, i64 16
  %error = load ptr, ptr %error.at
  call void @free(ptr %error)
  ret ptr null
}

define ptr @message(ptr %a) {
  %error.at = getelementptr i8, ptr %a, i64 16
  %error = load ptr, ptr %error.at
  %to = getelementptr i8, ptr %a, i64 24
  %count = getelementptr i8, ptr %a, i64 32
  call void @error_text(ptr %error, ptr %to, ptr %count)
  ret ptr null
}

define ptr @code(ptr %a) {
  %error.at = getelementptr i8, ptr %a, i64 16
  %error = load ptr, ptr %error.at
  %code = call i32 @error_code(ptr %error)
  %to = getelementptr i8, ptr %a, i64 24
  store i32 %code, ptr %to
  ret ptr null
}
"""
"""Errors: table, nothing, size, code, text. They die with the one who reads them."""

EVENTS: Final = """
define ptr @new_event() {
  %event = call ptr @malloc(i64 40)
  store i64 1, ptr %event
  %waiting = getelementptr i8, ptr %event, i64 8
  store ptr null, ptr %waiting
  %error = getelementptr i8, ptr %event, i64 16
  store ptr null, ptr %error
  %done = getelementptr i8, ptr %event, i64 24
  store i64 0, ptr %done
  %sleepers = getelementptr i8, ptr %event, i64 32
  store i64 0, ptr %sleepers
  ret ptr %event
}

define void @retain(ptr %event) {
  %old = atomicrmw add ptr %event, i64 1 monotonic
  ret void
}

define void @release(ptr %event) {
  %old = atomicrmw sub ptr %event, i64 1 acq_rel
  %last = icmp eq i64 %old, 1
  br i1 %last, label %gone, label %end
gone:
  %error.at = getelementptr i8, ptr %event, i64 16
  %error = load ptr, ptr %error.at
  call void @free(ptr %error)
  call void @free(ptr %event)
  ret void
end:
  ret void
}

define internal ptr @failure(ptr %event) {
  %error.at = getelementptr i8, ptr %event, i64 16
  %error = load ptr, ptr %error.at
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %none, label %some
none:
  ret ptr null
some:
  %size.at = getelementptr i8, ptr %error, i64 16
  %size = load i64, ptr %size.at
  %code = call i32 @error_code(ptr %error)
  %text = getelementptr i8, ptr %error, i64 32
  %copy = call ptr @new_error(i32 %code, ptr %text, i64 %size)
  ret ptr %copy
}

define void @complete(ptr %event, ptr %error) {
  %error.at = getelementptr i8, ptr %event, i64 16
  store ptr %error, ptr %error.at
  %waiting = getelementptr i8, ptr %event, i64 8
  %first = atomicrmw xchg ptr %waiting, ptr inttoptr (i64 1 to ptr) acq_rel
  call void @wake_sleepers(ptr %event)
  br label %test
test:
  %node = phi ptr [ %first, %0 ], [ %next, %wake ]
  %end = icmp eq ptr %node, null
  br i1 %end, label %done, label %wake
wake:
  %next = load ptr, ptr %node
  %callback.at = getelementptr i8, ptr %node, i64 8
  %callback = load ptr, ptr %callback.at
  %given.at = getelementptr i8, ptr %node, i64 16
  %given = load ptr, ptr %given.at
  call void @free(ptr %node)
  %own = call ptr @failure(ptr %event)
  call void %callback(ptr %own, ptr %given)
  br label %test
done:
  ret void
}

define i1 @has_happened(ptr %event) {
  %waiting = getelementptr i8, ptr %event, i64 8
  %first = load atomic ptr, ptr %waiting acquire, align 8
  %done = icmp eq ptr %first, inttoptr (i64 1 to ptr)
  ret i1 %done
}

define ptr @is_ready(ptr %a) {
  %event.at = getelementptr i8, ptr %a, i64 16
  %event = load ptr, ptr %event.at
  %done = call i1 @has_happened(ptr %event)
  %byte = zext i1 %done to i8
  %to = getelementptr i8, ptr %a, i64 24
  store i8 %byte, ptr %to
  ret ptr null
}

define ptr @event_error(ptr %a) {
  %event.at = getelementptr i8, ptr %a, i64 16
  %event = load ptr, ptr %event.at
  %error = call ptr @failure(ptr %event)
  ret ptr %error
}

define ptr @await(ptr %a) {
  %event.at = getelementptr i8, ptr %a, i64 16
  %event = load ptr, ptr %event.at
  %error = call ptr @wait_for(ptr %event)
  ret ptr %error
}

define ptr @on_ready(ptr %a) {
  %event.at = getelementptr i8, ptr %a, i64 16
  %event = load ptr, ptr %event.at
  %callback.at = getelementptr i8, ptr %a, i64 24
  %callback = load ptr, ptr %callback.at
  %given.at = getelementptr i8, ptr %a, i64 32
  %given = load ptr, ptr %given.at
  %early = call i1 @has_happened(ptr %event)
  br i1 %early, label %now, label %join
join:
  %node = call ptr @malloc(i64 24)
  %node.callback = getelementptr i8, ptr %node, i64 8
  store ptr %callback, ptr %node.callback
  %node.given = getelementptr i8, ptr %node, i64 16
  store ptr %given, ptr %node.given
  %waiting = getelementptr i8, ptr %event, i64 8
  %first = load atomic ptr, ptr %waiting acquire, align 8
  br label %check
check:
  %old = phi ptr [ %first, %join ], [ %seen, %push ]
  %late = icmp eq ptr %old, inttoptr (i64 1 to ptr)
  br i1 %late, label %drop, label %push
push:
  store ptr %old, ptr %node
  %tried = cmpxchg ptr %waiting, ptr %old, ptr %node acq_rel acquire
  %seen = extractvalue { ptr, i1 } %tried, 0
  %pushed = extractvalue { ptr, i1 } %tried, 1
  br i1 %pushed, label %end, label %check
drop:
  call void @free(ptr %node)
  br label %now
now:
  %error = call ptr @failure(ptr %event)
  call void %callback(ptr %error, ptr %given)
  ret ptr null
end:
  ret ptr null
}

define ptr @destroy_event(ptr %a) {
  %event.at = getelementptr i8, ptr %a, i64 16
  %event = load ptr, ptr %event.at
  call void @release(ptr %event)
  ret ptr null
}
"""
"""Events: references, those who wait (callback and its argument), the error, whether it has
happened, and how many threads sleep until then."""

CALLS: Final = """
declare void @PyErr_SetInterrupt()

@interrupted = internal constant [11 x i8] c"interrupted"
@nested = internal global ptr null

define void @set_nested(ptr %function) {
  store ptr %function, ptr @nested
  ret void
}

define internal void @run_nested(ptr %queue, ptr %job) {
  %function = load ptr, ptr @nested
  call void %function(ptr %queue, ptr %job)
  ret void
}

define internal ptr @enter(ptr %a, ptr %slot) {
  %state = alloca i64
  %function = load ptr, ptr %slot
  br label %call
call:
  %again = phi i1 [ false, %0 ], [ true, %call ]
  store i64 0, ptr %state
  %found = call ptr %function(ptr %a, ptr %state)
  %reached = load i64, ptr %state
  %refused = icmp eq i64 %reached, 0
  br i1 %refused, label %call, label %left
left:
  br i1 %again, label %tell, label %check
tell:
  call void @PyErr_SetInterrupt()
  br label %check
check:
  %whole = icmp eq i64 %reached, 2
  br i1 %whole, label %end, label %broken
broken:
  %error = call ptr @new_error(i32 1, ptr @interrupted, i64 11)
  ret ptr %error
end:
  ret ptr %found
}
"""
"""The way into Python: a signal's exception may come before the first line of a function, or after
its last one, where nobody catches it. The state says how far it got. 0 is not at all: then it is
called again, and the signal is raised once more behind it. 1 is in between: an error. 2 is whole.
"""
