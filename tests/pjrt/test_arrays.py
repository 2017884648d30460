"""Arrays on the platform "lowtide": their memories, layouts, and memory shared with others."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.pjrt.test_plugin import run

pytest.importorskip("jax")


def test_arrays_lie_in_the_memory_that_they_are_put_in(tmp_path: Path) -> None:
    script = """
    from jax.sharding import SingleDeviceSharding
    device = jax.devices()[0]
    kinds = [x.kind for x in device.addressable_memories()]
    assert kinds == ["device", "pinned_host", "unpinned_host"]
    assert device.default_memory().kind == "device"
    x = jnp.arange(6.0).reshape(2, 3)
    for kind in kinds:
        there = SingleDeviceSharding(device, memory_kind=kind)
        y = jax.device_put(x, there)
        assert y.sharding.memory_kind == kind and y.tolist() == x.tolist()
        f = jax.jit(lambda x: x * 2, in_shardings=there, out_shardings=there)
        assert f(y).sharding.memory_kind == kind and (np.asarray(f(y)) == 2 * np.asarray(x)).all()
    Space = jax.memory.Space
    both = jax.jit(lambda x: jax.device_put(jax.device_put(x, Space.Host) * 2, Space.Device) + x)
    assert both(x).sharding.memory_kind == "device" and both(x)[1, 2] == 15
    """
    run(script, tmp_path)


def test_layouts_are_obeyed_and_kept(tmp_path: Path) -> None:
    script = """
    from jax.experimental.layout import Format, Layout
    from jax.sharding import SingleDeviceSharding
    here = SingleDeviceSharding(jax.devices()[0])
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)):
        form = Format(Layout(order), here)
        y = jax.device_put(x, form)
        assert y.format.layout.major_to_minor == order
        view = np.asarray(y)
        assert (view == x).all()
        assert tuple(np.argsort([-x for x in view.strides])) == order
        f = jax.jit(lambda x: x + 1, in_shardings=form, out_shardings=form)
        z = f(y)
        assert z.format.layout.major_to_minor == order and (np.asarray(z) == x + 1).all()
        compiled = f.lower(y).compile()
        assert compiled.output_formats.layout.major_to_minor == order
        assert compiled.input_formats[0][0].layout.major_to_minor == order
        back = jax.device_put(y, Format(Layout((0, 1, 2)), here))
        assert back.format.layout.major_to_minor == (0, 1, 2) and (np.asarray(back) == x).all()
        moved = jax.device_put(y, jax.devices()[1])
        assert (np.asarray(moved) == x).all()
    free = Format(Layout.AUTO)
    automatic = jax.jit(lambda x: x.T, in_shardings=free, out_shardings=free)
    assert (np.asarray(automatic.lower(x).compile()(x)) == x.T).all()
    for order in ((1, 2, 0), (0, 2, 1)):
        form = Format(Layout(order), here)
        turned = lambda x: jnp.transpose(x + 1, (2, 0, 1))
        chosen = jax.jit(turned, in_shardings=form, out_shardings=free)
        z = chosen.lower(x).compile()(jax.device_put(x, form))
        assert (np.asarray(z) == (x + 1).transpose(2, 0, 1)).all()
        assert z.format.layout.major_to_minor == tuple([(2, 0, 1).index(d) for d in order])
    assert "copy" not in chosen.lower(x).compile().as_text()
    assert jnp.ones((1, 5, 1)).format.layout.major_to_minor == (0, 1, 2)
    """
    run(script, tmp_path, LOWTIDE_DEVICES="2")


def test_donated_arrays_of_any_layout_hold_the_results(tmp_path: Path) -> None:
    script = """
    from jax.experimental.layout import Format, Layout
    from jax.sharding import SingleDeviceSharding
    form = Format(Layout((1, 0)), SingleDeviceSharding(jax.devices()[0]))
    step = jax.jit(lambda x: x + 1, in_shardings=form, out_shardings=form, donate_argnums=0)
    x = jax.device_put(np.arange(6.0, dtype=np.float32).reshape(2, 3), form)
    for _ in range(3):
        given = x
        x = step(x)
        assert given.is_deleted()
    assert x.tolist() == [[3, 4, 5], [6, 7, 8]]
    """
    run(script, tmp_path)


SHARED = """
    def aligned(count):
        whole = np.zeros(count + 64, np.uint8)
        start = -whole.ctypes.data % 64
        return whole[start:start + count]
