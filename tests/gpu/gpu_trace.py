"""What the checks of GPU times share: a trace as work and the calls that gave it, what the traced program
printed, and a line for each thing compared."""
import json
import sys

failed = False


def say(ok, text):
    global failed
    failed |= not ok
    print("ok    " if ok else "WRONG ", text)


def finish():
    sys.exit(failed)


class Trace:
    """A trace's work on the GPU, in the order in which it ended, and its calls by their numbers."""

    def __init__(self, path):
        self.meta, self.summary, self.work, self.calls = {}, {}, [], {}
        begun = {}
        for line in open(path):
            record = json.loads(line)
            kind = record.get("type")
            if kind == "meta":
                self.meta = record
            elif kind == "summary":
                self.summary = record
            elif kind == "gpu" and record.get("phase") == "B":
                begun[record["op_id"]] = record.get("details", {})
            elif kind == "gpu" and record.get("phase") == "E":
                # What is known at the beginning is told there.
                record["details"] = begun.pop(record["op_id"], {})
                self.work.append(record)
            elif kind == "userspace" and record.get("phase") == "E" and "correlation" in record:
                self.calls[record["op_id"]] = record

    def end(self, record):
        return self.meta["start_ns"] + round(record["ts"] * 1e6)

    def start(self, record):
        return self.end(record) - round(record["duration_us"] * 1e3)

    def named(self, part):
        """Work with this in its name, by its start."""
        return sorted((w for w in self.work if part in w["name"]), key=self.start)

    def clock_errors(self, source):
        """What the trace says of the errors of a source's clocks, in ns."""
        return [c["error_ns"] for c in self.summary.get("clocks", []) if c["source"] == source]


def numbers_of(path):
    """A function from a word to the numbers of each line of an output that begins with it."""
    lines = [line.split() for line in open(path)]
    return lambda word: [[int(n) for n in line[1:] if n.isdigit()] for line in lines if line and line[0] == word]
