//! Writes code objects to files.

use std::collections::HashSet;
use std::mem;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{Destination, Extract, Extracted};
use crate::base::bytes::{add, len_u64, slice};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::io::input::Slice;
use crate::base::io::output::{self, Output, OverwriteMode};
use crate::base::io::piece::Sink;
use crate::beyond::code::target;
use crate::beyond::container::ContentKind;
use crate::beyond::scan::CodeObject;

/// A code object being written to a file. The first bytes of the code object determine the name of the file.
pub(super) struct Pending<'j> {
    destination: &'j Destination,
    /// The directory of the file in place of the destination's, if there are too many files for that.
    own_directory: Option<&'j Path>,
    /// The name of the file without the extension; empty once the file is open.
    stem: String,
    /// The first bytes of the code object, which are not written yet. `None` once the file is open.
    head: Option<Vec<u8>>,
    /// The expected size of the code object in bytes.
    expected: u64,
    /// The results so far. The code object has the size that is written so far.
    pub(super) extracted: Extracted,
    /// The hash of the bytes so far, if it is asked for.
    hash: Option<Sha256>,
    pub(super) output: Option<Output>,
}

impl<'j> Pending<'j> {
    /// Prepares the file for a code object. `stem` is its name without the extension, and `earlier` the number of code
    /// objects that are extracted before this one.
    pub(super) fn new(job: &'j Extract, stem: String, earlier: usize, mut code_object: CodeObject) -> Self {
        // The number of files is known only at the end. The first ones are then moved if there are too many.
        let mut own_directory = None;
        if let Some(own) = &job.own_directory
            && earlier >= own.other_max
        {
            own_directory = Some(&*own.path);
        }
        // From here on, the size of the code object counts the written bytes.
        let expected = mem::take(&mut code_object.size);
        let extracted = Extracted { path: PathBuf::new(), sha256: None, code_object };
        let hash = if job.sha256 { Some(Sha256::new()) } else { None };
        let destination = &job.destination;
        Self { destination, own_directory, stem, head: Some(Vec::new()), expected, extracted, hash, output: None }
    }

    /// Ends the file. Fails if the file would overwrite one of the `inputs`, which are canonical paths.
    pub(super) fn finish(mut self, inputs: &HashSet<PathBuf>) -> Result<Self> {
        // All bytes of a short code object may still be in `head`.
        const NO_MORE: &[u8] = &[];
        self.open_unless_open(NO_MORE)?;
        if let Some(hash) = self.hash.take() {
            self.extracted.sha256 = Some(hash.finalize().into());
        }
        self.ensure_not_input(inputs)?;
        Ok(self)
    }

    /// Copies the finished file to another directory, where it must not replace one of the `inputs`. Does nothing if
    /// the file is there already.
    pub(super) fn move_to(&mut self, directory: &Path, inputs: &HashSet<PathBuf>) -> Result<()> {
        let path = directory.join(self.extracted.path.file_name().unwrap_or_default());
        if path == self.extracted.path {
            return Ok(());
        }
        self.extracted.path = path;
        self.ensure_not_input(inputs)?;
        if let Some(mut written) = self.output.take() {
            create_own_directory(directory)?;
            // The staged file may have the permissions of a file that it would have replaced, so make a new one.
            let mut output = Output::stage_as(&self.extracted.path, OverwriteMode::Generated)?;
            output.copy(written.read_again(&self.extracted.path)?.as_slice())?;
            output.complete()?;
            self.output = Some(output);
        }
        Ok(())
    }

    /// Fails if the file would overwrite one of the `inputs`, which are canonical paths.
    fn ensure_not_input(&self, inputs: &HashSet<PathBuf>) -> Result<()> {
        let path = &self.extracted.path;
        match path.canonicalize() {
            Ok(existing) if inputs.contains(&existing) => Err(Error::overwrites_input(path)),
            _ => Ok(()),
        }
    }

