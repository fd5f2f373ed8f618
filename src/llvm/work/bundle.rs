//! Bundles several code objects into one file.

use std::num::NonZeroU32;
use std::path::PathBuf;

use super::FileType;
use super::loadable;
use crate::base::codec::Compression;
use crate::base::error::{Error, Result};
use crate::base::id::{EntryId, OffloadKind};
use crate::base::io::input::{self, Accept, Input};
use crate::base::io::meter::{Meter, emit};
use crate::base::io::output::{self, Manner, Output};
use crate::llvm::container::Member;
use crate::llvm::container::binary::Binary;
use crate::llvm::container::compressed;
use crate::llvm::container::content_kind::ContentKind;
use crate::llvm::container::object::{FatObject, Objects};
use crate::llvm::container::text::Text;
use crate::llvm::event::{Event, Observer};
use crate::llvm::work::open;

const NO_ALIGNMENT: &str = "for the --bundle-align option: the alignment must be at least 1";

/// Bundles code objects.
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
        let inputs = self.members.iter().map(|(_, path)| open(path, Accept::Any, None)).collect::<Result<Vec<_>>>()?;
        self.run_on(&inputs, observer)
    }

    /// Writes the bundle from open inputs: one for each member, in the same order.
    ///
    /// # Errors
    /// As [`BundleFiles::run`].
    pub fn run_on(&self, inputs: &[Input], observer: &mut Observer<'_>) -> Result<()> {
        let staged = self.stage(inputs, observer);
        output::commit(vec![input::vouch_for(inputs, staged)?])
    }

    /// Writes the bundle, but does not put it in place.
    fn stage(&self, inputs: &[Input], observer: &mut Observer<'_>) -> Result<Output> {
        let ids = self.recorded_ids();
        let members = ids.into_iter().zip(inputs).map(|(id, input)| Member { id, content: input.as_slice() });
        let members: Vec<Member<'_>> = members.collect();
        let host = self.members.iter().position(|(id, _)| id.kind() == OffloadKind::Host);
        let fat_host = host.filter(|_| self.file_type == FileType::Object && Objects::is_fat(&members));
        let plan = match self.file_type {
            FileType::Archive => {
                return Err(Error::usage("Archive files are only supported for unbundling"));
            }
            FileType::Text(comment) => Text { comment }.plan(&members)?,
            FileType::Object if fat_host.is_some() => FatObject.plan(&members)?,
            FileType::Object | FileType::Binary => {
                let alignment = self.alignment.ok_or_else(|| Error::usage(NO_ALIGNMENT))?;
                if self.file_type == FileType::Object && self.compression.is_none() {
                    self.check_loadable(&members, observer);
                }
                Binary { alignment }.plan(&members)?
            }
        };
        // A user who cannot read the host's object must not be able to read the fat object.
        let mode = fat_host.and_then(|host| inputs.get(host)?.mode());
        let mut output = Output::stage_as(&self.output, mode.map_or(Manner::Rewrite, Manner::WithMode))?;
        let mut tell = |done, total| observer(Event::Progress { done, total });
        let meter = &mut Meter::new(&mut tell);
        match self.compression.as_ref().filter(|_| fat_host.is_none()) {
            None => emit(&plan, &mut output, meter)?,
            Some(compression) => {
                let (version, to) = (self.compressed_version, &mut output.writer()?);
                let deflation = compressed::write_metered(&plan, compression, version, to, meter)?;
                observer(Event::Deflated(deflation));
            }
        }
        Ok(output)
    }

    /// The IDs as they are recorded, which is as LLVM 22.1.8 writes them.
    pub(super) fn recorded_ids(&self) -> Vec<String> {
        self.members.iter().map(|(id, _)| id.to_string()).collect()
    }

    /// Reports that HIP's runtime will not find all entries of a plain bundle.
    fn check_loadable(&self, members: &[Member<'_>], observer: &mut Observer<'_>) {
        let Some(index) = loadable::first_lost(members.iter().map(|member| member.id.as_bytes())) else { return };
        let contents = members.iter().map(|member| Some(ContentKind::of(member.content.bytes())));
        let kinds = self.members.iter().map(|(id, _)| Some(id.kind()));
        if let Some((first, _)) = self.members.get(index)
            && loadable::is_for_runtime(kinds.zip(contents))
        {
            let entries = members.len();
            observer(Event::NotLoadable { first, lost: entries - index, entries });
        }
    }
}
