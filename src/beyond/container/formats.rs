//! The formats of containers of code objects: one row of [`FORMATS`] for each. The search, the jobs and the subcommands
//! take everything about a format from its row, except how to read it.

use super::bundle_reader::BundleReader;
use super::section::{HIP_SECTIONS, PE_OFFLOADING, RELOCATABLE_CODE, SectionContent, SectionRule};
use super::{fatbin, hcf, kpack};
use crate::base::bytes::{Cursor, len_u64, tail};
use crate::beyond::code::GpuVendor;
use crate::llvm::container::offload_binary::Version;
use crate::llvm::container::{self, binary, offload_binary};

/// The container of code objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Format {
    /// A bundle, plain or compressed.
    Bundle,
    /// A text bundle: code objects between comment lines.
    TextBundle,
    /// A host object with a section for each code object.
    FatObject,
    /// An offload binary.
    OffloadBinary,
    /// A CUDA fatbin.
    Fatbin,
    /// A kpack archive: a bundle has the code objects that one wrapper of a library loads.
    Kpack,
    /// A section with device images that Intel's DPC++ linked.
    DeviceImages,
    /// A SYCLBIN file.
    SyclBin,
    /// HCF data of AdaptiveCpp.
    Hcf,
    /// No container: the file itself is a code object.
    CodeObject,
}

/// A format: its names, its first bytes, its reader, where it may be, and its rules. [`DEFAULT`] has what most formats
/// have, so a row lists only the rest.
#[derive(Clone, Copy)]
pub(crate) struct FormatRow {
    pub(crate) format: Format,
    /// The name of the format in reports and messages.
    pub(crate) name: &'static str,
    /// The singular and the plural of what `inspect` counts: containers, or code objects in them.
    #[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "only command lines count containers"))]
    pub(crate) counted: (&'static str, &'static str),
    /// The plural for containers of this format that `recompress` leaves as they are.
    pub(crate) left_as_they_are: &'static str,
    /// The possible first bytes. If there are none, another format or a section holds the code objects, or a function
    /// of [`Magic`](super::Magic) identifies the format.
    pub(crate) magics: &'static [&'static [u8]],
    /// Returns whether data that begins with the magic is of this format. Without this function, all such data is,
    /// except texts.
    pub(crate) confirm: Option<fn(&[u8]) -> bool>,
    /// Reads consecutive containers.
    pub(crate) reader: BundleReader,
    /// The sections of objects that are made for such containers.
    pub(crate) sections: &'static [(SectionRule, SectionContent)],
    /// For a format that a search by content looks for at every offset: returns whether the fields after the magic are
    /// plausible. This takes almost no time, and rules out most other data with the bytes of the magic.
    pub(crate) anywhere: Option<fn(&[u8]) -> bool>,
    /// The cost of reading a byte on trial, in bytes of headers that are read in the same time.
    pub(crate) trial_cost: u64,
    /// The vendor of all code in such containers, or `None` if they may hold code of several vendors.
    pub(crate) vendor: Option<GpuVendor>,
    /// The way in which a program uses the code objects.
    pub(crate) code_use: FormatUse,
    /// When programs load a file with such a container.
    pub(crate) loaded_file: LoadedFile,
    pub(crate) rules: &'static [Rule],
}

/// The way in which a program uses the code objects of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormatUse {
    /// Each may be used on every GPU that takes it.
    Each,
    /// A runtime chooses one of them for its GPU, unless a linker or driver links them first.
    ChoiceUnlessLinked,
    /// A runtime chooses one of them for its GPU, unless the content shows that the container is for compilers and
    /// linkers.
    ChoiceUnlessForTools,
}

/// When programs load a file that begins with a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadedFile {
    Never,
    Always,
    /// Unless the content shows that the file is for compilers and linkers.
    UnlessForTools,
    /// If the file is a code object of a kind that runtimes load.
    IfCode,
}

