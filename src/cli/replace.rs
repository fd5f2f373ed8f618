//! `replace`: puts a changed code object back where it lies.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use offload_bundle::job::Replace;
use offload_bundle::scan::Uri;

use super::files::SizeOption;
use super::print::console::Console;
use super::print::units::bytes;
use super::subcommand::Options;

const EXAMPLES: &str = "\
Examples:
  Take a code object out of a library, change it, and put it back:
    clang-offload-bundler inspect --json k.so |
      jq -r '.files[].code_objects[].uri'
    clang-offload-bundler extract-bundle-entry -o code.elf \\
      'file:///k.so#offset=8192&size=9000'
    clang-offload-bundler replace 'file:///k.so#offset=8192&size=9000' code.elf

Exit status:
  0  the file was written
  1  something failed; the file is unchanged
  2  the command line is invalid";

const ABOUT: &str = "\
    Put a changed code object back where it lies.\n\n\
    URI names the code object, as `inspect --json` prints it. In a plain bundle, the new code object takes the place \
    of the old one if it has room before the next one, or in the zeros after the bundle; then only its bytes and its \
    recorded size change. Otherwise its bundle is written again, as by `recompress`: a compressed bundle is compressed, \
    and so is a plain one that has no more room in its section. Bundles in a row move together. In an ELF file, every bundle \
    stays at its offset, and one that does not fit there is an error. In a wheel, RECORD gets the right hashes and sizes.\n\n\
    A CUDA fatbin is written again, the code object compressed with the method of the old one (LZ4 instead of zlib), and so is \
    an offload binary. Elsewhere than in a file of its own, a fatbin has to fit before what follows it in its section, and an \
    offload binary keeps its size, because readers look for the next one directly after it.\n\n\
    A file that is a code object by itself is replaced. Another code object without a bundle, or one in another \
    container, can be replaced where it lies by one of the same size; an ELF file without a bundle also by a smaller \
    one, after which zeros follow. Of what is compressed, only bundles, fatbins and members of zip files are written; \
    kpack archives are not.\n\n\
    The new code object has to be what the old one is: of the same kind (ELF, SPIR-V, bitcode, PTX), for the same target, and \
    complete, as `verify` checks it. --force writes anything else, too.\n\n\
    The result is compared with the old file before it takes its place: no other code object may change. Other checksums and \
    signatures, such as those of PE files, are not looked for; Debian and RPM packages are refused.\n\n\
    The sizes in a URI are those of the code object that it names: after the replacement by one of another size, the \
    URI is another.";

/// Put a changed code object back where it lies
#[derive(Clone, Debug, Parser)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub(super) struct ReplaceOptions {
    #[arg(help = "URI of the code object to replace: file://<path>#offset=<n>&size=<n>")]
    uri: OsString,
    /// File with the new code object.
    file: PathBuf,
    /// File to write; - writes to standard output (default: the file of the URI).
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Write the new code object whatever it is: of another kind, for another target, or broken.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    size: SizeOption,
}

impl Options for ReplaceOptions {
    fn run(&self, console: &mut Console) -> anyhow::Result<ExitCode> {
        let mut replace = Replace::new(Uri::parse(&self.uri)?, &self.file);
        (replace.limits, replace.force) = (self.size.limits(), self.force);
        if let Some(output) = &self.output {
            replace.output.clone_from(output);
        }
        let replaced = replace.run(&mut |event| console.event(event))?;
        let how = match (replaced.is_in_place, replaced.is_now_compressed) {
            (true, _) => "in place",
            (false, false) => "its container was written again",
            (false, true) => "its bundle had no room and is compressed now",
        };
        console.line(&format!("code object: {} before, {} now; {how}", bytes(replaced.before), bytes(replaced.after)));
        Ok(ExitCode::SUCCESS)
    }
}
