//! Reads and writes text bundles: code objects between comment lines.
//!
//! ```text
//! \n<comment> __CLANG_OFFLOAD_BUNDLE____START__ <entry ID>\n
//! <content>
//! \n<comment> __CLANG_OFFLOAD_BUNDLE____END__ <entry ID>\n
//! ```
//!
//! The comment is `//`, `#` or `;` by file type. Both newlines of a marker line belong to it, but one newline may end an end
//! line and begin the next line. Lines between entries are ignored. Layout: Clang Offload Bundler documentation; writer:
//! byte for byte that of LLVM 22.1.8.
//!
//! An entry ends at the end line with its own ID, so that an entry that is itself a bundle is read whole. Without such a
//! line it ends at the next marker line if that is an end line, as in LLVM. Rejected: a start line without either, because
//! entries after it would be taken for its content.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::collections::HashMap;

use memchr::{memchr, memmem};

use super::limits::{MARKERS_MAX, Room};
use super::{Container, Contents, Entry, MAGIC, Member};
use crate::bytes::{len_u64, to_u64};
use crate::display::shown;
use crate::error::{Malformed, Result};
use crate::io::piece::Piece;

/// The text bundle format, with the comment syntax of one language.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    /// The start of a comment line.
    pub comment: &'static str,
}

/// The comment prefixes of marker lines.
const COMMENTS: [&str; 3] = ["//", "#", ";"];

impl Text {
    /// The format of the text bundle that begins with `head`: its first line that is not empty is a start marker.
    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        let head = head.trim_ascii_start();
        COMMENTS.into_iter().map(|comment| Self { comment }).find(|text| {
            let rest = head.strip_prefix(text.comment.as_bytes()).and_then(|rest| rest.strip_prefix(b" "));
            rest.is_some_and(|rest| rest.starts_with(MAGIC.as_bytes()))
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Start,
    End,
}

impl Side {
    fn word(self) -> &'static str {
        match self {
            Self::Start => "__START__ ",
            Self::End => "__END__ ",
        }
    }
}

/// A marker line in the data.
#[derive(Clone, Copy, Debug)]
struct Marker<'a> {
    side: Side,
    /// The offset of its leading newline.
    begin: usize,
    /// The offset after its trailing newline, or the end of the data.
    end: usize,
    id: &'a [u8],
}

impl Text {
    fn marker_line(&self, side: Side, id: &str) -> Vec<u8> {
        format!("\n{} {MAGIC}{}{id}\n", self.comment, side.word()).into_bytes()
    }

    /// The length in bytes of a bundle with exactly these entries.
    pub(crate) fn len_of(&self, entries: &[Entry]) -> u64 {
        let line = |side, entry: &Entry| len_u64(&self.marker_line(side, "")).saturating_add(len_u64(&entry.id));
        let lens = entries
            .iter()
            .map(|entry| line(Side::Start, entry).saturating_add(entry.size()).saturating_add(line(Side::End, entry)));
        lens.fold(0, u64::saturating_add)
    }

    /// All marker lines in file order, up to one more than the maximum.
    fn markers<'a>(&self, data: &'a [u8]) -> Vec<Marker<'a>> {
        let opening = format!("\n{} {MAGIC}", self.comment);
        memmem::find_iter(data, opening.as_bytes())
            .filter_map(|begin| {
                let word_at = begin.checked_add(opening.len())?;
                let rest = data.get(word_at..)?;
                let side =
                    [Side::Start, Side::End].into_iter().find(|side| rest.starts_with(side.word().as_bytes()))?;
                let rest = rest.get(side.word().len()..)?;
                let id_len = memchr(b'\n', rest);
                let id = rest.get(..id_len.unwrap_or(rest.len()))?;
                let id_end = word_at.checked_add(side.word().len())?.checked_add(id.len())?;
                let end = id_end.checked_add(usize::from(id_len.is_some()))?;
                Some(Marker { side, begin, end, id })
            })
            .take(MARKERS_MAX.saturating_add(1))
            .collect()
    }
}

impl Container for Text {
    fn repeats(&self) -> bool {
        false
    }