/// A property that only some formats have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A section or another container may hold such a container.
    Nested,
    /// A container need not serve every GPU of a program, because other containers or files may serve the rest.
    ForSomeGpus,
    /// The code objects are not alternatives: a program needs each that runs on its GPU. So several may have one ID. All
    /// of a library serve a GPU together.
    EachNeeded,
    /// Compilers write a container for each target, one after another, which a program uses together.
    OnePerTarget,
    /// The container is an object that a linker reads. The host's code object is this object without the sections of
    /// the other code objects.
    Object,
    /// The driver links relocatable code in it when the program starts.
    LinkedByDriver,
    /// The container is an archive for several libraries. A bundle in it has the code that one library loads, and its
    /// name is the last step of its place. Other archives may serve other GPUs. The search reports code objects in it
    /// that cannot be read.
    Archive,
    /// The container is a text, and its code objects may be texts too.
    Text,
    /// LLVM's bundler makes such containers from files of any kind.
    AnyFiles,
    /// The kind of a code object is known only by its content. So compressed content is inflated to identify it, it may
    /// be an archive of code objects, and content of an unknown format is a fault.
    KnownByContent,
    /// Code objects are compressed one by one, each in bytes of its own.
    PackedAlone,
    /// Tools can compress the container, or the code objects in it.
    Compressible,
    /// Entry IDs have the names that DPC++ gives Intel's GPUs, and `ocloc` records other names in its ELF files.
    NamesOfDpcpp,
}

/// The values that most formats have.
const DEFAULT: FormatRow = FormatRow {
    format: Format::Bundle,
    name: "bundle",
    counted: ("bundle", "bundles"),
    left_as_they_are: "bundles",
    magics: &[],
    confirm: None,
    reader: BundleReader::ANY_BUNDLE,
    sections: &[],
    anywhere: None,
    trial_cost: 1,
    vendor: None,
    code_use: FormatUse::Each,
    loaded_file: LoadedFile::Never,
    rules: &[],
};

