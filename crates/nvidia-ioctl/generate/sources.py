"""Where the headers of a version are: in the folder of fetched ones, or in a clone's tags."""

import io
import subprocess
import tarfile

PARTS = ["src/common", "src/nvidia/arch/nvalloc/unix/include", "src/nvidia/generated"]
PARTS += ["src/nvidia/src/kernel/rmapi", "kernel-open/common/inc", "kernel-open/nvidia-uvm"]


def find(fetched, version, git, folder):
    """The root of the version's source, or None."""
    if (fetched / version / "src").is_dir():
        return fetched / version
    if not git:
        return None
    archive = subprocess.run(["git", "-C", git, "archive", version, *PARTS], capture_output=True)
    if archive.returncode != 0:
        return None
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder / version)
    return folder / version
