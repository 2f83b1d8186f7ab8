"""What the prototypes do not say: directions, array lengths, integers that hold named values."""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path


@dataclass
class Parameter:
    name: str
    type: str
    direction: str  # In, Out, InOut
    extent: str  # One, Text, Opaque, Counted(index)


class Tables:
    """overrides.txt and flags.txt. A line that matches nothing is an error: see `unused`."""

    def __init__(self, folder):
        self.overrides, self.group_lines, self.bits, self.uses, self.used = [], [], [], [], set()
        for line in self.lines(folder / "overrides.txt"):
            self.overrides.append((line, *line.split()[:3], line.split()[3:]))
        for line in self.lines(folder / "flags.txt"):
            word, *rest = line.split()
            if word == "group":
                self.group_lines.append((line, *rest))
            elif word == "bits":
                self.bits.append((line, *rest))
            elif word == "use":
                self.uses.append((line, *rest))
            else:
                raise SystemExit(f"flags.txt: unknown line: {line}")

    @staticmethod
    def lines(path: Path):
        for line in path.read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                yield " ".join(line.split())

    def unused(self):
        every = [*self.overrides, *self.group_lines, *self.bits, *self.uses]
        return [line for line, *_ in every if line not in self.used]

    def override(self, function, parameter):
        for line, pattern, name, direction, extra in self.overrides:
            if fnmatchcase(function, pattern) and fnmatchcase(parameter, name):
                self.used.add(line)
                return direction, extra
        return None, []

    def held_enum(self, function, parameter):
        for line, pattern, name, enum in self.uses:
            if parameter == name and fnmatchcase(function, pattern):
                self.used.add(line)
                return enum
        return None

    def is_bits(self, enum):
        hits = [line for line, pattern in self.bits if fnmatchcase(enum, pattern)]
        self.used.update(hits)
        return bool(hits)

    def groups(self, macros):
        """Enums made of macros: (name, [(member, value)]) for each group present here."""
        defined = re.findall(r"^#define (\w+)\s+\(?(0x[0-9a-fA-F]+|\d+)\)?$", macros, re.M)
        for line, name, pattern in self.group_lines:
            members = [(macro, int(value, 0)) for macro, value in defined if re.fullmatch(pattern, macro)]
            if members:
                self.used.add(line)
                yield name, sorted(members, key=lambda each: (each[1], each[0]))


def parameters(function, types, catalogue, tables):
    names = [name for name, _, _ in types]
    result = []
    for name, c_text, key in types:
        word, extra = tables.override(function, name)
        for each in extra:
            if each.startswith("as="):
                key = each[3:]
                if key not in catalogue.types:
                    raise SystemExit(f"overrides.txt: {function} {name}: type {key} is not in the headers")
        kind = catalogue.types[key].kind
        direction = {"in": "In", "out": "Out", "inout": "InOut"}[word] if word else natural(c_text, kind)
        extent = extent_of(function, name, names, kind, catalogue.types[key], direction, extra)
        enum = tables.held_enum(function, name)
        if enum:
            key = holding(catalogue, key, enum)
        result.append(Parameter(name, key, direction, extent))
    return result


def natural(c_text, kind):
    """Pointers to what may be written are outputs; what is behind void* is not known."""
    if kind != "Pointer":
        return "In"
    if c_text == "void *" or re.search(r"const \*$", c_text):
        return "In"
    if c_text.startswith("const ") and c_text.count("*") == 1:
        return "In"
    return "Out"


def extent_of(function, name, names, kind, type_, direction, extra):
    if kind == "Text":
        return "Opaque" if "opaque" in extra else "Text"
    if kind != "Pointer" or "opaque" in extra or type_.target == "void":
        return "Opaque" if kind == "Pointer" else "One"
    for each in extra:
        if each.startswith("count="):
            hits = [index for index, other in enumerate(names) if fnmatchcase(other, each[6:])]
            if len(hits) != 1:
                raise SystemExit(f"overrides.txt: {function} {name}: no parameter {each[6:]}")
            return f"Counted({hits[0]})"
    if name in ("dependencies", "pDependencies") and "numDependencies" in names and direction == "In":
        return f"Counted({names.index('numDependencies')})"
    return "One"


def holding(catalogue, key, enum):
    """A copy of the integer type (or of the pointer to it) that holds values of `enum`."""
    if enum not in catalogue.enums:
        raise SystemExit(f"flags.txt: no enum {enum}")
    base = catalogue.types[key]
    copy = f"{key}#{enum}"
    if base.kind == "Pointer":
        inner = holding(catalogue, base.target, enum)
        catalogue.types.setdefault(copy, type(base)(base.text, "Pointer", 8, inner))
    else:
        # The size is filled in from the plain type once that is measured.
        catalogue.types.setdefault(copy, type(base)(base.text, "Enum", 0, enum))
    return copy


