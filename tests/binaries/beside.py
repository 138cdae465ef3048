"""Opens libvolta in a process that has imported another library: beside.py MODULE LIBVOLTA. 77: it is not there."""

import ctypes
import importlib
import sys

try:
    importlib.import_module(sys.argv[1])
except ImportError:
    print(f"skipped: this Python has no {sys.argv[1]}")
    sys.exit(77)
ctypes.CDLL(sys.argv[2])
