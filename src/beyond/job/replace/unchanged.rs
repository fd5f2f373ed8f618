//! Checks that a file which was written differs from the one before in a single code object.

use std::ops::Range;
use std::rc::Rc;

use crate::base::error::{Result, WithPath};
use crate::base::io::input::{Input, Slice};
use crate::beyond::container::packed::LastInflated;
use crate::beyond::job::digest::{Digest, Digester};
use crate::beyond::scan::{Checksums, CodeObjectRef, Finding, Scan};
use crate::llvm::container::sequence::Inflate;

/// The code objects of a file, in the order in which a search of everything finds them, and the number of its faults.
pub(super) struct Survey {
    scan: Scan,
    digester: Rc<Digester>,
    /// The digests of their entry IDs, and of themselves.
    code_objects: Vec<[Digest; 2]>,
    /// The positions of those that were looked for.
    wanted: Vec<usize>,
    faults: usize,
}

/// Whether a code object is looked for.
type IsWanted<'w> = dyn FnMut(&CodeObjectRef<'_>) -> Result<bool> + 'w;

impl Survey {
    pub(super) fn of(input: &Input, scan: Scan, is_wanted: &mut IsWanted<'_>) -> Result<Self> {
        let scan = Scan { inflate: Inflate::Whole, checksums: Checksums::OfAll, ..scan };
        Self::with(Rc::default(), input, scan, is_wanted)
    }

    fn with(digester: Rc<Digester>, input: &Input, scan: Scan, is_wanted: &mut IsWanted<'_>) -> Result<Self> {
        let (mut code_objects, mut wanted, mut faults) = (Vec::new(), Vec::new(), 0);
        scan.run(input, &mut |finding| {
            match finding {
                Finding::Bundle(found) => {
                    let mut last = LastInflated::default();
                    // Many entries may share the same bytes.
                    let mut before: Option<(Range<u64>, Digest)> = None;
                    for code_object in found.code_objects() {
                        if is_wanted(&code_object)? {
                            wanted.push(code_objects.len());
                        }
                        let digest = |bytes: Slice<'_>| digester.of(bytes).with_path(input.path());
                        let range = code_object.range();
                        let known =
                            before.filter(|(before, _)| Some(before) == range.as_ref()).map(|(_, digest)| digest);
                        let read = || match found.bundle.content_after(code_object.index(), &mut last) {
                            Ok(content) => digest(content.as_slice()),
                            Err(error) if error.io_error().is_some() => Err(error),
                            Err(_) => Ok(Digest::default()),
                        };
                        let content = known.map_or_else(read, Ok)?;
                        before = range.map(|range| (range, content));
                        code_objects.push([digest(code_object.id().into())?, content]);
                    }
                }
                Finding::Broken { error, .. } if error.io_error().is_some() => return Err(error),
                Finding::Broken { .. } | Finding::Hidden { .. } | Finding::Trailing { .. } => {
                    faults += 1;
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(Self { scan, digester, code_objects, wanted, faults })
    }

    /// Returns the reason why `new` is not this file with another content of the code object that was looked for, or
    /// `None` if it is. The content may be any of `contents`.
    pub(super) fn difference<'c>(
        &self,
        new: &Input,
        contents: impl Iterator<Item = Slice<'c>>,
    ) -> Result<Option<&'static str>> {
        let [wanted] = *self.wanted else { return Ok(Some("several code objects have this URI")) };
        let after = Self::with(Rc::clone(&self.digester), new, self.scan.clone(), &mut |_| Ok(false))?;
        let contents = contents.map(|content| self.digester.of(content).with_path(content.path()));
        let contents = contents.collect::<Result<Vec<_>>>()?;
        let is_same = |(index, (one, other)): (usize, (&[Digest; 2], &[Digest; 2]))| index == wanted || one == other;
        Ok(if after.code_objects.get(wanted).is_none_or(|[_, found]| !contents.contains(found)) {
            Some(
                "it would not be found there again: the new content is no code object, or ends the container around it",
            )
        } else if self.code_objects.len() != after.code_objects.len()
            || !self.code_objects.iter().zip(&after.code_objects).enumerate().all(is_same)
        {
            Some("other code objects would change")
        } else if after.faults > self.faults {
            Some("a checksum would be wrong, or another fault would be added")
        } else {
            None
        })
    }
}
