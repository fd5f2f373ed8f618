//! The code that runtimes load: the bundles that HIP's runtime can read, and the ELF files that the loaders take.
//!
//! # Bundles
//!
//! The length of a plain bundle is not recorded, so the runtime gives comgr the first 4096 bytes. Comgr looks for
//! entries there, and fails at the first one that is not described completely. For a compressed bundle, the runtime
//! gives comgr the recorded number of bytes, and reads that size as a number of 32 bits in every version.
//!
//! Entry IDs are compared as text. The text after the kind has to be the name of an instruction set as HSA gives it,
//! such as `amdgcn-amd-amdhsa--gfx90a`, except for features that the entry leaves open. SPIR-V is also asked for with
//! the environment `unknown`. Triples with another environment, vendor or system, with fewer fields, or with another
//! name of the architecture (`amdgpu9.42`) are not found. The kind is `hipv4`. Comgr reads compressed bundles with the
//! bundler's library, which also accepts `hip`; clang-linker-wrapper of LLVM 22 writes it.
//!
//! Sources, as of ROCm 7: `PopulateCodeObjectMap` and `UncompressAndPopulateCodeObject` in CLR, `lookUpCodeObject` and
//! `AMDGPUCompiler::unbundle` in comgr.
//!
//! # ELF files
//!
//! | GPU | the loader refuses |
//! |---|---|
//! | AMD | files that are not linked; systems other than HSA (OSABI 64); ABI versions after 4; a generic target without a generic version, which only ABI version 4 has |
//! | NVIDIA | cubins that are not linked (type REL). Linked cubins of CUDA 11.6 to 12 have no program headers, and are loaded |
//!
//! Neither loads code that needs functions which it does not define; [`undefined`](crate::beyond::code::undefined)
//! finds these. Code that a linker or CUDA's driver links later may be of any kind: it is an input of tools.
//!
//! Sources, as of ROCm 7: `AmdHsaCode::GetIsa` and `GetCodeObjectVersion` in ROCr, `getGenericVersion` in CLR;
//! CUDA_ERROR_INVALID_IMAGE of CUDA's driver for cubins of `nvcc -rdc=true`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use object::elf::{EM_AMDGPU, ET_DYN, ET_EXEC, ET_REL};

use crate::base::bytes::{add, len_u64, total};
use crate::base::id::OffloadKind;
use crate::beyond::code::gpu_header::{GpuHeader, HSA};
use crate::beyond::code::target::processor_by_elf_number;
use crate::beyond::code::undefined::UndefinedSymbols;
use crate::beyond::container::{Bundle, ContentKind, FormatUse, Rule};
use crate::beyond::scan::{Format, FoundBundle, Linking};
use crate::llvm::container::MAGIC;
use crate::llvm::container::binary::{COUNT_FIELD, ENTRY_FIELDS};
use crate::llvm::container::stream::Recorded;

/// The number of bytes of a plain bundle that the runtime searches for entries.
const HEADER_MAX: u64 = 4096;

/// The beginnings of entry IDs that HIP's runtime finds, after the kind. The target ID follows. The head of this file
/// says why SPIR-V has two.
const TRIPLES: [&[u8]; 3] = [b"amdgcn-amd-amdhsa--", b"spirv64-amd-amdhsa--", b"spirv64-amd-amdhsa-unknown-"];

/// The latest ABI version of HSA, of code object version 6. Earlier ABI versions have no generic versions.
const HSA_ABI_VERSION_MAX: u8 = 4;

/// The number of the lowest bit of the generic version in the flags.
const GENERIC_VERSION_BIT: u32 = 24;

/// The reason why a runtime does not find or load a code object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum UnfoundReason {
    /// The runtime stops reading the bundle at this entry or at an earlier one, because the bytes that it gets do not
    /// describe that entry completely. It reads no entry of a compressed bundle whose size it misreads.
    Position,
    /// The runtime looks for other triples.
    Triple,
    /// The code object is not linked: its ELF type is this one.
    NotLinked(u16),
    /// The code object is for another operating system than HSA.
    System(u8),
    /// This ABI version of the code object is later than the latest one of HSA.
    AbiVersion(u8),
    /// The code object is for a generic target, and has no generic version.
    NoGenericVersion,
    /// The code object needs these symbols, of which some may be functions, and does not define them.
    Undefined(UndefinedSymbols),
}

