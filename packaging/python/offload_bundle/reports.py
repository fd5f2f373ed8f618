"""The reports of `offload-bundle`: a class for each object in its JSON documents. Sizes and offsets are in bytes.

Made from the JSON schemas by `packaging/python/generate.py`: change these, not this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from ._decode import Report


@dataclass(frozen=True)
class CodeObject:
    """A code object."""
    bundle: int
    """The number of the bundle among those at the same place (path, origin, member, section), counted from 0."""
    bundle_offset: int
    """The offset of the bundle from the start of the file, or from the start of the innermost inflated data, such as a
    deflated member of a zip file.
    """
    bundle_size: int
    """The size of the bundle, as it is stored: compressed, if it is. For code objects in a kpack archive, the size of
    the archive.
    """
    compressed: Optional[Compressed]
    """The compression of the bundle or, in a fatbin or kpack archive, of the code object. Null if it is not compressed."""
    container: str
    """The format that contains the code object. `bundle` is a binary bundle, plain or compressed; `code object` is a GPU
    ELF file without a bundle.
    """
    entry_id: str
    """The bundle entry ID as recorded; for a code object without a bundle, triple and target ID. Control characters, and
    all bytes of an ID that is not UTF-8, are escaped as in C.
    """
    has_parts: bool
    """Whether it is a container itself whose code objects are listed too, such as an archive of device binaries. Sums of
    sizes leave it out.
    """
    image_kind: str
    """The kind of the content, by its first bytes. Null if too little of a compressed bundle was inflated (`--inflate`
    inflates all of it).
    """
    inflated_offset: Optional[int]
    """The offset of the code object from the start of the inflated bundle or, in a fatbin, of the data that is
    compressed together. Null if it is not compressed, or in several pieces.
    """
    kind: str
    """The offload kind in the entry ID. Null if the ID is not valid, and for a code object without a bundle."""
    member: Optional[str]
    """The member of an archive, zip file or package; names of nested members are joined by slashes. For code in a kpack
    archive, its binary key (`lib/librocrand.so.1#0`). Null outside archives.
    """
    offset: Optional[int]
    """The offset of the code object from the start of the file, which is `origin` if that is not null. Null if its bytes
    are not in the file as they are: in a compressed bundle, in a deflated member, in bitcode, in several pieces, or
    if the code object is compressed in a fatbin or kpack archive.
    """
    origin: Optional[str]
    """The file with the bytes, if that is another one: a member of a thin archive, or a kpack archive to which a library
    refers. Otherwise null.
    """
    path: str
    """The path of the file, as named on the command line or found in a directory. Bytes that are not UTF-8 are replaced
    by U+FFFD, so such a path cannot be opened; `uri` has every byte.
    """
    ptx_version: Optional[str]
    """The version of PTX, such as `8.7`. Null for other code, and if too little of a compressed bundle was inflated."""
    recorded_target_id: Optional[str]
    """The target ID that the code object records, as ELF files for GPUs do. Null if it records none, or if too little of
    a compressed bundle was inflated (`--inflate` inflates all of it).
    """
    section: Optional[str]
    """The section, such as `.hip_fatbin`; the innermost of nested ones. Null outside sections."""
    size: int
    """The inflated size of the code object."""
    source: Optional[str]
    """The name of the source file, if a fatbin records it, otherwise null. A name of more than 200 characters is cut and
    ends in `...`.
    """
    stored_size: Optional[int]
    """The size of the code object, as it is stored in its bundle. Code objects of a fatbin that are compressed together
    each have a share by their size. Null if the bundle is compressed as a whole.
    """
    target_id: Optional[str]
    """The target ID in the entry ID: processor and features, such as `gfx90a:xnack+`; if it has none, the processor that
    its triple names, such as `gfx942` for `amdgpu9.42-amd-amdhsa`. Null if neither is there.
    """
    triple: Optional[str]
    """The target triple in the entry ID, without dashes at its end. Null if the ID is not valid."""
    uri: Optional[str]
    """`file://<absolute path>#offset=<n>&size=<n>`, as ROCm's debuggers and profilers name code objects. In a compressed
    bundle, offset and size are those of the bundle, and `&inflated-offset=<n>&inflated-size=<n>` follow. If data on
    the way had to be inflated, a field `member=<name>&` for each step to it (a member, a section or a bundle entry;
    `member=<name>;<n>` for the n-th of that name) is before `offset`, which counts from the start of the inflated
    data. For a code object that is compressed on its own, as in a fatbin, its entry is the last step. Null if the
    code object is in several pieces, if its compression is not known, or if its end is found only by inflating
    (`inspect --inflate`).
    """


@dataclass(frozen=True)
class Compressed:
    """The compression of a bundle or of a code object."""
    format_version: int
    """The version of the header: 1, 2 or 3 of a compressed bundle, 3 of an offload binary, 1 of a fatbin."""
    inflated_size: int
    """The inflated size that the header records: of the bundle or, in a fatbin, of the data that is compressed together."""
    method: str
    """The method."""


@dataclass(frozen=True)
class Copies:
    """A member of a zip file with device code, and its copies."""
    copies: list[str]
    """The members after the first one that have the same bytes as it."""
    member: str
    """The first of several members with the same bytes."""
    size: int
    """The inflated size of the copies together, in bytes."""
    stored_size: int
    """The stored size of the copies together, in bytes. A wheel without them is smaller by this."""


@dataclass(frozen=True)
class Directory:
    """A directory whose files serve GPUs together."""
    coverage: Optional[list[ServedGpu]]
    """For each GPU that they have code for, in the order of their names: whether they serve it, as one bundle. Null if
    there are too many to compare.
    """
    files: int
    """The number of files in it that are code objects, bundles or fatbins themselves."""
    member: Optional[str]
    """The directory in the package. Null on disk, and for files at the top of a package."""
    path: str
    """The path of the directory on disk, or of the package. Names of GPUs in it are replaced by `*`: directories that
    differ only in them are one.
    """


@dataclass(frozen=True)
class File:
    """A file."""
    bundles: int
    """The number of bundles that a program may load from the file. Offload binaries at one place count as one bundle for
    each source file, and so does the code that one wrapper of a split library loads from kpack archives. Files of a
    directory in a package that are code objects, bundles or fatbins themselves count as one together, and so does a
    file that is one. All device images of a library count as one. Other code objects without a bundle are not
    counted.
    """
    code_objects: list[CodeObject]
    """The code objects in file order, including host code and empty ones."""
    copies: list[Copies]
    """The members of zip files with device code that have the same bytes as other members, such as links to a library
    that became files in a wheel.
    """
    coverage: Optional[list[ServedGpu]]
    """For each GPU that a bundle has code for, in the order of their names, PTX and SPIR-V last: the number of bundles
    that serve it, with code that a runtime loads there. Null if there are too many GPUs and bundles to compare.
    """
    kpack_references: list[Reference]
    """The references of split ROCm libraries to the kpack archives with their device code."""
    needs: list[Need]
    """What a machine needs to read the code, one of each kind: for the newest PTX, for code in CUDA fatbins that is
    compressed with zstd, and for compressed bundles.
    """
    path: str
    """The path as named on the command line, or as found in a directory. Bytes that are not UTF-8 are replaced by
    U+FFFD, so such a path cannot be opened; `uri` has every byte.
    """
    size: int
    """The size of the file in bytes."""
    unread: list[Unread]
    """Parts that are recognised but not read, in file order: device code in other formats, and archives that may contain
    some.
    """


@dataclass(frozen=True)
class LibraryCoverage:
    """A library, program, object or archive with device code, or the files of a directory that serve GPUs together."""
    bundles: int
    """The number of bundles of the library."""
    coverage: Optional[list[ServedGpu]]
    """The number of bundles of this library that serve each GPU. The list has the GPUs that any library has code for, in
    the order of their names, PTX and SPIR-V last, without those of vendors that this library has no code for. Null if
    the library has no bundles, or if there are too many GPUs and bundles to compare.
    """
    member: Optional[str]
    """The member of an archive, zip file or package; names of nested members are joined by slashes. Null outside
    archives.
    """
    path: str
    """The path of the file, or of the directory."""


@dataclass(frozen=True)
class Need:
    """Code that older drivers or runtimes do not read, and what it needs."""
    code: str
    """The code: `PTX 9.5`."""
    needs: str
    """What it needs: `a driver of CUDA 13.5 or newer, to compile for GPUs without machine code`."""


@dataclass(frozen=True)
class Reference:
    """A reference of a split ROCm library to the kpack archives with its device code."""
    archives: Optional[list[str]]
    """The canonical paths of the archives that exist. Null if they were not searched: with `--no-follow`, with
    `ROCM_KPACK_DISABLE`, and for libraries inside other files.
    """
    kernel_name: str
    """The name of the library in the archives: its path in the tree in which it was built."""
    member: Optional[str]
    """The library, if it is a member of an archive or zip file. Null outside archives."""
    search_paths: list[str]
    """The paths of the archives, relative to the directory of the library. `@GFXARCH@` is replaced by a target ID."""


@dataclass(frozen=True)
class ServedGpu:
    """A GPU, and how many bundles serve it."""
    bundles: int
    """The number of bundles that should: those for GPUs of its vendor, and those whose vendor is unknown."""
    gpu: str
    """The name of the GPU: a target ID, or an architecture of NVIDIA's. `compute_90` means all GPUs of compute
    capability 9.0 or later, which compile PTX.
    """
    jit: int
    """The number of bundles that serve it only with code which is compiled when the program starts (JIT): PTX or SPIR-V."""
    products: list[str]
    """Products with this GPU, the best known first."""
    serving: int
    """The number of bundles that serve it."""


@dataclass(frozen=True)
class Unread:
    """A part that is recognised but not read."""
    is_device_code: bool
    """Whether it certainly contains device code. A compressed archive, for example, may contain anything."""
    member: Optional[str]
    """The member of an archive, zip file or package; names of nested members are joined by slashes. For code in a kpack
    archive, its binary key (`lib/librocrand.so.1#0`). Null outside archives.
    """
    offset: int
    """Its offset from the start of the file, or from the start of the innermost inflated data, such as a deflated member
    of a zip file.
    """
    section: Optional[str]
    """The section, such as `.hip_fatbin`; the innermost of nested ones. Null outside sections."""
    what: str
    """The format, for people, such as `7-Zip archive`."""


@dataclass(frozen=True)
class InspectReport(Report):
    """The GPU code objects in files. All offsets and sizes are in bytes. The document is UTF-8. Control characters in
    strings, and characters that change the direction of text, are written as `\\u` escapes. A later release may add
    fields without changing `version`; `version` changes when a field is removed or changes its meaning.
    """
    directories: list[Directory]
    """The directories with files that are code objects, bundles or fatbins themselves, such as those of rocBLAS. A
    program needs one of these files for its GPU, so they are one set.
    """
    files: list[File]
    """The files that could be opened: in the order of the command line, those of a directory by name. Files without
    device code are included.
    """
    libraries: Optional[list[LibraryCoverage]]
    """With `--matrix`: the libraries in the files, in the natural order of their names, each with the number of its
    bundles that serve each GPU. Otherwise null.
    """
    problems: list[str]
    """Files and parts that could not be read, and that there was nothing to judge, as sentences for people. If there are
    any, the exit status is 1; everything else is reported nevertheless.
    """
    version: int
    """The version of this format."""


@dataclass(frozen=True)
class Written:
    """A file that was written."""
    bundle: int
    """The number of the bundle among those at the same place (path, origin, member, section), counted from 0."""
    bundle_offset: int
    """The offset of the bundle from the start of the file, or from the start of the innermost inflated data, such as a
    deflated member of a zip file.
    """
    bundle_size: int
    """The size of the bundle, as it is stored: compressed, if it is. For code objects in a kpack archive, the size of
    the archive.
    """
    compressed: Optional[Compressed]
    """The compression of the bundle or, in a fatbin or kpack archive, of the code object. Null if it is not compressed."""
    container: str
    """The format that contains the code object. `bundle` is a binary bundle, plain or compressed; `code object` is a GPU
    ELF file without a bundle.
    """
    entry_id: str
    """The bundle entry ID as recorded; for a code object without a bundle, triple and target ID. Control characters, and
    all bytes of an ID that is not UTF-8, are escaped as in C.
    """
    file: str
    """The file that was written or, with `--dry-run`, would be written. Bytes that are not UTF-8, which the name of the
    directory may have, are replaced by U+FFFD.
    """
    has_parts: bool
    """Whether it is a container itself whose code objects are listed too, such as an archive of device binaries. Sums of
    sizes leave it out.
    """
    image_kind: str
    """The kind of the content, by its first bytes. Null if too little of a compressed bundle was inflated (`--inflate`
    inflates all of it).
    """
    inflated_offset: Optional[int]
    """The offset of the code object from the start of the inflated bundle or, in a fatbin, of the data that is
    compressed together. Null if it is not compressed, or in several pieces.
    """
    kind: str
    """The offload kind in the entry ID. Null if the ID is not valid, and for a code object without a bundle."""
    member: Optional[str]
    """The member of an archive, zip file or package; names of nested members are joined by slashes. For code in a kpack
    archive, its binary key (`lib/librocrand.so.1#0`). Null outside archives.
    """
    offset: Optional[int]
    """The offset of the code object from the start of the file, which is `origin` if that is not null. Null if its bytes
    are not in the file as they are: in a compressed bundle, in a deflated member, in bitcode, in several pieces, or
    if the code object is compressed in a fatbin or kpack archive.
    """
    origin: Optional[str]
    """The file with the bytes, if that is another one: a member of a thin archive, or a kpack archive to which a library
    refers. Otherwise null.
    """
    path: str
    """The path of the file, as named on the command line or found in a directory. Bytes that are not UTF-8 are replaced
    by U+FFFD, so such a path cannot be opened; `uri` has every byte.
    """
    ptx_version: Optional[str]
    """The version of PTX, such as `8.7`. Null for other code, and if too little of a compressed bundle was inflated."""
    recorded_target_id: Optional[str]
    """The target ID that the code object records, as ELF files for GPUs do. Null if it records none, or if too little of
    a compressed bundle was inflated (`--inflate` inflates all of it).
    """
    section: Optional[str]
    """The section, such as `.hip_fatbin`; the innermost of nested ones. Null outside sections."""
    sha256: str
    """The SHA-256 of the bytes of the file, in lower-case hexadecimal digits."""
    size: int
    """The inflated size of the code object."""
    source: Optional[str]
    """The name of the source file, if a fatbin records it, otherwise null. A name of more than 200 characters is cut and
    ends in `...`.
    """
    stored_size: Optional[int]
    """The size of the code object, as it is stored in its bundle. Code objects of a fatbin that are compressed together
    each have a share by their size. Null if the bundle is compressed as a whole.
    """
    target_id: Optional[str]
    """The target ID in the entry ID: processor and features, such as `gfx90a:xnack+`; if it has none, the processor that
    its triple names, such as `gfx942` for `amdgpu9.42-amd-amdhsa`. Null if neither is there.
    """
    triple: Optional[str]
    """The target triple in the entry ID, without dashes at its end. Null if the ID is not valid."""
    uri: Optional[str]
    """`file://<absolute path>#offset=<n>&size=<n>`, as ROCm's debuggers and profilers name code objects. In a compressed
    bundle, offset and size are those of the bundle, and `&inflated-offset=<n>&inflated-size=<n>` follow. If data on
    the way had to be inflated, a field `member=<name>&` for each step to it (a member, a section or a bundle entry;
    `member=<name>;<n>` for the n-th of that name) is before `offset`, which counts from the start of the inflated
    data. For a code object that is compressed on its own, as in a fatbin, its entry is the last step. Null if the
    code object is in several pieces, if its compression is not known, or if its end is found only by inflating
    (`inspect --inflate`).
    """


@dataclass(frozen=True)
class ExtractReport(Report):
    """The files that were written, and the code objects in them. There is no document if nothing was written. All
    offsets and sizes are in bytes. The document is UTF-8. Control characters in strings, and characters that change
    the direction of text, are written as `\\u` escapes. A later release may add fields without changing `version`;
    `version` changes when a field is removed or changes its meaning.
    """
    code_objects: list[Written]
    """The files that were written, in the order of the files that they are from."""
    problems: list[str]
    """Files and parts that could not be read, and that there was nothing to judge, as sentences for people. If there are
    any, the exit status is 1; everything else is reported nevertheless.
    """
    version: int
    """The version of this format."""


@dataclass(frozen=True)
class Argument:
    """An argument of a kernel."""
    kind: Optional[str]
    """The kind, as AMD's metadata names it: `by_value`, `global_buffer`, or a name that begins with `hidden_` for
    arguments that the runtime adds, such as `hidden_hostcall_buffer`. Null for NVIDIA GPUs.
    """
    name: Optional[str]
    """The name in the source, which clang records for OpenCL C with `-cl-kernel-arg-info`. Null if it is not recorded."""
    offset: Optional[int]
    """The offset among the arguments."""
    size: Optional[int]
    """The size."""


@dataclass(frozen=True)
class Failure:
    """A condition of `--fail-on` that is met."""
    condition: str
    """The condition: `lost-gpu`, `spill`, `size` or `total` of `diff`; `spill`, `scratch`, `hostcall` or a limit such as
    `vgpr>128` of `kernels`.
    """
    reason: str
    """The reason, as a sentence for people. For `kernels`, it has the number of kernels, and the first of them with the
    URIs of their code objects.
    """


@dataclass(frozen=True)
class KernelRow:
    """A kernel."""
    agprs: Optional[int]
    """The number of accumulation vector registers of a work-item."""
    bundle: int
    """The number of the bundle among those at the same place (path, origin, member, section), counted from 0."""
    code_size: Optional[int]
    """The size of the code in bytes, without functions that it calls."""
    constant_bank: Optional[int]
    """The size of NVIDIA's constant bank 0 in bytes, which holds the arguments after values of the driver."""
    container: str
    """The format that contains the code object. `bundle` is a binary bundle, plain or compressed; `code object` is a GPU
    ELF file without a bundle.
    """
    dynamic_stack: Optional[bool]
    """Whether the stack may grow beyond scratch: only for AMD GPUs."""
    entry_id: str
    """The bundle entry ID as recorded; for a code object without a bundle, triple and target ID. Control characters, and
    all bytes of an ID that is not UTF-8, are escaped as in C.
    """
    hostcall: Optional[bool]
    """Whether it needs a thread of the host that serves calls, such as `printf`: it has an argument of the kind
    `hidden_hostcall_buffer`. Only for AMD GPUs.
    """
    kernarg: Optional[int]
    """The size of the arguments in bytes."""
    lds: Optional[int]
    """The memory in bytes that a workgroup shares, without additions by a launch: AMD's group segment, NVIDIA's shared
    memory.
    """
    mangled_name: str
    """The name as the code object records it. Bytes that are not printable are escaped. A name of more than 16,384 bytes
    is cut and ends in `...`.
    """
    max_workgroup: Optional[int]
    """The maximum number of work-items in a workgroup."""
    member: Optional[str]
    """The member of an archive, zip file or package; names of nested members are joined by slashes. For code in a kpack
    archive, its binary key (`lib/librocrand.so.1#0`). Null outside archives.
    """
    name: str
    """The name, demangled if it is mangled by the Itanium C++ ABI. A name of more than 16,384 characters is cut and ends
    in `...`.
    """
    origin: Optional[str]
    """The file with the bytes, if that is another one: a member of a thin archive, or a kpack archive to which a library
    refers. Otherwise null.
    """
    path: str
    """The path of the file, as named on the command line or found in a directory."""
    scratch: Optional[int]
    """The scratch memory of a work-item in bytes, without additions by calls at run time: AMD's private segment; for
    NVIDIA GPUs the stack of a thread, which linking determines.
    """
    section: Optional[str]
    """The section, such as `.hip_fatbin`; the innermost of nested ones. Null outside sections."""
    sgpr_spills: Optional[int]
    """The number of spilled scalar registers."""
    sgprs: Optional[int]
    """The number of scalar registers of a wavefront."""
    target_id: str
    """The target ID, such as `gfx90a:xnack-` or `sm_90`: of the bundle entry ID or, if that has none, as the code object
    records it. Otherwise the triple or the bundle entry ID.
    """
    uri: Optional[str]
    """The URI of the code object, as in the report of `inspect`."""
    vgpr_spills: Optional[int]
    """The number of spilled vector registers."""
    vgprs: Optional[int]
    """The number of vector registers of a work-item; for NVIDIA GPUs, the registers of a thread. On AMD GPUs that
    allocate vector and accumulation registers together (gfx90a and later), compilers count both here.
    """
    arguments: Optional[list[Argument]] = None
    """The arguments in their order, if they were asked for."""


