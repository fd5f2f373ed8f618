"""Runs the executable with the arguments of `python -m offload_bundle`."""

import os
import sys

from . import find


def main() -> None:
    try:
        executable = find()
    except FileNotFoundError as error:
        sys.exit("error: " + str(error))
    os.execv(executable, [executable, *sys.argv[1:]])


if __name__ == "__main__":
    main()
