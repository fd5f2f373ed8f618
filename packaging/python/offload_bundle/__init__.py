"""GPU code in any file: which code objects it holds, for which GPUs, and what their kernels need.

>>> import offload_bundle
>>> for file in offload_bundle.inspect("libfoo.so").files:
...     print(file.path, {code.target_id for code in file.code_objects})

Each function runs the subcommand of `offload-bundle` of its name and returns its report (`offload_bundle.reports`). Inputs are
paths, or one binary file or `bytes`, which the program reads from its standard input. A file that cannot be read raises `Error`.

`__version__` is the version of the package. `find()` returns the path of the executable. `python -m offload_bundle` runs it.
"""

from ._api import CodeObject, Error, Input, diff, extract, inspect, kernels, recompress, replace, report, verify
from ._executable import find

__version__ = "0.2.0"

__all__ = [
    "CodeObject", "Error", "Input", "diff", "extract", "find", "inspect", "kernels", "recompress", "replace", "report", "verify",
]
