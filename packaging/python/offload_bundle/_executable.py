"""Where the executable is."""

from __future__ import annotations

import os
import shutil
import sysconfig
from importlib import metadata
from typing import Iterator

# `.exe` on Windows.
_SUFFIX = sysconfig.get_config_var("EXE") or ""
_NAME = "clang-offload-bundler" + _SUFFIX


def find() -> str:
    """The path of the executable that was installed with this package, or of an `offload-bundle` in the `PATH`;
    `FileNotFoundError` if there is none."""
    beside = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    candidates = [os.path.normpath(path) for path in _recorded(beside)]
    # `pip install --target` moves files after it recorded them; an editable install has its record elsewhere.
    candidates.append(os.path.join(beside, "bin", _NAME))
    # Elsewhere, the long name may be that of LLVM's tool.
    candidates.append(os.path.join(sysconfig.get_path("scripts"), "offload-bundle" + _SUFFIX))
    for path in candidates:
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("offload-bundle")
    if found is not None:
        return found
    raise FileNotFoundError("no " + _NAME + " was installed with offload_bundle; looked for " + ", ".join(candidates))


def _recorded(directory: str) -> Iterator[str]:
    """Where the record of the package in a directory says that the executable is."""
    for package in metadata.distributions(name="offload-bundle", path=[directory]):
        for file in package.files or []:
            if file.name == _NAME:
                yield str(file.locate())