impl UnfoundReason {
    /// Returns the words of a message: the verb for what the runtime does not do with a code object, and the reason.
    pub(crate) fn texts(&self) -> (&'static str, Cow<'static, str>) {
        const FIND: &str = "find";
        const LOAD: &str = "load";
        match self {
            Self::Position => (FIND, "it looks for entries in the beginning of a bundle".into()),
            Self::Triple => {
                let ids =
                    "it looks for IDs that begin with 'hipv4-amdgcn-amd-amdhsa--' or 'hipv4-spirv64-amd-amdhsa--'";
                (FIND, ids.into())
            }
            Self::NotLinked(kind) if *kind == ET_REL.0 => (LOAD, "it is not linked (ELF type REL)".into()),
            Self::NotLinked(kind) => (LOAD, format!("it is not a linked file (ELF type {kind})").into()),
            Self::System(system) => (LOAD, format!("it is not for HSA (OSABI {system} instead of {HSA})").into()),
            Self::AbiVersion(version) => {
                (LOAD, format!("its ABI version is {version}, and the latest is {HSA_ABI_VERSION_MAX}").into())
            }
            Self::NoGenericVersion => (LOAD, "it is for a generic target, but has no generic version".into()),
            Self::Undefined(symbols) => (LOAD, format!("it does not define {symbols}").into()),
        }
    }
}

/// Returns the reason why the runtime of its GPU does not load an ELF file with this header, or `None` if it does.
pub(crate) fn refusal(header: &GpuHeader) -> Option<UnfoundReason> {
    let GpuHeader { machine, kind, system, abi_version, flags } = *header;
    if machine != EM_AMDGPU {
        return if kind == ET_REL { Some(UnfoundReason::NotLinked(kind.0)) } else { None };
    }
    if ![ET_DYN, ET_EXEC].contains(&kind) {
        return Some(UnfoundReason::NotLinked(kind.0));
    }
    if system != HSA {
        return Some(UnfoundReason::System(system));
    }
    if abi_version > HSA_ABI_VERSION_MAX {
        return Some(UnfoundReason::AbiVersion(abi_version));
    }
    let [processor_number, ..] = flags.to_le_bytes();
    let is_generic =
        processor_by_elf_number(processor_number).is_some_and(|processor| processor.name.ends_with("-generic"));
    let generic_version = if abi_version == HSA_ABI_VERSION_MAX { flags >> GENERIC_VERSION_BIT } else { 0 };
    if is_generic && generic_version == 0 { Some(UnfoundReason::NoGenericVersion) } else { None }
}

/// The entries of a bundle that the runtime does not find or load, by their indices.
pub(crate) type UnfoundEntries = BTreeMap<usize, UnfoundReason>;

/// Returns the reason if HIP's runtime never finds an entry with this ID, at whatever position in a bundle. Returns
/// `None` if it may find the entry, and for IDs of other offload kinds, which other runtimes load.
pub(crate) fn unfound_id(id: &[u8]) -> Option<UnfoundReason> {
    let triple = match id.strip_prefix(b"hipv4-") {
        Some(triple) => triple,
        None => id.strip_prefix(b"hip-")?,
    };
    if TRIPLES.iter().any(|found| triple.starts_with(found)) { None } else { Some(UnfoundReason::Triple) }
}

/// Returns the entries of a bundle that runtimes do not find or load, by their indices, with the reasons. Returns no
/// entries for inputs of linkers.
pub(crate) fn unfound_in(found: &FoundBundle<'_>) -> UnfoundEntries {
    let mut unfound = unfound_by_hip(found);
    let mut refused = UnfoundEntries::new();
    for code_object in found.code_objects() {
        let header_reason = code_object.gpu_header().and_then(|header| refusal(&header));
        let reason = header_reason.or_else(|| {
            let symbols = code_object.undefined_symbols().filter(|symbols| symbols.has_function);
            symbols.map(UnfoundReason::Undefined)
        });
        if let Some(reason) = reason {
            refused.insert(code_object.index(), reason);
        }
    }
    // This check comes last, because it identifies the content of all entries.
    if !refused.is_empty() && !is_linked_later(found) {
        unfound.append(&mut refused);
    }
    unfound
}

/// Returns whether a bundle is an input of tools that link or compile its code, so that no runtime loads the code as it
/// is.
pub(crate) fn is_linked_later(found: &FoundBundle<'_>) -> bool {
    found.linking() != Linking::Before
        || found.format.has(Rule::Text)
        || (found.format.row().code_use == FormatUse::ChoiceUnlessForTools && is_for_tools(found))
}