@dataclass(frozen=True)
class NotJudged:
    """A condition of `--fail-on` that did not judge some kernels."""
    condition: str
    """The condition: `spill`, `scratch`, `hostcall` or a limit such as `vgpr>128`."""
    kernels: int
    """The number of kernels that it did not judge."""
    of: int
    """The number of all kernels that the conditions apply to."""


@dataclass(frozen=True)
class OtherCode:
    """Code objects without registers, of one kind."""
    code_objects: int
    """The number of code objects of this kind."""
    image_kind: str
    """The kind of the content, as in the report of `inspect`."""


@dataclass(frozen=True)
class KernelsReport(Report):
    """The kernels in files, and the registers and memory that they take. A number that a code object does not record is
    null. All offsets and sizes are in bytes. The document is UTF-8. Control characters in strings, and characters
    that change the direction of text, are written as `\\u` escapes. A later release may add fields without changing
    `version`; `version` changes when a field is removed or changes its meaning.
    """
    failures: list[Failure]
    """The conditions of `--fail-on` that are met. The exit status is 1 if there are any."""
    kernels: list[KernelRow]
    """The kernels that match `--target`, `--name` and `--hostcall`: in the order of the files and their code objects, or
    of `--sort`.
    """
    not_judged: list[NotJudged]
    """The conditions of `--fail-on` that did not judge some of the kernels, because the code does not record the number.
    If a condition judged none, that is a problem.
    """
    others: list[OtherCode]
    """The numbers of code objects that match `--target` but have no registers yet, because they are code for a virtual
    machine.
    """
    problems: list[str]
    """Files and parts that could not be read, and that there was nothing to judge, as sentences for people. If there are
    any, the exit status is 1; everything else is reported nevertheless.
    """
    version: int
    """The version of this format."""


