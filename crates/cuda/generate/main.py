"""Reads CUDA's headers and writes the Rust tables. Called by `run`."""

import argparse
from importlib.metadata import version
from pathlib import Path

import catalogue
import emit
import headers
import rules


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--include", required=True, help="the folder of cuda.h")
    arguments.add_argument("--out", required=True, type=Path, help="where the Rust files go")
    options = arguments.parse_args()

    tables = rules.Tables(headers.HERE)
    everything = catalogue.Catalogue()
    for unit in headers.UNITS:
        catalogue.Builder(everything, unit, options.include, tables).build()
    source = f"the headers of nvidia-cuda-runtime {version('nvidia-cuda-runtime')}"
    emit.write(everything, tables, source, options.out)
    unused = tables.unused()
    if unused:
        raise SystemExit("lines that match nothing in the headers:\n  " + "\n  ".join(unused))


main()