/// Returns the entries of a bundle that HIP's runtime does not find, by their indices, with the reasons. Returns no
/// entries for other containers, and for bundles that the runtime does not load, such as inputs of linkers.
fn unfound_by_hip(found: &FoundBundle<'_>) -> UnfoundEntries {
    let mut unfound = UnfoundEntries::new();
    if found.format != Format::Bundle {
        return unfound;
    }
    let first_unread = first_unread(found);
    for (index, entry) in found.bundle.entries.iter().enumerate() {
        if let Some(reason) = unfound_id(entry.id()) {
            unfound.insert(index, reason);
        } else if let Some(first_unread) = first_unread
            && index >= first_unread
        {
            unfound.insert(index, UnfoundReason::Position);
        }
    }
    // This check comes last, because it identifies the content of all entries.
    if !unfound.is_empty() && !is_for_runtime(found) {
        unfound.clear();
    }
    unfound
}

/// Returns the recorded size of a compressed bundle if the runtime misreads it. Returns `None` if the size fits in 32
/// bits, or is not recorded.
pub(crate) fn misread_size(recorded: Recorded) -> Option<u64> {
    let total = recorded.total?;
    if u32::try_from(total).is_err() { Some(total) } else { None }
}

/// Returns the index of the first entry that HIP's runtime does not read, as [`first_unread`], but `None` for bundles
/// that it does not load.
pub(crate) fn first_lost_in(found: &FoundBundle<'_>) -> Option<usize> {
    let first = first_unread(found)?;
    if is_for_runtime(found) { Some(first) } else { None }
}

/// Returns the index of the first entry of a bundle that HIP's runtime does not read, or `None` if it reads all
/// entries. From the first unread entry on, it reads none.
fn first_unread(found: &FoundBundle<'_>) -> Option<usize> {
    if found.format != Format::Bundle {
        return None;
    }
    let Bundle { compressed, entries, .. } = found.bundle;
    match compressed {
        // With a wrong size, the runtime cannot inflate the bundle, and finds nothing.
        Some(recorded) if misread_size(*recorded).is_some() => Some(0),
        Some(_) => None,
        // Of a plain bundle, the runtime reads only the first 4096 bytes.
        None => first_beyond_header(entries.iter().map(|entry| entry.id())),
    }
}

/// Returns the index of the first entry that the first [`HEADER_MAX`] bytes of a plain bundle do not describe, or
/// `None` if they describe all entries. The entries have these IDs.
fn first_beyond_header<'i>(ids: impl Iterator<Item = &'i [u8]>) -> Option<usize> {
    header_ends(ids).position(|end| end > HEADER_MAX)
}

/// Returns the end of the description of each entry of a plain bundle, in bytes from its start. The header describes
/// the entries one after another, so the length of the IDs before an entry decides where it is.
pub(crate) fn header_ends<'i>(ids: impl Iterator<Item = &'i [u8]>) -> impl Iterator<Item = u64> {
    let entries_start = len_u64(MAGIC.as_bytes()).saturating_add(COUNT_FIELD);
    ids.scan(entries_start, |end, id| {
        add(end, total([ENTRY_FIELDS, len_u64(id)]));
        Some(*end)
    })
}

/// Returns whether a bundle is made for HIP's runtime: it holds code objects for HIP and no host code. Bundles with
/// host code, and bundles of bitcode or assembly, are inputs of compilers and linkers. Unknown content for HIP counts
/// as code, unless another entry is text: such a bundle is one of assembly.
fn is_for_runtime(found: &FoundBundle<'_>) -> bool {
    let (mut has_code, mut has_unknown, mut has_text) = (false, false, false);
    for (kind, content) in kinds_in(found) {
        match (kind, content) {
            // clang gives bundles for the runtime an empty entry for the host.
            (Some(OffloadKind::Host), Some(ContentKind::Empty)) => {}
            (Some(OffloadKind::Host), _) => return false,
            (Some(kind), Some(ContentKind::Elf | ContentKind::SpirV)) => has_code |= kind.is_hip(),
            (Some(kind), Some(ContentKind::Text)) => has_text |= kind.is_hip(),
            (Some(kind), None) => has_unknown |= kind.is_hip(),
            _ => {}
        }
    }
    has_code || has_unknown && !has_text
}

