//! Kernels of code objects for AMD GPUs: the metadata in notes (`metadata.rs`), and the sizes of function symbols.
//!
//! The symbol of a kernel descriptor is `<function>.kd`. The symbol of the function has the size of the code. Version 2
//! has metadata in YAML, which no compiler has written since LLVM 11, and is not read.
//!
//! | key of an argument | value |
//! |---|---|
//! | `.offset`, `.size` | its range among the arguments, in bytes |
//! | `.value_kind` | its kind, which begins with `hidden_` if the runtime adds the argument |
//! | `.name` | its name in the source, which clang records for OpenCL C with `-cl-kernel-arg-info` |

use std::collections::HashMap;

use memchr::memmem;
use object::elf::STT_FUNC;

use super::{Argument, Kernel, KernelsFound, metadata};
use crate::base::bytes::len_u64;
use crate::base::error::{ErrorKind, Malformed};
use crate::beyond::base::error::fail_at;
use crate::beyond::code::elf::{File, name_of};
use crate::beyond::code::elf_tables::{MetadataForm, charge};
use crate::beyond::messagepack::Value;

/// The end of the name of a kernel descriptor's symbol, after the name of the function.
const DESCRIPTOR: &[u8] = b".kd";

/// The kind of the argument that a kernel has if it calls the host, for `printf` for example.
const HOSTCALL: &[u8] = b"hidden_hostcall_buffer";

/// Adds the kernels of a code object for an AMD GPU to a list: the kernels in its metadata, with the sizes of their
/// functions.
pub(super) fn read(file: &File<'_>, list: &mut KernelsFound) -> Result<(), Malformed> {
    let notes = file.metadata_notes(&mut list.work)?;
    // Without metadata there are no kernels, so the sizes of functions are not needed.
    let sizes = if notes.is_empty() { HashMap::new() } else { code_sizes(file, list)? };
    for note in notes {
        if note.form == MetadataForm::Yaml {
            let at = note.offset;
            let text =
                format!("code object version 2 has kernel metadata in YAML at offset {at}, which is not supported");
            return Err(Malformed::other(ErrorKind::Unsupported, at, text));
        }
        let Some(kernels) = metadata::kernels(note.content) else { return fail_at(metadata::BROKEN, note.offset) };
        for described in kernels {
            let Some(described) = described else { return fail_at(metadata::BROKEN, note.offset) };
            let name = described.name.unwrap_or_default();
            // The symbol of the descriptor is named after the function. Without it, the function has the kernel's name.
            let function = match described.symbol {
                Some(symbol) => symbol.strip_suffix(DESCRIPTOR).unwrap_or(name),
                None => name,
            };
            let arguments = list.share_arguments(note.offset, metadata::BROKEN, || arguments(described.arguments))?;
            let kernel = Kernel {
                code_size: sizes.get(function).copied(),
                hostcall: Some(has_hostcall(described.arguments)),
                arguments,
                ..described.kernel
            };
            list.add(name, kernel, note.offset)?;
        }
    }
    Ok(())
}

/// Returns whether a kernel has an argument of the kind [`HOSTCALL`]. Returns false for arguments that are broken.
fn has_hostcall(arguments: Option<Value<'_>>) -> bool {
    let Some(arguments) = arguments else { return false };
    // Most kernels have no such argument. Searching for the text shows that much faster than parsing the arguments.
    if memmem::find(arguments.bytes(), HOSTCALL).is_none() {
        return false;
    }
    let Some(mut arguments) = arguments.array() else { return false };
    arguments.any(|argument| argument.get(b".value_kind").and_then(Value::text) == Some(HOSTCALL))
}

/// Returns the arguments of a kernel, each `None` if it is broken. Returns `None` if the arguments are not an array. A
/// kernel without the key for arguments has none.
fn arguments(arguments: Option<Value<'_>>) -> Option<impl Iterator<Item = Option<Argument>>> {
    let array = match arguments {
        Some(arguments) => Some(arguments.array()?),
        None => None,
    };
    Some(array.into_iter().flatten().map(read_argument))
}

/// Reads an argument from the map that describes it. Returns `None` if it is broken.
fn read_argument(described: Value<'_>) -> Option<Argument> {
    let mut argument = Argument::default();
    for (key, value) in described.map()? {
        match key.text() {
            Some(b".offset") => argument.offset = Some(value.number_u32()?),
            Some(b".size") => argument.size = Some(value.number_u32()?),
            Some(b".value_kind") => argument.kind = Some(value.text()?.into()),
            Some(b".name") => argument.name = Some(value.text()?.into()),
            _ => {}
        }
    }
    Some(argument)
}

/// Returns the sizes of all functions in bytes, by name, from the symbol tables.
fn code_sizes<'d>(file: &File<'d>, list: &mut KernelsFound) -> Result<HashMap<&'d [u8], u64>, Malformed> {
    let mut sizes = HashMap::new();
    for table in file.symbol_tables(&mut list.work)? {
        for symbol in table.symbols.iter() {
            if symbol.is(STT_FUNC) {
                let name = name_of(table.names, symbol.name);
                charge(&mut list.work, len_u64(name), table.offset)?;
                sizes.insert(name, symbol.size);
            }
        }
    }
    Ok(sizes)
}
