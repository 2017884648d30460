"""The table of functions that JAX's C++ calls, in the order of PJRT's header, which is the ABI."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeAlias

from lowtide.pjrt.errors import (
    FAILED_PRECONDITION,
    UNIMPLEMENTED,
    PluginError,
    error_at,
    is_kept,
    keep_what_leaves,
    new_error,
    see_what_left,
)
from lowtide.pjrt.native_code import immortal, native_code
from lowtide.pjrt.native_python import FRONTS

VERSION: Final = (0, 114)
"""The version of the interface, major and minor: what JAX 0.10 knows."""

_NAMES: Final = """
Error_Destroy Error_Message Error_GetCode Plugin_Initialize Plugin_Attributes Event_Destroy
Event_IsReady Event_Error Event_Await Event_OnReady Client_Create Client_Destroy
Client_PlatformName Client_ProcessIndex Client_PlatformVersion Client_Devices
Client_AddressableDevices Client_LookupDevice Client_LookupAddressableDevice
Client_AddressableMemories Client_Compile Client_DefaultDeviceAssignment
Client_BufferFromHostBuffer DeviceDescription_Id DeviceDescription_ProcessIndex
DeviceDescription_Attributes DeviceDescription_Kind DeviceDescription_DebugString
DeviceDescription_ToString Device_GetDescription Device_IsAddressable Device_LocalHardwareId
Device_AddressableMemories Device_DefaultMemory Device_MemoryStats Memory_Id Memory_Kind
Memory_DebugString Memory_ToString Memory_AddressableByDevices Executable_Destroy
Executable_Name Executable_NumReplicas Executable_NumPartitions Executable_NumOutputs
Executable_SizeOfGeneratedCodeInBytes Executable_GetCostAnalysis Executable_OutputMemoryKinds
Executable_OptimizedProgram Executable_Serialize LoadedExecutable_Destroy
LoadedExecutable_GetExecutable LoadedExecutable_AddressableDevices LoadedExecutable_Delete
LoadedExecutable_IsDeleted LoadedExecutable_Execute Executable_DeserializeAndLoad
LoadedExecutable_Fingerprint Buffer_Destroy Buffer_ElementType Buffer_Dimensions
Buffer_UnpaddedDimensions Buffer_DynamicDimensionIndices Buffer_GetMemoryLayout
Buffer_OnDeviceSizeInBytes Buffer_Device Buffer_Memory Buffer_Delete Buffer_IsDeleted
Buffer_CopyToDevice Buffer_ToHostBuffer Buffer_IsOnCpu Buffer_ReadyEvent Buffer_UnsafePointer
Buffer_IncreaseExternalReferenceCount Buffer_DecreaseExternalReferenceCount
Buffer_OpaqueDeviceMemoryDataPointer CopyToDeviceStream_Destroy CopyToDeviceStream_AddChunk
CopyToDeviceStream_TotalBytes CopyToDeviceStream_GranuleSize CopyToDeviceStream_CurrentBytes
TopologyDescription_Create TopologyDescription_Destroy TopologyDescription_PlatformName
TopologyDescription_PlatformVersion TopologyDescription_GetDeviceDescriptions
TopologyDescription_Serialize TopologyDescription_Attributes Compile
Executable_OutputElementTypes Executable_OutputDimensions Buffer_CopyToMemory
Client_CreateViewOfDeviceBuffer Executable_Fingerprint Client_TopologyDescription
Executable_GetCompiledMemoryStats Memory_Kind_Id ExecuteContext_Create ExecuteContext_Destroy
Buffer_CopyRawToHost AsyncHostToDeviceTransferManager_Destroy
AsyncHostToDeviceTransferManager_TransferData Client_CreateBuffersForAsyncHostToDevice
AsyncHostToDeviceTransferManager_RetrieveBuffer AsyncHostToDeviceTransferManager_Device
AsyncHostToDeviceTransferManager_BufferCount AsyncHostToDeviceTransferManager_BufferSize
AsyncHostToDeviceTransferManager_SetBufferError AsyncHostToDeviceTransferManager_AddMetadata
Client_DmaMap Client_DmaUnmap Client_CreateUninitializedBuffer Client_UpdateGlobalProcessInfo
TopologyDescription_Deserialize Client_CreateAliasBuffer Client_FulfillAliasBuffer
LoadedExecutable_GetDeviceAssignment Client_CreateErrorBuffer
AsyncHostToDeviceTransferManager_TransferLiteral Buffer_CopyRawToHostFuture
Device_PoisonExecution Device_CreateAsyncTrackingEvent AsyncTrackingEvent_Destroy
Executable_GetCompileOptions Buffer_DonateWithControlDependency Event_Create Event_Set
Device_GetAttributes Client_Load LoadedExecutable_AddressableDeviceLogicalIds Buffer_Bitcast
Error_ForEachPayload TopologyDescription_Fingerprint Executable_ParameterMemoryKinds
Device_ClearMemoryStats TopologyDescription_MakeCanonicalShapeForMemorySpace
TopologyDescription_GetMemorySpaceKindIds
"""

FUNCTIONS: Final = tuple(_NAMES.split())

ABSENT: Final = frozenset(
    {
        "Buffer_Bitcast",
        "Client_Load",
        "Device_ClearMemoryStats",
        "Device_GetAttributes",
        "Event_Create",
        "Event_Set",
        "LoadedExecutable_AddressableDeviceLogicalIds",
        "TopologyDescription_GetMemorySpaceKindIds",
        "TopologyDescription_MakeCanonicalShapeForMemorySpace",
    }
)
"""Functions that C++ asks for before it calls them: an error of them would end the process."""

Serve: TypeAlias = Callable[[Any], None]

_Callback: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)

_served: Final[dict[str, Any]] = immortal({})
"""By name what is called: a callback of ctypes, or an address of machine code."""

_arguments: Final[dict[str, dict[str, Any]]] = {}
"""By name the fields of the arguments, of what Python answers for."""


def serves(*names: str, **fields: Any) -> Callable[[Serve], Serve]:
    """Have a Python function answer for functions of the table whose arguments have these fields.

    It takes the arguments as a structure of ctypes, in which it sets what it returns. What it
    raises becomes the error in C.
    """

    def register(function: Serve) -> Serve:
        header = {"struct_size": ctypes.c_size_t, "extension_start": ctypes.c_void_p}
        structure = type(
            "Arguments", (ctypes.Structure,), {"_fields_": [*{**header, **fields}.items()]}
        )
        may_fail = not _MAY_FAIL.isdisjoint(names)
        callback = _Callback(_guarded(function, structure, may_fail=may_fail))
        _served.update(dict.fromkeys(names, callback))
        _arguments.update(dict.fromkeys(names, fields))
        return function

    return register


Watch: TypeAlias = Callable[[Any, Callable[[], None]], None]

_watches: Final[dict[str, Watch]] = {}


def watches(*names: str) -> Callable[[Watch], Watch]:
    """Have a Python function stand around some of the table that Python answers for.

    It takes the arguments, and what calls the function of the table and raises its error. It is
    called where the table is made for that.
    """

    def register(watch: Watch) -> Watch:
        _watches.update(dict.fromkeys(names, watch))
        return watch

    return register


def _watched(name: str, address: int) -> int:
    """Return the address of a function of the table with what stands around it."""
    watch = _watches[name]
    inner = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(address)

    def around(arguments: Any) -> None:
        def call() -> None:
            error = inner(ctypes.addressof(arguments))
            if error:
                raise error_at(error)

        watch(arguments, call)

    own = f"watched {name}"
    serves(own, **_arguments[name])(around)
    return address_of(own)


def _guarded(function: Serve, structure: Any, *, may_fail: bool) -> Callable[[int, int], None]:
    """What machine code calls until it is whole: no exception may leave it, since none is seen.

    What a handler of a signal raises is not the function's: it is kept, and the function is done
    again. Where such exceptions come without end, the function fails as well.
    """
    read, words_at = structure.from_address, (ctypes.c_int64 * 3).from_address

    def call(address: int, state: int) -> None:
        words = words_at(state)
        if not hasattr(_thread, "is_kept"):
            _keep_thread_state()
        found = 0
        try:
            if words[_TIMES]:
                see_what_left(may_fail=may_fail)
            if _refusals and may_fail:
                raise PluginError(FAILED_PRECONDITION, _refusals[0])
            function(read(address))
        except BaseException as error:
            if is_kept(error) and words[_TIMES] < _MOST_TIMES:
                return
            found = new_error(error)
        words[_ERROR] = found
        words[_IS_WHOLE] = 1

    return call


_thread: Final = threading.local()


def _keep_thread_state() -> None:
    """Have Python's state of this thread last as long as the process.

    For a thread that C++ made ctypes makes a state at each call, and deletes it behind the call.
    Libraries in C++ that are imported meanwhile, such as OR-Tools, keep the state that they met
    first on a thread, and use it in later calls on that thread.
    """
    ctypes.pythonapi.PyGILState_Ensure()
    _thread.is_kept = True


_refusals: Final[list[str]] = []

_MAY_FAIL: Final = frozenset(
    {
        "Buffer_CopyToDevice",
        "Buffer_CopyToMemory",
        "Buffer_ToHostBuffer",
        "Client_BufferFromHostBuffer",
        "Client_Compile",
        "Executable_DeserializeAndLoad",
        "LoadedExecutable_Execute",
    }
)
"""Functions whose errors are exceptions in Python; those of many others would end the process."""


def refuse_calls(reason: str) -> None:
    """Have all functions that may fail refuse from now on."""
    _refusals.append(reason)
    native_code().refuse()


NATIVE: Final = {
    "destroy": "Client_Destroy Executable_Destroy LoadedExecutable_Destroy Buffer_Destroy",
    "nothing": "TopologyDescription_Destroy Plugin_Initialize Error_ForEachPayload",
    "destroy_error": "Error_Destroy",
    "message": "Error_Message",
    "code": "Error_GetCode",
    "destroy_event": "Event_Destroy",
    "is_ready": "Event_IsReady",
    "event_error": "Event_Error",
    "await_event": "Event_Await",
    "on_ready": "Event_OnReady",
    "ready_event": "Buffer_ReadyEvent",
    "dimensions": "Buffer_Dimensions Buffer_UnpaddedDimensions",
    "no_list": "Buffer_DynamicDimensionIndices",
    "device": "Buffer_Device Executable_NumReplicas",
    "memory": "Buffer_Memory Executable_NumPartitions",
    "is_deleted": "Buffer_IsDeleted",
    "yes": "Buffer_IsOnCpu Device_IsAddressable",
    "element_type": "Buffer_ElementType",
    "on_device_size": "Buffer_OnDeviceSizeInBytes",
    "delete": "Buffer_Delete",
    "pointer": "Buffer_UnsafePointer Buffer_OpaqueDeviceMemoryDataPointer",
    "share": "Buffer_IncreaseExternalReferenceCount",
    "give_back": "Buffer_DecreaseExternalReferenceCount",
    "kind": "Memory_Kind",
    "result_count": "Executable_NumOutputs",
    "execute": "LoadedExecutable_Execute",
    "from_host": "Client_BufferFromHostBuffer",
}
"""The functions of the table that are machine code, by the name in `native_code`."""


_IS_WHOLE, _ERROR, _TIMES = range(3)
"""The words of the state that machine code gives."""

_MOST_TIMES: Final = 8


def _missing(name: str) -> Serve:
    def refuse(_: Any) -> None:
        raise PluginError(UNIMPLEMENTED, f"lowtide does not have PJRT_{name}")

    return refuse


Extension: TypeAlias = Callable[[], tuple[int, list[int]]]

_extensions: Final[list[Extension]] = []


def extends(extension: Extension) -> Extension:
    """Have what a function returns, a number and addresses of functions, extend the table."""
    _extensions.append(extension)
    return extension


@cache
def address_of(name: str) -> int:
    """Return the address at which C++ calls a function that Python serves."""
    callback = _served[name]
    pointer = ctypes.cast(callback, ctypes.c_void_p).value or 0
    slot = _slots.setdefault(pointer, len(FRONTS) + len(_slots))
    native_code().fill(slot, pointer)
    address: int = native_code().library[f"python{slot}"]
    return address


_slots: Final[dict[int, int]] = {}
"""By address of a callback the place in which machine code finds it, behind those of fronts."""


def _extensions_at() -> int | None:
    """The address of the first of the extensions, each of which knows the next one."""
    following = None
    for extension in _extensions:
        number, functions = extension()
        size = 8 * (3 + len(functions))
        block = (ctypes.c_void_p * (3 + len(functions)))(size, number, following, *functions)
        following = ctypes.addressof(immortal(block))
    return following


def api_capsule(*, is_watched: bool = False, is_host: bool = True) -> Any:
    """Return the table in a capsule, as JAX takes it.

    Where it is watched, what is registered to stand around its functions does. `is_host` says
    whether arrays lie in memory of the host.
    """
    head = [
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("version_size", ctypes.c_size_t),
        ("version_extension_start", ctypes.c_void_p),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
    ]
    pointers = [(name, ctypes.c_void_p) for name in FUNCTIONS]
    kind = type("Api", (ctypes.Structure,), {"_fields_": [*head, *pointers]})
    api: Any = immortal(kind(ctypes.sizeof(kind), _extensions_at(), 24, None, *VERSION))
    library = native_code().library
    addresses = {
        name: library[native] for native, names in NATIVE.items() for name in names.split()
    }
    if not is_host:
        addresses["Buffer_IsOnCpu"] = library["no"]
    for name in FUNCTIONS:
        if name not in _served and name not in addresses and name not in ABSENT:
            serves(name)(_missing(name))
    for slot, front in enumerate(FRONTS):
        callback = _served[NATIVE[front]]
        native_code().fill(slot, ctypes.cast(callback, ctypes.c_void_p).value)
    for name in FUNCTIONS:
        if name in _served and name not in addresses:
            addresses[name] = address_of(name)
    if is_watched:
        addresses.update({name: _watched(name, addresses[name]) for name in _watches})
    for name in FUNCTIONS:
        setattr(api, name, addresses.get(name))
    keep_what_leaves(_guarded(_missing(""), ctypes.Structure, may_fail=False).__code__)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(api), immortal(b"pjrt_c_api"), None)
