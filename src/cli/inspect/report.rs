//! What was found in the files, kept until it is told.

use std::ops::Range;
use std::path::PathBuf;

use offload_bundle::container::Limits;
use offload_bundle::container::sequence::Inflate;
use offload_bundle::container::stream::Recorded;
use offload_bundle::error::printable;
use offload_bundle::id::OffloadKind;
use offload_bundle::scan::{CodeObject, ContentKind, Finding, Format, Found, Place, Scan};
use offload_bundle::{Error, Result};

use crate::cli::files::{Origin, WorkFile};

/// All files.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) files: Vec<FileReport>,
    /// What could not even be opened.
    failures: Vec<String>,
}

/// What was found in a file.
#[derive(Debug)]
pub(super) struct FileReport {
    pub(super) path: PathBuf,
    pub(super) origin: Origin,
    /// Its size in bytes.
    pub(super) size: u64,
    pub(super) bundles: Vec<BundleRow>,
    pub(super) problems: Vec<String>,
}

/// A bundle.
#[derive(Debug)]
pub(super) struct BundleRow {
    pub(super) place: Place,
    pub(super) format: Format,
    /// Which one of those at its place.
    pub(super) index: usize,
    /// Where it lies, counted from the origin of the place.
    pub(super) range: Range<u64>,
    pub(super) compressed: Option<Recorded>,
    pub(super) code_objects: Vec<Row>,
    /// The bytes of all code objects, inflated.
    size: u64,
}

/// A code object.
#[derive(Debug)]
pub(super) struct Row {
    /// The bundle entry ID, as it may stand on a terminal.
    pub(super) id: String,
    /// The ID's parts; none if it is no bundle entry ID.
    pub(super) target: Option<Target>,
    pub(super) content: Option<ContentKind>,
    /// In bytes, inflated.
    pub(super) size: u64,
    /// Where it lies: in the inflated bundle if that is compressed, counted from the origin of the place otherwise.
    pub(super) range: Option<Range<u64>>,
    pub(super) uri: Option<String>,
    /// What the code object itself says that it is for.
    pub(super) recorded_target: Option<String>,
}

/// What a bundle entry ID names, as it may stand on a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// None for a code object without a bundle.
    pub(super) kind: Option<OffloadKind>,
    pub(super) triple: String,
    /// Empty if there is none.
    pub(super) target_id: String,
}

impl Report {
    /// Looks into a file.
    pub(super) fn add(&mut self, file: &WorkFile, inflate: Inflate, limits: Limits) -> Result<()> {
        let input = match file.open(limits) {
            Ok(input) => input,
            Err(error) => {
                self.fail(&error);
                return Ok(());
            }
        };
        let (mut bundles, mut problems) = (Vec::new(), Vec::new());
        let mut scan = Scan::default();
        scan.inflate = inflate;
        scan.limits = limits;
        scan.run(&input, &mut |finding| {
            match finding {
                Finding::Bundle(found) => bundles.push(BundleRow::new(&found)?),
                Finding::Broken { place, error } => problems.push(error.at(place).to_string()),
                _ => {}
            }
            Ok(())
        })?;
        problems.extend(input.ensure_unchanged().err().map(|error| error.to_string()));
        let (path, origin, size) = (file.path.clone(), file.origin, input.len());
        self.files.push(FileReport { path, origin, size, bundles, problems });
        Ok(())
    }

    /// Keeps why something could not be read.
    pub(super) fn fail(&mut self, error: &Error) {
        self.failures.push(error.to_string());
    }

    /// All that could not be read.
    pub(super) fn problems(&self) -> Vec<&str> {
        self.failures.iter().chain(self.files.iter().flat_map(|file| &file.problems)).map(String::as_str).collect()
    }
}

impl BundleRow {
    fn new(found: &Found<'_>) -> Result<Self> {
        let bundle = found.bundle;
        let code_objects = found.code_objects().map(|code_object| Row::new(&code_object, found.format));
        let code_objects = code_objects.collect::<Result<Vec<Row>>>()?;
        Ok(Self {
            place: found.place.clone(),
            format: found.format,
            index: found.index,
            range: bundle.offset..bundle.offset.saturating_add(bundle.stored_len),
            compressed: bundle.compressed,
            size: code_objects.iter().map(|row| row.size).fold(0, u64::saturating_add),
            code_objects,
        })
    }

    /// How many bytes the bundle takes where it lies.
    pub(super) fn stored(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start)
    }

    /// The bytes of all code objects, inflated.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// What a code object takes where it lies: its size, or in a compressed bundle its share.
    pub(super) fn share(&self, row: &Row) -> u64 {
        if self.compressed.is_none() {
            return row.size;
        }
        let part = u128::from(self.stored()).saturating_mul(row.size.into());
        u64::try_from(part.checked_div(self.size().into()).unwrap_or(0)).unwrap_or(u64::MAX)
    }
}

impl Row {
    fn new(code_object: &CodeObject<'_>, format: Format) -> Result<Self> {
        let target = code_object.entry_id().map(|id| Target {
            kind: (format != Format::CodeObject).then(|| id.kind()),
            triple: printable(id.triple().as_str().trim_end_matches('-')),
            target_id: printable(&id.target_id().to_string()),
        });
        Ok(Self {
            id: code_object.shown_id().into_owned(),
            target,
            content: code_object.kind(),
            size: code_object.size(),
            range: code_object.range(),
            uri: code_object.uri()?,
            recorded_target: code_object.recorded_target(),
        })
    }

    /// Who the code object is for, in one word: the target ID, or what stands for it.
    pub(super) fn for_whom(&self) -> &str {
        match &self.target {
            Some(Target { kind: Some(OffloadKind::Host), .. }) => "host",
            Some(target) if !target.target_id.is_empty() => &target.target_id,
            Some(target) => &target.triple,
            None => &self.id,
        }
    }
}
