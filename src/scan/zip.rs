//! What a search inflates of zip files before its turn.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::io;

use super::Scan;
use crate::code::ContentKind;
use crate::container::limits::Allowance;
use crate::container::magic::Magic;
pub(super) use crate::container::zip::{COMMENT_MAX, CUT, ZipContent, ZipMember, members, start_at_end, trailing};
use crate::io::input::Input;
use crate::io::once;

/// The size from which on it pays to inflate a member on another thread, in bytes.
const LARGE: u64 = 1 << 20;

/// The compressed members, with their indices, that other threads may inflate: together to at most `budget` bytes. What
/// exceeds the budget is reported in its turn.
pub(super) fn large<'a>(members: &[ZipMember<'a>], budget: u64) -> Vec<(usize, ZipContent<'a>)> {
    let mut room = Allowance::new(budget);
    let contents = (0..).zip(members).filter_map(|(index, member)| Some((index, *member.content.as_ref().ok()?)));
    let large = contents.filter(|(_, content)| content.form.is_some() && content.size >= LARGE);
    large.filter(|(_, content)| room.take(content.size).is_some()).collect()
}

impl ZipContent<'_> {
    /// All of it, inflated; none unless a search needs it.
    pub(super) fn inflate_for(&self, scan: &Scan) -> Option<io::Result<Input>> {
        let magic = Magic::identify(&once::head(&mut self.reader().ok()?, ContentKind::HEAD_LEN).ok()?);
        let is_kept = !magic.is_package() && (scan.deep || magic.may_hold_code() && magic.unread().is_none());
        (is_kept && self.size <= scan.limits.inflated).then(|| Input::spool(self.stored.path(), self.reader()?))
    }
}