/// Returns whether a bundle is an input of compilers and linkers, which no runtime loads: it holds host code or
/// bitcode. An empty host entry does not count, because bundles for runtimes have one too.
pub(super) fn is_for_tools(found: &FoundBundle<'_>) -> bool {
    for (kind, content) in kinds_in(found) {
        let is_tool_input = match kind {
            Some(OffloadKind::Host) => content != Some(ContentKind::Empty),
            _ => content == Some(ContentKind::Bitcode),
        };
        if is_tool_input {
            return true;
        }
    }
    false
}

/// Returns the offload kind and the kind of content of each entry of a bundle. Either is `None` if it is not known.
fn kinds_in<'f>(found: &FoundBundle<'f>) -> impl Iterator<Item = (Option<OffloadKind>, Option<ContentKind>)> + use<'f> {
    found.code_objects().map(|entry| (entry.entry_id().map(|id| id.kind()), entry.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::io::{Input, write_to};
    use crate::beyond::inventory::each_bundle;
    use crate::beyond::scan::{Place, Scan};
    use crate::llvm::container::Member;
    use crate::llvm::container::binary::Binary;
    use crate::llvm::container::offload_binary::{OffloadBinary, Version};

    #[test]
    fn ids_are_compared_as_text() {
        use UnfoundReason::Triple;
        for (id, expected) in [
            ("hipv4-amdgcn-amd-amdhsa--gfx942", None),
            ("hipv4-amdgcn-amd-amdhsa--gfx9-4-generic:xnack+", None),
            ("hipv4-spirv64-amd-amdhsa--amdgcnspirv", None),
            ("hipv4-spirv64-amd-amdhsa-unknown-amdgcnspirv", None),
            ("hip-amdgcn-amd-amdhsa--gfx942", None),
            ("hip-spirv64-amd-amdhsa--amdgcnspirv", None),
            ("hipv4-amdgcn-amd-amdhsa-llvm-gfx942", Some(Triple)),
            ("hip-amdgcn-amd-amdhsa-unknown-gfx942", Some(Triple)),
            ("hipv4-amdgcn-amd-amdhsa-gfx942", Some(Triple)),
            ("hipv4-amdgcn--amdhsa--gfx942", Some(Triple)),
            ("hipv4-amdgcn-unknown-amdhsa--gfx942", Some(Triple)),
            ("hipv4-amdgcn-amd-amdpal--gfx942", Some(Triple)),
            ("hipv4-amdgpu9.42-amd-amdhsa--gfx942", Some(Triple)),
            ("hipv4-amdgpu-amd-amdhsa--gfx942", Some(Triple)),
            ("hipv4", None),
            // Other runtimes look for these.
            ("openmp-amdgcn-amd-amdhsa-llvm-gfx942", None),
            ("openmp-amdgcn-amd-amdhsa-gfx942", None),
            ("hcc-amdgcn-amd-amdhsa--gfx906", None),
            ("host-x86_64-unknown-linux-gnu-", None),
        ] {
            assert_eq!(unfound_id(id.as_bytes()), expected, "{id}");
        }
    }

    #[test]
    fn entries_after_the_first_4096_bytes_are_lost_only_in_plain_bundles() {
        let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
        elf.resize(64, 0);
        elf[18] = 224;
        let elf = Input::from_bytes("elf", elf);
        let ids: Vec<String> = (0..99).map(|index| format!("hipv4-amdgcn-amd-amdhsa--gfx90{index}")).collect();
        let members: Vec<_> = ids.iter().map(|id| Member { id: id.clone(), content: elf.as_slice() }).collect();
        // 32 bytes before 10 descriptions of 24 and 31 bytes, and 62 of 24 and 32 bytes, which end at 4054.
        let first = 72;
        assert_eq!(first_beyond_header(ids.iter().map(String::as_bytes)), Some(first));
        assert_eq!(first_beyond_header(ids[..first].iter().map(String::as_bytes)), None);
        let images = OffloadBinary { version: Version::V2 };
        for (plan, kept) in [(Binary::default().plan(&members), first), (images.plan(&members), ids.len())] {
            let mut data = Vec::new();
            write_to(&plan.unwrap(), &mut data).unwrap();
            let mut bundles = 0;
            let input = Input::from_bytes("bundle", data);
            let faults = each_bundle(&Scan::default(), &Place::of_file(input.path()), input.as_slice(), &mut |found| {
                assert_eq!(first_lost_in(found).unwrap_or(found.bundle.entries.len()), kept);
                bundles += 1;
                Ok(())
            });
            assert_eq!((faults.unwrap(), bundles), (0, 1));
        }
    }
}