    fn read(&self, data: &[u8], _total: u64, base: u64) -> Result<Option<Contents>, Malformed> {
        let markers = self.markers(data);
        if let Some(marker) = markers.get(MARKERS_MAX) {
            let (what, found) = ("number of marker lines", to_u64(markers.len()));
            let (offset, expected) = (base.saturating_add(to_u64(marker.begin)), "no more than 1048576");
            return Err(Malformed::Value { what, found, offset, expected });
        }
        let end_lines = EndLines::new(&markers);
        let (mut entries, mut room) = (Vec::new(), Room::new());
        let mut next = 0_usize;
        while let Some(start) = markers.get(next) {
            if start.side == Side::End {
                next = next.saturating_add(1);
                continue;
            }
            let offset = base.saturating_add(to_u64(start.begin));
            let end_line = end_lines.of(&markers, next, start).and_then(|index| Some((index, markers.get(index)?)));
            let Some((index, end)) = end_line else {
                return Err(Malformed::Unclosed { id: shown(start.id), offset });
            };
            room.take(start.id, offset)?;
            entries.push(Entry::at(start.id, to_u64(start.end)..to_u64(end.begin)));
            next = index.saturating_add(1);
        }
        Ok((!entries.is_empty()).then(|| Contents::new(entries, len_u64(data))))
    }

    fn plan<'a>(&self, members: &[Member<'a>]) -> Result<Vec<Piece<'a>>> {
        let pieces = members
            .iter()
            .flat_map(|member| {
                [
                    Piece::Bytes(self.marker_line(Side::Start, &member.id)),
                    Piece::Input(member.content),
                    Piece::Bytes(self.marker_line(Side::End, &member.id)),
                ]
            })
            .collect();
        Ok(pieces)
    }
}

/// The end lines, so that finding the end of an entry does not scan the file again.
struct EndLines<'a> {
    by_id: HashMap<&'a [u8], Vec<usize>>,
    /// For each start line the end line that closes it, if each closes the last open start line of its ID.
    partners: HashMap<usize, usize>,
}