@dataclass(frozen=True)
class CodeObjectChange:
    """A code object that differs."""
    change: str
    """Whether it is in both files (`changed`), only in the new one (`added`) or only in the old one (`removed`)."""
    new: Optional[Version]
    """The one in the new file. Null if it was removed."""
    old: Optional[Version]
    """The one in the old file. Null if it was added."""
    target_id: str
    """The target ID in the bundle entry ID, such as `gfx90a:xnack-` or `sm_90`. Otherwise the triple or the bundle entry
    ID.
    """


@dataclass(frozen=True)
class ComparedFile:
    """Two files whose code objects differ."""
    code_objects: list[CodeObjectChange]
    """The code objects that differ: changed and removed ones in the order of the old file, then added ones in the order
    of the new file.
    """
    kernels: list[KernelChange]
    """The kernels in these that differ in a number, or are in one file only; none for GPUs that only one of the files
    has code for. The ones that got worse are first: by spills, then scratch memory, registers, shared memory and code
    size. `--top` limits their number in each file.
    """
    new: Optional[str]
    """The path of the new file. Null if there is none."""
    old: Optional[str]
    """The path of the old file. Null if there is none."""
    path: str
    """The path below the directories, or that of the new file."""


@dataclass(frozen=True)
class Counts:
    """The numbers of code objects or kernels that are equal and that differ."""
    added: int
    """The number only in the new one."""
    changed: int
    """The number in both that differ."""
    equal: int
    """The number of equal ones."""
    removed: int
    """The number only in the old one."""


