"""Both units as one catalogue: every type with its kind and size, enums, structs, functions."""

import re
from dataclasses import dataclass, field

from pycparser import c_ast

import headers
import model
import rules

INTEGERS = {"char", "short", "int", "long", "signed", "unsigned"}
# Numbers by declaration, names of things by meaning.
HANDLES = {
    "CUtexObject", "CUsurfObject", "CUmemGenericAllocationHandle", "CUgraphConditionalHandle",
    "cudaTextureObject_t", "cudaSurfaceObject_t", "cudaGraphConditionalHandle",
}
DEVICE_POINTERS = {"CUdeviceptr", "CUdeviceptr_v1", "CUdeviceptr_v2"}


@dataclass
class Type:
    text: str
    kind: str
    size: int = 8
    target: str = ""  # what it points to, or its enum's or struct's name


@dataclass
class Catalogue:
    types: dict = field(default_factory=dict)  # text (or text#enum) -> Type
    enums: dict = field(default_factory=dict)  # name -> (aliases, [(member, value)])
    structs: dict = field(default_factory=dict)  # name -> (aliases, size, [(path, type, offset, count, shared)])
    functions: dict = field(default_factory=dict)  # name -> (return type, [Parameter])

    def add_enum_members(self, older):
        """Names that went away still occur in older programs; values never get reused."""
        for name, (_, members) in older.enums.items():
            aliases, mine = self.enums.setdefault(name, ([], []))
            known = {member for member, _ in mine}
            mine += [(member, value) for member, value in members if member not in known]

    def shape(self, key, inside=()):
        """A type with all it refers to, comparable between catalogues."""
        each = self.types[key]
        if each.kind == "Pointer":
            return "to", self.shape(each.target, inside)
        if each.kind != "Struct" or each.target in inside:
            return each.text, each.kind, each.size
        _, size, fields = self.structs[each.target]
        inside = (*inside, each.target)
        parts = [(path, self.shape(kind, inside), *rest) for path, kind, *rest in fields]
        return each.text, size, parts

    def signature(self, name):
        if name not in self.functions:
            return None
        returns, parameters = self.functions[name]
        parts = [(each.name, self.shape(each.type), each.direction, each.extent) for each in parameters]
        return self.shape(returns), parts

    def changed_since(self, newer):
        """The functions that mean something else here, and just the types they need."""
        part = Catalogue(enums=newer.enums)
        for name, (returns, parameters) in self.functions.items():
            if self.signature(name) != newer.signature(name):
                part.functions[name] = (returns, parameters)
                for key in [returns, *(each.type for each in parameters)]:
                    self.copy_type(key, part)
        return part

    def copy_type(self, key, part):
        if key in part.types:
            return
        each = part.types[key] = self.types[key]
        if "#" in key:
            self.copy_type(key.split("#")[0], part)
        if each.kind == "Pointer":
            self.copy_type(each.target, part)
        if each.kind == "Struct" and each.target not in part.structs:
            part.structs[each.target] = self.structs[each.target]
            for _, kind, *_ in self.structs[each.target][2]:
                self.copy_type(kind, part)


def short(text):
    """C text without elaborated keywords and with the star close: `const CUuuid*`."""
    text = re.sub(r"\b(struct|enum|union) ", "", text)
    return re.sub(r" (?=\*)", "", text)


