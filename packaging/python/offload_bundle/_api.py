"""The functions of the package: each makes a command line, runs it, and reads its report."""

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


def inspect(
    *files: Input, recursive: bool = False, deep: bool = False, inflate: bool = False, matrix: bool = False
) -> reports.InspectReport:
    """Lists the code objects in files, and in directories of files. `coverage` of each file has the number of bundles that
    serve each GPU. With `matrix`, `libraries` of the report has these numbers for each library in the files."""
    options = {"recursive": recursive, "deep": deep, "inflate": inflate, "matrix": matrix}
    return _report(reports.InspectReport, "inspect", files, options)


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
    """Lists the kernels in files, with their registers, memory and code size. `status` of the report is 1 if a condition of
    `fail_on` is met (`failures`), or if nothing could be judged by it (`problems`)."""
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
    """Compares two files or directories. `status` of the report is 1 if a condition of `fail_on` is met, or if nothing could be
    judged by it."""
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
    """Extracts code objects: those for some targets, those with a kernel, or all. They are in a temporary directory, which is
    removed when none of them is used any more."""
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
    close_gaps: bool = False,
    allow_unused: bool = False,
    local_version: Optional[str] = None,
) -> str:
    """Writes a file with smaller bundles, or with the code for some GPUs alone. `output` may be the same file,
    or a directory for a file of the same name. With `local_version`, the file is a wheel, whose name changes. Returns the
    messages of the program."""
    options = {
        "output": _path(output), "keep": keep, "keep-for": keep_for, "drop": drop, "level": level, "none": none,
        "close-gaps": close_gaps,
        "keep-kernels": None if keep_kernels is None else os.fspath(keep_kernels), "allow-unused": allow_unused,
        "local-version": local_version,
    }
    return _messages("recompress", [file], options)


def replace(
    place: Union[str, "os.PathLike[str]"],
    content: Union[str, "os.PathLike[str]", bytes],
    *,
    target: Names = (),
    kernel: Optional[str] = None,
    output: Optional[Union[str, "os.PathLike[str]"]] = None,
    force: bool = False,
) -> str:
    """Puts a changed code object back in its place. `place` is the `uri` of the code object, or a file in which `target` and
    `kernel` select it. `content` is the new code object: a path or its bytes. Without `output`, the file itself changes.
    Returns the messages of the program."""
    options = {"target": target, "kernel": kernel, "output": None if output is None else _path(output), "force": force}
    with tempfile.TemporaryDirectory(prefix="offload-bundle-") as directory:
        if isinstance(content, bytes):
            changed = Path(directory, "code-object")
            changed.write_bytes(content)
            content = changed
        return _messages("replace", [place, content], options)


def report(
    *files: Union[str, "os.PathLike[str]"],
    output: Union[str, "os.PathLike[str]"],
    diff: bool = False,
    recursive: bool = False,
    deep: bool = False,
) -> None:
    """Writes a page for a browser, `output`, about files; with `diff`, about the second of two files compared with the first.
    The page is written even if a file cannot be read, which raises an error."""
    _messages("report", files, {"output": _path(output), "diff": diff, "recursive": recursive, "deep": deep})


def _messages(subcommand: str, files: Sequence[Union[str, "os.PathLike[str]"]], options: dict[str, Any]) -> str:
    """Runs a subcommand that has no JSON report. Returns its messages."""
    run, messages = _run(subcommand, files, options)
    if run.returncode != 0:
        raise _error(messages) or _unknown(run, messages)
    return "\n".join(message["message"] for message in messages if message["level"] != "error")


def _report(of_type: type[R], subcommand: str, files: Sequence[Input], options: dict[str, Any]) -> R:
    """Runs a subcommand with `--json`. Raises an error for a file that cannot be read, with the report on the others."""
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
    if not files:
        raise TypeError(f"{subcommand}() needs at least one file")
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
    """Returns a path that names a file even if it is `-`, which means a standard stream to the program."""
    named = os.fspath(path)
    return "./-" if named == "-" else named


class _Each(list[str]):
    """Values of an option that is repeated for each."""


def _option(name: str, value: Any) -> list[str]:
    """Returns the arguments for an option, or an empty list if it is unset."""
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
    """Returns a message. A line in another form, as in an error of the command line, is a message without a level."""
    try:
        message = json.loads(line)
    except ValueError:
        message = None
    return message if isinstance(message, dict) else {"level": "", "message": line}


def _error(messages: list[dict[str, Any]]) -> Optional[Error]:
    """Returns the first error in a file, or `None` if there is none."""
    for message in messages:
        if message["level"] == "error" and "kind" in message:
            return Error(message["message"], message["kind"], message["path"], message["place"], message["offset"])
    return None


def _unknown(run: subprocess.CompletedProcess[bytes], messages: list[dict[str, Any]]) -> Error:
    """Returns the error of a program that failed for another reason."""
    text = "\n".join(message["message"] for message in messages) or f"exit status {run.returncode}"
    # The name of the program precedes an error in arguments, and hints and usage follow it.
    text = text.split("error: ", 1)[-1].split("\n")[0] if run.returncode == 2 else text
    return Error(text, "usage" if run.returncode == 2 else "other", None, None, None)
