"""What the figures were measured on."""

from __future__ import annotations

import platform
from pathlib import Path

import onnxruntime

from asr.manifest.parallel import cores


def machine() -> dict[str, str | int]:
    """Processor, cores, system, and the versions that speed depends on."""
    return {
        "processor": _processor(),
        "cores": cores(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "onnxruntime": onnxruntime.__version__,
    }


def _processor() -> str:
    """Its name where the system tells: x86 in /proc/cpuinfo, boards in the device tree."""
    try:
        board = Path("/proc/device-tree/model").read_text(encoding="utf-8", errors="replace").strip("\0 \n")
        if board:
            return board
    except OSError:
        pass
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
