#!/usr/bin/env python3
"""Writes `offload_bundle/reports.py`, the types of the JSON reports, from the schemas in `docs/`: `generate.py > FILE`."""

import json
import textwrap
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
SUBCOMMANDS = ["inspect", "extract", "kernels", "diff", "verify"]
HEAD = '''"""The reports of `offload-bundle`: a class for each object in its JSON documents. Sizes and offsets are in bytes.

Made from the JSON schemas by `packaging/python/generate.py`: change these, not this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from ._decode import Report
'''
SCALARS = {"string": "str", "integer": "int", "boolean": "bool", "null": "None"}


def main() -> None:
    classes: dict[str, str] = {}
    for subcommand in SUBCOMMANDS:
        schema = json.loads((DOCS / f"{subcommand}.schema.json").read_text())
        for name, definition in schema["$defs"].items():
            if "properties" in definition:
                add(classes, name, dataclass(name, definition, ""))
        report = f"{subcommand.capitalize()}Report"
        add(classes, report, dataclass(report, schema, "(Report)"))
    print("\n\n".join([HEAD, *classes.values()]), end="")


def add(classes: dict[str, str], name: str, text: str) -> None:
    """Objects of one name in several documents are of one class."""
    assert classes.setdefault(name, text) == text, f"the documents differ in what {name} is"


def dataclass(name: str, schema: dict[str, Any], bases: str) -> str:
    required = set(schema.get("required", []))
    lines = ["@dataclass(frozen=True)", f"class {name}{bases}:", *docstring(schema.get("description", ""))]
    # What may be absent has a default, and follows what has none.
    for field in sorted(schema["properties"], key=lambda field: (field not in required, field)):
        definition = schema["properties"][field]
        of_type = type_of(definition)
        lines += [f"    {field}: {of_type}"] if field in required else [f"    {field}: {optional(of_type)} = None"]
        lines += docstring(definition.get("description", ""))
    return "\n".join([*lines, ""])


def docstring(text: str) -> list[str]:
    if not text:
        return []
    lines = textwrap.wrap(text.replace("\\", "\\\\").replace('"', '\\"'), 114)
    if len(lines) == 1:
        return [f'    """{lines[0]}"""']
    return ['    """' + lines[0], *("    " + line for line in lines[1:]), '    """']


def type_of(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[1]
    if "const" in schema:
        return type(schema["const"]).__name__
    for key in ["anyOf", "oneOf"]:
        if key in schema:
            return union([type_of(part) for part in schema[key]])
    if isinstance(schema.get("type"), list):
        return union([type_of({**schema, "type": part}) for part in schema["type"]])
    if schema.get("type") == "array":
        return f"list[{type_of(schema['items'])}]"
    return "str" if "enum" in schema else SCALARS[schema["type"]]


def union(types: list[str]) -> str:
    types = sorted(set(types), key=types.index)
    [of_type] = [name for name in types if name != "None"]
    return of_type if "None" not in types else optional(of_type)


def optional(of_type: str) -> str:
    return of_type if of_type.startswith("Optional[") else f"Optional[{of_type}]"


if __name__ == "__main__":
    main()
