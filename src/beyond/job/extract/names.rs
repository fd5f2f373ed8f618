//! Names of new files.

use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

use crate::base::display::plain;
use crate::beyond::scan::CodeObject;

/// The maximum length of a generated file name without extension and number, in bytes: below the limit of file systems.
const NAME_MAX: usize = 240;

/// The maximum length of the entry ID in a generated file name, in bytes. The IDs that compilers write are shorter.
const ID_MAX: usize = 96;

/// The maximum length of the name of a source file in a generated file name, in bytes.
const SOURCE_MAX: usize = 64;

/// The names of new files without their extensions, unique even on case-insensitive file systems.
#[derive(Default)]
pub(super) struct FileNames {
    /// For each assigned name in lower case, the last number that was appended to it, or 1.
    numbers: HashMap<Rc<str>, u64>,
    /// The changed entries of `numbers` with their previous values, for undoing.
    changes: Vec<(Rc<str>, Option<u64>)>,
}

impl FileNames {
    /// Assigns the name of a new file, and returns it without the extension. Appends a number from 2 on if the name is
    /// taken.
    pub(super) fn assign_stem(&mut self, input: &Path, code_object: &CodeObject) -> String {
        let name = file_name(input, code_object);
        let key = name.to_ascii_lowercase();
        let Some(mut number) = self.numbers.get(&*key).copied() else {
            self.set(key.into(), 1);
            return name;
        };
        loop {
            number += 1;
            let stem = format!("{name}-{number}");
            let numbered_key = stem.to_ascii_lowercase();
            if !self.numbers.contains_key(&*numbered_key) {
                // The next file of the same name goes on from this number.
                self.set(key.into(), number);
                self.set(numbered_key.into(), 1);
                return stem;
            }
        }
    }

    /// The number of assigned names.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Sets the number of a name, and remembers the previous one for [`undo`](Self::undo).
    fn set(&mut self, name: Rc<str>, number: u64) {
        let before = self.numbers.insert(Rc::clone(&name), number);
        self.changes.push((name, before));
    }

    /// Keeps all changes so far: [`undo`](Self::undo) no longer reverts them.
    pub(super) fn keep(&mut self) {
        self.changes.clear();
    }

    /// Undoes all changes since the last call of [`keep`](Self::keep).
    pub(super) fn undo(&mut self) {
        for (name, before) in self.changes.drain(..).rev() {
            match before {
                Some(number) => self.numbers.insert(name, number),
                None => self.numbers.remove(&name),
            };
        }
    }
}

/// Returns the file name for a code object, which several code objects may share. Parts that are too long are
/// shortened: to the beginning of the entry ID, and to the ends of the names of the input and the member. Each of these
/// two names gets at least half of the space for both.
fn file_name(input: &Path, code_object: &CodeObject) -> String {
    let id = plain(&code_object.id);
    let id = id.get(..ID_MAX.min(id.len())).unwrap_or_default();
    let rest = match &code_object.source {
        Some(source) => {
            let source = plain(source.as_bytes());
            format!("{}-{}-{id}", code_object.bundle.index, end_of(&source, SOURCE_MAX))
        }
        None => format!("{}-{id}", code_object.bundle.index),
    };
    // Two dashes separate the names of the input and the member from each other and from the rest.
    let room = NAME_MAX.saturating_sub(rest.len()).saturating_sub(2);
    let input = plain(input.as_os_str().as_encoded_bytes());
    let name = match code_object.bundle.place.member() {
        Some(member) => {
            let member = plain(member.as_bytes());
            let input = end_of(&input, room.saturating_sub(member.len()).max(room / 2));
            let member = end_of(&member, room.saturating_sub(input.len()));
            format!("{input}-{member}-{rest}")
        }
        None => format!("{}-{rest}", end_of(&input, room)),
    };
    // Directories of archives are called `.kpack`, but extracted files must not be hidden.
    match name.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None => name,
    }
}

/// Returns the last bytes of a plain text, at most `max`.
fn end_of(text: &str, max: usize) -> &str {
    text.get(text.len().saturating_sub(max)..).unwrap_or_default()
}
