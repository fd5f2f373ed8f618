//! Errors for files that cannot be recompressed, with advice for each kind of file.

use crate::base::bytes::slice;
use crate::base::error::{Error, ErrorKind};
use crate::base::io::input::Slice;
use crate::beyond::code::{CodeMagic, elf, spirv};
use crate::beyond::container::magic::is_text;
use crate::beyond::container::package::is_debian_package;
use crate::beyond::container::{Format, Magic};
use crate::beyond::scan::sections::{SectionContent, device_contents};

/// The number of bytes that are examined to recognise a text file.
const TEXT_HEAD: u64 = 4096;

const UNPACK: &str = "unpack it and recompress the libraries in it, then pack them again";
const LINK: &str = "link it first; recompress the library or program";
const LINK_FAT: &str =
    "link it first; recompress the library or program. --keep and --drop remove code from fat objects";
const COMPRESS_IMAGES: &str = "compress its device images when it is linked: icpx --offload-compress";
const PACK: &str = "pack it with --compress instead: see 'package --help'";
const KEEP_HEADERS: &str = "recompress it before its section headers are removed (sstrip), or link it with them";
const SUPPORTED: &str = "recompress takes bundles and fatbins, ELF and PE files with them in their sections, and static libraries and zip files of these; inspect shows what a file holds";

const ELF: &str = "ELF file without a bundle in .hip_fatbin or a fatbin in .nv_fatbin or __nv_relfatbin";
const PE: &str = "PE file without a bundle in .hip_fat or a fatbin in .nv_fatb or __nv_rel";
const CODE_OBJECT: &str = "code object without a bundle around it";

/// Returns the error for a file without a bundle that can be rewritten.
pub(super) fn refusal(data: Slice<'_>) -> Error {
    let (name, hint) = describe(data.bytes());
    let reason = match name {
        Some(name) => format!("{}: not supported", with_article(name)),
        None => "cannot recompress: not a bundle, an ELF or PE file, an archive or a zip file".to_owned(),
    };
    Error::refused(ErrorKind::Unsupported, data.path(), None, reason).with_hint(hint)
}

/// Returns the name of the kind of a file, if it is known, and advice.
fn describe(data: &[u8]) -> (Option<&'static str>, &'static str) {
    let magic = Magic::identify(data);
    let (name, hint) = match magic {
        _ if data.is_empty() => ("empty file", SUPPORTED),
        // All other bundles can be recompressed, so only a compressed fat object gets here.
        Magic::Container(Format::Bundle) | Magic::CompressedBundle => ("compressed fat object", LINK),
        Magic::Container(Format::OffloadBinary) => ("offload binary", PACK),
        Magic::Code(CodeMagic::SpirV) if spirv::has_kernels(data) => (CODE_OBJECT, PACK),
        Magic::Code(CodeMagic::Ptx) => (CODE_OBJECT, PACK),
        magic if magic.is_gpu_elf() => (CODE_OBJECT, PACK),
        Magic::Code(CodeMagic::Elf | CodeMagic::BrokenElf) | Magic::Coff | Magic::Pe => {
            return describe_by_sections(magic, data);
        }
        Magic::Archive if is_debian_package(data) => ("Debian package", UNPACK),
        Magic::Archive => ("archive in which no member can be recompressed", SUPPORTED),
        Magic::Zip => ("zip file in which no member can be recompressed", SUPPORTED),
        Magic::Unknown if is_text(slice(data, 0, TEXT_HEAD).unwrap_or(data)) => ("text file", SUPPORTED),
        magic => return (magic.name(), if magic.is_package() { UNPACK } else { SUPPORTED }),
    };
    (Some(name), hint)
}

/// Returns the name of a program, library or object file, and advice. Both depend on its sections.
fn describe_by_sections(magic: Magic, data: &[u8]) -> (Option<&'static str>, &'static str) {
    let read_contents = device_contents(data);
    let contents = match &read_contents {
        Ok(contents) => contents.as_slice(),
        Err(_) => &[],
    };
    match magic {
        _ if contents.contains(&SectionContent::FatObject) => (Some("fat object"), LINK_FAT),
        _ if contents.contains(&SectionContent::DeviceImages) => {
            (Some("program with device images of DPC++"), COMPRESS_IMAGES)
        }
        // Any data may begin like a COFF object. Without readable sections, it is not called one.
        Magic::Coff if read_contents.is_err() => (None, SUPPORTED),
        Magic::Coff
            if contents.contains(&SectionContent::Containers)
                || contents.contains(&SectionContent::OffloadBinaries) =>
        {
            (Some("COFF object"), LINK)
        }
        Magic::Code(CodeMagic::Elf) if elf::File::read(data).is_ok_and(|file| file.sections.is_empty()) => {
            (Some("ELF file without section headers"), KEEP_HEADERS)
        }
        Magic::Code(CodeMagic::Elf | CodeMagic::BrokenElf) => (Some(ELF), SUPPORTED),
        Magic::Pe => (Some(PE), SUPPORTED),
        magic => (magic.name(), SUPPORTED),
    }
}

/// Returns a noun with its article. Short names are read letter by letter.
fn with_article(name: &str) -> String {
    let letters = ["AKS", "ELF", "HCF", "LLVM", "LZ4", "lz", "RPM", "x", "XCOFF"];
    let is_an = name.starts_with(['a', 'e', 'i', 'o']) || letters.iter().any(|start| name.starts_with(start));
    format!("{} {name}", if is_an { "an" } else { "a" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_named_with_their_article() {
        for name in [
            "xz file",
            "xar archive",
            "RPM package",
            "LZ4 file",
            "lzip file",
            "ar archive",
            "offload binary",
            "XCOFF file",
        ] {
            assert_eq!(with_article(name), format!("an {name}"));
        }
        for name in
            ["tar archive", "PE file", "SquashFS image", "7-Zip archive", "Mach-O file", "zstd file", "kpack archive"]
        {
            assert_eq!(with_article(name), format!("a {name}"));
        }
    }
}
