"""Lists, extracts, checks and compresses GPU code in any file: runs the executable of the package `offload-bundle`.

`find()` returns the path of the executable. `python -m offload_bundle` runs it.
"""

import os
import sysconfig
from importlib import metadata

__all__ = ["find"]

_NAME = "clang-offload-bundler"


def find() -> str:
    """The path of the executable that was installed with this package; `FileNotFoundError` if it is not there."""
    beside = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    candidates = [os.path.normpath(path) for path in _recorded(beside)]
    # `pip install --target` moves files after it recorded them; an editable install has its record elsewhere.
    candidates.append(os.path.join(beside, "bin", _NAME))
    candidates.append(os.path.join(sysconfig.get_path("scripts"), _NAME))
    for path in candidates:
        if os.access(path, os.X_OK):
            return path
    raise FileNotFoundError("no " + _NAME + " was installed with offload_bundle; looked for " + ", ".join(candidates))


def _recorded(directory):
    """Where the record of the package that lies in a directory says that the executable is."""
    for package in metadata.distributions(name="offload-bundle", path=[directory]):
        for file in package.files or []:
            if file.name == _NAME:
                yield str(file.locate())
