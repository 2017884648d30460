"""All functions of buffers, jobs and queues, put together."""

from __future__ import annotations

from lowtide.llvm.function import Function
from lowtide.pjrt import native_calls as calls
from lowtide.pjrt import native_homes as homes
from lowtide.pjrt import native_idle as idle
from lowtide.pjrt import native_jobs as jobs
from lowtide.pjrt import native_objects as objects
from lowtide.pjrt import native_queue as queue
from lowtide.runtime.cpu.system import System


def queue_functions(system: System) -> list[Function]:
    """Return the functions; each calls only those that are made before it."""
    wake, sleep = queue.wake_function(system), queue.sleep_function(system)
    wait_for = queue.wait_for_function(sleep)
    lock, signal = objects.lock_function(), objects.signal_function(wake)
    guard, notice = idle.guard_function(system), idle.notice_function(signal)
    drop_homes, drop_pages = idle.drop_homes_function(guard), idle.drop_pages_function()
    drop_arena = idle.drop_arena_function(drop_pages)
    make_room = idle.make_room_function(drop_homes, drop_arena)
    keep_home, find_home = idle.keep_home_function(guard, notice), idle.find_home_function(guard)
    fall, settle = idle.fall_function(drop_homes), idle.settle_function(drop_homes, drop_arena)
    use_extent = idle.use_extent_function(drop_pages, notice)
    unsettle = idle.unsettle_function(notice)
    forget_code = idle.forget_code_function()
    account = objects.account_function(make_room, forget_code)
    push_home, pop_home = homes.push_home_function(), homes.pop_home_function()
    keep_hollow, reserve = homes.keep_hollow_function(push_home), homes.reserve_function()
    refill = homes.refill_function(find_home, keep_hollow)
    take_over = homes.take_over_function(pop_home, reserve, account)
    free_storage = objects.free_storage_function(account, keep_home, fall, unsettle)
    release_block = objects.release_block_function(free_storage, signal)
    drop = objects.drop_function(release_block, lock)
    let_go, new_cell = objects.let_go_function(drop), objects.new_cell_function()
    new_storage, borrow = objects.new_storage_function(account), objects.borrow_function(lock)
    drop_inputs = jobs.drop_inputs_function(release_block)
    finish = jobs.finish_function(drop_inputs, release_block, wake)
    give_frame, room = jobs.give_frame_function(), jobs.room_function(account)
    steal = jobs.steal_function()
    run = jobs.run_function(room, steal, account, refill, take_over)
    again, enqueue = queue.again_function(), queue.enqueue_function(signal)
    close = queue.close_function(finish, again, enqueue)
    new_results = calls.new_results_function(new_storage, new_cell)
    helpers = [
        *(wake, sleep, wait_for, lock, account, signal, push_home, pop_home, keep_hollow, reserve),
        *(guard, notice, drop_homes, drop_pages, drop_arena, make_room, keep_home, find_home),
        *(fall, settle, forget_code, use_extent, unsettle, refill),
        queue.rest_function(system, sleep, settle),
        *(take_over, free_storage, release_block, drop, let_go, new_cell, new_storage, borrow),
        *(drop_inputs, finish, give_frame, room, steal, run, again, enqueue, close),
        queue.wake_sleepers_function(wake),
        jobs.take_frame_function(),
        jobs.fits_function(),
        jobs.new_job_function(lock, drop_inputs),
        jobs.donate_function(lock, release_block),
        queue.turned_function(),
        queue.failed_function(wait_for),
        new_results,
        calls.discard_function(drop_inputs, release_block),
        calls.announce_function(new_results),
        queue.back_pressure_function(sleep),
        queue.run_and_finish_function(run, give_frame, close),
        queue.arena_run_function(run, use_extent),
    ]
    parts = {x.name: x for x in helpers}
    parts["claim"] = calls.claim_function(parts)
    return [
        *parts.values(),
        objects.destroy_function(let_go, signal, unsettle),
        objects.delete_function(drop),
        objects.is_deleted_function(),
        objects.share_function(borrow),
        objects.give_back_function(release_block),
        objects.element_type_function(),
        objects.kind_function(),
        objects.result_count_function(),
        queue.pointer_function(borrow, wait_for, release_block),
        queue.execute_function(parts),
        queue.next_job_function(parts),
        queue.take_arena_function(),
    ]