/// The formats, in the order of [`Format`].
pub(crate) static FORMATS: [FormatRow; 10] = [
    FormatRow {
        format: Format::Bundle,
        left_as_they_are: "bundles outside .hip_fatbin",
        magics: &[container::MAGIC.as_bytes()],
        // The magic is too long for chance, and a bundle may hold only text.
        confirm: Some(|_| true),
        sections: &[
            (SectionRule::Is(HIP_SECTIONS[0]), SectionContent::Containers),
            (SectionRule::Is(HIP_SECTIONS[1]), SectionContent::Containers),
            (SectionRule::InSegment("__HIP", "__hip_fatbin"), SectionContent::Containers),
            // MetaX, Moore Threads, Enflame.
            (SectionRule::Is(".mc_fatbin"), SectionContent::PerhapsContainers),
            (SectionRule::Is(".mt_fatbin"), SectionContent::PerhapsContainers),
            (SectionRule::Is(".topsfb"), SectionContent::PerhapsContainers),
            // HCC. Other programs use this name too.
            (SectionRule::Is(".kernel"), SectionContent::PerhapsContainers),
        ],
        anywhere: Some(is_bundle_plausible),
        code_use: FormatUse::ChoiceUnlessForTools,
        loaded_file: LoadedFile::UnlessForTools,
        rules: &[Rule::Nested, Rule::AnyFiles, Rule::Compressible],
        ..DEFAULT
    },
    FormatRow {
        format: Format::TextBundle,
        name: "text bundle",
        counted: ("text bundle", "text bundles"),
        left_as_they_are: "text bundles",
        code_use: FormatUse::ChoiceUnlessForTools,
        rules: &[Rule::AnyFiles, Rule::Text],
        ..DEFAULT
    },
    FormatRow {
        format: Format::FatObject,
        name: "fat object",
        counted: ("fat object", "fat objects"),
        left_as_they_are: "fat objects",
        reader: BundleReader::FAT_OBJECT,
        rules: &[Rule::AnyFiles, Rule::Object],
        ..DEFAULT
    },
    FormatRow {
        format: Format::OffloadBinary,
        name: "offload binary",
        counted: ("offload binary", "offload binaries"),
        left_as_they_are: "offload binaries",
        magics: &[&offload_binary::MAGIC],
        reader: BundleReader::OFFLOAD_BINARY,
        sections: &[
            (SectionRule::Begins(".llvm.offloading"), SectionContent::OffloadBinaries),
            (SectionRule::Is(PE_OFFLOADING), SectionContent::OffloadBinaries),
            (SectionRule::Is(".cray.llvm.offloading"), SectionContent::Containers),
            (SectionRule::InSegment("__LLVM", "__offloading"), SectionContent::OffloadBinaries),
        ],
        anywhere: Some(is_offload_binary_plausible),
        rules: &[Rule::Nested, Rule::OnePerTarget, Rule::Compressible],
        ..DEFAULT
    },
    FormatRow {
        format: Format::Fatbin,
        name: "fatbin",
        counted: ("fatbin", "fatbins"),
        left_as_they_are: "fatbins outside .nv_fatbin",
        magics: &[&fatbin::MAGIC],
        reader: BundleReader { container: &fatbin::Fatbin, format_of: |_| Ok(Format::Fatbin) },
        sections: &[
            (SectionRule::Is(".nv_fatbin"), SectionContent::Containers),
            (SectionRule::Is(".nv_fatb"), SectionContent::Containers),
            (SectionRule::Is(RELOCATABLE_CODE[0]), SectionContent::Containers),
            (SectionRule::Is(RELOCATABLE_CODE[1]), SectionContent::Containers),
            (SectionRule::InSegment("__NV_CUDA", "__nv_fatbin"), SectionContent::Containers),
            (SectionRule::InSegment("__NV_CUDA", RELOCATABLE_CODE[0]), SectionContent::Containers),
        ],
        anywhere: Some(fatbin::is_plausible),
        vendor: Some(GpuVendor::Nvidia),
        code_use: FormatUse::ChoiceUnlessLinked,
        loaded_file: LoadedFile::Always,
        rules: &[Rule::Nested, Rule::LinkedByDriver, Rule::Compressible],
        ..DEFAULT
    },
    // The search reads these archives itself, without a reader of bundles.
    FormatRow {
        format: Format::Kpack,
        name: "kpack archive",
        counted: ("kpack archive", "kpack archives"),
        left_as_they_are: "kpack archives",
        magics: &[&kpack::MAGIC],
        vendor: Some(GpuVendor::Amd),
        rules: &[Rule::ForSomeGpus, Rule::Archive],
        ..DEFAULT
    },
    FormatRow {
        format: Format::DeviceImages,
        name: "device images",
        counted: ("device image", "device images"),
        left_as_they_are: "SYCL images",
        rules: &[Rule::ForSomeGpus, Rule::EachNeeded, Rule::KnownByContent, Rule::PackedAlone],
        ..DEFAULT
    },
    // An offload binary whose strings make it a SYCLBIN file: its reader reads both.
    FormatRow {
        format: Format::SyclBin,
        name: "SYCLBIN file",
        counted: ("SYCLBIN file", "SYCLBIN files"),
        left_as_they_are: "SYCLBIN files",
        reader: BundleReader::OFFLOAD_BINARY,
        rules: &[Rule::ForSomeGpus, Rule::EachNeeded, Rule::NamesOfDpcpp],
        ..DEFAULT
    },
    FormatRow {
        format: Format::Hcf,
        name: "HCF data",
        counted: ("HCF container", "HCF containers"),
        left_as_they_are: "HCF data",
        magics: &[hcf::MAGIC],
        confirm: Some(hcf::is_hcf),
        reader: BundleReader { container: &hcf::Hcf, format_of: |_| Ok(Format::Hcf) },
        anywhere: Some(|_| true),
        // Lines of text take longer to read than headers.
        trial_cost: 16,
        rules: &[Rule::ForSomeGpus, Rule::EachNeeded],
        ..DEFAULT
    },
    FormatRow {
        format: Format::CodeObject,
        name: "code object",
        counted: ("code object without a bundle", "code objects without a bundle"),
        left_as_they_are: "code objects outside bundles",
        loaded_file: LoadedFile::IfCode,
        rules: &[Rule::ForSomeGpus],
        ..DEFAULT
    },
];

impl Format {
    /// The name of the format.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the row of the format.
    pub(crate) fn row(self) -> &'static FormatRow {
        let [first, ..] = &FORMATS;
        // A test ensures that each format has a row.
        FORMATS.iter().find(|row| row.format == self).unwrap_or(first)
    }

    /// Returns whether a rule applies to the format.
    pub(crate) fn has(self, rule: Rule) -> bool {
        self.row().rules.contains(&rule)
    }
}

