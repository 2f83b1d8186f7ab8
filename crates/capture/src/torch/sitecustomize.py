"""cutrace --modules: each nn.Module's forward is a record_function range with the module's qualified name.

Found by Python at its start through PYTHONPATH. It does nothing until torch.nn is imported, and then adds PyTorch's own
global hooks. What the environment has as sitecustomize is imported as before.
"""
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

PREFIX = "nn.Module: "
HERE = os.path.dirname(os.path.abspath(__file__))


def _install(module):
    import threading
    import weakref

    names = weakref.WeakKeyDictionary()
    local = threading.local()

    def name_of(this, is_outermost):
        name = names.get(this)
        if name is None:
            # The module that is called first holds the others.
            if is_outermost:
                own = type(this).__name__
                for path, inner in this.named_modules():
                    names.setdefault(inner, own + "." + path if path else own)
                return names.get(this, own)
            name = names[this] = type(this).__name__
        return name

    def enter(this, _args):
        import torch
        if torch.jit.is_tracing() or torch.jit.is_scripting() or _is_compiling(torch):
            return None
        stack = local.__dict__.setdefault("stack", [])
        try:
            found = torch.autograd.profiler.record_function(PREFIX + name_of(this, not stack))
            found.__enter__()
        except Exception:
            found = None
        stack.append((id(this), found))
        return None

    def leave(this, _args, _result):
        import torch
        if torch.jit.is_tracing() or torch.jit.is_scripting() or _is_compiling(torch):
            return None
        stack = local.__dict__.get("stack", [])
        # A forward that raised has left its entries behind.
        while stack:
            which, found = stack.pop()
            if found is not None:
                found.__exit__(None, None, None)
            if which == id(this):
                break
        return None

    module.register_module_forward_pre_hook(enter)
    try:
        module.register_module_forward_hook(leave, always_call=True)
    except TypeError:
        module.register_module_forward_hook(leave)


def _is_compiling(torch):
    compiler = getattr(torch, "compiler", None)
    asks = getattr(compiler, "is_compiling", None)
    return bool(asks and asks())


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "torch.nn.modules.module":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            try:
                _install(module)
            except Exception as why:
                print(f"cutrace: modules are not recorded: {why}", file=sys.stderr)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _Finder())

# The sitecustomize that would have been found without this one.
_rest = [each for each in sys.path if os.path.abspath(each or ".") != HERE]
_spec = importlib.machinery.PathFinder.find_spec("sitecustomize", _rest)
if _spec is not None and _spec.loader is not None:
    _module = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(_module)
