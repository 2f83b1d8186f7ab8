"""How long the server of `cutrace view` takes for its answers, without a browser.

usage: answers.py CUTRACE TRACE [RESULTS]      RESULTS: a file that gets a line of JSON for each figure

Removes the trace's index first. Prints the time until it serves, until the index and the report are made (with the
seconds of processor that they took), the index's size, the slowest of the answers of each kind, and the server's
peak memory.
"""

import json
import os
import random
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request


def serve(cutrace, trace):
    began = time.monotonic()
    server = subprocess.Popen([cutrace, "view", "--no-open", trace], stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        if found := re.search(r"http://\S+", line):
            return server, found[0], time.monotonic() - began
    sys.exit("it does not serve")


def ask(address, kind, **parameters):
    url = f"{address}api/{kind}?{urllib.parse.urlencode(parameters)}"
    began = time.monotonic()
    with urllib.request.urlopen(url) as answer:
        text = answer.read()
    return json.loads(text), (time.monotonic() - began) * 1e3, len(text)


def peak(pid):
    status = open(f"/proc/{pid}/status").read()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024


def used(pid):
    """Seconds of processor."""
    fields = open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def until(server, address, began, done):
    """Waits for a stage; its time and the processor's so far."""
    while True:
        with urllib.request.urlopen(f"{address}api/status") as answer:
            stage = json.loads(answer.read())["stage"]
        if stage == "failed":
            sys.exit("it could not be read")
        if stage in done:
            return f"{time.monotonic() - began:.2f} s, {used(server.pid):.2f} s of processor"
        time.sleep(0.01)


def figure(results, name, value):
    """A figure for the table at the end (table.py)."""
    if results:
        with open(results, "a") as file:
            print(json.dumps({"name": name, "value": value}), file=file)


def line(name, times, sizes):
    times.sort()
    middle, last = times[len(times) // 2], times[-1]
    print(f"{name:34} median {middle:6.1f} ms  slowest {last:6.1f} ms  largest {max(sizes) / 1e3:7.0f} kB")


def main(cutrace, trace, results=None):
    index = trace + ".index"
    if os.path.exists(index):
        os.remove(index)
    began = time.monotonic()
    server, address, first = serve(cutrace, trace)
    try:
        print(f"until it serves: {first:.2f} s")
        print(f"until the index is made: {until(server, address, began, ('report', 'ready'))}")
        figure(results, "index", (time.monotonic() - began) * 1e3)
        figure(results, "index_cpu", used(server.pid) * 1e3)
        size, whole = os.path.getsize(index), os.path.getsize(trace)
        figure(results, "trace_size", whole / 1e6)
        figure(results, "index_size", 100 * size / whole)
        print(f"trace {whole / 1e6:.1f} MB, index {size / 1e6:.2f} MB ({100 * size / whole:.1f} %)")
        print(f"until the report is made: {until(server, address, began, ('ready',))}")
        built = peak(server.pid)
        size = os.path.getsize(index)
        print(f"index with report {size / 1e6:.2f} MB ({100 * size / whole:.1f} %)")
        figure(results, "kept_size", 100 * size / whole)
        everything, took, length = ask(address, "spans", **{"from": 0, "to": 1 << 62})
        line("the whole run", [took], [length])
        ends = [s + d for row in everything["rows"] for s, d in zip(row["start"], row["duration"])]
        end = max(ends)
        draw = random.Random(1)
        ids = []
        for share in (0.1, 0.01, 1e-3, 1e-4, 1e-5):
            times, sizes, complete = [], [], 0
            width = max(1, int(end * share))
            for _ in range(20):
                start = draw.randrange(max(1, end - width))
                answer, took, length = ask(address, "spans", **{"from": start, "to": start + width})
                times.append(took)
                sizes.append(length)
                complete += answer["complete"]
                ids += [id for row in answer["rows"] for id in row["id"][:3]]
            line(f"{share:g} of it, {complete} of 20 complete", times, sizes)
            figure(results, f"spans_{share:g}", times[len(times) // 2])
        for kind, questions in {
            "event": [{"id": id} for id in draw.sample(ids, min(50, len(ids)))],
            "search": [{"q": text} for text in ("softmax", "RM_ALLOC", "0x7f32", "no such text")],
            "instances": [{"name": "cuMemAlloc_v2", "by": by} for by in ("time", "duration")],
        }.items():
            answers = [ask(address, kind, **question) for question in questions]
            times = [a[1] for a in answers]
            line(f"{kind}, {len(answers)} times", times, [a[2] for a in answers])
            figure(results, f"{kind}_answer", times[len(times) // 2])
        began, answers, cursor = time.monotonic(), 0, 0
        while cursor is not None:
            answer, _, _ = ask(address, "search", q="no such text", **{"from": cursor})
            cursor, answers = answer["next"], answers + 1
        print(f"a search through everything: {time.monotonic() - began:.1f} s in {answers} answers")
        print(f"peak memory: {built:.0f} MB for index and report, {peak(server.pid):.0f} MB at the end")
    finally:
        server.kill()
        server.wait()
    began = time.monotonic()
    server, address, again = serve(cutrace, trace)
    print(f"until it serves the next time: {again:.2f} s, everything after {until(server, address, began, ('ready',))}")
    server.kill()
    server.wait()


main(*sys.argv[1:])
