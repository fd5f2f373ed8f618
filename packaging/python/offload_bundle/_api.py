"""The functions: command lines, and what comes back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO, Optional, TypeVar, Union

from . import reports
from ._decode import Report, decode
from ._executable import find

Input = Union[str, "os.PathLike[str]", BinaryIO, bytes]
"""A file to read: its path, a binary file, or its bytes."""

Names = Union[str, Iterable[str]]
"""Patterns or names of GPUs: one, several, or a list with commas."""

R = TypeVar("R", bound=Report)


class Error(Exception):
    """A file could not be read, or a command failed. Its text is the message of the command line."""

    kind: str
    """`io`, `referred`, `temporary`, `malformed`, `unsupported`, `limit`, `not_found`, `ambiguous`, `conflict`, `usage` or `internal`,
    as in the library in Rust; `other` if the program gave none."""
    path: Optional[str]
    """The file at fault, if there is one."""
    place: Optional[str]
    """The part of the file, if only that is at fault: members and sections."""
    offset: Optional[int]
    """The offset of the fault, in bytes."""
    report: Optional[Report]
    """The report on what could be read, if there is one."""

    def __init__(self, message: str, kind: str, path: Optional[str], place: Optional[str], offset: Optional[int]):
        # All arguments, so that an error can be copied to another process.
        super().__init__(message, kind, path, place, offset)
        self.kind, self.path, self.place, self.offset, self.report = kind, path, place, offset, None

    def __str__(self) -> str:
        return str(self.args[0])


class _Directory:
    """A directory that is removed when nothing refers to this object any more."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="offload-bundle-")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


@dataclass(frozen=True)
class CodeObject(reports.Written):
    """A code object that was extracted."""

    directory: _Directory = field(repr=False, compare=False)

    def read(self) -> bytes:
        """Its content."""
        return Path(self.file).read_bytes()


def inspect(*files: Input, recursive: bool = False, deep: bool = False, inflate: bool = False) -> reports.InspectReport:
    """The code objects in files, and in directories of files."""
    return _report(reports.InspectReport, "inspect", files, {"recursive": recursive, "deep": deep, "inflate": inflate})


def kernels(
    *files: Input,
    target: Names = (),
    name: Optional[str] = None,
    arguments: bool = False,
    hostcall: bool = False,
    fail_on: Names = (),
    recursive: bool = False,
    deep: bool = False,
    allow_none: bool = False,
) -> reports.KernelsReport:
    """The kernels in files, with their registers, memory and code size. `status` of the report is 1 if a condition of
    `fail_on` is met (`failures`), or there was nothing to judge by it (`problems`)."""
    options = {
        "target": target, "name": name, "arguments": arguments, "hostcall": hostcall, "fail-on": fail_on,
        "recursive": recursive, "deep": deep, "allow-none": allow_none,
    }
    return _report(reports.KernelsReport, "kernels", files, options)


def verify(
    *files: Input,
    expect: Names = (),
    expect_exactly: Names = (),
    expect_any: Names = (),
    compressed: Union[bool, int] = False,
    recursive: bool = False,
    deep: bool = False,
    allow_none: bool = False,
) -> reports.VerifyReport:
    """Checks files. `ok` of the report says whether they are sound and serve the GPUs that are expected; the faults are in
    `files` and `faults`."""
    options = {
        "expect": expect, "expect-exactly": expect_exactly, "expect-any": expect_any, "compressed": compressed,
        "recursive": recursive, "deep": deep, "allow-none": allow_none,
    }
    return _report(reports.VerifyReport, "verify", files, options)


def diff(
    old: Input,
    new: Input,
    *,
    target: Names = (),
    fail_on: Names = (),
    recursive: bool = False,
    deep: bool = False,
    allow_none: bool = False,
) -> reports.DiffReport:
    """What changed between two files or directories. `status` of the report is 1 if a condition of `fail_on` is met, or
    there was nothing to judge by it."""
    options = {"target": target, "fail-on": fail_on, "recursive": recursive, "deep": deep, "allow-none": allow_none}
    return _report(reports.DiffReport, "diff", [old, new], options)


def extract(
    *files: Input,
    target: Names = (),
    kernel: Names = (),
    as_runtime: bool = False,
    recursive: bool = False,
    deep: bool = False,
) -> Iterator[CodeObject]:
    """The code objects in files for some targets, with a kernel, or all of them. They are extracted into a directory for temporary files,
    which is removed when none of them is used any more."""
    directory = _Directory()
    # Names of kernels may have commas.
    named = [kernel] if isinstance(kernel, str) else list(kernel)
    options = {
        "target": target, "kernel": _Each(named), "as-runtime": as_runtime, "recursive": recursive, "deep": deep, "output": directory.name,
    }
    def owned(written: reports.Written) -> CodeObject:
        return CodeObject(**{known.name: getattr(written, known.name) for known in fields(written)}, directory=directory)

    try:
        return map(owned, _report(reports.ExtractReport, "extract", files, options).code_objects)
    except Error as error:
        if isinstance(error.report, reports.ExtractReport):
            error.report.code_objects[:] = map(owned, error.report.code_objects)
        raise


