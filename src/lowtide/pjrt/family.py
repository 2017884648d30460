"""The family of platforms that this one belongs to: what holds for JAX's "cpu" holds here, too.

Libraries know platforms by name: "cpu", "gpu" and "tpu". JAX has families of its own, "gpu" for
CUDA's platform and ROCm's: its devices answer by the name of the family, it is asked for by either
name, and rules for the family hold for its members. The same is done here for "cpu", by the same
doors, as far as these are open. Where XLA's own CPU platform is there, "cpu" by name is that one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from lowtide.pjrt import PLATFORM

FAMILY: Final = "cpu"

_RESTRICTED: Final = frozenset({"dot_general"})
"""Operations whose rule for XLA:CPU refuses what lowtide can do: precisions of products."""


class MemberName(str):
    """The name of a platform that equals that of its family as well.

    It is hashed, printed and looked up as the platform's own, so that tables by platform find what
    is meant for this one. Only devices have such names: those of clients, by which JAX chooses
    rules and caches programs, are plain.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        """Whether a text is one of the two names."""
        return str.__eq__(self, other) is True or (type(other) is str and other == FAMILY)

    def __ne__(self, other: object) -> bool:
        """Whether a text is neither of the two names."""
        return not self == other

    __hash__ = str.__hash__


class FamilyRules(dict[Any, Any]):
    """Rules by primitive for this platform; where it has none, those of its family as they are.

    Libraries may register rules for the family at any time.
    """

    def __init__(self, own: Mapping[Any, Any], shared: Mapping[Any, Any]) -> None:
        super().__init__(own)
        self._shared = shared

    def __contains__(self, primitive: object) -> bool:
        """Whether there is a rule."""
        if super().__contains__(primitive):
            return True
        return primitive in self._shared and getattr(primitive, "name", "") not in _RESTRICTED

    def __missing__(self, primitive: Any) -> Any:
        """Return the rule of the family; raises KeyError."""
        if primitive not in self:
            raise KeyError(primitive)
        return self._shared[primitive]


class FamilyClients(dict[str, Any]):
    """Clients by platform, in which this one is found by its family's name where no other is."""

    def get(self, platform: str, default: Any = None) -> Any:
        """Return the client of a platform."""
        if platform == FAMILY and FAMILY not in self:
            platform = PLATFORM
        return super().get(platform, default)


def join_family() -> None:
    """Have the platform taken for one of its family wherever JAX and libraries look for that."""
    _name_devices()
    _answer_for_family()
    _share_rules()
    _take_branches()


def _name_devices() -> None:
    """Have devices equal what libraries compare them with: `device.platform == "cpu"`."""
    from jaxlib import _jax

    library: Any = _jax
    read: Callable[[Any], str] = library.Device.platform.__get__
    name = MemberName(PLATFORM)

    def platform(device: Any) -> str:
        """Return the name of the platform of a device."""
        found = read(device)
        return name if found == PLATFORM else found

    library.Device.platform = property(platform)


def _answer_for_family() -> None:
    """Have `jax.devices("cpu")` and `backend="cpu"` mean this platform where there is no other.

    JAX may be within the first such call, so it is its own table that answers.
    """
    from jax._src import xla_bridge

    bridge: Any = xla_bridge
    bridge._backends = FamilyClients(bridge._backends)


def _share_rules() -> None:
    from jax._src.interpreters import mlir

    rules: Any = mlir
    tables = rules._platform_specific_lowerings
    tables[PLATFORM] = FamilyRules(tables[PLATFORM], tables[FAMILY])


def _take_branches() -> None:
    """Have `jax.lax.platform_dependent` take the family's branch where the platform has none."""
    from jax._src.interpreters import mlir
    from jax._src.lax.control_flow import conditionals

    rules: Any = mlir
    home: Any = conditionals
    pairs = ((home.platform_index_p, "platforms"), (home.cond_p, "branches_platforms"))
    for primitive, parameter in pairs:
        usual = rules._lowerings[primitive].rule
        rules.register_lowering(primitive, partial(_branching, usual, parameter), platform=PLATFORM)


def _branching(usual: Any, parameter: str, ctx: Any, *operands: Any, **parameters: Any) -> Any:
    """Lower an operation with lists of platforms by branch, None for those that are not listed."""
    lists = parameters.get(parameter)
    if lists is not None and not any(PLATFORM in x for x in lists if x is not None):
        with_member = [x and ((*x, PLATFORM) if FAMILY in x else x) for x in lists]
        parameters[parameter] = tuple(with_member)
    return usual(ctx, *operands, **parameters)
