import ml_dtypes
import numpy as np
import pytest
from tests.evaluator.against_xla import check_jax, run_text

import lowtide
from lowtide.evaluator.custom_call import CUSTOM_CALL_TARGETS
from lowtide.ir import UnsupportedOpError


def call(target, operand, result, extra=""):
    return f"""HloModule m
ENTRY e {{
  a = {operand} parameter(0)
  ROOT r = {result} custom-call(a), custom_call_target="{target}"{extra}
}}"""


MARKERS = [
    "LayoutConstraint",
    "MoveToDevice",
    "MoveToHost",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "Sharding",
    "annotate_device_placement",
    "xla.sdy.FuncResultSharding",
]


def test_targets_are_listed_each_with_what_it_returns():
    assert set(MARKERS) < set(CUSTOM_CALL_TARGETS)
    assert {"TopK", "lapack_spotrf_ffi", "lapack_zheevd_ffi"} < set(CUSTOM_CALL_TARGETS)
    for target, handler in CUSTOM_CALL_TARGETS.items():
        assert target
        assert (handler.__doc__ or "").startswith("Return")


@pytest.mark.parametrize("target", MARKERS)
def test_markers_return_their_operand(target):
    array = np.arange(4, dtype=np.float32)
    (found,) = run_text(call(target, "f32[4]", "f32[4]"), array)
    np.testing.assert_array_equal(found, array)


def test_marker_without_result():
    text = """HloModule m
ENTRY e {
  a = f32[4] parameter(0)
  g = () custom-call(a), custom_call_target="xla.sdy.ShardingGroup",
    custom_call_has_side_effect=true
  ROOT r = (f32[4], ()) tuple(a, g)
}"""
    assert len(run_text(text, np.zeros(4, np.float32))) == 1


def test_shard_of_several_devices_is_refused():
    with pytest.raises(UnsupportedOpError, match="several devices"):
        run_text(call("SPMDFullToShardShape", "f32[4]", "f32[2]"), np.zeros(4, np.float32))


def test_unknown_target_is_named_with_its_instruction():
    with pytest.raises(UnsupportedOpError, match=r'%r.*"no_such_target"'):
        run_text(call("no_such_target", "f32[4]", "f32[4]"), np.zeros(4, np.float32))


def test_host_computation_runs_here():
    text = """HloModule m
host {
  x = f32[4] parameter(0)
  ROOT y = f32[4] add(x, x)
}
"""
    text += call("HostExecute", "f32[4]", "f32[4]", ", called_computations={host}")[12:]
    assert run_text(text, np.arange(4, dtype=np.float32))[0].tolist() == [0, 2, 4, 6]
    with pytest.raises(UnsupportedOpError, match="no computation"):
        run_text(call("HostExecute", "f32[4]", "f32[4]"), np.zeros(4, np.float32))


def test_new_buffers_are_zeros():
    text = """HloModule m
ENTRY e {
  a = s32[2,3] custom-call(), custom_call_target="AllocateBuffer"
  b = b(bf16[4]) custom-call(), custom_call_target="CreateBuffer"
  c = bf16[4] custom-call(b), custom_call_target="Unpin"
  ROOT t = (s32[2,3], bf16[4]) tuple(a, c)
}"""
    a, c = run_text(text)
    assert (a.dtype, a.tolist()) == (np.int32, [[0, 0, 0]] * 2)
    assert (c.dtype, c.astype(int).tolist()) == (ml_dtypes.bfloat16, [0, 0, 0, 0])


def test_what_only_keeps_a_value_alive_has_no_result():
    text = """HloModule m
ENTRY e {
  a = f32[2] parameter(0)
  b = f32[2] negate(a)
  s = () custom-call(b), custom_call_target="dce_sink", custom_call_has_side_effect=true
  ROOT c = f32[2] add(a, a)
}"""
    assert np.asarray(run_text(text, np.ones(2, np.float32))).ravel().tolist() == [2, 2]
    run = lowtide.compile(lowtide.parse_hlo(text))
    np.testing.assert_array_equal(run(np.ones(2, np.float32)), [2, 2])
    assert "negate" in run.as_text()


def test_topk_takes_k_from_the_shape():
    text = call("TopK", "f32[2,4]", "(f32[2,2], s32[2,2])")
    array = np.array([[1, 3, 3, 2], [np.nan, 0, -0.0, 5]], np.float32)
    values, places = run_text(text, array)
    assert values[0].tolist() == [3, 3]
    assert places.tolist() == [[1, 2], [0, 3]]


def test_dynamic_array_is_padded_and_cut_again():
    text = """HloModule m
ENTRY e {
  a = f32[<=5] parameter(0)
  p = (f32[5], s32[]) custom-call(a), custom_call_target="PadToStatic"
  x = f32[5] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  s = f32[<=5] custom-call(x, n), custom_call_target="SliceToDynamic"
  ROOT t = (f32[5], s32[], f32[<=5]) tuple(x, n, s)
}"""
    x, n, s = run_text(text, np.array([1, 2, 3], np.float32))
    assert (x.tolist(), int(n), s.tolist()) == ([1, 2, 3, 0, 0], 3, [1, 2, 3])


# -- LAPACK, through the programs that JAX makes -----------------------------------------------


def random(dtype, *shape):
    rng = np.random.default_rng(len(shape))
    array = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        array = array + 1j * rng.normal(size=shape)
    return array.astype(dtype)


def positive(dtype, *shape):
    matrix = random(dtype, *shape)
    return matrix @ matrix.conj().swapaxes(-1, -2) + np.eye(shape[-1], dtype=dtype)


