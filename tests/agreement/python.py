"""Asks the Python package `offload_bundle` about the files of `cases.json`, and prints answers that are not the expected ones."""

import json
import sys

import offload_bundle

wrong = 0


def same(case, question, got, expected):
    global wrong
    if got != expected:
        wrong += 1
        print(f"{question}: {case['tree']}\n  expected {expected}\n  got      {got}")


def leaf(library):
    return (library.member or library.path).rstrip("/").split("/")[-1]


with open("cases.json") as file:
    cases = json.load(file)
for case in cases:
    path, gpu, recursive = case["path"], case["gpu"], case["recursive"]
    given = path
    if case["bytes"]:
        with open(path, "rb") as file:
            given = file.read()
    report = offload_bundle.inspect(given, matrix=True, recursive=recursive)
    codes = [code for file in report.files for code in file.code_objects if code.kind != "host" and not code.has_parts]
    same(case, "inspect: code objects", len(codes), case["codes"])
    served = {leaf(library): {gpu.gpu: [gpu.serving, gpu.bundles] for gpu in library.coverage} for library in report.libraries}
    same(case, "inspect: libraries", served, case["libraries"])
    same(case, "verify", offload_bundle.verify(given, expect=gpu, recursive=recursive).ok, case["passes"])
    same(case, "verify: any", offload_bundle.verify(given, expect_any=gpu, recursive=recursive).ok, case["passes_any"])
    try:
        loaded = len(list(offload_bundle.extract(given, target=gpu, as_runtime=True, recursive=recursive)))
    except offload_bundle.Error as error:
        loaded = 0 if error.kind == "not_found" else error
    same(case, "extract", loaded, case["loaded"])
    if not case["bytes"]:
        report = offload_bundle.diff(path, path, fail_on="lost-gpu", recursive=recursive)
        same(case, "diff", (report.ok, report.summary.code_objects.equal), (True, case["codes"]))
    kernels = offload_bundle.kernels(given, recursive=recursive)
    same(case, "kernels", len(kernels.kernels) + sum(other.code_objects for other in kernels.others), case["codes"])
sys.exit(wrong > 0)
