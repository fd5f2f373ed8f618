//! Directories of files that serve GPUs together.
//!
//! Libraries such as rocBLAS load machine code from files for one GPU each (`Kernels.so-000-gfx1100.hsaco`,
//! `TensileLibrary_Type_HH_gfx90a.co`). A program needs one of these files for its GPU, so the files of a directory are
//! one set. A directory is on disk or in a package: a zip file, a tar or cpio archive.

use std::path::{Component, Path, PathBuf};

use super::code::GpuVendor;
use super::device::Device;
use super::loadable;
use crate::base::io::sys;
use crate::beyond::container::{ContentKind, LoadedFile};
use crate::beyond::scan::{FoundBundle, Place, Step};

/// The placeholder for the name of a GPU in the path of a directory. Directories of several GPUs become one in this
/// way.
const ANY_GPU: &str = "*";

/// Returns whether a program loads a bundle or code object as a file. It has to begin the file or member of a package,
/// and must not be an input of compilers and linkers.
pub(crate) fn is_loaded_file(found: &FoundBundle<'_>) -> bool {
    if !found.is_file() {
        return false;
    }
    match found.format.row().loaded_file {
        LoadedFile::Never => false,
        LoadedFile::Always => true,
        LoadedFile::UnlessForTools => !loadable::is_for_tools(found),
        // Other kinds, such as bitcode, are inputs of compilers and linkers.
        LoadedFile::IfCode => found.code_objects().all(|code_object| {
            matches!(
                code_object.kind(),
                Some(ContentKind::Elf | ContentKind::Cubin | ContentKind::Ptx | ContentKind::SpirV)
            )
        }),
    }
}

/// Returns the place of the directory of a file or of a member of a package. For a member at the top of a package, that
/// is the package. Directories whose paths differ only in names of GPUs have one place: `hsa/gfx942/gemm` and
/// `hsa/gfx950/gemm` are `hsa/*/gemm`.
pub(crate) fn directory_of(place: &Place) -> Place {
    let Some((package, name)) = place.parent() else {
        return Place::of_file(&directory_path(place.file()));
    };
    let directory = directory_path(Path::new(&*sys::os_str(name)));
    if directory == Path::new(".") {
        return package;
    }
    package.join(Step::Member(member_name(&directory)))
}

/// Returns the name of a directory in a package: its path with slashes, without a root or a drive.
fn member_name(directory: &Path) -> Vec<u8> {
    let mut names = Vec::new();
    for component in directory.components() {
        if matches!(component, Component::Normal(_) | Component::ParentDir) {
            names.push(component.as_os_str().as_encoded_bytes());
        }
    }
    names.join(&b'/')
}

/// Returns the path of the directory of a file, with [`ANY_GPU`] for names of GPUs. A file without a directory is in
/// `.`.
fn directory_path(file: &Path) -> PathBuf {
    let mut directory = PathBuf::new();
    for component in file.parent().into_iter().flat_map(Path::components) {
        match component {
            Component::CurDir => {}
            Component::Normal(name) if is_gpu(&name.to_string_lossy()) => directory.push(ANY_GPU),
            other => directory.push(other),
        }
    }
    if directory.as_os_str().is_empty() { PathBuf::from(".") } else { directory }
}

/// Returns whether a directory has the name of a GPU of AMD or NVIDIA. Names of other vendors' GPUs are not recognised.
fn is_gpu(name: &str) -> bool {
    // A device may also be `ptx`, `compute_90` or `amdgcnspirv`, but these are not names of GPUs.
    if !name.starts_with("gfx") && !name.starts_with("sm_") {
        return false;
    }
    let vendor = Device::parse(name).map(|device| device.vendor());
    matches!(vendor, Ok(GpuVendor::Amd | GpuVendor::Nvidia))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_in_directories_on_disk_and_in_packages() {
        for (file, expected) in [
            ("a.co", "."),
            ("./a.co", "."),
            ("lib/./rocblas//library/a.co", "lib/rocblas/library"),
            ("/opt/rocm/a.co", "/opt/rocm"),
            ("../a.co", ".."),
            ("hsa/gfx942/gemm/a.co", "hsa/*/gemm"),
            ("hsa/gfx9-4-generic/a.co", "hsa/*"),
            ("cubins/sm_90a/a.cubin", "cubins/*"),
            ("gfx/sm_/pvc/a.co", "gfx/sm_/pvc"),
        ] {
            let place = Place::of_file(Path::new(file));
            // Windows has other separators.
            assert_eq!(directory_of(&place).to_string().replace('\\', "/"), expected, "{file}");
            let member = Place::of_file(Path::new("d/in.whl")).join(Step::Member(file.into()));
            let expected = if expected == "." { "d/in.whl".to_owned() } else { format!("d/in.whl({expected})") };
            assert_eq!(directory_of(&member).to_string(), expected.replace("(/", "("), "{file}");
        }
    }
}
