//! The command line of llvm-objcopy that LLVM 22.1.8 would run to write a fat object (`-###`).
//! Nothing here runs llvm-objcopy.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{BundleFiles, FileType};
use crate::base::error::Result;
use crate::base::id::OffloadKind;
use crate::base::io::staging::new_number;
use crate::llvm::container::MAGIC;
use crate::llvm::container::object::HostFormat;
use crate::llvm::event::Observer;

impl BundleFiles {
    /// For a fat object, writes nothing, and returns the arguments that LLVM 22.1.8 would pass to llvm-objcopy. Writes
    /// any other bundle, which LLVM too writes without llvm-objcopy, and returns `None`.
    ///
    /// # Errors
    /// As [`BundleFiles::run`].
    pub fn run_or_command(&self, observer: &mut Observer<'_>) -> Result<Option<Vec<OsString>>> {
        let inputs = self.open_inputs()?;
        let host = self.members.iter().zip(&inputs).find(|((id, _), _)| id.kind() == OffloadKind::Host);
        if let Some(((_, host_path), input)) = host
            && self.file_type == FileType::Object
            && HostFormat::identify(input.bytes()).is_some()
        {
            return Ok(Some(self.arguments_to_add_sections(host_path)));
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

/// Returns a path in the style of LLVM's temporary files, different at each call. The file is not created, because the
/// arguments that name it are only shown.
fn temporary_path() -> PathBuf {
    let six_hex_digits = new_number() >> 40;
    std::env::temp_dir().join(format!("clang-offload-bundler-{six_hex_digits:06x}.tmp"))
}