impl<'a> EndLines<'a> {
    fn new(markers: &[Marker<'a>]) -> Self {
        let mut lines = Self { by_id: HashMap::new(), partners: HashMap::new() };
        let mut open: HashMap<&[u8], Vec<(usize, usize)>> = HashMap::new();
        for (index, marker) in markers.iter().enumerate() {
            let open = open.entry(marker.id).or_default();
            match marker.side {
                Side::Start => open.push((index, marker.end)),
                Side::End => {
                    lines.by_id.entry(marker.id).or_default().push(index);
                    open.pop_if(|(_, end)| marker.begin < *end);
                    lines.partners.extend(open.pop().map(|(start, _)| (start, index)));
                }
            }
        }
        lines
    }

    /// The index of the end line of the entry that `start` begins, marker `index`.
    fn of(&self, markers: &[Marker<'_>], index: usize, start: &Marker<'_>) -> Option<usize> {
        let is_after = |line: &usize| markers.get(*line).is_some_and(|line| line.begin >= start.end);
        let first = || {
            let lines = self.by_id.get(start.id)?;
            lines.get(lines.partition_point(|line| !is_after(line))).copied()
        };
        let next = || {
            let next = index.checked_add(1).filter(is_after)?;
            markers.get(next).filter(|line| line.side == Side::End).map(|_| next)
        };
        self.partners.get(&index).copied().or_else(first).or_else(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEMICOLON: Text = Text { comment: ";" };

    fn read(data: &[u8]) -> Result<Vec<(String, String)>, Malformed> {
        let contents = SEMICOLON.read(data, len_u64(data), 0)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Ok(contents.map_or(Vec::new(), |contents| {
            let content = |e: &Entry| text(&e.content(data).unwrap());
            contents.entries.iter().map(|e| (text(&e.id), content(e))).collect()
        }))
    }

    fn bundle(entries: &[(&str, &str)]) -> String {
        let line = |side, id| String::from_utf8(SEMICOLON.marker_line(side, id)).unwrap();
        entries.iter().map(|(id, text)| line(Side::Start, id) + text + &line(Side::End, id)).collect()
    }

    fn pairs(entries: &[(&str, &str)]) -> Vec<(String, String)> {
        entries.iter().map(|(id, text)| (id.to_string(), text.to_string())).collect()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let entries = [("host-a", "one\ntwo"), ("hip-b", ""), ("hip-c", "\n"), ("host-a", "again\n")];
        assert_eq!(read(bundle(&entries).as_bytes()), Ok(pairs(&entries)));
        assert!(bundle(&entries[..1]).starts_with("\n; __CLANG_OFFLOAD_BUNDLE____START__ host-a\none"));
    }

    #[test]
    fn an_entry_that_is_a_bundle_comes_back_whole() {
        let inner = bundle(&[("x", "1"), ("y", "2")]);
        let entries = [("a", inner.as_str()), ("b", "3")];
        assert_eq!(read(bundle(&entries).as_bytes()), Ok(pairs(&entries)));
    }

    #[test]
    fn an_end_line_of_another_id_ends_an_entry_that_has_none() {
        let data = bundle(&[("a", "1"), ("b", "2")]).replace("END__ a", "END__ z");
        assert_eq!(read(data.as_bytes()), Ok(pairs(&[("a", "1"), ("b", "2")])));
    }

    #[test]
    fn an_entry_that_holds_its_own_id_comes_back_whole() {
        let inner = bundle(&[("a", "1"), ("b", "2")]);
        let entries = [("a", inner.as_str()), ("b", "3")];
        assert_eq!(read(bundle(&entries).as_bytes()), Ok(pairs(&entries)));
        // A start line alone begins no entry in an entry.
        let line = String::from_utf8(SEMICOLON.marker_line(Side::Start, "a")).unwrap();
        let entries = [("a", line.as_str()), ("b", "3"), ("a", "4")];
        assert_eq!(read(bundle(&entries).as_bytes()), Ok(pairs(&entries)));
    }

    #[test]
    fn a_start_line_without_end_is_an_error() {
        let data = bundle(&[("a", "1"), ("b", "2")]);
        let cut = data.rfind("\n; __CLANG").unwrap();
        let start = u64::try_from(data.find("\n; __CLANG_OFFLOAD_BUNDLE____START__ b").unwrap()).unwrap();
        assert_eq!(read(&data.as_bytes()[..cut]), Err(Malformed::Unclosed { id: "b".into(), offset: start }));
        assert!(read(b"\n; __CLANG_OFFLOAD_BUNDLE____START__ a").is_err());
        // The end line of the entry after it is not its own.
        let lost = data.replace("\n; __CLANG_OFFLOAD_BUNDLE____END__ a\n", "");
        assert_eq!(read(lost.as_bytes()), Err(Malformed::Unclosed { id: "a".into(), offset: 0 }));
    }

    #[test]
    fn lines_between_entries_and_other_comments_are_ignored() {
        let data = format!("first line\n{}\n; a comment\n{}", bundle(&[("a", "1")]), bundle(&[("b", "2")]));
        assert_eq!(read(data.as_bytes()), Ok(pairs(&[("a", "1"), ("b", "2")])));
        assert_eq!(read(b"; __CLANG_OFFLOAD_BUNDLE____START__ at the very start\n"), Ok(vec![]));
        assert_eq!(read(b"\n# __CLANG_OFFLOAD_BUNDLE____START__ other comment\n"), Ok(vec![]));
        assert_eq!(read(b""), Ok(vec![]));
    }

    #[test]
    fn an_end_line_and_the_next_start_line_may_share_a_newline() {
        let (a, b) = (bundle(&[("a", "1")]), bundle(&[("b", "2")]));
        assert_eq!(read((a.clone() + b.trim_start()).as_bytes()), Ok(pairs(&[("a", "1"), ("b", "2")])));
        let shared = "\n; __CLANG_OFFLOAD_BUNDLE____START__ a\n; __CLANG_OFFLOAD_BUNDLE____END__ a\n";
        assert!(read(shared.as_bytes()).is_err());
        assert!(read((shared.to_owned() + &b).as_bytes()).is_err());
    }
}
