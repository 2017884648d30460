"""The client, its devices and their memories, and what C++ asks about them."""

from __future__ import annotations

from ctypes import c_int, c_size_t, c_void_p
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

from lowtide.options import DEVICES_VARIABLE, device_count, variables_of
from lowtide.pjrt import PLATFORM
from lowtide.pjrt.compile_options import card_target, checks_contracts
from lowtide.pjrt.errors import INVALID_ARGUMENT, PluginError
from lowtide.pjrt.getters import COUNTED, LIST, NUMBER, POINTER, SIZE, TEXT, reads
from lowtide.pjrt.handles import KeptLists, handle, kept_text, value_of
from lowtide.pjrt.native_code import immortal
from lowtide.pjrt.table import serves
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.pjrt.card import Card

MEMORY_KINDS: Final = ("device", "pinned_host", "unpinned_host")
"""The kinds of memory of each device, the default one first: all are ordinary memory here."""

MEMORY_KIND: Final = MEMORY_KINDS[0]


@cache
def card() -> Card | None:
    """Return the graphics processor that the device of this process is, None for a processor.

    Nothing of what it takes is loaded without one. Raises DriverError where it is not there.
    """
    target = card_target()
    if not target:
        return None
    from lowtide.pjrt.card import Card

    return Card(target)


@dataclass(eq=False)
class PluginMemory:
    """One kind of memory of a device; `address` is its handle, `number` counts from 0."""

    device: PluginDevice
    kind: str
    number: int
    address: int = 0

    def __str__(self) -> str:
        return f"{self.kind} memory of {self.device}"


@dataclass(eq=False)
class PluginDevice:
    """A device: all of them are this processor, each with arrays of its own."""

    number: int
    address: int = 0
    memories: tuple[PluginMemory, ...] = ()

    def __post_init__(self) -> None:
        """Take the handles, which are for good."""
        self.address = handle(self)
        first = self.number * len(MEMORY_KINDS)
        self.memories = tuple(
            [PluginMemory(self, kind, first + i) for i, kind in enumerate(MEMORY_KINDS)]
        )
        for memory in self.memories:
            memory.address = handle(memory)

    def __str__(self) -> str:
        return f"LowtideDevice(id={self.number})"

    @property
    def memory(self) -> PluginMemory:
        """The memory in which arrays lie that nothing else is said of."""
        return self.memories[0]

    def memory_of(self, kind: str) -> PluginMemory:
        """Return the memory of a kind; raises PluginError."""
        if kind not in MEMORY_KINDS:
            known = ", ".join(MEMORY_KINDS)
            raise PluginError(INVALID_ARGUMENT, f"no memory of kind {kind!r}: there are {known}")
        return self.memories[MEMORY_KINDS.index(kind)]


def memory_at(address: int) -> PluginMemory:
    """Return the memory at a handle, or the default memory of the device there."""
    found = value_of(address)
    memory: PluginMemory = found.memory if isinstance(found, PluginDevice) else found
    return memory


class PluginClient:
    """All devices; `devices_at` and `memories_at` are the addresses of lists of their handles."""

    def __init__(self, count: int) -> None:
        self.devices = [PluginDevice(i) for i in range(count)]
        lists = KeptLists()
        self.devices_at = lists.of(c_void_p, [x.address for x in self.devices])
        memories = [memory for x in self.devices for memory in x.memories]
        self.memories_at = lists.of(c_void_p, [x.address for x in memories])
        self._lists = lists
        self.address = handle(self)

    def device(self, number: int) -> PluginDevice:
        """Return a device by its number; raises PluginError."""
        if not 0 <= number < len(self.devices):
            known = len(self.devices)
            raise PluginError(INVALID_ARGUMENT, f"no device {number}: there are {known}, from 0")
        return self.devices[number]


@cache
def client() -> PluginClient:
    """Return the client of this process, with as many devices as LOWTIDE_DEVICES says.

    Without it there are as many as JAX is to have of its own CPU platform. A graphics processor is
    one device. Raises DriverError where that is not there.
    """
    if card() is not None:
        return immortal(PluginClient(_one_device()))
    import jax

    asked = getattr(jax.config, "jax_num_cpu_devices", 0)
    return immortal(PluginClient(device_count(asked)))


