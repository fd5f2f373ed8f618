//! Finds the offload binaries of a file where LLVM's packager finds them:
//!
//! | file | offload binaries |
//! |---|---|
//! | offload binaries | the file itself |
//! | ELF object, library or program | sections of type `SHT_LLVM_OFFLOADING`, 0x6FFF4C0B |
//! | COFF object, PE file | sections whose names begin with `.llvm.offloading`; in linked files, `.llvm.of` |
//! | LLVM bitcode | the initialisers of the globals in `llvm.embedded.objects` |
//! | archive | members that are any of these; those of a thin archive are separate files |
//! | any other file | none |
//!
//! Names and rules: LLVM 22.1.8. The content of a section or global is an offload binary whatever it begins with.
//! Images are not searched. The first error ends the walk.

use std::path::Path;

use object::ObjectKind;
use object::elf::SectionType;

use crate::base::error::{Error, Malformed, Result, WithPath};
use crate::base::io::input::{Input, Slice};
use crate::llvm::container::archive::{Archive, ArchiveMember, InputFiles, MemberLocation, locate};
use crate::llvm::container::host::{self, ChosenSection, Section};
use crate::llvm::container::magic::{Magic, is_coff_object, is_elf_object};
use crate::llvm::container::offload_binary::OffloadBinary;
use crate::llvm::container::sequence::{Bundle, Bundles, Inflate};
use crate::llvm::container::{Limits, bitcode};

/// The ELF type of sections with offload binaries.
const SECTION_TYPE: SectionType = SectionType(0x6fff_4c0b);

/// The beginning of the names of sections with offload binaries in COFF and PE.
const SECTION_NAME: &[u8] = b".llvm.offloading";

/// The name that lld gives those sections in programs and libraries, which have no table for longer names.
const LINKED_SECTION_NAME: &[u8] = b".llvm.of";

/// The maximum nesting depth of archives.
const DEPTH_MAX: u32 = 16;

/// An offload binary, and the name of the innermost archive member that holds it.
pub(super) struct FoundBinary<'f> {
    pub(super) binary: &'f Bundle<'f>,
    pub(super) member: Option<&'f [u8]>,
}

/// Receives the offload binaries of a file in file order.
type Visitor<'v> = dyn FnMut(FoundBinary<'_>) -> Result<()> + 'v;

/// A walk through a file.
pub(super) struct Walk<'a, 'v> {
    start: Slice<'a>,
    inflate: Inflate,
    limits: Limits,
    sources: InputFiles<'a>,
    visitor: &'v mut Visitor<'v>,
}

impl<'a, 'v> Walk<'a, 'v> {
    /// Prepares the walk through a file.
    pub(super) fn new(start: Slice<'a>, inflate: Inflate, limits: Limits, visitor: &'v mut Visitor<'v>) -> Self {
        Self { start, inflate, limits, sources: InputFiles::new(start), visitor }
    }

