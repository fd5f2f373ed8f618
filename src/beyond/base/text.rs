//! Texts about lists.

use std::fmt::Display;

/// Joins the first `most` items of a list with `separator`. If there are more, appends `before_rest` and their number:
/// `a, b and 7 more`.
pub(crate) fn listed(
    items: impl IntoIterator<Item = impl Display>,
    most: usize,
    separator: &str,
    before_rest: &str,
) -> String {
    let mut items = items.into_iter();
    let first: Vec<String> = items.by_ref().take(most).map(|item| item.to_string()).collect();
    match items.count() {
        0 => first.join(separator),
        more => format!("{}{before_rest}{more} more", first.join(separator)),
    }
}
