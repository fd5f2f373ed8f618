//! Reads and writes text bundles: code objects between comment lines.
//!
//! ```text
//! \n<comment> __CLANG_OFFLOAD_BUNDLE____START__ <entry ID>\n
//! <content>
//! \n<comment> __CLANG_OFFLOAD_BUNDLE____END__ <entry ID>\n
//! ```
//!
//! The comment is `//`, `#` or `;` by file type. Both newlines of a marker line belong to it, but one newline may end
//! an end line and begin the next line, and the first line of a file needs none before it. Lines between entries are
//! ignored. Layout: Clang Offload Bundler documentation; writer: byte for byte that of LLVM 22.1.8.
//!
//! An entry ends at the end line with its own ID, so that an entry that is itself a bundle is read whole. Without such
//! a line it ends at the next marker line if that is an end line, as in LLVM.
//!
//! Rejected: a start line without either, and an entry that holds end lines of other entries. Both would swallow the
//! entries that follow. Content that would be read back differently is not written.
#![allow(clippy::arithmetic_side_effects, reason = "positions in bytes that are in memory")]

use std::collections::HashMap;

use memchr::{memchr, memmem};

use super::limits::{EntryAllowance, MARKERS_MAX};
use super::{Container, Contents, Entry, MAGIC, Member};
use crate::base::bytes::{len_u64, to_u64};
use crate::base::display::shown;
use crate::base::error::{Error, ErrorKind, Malformed, Result};
use crate::base::io::piece::Piece;

/// The text bundle format, with the comment syntax of one language.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    /// The start of a comment line.
    pub comment: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkerSide {
    Start,
    End,
}

impl MarkerSide {
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
    side: MarkerSide,
    /// The offset of the newline before the line, which belongs to the marker. 0 if the data begins with the line.
    begin: usize,
    /// The offset of the line itself, which begins with the comment.
    comment_at: usize,
    /// The offset after the newline at the end of the line, or the end of the data.
    end: usize,
    id: &'a [u8],
}

