//! Recognises text bundles by their first line, because a search has no option for the language.

use crate::llvm::container::MAGIC;
use crate::llvm::container::text::Text;

/// The comment prefixes of marker lines.
const COMMENTS: [&str; 3] = ["//", "#", ";"];

/// Identifies the comment syntax of the text bundle that begins with `head`. Returns `None` if the first line that is not
/// empty is not a marker line.
pub(crate) fn identify(head: &[u8]) -> Option<Text> {
    let head = head.trim_ascii_start();
    for comment in COMMENTS {
        if let Some(rest) = head.strip_prefix(comment.as_bytes())
            && let Some(rest) = rest.strip_prefix(b" ")
            && rest.starts_with(MAGIC.as_bytes())
        {
            return Some(Text { comment });
        }
    }
    None
}
