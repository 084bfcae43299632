"""How much memory this process has, now and at most, as the operating system counts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def _from_status(name: str) -> int:
    for line in _STATUS.read_text("ascii").split("\n"):
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


def resident_bytes() -> int:
    if _STATUS.exists():
        return _from_status("VmRSS")
    if sys.platform == "win32":
        return _windows_counters()[0]
    output = subprocess.check_output(["ps", "-o", "rss=", "-p", str(os.getpid())])
    return int(output) * 1024


def peak_resident_bytes() -> int:
    if _STATUS.exists():
        # Not getrusage: after an exec it may begin at the size of the parent.
        return _from_status("VmHWM")
    if sys.platform == "win32":
        return _windows_counters()[1]
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _windows_counters() -> tuple[int, int]:
    """The working set and its peak."""
    import ctypes
    from ctypes import wintypes

    class Counters(ctypes.Structure):
        _fields_ = (
            ("cb", wintypes.DWORD),
            ("PageFaultCount", wintypes.DWORD),
            ("PeakWorkingSetSize", ctypes.c_size_t),
            ("WorkingSetSize", ctypes.c_size_t),
            ("QuotaPeakPagedPoolUsage", ctypes.c_size_t),
            ("QuotaPagedPoolUsage", ctypes.c_size_t),
            ("QuotaPeakNonPagedPoolUsage", ctypes.c_size_t),
            ("QuotaNonPagedPoolUsage", ctypes.c_size_t),
            ("PagefileUsage", ctypes.c_size_t),
            ("PeakPagefileUsage", ctypes.c_size_t),
        )

    counters = Counters(cb=ctypes.sizeof(Counters))
    kernel32 = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined]
    kernel32.GetCurrentProcess.restype = wintypes.HANDLE
    kernel32.K32GetProcessMemoryInfo.argtypes = (
        wintypes.HANDLE,
        ctypes.POINTER(Counters),
        wintypes.DWORD,
    )
    process = kernel32.GetCurrentProcess()
    if not kernel32.K32GetProcessMemoryInfo(process, ctypes.byref(counters), counters.cb):
        raise OSError("the working set cannot be read")
    return counters.WorkingSetSize, counters.PeakWorkingSetSize
