//! Bundles several code objects into one file.

use std::num::NonZeroU32;
use std::path::PathBuf;

use super::FileType;
use crate::base::codec::Compression;
use crate::base::error::{Error, Result};
use crate::base::id::{EntryId, OffloadKind};
use crate::base::io::input::{self, Accept, Input};
use crate::base::io::output::{self, Output, OverwriteMode};
use crate::base::io::piece::{Piece, emit};
use crate::llvm::container::Member;
use crate::llvm::container::binary::Binary;
use crate::llvm::container::compressed;
use crate::llvm::container::object::{FatObject, Objects};
use crate::llvm::container::text::Text;
use crate::llvm::event::{Event, Observer};
use crate::llvm::work::{NO_LIMIT, open};

const NO_ALIGNMENT: &str = "for the --bundle-align option: the alignment must be at least 1";

/// Bundles code objects into one file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BundleFiles {
    /// The code objects' entry IDs and files, in the order of the bundle.
    pub members: Vec<(EntryId, PathBuf)>,
    /// The file to write.
    pub output: PathBuf,
    /// The type of the files.
    pub file_type: FileType,
    /// The alignment of code objects in a binary bundle, in bytes. `None` is an error for a bundle that needs it: any
    /// bundle except a text bundle or a fat object.
    pub alignment: Option<NonZeroU32>,
    /// The compression, or `None` for none. A fat object is never compressed, because linkers read it.
    pub compression: Option<Compression>,
    /// The version of the compressed bundle's header. `None` selects the oldest version that can hold the sizes.
    pub compressed_version: Option<compressed::HeaderVersion>,
}

impl BundleFiles {
    /// A bundle without compression and without alignment of code objects.
    pub fn new(members: Vec<(EntryId, PathBuf)>, output: impl Into<PathBuf>, file_type: FileType) -> Self {
        let alignment = Some(NonZeroU32::MIN);
        let (compression, compressed_version) = (None, None);
        Self { members, output: output.into(), file_type, alignment, compression, compressed_version }
    }

    /// Writes the bundle.
    ///
    /// # Errors
    /// Any [`Error`]. The output is then unchanged.
    pub fn run(&self, observer: &mut Observer<'_>) -> Result<()> {
        self.run_on(&self.open_inputs()?, observer)
    }

    /// Opens the file of each member.
    pub(super) fn open_inputs(&self) -> Result<Vec<Input>> {
        self.members.iter().map(|(_, path)| open(path, Accept::Any, NO_LIMIT)).collect()
    }

    /// Writes the bundle from open inputs: one for each member, in the same order.
    ///
    /// # Errors
    /// As [`BundleFiles::run`].
    pub fn run_on(&self, inputs: &[Input], observer: &mut Observer<'_>) -> Result<()> {
        let staged = self.stage(inputs, observer);
        output::commit(vec![input::unless_changed(inputs, staged)?])
    }

    /// Writes the bundle, but does not put it in place.
    fn stage(&self, inputs: &[Input], observer: &mut Observer<'_>) -> Result<Output> {
        let mut members = Vec::with_capacity(inputs.len());
        for (id, input) in self.recorded_ids().into_iter().zip(inputs) {
            members.push(Member { id, content: input.as_slice() });
        }
        // `Objects::is_fat` looks only for IDs that begin with `host-`, so the parsed kind is checked too.
        let has_host = self.members.iter().any(|(id, _)| id.kind() == OffloadKind::Host);
        let is_fat = self.file_type == FileType::Object && has_host && Objects::is_fat(&members);
        let plan = self.plan(&members, is_fat)?;
        let overwrite = if is_fat { self.overwrite_mode_of_fat_object(inputs) } else { OverwriteMode::Rewrite };
        let mut output = Output::stage_as(&self.output, overwrite)?;
        match &self.compression {
            // As in LLVM, a fat object is not compressed.
            Some(compression) if !is_fat => {
                let (version, to) = (self.compressed_version, &mut output.writer()?);
                let deflation = compressed::write_to(&plan, compression, version, to)?;
                observer(Event::Deflated(deflation));
            }
            _ => emit(&plan, &mut output)?,
        }
        Ok(output)
    }

    /// Plans the bundle, before it is compressed. An object file becomes a fat object if `is_fat`, otherwise a binary
    /// bundle.
    fn plan<'a>(&self, members: &[Member<'a>], is_fat: bool) -> Result<Vec<Piece<'a>>> {
        match self.file_type {
            FileType::Archive => Err(Error::usage("Archive files are only supported for unbundling")),
            FileType::Text(comment) => Text { comment }.plan(members),
            FileType::Object if is_fat => FatObject.plan(members),
            FileType::Object | FileType::Binary => {
                let Some(alignment) = self.alignment else { return Err(Error::usage(NO_ALIGNMENT)) };
                Binary { alignment }.plan(members)
            }
        }
    }

    /// Returns how a fat object is written: with the permissions of the host's object. A user who may not read that
    /// object must not be able to read its copy in the fat object.
    fn overwrite_mode_of_fat_object(&self, inputs: &[Input]) -> OverwriteMode {
        for ((id, _), input) in self.members.iter().zip(inputs) {
            if id.kind() == OffloadKind::Host {
                return match input.mode() {
                    Some(mode) => OverwriteMode::WithMode(mode),
                    // Copied bytes, such as those of a pipe, have no permissions.
                    None => OverwriteMode::Rewrite,
                };
            }
        }
        OverwriteMode::Rewrite
    }

    /// The IDs as LLVM 22.1.8 writes them.
    pub(super) fn recorded_ids(&self) -> Vec<String> {
        self.members.iter().map(|(id, _)| id.to_string()).collect()
    }
}
