//! The command lines of llvm-objcopy that LLVM 22.1.8 would run to write a fat object or to take one apart (`-###`).
//! Nothing here runs llvm-objcopy.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{BundleFiles, FileType, Unbundle};
use crate::base::error::Result;
use crate::base::id::OffloadKind;
use crate::base::io::input::{Accept, Input};
use crate::base::io::staging::new_number;
use crate::llvm::container::MAGIC;
use crate::llvm::container::object::HostFormat;
use crate::llvm::event::Observer;
use crate::llvm::work::open;

impl BundleFiles {
    /// For a fat object, writes nothing, and returns the arguments that LLVM 22.1.8 would pass to llvm-objcopy. Writes
    /// any other bundle, which LLVM too writes without llvm-objcopy, and returns `None`.
    ///
    /// # Errors
    /// As [`BundleFiles::run`].
    pub fn run_or_command(&self, observer: &mut Observer<'_>) -> Result<Option<Vec<OsString>>> {
        let inputs = self.members.iter().map(|(_, path)| open(path, Accept::Any, None)).collect::<Result<Vec<_>>>()?;
        let host = self.members.iter().zip(&inputs).find(|((id, _), _)| id.kind() == OffloadKind::Host);
        if let Some(((_, host), input)) = host
            && needs_objcopy(self.file_type, input)
        {
            return Ok(Some(self.arguments_to_add_sections(host)));
        }
        self.run_on(&inputs, observer)?;
        Ok(None)
    }

    /// The arguments for bundling: sections, then the host's object and the output.
    fn arguments_to_add_sections(&self, host: &Path) -> Vec<OsString> {
        let mut arguments = Vec::new();
        for ((id, path), recorded) in self.members.iter().zip(self.recorded_ids()) {
            let name = [MAGIC, &recorded].concat();
            // The host's code stays outside the sections. LLVM takes the content of its section, one zero byte, from a
            // temporary file. The arguments are only shown here, so the file is named but not created.
            let content = if id.kind() == OffloadKind::Host { temporary_path() } else { path.clone() };
            let mut section = OsString::from(format!("--add-section={name}="));
            section.push(content);
            arguments.extend([section, format!("--set-section-flags={name}=readonly,exclude").into()]);
        }
        arguments.extend(["--".into(), host.into(), self.output.clone().into()]);
        arguments
    }
}

impl Unbundle {
    /// For a fat object, writes nothing. Returns the arguments that LLVM 22.1.8 would pass to llvm-objcopy to get the
    /// host's object. Returns `None` if the host is not requested or no entry serves the request: LLVM reads all other
    /// sections itself.
    ///
    /// Unbundles any other file, and returns `None`.
    ///
    /// # Errors
    /// As [`Unbundle::run`].
    pub fn run_or_command(&self, observer: &mut Observer<'_>) -> Result<Option<Vec<OsString>>> {
        let input = self.open()?;
        if !needs_objcopy(self.file_type, &input) {
            self.run_on(&input, observer)?;
            return Ok(None);
        }
        let served = self.dry_run(&input, observer)?;
        for ((id, _), is_served) in self.requests.iter().zip(served) {
            if is_served && id.kind() == OffloadKind::Host {
                return Ok(Some(arguments_to_remove_sections(&self.input)));
            }
        }
        Ok(None)
    }
}

/// Whether LLVM needs llvm-objcopy: to write or to read a fat object.
fn needs_objcopy(file_type: FileType, input: &Input) -> bool {
    file_type == FileType::Object && HostFormat::identify(input.bytes()).is_some()
}

/// The arguments for unbundling: the fat object, and a temporary file for the object without the bundle's sections.
fn arguments_to_remove_sections(input: &Path) -> Vec<OsString> {
    let pattern = format!("--remove-section={MAGIC}.*");
    vec!["--regex".into(), pattern.into(), "--".into(), input.into(), temporary_path().into()]
}

/// Returns a path in the style of LLVM's temporary files, different at each call. The file is not created, because the
/// arguments that name it are only shown.
fn temporary_path() -> PathBuf {
    let six_hex_digits = new_number() >> 40;
    std::env::temp_dir().join(format!("clang-offload-bundler-{six_hex_digits:06x}.tmp"))
}