    /// Opens the file unless it is open, and writes the bytes in `head`. These bytes and the `next` ones identify the
    /// kind of the code object, which decides the extension of its name. The caller writes the `next` bytes.
    fn open_unless_open(&mut self, next: &[u8]) -> Result<()> {
        // The file is open as soon as there is no `head`.
        let Some(unwritten) = self.head.take() else { return Ok(()) };
        let known = [&unwritten, next].concat();
        let head = slice(&known, 0, ContentKind::HEAD_LEN).unwrap_or(&known);
        let kind = ContentKind::identify(head);
        // Many files may wait until the last one is written, so each keeps only its path.
        let mut path = self.destination.path_for(&mem::take(&mut self.stem), kind);
        if let Some(directory) = self.own_directory {
            path = directory.join(path.file_name().unwrap_or_default());
        }
        self.create_directory_of(&path)?;
        if !matches!(self.destination, Destination::Nowhere(_)) {
            let mut output = Output::stage_as(&path, OverwriteMode::Generated)?;
            output.write(&unwritten)?;
            self.output = Some(output);
        }
        // The search may not have known the kind and the target of a compressed code object.
        let code_object = &mut self.extracted.code_object;
        code_object.kind = Some(kind);
        if code_object.recorded_target.is_none() {
            code_object.recorded_target = target::target_id(head).map(Into::into);
        }
        self.extracted.path = path;
        Ok(())
    }

    /// Creates the directory of the new file. Does nothing for standard output, or if no files are written.
    fn create_directory_of(&self, path: &Path) -> Result<()> {
        if let (Destination::Directory(_), Some(directory)) = (self.destination, path.parent()) {
            match self.own_directory {
                // The user did not choose the name of this directory, so it must not be a link.
                Some(directory) => create_own_directory(directory)?,
                None => output::create_directory(directory)?,
            }
        }
        Ok(())
    }

    /// Releases the buffer of the output if everything is written. Thousands of outputs may wait until the last one is
    /// written.
    fn release_if_complete(&mut self) -> Result<()> {
        if self.extracted.code_object.size >= self.expected
            && let Some(output) = &mut self.output
        {
            output.complete()?;
        }
        Ok(())
    }
}

/// Creates a directory whose name the user did not choose. A link of this name is refused, because another user may
/// have put it there.
fn create_own_directory(directory: &Path) -> Result<()> {
    if directory.is_symlink() {
        let reason = "the new directory for the files has the name of a link; --output names another directory";
        return Err(Error::refused(ErrorKind::Conflict, directory, None, reason.to_owned()));
    }
    output::create_directory(directory)
}

impl Sink for Pending<'_> {
    /// Writes the next bytes. Collects them in `head` until they suffice to identify the kind of the code object.
    fn write(&mut self, data: &[u8]) -> Result<()> {
        add(&mut self.extracted.code_object.size, len_u64(data));
        if let Some(hash) = &mut self.hash {
            hash.update(data);
        }
        if let Some(head) = &mut self.head
            && len_u64(head).saturating_add(len_u64(data)) < ContentKind::HEAD_LEN
        {
            head.extend_from_slice(data);
            return Ok(());
        }
        self.open_unless_open(data)?;
        if let Some(output) = &mut self.output {
            output.write(data)?;
        }
        self.release_if_complete()
    }

    /// Copies the next bytes, which are a range of a file. The start of this range identifies the kind of the code
    /// object, without waiting for more bytes.
    fn copy(&mut self, slice: Slice<'_>) -> Result<()> {
        add(&mut self.extracted.code_object.size, slice.len());
        if let Some(hash) = &mut self.hash {
            slice.read_blocks(&mut |block| {
                hash.update(block);
                Ok(())
            })?;
        }
        let head = slice.slice(0, slice.len().min(ContentKind::HEAD_LEN)).unwrap_or(slice);
        self.open_unless_open(head.bytes())?;
        if let Some(output) = &mut self.output {
            output.copy(slice)?;
        }
        self.release_if_complete()
    }
}