@dataclass(frozen=True)
class GpuTotal:
    """The code objects for one GPU."""
    added: int
    """The number of code objects that are only in the new file."""
    changed: int
    """The number of code objects that are in both files, with different bytes."""
    new: Sizes
    """The code objects of the new file."""
    old: Sizes
    """The code objects of the old file."""
    presence: str
    """Whether there is code for the GPU only in the old one (`lost`), only in the new one (`gained`), or in both.
    `replaced`: only one has code of this name, but all bundles of the other serve the GPU with other code, such as
    that for its generic target.
    """
    removed: int
    """The number of code objects that are only in the old file."""
    target_id: str
    """The target ID in the bundle entry ID, such as `gfx90a:xnack-` or `sm_90`. Otherwise the triple or the bundle entry
    ID.
    """


@dataclass(frozen=True)
class Kernel:
    """A kernel, as its code object describes it. A number has no value if the code object does not record it. With the
    feature `serde`, the numbers are serialized.
    """
    agprs: Optional[int]
    """The number of accumulation vector registers of a work-item."""
    code_size: Optional[int]
    """The size of the code in bytes, without functions that it calls."""
    constant_bank: Optional[int]
    """The size of NVIDIA's constant bank 0 in bytes, which holds the arguments after values of the driver."""
    dynamic_stack: Optional[bool]
    """Whether the stack may grow beyond scratch: only for AMD GPUs."""
    hostcall: Optional[bool]
    """Whether it needs a thread of the host that serves calls, such as `printf`: it has an argument of the kind
    `hidden_hostcall_buffer`. Only for AMD GPUs.
    """
    kernarg: Optional[int]
    """The size of the arguments in bytes."""
    lds: Optional[int]
    """The memory in bytes that a workgroup shares, without additions by a launch: AMD's group segment, NVIDIA's shared
    memory.
    """
    max_workgroup: Optional[int]
    """The maximum number of work-items in a workgroup."""
    scratch: Optional[int]
    """The scratch memory of a work-item in bytes, without additions by calls at run time: AMD's private segment; for
    NVIDIA GPUs the stack of a thread, which linking determines.
    """
    sgpr_spills: Optional[int]
    """The number of spilled scalar registers."""
    sgprs: Optional[int]
    """The number of scalar registers of a wavefront."""
    vgpr_spills: Optional[int]
    """The number of spilled vector registers."""
    vgprs: Optional[int]
    """The number of vector registers of a work-item; for NVIDIA GPUs, the registers of a thread. On AMD GPUs that
    allocate vector and accumulation registers together (gfx90a and later), compilers count both here.
    """
    arguments: Optional[list[Argument]] = None
    """The arguments in their order, if they were asked for."""


