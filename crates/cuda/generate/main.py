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
    arguments.add_argument("--include12", required=True, help="the folder of CUDA 12's cuda_runtime_api.h")
    arguments.add_argument("--out", required=True, type=Path, help="where the Rust files go")
    options = arguments.parse_args()

    tables = rules.Tables(headers.HERE)
    newest = catalogue.Catalogue()
    for unit in ("driver", "runtime"):
        catalogue.Builder(newest, unit, [options.include], tables).build()
    # What CUDA 12's package leaves to the compiler's (crt/) is the same in 13.
    older = catalogue.Catalogue()
    catalogue.Builder(older, "runtime12", [options.include12, options.include], tables).build()
    newest.add_enum_members(older)
    changed = older.changed_since(newest)

    now, before = version("nvidia-cuda-runtime"), version("nvidia-cuda-runtime-cu12")
    emit.write(newest, tables, f"the headers of CUDA {now}", options.out)
    emit.write_older(changed, f"the headers of CUDA {before}", options.out / "runtime12")
    unused = tables.unused()
    if unused:
        raise SystemExit("lines that match nothing in the headers:\n  " + "\n  ".join(unused))


main()