"""


def test_a_donated_array_gives_its_memory_to_a_result_of_its_shape(tmp_path: Path) -> None:
    """Others of as many bytes come before it, as arguments and as results."""
    script = """
    step = jax.jit(lambda x, y: (y * 2, x + 1), donate_argnums=(0, 1))
    for _ in range(3):
        x, y = jnp.ones((40, 20)), jnp.ones((20, 40))
        places = [z.unsafe_buffer_pointer() for z in (y, x)]
        assert [z.unsafe_buffer_pointer() for z in step(x, y)] == places
    """
    run(script, tmp_path)


def test_memory_of_the_host_is_shared_where_it_may_be(tmp_path: Path) -> None:
    script = (
        SHARED
        + """
    import gc, weakref
    class Owner(np.ndarray):
        pass
    host = aligned(4096).view(np.float32).reshape(32, 32).view(Owner)
    x = jax.device_put(host, may_alias=True)
    assert x.unsafe_buffer_pointer() == host.ctypes.data
    assert np.asarray(x).ctypes.data == host.ctypes.data
    host[1:] = np.arange(31 * 32).reshape(31, 32)
    for given in (host[:, ::2], host.T, host.reshape(-1)[1:], host[::-1], host[::-3, ::-2]):
        y = jax.device_put(given)
        assert y.unsafe_buffer_pointer() % 64 == 0 and (np.asarray(y) == given).all()
    assert jnp.array(host).unsafe_buffer_pointer() != host.ctypes.data
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    assert step(x)[0, 0] == 1 and x.is_deleted() and host[0, 0] == 0
    for _ in range(3):  # Machine code makes the calls behind the first one.
        again = aligned(4096).view(np.float32).reshape(32, 32)
        z = jax.device_put(again, may_alias=True)
        assert z.unsafe_buffer_pointer() == again.ctypes.data
        assert step(z)[0, 0] == 1 and z.is_deleted() and again[0, 0] == 0
    gone = weakref.ref(host)
    del host, given, x, y
    for _ in range(3):
        gc.collect()
        jnp.ones(2).block_until_ready()
    assert gone() is None
    """
    )
    run(script, tmp_path)


AWAY = """
    def away_from_lines(x):
        block = np.empty(x.nbytes + 128, np.uint8)
        start = -block.ctypes.data % 64 + x.itemsize
        found = block[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
        found[...] = x
        return found
"""
"""Memory that is not shared but copied."""


def test_small_arrays_of_the_host_have_what_was_there(tmp_path: Path) -> None:
    """The first of a form is taken by Python, the others by machine code."""
    script = """
    import ml_dtypes
    jax.config.update("jax_enable_x64", True)
    random = np.random.default_rng(0)
    names = "bool int4 int8 uint16 int32 int64 float16 bfloat16 float32 float64 complex64"
    places = [*jax.devices()]
    places += [jax.sharding.SingleDeviceSharding(jax.devices()[1], memory_kind="pinned_host")]
    def check(x, place):
        y = jax.device_put(x, place)
        assert (y.dtype, y.shape) == (x.dtype, x.shape), (y.dtype, y.shape, x.dtype, x.shape)
        assert y.unsafe_buffer_pointer() % 64 == 0 or not x.size
        assert np.asarray(y).tobytes() == np.ascontiguousarray(x).tobytes()
        assert getattr(place, "memory_kind", "device") == y.sharding.memory_kind
        assert y.devices() == getattr(place, "device_set", {place})
        apart, kept = away_from_lines(x), np.array(x)
        copy = jax.device_put(apart, place)
        apart[...] = 0
        assert np.asarray(copy).tobytes() == kept.tobytes()
    for name in names.split():
        dtype = getattr(ml_dtypes, name, None) or name
        for sizes in ((), (1,), (7,), (3, 4), (4, 3), (2, 1, 5), (0, 3), (2000,)):
            for place in places:
                for _ in range(2):
                    x = random.integers(0, 7, sizes).astype(dtype)
                    check(x, place)
                    if sizes:
                        check(np.repeat(x, 2, -1)[..., ::2], place)
                        check(x[::-1], place)
                        check(np.asfortranarray(x), place)
    """
    run(AWAY + script, tmp_path, LOWTIDE_DEVICES="2")


def test_the_next_array_of_a_form_needs_no_python(tmp_path: Path) -> None:
    script = """
    from lowtide.pjrt import host_memory
    step = jax.jit(lambda x, rate, shift: x * rate + shift)
    ones = away_from_lines(np.ones(3, np.float32))
    step(jax.device_put(ones), 1.0, ones)
    made = host_memory.new_buffer
    def refuse(*_):
        raise RuntimeError("Python was asked")
    host_memory.new_buffer = refuse
    x = jax.device_put(ones)
    for rate in range(5):
        x = step(x, float(rate), away_from_lines(np.full(3, rate, np.float32)))
    assert x.tolist() == [64] * 3, x
    for unknown in (np.ones(5, np.float32), np.ones((2, 3), np.float32), np.ones(5000, np.int8)):
        try:
            jax.block_until_ready(jax.device_put(unknown))
        except RuntimeError as error:
            assert "Python was asked" in str(error)
        else:
            raise AssertionError(unknown.shape)
    host_memory.new_buffer = made
    again = jax.jit(lambda x: x + 1, donate_argnums=0)
    before = jax.devices()[0].memory_stats()["bytes_in_use"]
    for _ in range(100):
        y = jax.device_put(ones)
        assert again(y).tolist() == [2, 2, 2] and y.is_deleted()
    assert jax.devices()[0].memory_stats()["bytes_in_use"] <= before + 64
    """
    run(AWAY + script, tmp_path)


def test_small_results_begin_at_lines(tmp_path: Path) -> None:
    """Where they have memory of their own, whatever the C library gives."""
    script = """
    double = jax.jit(lambda x: (x * 2, x.sum()))
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    kept = []
    for size in (1, 3, 15, 16, 17, 100, 1001, 40_000):
        x = jnp.asarray(np.ones(size, np.float32))
        step(double(x)[0])
        kept += [*double(x), step(double(x)[0])]
    assert not [x.shape for x in kept if x.unsafe_buffer_pointer() % 64]
    """
    run(script, tmp_path)


def test_small_results_outlive_one_another(tmp_path: Path) -> None:
    """On both sides of the size that lies behind its record: deleted, donated, viewed, dropped."""
    script = """
    many = jax.jit(lambda x: (x + 1, x * 2, x.sum(), x - 1))
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    def used():
        return jax.devices()[0].memory_stats()["bytes_in_use"]
    for size in (1, 1023, 1024, 1025, 5000):
        given = np.arange(size, dtype=np.float32)
        x = jax.block_until_ready(jnp.asarray(given))
        jax.block_until_ready(step(many(x)[0]))
        before, views = used(), []
        for number in range(60):
            more, twice, total, less = many(x)
            assert used() - before >= 4 * (3 * size + 1)
            views.append(np.asarray(twice))
            del twice
            taken = step(more)
            assert more.is_deleted() and all(y.is_ready() for y in (taken, total))
            if number % 2:
                less.delete()
            assert taken.tolist() == (given + 2).tolist() and float(total) == given.sum()
            del more, taken, total, less
        assert all((view == given * 2).all() for view in views)
        views.clear()
        assert used() - before < 100, (size, used() - before)
    """
    run(script, tmp_path)


def test_large_results_are_right_to_the_last_element(tmp_path: Path) -> None:
    """Their pages move out of an arena, and what is ahead of these and behind is copied."""
    script = """
    both = jax.jit(lambda x: (x[:3].sum(), x * 2, x[::-1] - 1))
    for size in (300_001, 524_288, 700_003, 1_048_577):
        given = np.arange(size, dtype=np.float32)
        kept = [both(jnp.asarray(given)) for _ in range(4)]
        for total, twice, turned in kept:
            assert float(total) == 3 and np.array_equal(twice, given * 2)
            assert np.array_equal(turned, given[::-1] - 1)
    """
    run(script, tmp_path)


def test_arrays_are_shared_by_dlpack_both_ways(tmp_path: Path) -> None:
    script = (
        SHARED
        + """
    import gc
    x = jnp.arange(6.0).reshape(2, 3)
    view = np.from_dlpack(x)
    assert view.ctypes.data == x.unsafe_buffer_pointer() and view.tolist() == x.tolist()
    del x
    gc.collect()
    assert jnp.full((2, 3), 7.0)[0, 0] == 7 and view[1, 2] == 5
    host = aligned(64).view(np.int16)
    y = jax.dlpack.from_dlpack(host)
    assert y.unsafe_buffer_pointer() == host.ctypes.data and y.devices() == {jax.devices()[0]}
    names = "bool int8 uint32 float16 bfloat16 float8_e4m3fn float8_e5m2 complex64 float32"
    for name in names.split():
        a = jnp.asarray(np.arange(4).reshape(2, 2), name)
        b = jax.dlpack.from_dlpack(a)
        assert b.dtype == a.dtype and b.unsafe_buffer_pointer() == a.unsafe_buffer_pointer()
        assert (np.asarray(b) == np.asarray(a)).all()
        c = jax.dlpack.from_dlpack(a, copy=True)
        assert c.dtype == a.dtype and c.unsafe_buffer_pointer() != a.unsafe_buffer_pointer()
        assert (np.asarray(c) == np.asarray(a)).all()
    own = jax.dlpack.from_dlpack(host, copy=True)
    before, host[0] = int(host[0]), host[0] + 1
    assert y[0] == before + 1 and own[0] == before and own.dtype == host.dtype
    wide = jax.dlpack.from_dlpack(np.arange(5.0), copy=True)
    assert wide.dtype == np.float32 and wide.tolist() == [0, 1, 2, 3, 4]
    try:
        jax.dlpack.from_dlpack(jnp.ones(3, "int4"))
    except BufferError as error:
        print(error)
    """
    )
    assert run(script, tmp_path) == "DLPack has no arrays of type int4\n"


def test_dlpack_of_other_platforms_stays_as_it_is(tmp_path: Path) -> None:
    script = """
    cpu = jax.devices("cpu")[0]
    x = jax.device_put(np.ones(3, np.float32), cpu)
    assert x.__dlpack_device__()[0] == 1 and np.from_dlpack(x).tolist() == [1, 1, 1]
    assert jax.dlpack.from_dlpack(np.ones(3)).devices() == {cpu}
    """
    run(script, tmp_path, "cpu,lowtide")


def test_one_program_runs_on_each_device_that_has_all_of_its_arrays(tmp_path: Path) -> None:
    script = """
    from jax.sharding import NamedSharding, PartitionSpec
    mesh = jax.make_mesh((4,), ("a",))
    whole = NamedSharding(mesh, PartitionSpec())
    x = jax.device_put(np.arange(6, dtype=np.float32), whole)
    step = jax.jit(lambda x: (x + 1, x.sum()), donate_argnums=0)
    y, total = step(x)
    assert x.is_deleted() and y.sharding.is_fully_replicated and float(total) == 15
    assert [z.data.tolist() for z in y.addressable_shards] == [[1, 2, 3, 4, 5, 6]] * 4
    assert [z.device.id for z in y.addressable_shards] == [0, 1, 2, 3]
    turned = jax.sharding.Mesh(np.array(jax.devices())[::-1], "a")
    z = jax.device_put(y, NamedSharding(turned, PartitionSpec()))
    assert np.asarray(jax.jit(lambda x: x * 2)(z)).tolist() == [2, 4, 6, 8, 10, 12]
    parts = jax.device_put(np.arange(8.0), NamedSharding(mesh, PartitionSpec("a")))
    assert parts.addressable_shards[3].data.tolist() == [6, 7]
    nothing = jax.jit(lambda x: ())
    assert nothing(z) == ()
    P = jax.P
    def over(function, out_specs=P()):
        return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=P(), out_specs=out_specs))
    assert over(lambda x: x + 1)(y).tolist() == [2, 3, 4, 5, 6, 7]
    assert jax.jit(lambda x: x + 1)(parts).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    numbers = over(lambda x: x[:1] + jax.lax.axis_index("a"), P("a"))
    assert numbers(y).tolist() == [1, 2, 3, 4]
    assert over(lambda x: jax.lax.psum(x, "a"))(y).tolist() == [4, 8, 12, 16, 20, 24]
    """
    run(script, tmp_path, LOWTIDE_DEVICES="4")


def test_products_with_truth_values_leave_out_what_these_exclude(tmp_path: Path) -> None:
    script = """
    x = jnp.array([jnp.inf, jnp.nan, -3.0, 2.0])
    mask = jnp.array([False, False, False, True])
    for found in (x * mask, mask * x, jax.jit(lambda x: x * (x == 2))(x)):
        assert found.tolist() == [0, 0, 0, 2], found
    assert jnp.isnan(x * jnp.float32(0)).tolist() == [True, True, False, False]
    """
    run(script, tmp_path)
