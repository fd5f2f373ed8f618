//! Reports as the executable prints them in JSON (feature `serde`). The comments of the fields are the descriptions in
//! `docs/*.schema.json`, which a unit test compares with these types; `BLESS=1` writes them again.
//!
//! Names and texts are safe to show on a terminal. Paths are not escaped; they have U+FFFD for bytes that are not
//! UTF-8.

mod code_object;
mod diff;
pub(crate) mod fields;
mod kernels;
mod place;
#[cfg(test)]
pub(crate) mod tests;
mod verify;

use std::borrow::Cow;

#[cfg(test)]
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use crate::beyond::inventory::{Contents, KpackReference, MemberCopies, ServedBundles, ServedDirectory, UnreadPart};
use crate::beyond::job::Extracted;
use crate::beyond::runtime::Device;
use crate::beyond::scan::{CodeObject, Place};
use fields::{serialized_as, shown};

pub(crate) use diff::{ComparedFile, Counts, DiffReport, DiffTotals, GpuTotal, KernelChange, LostGpu, Summary};
pub(crate) use kernels::{Failure, KernelRow, KernelsReport, NotJudged, OtherCode};
pub(crate) use verify::{FaultOfTree, VerifyReport, VerifyTotal};

serialized_as!(Contents => File, KpackReference => Reference, MemberCopies => Copies);

/// A report, with the fields that all reports have.
///
/// All offsets and sizes are in bytes. The document is UTF-8. Control characters in strings, and characters that change
/// the direction of text, are written as `\u` escapes. A later release may add fields without changing `version`;
/// `version` changes when a field is removed or changes its meaning.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Document<R, P> {
    /// The version of this format.
    version: u32,
    #[serde(flatten)]
    report: R,
    /// Files and parts that could not be read, and that there was nothing to judge, as sentences for people. If there
    /// are any, the exit status is 1; everything else is reported nevertheless.
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    problems: P,
}

/// A report of a subcommand.
pub(crate) trait Report: Serialize {
    /// The version of its document. Adding a field does not change it.
    const VERSION: u32 = 1;
}

impl<R: Report, P: Serialize> Document<R, P> {
    /// The document of a report.
    pub(crate) fn new(report: R, problems: P) -> Self {
        Self { version: R::VERSION, report, problems }
    }
}

/// The GPU code objects in files.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct InspectReport<F, D, L> {
    /// The files that could be opened: in the order of the command line, those of a directory by name. Files without
    /// device code are included.
    #[cfg_attr(test, schemars(with = "Vec<Contents>"))]
    pub files: F,
    /// The directories with files that are code objects, bundles or fatbins themselves, such as those of rocBLAS. A
    /// program needs one of these files for its GPU, so they are one set.
    #[cfg_attr(test, schemars(with = "Vec<Directory>"))]
    pub directories: D,
    /// With `--matrix`: the libraries in the files, in the natural order of their names, each with the number of its
    /// bundles that serve each GPU. Otherwise null.
    #[cfg_attr(test, schemars(with = "Option<Vec<LibraryCoverage>>"))]
    pub libraries: L,
}

impl<F: Serialize, D: Serialize, L: Serialize> Report for InspectReport<F, D, L> {}

/// A library, program, object or archive with device code, or the files of a directory that serve GPUs together.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct LibraryCoverage {
    /// The path of the file, or of the directory. Null for the libraries that are not told apart because there are too
    /// many.
    path: Option<String>,
    /// The member of an archive, zip file or package; names of nested members are joined by slashes. Null outside
    /// archives.
    member: Option<String>,
    /// The number of bundles of the library.
    bundles: usize,
    /// For each GPU that a bundle of any of the libraries has code for, by generation: the number of bundles of this
    /// one that serve it. GPUs of vendors that the library has no code for are left out. Null if the library has no
    /// bundles, or if there are too many GPUs and bundles to compare.
    coverage: Option<Vec<ServedGpu>>,
}

impl LibraryCoverage {
    pub(crate) fn new(
        path: Option<&str>,
        member: Option<&str>,
        bundles: usize,
        gpus: Option<Vec<(Device, ServedBundles)>>,
    ) -> Self {
        let [path, member] = [path, member].map(|name| name.map(str::to_owned));
        Self { path, member, bundles, coverage: gpus.map(ServedGpu::all) }
    }
}

/// A directory whose files serve GPUs together.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Directory {
    /// The path of the directory on disk, or of the package. Names of GPUs in it are replaced by `*`: directories that
    /// differ only in them are one.
    path: String,
    /// The directory in the package. Null on disk, and for files at the top of a package.
    member: Option<String>,
    /// The number of files in it that are code objects, bundles or fatbins themselves.
    files: usize,
    /// For each GPU that they have code for, by name: whether they serve it, as one bundle. Null if there are too many
    /// to compare.
    coverage: Option<Vec<ServedGpu>>,
}

impl Directory {
    pub(crate) fn new(ServedDirectory { place, files, gpus, .. }: ServedDirectory) -> Self {
        let path = shown(place.file()).into_owned();
        Self { path, member: place.member(), files, coverage: gpus.map(ServedGpu::all) }
    }
}

/// The files that were written, and the code objects in them. There is no document if nothing was written.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ExtractReport<'r> {
    /// The files that were written, in the order of the files that they are from.
    #[serde(serialize_with = "serialize_extracted")]
    #[cfg_attr(test, schemars(with = "Vec<WrittenFile<'_>>"))]
    pub code_objects: &'r [Extracted],
}