class Builder:
    """Adds one unit to the catalogue; what an earlier unit defined must agree."""

    def __init__(self, catalogue, name, include, tables):
        self.out, self.name, self.include, self.tables = catalogue, name, include, tables
        self.unit = model.parse(headers.preprocess(name, include), name)
        self.primary, self.c_name, self.wanted, self.sized = {}, {}, [], {}
        for key in [*self.unit.enums, *self.unit.structs]:
            self.name_one(key)

    def name_one(self, key):
        """Typedef names are what programs write; bare tags only where they do not end in _st …"""
        names = self.unit.names.get(key, [])
        tag = key.split(" ", 1)[1]
        if tag.startswith("#") or (names and re.search(r"_(st|enum|union)$", tag)):
            primary = names[0] if names else None
        else:
            primary = tag
        self.primary[key] = primary
        self.c_name[key] = names[0] if tag.startswith("#") and names else key

    def aliases(self, key):
        tag = key.split(" ", 1)[1]
        every = [*self.unit.names.get(key, []), *([] if tag.startswith("#") else [tag])]
        return sorted({name for name in every if name != self.primary[key]})

    def build(self):
        for name, group in self.tables.groups(headers.preprocess(self.name, self.include, True)):
            self.out.enums.setdefault(name, ([], group))
        for key, members in self.unit.enums.items():
            if self.primary[key]:
                self.out.enums.setdefault(self.primary[key], (self.aliases(key), members))
        # All types first: an override may name one that only another function uses.
        for function in self.unit.functions.values():
            for _, node in function.parameters:
                self.type(node)
        for name, function in sorted(self.unit.functions.items()):
            name = re.sub(r"_pt[ds][sz]$", "", name)
            if name not in self.out.functions:
                self.out.functions[name] = (self.type(function.returns), self.parameters(name, function))
        fields = []
        done = set()
        while self.wanted:
            key = self.wanted.pop()
            if key in done or self.primary[key] in self.out.structs:
                continue
            done.add(key)
            fields += [(key, each, self.type(each.node)) for each in self.unit.structs[key]]
        self.measure(sorted(done), fields)

    def parameters(self, name, function):
        types = [(each, model.text(node), self.type(node)) for each, node in function.parameters]
        return rules.parameters(name, types, self.out, self.tables)

    def type(self, node):
        """Registers the type and gives its key in the catalogue."""
        c_text = model.text(node)
        text = short(c_text)
        kind, target = self.classify(node)
        if kind not in ("Pointer", "Text", "Callback", "Handle"):
            text = re.sub(r"^const ", "", text)
        if kind not in ("Pointer", "Text", "Callback", "Void", "Handle"):
            self.sized[text] = re.sub(r"^const ", "", c_text)
        known = self.out.types.setdefault(text, Type(text, kind, 8, target))
        if (known.kind, known.target) != (kind, target):
            raise SystemExit(f"{text} means two things: {known} and {kind} {target}")
        return text

    def classify(self, node):
        if isinstance(node, (c_ast.PtrDecl, c_ast.ArrayDecl)):
            return self.classify_pointer(node.type)
        if isinstance(node, c_ast.FuncDecl):
            return "Callback", ""
        inner = node.type
        if isinstance(inner, (c_ast.Struct, c_ast.Union)):
            key = f"{type(inner).__name__.lower()} {inner.name}" if inner.name else self.unit.keys[id(inner)]
            if key not in self.unit.structs:
                return "Void", ""
            self.wanted.append(key)
            return "Struct", self.primary[key]
        if isinstance(inner, c_ast.Enum):
            key = f"enum {inner.name}" if inner.name else self.unit.keys[id(inner)]
            return "Enum", self.primary[key]
        name = inner.names[-1]
        if name in DEVICE_POINTERS:
            return "DevicePointer", ""
        if name in HANDLES:
            return "Handle", ""
        if name == "void":
            return "Void", ""
        if name in ("float", "double"):
            return "Float", ""
        if set(inner.names) <= INTEGERS:
            return ("Unsigned" if "unsigned" in inner.names else "Signed"), ""
        return self.classify(self.unit.typedefs[name])

    def classify_pointer(self, to):
        if isinstance(to, c_ast.FuncDecl):
            return "Callback", ""
        if isinstance(to, c_ast.TypeDecl):
            if isinstance(to.type, c_ast.IdentifierType):
                if to.type.names == ["char"] and "const" in to.quals:
                    return "Text", ""
                if isinstance(self.unit.typedefs.get(to.type.names[-1]), c_ast.FuncDecl):
                    return "Callback", ""
            if self.classify(to)[0] == "Void" and not self.is_void(to):
                return "Handle", ""
        return "Pointer", self.type(to)

    def is_void(self, node):
        return isinstance(node.type, c_ast.IdentifierType) and node.type.names == ["void"]

    def measure(self, keys, fields):
        body = "".join(f'printf("T %zu %s\\n", sizeof({c}), "{text}");\n' for text, c in sorted(self.sized.items()))
        for key in keys:
            body += f'printf("S %zu %s\\n", sizeof({self.c_name[key]}), "{key}");\n'
        for number, (key, each, _) in enumerate(fields):
            name = self.c_name[key]
            body += f'printf("F {number} %zu %zu\\n", offsetof({name}, {each.path}), sizeof((({name} *)0)->{each.path}));\n'
        sizes, places = {}, {}
        for line in headers.measure(self.name, self.include, body).splitlines():
            mark, one, rest = line.split(" ", 2)
            if mark == "T":
                self.out.types[rest].size = int(one)
            elif mark == "S":
                sizes[rest] = int(one)
            else:
                places[int(one)] = tuple(map(int, rest.split()))
        for key in keys:
            self.out.structs[self.primary[key]] = (self.aliases(key), sizes[key], [])
        for number, (key, each, kind) in enumerate(fields):
            offset, size = places[number]
            count = size // self.out.types[kind].size if each.array else 1
            self.out.structs[self.primary[key]][2].append((each.path, kind, offset, count, each.shared))
