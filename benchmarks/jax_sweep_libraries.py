"""Programs of JAX's libraries that patterns of arguments do not reach, for `jax_sweep.py`.

Control flow under transformations, derivatives of users, factorizations, sparse matrices, images
and generators of random numbers.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import sparse

from jax_sweep_programs import of, program

# -- control flow ------------------------------------------------------------------------------


@program(lambda s: ((s(5), s.index(5)), {}))
def loops_under_vmap(x: Any, count: Any) -> Any:
    def grow(a: Any, n: Any) -> Any:
        return lax.while_loop(lambda c: c[1] < n, lambda c: (c[0] + a, c[1] + 1), (a, 0))

    def choose(a: Any, n: Any) -> Any:
        return lax.switch(n, [lambda v: v + v, lambda v: v * v, jnp.zeros_like], a)

    def nested(a: Any, n: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            return lax.cond(i % 2 == 0, lambda v: grow(v, n)[0], lambda v: v - a, c)

        return lax.fori_loop(0, n + 1, step, a)

    functions = (grow, choose, nested)
    found = [jax.vmap(f)(x, count) for f in functions]
    found += [jax.vmap(f, (None, 0))(x[0], count) for f in functions]
    return found + [jax.vmap(f, (0, None))(x, count[0]) for f in functions]


@program(of((6, 4), (4,)))
def scans(x: Any, v: Any) -> Any:
    def step(c: Any, row: Any) -> Any:
        return c + row, (c * row, row.sum())

    found = [lax.scan(step, v, x, reverse=r, unroll=u) for r in (False, True) for u in (1, 4)]
    found.append(lax.map(lambda r: r * r, x, batch_size=4))
    found.append(jax.vmap(lambda c: lax.scan(step, c, x))(jnp.stack([v, v + v])))
    return found


@program(of((4, 3), (3,)))
def own_derivatives(x: Any, v: Any) -> Any:
    @jax.custom_vjp
    def clipped(a: Any) -> Any:
        return jnp.clip(a, -1, 1)

    clipped.defvjp(
        lambda a: (jnp.clip(a, -1, 1), a > 0), lambda kept, g: (jnp.where(kept, g, 2 * g),)
    )

    @jax.custom_jvp
    def cubed(a: Any) -> Any:
        return a * a * a

    cubed.defjvp(lambda p, t: (cubed(p[0]), 3 * p[0] * p[0] * t[0]))

    def both(a: Any) -> Any:
        return jnp.sum(cubed(clipped(a)) * v)

    rows = jax.vmap(jax.value_and_grad(both))(x)
    again = jax.vmap(jax.jacfwd(jax.grad(lambda a: jnp.sum(cubed(a)))))(x)
    return [*rows, again, jax.jacrev(cubed)(v), jax.linearize(cubed, v)[1](v)]


@program(of((5, 5), (5, 2)))
def solvers_of_users(a: Any, b: Any) -> Any:
    spd = a @ a.T + 9 * jnp.eye(5, dtype=a.dtype)
    solve = lax.custom_linear_solve(
        lambda x: spd @ x, b, lambda _, y: jnp.linalg.solve(spd, y), symmetric=True
    )
    root = lax.custom_root(
        lambda x: x * x * x - 2 - b[0, 0] * b[0, 0],
        jnp.ones((), a.dtype),
        lambda f, x: lax.fori_loop(0, 30, lambda _, y: y - f(y) / (3 * y * y), x),
        lambda g, y: y / g(jnp.ones_like(y)),
    )
    cg, _ = jax.scipy.sparse.linalg.cg(spd, b[:, 0], maxiter=20)
    bicg, _ = jax.scipy.sparse.linalg.bicgstab(spd, b[:, 1], maxiter=20)
    return [solve, root, cg, bicg]


# -- factorizations ----------------------------------------------------------------------------


@program(of((2, 5, 5), (2, 5, 3)))
def factorizations(a: Any, b: Any) -> Any:
    spd = a @ jnp.conj(jnp.swapaxes(a, 1, 2)) + 5 * jnp.eye(5, dtype=a.dtype)
    linalg = jnp.linalg
    found = [linalg.cholesky(spd), linalg.cholesky(spd, upper=True), linalg.inv(spd)]
    found += [linalg.solve(spd, b), linalg.det(a), *linalg.slogdet(spd), linalg.eigvalsh(spd)]
    found += [linalg.svd(b, compute_uv=False), linalg.pinv(b), linalg.matrix_power(spd, -2)]
    found += [jnp.abs(linalg.qr(b, mode="r")), linalg.lstsq(b[0], a[0])[0], linalg.matrix_rank(b)]
    found += [linalg.cond(spd), linalg.norm(a, 2, (1, 2)), linalg.norm(a, "nuc", (1, 2))]
    w, v = linalg.eigh(spd)
    found += [(v * w[:, None, :]) @ jnp.conj(jnp.swapaxes(v, 1, 2))]
    for left in (True, False):
        for lower in (True, False):
            y = b if left else jnp.swapaxes(b, 1, 2)
            how = {"left_side": left, "lower": lower, "unit_diagonal": lower}
            for t in (False, True):
                found.append(lax.linalg.triangular_solve(spd, y, transpose_a=t, **how))
    return found


@program(of((5, 5), (5, 5)))
def functions_of_matrices(a: Any, b: Any) -> Any:
    spd = a @ jnp.conj(a.T) + 5 * jnp.eye(5, dtype=a.dtype)
    linalg = jax.scipy.linalg
    found = [linalg.expm(a / 4), linalg.solve_sylvester(spd, spd, b), *linalg.polar(spd)]
    found += [linalg.block_diag(a, b), linalg.cho_solve(linalg.cho_factor(spd), b)]
    found += [linalg.lu_solve(linalg.lu_factor(spd), b, trans=1), linalg.toeplitz(a[0], b[0])]
    return [*found, jnp.sort_complex(jnp.linalg.eigvals(spd)), *linalg.lu(spd)]


# -- sparse matrices ---------------------------------------------------------------------------


@program(lambda s: ((s.sparse(6, 5), s.sparse(5, 6), s(5, 3), s(5), s(6, 5)), {}))
def sparse_matrices(m: Any, n: Any, x: Any, v: Any, y: Any) -> Any:
    rows = sparse.BCSR.from_bcoo(m.sort_indices())
    found = [m.todense(), m @ x, m @ v, (m.T).todense(), m.sum(0).todense(), m.sum()]
    found += [x.T @ m.T, (m @ n).todense(), (m * 2).todense(), (m + m).todense(), (-m).todense()]
    found += [(m * y).todense(), m.sum_duplicates(nse=30).todense()]
    found += [
        m[2:3].todense(),
        m[1:4, ::2].todense(),
        m.reshape(3, 10).todense(),
        rows.todense(),
        rows @ x,
        rows @ v,
    ]
    found += [rows.to_bcoo().todense(), sparse.bcoo_reduce_sum(m, axes=(1,)).todense()]
    found += [sparse.sparsify(jnp.sum)(m), sparse.sparsify(lambda a, b: (a * 3) @ b)(m, x)]
    return [*found, sparse.bcoo_concatenate([m, m], dimension=0).todense()]


@program(lambda s: ((s(2, 6, 5), s(2, 5, 3), s(5, 3)), {}))
def sparse_batches(x: Any, y: Any, z: Any) -> Any:
    kept = jnp.where(jnp.arange(60).reshape(2, 6, 5) % 3 == 0, x, 0)
    m = sparse.BCOO.fromdense(kept, nse=30, n_batch=1)
    d = sparse.BCOO.fromdense(kept, nse=12, n_dense=1)
    numbers = (((2,), (1,)), ((0,), (0,)))
    rows = sparse.BCSR.fromdense(kept, nse=30, n_batch=1)
    return [
        m.todense(),
        d.todense(),
        sparse.bcoo_dot_general(m, y, dimension_numbers=numbers),
        sparse.bcoo_transpose(m, permutation=(0, 2, 1)).todense(),
        jax.vmap(lambda a: a @ z)(m),
        sparse.bcoo_reduce_sum(m, axes=(0,)).todense(),
        sparse.bcoo_broadcast_in_dim(
            m, shape=(2, 2, 6, 5), broadcast_dimensions=(1, 2, 3)
        ).todense(),
        rows.todense(),
        sparse.bcsr_dot_general(rows, y, dimension_numbers=numbers),
    ]


@program(lambda s: ((s.sparse(6, 5), s(5, 3), s(6, 5)), {}))
def sparse_gradients(m: Any, x: Any, y: Any) -> Any:
    def total(data: Any, dense: Any) -> Any:
        matrix = sparse.BCOO((data, m.indices), shape=m.shape)
        return jnp.sum((matrix @ dense) ** 2) + jnp.sum((matrix * y).todense())

    sampled = sparse.bcoo_extract(m, y)
    by_grad = sparse.grad(lambda a: jnp.sum((a @ x) ** 2))(m)
    return [*jax.grad(total, (0, 1))(m.data, x), sampled.data, by_grad.data]


# -- images ------------------------------------------------------------------------------------


@program(of((5, 7, 3)))
def images(x: Any) -> Any:
    found = []
    scale, move = jnp.array([1.7, 0.4]), jnp.array([-1.3, 2.5])
    for method in ("nearest", "linear", "cubic", "lanczos3", "lanczos5"):
        for smooth in (True, False):
            shapes = ((10, 7, 3), (3, 4, 3), (5, 11, 2), (1, 1, 3))
            found += [jax.image.resize(x, shape, method, antialias=smooth) for shape in shapes]
            if method != "nearest":
                given = ((6, 4, 3), (0, 1), scale, move, method)
                found.append(jax.image.scale_and_translate(x, *given, antialias=smooth))
    return found


# -- random numbers ----------------------------------------------------------------------------


@program(lambda s: ((s.key(),), {}))
def random_bits(key: Any) -> Any:
    random = jax.random
    found = [
        random.bits(key, (n,), d) for n in (1, 5, 64, 1001) for d in ("uint8", "uint16", "uint32")
    ]
    found += [random.split(key, 3), random.fold_in(key, 77), random.permutation(key, 30)]
    found += [random.randint(key, (40,), 0, 300, d) for d in ("int8", "uint8", "int16", "int32")]
    found += [jax.vmap(lambda k: random.bits(k, (3,)))(random.split(key, 4))]
    found += [random.uniform(key, (33,), d) for d in ("float16", "bfloat16", "float32")]
    return [*found, random.choice(key, 20, (7,), replace=False), random.bernoulli(key, 0.3, (50,))]


@program(lambda s: ((s.key(),), {}))
def generators_of_bits(key: Any) -> Any:
    four = jnp.concatenate([key, key])[:4]
    two = lax.bitcast_convert_type(four.reshape(2, 2), jnp.uint32).reshape(4)
    found = []
    for algorithm in ("default", "philox", "threefry"):
        for shape in ((1,), (3,), (4, 5), (1001,)):
            for dtype in ("uint8", "uint16", "uint32"):
                try:
                    made = lax.RandomAlgorithm.__members__[f"RNG_{algorithm.upper()}"]
                    found += lax.rng_bit_generator(two, shape, dtype, algorithm=made)
                except (KeyError, NotImplementedError, TypeError, ValueError):
                    continue
    return found
