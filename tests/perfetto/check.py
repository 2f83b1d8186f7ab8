#!/usr/bin/env python3
"""Reads a .pftrace with Perfetto's published schema and prints what a viewer would draw.

    tests/perfetto/check.py FILE.pftrace

Interned strings, tracks and nesting follow the rules of Perfetto's trace processor; anything it
would drop or count as an error (unknown ids, an end without a beginning, slices that overlap on
one track) ends this with status 1. Needs the PyPI package perfetto (scripts/setup-perfetto).
"""

import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
MONOTONIC = 3

trace = schema.Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())

names, categories, annotations = {}, {}, {}
contexts, specifications, tracks = {}, {}, {}
stacks, rows, gpu_rows, errors = {}, [], [], []
submissions, start, clock = {}, None, None


def unknown(message, path):
    """Fields that the schema does not have."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    for field in UnknownFieldSet(message):
        # Extensions of TrackEvent for GPUs: newer than some published schemas.
        if not (path.endswith("track_event") and field.field_number in (3000, 3001)):
            errors.append(f"field {field.field_number} of {path} is not in the schema")
    for descriptor, value in message.ListFields():
        if descriptor.type == descriptor.TYPE_MESSAGE:
            repeated = not hasattr(value, "ListFields")
            for item in value if repeated else [value]:
                unknown(item, f"{path}.{descriptor.name}")


def value_of(annotation):
    kind = annotation.WhichOneof("value")
    if kind is None:
        if annotation.dict_entries:
            return {entry.name: value_of(entry) for entry in annotation.dict_entries}
        return [value_of(item) for item in annotation.array_values]
    value = getattr(annotation, kind)
    return hex(value) if kind == "pointer_value" else value


def correlation(event):
    """gpu_correlation's submission ids, from the extension or from the raw field."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    for field in UnknownFieldSet(event):
        if field.field_number == 3000:
            return list(raw_varints(field.data))
    for descriptor, value in event.ListFields():
        if descriptor.is_extension and descriptor.number == 3000:
            return list(value.render_stage_submission_event_ids)
    return []


def raw_varints(data):
    """The values of field 1 of a message of varints."""
    position = 0
    while position < len(data):
        position += 1  # the tag, 0x08
        number = shift = 0
        while True:
            byte = data[position]
            position += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
        yield number


def microseconds(ns):
    return f"{(ns - start) / 1000:.3f}"


unknown(trace, "trace")
# A viewer sorts by time; packets of the same time keep their order.
timed = []
for packet in trace.packet:
    data = packet.interned_data
    for table, entries in ((names, data.event_names), (categories, data.event_categories), (annotations, data.debug_annotation_names)):
        table.update((entry.iid, entry.name) for entry in entries)
    contexts.update((entry.iid, entry) for entry in data.graphics_contexts)
    specifications.update((entry.iid, entry) for entry in data.gpu_specifications)
    if packet.HasField("clock_snapshot"):
        for entry in packet.clock_snapshot.clocks:
            if entry.clock_id == MONOTONIC:
                start = entry.timestamp
    if packet.HasField("trace_packet_defaults"):
        clock = packet.trace_packet_defaults.timestamp_clock_id
    if packet.HasField("track_descriptor"):
        descriptor = packet.track_descriptor
        tracks[descriptor.uuid] = descriptor
        if descriptor.parent_uuid and descriptor.parent_uuid not in tracks:
            errors.append(f"track {descriptor.uuid:#x} comes before its parent")
    if packet.HasField("gpu_info"):
        for index, gpu in enumerate(packet.gpu_info.gpus):
            print(f"gpu {index}: {gpu.name} ({gpu.vendor or 'no vendor'})")
    if packet.HasField("track_event") or packet.HasField("gpu_render_stage_event"):
        timed.append(packet)

if clock != MONOTONIC:
    errors.append(f"the default clock is {clock}")


def track_name(uuid):
    track = tracks.get(uuid)
    if track is None:
        errors.append(f"no track {uuid:#x}")
        return "?"
    if track.HasField("thread"):
        return f"thread {track.thread.tid} of {track.thread.pid}"
    if track.HasField("process"):
        return f"process {track.process.pid} ({track.process.process_name})"
    unit = track.counter.unit_name or {3: "bytes"}.get(track.counter.unit, "?")
    return f"counter {track.name!r} [{unit}] of process {tracks[track.parent_uuid].process.pid}"


for packet in sorted(timed, key=lambda packet: packet.timestamp):
    when = packet.timestamp
    if packet.HasField("gpu_render_stage_event"):
        work = packet.gpu_render_stage_event
        queue, stage = (specifications.get(iid) for iid in (work.hw_queue_iid, work.stage_iid))
        context = contexts.get(work.context)
        if queue is None or stage is None or context is None:
            errors.append(f"GPU work {work.name!r} refers to what was not described")
            continue
        gpu_rows.append((work.gpu_id, queue.name, when, work.duration))
        if stage.name != work.name:
            # Viewers up to v52 show the stage's name.
            errors.append(f"{work.name}: its stage is called {stage.name}")
        extra = {item.name: item.value for item in work.extra_data}
        rows.append((when, f"GPU {work.gpu_id} {queue.name}", f"{work.name} [{stage.description}] +{work.duration / 1000:.3f} of process {context.pid} submitted by {submissions.get(work.event_id, 'nobody')} {extra or ''}".rstrip()))
        continue
    event = packet.track_event
    track = track_name(event.track_uuid)
    if event.type == COUNTER:
        rows.append((when, track, str(event.counter_value)))
        continue
    stack = stacks.setdefault(event.track_uuid, [])
    arguments = {annotations.get(item.name_iid, "?" + str(item.name_iid)): value_of(item) for item in event.debug_annotations}
    if event.type == END:
        if not stack:
            errors.append(f"an end without a beginning on {track}")
            continue
        name, begin = stack.pop()
        rows.append((when, track, f"{'  ' * len(stack)}end of {name} +{(when - begin) / 1000:.3f} {arguments or ''}".rstrip()))
        continue
    name = names.get(event.name_iid)
    if name is None:
        errors.append(f"no name {event.name_iid}")
    labels = ",".join(categories.get(iid, "?") for iid in event.category_iids)
    for identifier in correlation(event):
        submissions[identifier] = f"{name} at {microseconds(when)}"
    rows.append((when, track, f"{'  ' * len(stack)}{name} [{labels}] {arguments}"))
    if event.type == BEGIN:
        stack.append((name, when))

for when, track, text in rows:
    print(f"{microseconds(when)} {track}: {text}")
for uuid, stack in stacks.items():
    for name, begin in stack:
        print(f"never ended on {track_name(uuid)}: {name} from {microseconds(begin)}")

ends = {}
for gpu, queue, begin, duration in sorted(gpu_rows, key=lambda row: row[2]):
    if begin < ends.get((gpu, queue), 0):
        errors.append(f"work overlaps on GPU {gpu} {queue}")
    ends[gpu, queue] = begin + duration
for error in errors:
    print(f"error: {error}", file=sys.stderr)
sys.exit(bool(errors))