def recompress(
    file: Union[str, "os.PathLike[str]"],
    output: Union[str, "os.PathLike[str]"],
    *,
    keep: Names = (),
    keep_for: Names = (),
    keep_kernels: Optional[Union[str, "os.PathLike[str]"]] = None,
    drop: Names = (),
    level: Optional[int] = None,
    none: bool = False,
    allow_unused: bool = False,
) -> str:
    """Writes a file with smaller bundles, or with those for some GPUs alone. Returns what was done, in words. `output` may be
    the same file."""
    options = {
        "output": _path(output), "keep": keep, "keep-for": keep_for, "drop": drop, "level": level, "none": none,
        "keep-kernels": None if keep_kernels is None else os.fspath(keep_kernels), "allow-unused": allow_unused,
    }
    run, messages = _run("recompress", [file], options)
    if run.returncode != 0:
        raise _error(messages) or _unknown(run, messages)
    return "\n".join(message["message"] for message in messages if message["level"] != "error")


def _report(of_type: type[R], subcommand: str, files: Sequence[Input], options: dict[str, Any]) -> R:
    """Runs a subcommand with `--json`. A file that cannot be read is an error, which has the report of the others."""
    run, messages = _run(subcommand, files, {**options, "json": True})
    error = _error(messages)
    if not run.stdout:
        raise error or _unknown(run, messages)
    try:
        report = decode(of_type, json.loads(run.stdout))
    except ValueError:
        # The program failed in the middle of it.
        raise error or _unknown(run, messages) from None
    object.__setattr__(report, "status", run.returncode)
    if error is not None:
        error.report = report
        raise error
    return report


def _run(
    subcommand: str, files: Sequence[Input], options: dict[str, Any]
) -> tuple[subprocess.CompletedProcess[bytes], list[dict[str, Any]]]:
    """Runs a subcommand. Returns what it printed, and its messages."""
    paths: list[str] = []
    data = b""
    for file in files:
        if isinstance(file, (str, os.PathLike)):
            paths.append(_path(file))
            continue
        if "-" in paths:
            raise TypeError("only one input can be a file or bytes; the others have to be paths")
        paths.append("-")
        content = file if isinstance(file, bytes) else file.read() if hasattr(file, "read") else file
        if not isinstance(content, bytes):
            raise TypeError(f"an input is a path, a binary file or bytes, not {type(file).__name__}")
        data = content
    words = [word for name, value in options.items() for word in _option(name, value)]
    command = [find(), subcommand, "--message-format=json", *words, "--", *paths]
    run = subprocess.run(command, input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # Bytes end lines only where the program does.
    messages = [_message(line.decode("utf-8", "replace")) for line in run.stderr.splitlines()]
    if run.returncode not in (0, 1):
        raise _error(messages) or _unknown(run, messages)
    return run, messages


def _path(path: Union[str, "os.PathLike[str]"]) -> str:
    """A path as a file of this name, also if that is what the program takes for its standard streams."""
    named = os.fspath(path)
    return "./-" if named == "-" else named


class _Each(list[str]):
    """Values of an option that is repeated for each."""


def _option(name: str, value: Any) -> list[str]:
    """The arguments for an option; empty if it is unset."""
    if value is None or value is False:
        return []
    if value is True:
        return [f"--{name}"]
    if isinstance(value, (str, int)):
        return [f"--{name}={value}"]
    values = list(value)
    if isinstance(value, _Each):
        return [f"--{name}={each}" for each in values]
    return [f"--{name}={','.join(values)}"] if values else []


def _message(line: str) -> dict[str, Any]:
    """A message; what does not have their form, as errors of command lines, as one of its own."""
    try:
        message = json.loads(line)
    except ValueError:
        message = None
    return message if isinstance(message, dict) else {"level": "", "message": line}


def _error(messages: list[dict[str, Any]]) -> Optional[Error]:
    """The first error in a file."""
    for message in messages:
        if message["level"] == "error" and "kind" in message:
            return Error(message["message"], message["kind"], message["path"], message["place"], message["offset"])
    return None


def _unknown(run: subprocess.CompletedProcess[bytes], messages: list[dict[str, Any]]) -> Error:
    """The error of a program that failed for another reason."""
    text = "\n".join(message["message"] for message in messages) or f"exit status {run.returncode}"
    # What follows an error in arguments is about the command line.
    text = text.split("\n\n")[0]
    return Error(text.removeprefix("error: "), "usage" if run.returncode == 2 else "other", None, None, None)
