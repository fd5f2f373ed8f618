//! `replace`: puts a changed code object back in its place.

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
    Put a changed code object back in its place.\n\n\
    URI names the code object, as `inspect --json` prints it. In a plain bundle, the new code object is written over the old \
    one if it fits before the next one, or into the zeros after the bundle. Then only its bytes and its recorded size \
    change. Otherwise the bundle is written again, as by `recompress`: a compressed bundle is compressed again, and a plain \
    one is compressed if its section has no room for it. Adjacent bundles move together. In an ELF file, every bundle keeps \
    its offset, and a bundle that does not fit there is an error. In a wheel, RECORD is updated with the new hashes and \
    sizes.\n\n\
    A CUDA fatbin is written again, and the code object is compressed by the method of the old one (LZ4 instead of zlib). An \
    offload binary is written again too. Inside another file, a fatbin must fit before the data that follows it in its \
    section, and an offload binary must keep its size, because readers look for the next one directly after it.\n\n\
    A file that is a single code object is replaced as a whole. Any other code object without a bundle, and one in another \
    container, can only be replaced by one of the same size. An ELF file without a bundle can also be replaced by a smaller \
    one; zeros fill the rest. Compressed bundles, fatbins and members of zip files can be written; kpack archives and other \
    compressed files cannot.\n\n\
    The new code object must be of the same kind (ELF, SPIR-V, bitcode, PTX), for the same target, and complete, as `verify` \
    checks it. --force skips these checks.\n\n\
    The result is compared with the old file before it takes its place: no other code object may change. Other checksums and \
    signatures, such as those of PE files, are not updated. Debian and RPM packages are refused.\n\n\
    A URI contains the size of its code object, so a replacement of another size has a new URI.";

/// Put a changed code object back in its place
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
    /// Also write a code object of another kind, for another target, or a broken one.
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
