//! The bundler: LLVM 22.1.8's `clang-offload-bundler`.

mod job;
mod options;

use std::process::ExitCode;

use offload_bundle::Event;
use offload_bundle::llvm::{List, Listed};
use offload_bundle::scan::Format;

use super::environment::EnvironmentSettings;
use super::options::{Tool, ToolOptions};
use super::{help, objcopy};
use crate::cli::print::console::Console;
use crate::cli::print::stdout::to_stdout;
use crate::cli::program::Program;
use job::Job;
pub(crate) use options::BundlerOptions;

pub(crate) const TOOL: &Tool = &Tool { goes_on_without_options: true, ..Tool::of::<BundlerOptions>() };

impl ToolOptions for BundlerOptions {
    fn run(&self, program: &Program<'_>, console: &mut Console) -> anyhow::Result<ExitCode> {
        console.set_color(self.color);
        if self.short_help.unwrap_or_default() {
            return Ok(help::print_short(TOOL, program));
        }
        let environment = EnvironmentSettings::read(|name| std::env::var_os(name), &mut |text| console.line(text));
        console.verbose = self.verbose.unwrap_or(environment.verbose);
        let print_commands = self.print_commands.unwrap_or_default();
        let job = job::plan(self, &environment, console)?;
        let mut observer = |event: Event<'_>| console.event(event);
        match job {
            Job::List(list) => {
                let mut listed = Listed::default();
                to_stdout(|out| {
                    listed = list.run(out, &mut observer)?;
                    Ok(())
                })?;
                // LLVM prints nothing, which programs may rely on.
                if console.is_on_terminal()
                    && let Some(hint) = hint(&list, listed, program)
                {
                    console.hint(&hint);
                }
            }
            Job::Bundle(bundle) if print_commands => {
                bundle.run_or_command(&mut observer)?.as_deref().into_iter().for_each(objcopy::print);
            }
            Job::Unbundle(unbundle) if print_commands => {
                unbundle.run_or_command(&mut observer)?.as_deref().into_iter().for_each(objcopy::print);
            }
            Job::Bundle(bundle) => bundle.run(&mut observer)?,
            Job::Unbundle(unbundle) => unbundle.run(&mut observer)?,
            Job::UnbundleArchive(unbundle) => unbundle.run(&mut observer)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The hint for a file without bundles, if it is of another format that is known.
fn hint(list: &List, listed: Listed, program: &Program<'_>) -> Option<String> {
    let format = listed.format.filter(|_| listed.bundles == 0)?;
    let (input, program) = (list.input.display(), String::from_utf8_lossy(program.name));
    Some(match format {
        format if format == Format::OffloadBinary.name() => format!(
            "'{input}' is an offload binary and not a bundle: llvm-offload-binary unpacks it, '{program} inspect' lists it"
        ),
        format => format!(
            "'{input}' has no bundles of this type (format: {format}): '{program} inspect' lists the device code of any file"
        ),
    })
}
