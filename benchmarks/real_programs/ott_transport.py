"""The optimal transport of two clouds by ott's Sinkhorn iterations, and its gradient."""

import jax
from ott.geometry import pointcloud
from ott.problems.linear import linear_problem
from ott.solvers.linear import sinkhorn

solver = sinkhorn.Sinkhorn(threshold=1e-3, max_iterations=200)


def cost(x, y):
    geometry = pointcloud.PointCloud(x, y, epsilon=0.1)
    return solver(linear_problem.LinearProblem(geometry)).reg_ot_cost


step = jax.jit(jax.value_and_grad(cost))


def arguments():
    """Return both clouds."""
    x = jax.random.normal(jax.random.key(0), (200, 3))
    return x, 0.5 * jax.random.normal(jax.random.key(1), (240, 3)) + 1.0


def run(x, y):
    """Return the costs of 3 steps of the first cloud towards the second."""
    costs = []
    for _ in range(3):
        value, slope = step(x, y)
        x = x - 20.0 * slope
        costs.append(float(value))
    return costs
