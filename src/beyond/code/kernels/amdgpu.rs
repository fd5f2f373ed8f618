//! Kernels of code objects for AMD GPUs: the metadata in notes (`metadata.rs`), and the sizes of function symbols.
//!
//! The symbol of a kernel descriptor is `<function>.kd`; that of the function has the size of the code. Version 2 has
//! metadata in YAML, which no compiler has written since LLVM 11, and is not read.
//!
//! | key of an argument | value |
//! |---|---|
//! | `.offset`, `.size` | where it is among the arguments, in bytes |
//! | `.value_kind` | what it is; the kinds of those that the runtime adds begin with `hidden_` |
//! | `.name` | its name in the source, which clang records for OpenCL C with `-cl-kernel-arg-info` |

use std::collections::HashMap;

use memchr::memmem;
use object::elf::STT_FUNC;

use super::{Argument, Kernel, KernelsFound, metadata};
use crate::base::bytes::len_u64;
use crate::base::error::{ErrorKind, Malformed, wrong};
use crate::beyond::code::elf::{MetadataForm, charge};
use crate::beyond::messagepack::Value;
use crate::llvm::container::host::elf::{File, name_of};

const DESCRIPTOR: &[u8] = b".kd";

/// The kind of the argument through which a kernel calls the host.
const HOSTCALL: &[u8] = b"hidden_hostcall_buffer";

pub(super) fn read(file: &File<'_>, list: &mut KernelsFound) -> Result<(), Malformed> {
    let notes = file.notes(&mut list.work)?;
    let sizes = if notes.is_empty() { HashMap::new() } else { code_sizes(file, list)? };
    for note in notes {
        if note.form == MetadataForm::Yaml {
            let at = note.offset;
            let text =
                format!("code object version 2 has kernel metadata in YAML at offset {at}, which is not supported");
            return Err(Malformed::other(ErrorKind::Unsupported, at, text));
        }
        let Some(kernels) = metadata::kernels(note.content) else { return wrong(metadata::BROKEN, note.offset) };
        for described in kernels {
            let Some(described) = described else { return wrong(metadata::BROKEN, note.offset) };
            let name = described.name.unwrap_or_default();
            let function = described.symbol.and_then(|symbol| symbol.strip_suffix(DESCRIPTOR)).unwrap_or(name);
            let arguments = list.arguments(note.offset, metadata::BROKEN, || arguments(described.arguments))?;
            let kernel = Kernel {
                code_size: sizes.get(function).copied(),
                hostcall: Some(described.arguments.is_some_and(has_hostcall)),
                arguments,
                ..described.kernel
            };
            list.add(name, kernel, note.offset)?;
        }
    }
    Ok(())
}

/// Whether one of the arguments is for calls of the host.
fn has_hostcall(arguments: Value<'_>) -> bool {
    let is_hostcall = |argument: Value<'_>| argument.get(b".value_kind").and_then(Value::text) == Some(HOSTCALL);
    // Most kernels have none, which a search for the text shows in a fraction of the time.
    memmem::find(arguments.bytes(), HOSTCALL).is_some()
        && arguments.array().is_some_and(|mut arguments| arguments.any(is_hostcall))
}

/// Returns the arguments of a kernel, each `None` if it is broken, or `None` if the arguments are not an array.
fn arguments(arguments: Option<Value<'_>>) -> Option<impl Iterator<Item = Option<Argument>>> {
    let array = arguments.map(|arguments| arguments.array().ok_or(())).transpose().ok()?;
    Some(array.into_iter().flatten().map(argument))
}

/// An argument, from the map that describes it.
fn argument(described: Value<'_>) -> Option<Argument> {
    let mut argument = Argument::default();
    let number = |value: Value<'_>| u32::try_from(value.number()?).ok();
    for (key, value) in described.map()? {
        match key.text() {
            Some(b".offset") => argument.offset = Some(number(value)?),
            Some(b".size") => argument.size = Some(number(value)?),
            Some(b".value_kind") => argument.kind = Some(value.text()?.into()),
            Some(b".name") => argument.name = Some(value.text()?.into()),
            _ => {}
        }
    }
    Some(argument)
}

/// The sizes of all functions in bytes, by name.
fn code_sizes<'d>(file: &File<'d>, list: &mut KernelsFound) -> Result<HashMap<&'d [u8], u64>, Malformed> {
    let mut sizes = HashMap::new();
    for table in file.symbol_tables(&mut list.work)? {
        for symbol in table.symbols.iter().filter(|symbol| symbol.is(STT_FUNC)) {
            let name = name_of(table.names, symbol.name);
            charge(&mut list.work, len_u64(name), table.offset)?;
            sizes.insert(name, symbol.size);
        }
    }
    Ok(sizes)
}
