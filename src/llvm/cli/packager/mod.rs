//! The packager: LLVM 22.1.8's `llvm-offload-binary`, formerly called `clang-offload-packager`.

mod image;
mod job;
mod options;

use std::path::Path;
use std::process::ExitCode;

use crate::base::error::OsText;
use crate::base::error::{Error, ErrorKind, Malformed};

use super::additions::Call;
use super::environment::hip_number;
use super::help;
use super::options::{Tool, ToolOptions};
use crate::llvm::cli::print::console::{Console, NotedError};
use job::Job;
pub(crate) use options::PackagerOptions;

pub(crate) const TOOL: &Tool = &Tool {
    names: &["offload-packager", "offload-binary"],
    subcommand: Some("package"),
    ..Tool::of::<PackagerOptions>()
};

/// The deprecated name.
const OLD_NAME: &str = "clang-offload-packager";

/// The name that replaces the deprecated one.
const NEW_NAME: &str = "llvm-offload-binary";

impl ToolOptions for PackagerOptions {
    fn run(&self, call: &Call<'_>, console: &mut Console) -> anyhow::Result<ExitCode> {
        console.set_color(self.color);
        if call.program.stem_ends_with(OLD_NAME) {
            console.unnamed_warning(&format!("'{OLD_NAME}' is deprecated. Use '{NEW_NAME}' instead."));
        }
        if self.short_help.unwrap_or_default() {
            return Ok(help::print_short(TOOL, call));
        }
        match job::plan(self)? {
            Job::Nothing => return Ok(help::print_short(TOOL, call)),
            Job::Package(mut package) => {
                let number = hip_number(|name| std::env::var_os(name), &mut |text| console.line(text));
                package.hip_number = number.unwrap_or(package.hip_number);
                package.run().map_err(|error| with_note(error, None))?;
            }
            Job::Unpackage(unpackage) => {
                let unpackaged = unpackage.run(&mut |event| console.event(event));
                unpackaged.map_err(|error| with_note(error, Some(&unpackage.input)))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Replaces the text of an error by LLVM's text, if LLVM has one. LLVM omits the details of the fault, and names no
/// file except the input; a note adds both. An error without a text of LLVM stays as it is.
fn with_note(error: Error, input: Option<&Path>) -> anyhow::Error {
    let text = match (error.io_error(), error.fault()) {
        (Some(reason), _) if error.kind() == ErrorKind::Io => {
            // LLVM names the input in its errors. An error about standard output keeps its name too.
            if let Some(file) = error.file()
                && (Some(file) == input || file.as_os_str() == "-")
            {
                return error.into();
            }
            OsText(reason).to_string()
        }
        (_, Some(Malformed::Truncated { .. })) => "The end of the file was unexpectedly encountered".to_owned(),
        (_, Some(Malformed::Bitcode { .. })) => "Failed to create module".to_owned(),
        // LLVM has no limits, so it has no text for claims beyond them, nor for errors without a fault.
        (_, None | Some(Malformed::Claim { .. })) => return error.into(),
        (_, Some(_)) => "Invalid data was encountered while parsing the file".to_owned(),
    };
    NotedError { text, note: error.to_string() }.into()
}