impl Text {
    /// Plans a new text bundle of `members`.
    ///
    /// # Errors
    /// An error of the kind [`Conflict`](ErrorKind::Conflict) for content with marker lines that would end or begin an
    /// entry.
    pub fn plan<'a>(&self, members: &[Member<'a>]) -> Result<Vec<Piece<'a>>> {
        self.check_content(members)?;
        let mut pieces = Vec::with_capacity(members.len() * 3);
        for member in members {
            pieces.push(Piece::Bytes(self.marker_line(MarkerSide::Start, &member.id)));
            pieces.push(Piece::Input(member.content));
            pieces.push(Piece::Bytes(self.marker_line(MarkerSide::End, &member.id)));
        }
        Ok(pieces)
    }

    pub(crate) fn marker_line(&self, side: MarkerSide, id: &str) -> Vec<u8> {
        format!("\n{} {MAGIC}{}{id}\n", self.comment, side.word()).into_bytes()
    }

    /// Refuses content that would be read back differently because of marker lines in it. A code object may be a text
    /// bundle itself, so marker lines that do no harm are accepted.
    fn check_content(&self, members: &[Member<'_>]) -> Result<()> {
        let lines = self.planned_lines(members);
        // Only lines inside contents have an origin. The bundle is read without them, and with them.
        let inner_count = lines.iter().filter(|line| line.origin.is_some()).count();
        let expected = read_with(&lines, 0);
        if inner_count == 0 || read_with(&lines, inner_count) == expected {
            return Ok(());
        }
        // For the message, bisects for the first harmful line: with the first `good` marker lines of the contents, the
        // entries are as expected, with the first `bad` they are not.
        let (mut good, mut bad) = (0, inner_count);
        while bad - good > 1 {
            let middle = good.midpoint(bad);
            if read_with(&lines, middle) == expected {
                good = middle;
            } else {
                bad = middle;
            }
        }
        let Some((member, at)) = lines.iter().filter_map(|line| line.origin).nth(good) else { return Ok(()) };
        let offset = member.content.offset() + to_u64(at);
        let own_lines = lines.len() - inner_count;
        let reason = if own_lines + bad > MARKERS_MAX {
            format!("with the marker line at offset {offset}, the bundle has more than {MARKERS_MAX} of them")
        } else {
            format!("the marker line at offset {offset} would end or begin an entry of the bundle")
        };
        Err(Error::refused(ErrorKind::Conflict, member.content.path(), Some(offset), reason))
    }

    /// Returns the marker lines that a reader would find in the bundle of `members`, also those inside contents. More
    /// lines inside contents than allowed are cut off after the first that is too many, which is enough to refuse them.
    fn planned_lines<'m>(&self, members: &'m [Member<'_>]) -> Vec<PlannedLine<'m>> {
        // `at` is the length of the bundle before the member.
        let (mut lines, mut at, mut allowed) = (Vec::new(), 0_usize, MARKERS_MAX + 1);
        for member in members {
            let content = member.content.bytes();
            let start = self.line_of_entry(member, MarkerSide::Start, at);
            lines.push(PlannedLine { marker: start, origin: None });
            for marker in self.markers(content).take(allowed) {
                allowed -= 1;
                let origin = Some((member, marker.comment_at));
                // A marker line at the start or the end of a content shares a newline with the marker line of the
                // entry: the last one of the start line, or the first one of the end line.
                let comment_at = start.end + marker.comment_at;
                let begin = if marker.comment_at == 0 { comment_at - 1 } else { start.end + marker.begin };
                let has_newline = content.get(..marker.end).is_some_and(|text| text.ends_with(b"\n"));
                let end = start.end + marker.end + usize::from(!has_newline);
                lines.push(PlannedLine { marker: Marker { begin, comment_at, end, ..marker }, origin });
            }
            let end = self.line_of_entry(member, MarkerSide::End, start.end + content.len());
            lines.push(PlannedLine { marker: end, origin: None });
            at = end.end;
        }
        lines
    }

    /// The start or end line that the bundle has for a member, at the offset `begin` of the bundle.
    fn line_of_entry<'m>(&self, member: &'m Member<'_>, side: MarkerSide, begin: usize) -> Marker<'m> {
        let end = begin + self.marker_line(side, &member.id).len();
        Marker { side, begin, comment_at: begin + 1, end, id: member.id.as_bytes() }
    }

    /// The marker lines in file order.
    fn markers<'a>(&self, data: &'a [u8]) -> impl Iterator<Item = Marker<'a>> + use<'a> {
        let opening = format!("\n{} {MAGIC}", self.comment);
        let len = opening.len();
        // The first line of the data has no newline before it.
        let first = match opening.strip_prefix('\n') {
            Some(line) if data.starts_with(line.as_bytes()) => read_marker(data, 0, 0, line.len()),
            _ => None,
        };
        let finder = memmem::Finder::new(opening.as_bytes()).into_owned();
        let mut from = 0_usize;
        let others = std::iter::from_fn(move || {
            let begin = from.checked_add(finder.find(data.get(from..)?)?)?;
            from = begin.checked_add(len)?;
            Some(begin)
        });
        let others =
            others.filter_map(move |begin| read_marker(data, begin, begin.checked_add(1)?, begin.checked_add(len)?));
        first.into_iter().chain(others)
    }
}

/// A marker line of a bundle that is to be written.
struct PlannedLine<'m> {
    /// The line, with its offsets in the bundle.
    marker: Marker<'m>,
    /// The member whose content holds the line, and the offset in that content. `None` for a line that the bundle adds.
    origin: Option<(&'m Member<'m>, usize)>,
}

/// Reads the entries of a planned bundle as if only the first `counted` marker lines inside contents were marker lines.
/// So a caller can find out which of them changes the entries.
fn read_with(lines: &[PlannedLine<'_>], counted: usize) -> Result<Vec<Entry>, Malformed> {
    let mut remaining = counted;
    let mut markers = Vec::new();
    for line in lines {
        if line.origin.is_some() {
            if remaining == 0 {
                continue;
            }
            remaining -= 1;
        }
        markers.push(line.marker);
    }
    read_entries(&markers, 0)
}

/// Reads a marker line: a newline at `begin`, the comment at `comment_at`, and `__START__` or `__END__` at `word_at`.
/// Returns `None` if another word is there.
fn read_marker(data: &[u8], begin: usize, comment_at: usize, word_at: usize) -> Option<Marker<'_>> {
    let rest = data.get(word_at..)?;
    let side =
        [MarkerSide::Start, MarkerSide::End].into_iter().find(|side| rest.starts_with(side.word().as_bytes()))?;
    let rest = rest.get(side.word().len()..)?;
    let id_len = memchr(b'\n', rest);
    let id = rest.get(..id_len.unwrap_or(rest.len()))?;
    let id_end = word_at.checked_add(side.word().len())?.checked_add(id.len())?;
    let end = id_end.checked_add(usize::from(id_len.is_some()))?;
    Some(Marker { side, begin, comment_at, end, id })
}

