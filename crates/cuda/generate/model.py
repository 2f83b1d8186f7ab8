"""The headers as data: functions, types, enums and structs, still in C's own words."""

from dataclasses import dataclass, field

from pycparser import c_ast, c_generator, c_parser

_PRINT = c_generator.CGenerator()


@dataclass
class Function:
    name: str
    returns: object
    parameters: list  # (name, type node)


@dataclass
class Field:
    path: str  # dotted through unnamed structs and unions
    node: object
    array: bool  # the node is then the element's type
    shared: bool  # inside a union


@dataclass
class Unit:
    functions: dict = field(default_factory=dict)
    typedefs: dict = field(default_factory=dict)  # name -> node
    enums: dict = field(default_factory=dict)  # key -> [(name, value)]
    structs: dict = field(default_factory=dict)  # key -> [Field]
    names: dict = field(default_factory=dict)  # key -> typedef names, in order
    keys: dict = field(default_factory=dict)  # id(node) -> key, for unnamed ones


def _decay(node):
    """Parameters of array and function type are pointers."""
    if isinstance(node, c_ast.ArrayDecl):
        return c_ast.PtrDecl([], node.type)
    if isinstance(node, c_ast.FuncDecl):
        return c_ast.PtrDecl([], node)
    return node


class _Reader:
    def __init__(self):
        self.unit = Unit()
        self.constants = {}

    def read(self, tree):
        for node in tree.ext:
            if isinstance(node, c_ast.Typedef):
                self.define(node.type)
                self.unit.typedefs[node.name] = node.type
                inner = getattr(node.type, "type", None)
                if isinstance(inner, (c_ast.Struct, c_ast.Union, c_ast.Enum)):
                    self.unit.names.setdefault(self.key(inner), []).append(node.name)
                elif isinstance(inner, c_ast.IdentifierType) and isinstance(node.type, c_ast.TypeDecl):
                    origin = self.origin(inner.names[-1])
                    if origin:
                        self.unit.names[origin].append(node.name)
            elif isinstance(node, c_ast.Decl):
                if isinstance(node.type, c_ast.FuncDecl):
                    if not {"static", "inline"} & set(node.storage + node.funcspec):
                        self.function(node)
                else:
                    self.define(node.type)
        return self.unit

    def origin(self, name):
        """The struct, union or enum a typedef name stands for by value, if any."""
        for key, names in self.unit.names.items():
            if name in names:
                return key
        return None

    def key(self, node):
        kind = type(node).__name__.lower()
        if node.name:
            return f"{kind} {node.name}"
        return self.unit.keys.setdefault(id(node), f"{kind} #{len(self.unit.keys)}")

    def define(self, node):
        """Takes in what the declaration defines on its way: enums and structs with a body."""
        if isinstance(node, (c_ast.TypeDecl, c_ast.PtrDecl, c_ast.ArrayDecl)):
            self.define(node.type)
        elif isinstance(node, c_ast.Enum) and node.values:
            self.enum(node)
        elif isinstance(node, (c_ast.Struct, c_ast.Union)) and node.decls:
            key = self.key(node)
            if key not in self.unit.structs:
                self.unit.structs[key] = []
                self.unit.structs[key] = list(self.fields(node, "", isinstance(node, c_ast.Union)))

    def enum(self, node):
        members, following = [], 0
        for item in node.values.enumerators:
            value = following if item.value is None else self.value(item.value)
            self.constants[item.name] = value
            members.append((item.name, value))
            following = value + 1
        self.unit.enums[self.key(node)] = members

    def fields(self, node, prefix, shared):
        for decl in node.decls:
            if isinstance(decl, c_ast.Pragma):
                continue
            kind, array = decl.type, isinstance(decl.type, c_ast.ArrayDecl)
            while isinstance(kind, c_ast.ArrayDecl):
                kind = kind.type
            inner = kind.type if isinstance(kind, c_ast.TypeDecl) else kind
            if isinstance(inner, (c_ast.Struct, c_ast.Union)) and inner.decls and not inner.name:
                path = f"{prefix}{decl.name}." if decl.name else prefix
                yield from self.fields(inner, path, shared or isinstance(inner, c_ast.Union))
                continue
            self.define(kind)
            yield Field(f"{prefix}{decl.name}", kind, array, shared)

    def function(self, node):
        parameters = []
        for number, item in enumerate(node.type.args.params if node.type.args else []):
            kind = _decay(item.type)
            if isinstance(item, c_ast.Typename) and text(kind) == "void":
                continue
            parameters.append((item.name or f"arg{number}", kind))
        self.unit.functions[node.name] = Function(node.name, node.type.type, parameters)

    def value(self, node):
        if isinstance(node, c_ast.Constant):
            digits = node.value.rstrip("uUlL")
            if node.type == "char":
                return ord(digits.strip("'"))
            return int(digits, 16 if digits.lower().startswith("0x") else 10)
        if isinstance(node, c_ast.ID):
            return self.constants[node.name]
        if isinstance(node, c_ast.UnaryOp):
            value = self.value(node.expr)
            return {"-": -value, "~": ~value, "+": value}[node.op]
        if isinstance(node, c_ast.BinaryOp):
            left, right = self.value(node.left), self.value(node.right)
            return {
                "+": left + right,
                "-": left - right,
                "|": left | right,
                "*": left * right,
                "<<": left << right if 0 <= right < 64 else 0,
            }[node.op]
        if isinstance(node, c_ast.Cast):
            return self.value(node.expr)
        raise SystemExit(f"unknown constant expression: {_PRINT.visit(node)}")


def parse(source, name):
    return _Reader().read(c_parser.CParser().parse(source, name))


def text(node):
    """The type as C text, without the declared name: `const char *`, `struct cudaExtent`."""
    if isinstance(node, c_ast.TypeDecl):
        inner = node.type
        quals = " ".join(node.quals)
        if isinstance(inner, c_ast.IdentifierType):
            base = " ".join(inner.names)
        else:
            base = f"{type(inner).__name__.lower()} {inner.name}"
        return f"{quals} {base}".strip()
    if isinstance(node, c_ast.PtrDecl):
        if isinstance(node.type, c_ast.FuncDecl):
            return "void (*)(void)"
        quals = "".join(f" {qual}" for qual in node.quals)
        return f"{text(node.type)} *{quals}".replace("* *", "**").strip()
    if isinstance(node, c_ast.ArrayDecl):
        return f"{text(node.type)} *"
    if isinstance(node, c_ast.FuncDecl):
        return "void (*)(void)"
    raise SystemExit(f"unknown type: {node}")
