#!/usr/bin/env python3
"""Runs a program of Python's, and writes down the names of its threads when it ends.
usage: thread_names.py FILE PROGRAM [ARGUMENT ...]"""
import atexit
import os
import runpy
import sys

out, program = sys.argv[1], sys.argv[2]


def write():
    with open(out, "w") as file:
        for tid in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{tid}/comm") as name:
                file.write(f"{tid} {name.read().strip()}\n")


atexit.register(write)
sys.argv = sys.argv[2:]
runpy.run_path(program, run_name="__main__")