impl Report for ExtractReport<'_> {}

fn serialize_extracted<S: Serializer>(extracted: &&[Extracted], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(extracted.iter().map(|Extracted { path, sha256, code_object, .. }| WrittenFile {
        file: shown(path),
        sha256: sha256.map(|sha256| sha256.iter().map(|byte| format!("{byte:02x}")).collect()),
        code_object,
    }))
}

/// A file that was written.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema), schemars(rename = "Written"))]
struct WrittenFile<'r> {
    /// The file that was written or, with `--dry-run`, would be written. Bytes that are not UTF-8, which the name of
    /// the directory may have, are replaced by U+FFFD.
    file: Cow<'r, str>,
    /// The SHA-256 of the bytes of the file, in lower-case hexadecimal digits.
    #[cfg_attr(test, schemars(with = "String", regex(pattern = "^[0-9a-f]{64}$")))]
    sha256: Option<String>,
    #[serde(flatten)]
    code_object: &'r CodeObject,
}

/// A file.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct File<'r> {
    /// The path as named on the command line, or as found in a directory. Bytes that are not UTF-8 are replaced by
    /// U+FFFD, so such a path cannot be opened; `uri` has every byte.
    path: Cow<'r, str>,
    /// The size of the file in bytes.
    size: u64,
    /// The code objects in file order, including host code and empty ones.
    code_objects: Vec<&'r CodeObject>,
    /// Parts that are recognised but not read, in file order: device code in other formats, and archives that may
    /// contain some.
    unread: &'r [UnreadPart],
    /// The number of bundles that a program may load from the file. Offload binaries at one place count as one bundle
    /// for each source file, and so does the code that one wrapper of a split library loads from kpack archives. Files
    /// of a directory in a package that are code objects, bundles or fatbins themselves count as one together, and so
    /// does a file that is one. Other code objects without a bundle and device images of SYCL are not counted.
    bundles: usize,
    /// For each GPU that a bundle has code for, by name: the number of bundles that serve it, with code that a runtime
    /// loads there. Null if there are too many GPUs and bundles to compare.
    coverage: Option<Vec<ServedGpu>>,
    /// The references of split ROCm libraries to the kpack archives with their device code.
    kpack_references: &'r [KpackReference],
    /// The members of zip files with device code that have the same bytes as other members, such as links to a library
    /// that became files in a wheel.
    copies: &'r [MemberCopies],
}

impl<'r> File<'r> {
    fn of(inspected: &'r Contents) -> Self {
        let coverage = inspected.coverage();
        Self {
            path: shown(&inspected.path),
            size: inspected.size,
            code_objects: inspected.bundles.iter().flat_map(|bundle| &bundle.code_objects).collect(),
            unread: &inspected.unread,
            bundles: coverage.bundles(),
            coverage: coverage.gpus().map(ServedGpu::all),
            kpack_references: &inspected.references,
            copies: &inspected.copies,
        }
    }
}

/// A member of a zip file with device code, and its copies.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct Copies {
    /// The first of the members with these bytes.
    #[cfg_attr(test, schemars(with = "String"))]
    member: Option<String>,
    /// The other members with these bytes.
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    copies: Vec<Option<String>>,
    /// The inflated size of the copies together, in bytes.
    size: u64,
    /// The stored size of the copies together, in bytes. A wheel without them is smaller by this.
    stored_size: u64,
}

impl Copies {
    fn of(copies: &MemberCopies) -> Self {
        let MemberCopies { first, copies, size, stored } = copies;
        let copies = copies.iter().map(Place::member).collect();
        Self { member: first.member(), copies, size: *size, stored_size: *stored }
    }
}

/// A GPU, and how many bundles serve it.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct ServedGpu {
    /// The name of the GPU: a target ID, or an architecture of NVIDIA's. `compute_90` means all GPUs of compute
    /// capability 9.0 or later, which compile PTX.
    gpu: String,
    #[serde(flatten)]
    served: ServedBundles,
}

impl ServedGpu {
    fn all(gpus: Vec<(Device, ServedBundles)>) -> Vec<Self> {
        gpus.into_iter().map(|(gpu, served)| Self { gpu: gpu.name().to_owned(), served }).collect()
    }
}

/// A reference of a split ROCm library to the kpack archives with its device code.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct Reference<'r> {
    /// The library, if it is a member of an archive or zip file. Null outside archives.
    member: Option<String>,
    /// The name of the library in the archives: its path in the tree in which it was built.
    kernel_name: &'r str,
    /// The paths of the archives, relative to the directory of the library. `@GFXARCH@` is replaced by a target ID.
    search_paths: &'r [String],
    /// The canonical paths of the archives that exist. Null if they were not searched: with `--no-follow`, with
    /// `ROCM_KPACK_DISABLE`, and for libraries inside other files.
    archives: Option<Vec<Cow<'r, str>>>,
}

impl<'r> Reference<'r> {
    fn of(reference: &'r KpackReference) -> Self {
        Self {
            member: reference.place.member(),
            kernel_name: &reference.kernel_name,
            search_paths: &reference.search_paths,
            archives: reference.archives.as_ref().map(|paths| paths.iter().map(|path| shown(path)).collect()),
        }
    }
}