@dataclass(frozen=True)
class KernelChange:
    """A kernel that differs."""
    bundle: int
    """The number of the bundle among those at the same place (path, origin, member, section), counted from 0."""
    change: str
    """Whether it is in both files (`changed`), only in the new one (`added`) or only in the old one (`removed`)."""
    container: str
    """The format that contains the code object. `bundle` is a binary bundle, plain or compressed; `code object` is a GPU
    ELF file without a bundle.
    """
    entry_id: str
    """The bundle entry ID as recorded; for a code object without a bundle, triple and target ID. Control characters, and
    all bytes of an ID that is not UTF-8, are escaped as in C.
    """
    mangled_name: str
    """The name as the code object records it. Bytes that are not printable are escaped. A name of more than 16,384 bytes
    is cut and ends in `...`.
    """
    member: Optional[str]
    """The member of an archive, zip file or package; names of nested members are joined by slashes. For code in a kpack
    archive, its binary key (`lib/librocrand.so.1#0`). Null outside archives.
    """
    name: str
    """The name, demangled if it is mangled by the Itanium C++ ABI. A name of more than 16,384 characters is cut and ends
    in `...`.
    """
    new: Optional[Kernel]
    """Its numbers in the new file. Null if it was removed."""
    old: Optional[Kernel]
    """Its numbers in the old file. Null if it was added."""
    origin: Optional[str]
    """The file with the bytes, if that is another one: a member of a thin archive, or a kpack archive to which a library
    refers. Otherwise null.
    """
    section: Optional[str]
    """The section, such as `.hip_fatbin`; the innermost of nested ones. Null outside sections."""
    spills_more: bool
    """Whether it spills more vector or more scalar registers than in the old file; for an added kernel, whether it
    spills.
    """
    target_id: str
    """The target ID in the bundle entry ID, such as `gfx90a:xnack-` or `sm_90`. Otherwise the triple or the bundle entry
    ID.
    """


