//! The findings of `inspect` in a file, collected before they are printed.

use std::ops::Range;
use std::path::PathBuf;

use offload_bundle::Result;
use offload_bundle::container::sequence::Inflate;
use offload_bundle::container::stream::Recorded;
use offload_bundle::container::{Limits, Packed};
use offload_bundle::id::OffloadKind;
use offload_bundle::job::NotRead;
use offload_bundle::scan::{Checksums, CodeObject, ContentKind, Finding, Format, Found, Place, Scan};

use crate::cli::code_object::Target;
use crate::cli::files::{Origin, WorkFile};

/// The findings in one file.
#[derive(Debug)]
pub(super) struct FileReport {
    pub(super) path: PathBuf,
    pub(super) origin: Origin,
    /// Its size in bytes.
    pub(super) size: u64,
    pub(super) bundles: Vec<BundleRow>,
    /// Parts that are recognised but not read.
    pub(super) unread: Vec<NotRead>,
    pub(super) problems: Vec<String>,
}

/// A bundle.
#[derive(Debug)]
pub(super) struct BundleRow {
    pub(super) place: Place,
    pub(super) format: Format,
    /// Its index among the bundles at its place, from 0.
    pub(super) index: usize,
    /// Its byte range, relative to the origin of the place.
    pub(super) range: Range<u64>,
    pub(super) compressed: Option<Recorded>,
    pub(super) code_objects: Vec<Row>,
    /// The inflated size of all code objects, in bytes.
    size: u64,
    /// The stored size of all code objects, in bytes, if the bundle is not compressed as a whole.
    stored: u64,
}

/// A code object.
#[derive(Debug)]
pub(super) struct Row {
    /// The bundle entry ID, safe to print on a terminal.
    pub(super) id: String,
    /// The ID's parts; none if the ID is invalid.
    pub(super) target: Option<Target>,
    pub(super) content: Option<ContentKind>,
    /// Its inflated size in bytes.
    pub(super) size: u64,
    /// Its compressed form, if it is compressed on its own in its bundle.
    pub(super) packed: Option<Packed>,
    /// The name of its source file, safe to print on a terminal, if that is recorded.
    pub(super) source: Option<String>,
    /// Its byte range: in the inflated bundle if that is compressed, otherwise relative to the origin of the place.
    pub(super) range: Option<Range<u64>>,
    pub(super) uri: Option<String>,
    /// The target ID that the code object itself records.
    pub(super) recorded_target: Option<String>,
}

impl FileReport {
    /// Scans a file.
    pub(super) fn new(file: WorkFile, inflate: Inflate, limits: Limits) -> Result<Self> {
        let input = file.open(limits)?;
        let (mut bundles, mut unread, mut problems) = (Vec::new(), Vec::new(), Vec::new());
        let mut scan = Scan::default();
        scan.inflate = inflate;
        scan.checksums = if inflate == Inflate::Whole { Checksums::OfAll } else { Checksums::None };
        scan.limits = limits;
        scan.run(&input, &mut |finding| {
            match finding {
                Finding::Bundle(found) => bundles.push(BundleRow::new(&found)?),
                Finding::Unread { place, offset, what } => {
                    unread.push(NotRead { place: place.clone(), offset, what });
                }
                Finding::Broken { place, error } | Finding::Hidden { place, error } => {
                    problems.push(error.at(place).to_string())
                }
                _ => {}
            }
            Ok(())
        })?;
        problems.extend(input.ensure_unchanged().err().map(|error| error.to_string()));
        Ok(Self { path: file.path, origin: file.origin, size: input.len(), bundles, unread, problems })
    }

    /// The number of its findings.
    pub(super) fn weight(&self) -> usize {
        let code_objects = self.bundles.iter().map(|bundle| bundle.code_objects.len().saturating_add(1)).sum::<usize>();
        code_objects.saturating_add(self.unread.len()).saturating_add(self.problems.len()).saturating_add(1)
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
            range: bundle.range()?,
            compressed: bundle.compressed,
            size: code_objects.iter().map(|row| row.size).fold(0, u64::saturating_add),
            stored: code_objects.iter().map(Row::stored).fold(0, u64::saturating_add),
            code_objects,
        })
    }

    /// The stored size of all code objects, in bytes. In a compressed bundle it includes the header.
    pub(super) fn stored(&self) -> u64 {
        if self.compressed.is_some() { self.range.end.saturating_sub(self.range.start) } else { self.stored }
    }

    /// The inflated size of all code objects, in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Whether the bundle, or a code object in it, is compressed.
    pub(super) fn is_compressed(&self) -> bool {
        self.compressed.is_some() || self.codecs().next().is_some()
    }

    /// The methods by which code objects are compressed on their own.
    pub(super) fn codecs(&self) -> impl Iterator<Item = &'static str> {
        self.code_objects.iter().filter_map(|row| Some(row.packed.as_ref()?.codec.name()))
    }

    /// The stored size of a code object, in bytes: in a compressed bundle, its share of the compressed size.
    pub(super) fn share(&self, row: &Row) -> u64 {
        if self.compressed.is_none() {
            return row.stored();
        }
        let part = u128::from(self.stored()).saturating_mul(row.size.into());
        u64::try_from(part.checked_div(self.size().into()).unwrap_or(0)).unwrap_or(u64::MAX)
    }
}

impl Row {
    fn new(code_object: &CodeObject<'_>, format: Format) -> Result<Self> {
        Ok(Self {
            id: code_object.shown_id(),
            target: code_object.entry_id().map(|id| Target::new(&id, format)),
            content: code_object.kind(),
            size: code_object.size(),
            packed: code_object.packed().cloned(),
            source: code_object.shown_source(),
            range: code_object.range(),
            uri: code_object.uri()?,
            recorded_target: code_object.recorded_target(),
        })
    }

    /// Its stored size in bytes, in a bundle that is not compressed.
    fn stored(&self) -> u64 {
        self.packed.as_ref().map_or(self.size, Packed::stored_len)
    }

    /// The target of the code object in one word: the target ID, or else `host`, the triple or the whole ID.
    pub(super) fn for_whom(&self) -> &str {
        match &self.target {
            Some(Target { kind: Some(OffloadKind::Host), .. }) => "host",
            Some(target) if !target.target_id.is_empty() => &target.target_id,
            Some(target) => &target.triple,
            None => &self.id,
        }
    }
}