impl Container for Text {
    type Entry = Entry;

    fn repeats(&self) -> bool {
        false
    }

    fn read(&self, data: &[u8], _total: u64, base: u64) -> Result<Option<Contents>, Malformed> {
        // One line more than allowed is enough for the error.
        let markers: Vec<_> = self.markers(data).take(MARKERS_MAX + 1).collect();
        let entries = read_entries(&markers, base)?;
        if entries.is_empty() {
            return Ok(None);
        }
        Ok(Some(Contents::new(entries, len_u64(data))))
    }
}

/// Reads the entries between marker lines. End lines outside of entries are ignored, as other lines there. Offsets in
/// errors count from `base`.
fn read_entries(markers: &[Marker<'_>], base: u64) -> Result<Vec<Entry>, Malformed> {
    if let Some(marker) = markers.get(MARKERS_MAX) {
        let offset = base + to_u64(marker.begin);
        let count = to_u64(markers.len());
        return Err(Malformed::value("number of marker lines", count, offset, "no more than 1048576"));
    }
    let end_lines = EndLines::new(markers);
    let (mut entries, mut room) = (Vec::new(), EntryAllowance::new());
    let mut next = 0_usize;
    while let Some(start) = markers.get(next) {
        if start.side == MarkerSide::End {
            next += 1;
            continue;
        }
        let offset = base + to_u64(start.begin);
        let end_index = end_lines.find_end(markers, next, start);
        let end_line = end_index.and_then(|index| markers.get(index));
        let (Some(index), Some(end)) = (end_index, end_line) else {
            let what = format!("the entry '{}' that starts", shown(start.id));
            return Err(Malformed::fault(what, offset, " has no end line"));
        };
        if let Some(inner) = markers.get(next + 1..index)
            && let Some(other) = find_crossing(inner)
        {
            let offset = base + to_u64(other.begin);
            let (id, other) = (shown(start.id), shown(other.id));
            return Err(Malformed::at(format!("the entry '{id}' holds the end line of '{other}'"), offset));
        }
        room.take(start.id, offset)?;
        entries.push(Entry::at(start.id, to_u64(start.end)..to_u64(end.begin)));
        next = index + 1;
    }
    Ok(entries)
}

/// Returns the first of the marker lines inside an entry that ends an entry which began before. Returns `None` if each
/// end line has a start line inside the entry too, as in an entry that is itself a bundle.
fn find_crossing<'m, 'a>(inner: &'m [Marker<'a>]) -> Option<&'m Marker<'a>> {
    let mut started: Vec<&Marker<'_>> = Vec::new();
    for marker in inner {
        match marker.side {
            MarkerSide::Start => started.push(marker),
            MarkerSide::End => match started.iter().rposition(|start| start.id == marker.id) {
                // Start lines after this one have no end line, and are forgotten with it.
                Some(start) => started.truncate(start),
                None => return Some(marker),
            },
        }
    }
    None
}

/// The end lines, so that finding the end of an entry does not scan the file again.
struct EndLines<'a> {
    /// The indices of the end lines with each ID, in file order.
    by_id: HashMap<&'a [u8], Vec<usize>>,
    /// The index of the end line that belongs to each start line, by the index of the start line. An end line belongs
    /// to the last start line of its ID before it that has no end line yet.
    partners: HashMap<usize, usize>,
}