@dataclass(frozen=True)
class LostGpu:
    """A GPU that fewer bundles of a library serve."""
    library: str
    """The library: the file, and in parentheses its member."""
    new: Served
    """How many bundles of the new library serve the GPU."""
    old: Served
    """How many bundles of the old library serve the GPU."""
    target_id: str
    """The target ID, such as `gfx90a:xnack-` or `sm_90`."""


@dataclass(frozen=True)
class Served:
    """The number of bundles that serve a GPU."""
    bundles: int
    """The number of bundles that should: those for GPUs of its vendor, and those whose vendor is unknown."""
    jit: int
    """The number of bundles that serve it only with code which is compiled when the program starts (JIT): PTX or SPIR-V."""
    serving: int
    """The number of bundles that serve it."""


@dataclass(frozen=True)
class Sizes:
    """The number of some code objects, and their sizes in bytes."""
    code_objects: int
    """The number of code objects."""
    size: int
    """The inflated size."""
    stored_size: int
    """The stored size. A code object in a compressed bundle has a share of that by its inflated size."""


@dataclass(frozen=True)
class Summary:
    """The numbers of code objects and kernels."""
    code_objects: Counts
    """The numbers of code objects."""
    equal_by_checksum: int
    """The number of code objects in members of zip files that are equal by their recorded checksum and size, and were
    read only once. 0 without `--trust-hashes`.
    """
    equal_by_hash: int
    """The number of code objects in compressed bundles that are equal by their recorded hash and size, and were not
    inflated. 0 without `--trust-hashes`.
    """
    kernels: Counts
    """The numbers of kernels in code objects that differ; `equal` are those whose numbers are the same."""


@dataclass(frozen=True)
class Version:
    """A code object of one of the files."""
    bundle: int
    """The number of the bundle among those at the same place (path, origin, member, section), counted from 0."""
    container: str
    """The format that contains the code object. `bundle` is a binary bundle, plain or compressed; `code object` is a GPU
    ELF file without a bundle.
    """
    entry_id: str
    """The bundle entry ID as recorded; for a code object without a bundle, triple and target ID. Control characters, and
    all bytes of an ID that is not UTF-8, are escaped as in C.
    """
    member: Optional[str]
    """The member of an archive, zip file or package; names of nested members are joined by slashes. For code in a kpack
    archive, its binary key (`lib/librocrand.so.1#0`). Null outside archives.
    """
    origin: Optional[str]
    """The file with the bytes, if that is another one: a member of a thin archive, or a kpack archive to which a library
    refers. Otherwise null.
    """
    section: Optional[str]
    """The section, such as `.hip_fatbin`; the innermost of nested ones. Null outside sections."""
    size: int
    """The inflated size."""
    stored_size: int
    """The stored size; in a compressed bundle, its share of that by its inflated size."""
    uri: Optional[str]
    """The URI, as in the report of `inspect`."""


@dataclass(frozen=True)
class DiffReport(Report):
    """The differences of the device code in two files or directories. Code objects with the same bytes are only counted.
    All offsets and sizes are in bytes. The document is UTF-8. Control characters in strings, and characters that
    change the direction of text, are written as `\\u` escapes. A later release may add fields without changing
    `version`; `version` changes when a field is removed or changes its meaning.
    """
    failures: list[Failure]
    """The conditions of `--fail-on` that are met. The exit status is 1 if there are any."""
    files: list[ComparedFile]
    """The files with code objects that differ: each file of a directory with the one of the same name in the other."""
    gpus: list[GpuTotal]
    """The GPUs of all code objects, by name."""
    losses: list[LostGpu]
    """The GPUs that fewer bundles of a library serve, with any code that a runtime loads there: all bundles did, or none
    does any longer.
    """
    new: str
    """The new file or directory."""
    old: str
    """The old file or directory."""
    problems: list[str]
    """Files and parts that could not be read, and that there was nothing to judge, as sentences for people. If there are
    any, the exit status is 1; everything else is reported nevertheless.
    """
    summary: Summary
    """The numbers of code objects and kernels."""
    version: int
    """The version of this format."""


