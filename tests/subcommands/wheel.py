"""Writes wheels in all forms that Python can write, and compares recompressed wheels with the old ones.

    wheel.py write DIRECTORY LIBRARY    writes DIRECTORY/<form>.whl with LIBRARY in it, and prints the forms
    wheel.py compare OLD NEW...         fails unless all that may differ is the library and RECORD; prints what differs of
                                        each pair, a pair a line
    wheel.py version LABEL OLD NEW...   the same for NEW with a local version, whose names, METADATA and RECORD have it
"""

import base64
import csv
import hashlib
import io
import pathlib
import struct
import sys
import zipfile

INFO = "sample-1.0.dist-info"
RECORD = INFO + "/RECORD"
LIBRARY = "sample/lib.so"


def line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return [name, "sha256=" + digest, str(len(data))]


def record(files, end="\n"):
    out = io.StringIO()
    rows = csv.writer(out, lineterminator=end)
    rows.writerows(line(name, data) for name, data in files.items() if not name.endswith("/"))
    rows.writerow([RECORD, "", ""])
    return out.getvalue().encode()


class Stream(io.RawIOBase):
    """A file that cannot seek, so that sizes follow the data."""

    def __init__(self, file):
        self.file = file

    def writable(self):
        return True

    def write(self, data):
        return self.file.write(data)


def put(archive, files, method, wide=False, odd=False):
    for number, (name, data) in enumerate(files.items()):
        info = zipfile.ZipInfo(name, (1980 + number, 1 + number % 12, 2, 3, 4, 6))
        info.compress_type = method if not name.endswith("/") else zipfile.ZIP_STORED
        info.external_attr = (0o40755 if name.endswith("/") else 0o100644 | 0o111 * (number % 2)) << 16
        if odd:
            info.comment = b"comment of " + name.encode()
            info.extra = struct.pack("<HH5s", 0x5455, 5, b"\1\2\3\4\5") + struct.pack("<HH", 0xCAFE, 0)
        with archive.open(info, "w", force_zip64=wide) as out:
            out.write(data)


def write(directory, library):
    files = {
        "sample/": b"",
        "sample/__init__.py": b"x = 1\n" * 100,
        LIBRARY: library,
        'sample/a,"b" c.txt': b"hello",
        "sample-1.0.data/": b"",
        "sample-1.0.data/data/share/sample.txt": b"data",
        "sample/sample-1.0.dist-info/note.txt": b"not of this wheel",
        "sample/größe.txt": b"",
        "sample/_vendor/other-2.dist-info/RECORD": b"nothing,of,this\n",
        INFO + "/METADATA": b"Metadata-Version: 2.1\nName: sample\nVersion: 1.0\n",
        INFO + "/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: py3-none-any\n",
    }
    right = record(files)
    whole = {**files, RECORD: right}
    forms = {}

    def form(name, files, method=zipfile.ZIP_DEFLATED, stream=False, comment=b"", **options):
        path = directory / (name + ".whl")
        with open(path, "wb") as file:
            with zipfile.ZipFile(Stream(file) if stream else file, "w") as archive:
                put(archive, files, method, **options)
                archive.comment = comment
        forms[name] = path
        return path

    form("deflated", whole)
    form("stored", whole, zipfile.ZIP_STORED)
    form("zip64", whole, wide=True)
    form("stream", whole, stream=True)
    form("stream-stored", whole, zipfile.ZIP_STORED, stream=True)
    form("stream-zip64", whole, stream=True, wide=True)
    form("odd", whole, odd=True, comment=b"the comment of the file")
    form("odd-zip64", whole, odd=True, wide=True)
    form("record-first", {RECORD: right, **files})
    form("record-between", {**dict(list(files.items())[:2]), RECORD: right, **dict(list(files.items())[2:])})
    form("no-record", files)
    form("carriage-returns", {**files, RECORD: record(files, "\r\n")})
    form("wrong-hash", {**files, RECORD: right.replace(b"sha256=", b"sha256=A", 3)})
    form("wrong-algorithm", {**files, RECORD: right.replace(b"sha256=", b"md5=", 1)})
    form("missing-lines", {**files, RECORD: b"".join(right.splitlines(True)[2:4])})
    form("more-lines", {**files, RECORD: right + b"gone.txt,sha256=x,1\n\n"})
    form("empty-record", {**files, RECORD: b""})
    form("record-with-hash", {**files, RECORD: right.replace(b"RECORD,,", b"RECORD,sha256=x,7")})
    path = form("twice", whole)
    with zipfile.ZipFile(path, "a") as archive:
        put(archive, {"sample/__init__.py": b"the last one counts"}, zipfile.ZIP_DEFLATED)
    form("jws", {**whole, RECORD + ".jws": b"signature"})
    print("\n".join(forms))