impl<'a> EndLines<'a> {
    /// Pairs the start and end lines of each ID.
    fn new(markers: &[Marker<'a>]) -> Self {
        let mut lines = Self { by_id: HashMap::new(), partners: HashMap::new() };
        // The start lines without an end line so far, by ID: the index of each, and the offset of its end.
        let mut started: HashMap<&[u8], Vec<(usize, usize)>> = HashMap::new();
        for (index, marker) in markers.iter().enumerate() {
            let started = started.entry(marker.id).or_default();
            match marker.side {
                MarkerSide::Start => started.push((index, marker.end)),
                MarkerSide::End => {
                    lines.by_id.entry(marker.id).or_default().push(index);
                    // A start line and its end line cannot share a newline. If the last start line shares the newline
                    // of this end line, it has no end line, and the start line before it is the partner.
                    started.pop_if(|(_, end)| marker.begin < *end);
                    if let Some((start, _)) = started.pop() {
                        lines.partners.insert(start, index);
                    }
                }
            }
        }
        lines
    }

    /// Finds the end line of the entry that begins with `start`, the marker line `index`. Returns the index of the end
    /// line, or `None` if the entry has none.
    ///
    /// The end line is the partner of the start line, or else the first later end line of its ID. Without such a line,
    /// the next marker line ends the entry if it is an end line of any ID, as in LLVM.
    fn find_end(&self, markers: &[Marker<'_>], index: usize, start: &Marker<'_>) -> Option<usize> {
        if let Some(partner) = self.partners.get(&index) {
            return Some(*partner);
        }
        if let Some(lines) = self.by_id.get(start.id) {
            let earlier = lines.partition_point(|&line| !is_after(markers.get(line), start));
            if let Some(first_later) = lines.get(earlier) {
                return Some(*first_later);
            }
        }
        // The next marker line may still share the newline at the end of `start`, so it is checked as well.
        let next = index.checked_add(1)?;
        let marker = markers.get(next)?;
        if marker.side == MarkerSide::End && is_after(Some(marker), start) { Some(next) } else { None }
    }
}

/// Whether a marker line begins after the line `start`, without a common newline.
fn is_after(line: Option<&Marker<'_>>, start: &Marker<'_>) -> bool {
    line.is_some_and(|line| line.begin >= start.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::io::input::Input;
    use crate::base::io::piece::write_to;

    const SEMICOLON: Text = Text { comment: ";" };

    fn read(data: &[u8]) -> Result<Vec<(String, String)>, Malformed> {
        let mut entries = Vec::new();
        if let Some(contents) = SEMICOLON.read(data, len_u64(data), 0)? {
            for entry in contents.entries {
                let content = entry.content(data).unwrap();
                entries.push((String::from_utf8(entry.id).unwrap(), String::from_utf8(content).unwrap()));
            }
        }
        Ok(entries)
    }

    fn line(side: MarkerSide, id: &str) -> String {
        String::from_utf8(SEMICOLON.marker_line(side, id)).unwrap()
    }

    fn unclosed(id: &str, offset: u64) -> Malformed {
        Malformed::fault(format!("the entry '{id}' that starts"), offset, " has no end line")
    }

    fn bundle(entries: &[(&str, &str)]) -> String {
        entries.iter().map(|(id, text)| line(MarkerSide::Start, id) + text + &line(MarkerSide::End, id)).collect()
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
        let line = line(MarkerSide::Start, "a");
        let entries = [("a", line.as_str()), ("b", "3"), ("a", "4")];
        assert_eq!(read(bundle(&entries).as_bytes()), Ok(pairs(&entries)));
    }

    #[test]
    fn a_start_line_without_end_is_an_error() {
        let data = bundle(&[("a", "1"), ("b", "2")]);
        let cut = data.rfind("\n; __CLANG").unwrap();
        let start = u64::try_from(data.find("\n; __CLANG_OFFLOAD_BUNDLE____START__ b").unwrap()).unwrap();
        assert_eq!(read(&data.as_bytes()[..cut]), Err(unclosed("b", start)));
        assert!(read(b"\n; __CLANG_OFFLOAD_BUNDLE____START__ a").is_err());
        // The end line of the entry after it is not its own.
        let lost = data.replace("\n; __CLANG_OFFLOAD_BUNDLE____END__ a\n", "");
        assert_eq!(read(lost.as_bytes()), Err(unclosed("a", 0)));
    }

    #[test]
    fn lines_between_entries_and_other_comments_are_ignored() {
        let data = format!("first line\n{}\n; a comment\n{}", bundle(&[("a", "1")]), bundle(&[("b", "2")]));
        assert_eq!(read(data.as_bytes()), Ok(pairs(&[("a", "1"), ("b", "2")])));
        assert_eq!(read(b"\n# __CLANG_OFFLOAD_BUNDLE____START__ other comment\n"), Ok(vec![]));
        assert_eq!(read(b""), Ok(vec![]));
    }

    #[test]
    fn the_first_line_needs_no_newline_before_it() {
        let data = bundle(&[("a", "1"), ("b", "2")]);
        assert_eq!(read(data.trim_start().as_bytes()), Ok(pairs(&[("a", "1"), ("b", "2")])));
        assert!(read(b"; __CLANG_OFFLOAD_BUNDLE____START__ a\n").is_err());
    }

    #[test]
    fn an_entry_with_the_end_line_of_another_is_an_error() {
        let crossed =
            [(MarkerSide::Start, "a"), (MarkerSide::End, "b"), (MarkerSide::Start, "b"), (MarkerSide::End, "a")];
        let data: String = crossed.iter().map(|(side, id)| line(*side, id)).collect();
        let offset = u64::try_from(line(MarkerSide::Start, "a").len()).unwrap();
        assert_eq!(read(data.as_bytes()).unwrap_err().offset(), Some(offset));
        let misspelled = bundle(&[("a", "1"), ("b", "2"), ("a", "3")]).replacen("END__ a", "END__ z", 1);
        assert!(read(misspelled.as_bytes()).unwrap_err().to_string().contains("holds the end line of 'z'"));
    }

    const IDS: [&str; 2] = ["a", "b"];

    /// An input for each content, with the name of its ID.
    fn inputs_of(contents: &[String]) -> Vec<Input> {
        IDS.iter().zip(contents).map(|(id, content)| Input::from_bytes(id, content.as_bytes().to_vec())).collect()
    }

    fn members_of(inputs: &[Input]) -> Vec<Member<'_>> {
        let mut members = Vec::new();
        for (id, input) in IDS.iter().zip(inputs) {
            members.push(Member { id: id.to_string(), content: input.as_slice() });
        }
        members
    }

    /// Whether contents are refused after one of them loses its marker lines from an offset on, and later ones lose
    /// all.
    fn is_refused(contents: &[String], index: usize, kept: usize) -> bool {
        let mut contents = contents.to_vec();
        let lost = contents[index].split_off(kept).replace("; __CLANG", "; x_CLANG");
        contents[index].push_str(&lost);
        for content in &mut contents[index + 1..] {
            *content = content.replace("; __CLANG", "; x_CLANG");
        }
        SEMICOLON.plan(&members_of(&inputs_of(&contents))).is_err()
    }

    /// Asserts that the contents are refused because of the line at the offset of the error: without the lines after it
    /// they are refused, and without this line too they are not.
    fn assert_is_to_blame(error: &Error, contents: &[String]) {
        let index = IDS.iter().position(|id| error.file() == Some(id.as_ref())).unwrap();
        let at = usize::try_from(error.offset().unwrap()).unwrap();
        let line = contents[index].split_at(at);
        assert!(line.1.starts_with("; __CLANG") && (at == 0 || line.0.ends_with('\n')), "{error} {contents:?}");
        assert!(is_refused(contents, index, at + 1) && !is_refused(contents, index, at), "{error} {contents:?}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn one_marker_line_too_many_is_named() {
        let lines = bundle(&[("x", "")]).repeat(MARKERS_MAX / 2 - 2);
        let inputs = inputs_of(&[lines.clone(), bundle(&[("y", "1")])]);
        let error = SEMICOLON.plan(&members_of(&inputs)).unwrap_err();
        assert_eq!((error.file(), error.offset()), (Some("b".as_ref()), Some(1)), "{error}");
        assert!(error.to_string().contains("more than 4096"), "{error}");
        assert!(SEMICOLON.plan(&members_of(&inputs_of(&[lines, String::new()]))).is_ok());
    }

    /// Whatever lines the contents have, a bundle that is written comes back as it was.
    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn what_would_not_come_back_is_not_written() {
        let lines: Vec<String> = IDS
            .iter()
            .flat_map(|id| [MarkerSide::Start, MarkerSide::End].map(|side| (side, id)))
            .map(|(side, id)| String::from_utf8(SEMICOLON.marker_line(side, id)).unwrap())
            .flat_map(|line| {
                [line.trim_start().to_owned(), line.trim_end().to_owned(), line.replace('\n', "\r\n"), line]
            })
            .chain(["text".to_owned(), "\n".to_owned(), "\r".to_owned(), String::new()])
            .collect();
        let (mut written, mut refused) = (0, 0);
        for first in &lines {
            for second in &lines {
                for third in &lines {
                    let contents = [[first.as_str(), second, third].concat(), [third.as_str(), first].concat()];
                    let inputs = inputs_of(&contents);
                    let members = members_of(&inputs);
                    match SEMICOLON.plan(&members) {
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                            assert_is_to_blame(&error, &contents);
                            refused += 1;
                        }
                        Ok(pieces) => {
                            let mut data = Vec::new();
                            write_to(&pieces, &mut data).unwrap();
                            let expected: Vec<(&str, &str)> =
                                IDS.iter().copied().zip(contents.iter().map(String::as_str)).collect();
                            assert_eq!(read(&data), Ok(pairs(&expected)), "{contents:?}");
                            written += 1;
                        }
                    }
                }
            }
        }
        assert!(written > 500 && refused > 1000, "{written} {refused}");
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
