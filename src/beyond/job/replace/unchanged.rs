//! Checks that a new file differs from the old one in a single code object.

use std::ops::Range;
use std::rc::Rc;

use crate::base::error::{Result, WithPath};
use crate::base::io::input::{Input, Slice};
use crate::beyond::container::packed::LastInflated;
use crate::beyond::inventory::{Keep, Reading, Visit};
use crate::beyond::job::digest::{Digest, Digester};
use crate::beyond::job::size_limit::limits_of_result;
use crate::beyond::scan::{Checksums, CodeObjectRef, Scan};
use crate::llvm::container::sequence::Inflate;

/// A complete search of a file: digests of all its code objects, in their order, and the number of its faults. Two
/// surveys show whether anything besides the replaced code object has changed.
pub(super) struct FileSurvey {
    scan: Scan,
    digester: Rc<Digester>,
    /// For each code object, the digests of its entry ID and of its content.
    code_objects: Vec<[Digest; 2]>,
    /// The indices in `code_objects` of those that the caller's filter accepts.
    wanted: Vec<usize>,
    faults: usize,
}

/// Returns whether a code object is the one to be replaced.
type IsWanted<'w> = dyn FnMut(&CodeObjectRef<'_>) -> Result<bool> + 'w;

impl FileSurvey {
    /// Surveys a file. All bundles are inflated and all checksums compared, so that nothing is missed.
    pub(super) fn run(input: &Input, scan: Scan, is_wanted: &mut IsWanted<'_>) -> Result<Self> {
        let scan = Scan { inflate: Inflate::Whole, checksums: Checksums::OfAll, ..scan };
        Self::run_with(Rc::default(), input, scan, is_wanted)
    }

    /// Surveys a file with the keys of `digester`: only digests with the same keys can be compared. Notes the positions
    /// of the code objects that `is_wanted` accepts.
    fn run_with(digester: Rc<Digester>, input: &Input, scan: Scan, is_wanted: &mut IsWanted<'_>) -> Result<Self> {
        let (mut code_objects, mut wanted) = (Vec::new(), Vec::new());
        let mut faults = 0;
        Reading::new(&scan, Keep::Nothing).visit(input, |visit| {
            let found = match visit {
                Visit::Bundle(_, found, _) => found,
                other => {
                    faults += usize::from(matches!(other, Visit::Bad(_)));
                    return Ok(());
                }
            };
            let mut last_inflated = LastInflated::default();
            // The range of the previous entry, and the digest of its bytes. Many entries may share the same bytes,
            // which are read once if the entries follow each other.
            let mut previous: Option<(Range<u64>, Digest)> = None;
            for code_object in found.code_objects() {
                if is_wanted(&code_object)? {
                    wanted.push(code_objects.len());
                }
                let range = code_object.range();
                let content = match previous {
                    Some((same_range, digest)) if Some(&same_range) == range.as_ref() => digest,
                    _ => match found.bundle.content_after(code_object.index(), &mut last_inflated) {
                        Ok(content) => digester.digest(content.as_slice()).with_path(input.path())?,
                        Err(error) if error.io_error().is_some() => return Err(error),
                        // A broken code object has to stay broken, whatever its bytes are.
                        Err(_) => Digest::default(),
                    },
                };
                previous = range.map(|range| (range, content));
                let id = digester.digest(code_object.id().into()).with_path(input.path())?;
                code_objects.push([id, content]);
            }
            Ok(())
        })?;
        Ok(Self { scan, digester, code_objects, wanted, faults })
    }

    /// Compares the surveyed file with a new one. Returns `None` if only the wanted code object differs, and has one of
    /// the `contents`. Otherwise returns the reason why the new file is not accepted.
    pub(super) fn find_difference(&self, new: &Input, contents: &[Slice<'_>]) -> Result<Option<&'static str>> {
        let [wanted] = *self.wanted else { return Ok(Some("several code objects have this URI")) };
        // The new file is searched as a whole, for no code object in particular.
        let scan = Scan { limits: limits_of_result(self.scan.limits), ..self.scan.clone() };
        let after = Self::run_with(Rc::clone(&self.digester), new, scan, &mut |_| Ok(false))?;
        let mut digests = Vec::new();
        for content in contents {
            digests.push(self.digester.digest(*content).with_path(content.path())?);
        }
        match after.code_objects.get(wanted) {
            Some([_, found]) if digests.contains(found) => {}
            _ => {
                return Ok(Some(
                    "it would not be found there again: the new content is no code object, or ends the container around it",
                ));
            }
        }
        if !self.has_same_others(&after, wanted) {
            return Ok(Some("other code objects would change"));
        }
        if after.faults > self.faults {
            return Ok(Some("a checksum would be wrong, or another fault would be added"));
        }
        Ok(None)
    }

    /// Returns whether all code objects but the one at this position are the same.
    fn has_same_others(&self, after: &Self, position: usize) -> bool {
        let mut pairs = self.code_objects.iter().zip(&after.code_objects).enumerate();
        self.code_objects.len() == after.code_objects.len()
            && pairs.all(|(index, (before, after))| index == position || before == after)
    }
}
