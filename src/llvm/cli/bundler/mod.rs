//! The bundler: LLVM 22.1.8's `clang-offload-bundler`.

mod job;
mod options;

use std::process::ExitCode;

use crate::llvm::event::Event;
use crate::llvm::work::{List, PrintedList};

use super::additions::Call;
use super::environment::EnvironmentSettings;
use super::options::{Tool, ToolOptions};
use super::{help, objcopy};
use crate::llvm::cli::print::console::Console;
use crate::llvm::cli::print::stdout::to_stdout;
use job::Job;
pub(crate) use options::BundlerOptions;

pub(crate) const TOOL: &Tool = &Tool { goes_on_without_options: true, ..Tool::of::<BundlerOptions>() };

impl ToolOptions for BundlerOptions {
    fn run(&self, call: &Call<'_>, console: &mut Console) -> anyhow::Result<ExitCode> {
        console.set_color(self.color);
        if self.short_help.unwrap_or_default() {
            return Ok(help::print_short(TOOL, call));
        }
        let environment = EnvironmentSettings::read(|name| std::env::var_os(name), &mut |text| console.line(text));
        console.verbose = self.verbose.unwrap_or(environment.verbose);
        let print_commands = self.print_commands.unwrap_or_default();
        let job = job::plan(self, &environment, console)?;
        let mut observer = |event: Event<'_>| console.event(event);
        match job {
            Job::List(list) => print_list(&list, call, console)?,
            Job::Bundle(bundle) if print_commands => {
                if let Some(arguments) = bundle.run_or_command(&mut observer)? {
                    objcopy::print_command(&arguments);
                }
            }
            Job::Unbundle(unbundle) if print_commands => {
                if let Some(arguments) = unbundle.run_or_command(&mut observer)? {
                    objcopy::print_command(&arguments);
                }
            }
            Job::Bundle(bundle) => bundle.run(&mut observer)?,
            Job::Unbundle(unbundle) => unbundle.run(&mut observer)?,
            // `-###` has no effect on an archive. LLVM would print a command for each fat object in it.
            Job::UnbundleArchive(unbundle) => unbundle.run(&mut observer)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints the list of a file. For a file without bundles, also prints a hint on a terminal if there is one.
fn print_list(list: &List, call: &Call<'_>, console: &Console) -> anyhow::Result<()> {
    let mut listed = PrintedList::default();
    to_stdout(|out| {
        listed = list.run(out, &mut |event| console.event(event))?;
        Ok(())
    })?;
    // LLVM prints nothing for such a file, and programs may rely on that. A hint is for people.
    let may_hint = console.is_on_terminal() && listed.bundles == 0;
    if may_hint && let Some(hint) = (call.additions.list_hint)(&call.program, list.input.as_os_str(), &listed.head) {
        console.hint(&hint);
    }
    Ok(())
}
