"""Functions over a mesh of devices that JAX does not have: traced with an abstract mesh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, final

from lowtide.ir.errors import InputError
from lowtide.records import dataclass


def abstract_mesh(mesh: Any) -> Any:
    """Return the `jax.sharding.AbstractMesh` of a mesh of JAX, or of sizes by the names of axes.

    Raises TypeError for anything else.
    """
    import jax

    if isinstance(mesh, jax.sharding.AbstractMesh):
        return mesh
    if isinstance(mesh, jax.sharding.Mesh):
        return mesh.abstract_mesh
    if isinstance(mesh, Mapping) and all(
        isinstance(name, str) and isinstance(size, int) and size > 0 for name, size in mesh.items()
    ):
        return jax.sharding.AbstractMesh(tuple(mesh.values()), tuple(mesh))
    raise TypeError(
        f"mesh is a mesh of JAX or sizes by the names of axes, such as {{'x': 4}}; found {mesh!r}"
    )


@dataclass(frozen=True, slots=True)
class MeshOptions:
    """What `jit` is told of a mesh: `shardings` are `in_shardings` and `out_shardings` over it."""

    mesh: Any = None
    comm: Any = None
    shardings: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def taken_from(fields: dict[str, Any]) -> MeshOptions:
        """Return those among the keywords of `jit`, which then has the others.

        Raises TypeError for a mesh or shardings that are none, and for any of them without a mesh.
        """
        found = {name: fields.pop(name) for name in _NAMES if name in fields}
        given = {name: x for name, x in found.items() if x is not None}
        if "mesh" not in given:
            if given:
                raise TypeError(f"{next(iter(given))} needs a mesh: mesh={{'x': 4}}")
            return MeshOptions()
        mesh = abstract_mesh(given["mesh"])
        names = [name for name in _NAMES[2:] if name in given]
        shardings = {str(name): shardings_over(mesh, given[name]) for name in names}
        return MeshOptions(mesh, given.get("comm"), shardings)


_NAMES: Final[tuple[str, ...]] = ("mesh", "comm", "in_shardings", "out_shardings")


@final
class MeshFunction:
    """What `jax.jit` returned of a function, staged with a mesh in force, for types only.

    Names of axes in the function (`with_sharding_constraint`, `shard_map`) are those of the mesh.
    """

    def __init__(self, staged: Any, mesh: Any) -> None:
        self._staged = staged
        self.mesh = mesh

    def trace(self, *arguments: Any, **keywords: Any) -> Any:
        """Return JAX's trace for arguments or specs."""
        import jax

        types, named = jax.tree_util.tree_map(_type_of, (arguments, keywords))
        with jax.sharding.use_abstract_mesh(self.mesh):
            return self._staged.trace(*types, **named)

    def lower(self, *arguments: Any, **keywords: Any) -> Any:
        """Return what JAX lowers for arguments or specs."""
        return self.trace(*arguments, **keywords).lower(lowering_platforms=("cpu",))

    def eval_shape(self, *arguments: Any, **keywords: Any) -> Any:
        """Return shapes and types of the results."""
        return self.trace(*arguments, **keywords).out_info

    def clear_cache(self) -> None:
        """Have JAX forget what it traced."""
        self._staged.clear_cache()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Raise InputError: JAX has no devices of this mesh to run on."""
        raise InputError(
            "a function with mesh= cannot be called inside of jax.jit, jax.grad or jax.vmap: use "
            "these inside of it"
        )


def shardings_over(mesh: Any, given: Any) -> Any:
    """Return a tree of shardings in which each PartitionSpec is one over an abstract mesh.

    Raises TypeError for a sharding of another mesh.
    """
    import jax

    spec = jax.sharding.PartitionSpec

    def over(x: Any) -> Any:
        if isinstance(x, spec):
            return jax.sharding.NamedSharding(mesh, x)
        if x is None:
            return None
        if isinstance(x, jax.sharding.NamedSharding) and _same(x.mesh, mesh):
            return jax.sharding.NamedSharding(mesh, x.spec)
        raise TypeError(f"expected a PartitionSpec, or a sharding over {mesh}, found {x!r}")

    is_leaf = lambda x: x is None or isinstance(x, spec)  # noqa: E731
    return jax.tree_util.tree_map(over, given, is_leaf=is_leaf)


def _same(mesh: Any, wanted: Any) -> bool:
    return bool(mesh == wanted or getattr(mesh, "abstract_mesh", None) == wanted)


def _type_of(x: Any) -> Any:
    import jax

    spec: Any = jax.ShapeDtypeStruct
    if isinstance(x, spec):
        return x
    try:
        aval = jax.typeof(x)
    except TypeError:  # A static argument, or what JAX itself refuses in its own words.
        return x
    return spec(aval.shape, aval.dtype, weak_type=aval.weak_type)