@dataclass(frozen=True)
class Fault:
    """A fault."""
    bundle: Optional[int]
    """The number of the bundle among those at the same place (path, member, section), counted from 0. Null if the fault
    is not in a bundle.
    """
    gpu: Optional[str]
    """For `expected`, the GPU that the bundle, the library, the directory or the file does not serve; for `unexpected`,
    the GPU for which it has code. Null for other rules.
    """
    member: Optional[str]
    """The member of an archive, zip file or package; names of nested members are joined by slashes. For code in a kpack
    archive, its binary key (`lib/librocrand.so.1#0`). Null outside archives.
    """
    offset: Optional[int]
    """The offset of the bundle or, for `trailing`, of the bytes that do not belong there: from the start of the file, or
    from the start of the innermost inflated data, such as a deflated member of a zip file. Null if `bundle` is,
    except for `trailing`, and after a package that is compressed as a whole.
    """
    rule: str
    """The broken rule. `readable`: headers, ranges, sizes and hashes agree with the data, and wrappers point at fatbins,
    bundles or references to kpack archives. `trailing`: there is only padding between bundles, after them, and after
    packages. `entry-id`: every bundle entry ID is valid. `feature`: a processor has the features that its target ID
    sets. `duplicate`: no two entries of a bundle have the same ID. `conflict`: a feature is set in all entries for a
    processor, or in none. `overlap`: code objects do not overlap. `target`: an ELF file for a GPU is built for the
    target in its entry ID. `code-object`: headers, tables, symbols and notes of ELF files, SPIR-V and bitcode are in
    bounds and agree, PTX is complete, and next to code no entry for a device is empty or text; offsets in `text`
    count from the start of the code object. `loadable`: HIP runtimes can read a bundle of code objects for them, and
    load these: linked code has a section `.strtab`. `kpack`: the kpack archives of a split library have code for all
    of its wrappers or for none of them, for each target ID that they claim, and only code that is claimed and loaded.
    `expected`: with `--expect`, every bundle serves every GPU of the vendors for which it has entries, where offload
    binaries at one place are one bundle for each source file, and so do the files of a directory that are code
    objects, bundles or fatbins themselves, together; with `--expect-any`, every library serves it with any of its
    bundles; and each named file, and each package in a directory, serves it with some of its code. Code that the
    runtime does not find or load serves no GPU. `unexpected`: with `--expect-exactly`, all code is loaded for one of
    the GPUs. `compressed`: with `--compressed`, a bundle, fatbin or offload binary has at most that many bytes of
    plain code.
    """
    section: Optional[str]
    """The section, such as `.hip_fatbin`; the innermost of nested ones. Null outside sections."""
    source: Optional[str]
    """For these two rules, the source file of the bundle, if a CUDA fatbin or the symbol table of a library records it.
    Otherwise null.
    """
    text: str
    """The fault, as a sentence for people."""


@dataclass(frozen=True)
class FaultOfTree:
    """A fault that only several files show together."""
    bundle: Optional[int]
    """The number of the bundle among those at the same place (path, member, section), counted from 0. Null if the fault
    is not in a bundle.
    """
    gpu: Optional[str]
    """For `expected`, the GPU that the bundle, the library, the directory or the file does not serve; for `unexpected`,
    the GPU for which it has code. Null for other rules.
    """
    member: Optional[str]
    """The member of an archive, zip file or package; names of nested members are joined by slashes. For code in a kpack
    archive, its binary key (`lib/librocrand.so.1#0`). Null outside archives.
    """
    offset: Optional[int]
    """The offset of the bundle or, for `trailing`, of the bytes that do not belong there: from the start of the file, or
    from the start of the innermost inflated data, such as a deflated member of a zip file. Null if `bundle` is,
    except for `trailing`, and after a package that is compressed as a whole.
    """
    path: str
    """The file, or the directory of files, that the fault is reported for. Names of GPUs in the path of a directory are
    replaced by `*`: directories that differ only in them are one.
    """
    rule: str
    """The broken rule. `readable`: headers, ranges, sizes and hashes agree with the data, and wrappers point at fatbins,
    bundles or references to kpack archives. `trailing`: there is only padding between bundles, after them, and after
    packages. `entry-id`: every bundle entry ID is valid. `feature`: a processor has the features that its target ID
    sets. `duplicate`: no two entries of a bundle have the same ID. `conflict`: a feature is set in all entries for a
    processor, or in none. `overlap`: code objects do not overlap. `target`: an ELF file for a GPU is built for the
    target in its entry ID. `code-object`: headers, tables, symbols and notes of ELF files, SPIR-V and bitcode are in
    bounds and agree, PTX is complete, and next to code no entry for a device is empty or text; offsets in `text`
    count from the start of the code object. `loadable`: HIP runtimes can read a bundle of code objects for them, and
    load these: linked code has a section `.strtab`. `kpack`: the kpack archives of a split library have code for all
    of its wrappers or for none of them, for each target ID that they claim, and only code that is claimed and loaded.
    `expected`: with `--expect`, every bundle serves every GPU of the vendors for which it has entries, where offload
    binaries at one place are one bundle for each source file, and so do the files of a directory that are code
    objects, bundles or fatbins themselves, together; with `--expect-any`, every library serves it with any of its
    bundles; and each named file, and each package in a directory, serves it with some of its code. Code that the
    runtime does not find or load serves no GPU. `unexpected`: with `--expect-exactly`, all code is loaded for one of
    the GPUs. `compressed`: with `--compressed`, a bundle, fatbin or offload binary has at most that many bytes of
    plain code.
    """
    section: Optional[str]
    """The section, such as `.hip_fatbin`; the innermost of nested ones. Null outside sections."""
    source: Optional[str]
    """For these two rules, the source file of the bundle, if a CUDA fatbin or the symbol table of a library records it.
    Otherwise null.
    """
    text: str
    """The fault, as a sentence for people."""


