"""The work of action.yml: `verify` or `diff`, with annotations for faults and tables in the summary of the job."""

from __future__ import annotations

import glob
import json
import os
import shlex
import subprocess
import sys
from typing import Any, NoReturn, Optional

from offload_bundle import find

SUMMARY_MAX = 1_000_000
"""GitHub refuses a summary of more than 1 MiB."""


def annotate(level: str, message: str, file: Optional[str] = None, title: str = "") -> None:
    """Prints an annotation. Nothing is printed in another way: a line from a file could be a command for GitHub."""
    properties = {"file": file, "title": title}
    escaped = [f"{key}={escape(value, ',:')}" for key, value in properties.items() if value]
    print(f"::{level} {','.join(escaped)}".rstrip() + f"::{escape(message)}")


def escape(text: str, more: str = "") -> str:
    return "".join(f"%{ord(c):02X}" if c in "%\r\n" + more else c for c in text)


def fail(message: str) -> NoReturn:
    annotate("error", message)
    sys.exit(1)


def run(command: str, *words: str) -> tuple[int, str]:
    """Runs a subcommand, and annotates its messages. Returns its status and what it printed."""
    done = subprocess.run([find(), command, "--message-format=json", *words], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    for line in filter(None, done.stderr.decode(errors="replace").splitlines()):
        try:
            message: Any = json.loads(line)
            level, text, file = message["level"], message["message"], message.get("path")
        except (ValueError, KeyError, TypeError):
            # The command line is wrong.
            level, text, file = "error", line, None
        annotate(level if level in ("error", "warning") else "notice", text, file)
    return done.returncode, done.stdout.decode(errors="replace")


def summarize(markdown: str) -> None:
    """Appends tables to the summary of the job."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    room = SUMMARY_MAX - (os.path.getsize(path) if os.path.exists(path) else 0)
    data = markdown.encode()
    if len(data) > room:
        end = data.rfind(b"\n", 0, max(room, 0)) + 1
        data = data[:end] + b"\nThe summary is too long to be shown in full.\n"
    with open(path, "ab") as summary:
        summary.write(data)


def paths(patterns: str) -> list[str]:
    found: dict[str, None] = {}
    for pattern in filter(None, map(str.strip, patterns.splitlines())):
        matches = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern, recursive=True))
        if not matches:
            fail(f"no file matches '{pattern}'")
        found.update(dict.fromkeys(matches))
    return list(found)


def described(fault: dict[str, Any]) -> str:
    place = " > ".join(filter(None, [fault["member"], fault["section"]]))
    bundle = "" if fault["bundle"] is None else f"bundle {fault['bundle']}"
    offset = "" if fault["offset"] is None else f"at offset {fault['offset']}"
    where = ", ".join(filter(None, [place, " ".join(filter(None, [bundle, offset]))]))
    return f"{where}: {fault['text']}" if where else str(fault["text"])


def verify(files: list[str], expect: str, arguments: list[str]) -> int:
    if not {"-r", "--recursive"}.intersection(arguments):
        arguments = ["-r", *arguments]
    search = [word for word in arguments if word in ("-r", "--recursive", "--deep") or word.startswith("--max-size=")]
    # `verify` reports what cannot be read; once is enough.
    command = [find(), "inspect", "--summary", "--markdown", *search, "--", *files]
    summarize(subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout.decode())
    status, printed = run("verify", "--json", *([f"--expect={expect}"] if expect else []), *arguments, "--", *files)
    report: Any = json.loads(printed) if printed else {"files": [], "faults": []}
    for file in report["files"]:
        for fault in file["faults"]:
            annotate("error", described(fault), file["path"], fault["rule"])
        if file["more_faults"]:
            annotate("error", f"faults not listed: {file['more_faults']}", file["path"])
    for fault in report["faults"]:
        annotate("error", described(fault), fault["path"], fault["rule"])
    return status


def diff(old: str, new: str, conditions: str, arguments: list[str]) -> int:
    if not {"-r", "--recursive"}.intersection(arguments):
        arguments = ["-r", *arguments]
    status, printed = run(
        "diff", "--markdown", *([f"--fail-on={conditions}"] if conditions else []), *arguments, "--", old, new
    )
    summarize(printed)
    return status


def main() -> int:
    files, old, new, expect, conditions = (
        os.environ.get(name, "").strip() for name in ("FILES", "OLD", "NEW", "EXPECT", "FAIL_ON")
    )
    try:
        arguments = shlex.split(os.environ.get("ARGUMENTS", ""))
    except ValueError as error:
        fail(f"arguments: {error}")
    if old and new and not files and not expect:
        return diff(old, new, conditions, arguments)
    if files and not old and not new and not conditions:
        return verify(paths(files), expect, arguments)
    fail("expected either 'files', with or without 'expect', or 'old' and 'new', with or without 'fail-on'")


if __name__ == "__main__":
    sys.exit(main())
