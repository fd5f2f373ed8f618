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

ROWS_MAX = 200
"""The largest number of files that have rows in the summary: first those with faults."""

PRODUCTS_MAX = 3
"""The largest number of products beside a GPU."""

BLANK = " \t\r\n"

RESERVED = {"", "expect", "fail-on", "h", "help", "json", "markdown", "message-format", "no-jit", "V", "version"}
"""Options that the action sets, options whose output it cannot read, and `--`, which ends the options."""


def annotate(level: str, message: str, file: Optional[str] = None, title: str = "") -> None:
    """Prints an annotation. Besides this, only the verdict is printed, which has no text from a file: GitHub would obey a line that
    looks like a command."""
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


def count(number: int, one: str) -> str:
    return f"{number:,} {one}" if number == 1 else f"{number:,} {one}s"


def markdown(text: str) -> str:
    """Returns Markdown that GitHub shows as this text in a cell of a table."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return re.sub(r"([\\`*_\[\]<>|~$&#:@!-])", r"\\\1", printable)


def with_products(gpu: dict[str, Any]) -> str:
    """Returns the name of a GPU, and in parentheses the best known of its products."""
    products = gpu["products"]
    names = [*products[:PRODUCTS_MAX], *(["…"] if len(products) > PRODUCTS_MAX else [])]
    return f"{gpu['gpu']} ({', '.join(names)})" if names else str(gpu["gpu"])


def served(gpu: dict[str, Any]) -> str:
    """Returns how many bundles of a file serve a GPU, as `inspect` writes it."""
    bundles, serving, jit = gpu["bundles"], gpu["serving"], gpu["jit"]
    # The names of PTX and SPIR-V say already that they are compiled when a program starts.
    if gpu["gpu"].startswith(("compute_", "amdgcnspirv")):
        jit = 0
    if bundles == 0:
        return "no code"
    by_jit = "" if jit == 0 else " by JIT" if jit == serving else f", {jit:,} by JIT"
    return f"{serving:,} of {bundles:,}{by_jit}"


def verdict_of(report: dict[str, Any], status: int) -> str:
    """Returns one line that has no text from a file."""
    total = report["total"]
    read = [count(total["files"], "file"), count(total["bundles"], "bundle"), count(total["code_objects"], "code object")]
    if total["faults"]:
        result = count(total["faults"], "fault")
    elif report["problems"]:
        result = count(len(report["problems"]), "error")
    else:
        result = "nothing wrong" if status == 0 else "failed"
    return f"{', '.join(read)}: {result}"


def table_of_files(report: dict[str, Any]) -> str:
    """Returns a row for each file with device code or faults, with a column for each expected GPU."""
    faults = {file["path"]: len(file["faults"]) + file["more_faults"] for file in report["files"]}
    for fault in report["faults"]:
        faults[fault["path"]] = faults.get(fault["path"], 0) + 1
    files = {file["path"]: file for file in report["files"]}
    gpus = next((file["expected"] for file in report["files"] if file["expected"]), [])
    shown = [path for path, number in faults.items() if number or files[path]["bundles"] or files[path]["code_objects"]]
    if not shown:
        return ""
    # Sorting is stable, so the files keep their order.
    shown.sort(key=lambda path: faults[path] == 0)
    titles = ["File", "Result", *(markdown(with_products(gpu)) for gpu in gpus)]
    rows = [titles, ["---", "---", *("--:" for _ in gpus)]]
    for path in shown[:ROWS_MAX]:
        result = f"**{count(faults[path], 'fault')}**" if faults[path] else "nothing wrong"
        of_file = files[path]["expected"] if path in files else None
        rows.append([markdown(path), result, *map(served, of_file or []), *([""] * (0 if of_file else len(gpus)))])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if len(shown) > ROWS_MAX:
        lines += ["", f"{count(len(shown) - ROWS_MAX, 'more file')} not shown"]
    return "\n".join(["", *lines, ""])


def verify(files: list[str], expect: str, no_jit: bool, arguments: list[str]) -> int:
    expected = [*([f"--expect={expect}"] if expect else []), *(["--no-jit"] if no_jit else [])]
    status, printed = run("verify", "--json", *expected, *arguments, "--", *files)
    if printed:
        report: Any = json.loads(printed)
        for file in report["files"]:
            for fault in file["faults"]:
                annotate("error", describe(fault), file["path"], fault["rule"])
            if file["more_faults"]:
                annotate("error", f"faults not listed: {file['more_faults']}", file["path"])
        for fault in report["faults"]:
            annotate("error", describe(fault), fault["path"], fault["rule"])
        verdict = verdict_of(report, status)
        print(verdict)
        # `verify` reports what cannot be read; once is enough.
        command = [find(), "inspect", "--summary", "--markdown", *search_arguments(arguments), "--", *files]
        tables = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout.decode()
        summarize(f"### {verdict}\n{table_of_files(report)}{tables}")
    return status


def diff(old: str, new: str, conditions: str, arguments: list[str]) -> int:
    status, printed = run(
        "diff", "--markdown", *([f"--fail-on={conditions}"] if conditions else []), *arguments, "--", old, new
    )
    summarize(printed)
    return status


def main() -> int:
    files, old, new, expect, no_jit, conditions = (
        os.environ.get(name, "").strip(BLANK) for name in ("FILES", "OLD", "NEW", "EXPECT", "NO_JIT", "FAIL_ON")
    )
    if no_jit not in ("", "true", "false"):
        fail(f"'no-jit' has to be true or false, and is '{no_jit}'")
    arguments = further_arguments(os.environ.get("ARGUMENTS", ""))
    if old and new and not files and not expect and no_jit != "true":
        return diff(only_match("old", old), only_match("new", new), conditions, arguments)
    if files and not old and not new and not conditions:
        return verify(paths_to_search(files), expect, no_jit == "true", arguments)
    fail("expected either 'files', with or without 'expect' and 'no-jit', or 'old' and 'new', with or without 'fail-on'")


if __name__ == "__main__":
    sys.exit(main())
