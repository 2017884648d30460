"""The client, its devices and their memories, and what C++ asks about them."""

from __future__ import annotations

from ctypes import c_int, c_size_t, c_void_p
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from lowtide.options import device_count
from lowtide.pjrt import PLATFORM
from lowtide.pjrt.errors import INVALID_ARGUMENT, PluginError
from lowtide.pjrt.handles import KeptLists, handle, put_text, value_of
from lowtide.pjrt.native_code import immortal
from lowtide.pjrt.table import serves

MEMORY_KIND: Final = "device"


@dataclass(eq=False)
class PluginMemory:
    """The memory of a device; `address` is its handle."""

    device: PluginDevice
    address: int = 0


@dataclass(eq=False)
class PluginDevice:
    """A device: all of them are this processor, each with arrays of its own."""

    number: int
    address: int = 0
    memory: PluginMemory = field(init=False)

    def __post_init__(self) -> None:
        """Take the handles, which are for good."""
        self.address = handle(self)
        self.memory = PluginMemory(self)
        self.memory.address = handle(self.memory)


class PluginClient:
    """All devices; `devices_at` and `memories_at` are the addresses of lists of their handles."""

    def __init__(self, count: int) -> None:
        self.devices = [PluginDevice(i) for i in range(count)]
        lists = KeptLists()
        self.devices_at = lists.of(c_void_p, [x.address for x in self.devices])
        self.memories_at = lists.of(c_void_p, [x.memory.address for x in self.devices])
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
    """Return the client of this process, with as many devices as LOWTIDE_DEVICES says."""
    return immortal(PluginClient(device_count()))


@serves("Plugin_Attributes", attributes=c_void_p, num_attributes=c_size_t)
def _no_plugin_attributes(arguments: Any) -> None:
    arguments.attributes, arguments.num_attributes = None, 0


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


@serves(
    "Client_PlatformName",
    "TopologyDescription_PlatformName",
    client=c_void_p,
    name=c_void_p,
    name_size=c_size_t,
)
def _platform_name(arguments: Any) -> None:
    put_text(arguments, "name", PLATFORM)


@serves(
    "Client_PlatformVersion",
    "TopologyDescription_PlatformVersion",
    client=c_void_p,
    version=c_void_p,
    version_size=c_size_t,
)
def _platform_version(arguments: Any) -> None:
    try:
        own = version("lowtide")
    except PackageNotFoundError:
        own = "0"
    put_text(arguments, "version", f"lowtide {own}")


@serves("Client_ProcessIndex", "DeviceDescription_ProcessIndex", of=c_void_p, index=c_int)
def _process_index(arguments: Any) -> None:
    arguments.index = 0


@serves("Client_TopologyDescription", client=c_void_p, topology=c_void_p)
def _topology(arguments: Any) -> None:
    # The client says all that there is to say about the devices.
    arguments.topology = arguments.client


@serves(
    "Client_Devices",
    "Client_AddressableDevices",
    "TopologyDescription_GetDeviceDescriptions",
    client=c_void_p,
    devices=c_void_p,
    count=c_size_t,
)
def _devices(arguments: Any) -> None:
    arguments.devices, arguments.count = client().devices_at, len(client().devices)


@serves("Client_AddressableMemories", client=c_void_p, memories=c_void_p, count=c_size_t)
def _memories(arguments: Any) -> None:
    arguments.memories, arguments.count = client().memories_at, len(client().devices)


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


@serves("Device_GetDescription", device=c_void_p, description=c_void_p)
def _description(arguments: Any) -> None:
    arguments.description = arguments.device


@serves("DeviceDescription_Id", "Device_LocalHardwareId", device=c_void_p, number=c_int)
def _device_number(arguments: Any) -> None:
    arguments.number = value_of(arguments.device).number


@serves("DeviceDescription_Kind", device=c_void_p, kind=c_void_p, kind_size=c_size_t)
def _device_kind(arguments: Any) -> None:
    put_text(arguments, "kind", PLATFORM)


@serves(
    "DeviceDescription_DebugString",
    "DeviceDescription_ToString",
    device=c_void_p,
    text=c_void_p,
    text_size=c_size_t,
)
def _device_text(arguments: Any) -> None:
    put_text(arguments, "text", f"LowtideDevice(id={value_of(arguments.device).number})")


@serves("DeviceDescription_Attributes", device=c_void_p, count=c_size_t, attributes=c_void_p)
def _no_device_attributes(arguments: Any) -> None:
    arguments.count, arguments.attributes = 0, None


@serves("TopologyDescription_Attributes", topology=c_void_p, attributes=c_void_p, count=c_size_t)
def _no_topology_attributes(arguments: Any) -> None:
    arguments.attributes, arguments.count = None, 0


@serves("Device_AddressableMemories", device=c_void_p, memories=c_void_p, count=c_size_t)
def _memories_of(arguments: Any) -> None:
    arguments.memories = client().memories_at + 8 * value_of(arguments.device).number
    arguments.count = 1


@serves("Device_DefaultMemory", device=c_void_p, memory=c_void_p)
def _memory_of(arguments: Any) -> None:
    arguments.memory = value_of(arguments.device).memory.address


@serves("Memory_Id", memory=c_void_p, number=c_int)
def _memory_number(arguments: Any) -> None:
    arguments.number = value_of(arguments.memory).device.number


@serves("Memory_Kind", memory=c_void_p, kind=c_void_p, kind_size=c_size_t)
def _memory_kind(arguments: Any) -> None:
    put_text(arguments, "kind", MEMORY_KIND)


@serves("Memory_Kind_Id", memory=c_void_p, kind=c_int)
def _memory_kind_number(arguments: Any) -> None:
    arguments.kind = 0


@serves("Memory_DebugString", "Memory_ToString", memory=c_void_p, text=c_void_p, text_size=c_size_t)
def _memory_text(arguments: Any) -> None:
    number = value_of(arguments.memory).device.number
    put_text(arguments, "text", f"memory of LowtideDevice(id={number})")


@serves("Memory_AddressableByDevices", memory=c_void_p, devices=c_void_p, count=c_size_t)
def _devices_of(arguments: Any) -> None:
    arguments.devices = client().devices_at + 8 * value_of(arguments.memory).device.number
    arguments.count = 1
