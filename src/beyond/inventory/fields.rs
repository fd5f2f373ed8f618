//! The fields of files in documents (feature `serde`).

use std::borrow::Cow;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::{Contents, KpackReference, MemberCopies, Need, ServedBundles, UnreadPart};
use crate::beyond::document::{serialized_as, shown};
use crate::beyond::runtime::Device;
use crate::beyond::scan::{CodeObject, Place};

serialized_as!(Contents => File, KpackReference => Reference, MemberCopies => Copies);

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
    /// does a file that is one. All device images of a library count as one. Other code objects without a bundle are not
    /// counted.
    bundles: usize,
    /// For each GPU that a bundle has code for, in the order of their names, PTX and SPIR-V last: the number of bundles
    /// that serve it, with code that a runtime loads there. Null if there are too many GPUs and bundles to compare.
    coverage: Option<Vec<ServedGpu>>,
    /// What a machine needs to read the code, one of each kind: for the newest PTX, for code in CUDA fatbins that is
    /// compressed with zstd, and for compressed bundles.
    needs: Vec<NeedFields>,
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
            needs: inspected.needs().into_iter().map(NeedFields::of).collect(),
            kpack_references: &inspected.references,
            copies: &inspected.copies,
        }
    }
}

/// Code that older drivers or runtimes do not read, and what it needs.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema), schemars(rename = "Need"))]
struct NeedFields {
    /// The code: `PTX 9.5`.
    code: String,
    /// What it needs: `a driver of CUDA 13.5 or newer, to compile for GPUs without machine code`.
    needs: String,
}

impl NeedFields {
    fn of(need: Need) -> Self {
        Self { code: need.code(), needs: need.needs() }
    }
}

/// A member of a zip file with device code, and its copies.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct Copies {
    /// The first of several members with the same bytes.
    #[cfg_attr(test, schemars(with = "String"))]
    member: Option<String>,
    /// The members after the first one that have the same bytes as it.
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
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct ServedGpu {
    /// The name of the GPU: a target ID, or an architecture of NVIDIA's. `compute_90` means all GPUs of compute
    /// capability 9.0 or later, which compile PTX.
    pub gpu: String,
    /// Products with this GPU, the best known first.
    pub products: Vec<&'static str>,
    /// The number of bundles that serve it.
    #[serde(flatten)]
    pub served: ServedBundles,
}

impl ServedGpu {
    /// Returns these GPUs with their numbers.
    pub(crate) fn all(gpus: impl IntoIterator<Item = (Device, ServedBundles)>) -> Vec<Self> {
        gpus.into_iter()
            .map(|(gpu, served)| Self { gpu: gpu.name().to_owned(), products: gpu.products(), served })
            .collect()
    }

    /// Serializes GPUs with the bundles that serve them.
    pub(crate) fn serialize_all<S: Serializer>(
        gpus: &Option<Vec<(Device, ServedBundles)>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        gpus.as_ref().map(|gpus| Self::all(gpus.iter().cloned())).serialize(serializer)
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
