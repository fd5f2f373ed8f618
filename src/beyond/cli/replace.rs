//! `replace`: puts a changed code object back in its place.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::base::error::{Error, ErrorKind};
use crate::beyond::base::text::listed;
use crate::beyond::job::{Destination, Extract, Extracted, Replace, Replaced, Source, output_file};
use crate::beyond::uri::has_scheme;
use crate::llvm::uri::Uri;
use clap::error::ErrorKind as UsageErrorKind;
use clap::{Parser, ValueHint};

use super::files::SizeOption;
use super::patterns::{self, ExactOption, Patterns};
use super::print::units::{bytes, count};
use super::subcommand::{Options, heading, refuse};
use crate::llvm::cli::print::console::Console;

/// The number of code objects that an error lists.
const NAMED_PLACES_MAX: usize = 10;

/// Put a changed code object back in its place
#[derive(Clone, Debug, Parser)]
pub(super) struct ReplaceOptions {
    #[arg(
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        help = "File with the code object to replace, or the URI of the code object",
        long_help = "File with the code object to replace, which --target and --kernel select as in `extract`. Exactly one must match. \
            Or the URI of the code object, as `inspect --uri` prints it: file://<path>#offset=<n>&size=<n>"
    )]
    place: OsString,
    /// File with the new code object.
    #[arg(value_name = "NEW")]
    content: PathBuf,
    #[arg(
        help_heading = heading::SELECTION,
        short, long, value_name = "PATTERN", value_delimiter = ',', value_parser = patterns::parse, help = patterns::TARGETS,
        long_help = format!(
            "Target IDs (gfx90a:xnack+) or bundle entry IDs (hip-amdgcn-amd-amdhsa--gfx90a) of the code object, with the wildcards \
             * ? and [...], in a comma list. {}",
            patterns::MATCHING,
        ),
    )]
    target: Vec<Patterns>,
    /// The code object defines this kernel: a part of its name, or =NAME.
    #[arg(
        help_heading = heading::SELECTION,
        long, value_name = "NAME", value_parser = patterns::check_kernel_name,
        long_help = format!("The code object defines this kernel or global variable. {}", patterns::KERNEL_NAME),
    )]
    kernel: Option<String>,
    #[command(flatten)]
    comparison: ExactOption,
    /// File or directory to write, instead of FILE; - is standard output.
    #[arg(
        short, long, value_name = "OUT", help_heading = heading::OUTPUT,
        long_help = "File to write, or directory for a file of the same name; - writes to standard output (default: the file with \
            the code object)."
    )]
    output: Option<PathBuf>,
    /// Also write a code object of another kind, for another target, or a broken one.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    size: SizeOption,
}