/// The name of a field in errors of [`Cursor`], which a trial ignores.
const FIELD: &str = "a field";

/// Returns the fields after a magic at the start of data.
fn fields_after<'d>(magic: &[u8], data: &'d [u8]) -> Cursor<'d> {
    Cursor::new(tail(data, len_u64(magic)).unwrap_or_default(), 0)
}

/// Returns whether a bundle with this magic has entries, and the data has room for them.
fn is_bundle_plausible(data: &[u8]) -> bool {
    let mut fields = fields_after(container::MAGIC.as_bytes(), data);
    let Ok(entry_count) = fields.u64(FIELD) else { return false };
    entry_count > 0 && entry_count <= fields.remaining() / binary::ENTRY_FIELDS
}

/// Returns whether an offload binary with this magic has a known version.
fn is_offload_binary_plausible(data: &[u8]) -> bool {
    let Ok(version) = fields_after(&offload_binary::MAGIC, data).u32(FIELD) else { return false };
    Version::from_number(version).is_some()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::Magic;
    use super::*;

    #[test]
    #[allow(clippy::as_conversions, reason = "the number of a variant")]
    fn each_format_has_its_row_and_each_row_its_names() {
        // `CodeObject` is the last format.
        assert_eq!(FORMATS.len(), Format::CodeObject as usize + 1);
        let mut names = HashSet::new();
        for (index, row) in FORMATS.iter().enumerate() {
            assert_eq!(row.format as usize, index);
            assert!(row.format.row().format == row.format && names.insert(row.name), "{}", row.name);
            let (one, many) = row.counted;
            assert!(one != many && !row.left_as_they_are.is_empty(), "{one} {many}");
            let rules: HashSet<_> = row.rules.iter().map(|rule| format!("{rule:?}")).collect();
            assert_eq!(rules.len(), row.rules.len(), "{}", row.name);
        }
    }

    #[test]
    fn code_of_a_container_for_some_gpus_is_no_choice() {
        for row in FORMATS.iter().filter(|row| row.format.has(Rule::ForSomeGpus)) {
            assert_eq!(row.code_use, FormatUse::Each, "{}", row.name);
        }
        for row in FORMATS.iter().filter(|row| row.format.has(Rule::EachNeeded)) {
            assert!(row.format.has(Rule::ForSomeGpus), "{}", row.name);
        }
    }

    #[test]
    fn each_container_has_a_section_of_the_page() {
        let page = include_str!("../../../docs/formats.md");
        let (_, table) = page.split_once("| format | begins with |").unwrap();
        let table: Vec<&str> = table.lines().skip(1).take_while(|line| line.starts_with('|')).collect();
        for row in FORMATS.iter().filter(|row| row.format != Format::CodeObject) {
            let is_named = |cell: &&str| cell.contains(row.name) || cell.contains(row.counted.0);
            let mut cells = table.iter().filter_map(|line| line.split('|').nth(1));
            let cell = cells.find(is_named).unwrap_or_else(|| panic!("the table of the page has no {}", row.name));
            let (_, anchor) = cell.split_once("](#").unwrap();
            let anchor = anchor.trim().trim_end_matches(')');
            let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
            let anchors = headings.map(|heading| heading.to_lowercase().replace(' ', "-").replace('+', ""));
            assert!(anchors.into_iter().any(|of_heading| of_heading == anchor), "{anchor}");
        }
    }

    #[test]
    fn a_magic_is_of_one_format() {
        let rows: Vec<_> = FORMATS.iter().flat_map(|row| row.magics.iter().map(move |magic| (row, *magic))).collect();
        for (row, magic) in &rows {
            for (other, of_other) in &rows {
                let is_same = row.format == other.format && magic == of_other;
                assert!(is_same || !of_other.starts_with(magic), "{} {}", row.name, other.name);
            }
            let data = [*magic, b" = 1\ngenerator = 2\n\0\0\0"].concat();
            assert_eq!(Magic::identify(&data), Magic::Container(row.format), "{}", row.name);
        }
    }
}
