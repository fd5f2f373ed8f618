"""The program of action.yml: runs `verify` or `diff`, with annotations for faults and tables in the summary of the job."""

from __future__ import annotations

import glob
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator, NoReturn, Optional

from offload_bundle import find

SUMMARY_MAX = 1_000_000
"""GitHub refuses a summary of more than 1 MiB."""

BLANK = " \t\r\n"

RESERVED = {"", "expect", "fail-on", "h", "help", "json", "markdown", "message-format", "V", "version"}
"""Options that the action sets, options whose output it cannot read, and `--`, which ends the options."""


def annotate(level: str, message: str, file: Optional[str] = None, title: str = "") -> None:
    """Prints an annotation. Nothing else prints, because GitHub would obey a line from a file that looks like a command."""
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
    other = []
    # Other ends of lines, such as U+2028, may be in names.
    for line in done.stderr.decode(errors="replace").split("\n"):
        try:
            message: Any = json.loads(line)
            level, text, file = message["level"], message["message"], message.get("path")
        except (ValueError, KeyError, TypeError):
            other.append(line)
            continue
        annotate(level if level in ("error", "warning") else "notice", text, file)
    # If the command line is wrong, the lines are one message with hints, which is not JSON.
    text = "\n".join(other).strip()
    if text:
        annotate("error", text.split("error: ", 1)[-1])
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


def matching_paths(pattern: str) -> list[Path]:
    matches = [pattern] if os.path.lexists(pattern) else sorted(glob.glob(pattern, recursive=True))
    if not matches:
        fail(f"no file matches '{pattern}'")
    return list(dict.fromkeys(map(Path, matches)))


def only_match(name: str, pattern: str) -> str:
    matches = matching_paths(pattern)
    if len(matches) > 1:
        fail(f"'{name}' has to be one file or directory; {len(matches)} match '{pattern}', among them '{matches[0]}'")
    return str(matches[0])


def paths_to_search(patterns: str) -> list[str]:
    """Returns the files and directories to search, each once: without files in a directory of the list."""
    lines = filter(None, (line.strip(BLANK) for line in patterns.split("\n")))
    found = dict.fromkeys(path for line in lines for path in matching_paths(line))

    def is_searched(path: Path) -> bool:
        """Returns whether a path is in a directory of the list. A search does not follow symbolic links."""
        while ".." not in path.parts and not path.is_symlink() and path != path.parent:
            path = path.parent
            if path in found:
                return True
        return False

    return [str(path) for path in found if not is_searched(path)]


def further_arguments(words: str) -> list[str]:
    """Returns the words of the input `arguments`, with `-r`."""
    try:
        arguments = shlex.split(words)
    except ValueError as error:
        fail(f"arguments: {error}")
    for word in arguments:
        # `-json` is `--json`, and `-rh` is `-r -h`.
        name = word.lstrip("-").partition("=")[0]
        if word.startswith("-") and (name in RESERVED or re.fullmatch("-r*[hV].*", word)):
            fail(f"arguments: the action does not take '{word}'; it sets how to print, and has inputs for files and GPUs")
    return arguments if {"-r", "--recursive", "-recursive"}.intersection(arguments) else ["-r", *arguments]


def search_arguments(arguments: list[str]) -> Iterator[str]:
    """Returns the arguments that change the search, which `inspect` takes too."""
    for word, value in zip(arguments, [*arguments[1:], ""]):
        name, equals, _ = word.lstrip("-").partition("=")
        if word.startswith("-") and (name in ("r", "recursive", "deep") or (name == "max-size" and equals)):
            yield word
        elif word in ("--max-size", "-max-size"):
            yield f"--max-size={value}"


def describe(fault: dict[str, Any]) -> str:
    place = " > ".join(filter(None, [fault["member"], fault["section"]]))
    bundle = "" if fault["bundle"] is None else f"bundle {fault['bundle']}"
    offset = "" if fault["offset"] is None else f"at offset {fault['offset']}"
    where = ", ".join(filter(None, [place, " ".join(filter(None, [bundle, offset]))]))
    return f"{where}: {fault['text']}" if where else str(fault["text"])


def verify(files: list[str], expect: str, arguments: list[str]) -> int:
    # `verify` reports what cannot be read; once is enough.
    command = [find(), "inspect", "--summary", "--markdown", *search_arguments(arguments), "--", *files]
    summarize(subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout.decode())
    status, printed = run("verify", "--json", *([f"--expect={expect}"] if expect else []), *arguments, "--", *files)
    report: Any = json.loads(printed) if printed else {"files": [], "faults": []}
    for file in report["files"]:
        for fault in file["faults"]:
            annotate("error", describe(fault), file["path"], fault["rule"])
        if file["more_faults"]:
            annotate("error", f"faults not listed: {file['more_faults']}", file["path"])
    for fault in report["faults"]:
        annotate("error", describe(fault), fault["path"], fault["rule"])
    return status


def diff(old: str, new: str, conditions: str, arguments: list[str]) -> int:
    status, printed = run(
        "diff", "--markdown", *([f"--fail-on={conditions}"] if conditions else []), *arguments, "--", old, new
    )
    summarize(printed)
    return status


def main() -> int:
    files, old, new, expect, conditions = (
        os.environ.get(name, "").strip(BLANK) for name in ("FILES", "OLD", "NEW", "EXPECT", "FAIL_ON")
    )
    arguments = further_arguments(os.environ.get("ARGUMENTS", ""))
    if old and new and not files and not expect:
        return diff(only_match("old", old), only_match("new", new), conditions, arguments)
    if files and not old and not new and not conditions:
        return verify(paths_to_search(files), expect, arguments)
    fail("expected either 'files', with or without 'expect', or 'old' and 'new', with or without 'fail-on'")


if __name__ == "__main__":
    sys.exit(main())
