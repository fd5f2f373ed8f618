use memchr::memmem;
use offload_bundle::ErrorKind;
use offload_bundle::container::text::Text;
use offload_bundle::container::{Container, Entry, Member, Part};
use offload_bundle::io::Input;
use offload_bundle::io::Piece;

use super::choices::{Choices, digest};
use super::formats::marker;

const COMMENTS: [&str; 3] = ["//", "#", ";"];

/// Any bytes are a text bundle, something else, or an error. Each entry is between a start line with its ID and an end
/// line, and after the previous entry.
///
/// Text entries are restored, unless one contains its own end line.
pub fn text(data: &[u8]) {
    for comment in COMMENTS {
        hostile(data, comment);
        round_trip(data, comment);
    }
}

fn hostile(data: &[u8], comment: &'static str) {
    let Ok(Some(contents)) = (Text { comment }).read(data, u64::try_from(data.len()).unwrap(), 0) else { return };
    let mut free_from = 0;
    for entry in &contents.entries {
        let (start, end) = range(entry);
        let line = marker(comment, "START", &entry.id);
        assert!(data[free_from..start].ends_with(&line), "no start line before {}", entry.id.escape_ascii());
        let end_line = marker(comment, "END", b"");
        assert!(data[end..].starts_with(&end_line[..end_line.len() - 1]), "no end line at {end}");
        free_from = end;
    }
    assert!(contents.entries.len() <= data.len() / 60, "more entries than lines");
}

fn range(entry: &Entry) -> (usize, usize) {
    let [Part::Range(range)] = entry.parts.as_slice() else { panic!("{entry:?}") };
    (usize::try_from(range.start).unwrap(), usize::try_from(range.end).unwrap())
}

fn round_trip(data: &[u8], comment: &'static str) {
    let digest = digest(data);
    let mut choices = Choices::new(&digest);
    let ids = [choices.id(), choices.id(), choices.id()].map(|id| id.to_string());
    let mut cuts = [choices.below(data.len() + 1), choices.below(data.len() + 1)];
    cuts.sort_unstable();
    let contents = [&data[..cuts[0]], &data[cuts[0]..cuts[1]], &data[cuts[1]..]];
    let inputs = contents.map(|content| Input::from_bytes("in", content.to_vec()));
    let members: Vec<Member<'_>> =
        ids.iter().zip(&inputs).map(|(id, input)| Member { id: id.clone(), content: input.as_slice() }).collect();
    let bundle = match (Text { comment }.plan(&members)) {
        Ok(pieces) => emit(&pieces),
        // Text with marker lines is refused if it would not be read back.
        Err(error) => {
            let mentions = |content: &&[u8]| memmem::find(content, b"__CLANG_OFFLOAD_BUNDLE__").is_some();
            assert!(error.kind() == ErrorKind::Conflict && contents.iter().any(mentions), "{error}");
            return;
        }
    };
    let described = ids.iter().zip(contents).flat_map(|(id, content)| {
        [&marker(comment, "START", id.as_bytes()), content, &marker(comment, "END", id.as_bytes())].concat()
    });
    assert!(described.eq(bundle.iter().copied()), "not as described");
    let read = Text { comment }.read(&bundle, u64::try_from(bundle.len()).unwrap(), 0).unwrap().unwrap();
    let read: Vec<_> = read.entries.iter().map(|entry| (entry.id.clone(), entry.content(&bundle).unwrap())).collect();
    let expected: Vec<_> =
        ids.iter().zip(contents).map(|(id, content)| (id.as_bytes().to_vec(), content.to_vec())).collect();
    assert!(read == expected, "text comes back changed");
}

/// The bytes of the pieces.
pub(super) fn emit(pieces: &[Piece<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Bytes(bytes) => out.extend(bytes),
            Piece::Zeros(count) => out.resize(out.len() + usize::try_from(*count).unwrap(), 0),
            Piece::Input(slice) => out.extend(slice.bytes()),
        }
    }
    out
}