impl Options for ReplaceOptions {
    fn run(&self, console: &mut Console) -> anyhow::Result<ExitCode> {
        let is_selected = !self.target.is_empty() || self.kernel.is_some() || self.comparison.exact;
        if has_scheme(&self.place) && is_selected {
            let text = "a URI names one code object, so --target, --kernel and --exact need the name of a file instead";
            return refuse::<Self>(console, UsageErrorKind::ArgumentConflict, text);
        }
        if self.place == "-" {
            let text = "standard input has no code object that can be replaced; ./- names a file";
            return refuse::<Self>(console, UsageErrorKind::InvalidValue, text);
        }
        let mut written_file = None;
        let replaced = self.uri(console).and_then(|uri| {
            written_file = self.written_file(uri.path())?;
            self.replace(uri, console)
        });
        if has_scheme(&self.place)
            && let Err(error) = &replaced
            && is_invalid_uri(error)
        {
            console.last_hints.push("`inspect --uri FILE` prints the URIs of the code objects in a file".to_owned());
        }
        let text = result_text(replaced?);
        match written_file {
            Some(file) => console.line(&format!("{file}: {text}")),
            None => console.line(&text),
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl ReplaceOptions {
    /// Returns the name of the file that is written, for the message. `with_code` is the file with the code object: for
    /// a thin archive, the file of a member. Returns `None` for standard output, and if the user typed a URI, which
    /// names the file.
    fn written_file(&self, with_code: &Path) -> anyhow::Result<Option<String>> {
        let typed = Path::new(&self.place);
        let written = match &self.output {
            Some(output) if output.as_os_str() == "-" => return Ok(None),
            Some(output) => &output_file(output, with_code)?,
            None if has_scheme(&self.place) => return Ok(None),
            // The name stays as typed if it leads to the same file, as a symbolic link does.
            None if typed.canonicalize().ok() == with_code.canonicalize().ok() => typed,
            None => with_code,
        };
        Ok(Some(written.to_string_lossy().into_owned()))
    }

    /// Returns the URI of the code object: as typed, or of the only selected code object in the file.
    fn uri(&self, console: &mut Console) -> anyhow::Result<Uri> {
        if has_scheme(&self.place) {
            return Ok(Uri::parse(&self.place)?);
        }
        let file = Path::new(&self.place);
        let found = self.find(file, console)?;
        let [code_object] = found.as_slice() else {
            return Err(not_one_match(file, &found)?.into());
        };
        let Some(uri) = code_object.code_object.uri()? else {
            let reason = format!(
                "no URI can name the code object in '{}', so it cannot be replaced",
                code_object.code_object.bundle.place
            );
            return Err(Error::refused(ErrorKind::Unsupported, file, None, reason).into());
        };
        Ok(uri)
    }

    /// Finds the selected code objects as `extract` does: also code in data that only a deep search finds, if nothing
    /// else matches.
    fn find(&self, file: &Path, console: &mut Console) -> anyhow::Result<Vec<Extracted>> {
        let selection = self.comparison.selection(&self.target);
        // Nothing is written: the job only finds the code objects.
        let mut extract =
            Extract::new(vec![Source::named(file.to_owned())], selection, Destination::Nowhere(PathBuf::new()));
        extract.scan.limits = self.size.limits();
        extract.kernels = patterns::typed_kernels(&self.kernel);
        let found = extract.run(&mut |event| console.event_of_job(event));
        match found {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                extract.scan.deep = true;
                // The first search has printed its events and problems already. If the deep search fails too, the first
                // error is returned: it has the names of the code objects that are found without a deep search.
                Ok(extract.run(&mut |_| {}).map_err(|_| error)?)
            }
            found => Ok(found?),
        }
    }

    /// Replaces the code object at `uri` by the content of NEW. Without `--output`, the file with the code object is
    /// written.
    fn replace(&self, uri: Uri, console: &mut Console) -> anyhow::Result<Replaced> {
        let mut replace = Replace::new(uri, &self.content);
        (replace.limits, replace.force) = (self.size.limits(), self.force);
        if let Some(output) = &self.output {
            replace.output.clone_from(output);
        }
        Ok(replace.run(&mut |event| console.event_of_job(event))?)
    }
}

/// Returns whether an error says that the place is not a valid URI.
fn is_invalid_uri(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<Error>() {
        Some(error) => error.kind() == ErrorKind::Usage,
        None => false,
    }
}

/// Returns the error that not exactly one code object matches, with the URI of each match.
fn not_one_match(file: &Path, found: &[Extracted]) -> anyhow::Result<Error> {
    let mut places = Vec::new();
    for Extracted { code_object, .. } in found {
        match code_object.uri()? {
            Some(uri) => places.push(format!("{} at {uri}", code_object.target())),
            None => places.push(format!("{} without a URI", code_object.target())),
        }
    }
    let matches = count(found.len(), "code object", "code objects");
    let places = listed(&places, NAMED_PLACES_MAX, ", ", " and ");
    let reason = format!("{matches} match, and only one can be replaced: {places}");
    let hint = "choose with --target, --exact and --kernel, or name the URI instead of the file";
    Ok(Error::refused(ErrorKind::Ambiguous, file, None, reason).with_hint(hint))
}

/// Returns the message about success: the sizes before and after, and how the code object was written.
fn result_text(replaced: Replaced) -> String {
    let how = if replaced.is_in_place {
        "in place"
    } else if replaced.is_now_compressed {
        "its bundle had no room and is compressed now"
    } else {
        "its container was written again"
    };
    format!("code object: {} before, {} now; {how}", bytes(replaced.before), bytes(replaced.after))
}
