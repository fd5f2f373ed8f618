//! Chooses the reader of bundles by their first bytes, so that a search needs no option like the bundler's `-type`.

use super::entry::{SearchEntry, SearchFormat, searched};
use super::sequence::{Bundle, SearchContainer};
use super::syclbin::SyclBin;
use super::text;
use super::{Format, Magic};
use crate::base::bytes::{Bounds, len_u64, slice};
use crate::base::error::{Error, Malformed};
use crate::base::io::input::Slice;
use crate::beyond::code::{self, CodeMagic, target};
use crate::llvm::container::binary::Binary;
use crate::llvm::container::object::FatObject;
use crate::llvm::container::stream::Compressed;
use crate::llvm::container::{Container, Contents, Entry, Limits, object};

/// The reader of consecutive bundles: fatbins, offload binaries, or bundles of any format of LLVM's bundler.
#[derive(Clone, Copy)]
pub(crate) struct BundleReader {
    pub(crate) container: &'static (dyn SearchContainer + Sync),
    /// Returns the format of a bundle that was read, or the fault that hides it.
    pub(crate) format_of: fn(&Bundle<'_>) -> Result<Format, Malformed>,
}

impl BundleReader {
    /// The reader of bundles of any format of LLVM's bundler.
    pub(crate) const ANY_BUNDLE: Self = Self { container: &AnyBundle, format_of: AnyBundle::format_of_bundle };

    /// The reader of host objects that are known to be fat objects. `AnyBundle` is not needed then.
    pub(crate) const FAT_OBJECT: Self =
        Self { container: &SearchFormat(FatObject), format_of: |_| Ok(Format::FatObject) };

    /// The reader of offload binaries. SYCLBIN files are offload binaries too, so one reader takes both.
    pub(crate) const OFFLOAD_BINARY: Self =
        Self { container: &SearchFormat(SyclBin), format_of: SyclBin::format_of_bundle };

    /// The reader of sections that LLVM's packager looks for offload binaries in.
    pub(crate) const OFFLOADING_SECTION: Self =
        Self { container: &OffloadingSection, format_of: OffloadingSection::format_of_bundle };

    /// Returns the reader of data with this magic.
    pub(crate) fn for_magic(magic: Magic) -> Self {
        match magic {
            Magic::Container(format) => format.row().reader,
            _ => Self::ANY_BUNDLE,
        }
    }
}

impl SyclBin {
    /// Returns the format of a bundle that was read as an offload binary: a SYCLBIN file if the first entry has the
    /// strings of one.
    fn format_of_bundle(bundle: &Bundle<'_>) -> Result<Format, Malformed> {
        let first = bundle.entries.first().map(|entry| &entry.entry);
        Ok(if Self::has_part(first) { Format::SyclBin } else { Format::OffloadBinary })
    }
}

/// The content of a section for offload binaries: offload binaries, and the images that `llvm-offload-wrapper
/// --kind=openmp` of LLVM 22 puts there as they are, at multiples of 8. LLVM's packager reads no such images.
pub(crate) struct OffloadingSection;

impl OffloadingSection {
    /// Returns whether data with this magic is an image without an offload binary around it.
    pub(crate) fn is_image(magic: Magic) -> bool {
        magic.code().is_some_and(Self::is_image_of)
    }

    fn is_image_of(code: CodeMagic) -> bool {
        code.is_elf() || matches!(code, CodeMagic::SpirV | CodeMagic::Bitcode)
    }

    /// Returns the format of a bundle that was read from the section, which is a code object for an image.
    fn format_of_bundle(bundle: &Bundle<'_>) -> Result<Format, Malformed> {
        if Self::is_image(Magic::identify(bundle.beginning())) {
            return Ok(Format::CodeObject);
        }
        SyclBin::format_of_bundle(bundle)
    }
}

impl Container for OffloadingSection {
    type Entry = SearchEntry;

    /// Reads an image as a bundle of one code object, and anything else as an offload binary.
    fn read(&self, data: &[u8], total: u64, base: u64) -> Result<Option<Contents<SearchEntry>>, Malformed> {
        let code = match Magic::identify(data) {
            Magic::Code(code) if Self::is_image_of(code) => code,
            _ => return SearchFormat(SyclBin).read(data, total, base),
        };
        let len = code::len(code, data).ok();
        let Some((len, image)) = len.and_then(|len| Some((len, slice(data, 0, len)?))) else {
            return Err(Malformed::at("a device image that is not complete", base));
        };
        let id = target::triple_and_target_id(image);
        Ok(Some(Contents::new(vec![Entry::at(id.as_bytes(), 0..len).into()], len)))
    }

    fn compressed<'a>(&self, data: Slice<'a>, limits: Limits) -> Result<Option<Compressed<'a>>, Error> {
        SyclBin.compressed(data, limits)
    }
}

impl SearchContainer for OffloadingSection {}

/// The bytes that MetaX's bundler writes after a bundle. They are skipped like padding, because bundles may follow.
const FILE_END: &[u8] = b"__FILE_END__";

/// The container for bundles of any format of LLVM's bundler, which the first bytes decide: bundles, text bundles and
/// fat objects, also compressed.
pub(crate) struct AnyBundle;

impl AnyBundle {
    /// Returns the format of a bundle that was read as [`AnyBundle`].
    ///
    /// # Errors
    /// [`Malformed`] if the bundle is compressed, and the inflated content has no known format.
    pub(crate) fn format_of_bundle(bundle: &Bundle<'_>) -> Result<Format, Malformed> {
        if let Some(format) = Self::format_of_head(bundle.beginning()) {
            return Ok(format);
        }
        // A plain bundle has been read by its format, so only a compressed bundle comes here. `bundle` is never used.
        let what = if let Some(recorded) = bundle.compressed { recorded.what } else { "bundle" };
        Err(Malformed::compressed(what, bundle.offset, "the inflated data is not a bundle"))
    }

    /// Returns the format of an inflated or plain bundle that begins with `head`, or `None` if the bytes are not a
    /// bundle.
    pub(crate) fn format_of_head(head: &[u8]) -> Option<Format> {
        match Magic::identify(head) {
            Magic::Container(format @ (Format::Bundle | Format::TextBundle)) => Some(format),
            _ => object::HostFormat::identify(head).map(|_| Format::FatObject),
        }
    }
}

impl Container for AnyBundle {
    type Entry = SearchEntry;

    /// Reads a bundle of the format that its first bytes show.
    fn read(&self, data: &[u8], total: u64, base: u64) -> Result<Option<Contents<SearchEntry>>, Malformed> {
        let contents = match Self::format_of_head(data) {
            Some(Format::Bundle) => Binary::default().read(data, total, base),
            // Nothing records the end of a text bundle, so `data` has to be all of it: the beginning alone is an error.
            Some(Format::TextBundle) => match text::identify(data) {
                Some(text) if len_u64(data) == total => text.read(data, total, base),
                _ => Err(Bounds::of(data, base).truncated(0, total, "the text bundle")),
            },
            Some(_) => FatObject.read(data, total, base),
            None => Ok(None),
        }?;
        Ok(contents.map(searched))
    }
}

impl SearchContainer for AnyBundle {
    /// Returns the length of bytes between bundles that are skipped like padding.
    fn filler_len(&self, data: &[u8]) -> u64 {
        if data.starts_with(FILE_END) { len_u64(FILE_END) } else { 0 }
    }
}
