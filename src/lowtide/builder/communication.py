"""Operations between devices, and with the host."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.builder.calls import CallOps
from lowtide.builder.data_movement import one_or_more
from lowtide.builder.values import BuildError, Op, SubComputation, Value
from lowtide.ir.attributes import Channel, Collective, CollectivePermute, Domain, Infeed, Outfeed
from lowtide.ir.element_type import ElementType
from lowtide.ir.opcode import Opcode
from lowtide.ir.replica_groups import ListReplicaGroups, ReplicaGroups
from lowtide.ir.shape import TOKEN, Shape, array_shape, tuple_shape
from lowtide.ir.sharding import Sharding
from lowtide.ops.checks import one_or_tuple

Groups = ReplicaGroups | Sequence[Sequence[int]]
_CONTEXT = array_shape(ElementType.U32)


def _collective(
    groups: Groups, channel_id: int | None, dimension: int | None = None, is_global: bool = False
) -> Collective:
    if isinstance(groups, Sequence):
        groups = ListReplicaGroups(tuple([tuple(group) for group in groups]))
    return Collective(groups, channel_id, dimension, use_global_device_ids=is_global)


class CommunicationOps(CallOps):
    """Collectives, channels, feeds, domains and the identity of the device.

    `groups` are replica groups, or lists of device numbers; none means one group of all devices.
    """

    # -- collectives ---------------------------------------------------------------------------

    def all_reduce(
        self,
        operands: Op | Sequence[Value],
        to_apply: SubComputation,
        groups: Groups = (),
        channel_id: int | None = None,
        *,
        use_global_device_ids: bool = False,
    ) -> Op:
        """Return the operands combined over all devices of the group."""
        attributes = _collective(groups, channel_id, None, use_global_device_ids)
        return self.emit(Opcode.ALL_REDUCE, one_or_more(operands), attributes, [to_apply])

    def all_reduce_start(
        self,
        operands: Op | Sequence[Value],
        to_apply: SubComputation,
        groups: Groups = (),
        channel_id: int | None = None,
        *,
        use_global_device_ids: bool = False,
    ) -> Op:
        """Start an all-reduce."""
        attributes = _collective(groups, channel_id, None, use_global_device_ids)
        return self.emit(Opcode.ALL_REDUCE_START, one_or_more(operands), attributes, [to_apply])

    def all_reduce_done(self, start: Op) -> Op:
        """Return the result of an asynchronous all-reduce."""
        return self.emit(Opcode.ALL_REDUCE_DONE, [start])

    def cross_replica_sum(self, operand: Value, groups: Groups = ()) -> Op:
        """Return the sum of the operand over all replicas of the group; of pred, whether any is."""
        op = self.op(operand)
        opcode = Opcode.OR if op.element_type is ElementType.PRED else Opcode.ADD
        return self.all_reduce(op, self.scalar_computation(opcode, op.element_type), groups)

    def all_gather(
        self,
        operands: Op | Sequence[Value],
        dimension: int,
        group_size: int,
        groups: Groups = (),
        channel_id: int | None = None,
        *,
        use_global_device_ids: bool = False,
    ) -> Op:
        """Return the operands of all `group_size` devices, one after another along a dimension."""
        ops = [self.op(value) for value in one_or_more(operands)]
        attributes = _collective(groups, channel_id, dimension, use_global_device_ids)
        gathered = [self._grown(op, dimension, group_size) for op in ops]
        return self.emit(Opcode.ALL_GATHER, ops, attributes, shape=one_or_tuple(gathered))

    def all_gather_start(
        self,
        operands: Op | Sequence[Value],
        dimension: int,
        group_size: int,
        groups: Groups = (),
        channel_id: int | None = None,
        *,
        use_global_device_ids: bool = False,
    ) -> Op:
        """Start an all-gather: (operands, results)."""
        ops = [self.op(value) for value in one_or_more(operands)]
        attributes = _collective(groups, channel_id, dimension, use_global_device_ids)
        gathered = one_or_tuple([self._grown(op, dimension, group_size) for op in ops])
        shape = tuple_shape([one_or_tuple([op.shape for op in ops]), gathered])
        return self.emit(Opcode.ALL_GATHER_START, ops, attributes, shape=shape)

    def all_gather_done(self, start: Op) -> Op:
        """Return the result of an asynchronous all-gather."""
        return self.emit(Opcode.ALL_GATHER_DONE, [start])

    def reduce_scatter(
        self,
        operands: Op | Sequence[Value],
        to_apply: SubComputation,
        dimension: int,
        group_size: int,
        groups: Groups = (),
        channel_id: int | None = None,
        *,
        use_global_device_ids: bool = False,
    ) -> Op:
        """Return this device's part, along a dimension, of the combined operands of the group."""
        ops = [self.op(value) for value in one_or_more(operands)]
        attributes = _collective(groups, channel_id, dimension, use_global_device_ids)
        shape = one_or_tuple([self._shrunk(op, dimension, group_size) for op in ops])
        return self.emit(Opcode.REDUCE_SCATTER, ops, attributes, [to_apply], shape)

    def _grown(self, op: Op, dimension: int, by: int) -> Shape:
        if not op.shape.is_array or not 0 <= dimension < op.rank or by < 1:
            message = f"{op.shape} cannot grow {by} times along dimension {dimension}"
            raise BuildError(message, operation="all-gather")
        sizes = [n * by if i == dimension else n for i, n in enumerate(op.dimensions)]
        return array_shape(op.element_type, tuple(sizes), dynamic=op.shape.dynamic)

    def _shrunk(self, op: Op, dimension: int, by: int) -> Shape:
        fits = op.shape.is_array and 0 <= dimension < op.rank and by >= 1
        if not fits or op.dimensions[dimension] % by:
            message = f"{op.shape} cannot be split in {by} along dimension {dimension}"
            raise BuildError(message, operation="reduce-scatter")
        sizes = [n // by if i == dimension else n for i, n in enumerate(op.dimensions)]
        return array_shape(op.element_type, tuple(sizes), dynamic=op.shape.dynamic)

    def all_to_all(
        self,
        operands: Op | Sequence[Value],
        dimension: int | None = None,
        groups: Groups = (),
        channel_id: int | None = None,
    ) -> Op:
        """Return part i of each device's operand sent to device i of the group.

        The parts are along a dimension; without one the operands are the parts, and the result is
        a tuple.
        """
        attributes = _collective(groups, channel_id, dimension)
        return self.emit(Opcode.ALL_TO_ALL, one_or_more(operands), attributes)

    def ragged_all_to_all(
        self, operands: Sequence[Value], groups: Groups = (), channel_id: int | None = None
    ) -> Op:
        """Return operand 1 with parts of operand 0 of all devices written into it.

        The operands 2 to 5 are input offsets, send sizes, output offsets and receive sizes.
        """
        attributes = _collective(groups, channel_id)
        return self.emit(Opcode.RAGGED_ALL_TO_ALL, operands, attributes)

    def collective_broadcast(
        self, operands: Op | Sequence[Value], groups: Groups = (), channel_id: int | None = None
    ) -> Op:
        """Return the operand of the first device of the group, on all of them."""
        attributes = _collective(groups, channel_id)
        return self.emit(Opcode.COLLECTIVE_BROADCAST, one_or_more(operands), attributes)

    def collective_permute(
        self,
        operands: Op | Sequence[Value],
        source_target_pairs: Sequence[tuple[int, int]],
        channel_id: int | None = None,
        slice_sizes: Sequence[Sequence[int]] = (),
    ) -> Op:
        """Return the operand of the source device, zero where there is none."""
        attributes = _permutation(source_target_pairs, channel_id, slice_sizes)
        return self.emit(Opcode.COLLECTIVE_PERMUTE, one_or_more(operands), attributes)

    def collective_permute_start(
        self,
        operands: Op | Sequence[Value],
        source_target_pairs: Sequence[tuple[int, int]],
        channel_id: int | None = None,
    ) -> Op:
        """Start a collective-permute: (operands, results)."""
        ops = [self.op(value) for value in one_or_more(operands)]
        moved = one_or_tuple([op.shape for op in ops])
        attributes = _permutation(source_target_pairs, channel_id, ())
        shape = tuple_shape([moved, moved])
        return self.emit(Opcode.COLLECTIVE_PERMUTE_START, ops, attributes, shape=shape)

    def collective_permute_done(self, start: Op) -> Op:
        """Return the result of an asynchronous collective-permute."""
        return self.emit(Opcode.COLLECTIVE_PERMUTE_DONE, [start])

    # -- channels and feeds --------------------------------------------------------------------

    def send(
        self,
        operand: Value,
        token: Op,
        channel_id: int | None = None,
        *,
        is_host_transfer: bool = False,
    ) -> Op:
        """Start sending the operand over a channel: (operand, context, token)."""
        op = self.op(operand)
        shape = tuple_shape([op.shape, _CONTEXT, TOKEN])
        attributes = Channel(channel_id, is_host_transfer)
        return self.emit(Opcode.SEND, [op, token], attributes, shape=shape)

    def send_done(self, send: Op) -> Op:
        """Return the token of a finished send."""
        return self.emit(Opcode.SEND_DONE, [send], self._channel(send))

    def recv(
        self,
        token: Op,
        shape: Shape,
        channel_id: int | None = None,
        *,
        is_host_transfer: bool = False,
    ) -> Op:
        """Start receiving from a channel: (data, context, token)."""
        result = tuple_shape([shape, _CONTEXT, TOKEN])
        attributes = Channel(channel_id, is_host_transfer)
        return self.emit(Opcode.RECV, [token], attributes, shape=result)

    def recv_done(self, recv: Op) -> Op:
        """Return (what was received, token)."""
        return self.emit(Opcode.RECV_DONE, [recv], self._channel(recv))

    def _channel(self, start: Op) -> Channel:
        attributes = start.instruction.attributes
        if not isinstance(attributes, Channel):
            raise BuildError(f"{start} was not started by send or recv")
        return attributes

    def infeed(self, token: Op, shape: Shape, config: bytes = b"") -> Op:
        """Return (data from the host's queue, token)."""
        result = tuple_shape([shape, TOKEN])
        return self.emit(Opcode.INFEED, [token], Infeed(config), shape=result)

    def outfeed(self, operand: Value, token: Op, config: bytes = b"") -> Op:
        """Send the operand to the host's queue and return a token."""
        op = self.op(operand)
        return self.emit(Opcode.OUTFEED, [op, token], Outfeed(op.shape, config))

    # -- devices -------------------------------------------------------------------------------

    def partition_id(self) -> Op:
        """Return the number of the partition that runs the program."""
        return self.emit(Opcode.PARTITION_ID)

    def replica_id(self) -> Op:
        """Return the number of the replica that runs the program."""
        return self.emit(Opcode.REPLICA_ID)

    def domain(
        self, operand: Value, entry: Sharding | None = None, exit: Sharding | None = None
    ) -> Op:
        """Return the operand, at a border between regions of different sharding."""
        return self.emit(Opcode.DOMAIN, [operand], Domain("sharding", entry, exit))


def _permutation(
    pairs: Sequence[tuple[int, int]], channel_id: int | None, slice_sizes: Sequence[Sequence[int]]
) -> CollectivePermute:
    sizes = tuple([tuple(x) for x in slice_sizes])
    return CollectivePermute(tuple([(a, b) for a, b in pairs]), channel_id, sizes)