@dataclass(frozen=True)
class Undefined:
    """The symbols that a code object needs and does not define: those without a definition in linked code for AMD GPUs,
    and functions that PTX calls.
    """
    bundle: int
    """The number of the bundle among those at the same place, counted from 0."""
    id: str
    """The bundle entry ID."""
    member: Optional[str]
    """The member of an archive, zip file or package; names of nested members are joined by slashes. For code in a kpack
    archive, its binary key (`lib/librocrand.so.1#0`). Null outside archives.
    """
    more_symbols: int
    """The number of further symbols."""
    offset: int
    """The offset of the bundle, as of a fault."""
    section: Optional[str]
    """The section, such as `.hip_fatbin`; the innermost of nested ones. Null outside sections."""
    symbols: list[str]
    """The names of the first 16 symbols."""


@dataclass(frozen=True)
class VerifiedFile:
    """A file."""
    bundles: int
    """The number of bundles that were checked: bundles, text bundles, fat objects and offload binaries."""
    code_objects: int
    """The number of code objects that were checked, including host code. Empty entries are not counted, and neither are
    containers in addition to the code objects in them.
    """
    expected: Optional[list[ServedGpu]]
    """For each expected GPU, in their order: the number of bundles of the file that should serve it, and of those that
    do. Null without expected GPUs, and if there are too many GPUs and bundles to compare.
    """
    faults: list[Fault]
    """The faults in file order, at most 10,000 of a file. Those about expected GPUs follow the others."""
    kpack_references: int
    """The number of references to kpack archives with the device code of split ROCm libraries."""
    more_faults: int
    """The number of faults that are not listed."""
    more_undefined: int
    """The number of code objects with undefined symbols that are not listed."""
    more_unread: int
    """The number of parts that are recognised but neither read nor listed."""
    path: str
    """The path as named on the command line, or as found in a directory. Bytes that are not UTF-8 are replaced by
    U+FFFD, so such a path cannot be opened.
    """
    unchecked: int
    """The number of code objects whose content could not be read, so that only their bundles were checked. The reasons
    are in `unread`.
    """
    undefined: list[Undefined]
    """The code objects that need symbols which they do not define, in file order, at most 10,000 of a file. Their
    runtimes do not load them, unless a program defines the symbols, which it can do for variables alone. Only with
    `--expect` is that a fault.
    """
    unread: list[Unread]
    """Parts that are recognised but not read, such as obfuscated code objects, in file order, at most 10,000 of a file."""
    without_bundle: int
    """The number of code objects without a bundle."""
    without_code: int
    """The number of code objects for devices that are text, in bundles that have nothing else for devices, such as
    bundles of assembly. Next to other code objects, text and empty entries are faults.
    """


@dataclass(frozen=True)
class VerifyTotal:
    """The sums over all files."""
    bundles: int
    """The number of bundles that were checked."""
    code_objects: int
    """The number of code objects that were checked, without empty entries."""
    faults: int
    """The number of faults, listed or not, and of expected GPUs that no file serves, which are in `problems`."""
    files: int
    """The number of files that were read."""
    kpack_references: int
    """The number of references to kpack archives."""
    unchecked: int
    """The number of code objects whose content could not be read, so that only their bundles were checked."""
    undefined: int
    """The number of code objects that need symbols which they do not define, listed or not."""
    unread: int
    """The number of parts that are recognised but not read, listed or not."""
    without_bundle: int
    """The number of code objects without a bundle."""
    without_code: int
    """The number of code objects for devices that are text."""


@dataclass(frozen=True)
class VerifyReport(Report):
    """Whether the device code in files is sound. All offsets and sizes are in bytes. The document is UTF-8. Control
    characters in strings, and characters that change the direction of text, are written as `\\u` escapes. A later
    release may add fields without changing `version`; `version` changes when a field is removed or changes its
    meaning.
    """
    faults: list[FaultOfTree]
    """The faults that only several files show together: between libraries and the kpack archives with their device code,
    and of directories whose files serve GPUs together.
    """
    files: list[VerifiedFile]
    """The files that could be checked: in the order of the command line, those of a directory by name. Files without
    device code are included.
    """
    problems: list[str]
    """Files and parts that could not be read, and that there was nothing to judge, as sentences for people. If there are
    any, the exit status is 1; everything else is reported nevertheless.
    """
    total: VerifyTotal
    """The sums over all files. If `bundles` and `code_objects` are 0, nothing was verified, and the exit status is 1
    unless `--allow-none` is given: `problems` says so.
    """
    version: int
    """The version of this format."""
