//! The bundler: LLVM 22.1.8's `clang-offload-bundler`.

mod job;
mod options;

use std::process::ExitCode;

use crate::llvm::event::Event;

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
        // `-###` shows the llvm-objcopy command with which LLVM writes a fat object. This program runs no other
        // program, so jobs other than bundling have no command to show, and run as usual.
        let print_commands = self.print_commands.unwrap_or_default();
        let job = job::plan(self, &environment, console)?;
        let mut observer = |event: Event<'_>| console.event(event);
        match job {
            Job::List(list) => to_stdout(|out| Ok(list.run(out, &mut observer)?))?,
            Job::Bundle(bundle) if print_commands => {
                if let Some(arguments) = bundle.run_or_command(&mut observer)? {
                    objcopy::print_command(&arguments);
                }
            }
            Job::Bundle(bundle) => bundle.run(&mut observer)?,
            Job::Unbundle(unbundle) => unbundle.run(&mut observer)?,
            Job::UnbundleArchive(unbundle) => unbundle.run(&mut observer)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
