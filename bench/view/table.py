"""A table of what bench/view/run measured, with what was aimed at.

usage: table.py EVENTS=RESULTS...
"""

import json
import sys

# Name, words, unit, at most.
ROWS = [
    ("trace_size", "trace", "MB", None),
    ("index_size", "index, of the trace", "%", 5),
    ("kept_size", "index with the report, of the trace", "%", None),
    ("index", "command to index", "ms", {"1000000": 2000}),
    ("index_cpu", "… processor time", "ms", {"1000000": 2000}),
    ("served", "command to address", "ms", None),
    ("paint", "page to first paint", "ms", 1000),
    ("timeline", "command to timeline", "ms", None),
    ("report", "command to findings and tables", "ms", None),
    ("report_cpu", "… processor time", "ms", None),
    ("again", "the next time: command to everything", "ms", None),
    ("step", "zoom step, median", "ms", 100),
    ("longest_step", "zoom step, longest", "ms", 100),
    ("step_work", "… processor time of server and tab, largest", "ms", None),
    ("step_cpu", "… processor time of the server, mean", "ms", None),
    ("arguments", "one call's arguments in the page", "ms", 100),
    ("search", "search: first answer in the page", "ms", None),
    ("spans_0.1", "answer: 1/10 of the run, median", "ms", 100),
    ("spans_0.01", "answer: 1/100", "ms", 100),
    ("spans_0.001", "answer: 1/1,000", "ms", 100),
    ("event_answer", "answer: one event, median", "ms", 100),
    ("tab", "memory of the tab", "MB", 500),
    ("server", "memory of the server, peak", "MB", 300),
]


def main(arguments):
    columns = []
    for argument in arguments:
        events, path = argument.split("=", 1)
        with open(path) as file:
            found = {}
            for line in file:
                entry = json.loads(line)
                found[entry["name"]] = entry["value"]
        columns.append((events, found))
    print("| | goal | " + " | ".join(f"{int(events):,} events" for events, _ in columns) + " |")
    print("|---|---|" + "---|" * len(columns))
    for name, words, unit, most in ROWS:
        goals = set(most.values()) if isinstance(most, dict) else {most} - {None}
        cells = [f"≤ {goal:,} {unit}" for goal in goals] or [""]
        for events, found in columns:
            value = found.get(name)
            goal = most.get(events) if isinstance(most, dict) else most
            digits = 1 if unit == "%" or value is not None and value < 10 else 0
            text = "–" if value is None else f"{value:,.{digits}f} {unit}"
            cells.append(f"**{text}**" if value is not None and goal is not None and value > goal else text)
        print(f"| {words} | " + " | ".join(cells) + " |")


main(sys.argv[1:])
