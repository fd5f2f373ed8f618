#!/usr/bin/env python3
"""Runs the commands in the section on NVIDIA of docs/vendors.md, and compares their outputs with the page.

It downloads cuRAND (68 MB) from PyPI, so no test runs it. The executable is $TOOL, else that of `cargo build --release`.
A line of the page that is only an ellipsis matches any lines."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parent.parent
tool = pathlib.Path(os.environ.get("TOOL", root / "target/release/clang-offload-bundler")).resolve()
page = (root / "docs/vendors.md").read_text()
section = page.split("\n## NVIDIA\n")[1].split("\n## ")[0]
wrong = 0
with tempfile.TemporaryDirectory() as work:
    (pathlib.Path(work) / "bin").mkdir()
    (pathlib.Path(work) / "bin/offload-bundle").symlink_to(tool)
    environment = {**os.environ, "PATH": f"{work}/bin:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
    for block in re.findall(r"^```console\n(.*?)^```", section, re.M | re.S):
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
            done = subprocess.run(
                command, shell=True, cwd=work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            lines = [".*" if line.strip() == "…" else re.escape(line) for line in shown.splitlines()]
            is_right = done.returncode == 0 and (not shown or re.fullmatch("\n".join(lines) + "\n", done.stdout, re.S))
            if not is_right:
                wrong += 1
                print(f"$ {command}\n{done.stdout}", end="" if done.returncode == 0 else f"status {done.returncode}\n")
sys.exit(f"{wrong} of the page's commands print something else" if wrong else 0)
