"""Makes fixtures of recorded traces: trim.py TRACE.jsonl FIXTURE.jsonl

Leaves out what no finding looks at: calls that only ask and succeed, and the registration of kernels. Those calls
are some nine tenths of a PyTorch trace. The last line says how many were left out.
"""
import json
import re
import sys

KEEP = re.compile(r'"phase":"E".*"status":(?!0[,}])')
dull = re.compile(r'"category":"query"|"name":"__cuda(Register|Unregister|PushCall|PopCall)|"name":"cuFuncGet|"name":"cuKernelGet|'
                  r'"name":"cuLibraryGet|"name":"cuModuleGet|"name":"cuGetProcAddress|"name":"cuGetExportTable|'
                  r'"name":"cuTensorMapEncode|"name":"cuOccupancy|"name":"cudaOccupancy|"name":"cudaFuncGet')
op = re.compile(r'"op_id":(\d+)')


def anonymous(record):
    """Without the machine's name and folders."""
    if "host" in record:
        record["host"].update(name="gpu", kernel="6.18", boot_id=None)
    for words in [record.get("command", [])] + [process["command"] for process in record.get("processes", []) if "command" in process]:
        words[:] = [word.rsplit("/", 1)[-1] for word in words]
    return record


failed = set()
for line in open(sys.argv[1]):
    if dull.search(line) and KEEP.search(line):
        failed.add(op.search(line).group(1))
left_out = 0
with open(sys.argv[2], "w") as out:
    for line in open(sys.argv[1]):
        if dull.search(line) and not line.startswith('{"type":"meta"') and op.search(line).group(1) not in failed:
            left_out += 1
            continue
        if line.startswith(('{"type":"meta"', '{"type":"summary"')):
            line = json.dumps(anonymous(json.loads(line)), separators=(",", ":")) + "\n"
        out.write(line)
print(f"{sys.argv[2]}: {left_out} lines left out")
