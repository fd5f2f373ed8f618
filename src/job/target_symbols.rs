//! Adds the names of the device's symbols to the host's object, in a section `.tgtsym` as DPC++'s bundler does.
//!
//! The section holds `<entry ID>.<symbol>` and a zero byte for each symbol that is defined and visible in a code object.
//! Linkers keep it. DPC++'s `clang-offload-deps` reads it from the linked host, so that device code which only the host
//! names is linked too. The host that is unbundled keeps it for the same reason.

use super::aside::Aside;
use super::{Event, Observer};
use crate::bytes::text_lossy;
use crate::container::archive::symbols::{self, Symbols};
use crate::container::magic::Magic;
use crate::container::object::with_section;
use crate::container::{Member, bitcode};
use crate::error::{Error, ErrorKind, Result};
use crate::id::EntryId;
use crate::io::input::{Input, Slice};
use crate::io::piece::emit;

const SECTION: &str = ".tgtsym";

/// The host's object with the names of the symbols of the other members; none if they have no symbols.
pub(super) fn host_with_symbols<'m>(
    host: Slice<'_>,
    others: impl Iterator<Item = (&'m EntryId, &'m Member<'m>)>,
    observer: &mut Observer<'_>,
) -> Result<Option<Input>> {
    let mut names = Vec::new();
    for (id, member) in others {
        for symbol in symbols_of(id, member, observer)? {
            names.extend([member.id.as_bytes(), b".", &symbol, b"\0"].concat());
        }
    }
    if names.is_empty() {
        return Ok(None);
    }
    let mut aside = Aside::new(host.path());
    emit(&with_section(host, SECTION, &names)?, &mut aside)?;
    aside.into_input().map(Some)
}

fn symbols_of(id: &EntryId, member: &Member<'_>, observer: &mut Observer<'_>) -> Result<Vec<Vec<u8>>> {
    let (data, path) = (member.content.bytes(), member.content.path());
    let symbols = match Magic::identify(data) {
        Magic::Bitcode if id.triple().arch_name().starts_with("spir") => {
            bitcode::symbols_of_spir(data).map_or_else(|broken| Symbols::Unreadable(broken.0), Symbols::Names)
        }
        _ => symbols::of(data).map_err(|reason| Error::refused(ErrorKind::Malformed, path, None, reason))?,
    };
    Ok(match symbols {
        Symbols::Names(names) => names,
        Symbols::None => Vec::new(),
        Symbols::Unreadable(reason) => {
            let name = text_lossy(path.as_os_str().as_encoded_bytes());
            observer(Event::NotIndexed { name, reason: reason.to_owned() });
            Vec::new()
        }
    })
}
