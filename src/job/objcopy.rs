//! The arguments with which LLVM 22.1.8 would run llvm-objcopy. This library never runs it; `-###` shows them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::container::{MAGIC, Member};

/// For bundling a fat object: sections, then the host's object and the output.
pub(super) fn add_sections(members: &[Member<'_>], host: usize, output: &Path) -> Vec<OsString> {
    let mut arguments = Vec::new();
    for (index, member) in members.iter().enumerate() {
        let name = [MAGIC, member.id.as_str()].concat();
        // The host's section holds one zero byte, from a file made for it.
        let content = if index == host { temporary() } else { member.content.path().to_owned() };
        arguments.push(join(&["--add-section=", &name, "="], content.as_os_str()));
        arguments.push(join(&["--set-section-flags=", &name, "=readonly,exclude"], OsStr::new("")));
    }
    let host = members.get(host).map_or(OsString::new(), |host| host.content.path().into());
    arguments.extend(["--".into(), host, output.into()]);
    arguments
}

/// For taking the host's object out of a fat object.
pub(super) fn remove_sections(input: &Path) -> Vec<OsString> {
    let pattern = format!("--remove-section={MAGIC}.*");
    vec!["--regex".into(), pattern.into(), "--".into(), input.into(), temporary().into()]
}

fn join(texts: &[&str], end: &OsStr) -> OsString {
    let mut joined = OsString::from(texts.concat());
    joined.push(end);
    joined
}

/// A name such as LLVM gives its temporary files, another one at each call.
fn temporary() -> PathBuf {
    let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
    let number = (nanoseconds ^ std::process::id().rotate_left(8)) & 0xff_ffff;
    std::env::temp_dir().join(format!("clang-offload-bundler-{number:06x}.tmp"))
}
