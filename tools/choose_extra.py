"""Choose the extra of pyproject.toml that this machine's NVIDIA driver can run.

``python -m tools.choose_extra`` prints ``cuda12``, ``cuda13`` or nothing on standard output, and
one sentence that says why on standard error. It needs nothing but the standard library.
"""

import re
import shutil
import subprocess
import sys

# Newer drivers print "CUDA Version: 12.4", some "CUDA UMD Version: 13.1".
_CUDA_VERSION = re.compile(r"CUDA (?:\w+ )?Version\s*:\s*(\d+)\.(\d+)")


def choose(nvidia_smi_output: str | None) -> tuple[str, str]:
    """Choose the extra from what ``nvidia-smi`` prints.

    Parameters
    ----------
    nvidia_smi_output
        Its standard output; None if there is no such program or it failed.

    Returns
    -------
    tuple of str
        The extra's name (empty for none) and a sentence that says why.
    """
    if nvidia_smi_output is None:
        return "", "no NVIDIA driver found (nvidia-smi): the course runs on its simulator"
    match = _CUDA_VERSION.search(nvidia_smi_output)
    if match is None:
        return "", (
            "nvidia-smi names no CUDA version: the course runs on its simulator; "
            "if this machine has a GPU, update its driver and run `make setup` again"
        )
    version = f"{match[1]}.{match[2]}"
    major = int(match[1])
    if major < 12:
        return "", (
            f"the driver supports CUDA {version}, the course needs 12 or later: "
            "it runs on its simulator; update the driver and run `make setup` again"
        )
    extra = "cuda12" if major == 12 else "cuda13"
    return extra, f"the driver supports CUDA {version}: installing the extra {extra}"


def ask_driver() -> str | None:
    """Return what ``nvidia-smi`` prints, None where it is missing, fails or hangs."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    try:
        answer = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout if answer.returncode == 0 else None


def main() -> None:
    """Print the choice for this machine."""
    extra, reason = choose(ask_driver())
    print(reason, file=sys.stderr)
    print(extra)


if __name__ == "__main__":
    main()
