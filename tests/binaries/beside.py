"""Opens libvolta in a process that has imported another library: beside.py MODULE LIBVOLTA. It exits with 77
if the module is not installed."""

import ctypes
import importlib
import sys

try:
    importlib.import_module(sys.argv[1])
except ImportError:
    print(f"skipped: this Python has no {sys.argv[1]}")
    sys.exit(77)
ctypes.CDLL(sys.argv[2])