    /// Passes the offload binaries of the file to the visitor. Returns the files that were read.
    ///
    /// # Errors
    /// The first error of the file or of the visitor.
    pub(super) fn run(mut self) -> Result<InputFiles<'a>> {
        let member = None;
        self.walk_file(self.start, member, DEPTH_MAX)?;
        Ok(self.sources)
    }

    /// Walks through a file, or through a member of this name. Fails at more than `levels_left` levels of archives in
    /// one another. Skips a file of any other kind.
    fn walk_file(&mut self, data: Slice<'_>, member: Option<&[u8]>, levels_left: u32) -> Result<()> {
        let bytes = data.bytes();
        // First, because `Magic` does not know the COFF objects of all machines.
        if is_coff_object(bytes) {
            return self.walk_object(data, member);
        }
        match Magic::identify(bytes) {
            Magic::OffloadBinary => self.visit_offload_binaries(data, member),
            Magic::Bitcode => self.walk_bitcode(data, member),
            Magic::Archive => self.walk_archive(data, levels_left),
            Magic::Pe => self.walk_object(data, member),
            magic if magic.is_elf() && is_elf_object(bytes) => self.walk_object(data, member),
            _ => Ok(()),
        }
    }

    /// Visits consecutive offload binaries, with nothing but zeros after the last one.
    fn visit_offload_binaries(&mut self, data: Slice<'_>, member: Option<&[u8]>) -> Result<()> {
        let container = OffloadBinary::default();
        let mut binaries = Bundles::new(data, &container, self.inflate).with_limits(self.limits);
        for binary in &mut binaries {
            let binary = binary?;
            (self.visitor)(FoundBinary { binary: &binary, member })?;
            // Only headers of the binary were read here, and the system may drop them from memory again.
            data.note_header_read();
            // A fault comes after the readable images, so that an error of one of them is reported first.
            if let Some(fault) = binary.faults.into_iter().next() {
                return Err(Error::malformed(data.path(), fault));
            }
        }
        match binaries.stopped_at() {
            Some(offset) => Err(trailing_data(data.path(), offset)),
            None => Ok(()),
        }
    }

    /// Visits the offload binaries in the sections of an object, library or program.
    fn walk_object(&mut self, data: Slice<'_>, member: Option<&[u8]>) -> Result<()> {
        for section in sections(data.bytes(), data.offset()).with_path(data.path())? {
            self.visit_offload_binaries(data.claimed(&section.range)?, member)?;
        }
        Ok(())
    }

    /// Visits the offload binaries that bitcode embeds, in the order of its metadata. The metadata may refer to one
    /// object several times: it is extracted once, and visited each time.
    fn walk_bitcode(&mut self, data: Slice<'_>, member: Option<&[u8]>) -> Result<()> {
        let embedded = bitcode::embedded_objects(data.bytes(), data.offset()).with_path(data.path())?;
        let mut objects = Vec::new();
        for content in embedded.contents {
            objects.push(Input::from_bytes(data.path(), content));
        }
        for index in embedded.order {
            if let Some(object) = objects.get(index) {
                self.visit_offload_binaries(object.as_slice(), member)?;
            }
        }
        Ok(())
    }

    /// Walks through the members of an archive. Fails at more than `levels_left` levels of archives, counting this one.
    fn walk_archive(&mut self, data: Slice<'_>, levels_left: u32) -> Result<()> {
        let Some(levels_left) = levels_left.checked_sub(1) else {
            return Err(Error::malformed(data.path(), Malformed::nested("archives", DEPTH_MAX, data.offset())));
        };
        for member in Archive::read(data)?.members() {
            let ArchiveMember { name, location, .. } = member?;
            let walked = match location {
                MemberLocation::Inside(content) => self.walk_file(content, Some(name), levels_left),
                MemberLocation::Beside(path) => self.walk_member_file(&path, name, levels_left),
            };
            walked.map_err(|error| locate(error, data.path(), name))?;
            // Only headers of the archive were read here, and the system may drop them from memory again.
            data.note_header_read();
        }
        Ok(())
    }

    /// Walks through a member of a thin archive, which is a separate file.
    fn walk_member_file(&mut self, path: &Path, name: &[u8], levels_left: u32) -> Result<()> {
        let input = self.sources.enter(path)?;
        let walked = self.walk_file(input.as_slice(), Some(name), levels_left);
        self.sources.leave();
        input.unless_changed(walked)
    }
}

/// The error for bytes at `offset` that are neither an offload binary nor zeros.
fn trailing_data(path: &Path, offset: u64) -> Error {
    Error::malformed(path, Malformed::fault("trailing data", offset, ": expected an offload binary or zeros"))
}

/// The sections with offload binaries, in file order. Offsets in errors count from `base`.
///
/// # Errors
/// The errors of [`host::sections`], and an error for a section of COFF or PE whose name cannot be read.
fn sections(data: &[u8], base: u64) -> Result<Vec<ChosenSection<()>>, Malformed> {
    host::sections(data, base, |section| if has_offload_binaries(section)? { Ok(Some(())) } else { Ok(None) })
}

/// Whether a section holds offload binaries: in ELF by its type, in COFF and PE, which have no such type, by its name.
fn has_offload_binaries(section: &Section<'_>) -> object::read::Result<bool> {
    if let Some(section_type) = section.section_type() {
        return Ok(section_type == SECTION_TYPE);
    }
    let name = section.name?;
    let is_linked = section.object != ObjectKind::Relocatable;
    Ok(name.starts_with(SECTION_NAME) || (is_linked && name == LINKED_SECTION_NAME))
}
