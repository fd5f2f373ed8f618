//! The document of `inspect`.

use crate::beyond::document::Report;
use crate::beyond::inventory::{Contents, Coverage, Libraries, LibrariesBuilder, ServedDirectory, ServedGpu};
use crate::beyond::runtime::Device;

/// The GPU code objects in files.
#[derive(Debug, Default, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct InspectReport {
    /// The files that could be opened: in the order of the command line, those of a directory by name. Files without
    /// device code are included.
    pub files: Vec<Contents>,
    /// The directories with files that are code objects, bundles or fatbins themselves, such as those of rocBLAS. A
    /// program needs one of these files for its GPU, so they are one set.
    pub directories: Vec<Directory>,
    /// With `--matrix`: the libraries in the files, in the natural order of their names, each with the number of its
    /// bundles that serve each GPU. Otherwise null.
    pub libraries: Option<Vec<LibraryCoverage>>,
}

impl Report for InspectReport {}

impl InspectReport {
    /// Returns the report about these files, with their libraries.
    pub fn new(files: Vec<Contents>) -> Self {
        let (mut coverage, mut libraries) = (Coverage::default(), LibrariesBuilder::default());
        for file in &files {
            coverage.merge(&file.coverage());
            libraries.add(file);
        }
        let libraries = LibraryCoverage::all(&libraries.finish());
        Self { files, ..Self::on_all_files(&coverage, Some(libraries)) }
    }

    /// Returns the report with everything that all files show together, and without the files.
    pub(crate) fn on_all_files(coverage: &Coverage, libraries: Option<Vec<LibraryCoverage>>) -> Self {
        Self { files: Vec::new(), directories: Directory::all(coverage), libraries }
    }
}

/// A library, program, object or archive with device code, or the files of a directory that serve GPUs together.
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LibraryCoverage {
    /// The path of the file, or of the directory.
    pub path: String,
    /// The member of an archive, zip file or package; names of nested members are joined by slashes. Null outside
    /// archives.
    pub member: Option<String>,
    /// The number of bundles of the library.
    pub bundles: usize,
    /// The number of bundles of this library that serve each GPU. The list has the GPUs that any library has code for, in
    /// the order of their names, PTX and SPIR-V last, without those of vendors that this library has no code for.
    /// Null if the library has no bundles, or if there are too many GPUs and bundles to compare.
    pub coverage: Option<Vec<ServedGpu>>,
}

impl LibraryCoverage {
    /// Returns the libraries in the natural order of their names.
    pub(crate) fn all(libraries: &Libraries) -> Vec<Self> {
        let gpus: Option<Vec<Device>> =
            libraries.coverage().gpus().map(|gpus| gpus.into_iter().map(|(gpu, _)| gpu).collect());
        let gpus = gpus.filter(|gpus| libraries.can_compare(gpus.len()));
        let mut all = Vec::new();
        for library in libraries.by_name() {
            let mut coverage = None;
            if let Some(gpus) = &gpus
                && let Some(served) = library.served(gpus)
            {
                let numbers = gpus.iter().cloned().zip(served);
                coverage = Some(ServedGpu::all(numbers.filter(|(_, served)| served.bundles > 0)));
            }
            let path = library.path().unwrap_or_default().to_owned();
            let member = library.member().map(str::to_owned);
            all.push(Self { path, member, bundles: library.coverage.bundles(), coverage });
        }
        all
    }
}

/// A directory whose files serve GPUs together.
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Directory {
    /// The path of the directory on disk, or of the package. Names of GPUs in it are replaced by `*`: directories that
    /// differ only in them are one.
    pub path: String,
    /// The directory in the package. Null on disk, and for files at the top of a package.
    pub member: Option<String>,
    /// The number of files in it that are code objects, bundles or fatbins themselves.
    pub files: usize,
    /// For each GPU that they have code for, in the order of their names: whether they serve it, as one bundle. Null if
    /// there are too many to compare.
    pub coverage: Option<Vec<ServedGpu>>,
}

impl Directory {
    /// Returns the directories whose files serve GPUs together.
    pub(crate) fn all(coverage: &Coverage) -> Vec<Self> {
        coverage.served_directories().into_iter().map(Self::from).collect()
    }
}

impl From<ServedDirectory> for Directory {
    fn from(ServedDirectory { place, files, gpus, .. }: ServedDirectory) -> Self {
        let path = place.file().to_string_lossy().into_owned();
        Self { path, member: place.member(), files, coverage: gpus.map(ServedGpu::all) }
    }
}