def raw(data, info, end):
    """Local header, data and data descriptor of a member."""
    return data[info.header_offset : end]


def ends(archive, data):
    starts = sorted(info.header_offset for info in archive.infolist()) + [archive.start_dir]
    return dict(zip(starts, starts[1:]))


def extra(info):
    """The extra fields without that for large sizes."""
    fields, kept = info.extra, b""
    while len(fields) >= 4:
        number, length = struct.unpack_from("<HH", fields)
        kept += fields[: length + 4] if number != 1 else b""
        fields = fields[length + 4 :]
    return kept + fields


def versioned(text, label):
    """A name or METADATA of the sample with a local version, or as it is without a label."""
    if not label:
        return text
    for before, after in [("sample-1.0.dist-info/", "sample-1.0+%s.dist-info/"), ("sample-1.0.data/", "sample-1.0+%s.data/")]:
        if text.startswith(before):
            return text.replace(before, after % label, 1)
    return text


def compare(old_path, new_path, label=""):
    with zipfile.ZipFile(old_path) as old, zipfile.ZipFile(new_path) as new:
        assert new.testzip() is None
        assert new.comment == old.comment
        before, after = pathlib.Path(old_path).read_bytes(), pathlib.Path(new_path).read_bytes()
        old_ends, new_ends = ends(old, before), ends(new, after)
        assert len(old.infolist()) == len(new.infolist())
        changed = []
        for one, two in zip(old.infolist(), new.infolist()):
            assert two.filename == versioned(one.filename, label), two.filename
            for field in ("date_time", "compress_type", "comment", "create_system", "external_attr", "internal_attr"):
                assert getattr(one, field) == getattr(two, field), (one.filename, field)
            assert extra(one) == extra(two), one.filename
            is_same = old.read(one) == new.read(two)
            if label and one.filename == INFO + "/METADATA":
                expected = old.read(one).replace(b"Version: 1.0\n", b"Version: 1.0+%s\n" % label.encode())
                assert new.read(two) == expected and b"Metadata-Version: 2.1\n" in expected
            elif one.filename not in (LIBRARY, RECORD):
                one_raw, two_raw = raw(before, one, old_ends[one.header_offset]), raw(after, two, new_ends[two.header_offset])
                names = [info.filename.encode() for info in (one, two)]
                if label:
                    # The header has the length and the text of the name.
                    assert [data[26:28] for data in (one_raw, two_raw)] == [struct.pack("<H", len(name)) for name in names]
                    one_raw, two_raw = (
                        data[:26] + data[28 : 30] + data[30 + len(name) :] for data, name in zip((one_raw, two_raw), names)
                    )
                assert one_raw == two_raw, one.filename + " has changed"
            if not is_same:
                changed.append(one.filename)
        listed = versioned(RECORD, label)
        if listed in new.namelist():
            rows = [row for row in csv.reader(io.StringIO(new.read(listed).decode())) if row]
            names = {name for name in new.namelist() if not name.endswith("/")}
            assert {row[0] for row in rows} == names and len(rows) == len(names), rows
            for row in rows:
                assert row == (line(row[0], new.read(row[0])) if row[0] != listed else [listed, "", ""]), row
        print(" ".join(sorted(changed)))


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]).read_bytes())
    elif sys.argv[1] == "version":
        for old, new in zip(sys.argv[3::2], sys.argv[4::2]):
            compare(old, new, sys.argv[2])
    else:
        for old, new in zip(sys.argv[2::2], sys.argv[3::2]):
            compare(old, new)