def _one_device() -> int:
    """The number of devices of a card; raises PluginError where others are asked for."""
    for is_asked, what in (
        (
            variables_of(DEVICES_VARIABLE).get(DEVICES_VARIABLE, "1") != "1",
            "several devices (LOWTIDE_DEVICES) are parts of the processor",
        ),
        (checks_contracts(), "check=contracts reads arrays of the processor"),
    ):
        if is_asked:
            raise PluginError(INVALID_ARGUMENT, f"{what}, and target={card_target()} is one GPU")
    return 1


@serves("Plugin_Attributes", attributes=c_void_p, count=c_size_t)
def _no_plugin_attributes(arguments: Any) -> None:
    arguments.attributes, arguments.count = None, 0


@serves(
    "Client_Create",
    create_options=c_void_p,
    num_options=c_size_t,
    kv_get=c_void_p,
    kv_get_argument=c_void_p,
    kv_put=c_void_p,
    kv_put_argument=c_void_p,
    client=c_void_p,
)
def _create(arguments: Any) -> None:
    arguments.client = handle(client())


@cache
def _version_text() -> str:
    try:
        return f"lowtide {version('lowtide')}"
    except PackageNotFoundError:
        return "lowtide 0"


@serves(
    "Client_LookupDevice",
    "Client_LookupAddressableDevice",
    client=c_void_p,
    number=c_int,
    device=c_void_p,
)
def _look_up(arguments: Any) -> None:
    arguments.device = client().device(arguments.number).address


@serves(
    "Client_DefaultDeviceAssignment",
    client=c_void_p,
    replicas=c_int,
    partitions=c_int,
    size=c_size_t,
    assignment=c_void_p,
)
def _default_assignment(arguments: Any) -> None:
    count = arguments.replicas * arguments.partitions
    if count > arguments.size:
        raise PluginError(INVALID_ARGUMENT, f"{count} devices do not fit into {arguments.size}")
    found = (c_int * count).from_address(arguments.assignment) if count else []
    for i in range(count):
        found[i] = i


_KINDS: Final = len(MEMORY_KINDS)


def _kind() -> str:
    """What the devices are called."""
    place = card()
    return PLATFORM if place is None else place.name


def _fingerprint(devices: int) -> int:
    """What tells devices from those of another version, kind or number, in 64 bits."""
    text = f"{PLATFORM} {_version_text()} {_kind()} {devices}"
    return int.from_bytes(sha256(text.encode()).digest()[:8], "little")


def _nothing(_: Any) -> tuple[None, int]:
    return None, 0


reads("Client_PlatformName TopologyDescription_PlatformName", TEXT, lambda _: kept_text(PLATFORM))
reads(
    "Client_PlatformVersion TopologyDescription_PlatformVersion",
    TEXT,
    lambda _: kept_text(_version_text()),
)
reads("Client_ProcessIndex DeviceDescription_ProcessIndex", NUMBER, lambda _: (0,))
# The client says all that there is to say about the devices.
reads("Client_TopologyDescription", POINTER, lambda x: (x.address,))
reads(
    "Client_Devices Client_AddressableDevices TopologyDescription_GetDeviceDescriptions",
    LIST,
    lambda x: (x.devices_at, len(x.devices)),
)
reads("Client_AddressableMemories", LIST, lambda x: (x.memories_at, len(x.devices) * _KINDS))
reads("TopologyDescription_Attributes", LIST, _nothing)
reads("TopologyDescription_Fingerprint", SIZE, lambda x: (_fingerprint(len(x.devices)),))

reads("Device_GetDescription", POINTER, lambda x: (x.address,))
reads("DeviceDescription_Id Device_LocalHardwareId Memory_Id", NUMBER, lambda x: (x.number,))
reads("DeviceDescription_Kind", TEXT, lambda _: kept_text(_kind()))
reads(
    "DeviceDescription_DebugString DeviceDescription_ToString Memory_DebugString Memory_ToString",
    TEXT,
    lambda x: kept_text(str(x)),
)
reads("DeviceDescription_Attributes", COUNTED, lambda _: (0, None))
reads(
    "Device_AddressableMemories",
    LIST,
    lambda x: (client().memories_at + 8 * _KINDS * x.number, _KINDS),
)
reads("Device_DefaultMemory", POINTER, lambda x: (x.memory.address,))

reads("Memory_Kind", TEXT, lambda x: kept_text(x.kind))
reads("Memory_Kind_Id", NUMBER, lambda x: (MEMORY_KINDS.index(x.kind),))
reads("Memory_AddressableByDevices", LIST, lambda x: (client().devices_at + 8 * x.device.number, 1))
