"""Which CUDA headers are read, and how the C compiler is asked about them."""

import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

# One translation unit a layer and generation: the two share names (CUuuid, dim3 …) with the same meaning.
UNITS = {
    "driver": ["cuda.h", "cudaGL.h", "cudaEGL.h", "vdpau/vdpau.h", "cudaVDPAU.h", "cudaProfiler.h"],
    "runtime": [
        "cuda_runtime_api.h",
        "cuda_gl_interop.h",
        "vdpau/vdpau.h",
        "cuda_vdpau_interop.h",
        "cuda_egl_interop.h",
        "cuda_profiler_api.h",
        "registration.h",
    ],
    # Programs built with CUDA 12 run for years to come, and some names changed their meaning.
    "runtime12": ["cuda_runtime_api.h"],
}

# INTERNAL declares the superseded versions too; ODR keeps it from adding *_MAX enumerators.
DEFINES = ["-D__CUDA_API_VERSION_INTERNAL", "-D__CUDA_API_VERSION_INTERNAL_ODR"]


def _includes(unit):
    return "".join(f"#include <{name}>\n" for name in UNITS[unit])


def preprocess(unit, include, macros=False):
    """The unit's text as the parser takes it: no C library, no compiler extensions.

    C99 because later standards bring _Alignas into cuda.h, which the parser cannot read; sizes
    are taken from the compiler, not from this text.
    """
    command = ["gcc", "-E", "-std=c99", "-nostdinc", "-D__attribute__(x)=", "-D__inline__=inline"]
    command += ["-D__extension__=", *DEFINES, f"-I{HERE / 'shims'}", f"-I{HERE}"]
    command += [f"-I{folder}" for folder in include]
    command += ["-dM"] if macros else ["-P"]
    done = subprocess.run(command + ["-"], input=_includes(unit), capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"gcc could not preprocess the {unit} headers:\n{done.stderr}")
    return done.stdout


def measure(unit, include, body):
    """Compiles and runs `body` (C statements that print) with the unit's real headers."""
    source = "#include <stddef.h>\n#include <stdio.h>\n" + _includes(unit)
    source += "int main(void) {\n" + body + "return 0;\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "measure"
        # The shims come last but one: only GL, EGL and VDPAU are taken from them here.
        command = ["gcc", "-std=gnu11", "-w", "-x", "c", "-", "-o", str(program), *DEFINES]
        command += [f"-I{folder}" for folder in include]
        command += [f"-I{HERE}", f"-idirafter{HERE / 'shims'}"]
        done = subprocess.run(command, input=source, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"gcc could not compile the {unit} measurement:\n{done.stderr[:4000]}")
        return subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