@pytest.fixture
def jnp():
    return pytest.importorskip("jax.numpy")


REAL_AND_COMPLEX = pytest.mark.parametrize("dtype", [np.float64, np.complex64])


@REAL_AND_COMPLEX
def test_cholesky_of_good_and_bad_matrices(jnp, dtype):
    good = positive(dtype, 2, 4, 4)
    check_jax(jnp.linalg.cholesky, np.stack([good[0], -good[1]]), tolerance=1e-3)


@REAL_AND_COMPLEX
@pytest.mark.parametrize("shape", [(2, 5, 3), (3, 5)])
def test_qr(jnp, dtype, shape):
    def both(x):
        return jnp.linalg.qr(x), jnp.linalg.qr(x, mode="complete")

    check_jax(both, random(dtype, *shape), tolerance=1e-3)


@REAL_AND_COMPLEX
def test_qr_with_pivots_and_hessenberg(jnp, dtype):
    from jax.lax import linalg
    from jax.scipy.linalg import qr

    def both(x):
        return qr(x, pivoting=True), linalg.hessenberg(x)

    check_jax(both, random(dtype, 5, 5), tolerance=1e-3)


@REAL_AND_COMPLEX
def test_product_with_reflectors(jnp, dtype):
    from jax.lax import linalg

    def all_sides(a, taus, c):
        return [
            linalg.ormqr(a, taus, c, left=left, transpose=transpose)
            for left in (True, False)
            for transpose in (True, False)
        ]

    given = random(dtype, 4, 4), random(dtype, 4), random(dtype, 4, 4)
    check_jax(all_sides, *given, tolerance=1e-3)


@REAL_AND_COMPLEX
def test_lu_and_what_is_made_of_it(jnp, dtype):
    from jax.scipy.linalg import lu

    def several(a, b):
        return lu(a[0]), jnp.linalg.solve(a, b), jnp.linalg.inv(a), jnp.linalg.slogdet(a)

    check_jax(several, random(dtype, 2, 4, 4), random(dtype, 2, 4, 3), tolerance=1e-3)
    check_jax(jnp.linalg.det, np.zeros((2, 2), dtype))


@REAL_AND_COMPLEX
def test_eigh(jnp, dtype):
    def rebuilt(x):
        values, vectors = jnp.linalg.eigh(x)
        product = (vectors * values[..., None, :]) @ vectors.conj().swapaxes(-1, -2)
        return values, product, jnp.abs(vectors)

    check_jax(rebuilt, positive(dtype, 2, 4, 4), tolerance=1e-3)


@REAL_AND_COMPLEX
@pytest.mark.parametrize("shape", [(2, 5, 3), (3, 5)])
def test_svd(jnp, dtype, shape):
    def rebuilt(x):
        u, s, vt = jnp.linalg.svd(x, full_matrices=False)
        full = [jnp.abs(y) for y in jnp.linalg.svd(x)]
        rank = min(x.shape[-2:])  # the vectors beyond it are any basis
        full = full[0][..., :rank], full[1], full[2][..., :rank, :]
        return (u * s[..., None, :]) @ vt, jnp.linalg.svd(x, compute_uv=False), full

    check_jax(rebuilt, random(dtype, *shape), tolerance=1e-3)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_eig(jnp, dtype):
    from jax.lax import linalg

    def sides(x):
        values, left, right = linalg.eig(x)
        return values, jnp.abs(left), jnp.abs(right), jnp.linalg.eigvals(x)

    check_jax(sides, random(dtype, 4, 4), tolerance=1e-6)


@REAL_AND_COMPLEX
def test_schur_form(jnp, dtype):
    from jax.lax import linalg

    def rebuilt(x):
        form, vectors = linalg.schur(x)
        alone = linalg.schur(x, compute_schur_vectors=False)[0]
        return jnp.abs(form), vectors @ form @ vectors.conj().T, jnp.abs(alone)

    check_jax(rebuilt, random(dtype, 4, 4), tolerance=1e-3)


@REAL_AND_COMPLEX
@pytest.mark.parametrize("lower", [True, False])
def test_tridiagonal_form(jnp, dtype, lower):
    from jax.lax import linalg

    x = positive(dtype, 2, 5, 5)
    check_jax(lambda x: linalg.tridiagonal(x, lower=lower), x, tolerance=1e-3)


@REAL_AND_COMPLEX
def test_svd_by_qr_steps(jnp, dtype):
    from jax.lax import linalg

    def values(x):
        return linalg.svd(x, compute_uv=False, algorithm=linalg.SvdAlgorithm.QR)

    check_jax(values, random(dtype, 2, 5, 3), tolerance=1e-3)


@pytest.mark.parametrize("pivot", [1, 0])
def test_tridiagonal_solve(jnp, pivot):
    from jax.lax import linalg

    below, middle, above = random(np.float64, 2, 5), random(np.float64, 2, 5) + 4, np.ones((2, 5))
    below[:, 0] = above[:, -1] = 0
    given = below, middle * pivot, above, random(np.float64, 2, 5, 3)
    check_jax(linalg.tridiagonal_solve, *given)


def test_matrices_without_a_result_are_nan(jnp):
    nan = np.full((2, 3, 3), np.nan)
    check_jax(jnp.linalg.eigvalsh, nan)
    check_jax(lambda x: jnp.linalg.svd(x, compute_uv=False), nan)


def test_empty_matrices(jnp):
    check_jax(jnp.linalg.cholesky, np.zeros((0, 0)))
    check_jax(jnp.linalg.qr, np.zeros((4, 0)))
