"""Runs the executable with the arguments of `python -m offload_bundle`."""

import os
import subprocess
import sys

from . import find


def main() -> None:
    try:
        executable = find()
    except FileNotFoundError as error:
        sys.exit("error: " + str(error))
    if os.name == "nt":
        # A program there cannot take the place of this one: it would run on after this one has ended.
        sys.exit(subprocess.run([executable, *sys.argv[1:]]).returncode)
    os.execv(executable, [executable, *sys.argv[1:]])


if __name__ == "__main__":
    main()
