#!/usr/bin/env python3
"""Prints the parameters of every function in cuda_runtime_api.h by how they are passed, one
function a line: l 64 bits, i 32 bits, or the name of a structure passed by value.

    gen/signatures.py INCLUDE_DIR... > exports/signatures-13.txt

Needs pycparser and a C compiler.
"""
import re
import subprocess
import sys

from pycparser import c_ast, c_parser

HIDE = "__attribute__(x)=,__extension__=,__inline=inline,__restrict=,__asm__(x)=,__builtin_va_list=int,_Float128=double"
WORDS = {"size_t": "l", "long long": "l", "unsigned long long": "l", "long": "l", "unsigned long": "l"}


def preprocess(folders):
    command = ["cc", "-E", "-P", "-x", "c", "-"] + [f"-I{folder}" for folder in folders]
    hidden = "".join(f"#define {pair.replace('=', ' ', 1)}\n" for pair in HIDE.split(","))
    source = hidden + "#include <cuda_runtime_api.h>\n"
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


def passed_as(kind, typedefs):
    if isinstance(kind, (c_ast.PtrDecl, c_ast.ArrayDecl, c_ast.FuncDecl)):
        return "l"
    kind = kind.type
    if isinstance(kind, c_ast.Enum):
        return "i"
    if isinstance(kind, c_ast.Struct):
        return kind.name.removesuffix("_st")
    name = " ".join(kind.names)
    if name in WORDS:
        return WORDS[name]
    if name in typedefs:
        found = passed_as(typedefs[name], typedefs)
        return name if found not in ("l", "i") else found
    return "i"


tree = c_parser.CParser().parse(preprocess(sys.argv[1:]))
typedefs = {item.name: item.type for item in tree.ext if isinstance(item, c_ast.Typedef)}
for item in tree.ext:
    if isinstance(item, c_ast.Decl) and isinstance(item.type, c_ast.FuncDecl) and re.match("(__)?cuda", item.name):
        params = item.type.args.params if item.type.args else []
        kinds = [passed_as(param.type, typedefs) for param in params]
        print(item.name, *[k for k, p in zip(kinds, params) if getattr(p.type, "declname", "") is not None])
