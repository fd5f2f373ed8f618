"""Tests of the Python package `offload_bundle`, from the top of the repository."""

import io
import os
import pickle
import shutil
import subprocess
import tempfile
import zipfile
from dataclasses import replace

import offload_bundle
from offload_bundle import Error, reports
from offload_bundle._decode import decode

BUNDLE = "fixtures/binary/llvm22-plain.bundle"
FATBIN = "fixtures/fatbin/plain.fatbin"
CUT = "fixtures/hostile/cut-in-header.bundle"


printed = subprocess.run([offload_bundle.find(), "--version"], check=True, capture_output=True, text=True).stdout
assert offload_bundle.__version__ == printed.split()[-1].rstrip(")"), printed


def raised(call, *arguments, **options) -> Error:
    try:
        call(*arguments, **options)
    except Error as error:
        return error
    raise AssertionError(f"{call.__name__} raised nothing")


def targets(report: reports.InspectReport) -> list:
    return [code.target_id for file in report.files for code in file.code_objects]


assert targets(offload_bundle.inspect(BUNDLE, FATBIN)) == [
    None, "gfx906", "gfx90a:sramecc+:xnack-", "compute_90", "sm_80", "sm_90",
]
with open(BUNDLE, "rb") as file:
    data = file.read()
for given in [data, io.BytesIO(data), open(BUNDLE, "rb")]:
    report = offload_bundle.inspect(given)
    assert report.ok and [file.path for file in report.files] == ["-"], report
    if not isinstance(given, bytes):
        given.close()
try:
    offload_bundle.inspect()
    raise AssertionError("no input")
except TypeError as error:
    assert str(error) == "inspect() needs at least one file", error
try:
    offload_bundle.inspect(data, data)
    raise AssertionError("two inputs of bytes")
except TypeError:
    pass

# A file that cannot be read raises an error, which has the report on the other files.
error = raised(offload_bundle.inspect, "missing", FATBIN)
assert (error.kind, error.path, error.offset) == ("io", "missing", None), error
assert isinstance(error.report, reports.InspectReport) and len(error.report.files) == 1 and not error.report.ok
error = raised(offload_bundle.inspect, CUT)
assert (error.kind, error.path, error.offset) == ("malformed", CUT, 24) and "entry count" in str(error)
assert raised(offload_bundle.kernels, BUNDLE, fail_on="nothing known").kind == "usage"
assert raised(offload_bundle.extract, BUNDLE, target="gfx9999").kind == "not_found"
# A name that looks like an option is a file.
assert raised(offload_bundle.inspect, "--each").path == "--each"

# Errors reach another process, as of a pool. Names end no lines of messages.
copy = pickle.loads(pickle.dumps(error))
assert (str(copy), copy.kind, copy.path) == (str(error), error.kind, error.path)
error = raised(offload_bundle.inspect, "missing", FATBIN)
copy = pickle.loads(pickle.dumps(error)).report
assert copy == error.report and copy.files and not copy.ok
with tempfile.TemporaryDirectory() as directory:
    odd = os.path.join(directory, "a\u2028b\x85c")
    shutil.copy(CUT, odd)
    error = raised(offload_bundle.inspect, odd)
    assert (error.kind, error.path) == ("malformed", odd), error
    # The sound files of a directory are extracted.
    shutil.copy(BUNDLE, directory)
    error = raised(offload_bundle.extract, directory)
    assert error.kind == "malformed" and [code.size for code in error.report.code_objects] == [22, 75]
    assert error.report.code_objects[0].read() == b"code object for gfx906"
    # A dash is the name of a file.
    here = os.getcwd()
    os.chdir(directory)
    shutil.copy("llvm22-plain.bundle", "-")
    assert len(targets(offload_bundle.inspect("-"))) == 3
    offload_bundle.recompress("llvm22-plain.bundle", "-", keep="gfx906")
    assert len(targets(offload_bundle.inspect("-"))) == 2
    os.chdir(here)
for wrong in [None, 1, [BUNDLE], io.StringIO("text")]:
    try:
        offload_bundle.inspect(wrong)
        raise AssertionError(f"{wrong!r} is an input")
    except TypeError:
        pass
assert len(targets(offload_bundle.inspect(BUNDLE))) == len(list(offload_bundle.extract(BUNDLE, target=[]))) + 1

