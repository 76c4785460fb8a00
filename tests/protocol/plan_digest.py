"""The digests of a plan and of an epoch's members, as plan.proto and session.proto define
them."""

import math
import struct

import xxhash


class Walk:
    """Collects the bytes that are hashed."""

    def __init__(self):
        self.bytes = bytearray()

    def number(self, value):
        self.bytes += struct.pack("<Q", value % 2**64)

    def each_number(self, values):
        self.each(values, self.number)

    def text(self, text):
        encoded = text.encode()
        self.number(len(encoded))
        self.bytes += encoded

    def each(self, entries, add):
        self.number(len(entries))
        for entry in entries:
            add(entry)

    def axis(self, axis):
        self.text(axis.name)
        self.number(axis.size)

    def communicator(self, communicator):
        self.text(communicator.name)
        self.each_number(communicator.ranks)

    def parameter(self, parameter):
        self.text(parameter.name)
        self.each_number(parameter.shape)
        self.number(parameter.dtype)
        self.number(parameter.op)
        self.each(parameter.axes, self.text)
        self.each(parameter.replicated_over, self.text)
        self.number(parameter.stage - 1)

    def slot(self, slot):
        self.number(slot.parameter)
        self.number(slot.offset)
        self.number(slot.count)

    def bucket(self, bucket):
        self.number(bucket.communicator)
        self.number(bucket.dtype)
        self.number(bucket.op)
        self.each(bucket.slots, self.slot)
        self.number(bucket.flags_offset)
        for value in (bucket.total, bucket.wire, bucket.error_feedback, bucket.sharded,
                      bucket.leaves, bucket.announced):
            self.number(value)

    def reference(self, reference):
        self.number(reference.lane)
        self.number(reference.index)

    def transfer(self, transfer):
        for value in (transfer.kind, transfer.communicator, transfer.dtype):
            self.number(value)
        self.each_number(transfer.shape)
        for value in (transfer.op, transfer.root, transfer.peer, transfer.tag, transfer.bucket,
                      transfer.halo - 1, transfer.group):
            self.number(value)
        self.each(transfer.after, self.reference)
        self.number(transfer.after_task - 1)
        self.number(transfer.buffer - 1)
        self.number(transfer.divisor or 1)
        self.each(transfer.before, self.operation)
        self.each(transfer.then, self.operation)

    def operation(self, operation):
        for value in (operation.kind, getattr(operation, "from"), operation.to, operation.offset,
                      operation.count, operation.leaf - 1, operation.divisor or 1):
            self.number(value)

    def lane(self, lane):
        self.number(lane.kind)
        self.text(lane.name)
        self.each(lane.transfers, self.transfer)

    def rank(self, rank):
        self.each(rank.lanes, self.lane)
        self.each(rank.launch_order, self.reference)
        self.each(rank.tasks, self.task)
        self.each(rank.halos, self.routes)

    def double(self, value):
        self.bytes += struct.pack("<d", value)

    def extent(self, extent):
        self.number(extent.axis - 1)
        self.each_number(extent.bounds)
        for value in (extent.low, extent.high, extent.edge):
            self.number(value)
        self.double(extent.constant)

    def field(self, field):
        self.number(field.dtype)
        self.each(field.dims, self.extent)

    def halo(self, halo):
        self.text(halo.name)
        self.each(halo.mesh.axes, self.axis)
        self.each_number(halo.ranks)
        self.number(halo.communicator - 1)
        self.each(halo.fields, self.field)

    def segment(self, segment):
        for value in (getattr(segment, "in"), segment.out, segment.count, segment.step):
            self.number(value)

    def box(self, box):
        self.number(box.field)
        self.each(box.dims, self.segment)

    def fill(self, fill):
        self.box(fill.box)
        self.double(fill.value)

    def message(self, message):
        self.number(message.peer)
        self.number(message.bytes)
        self.each(message.boxes, self.box)

    def routes(self, routes):
        self.number(routes.halo)
        self.each(routes.own, self.box)
        self.each(routes.fills, self.fill)
        self.each(routes.sends, self.message)
        self.each(routes.receives, self.message)

    def state(self, tensor, plan):
        self.text(tensor.name)
        self.number(tensor.dtype)
        self.each(tensor.dims, lambda dim: self.state_dim(dim, plan))
        self.each_number(tensor.ranks or range(len(plan.ranks)))
        slices = list(zip(tensor.slice_offsets, tensor.slice_counts, strict=True))
        self.each(slices, lambda of: (self.number(of[0]), self.number(of[1])))

    def state_dim(self, dim, plan):
        self.each(dim.axes, self.text)
        bounds = list(dim.bounds)
        if len(bounds) == 1:
            size = {axis.name: axis.size for axis in plan.mesh.axes}
            blocks = math.prod(size[axis] for axis in dim.axes)
            larger = bounds[0] % blocks
            bounds = [i * (bounds[0] // blocks) + min(i, larger) for i in range(blocks + 1)]
        self.each_number(bounds)

    def tensor(self, tensor):
        self.number(tensor.dtype)
        self.each_number(tensor.shape)

    def activation(self, activation):
        self.each(activation.parts, self.tensor)

    def task(self, task):
        for value in (task.work, task.stage, task.micro_batch):
            self.number(value)
        self.each(task.after, self.reference)

    def pipeline(self, plan):
        spec = plan.pipeline
        absent = not plan.HasField("pipeline")
        self.number(1 if absent else spec.schedule)
        self.text("pipe" if absent else spec.axis)
        self.number(1 if absent else spec.micro_batches)
        self.number(1 if absent else spec.virtual_stages)
        self.each(spec.activations, self.activation)
        self.number(1 if absent else spec.tags)
        self.number(spec.tag_base)
        self.each(spec.shared, self.text)


def members_digest_of(members):
    walk = Walk()
    walk.text("lockstep members 1")
    walk.number(len(members))
    for member in members:
        walk.text(member.worker)
        walk.number(member.generation)
        walk.text(member.process.host)
        walk.number(member.process.pid)
        walk.text(member.process.boot_id)
        walk.number(member.process.start_time)
    return xxhash.xxh3_128(bytes(walk.bytes)).hexdigest()


def digest_of(plan):
    walk = Walk()
    walk.text("lockstep plan 4")
    walk.number(plan.revision)
    walk.each(plan.mesh.axes, walk.axis)
    walk.each(plan.communicators, walk.communicator)
    walk.each(plan.parameters, walk.parameter)
    walk.each(plan.buckets, walk.bucket)
    walk.pipeline(plan)
    walk.each(plan.halos, walk.halo)
    walk.each(plan.ranks, walk.rank)
    walk.each(plan.state, lambda tensor: walk.state(tensor, plan))
    return xxhash.xxh3_128(bytes(walk.bytes)).hexdigest()
