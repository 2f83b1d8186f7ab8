"""Reads the open driver's headers and writes the tables. Called by `run`."""

import argparse
import tempfile
from pathlib import Path

import sources
import table


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--headers", required=True, type=Path, help="a folder with one folder a version")
    arguments.add_argument("--git", help="a clone of the open driver's repository, for versions not in the folder")
    arguments.add_argument("--out", required=True, type=Path, help="where the tables go")
    arguments.add_argument("--check", action="store_true", help="compare the versions that are there with the tables in OUT")
    options = arguments.parse_args()

    versions = table.read_versions()
    columns = [column for column, _ in versions]
    by_column = {}
    with tempfile.TemporaryDirectory() as folder:
        for column, version in versions:
            tree = sources.find(options.headers, version, options.git, Path(folder))
            if tree:
                by_column[column] = table.rows(tree)
    missing = [version for column, version in versions if column not in by_column]
    if options.check:
        if not by_column:
            raise SystemExit(nothing_to_compare(options.headers))
        raise SystemExit(check(by_column, options.out))
    if missing:
        raise SystemExit(f"no headers of {', '.join(missing)}: give --git REPOSITORY")
    table.write(by_column, columns, options.out)


def nothing_to_compare(headers):
    """Debian moves on in time: then the version it has now belongs into versions.txt."""
    here = sorted(path.name for path in headers.glob("[0-9]*"))
    if not here:
        print("no headers of the driver are here: type scripts/fetch-driver-headers")
    else:
        print(f"the headers here are of {', '.join(here)}; versions.txt names none of these")
    return 3


def check(by_column, out):
    """What the tables say of each version at hand must be what its headers say."""
    differences = []
    for name in table.TABLES:
        committed = table.read(out / f"{name}.tsv")
        for column, tables in by_column.items():
            for row in sorted(tables[name] ^ committed.get(column, set())):
                side = "headers" if row in tables[name] else "table"
                differences.append(f"{name} {column}: only in the {side}: {' '.join(row)[:200]}")
    print("\n".join(differences[:20]))
    print(f"compared {', '.join(by_column)}: {len(differences)} differences")
    return 1 if differences else 0


main()