# Faults are no errors.
report = offload_bundle.verify(BUNDLE, expect=["gfx906", "gfx1100"])
assert not report.ok and [fault.gpu for file in report.files for fault in file.faults] == ["gfx1100"]
assert offload_bundle.verify(BUNDLE, expect="gfx906").ok
assert not offload_bundle.verify(BUNDLE, compressed=8).ok and offload_bundle.verify(BUNDLE, compressed=True).ok

# The directory of extracted code objects is removed with the last of them.
codes = list(offload_bundle.extract(BUNDLE, target=["gfx906", "gfx90a*"]))
assert [code.target_id for code in codes] == ["gfx906", "gfx90a:sramecc+:xnack-"]
assert codes[0].read() == b"code object for gfx906" and codes[0].size == len(codes[0].read())
path = codes[1].file
codes = [replace(codes[0])]
assert os.path.exists(path) and codes[0].read()
codes.clear()
assert not os.path.exists(os.path.dirname(path))

with tempfile.TemporaryDirectory() as directory:
    smaller = os.path.join(directory, "smaller")
    assert "1 code object left out" in offload_bundle.recompress(BUNDLE, smaller, keep="gfx906")
    assert targets(offload_bundle.inspect(smaller)) == [None, "gfx906"]
    report = offload_bundle.diff(BUNDLE, smaller)
    assert (report.summary.code_objects.removed, report.ok) == (1, True)
    report = offload_bundle.diff(BUNDLE, smaller, fail_on="lost-gpu")
    assert not report.ok and [failure.condition for failure in report.failures] == ["lost-gpu"]
    error = raised(offload_bundle.recompress, "missing", smaller)
    assert (error.kind, error.path) == ("io", "missing") and targets(offload_bundle.inspect(smaller))

# A code object is taken out, changed and put back, also from bytes.
with tempfile.TemporaryDirectory() as directory:
    changed = shutil.copy(BUNDLE, directory)
    [code] = offload_bundle.extract(changed, target="gfx906")
    content = code.read().replace(b"gfx906", b"GFX906")
    assert "in place" in offload_bundle.replace(code.uri, content, force=True)
    assert next(offload_bundle.extract(changed, target="gfx906")).read() == content
    other = os.path.join(directory, "other")
    offload_bundle.replace(code.uri, code.file, output=other, force=True)
    with open(other, "rb") as file:
        assert file.read() == data
    assert raised(offload_bundle.replace, code.uri, os.path.join(directory, "missing")).kind == "io"
    # A wheel that no index has yet.
    wheel = os.path.join(directory, "sample-1.0-py3-none-any.whl")
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(BUNDLE, "sample/bundle")
        for name, content in [("METADATA", "Name: sample\nVersion: 1.0\n"), ("WHEEL", ""), ("RECORD", "")]:
            archive.writestr(f"sample-1.0.dist-info/{name}", content)
    assert "gfx906" in offload_bundle.recompress(wheel, directory, keep="gfx906", local_version="gfx906")
    new = os.path.join(directory, "sample-1.0+gfx906-py3-none-any.whl")
    assert targets(offload_bundle.inspect(new)) == [None, "gfx906"]
    # A page for a browser.
    page = os.path.join(directory, "page.html")
    assert offload_bundle.report(wheel, new, output=page, diff=True) is None
    with open(page) as file:
        assert "gfx90a" in file.read()
    assert raised(offload_bundle.report, "missing", output=page).kind == "io"
    # The coverage of each library in a wheel.
    [library] = offload_bundle.inspect(wheel, matrix=True).libraries
    assert (library.path, library.member, library.bundles) == (wheel, "sample/bundle", 1), library
    assert [(gpu.gpu, gpu.serving) for gpu in library.coverage] == [("gfx906", 1), ("gfx90a:sramecc+:xnack-", 1)], library

# Each kernel leads to its code object.
kernels = offload_bundle.kernels("fixtures/kernels", arguments=True).kernels
assert kernels, "no kernels"
for kernel in kernels:
    [code] = offload_bundle.extract(kernel.uri)
    assert code.read()
    assert code.uri in [found.uri for found in offload_bundle.extract("fixtures/kernels", kernel=[kernel.name, "fill*"])]

# Fields that a later release may add are left out.
assert decode(reports.Failure, {"condition": "size", "reason": "x", "more": 1}) == reports.Failure("size", "x")
