//! `-###`: prints the command lines with which LLVM 22.1.8 would run llvm-objcopy, instead of writing a fat object or
//! taking one apart. Nothing here runs llvm-objcopy.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use offload_bundle::Observer;
use offload_bundle::Result;
use offload_bundle::container::MAGIC;
use offload_bundle::container::object::HostFormat;
use offload_bundle::id::OffloadKind;
use offload_bundle::io::{Accept, Input};
use offload_bundle::llvm::{BundleFiles, FileType, Unbundle};

use crate::cli::files::open;

const NAME: &str = "llvm-objcopy";

/// Prints the command for a fat object; writes any other bundle.
pub(in crate::cli) fn bundle(job: &BundleFiles, observer: &mut Observer<'_>) -> Result<()> {
    let inputs = job.members.iter().map(|(_, path)| open(path, Accept::Any, None)).collect::<Result<Vec<_>>>()?;
    let host = job.members.iter().zip(&inputs).find(|((id, _), _)| id.kind() == OffloadKind::Host);
    let Some(((_, host), _)) = host.filter(|(_, input)| takes_objcopy(job.file_type, input)) else {
        return job.run_on(&inputs, observer);
    };
    print(&add_sections(job, host));
    Ok(())
}

/// Prints the command for a fat object if its host is requested; unbundles any other file.
pub(in crate::cli) fn unbundle(job: &Unbundle, observer: &mut Observer<'_>) -> Result<()> {
    let input = job.open()?;
    if !takes_objcopy(job.file_type, &input) {
        return job.run_on(&input, observer);
    }
    let served = job.rehearse(&input, observer)?;
    if job.requests.iter().zip(served).any(|((id, _), is_served)| is_served && id.kind() == OffloadKind::Host) {
        print(&remove_sections(&job.input));
    }
    Ok(())
}

fn takes_objcopy(file_type: FileType, input: &Input) -> bool {
    file_type == FileType::Object && HostFormat::of(input.bytes()).is_some()
}

/// The arguments for bundling: sections, then the host's object and the output.
fn add_sections(job: &BundleFiles, host: &Path) -> Vec<OsString> {
    let mut arguments = Vec::new();
    for ((id, path), recorded) in job.members.iter().zip(job.recorded_ids()) {
        let name = [MAGIC, &recorded].concat();
        // The host's section holds one zero byte, from a temporary file.
        let content = if id.kind() == OffloadKind::Host { temporary() } else { path.clone() };
        let mut section = OsString::from(format!("--add-section={name}="));
        section.push(content);
        arguments.extend([section, format!("--set-section-flags={name}=readonly,exclude").into()]);
    }
    arguments.extend(["--".into(), host.into(), job.output.clone().into()]);
    arguments
}

/// The arguments for unbundling: the fat object, and a file for the host's object.
fn remove_sections(input: &Path) -> [OsString; 5] {
    let pattern = format!("--remove-section={MAGIC}.*");
    ["--regex".into(), pattern.into(), "--".into(), input.into(), temporary().into()]
}

/// A name in the style of LLVM's temporary files, different at each call.
fn temporary() -> PathBuf {
    let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
    let number = (nanoseconds ^ std::process::id().rotate_left(8)) & 0xff_ffff;
    std::env::temp_dir().join(format!("clang-offload-bundler-{number:06x}.tmp"))
}

fn print(arguments: &[OsString]) {
    // If standard error fails, the failure cannot be reported.
    drop(io::stderr().write_all(&[command_line(arguments), b"\n".to_vec()].concat()));
}

/// The command line for these arguments, each in double quotes as LLVM prints it.
fn command_line(arguments: &[OsString]) -> Vec<u8> {
    let program = find().map_or(OsString::from(NAME), PathBuf::into_os_string);
    let words = std::iter::once(&program).chain(arguments);
    words.map(|word| [b"\"", word.as_bytes(), b"\""].concat()).collect::<Vec<_>>().join(&b' ')
}

fn find() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok().map(|executable| executable.with_file_name(NAME));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|directory| directory.join(NAME));
    let is_executable = |metadata: Metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0;
    beside.into_iter().chain(in_path).find(|candidate| candidate.metadata().is_ok_and(is_executable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_quoted_and_nothing_is_escaped() {
        let line = String::from_utf8(command_line(&["--regex".into(), "a \"b\"".into()])).unwrap();
        assert!(line.ends_with("llvm-objcopy\" \"--regex\" \"a \"b\"\""), "{line}");
    }
}
