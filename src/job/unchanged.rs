//! Checks that a file which was written differs from the one before in a single code object.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use super::digest::{Digest, Digester};
use crate::container::sequence::Inflate;
use crate::error::{Result, WithPath};
use crate::io::input::{Input, Slice};
use crate::scan::{Checksums, CodeObjectRef, Finding, Scan};

/// The code objects of a file, in the order in which they are found, and the number of its faults.
struct Survey {
    /// The digests of their entry IDs, and of themselves.
    code_objects: Vec<[Digest; 2]>,
    /// The positions of those that were looked for.
    wanted: Vec<usize>,
    faults: usize,
}

impl Survey {
    fn of(
        input: &Input,
        scan: &Scan,
        digester: &Digester,
        is_it: &dyn Fn(&CodeObjectRef<'_>) -> Result<bool>,
    ) -> Result<Self> {
        let scan = Scan { inflate: Inflate::Whole, checksums: Checksums::OfAll, ..scan.clone() };
        let mut survey = Self { code_objects: Vec::new(), wanted: Vec::new(), faults: 0 };
        let mut visit = |finding: Finding<'_>| {
            match finding {
                Finding::Bundle(found) => {
                    for code_object in found.code_objects() {
                        if is_it(&code_object)? {
                            survey.wanted.push(survey.code_objects.len());
                        }
                        let digest = |bytes: &[u8]| digester.of(Slice::from(bytes)).with_path(input.path());
                        let content = code_object.bytes().ok().map(|bytes| digest(&bytes)).transpose()?;
                        survey.code_objects.push([digest(code_object.id())?, content.unwrap_or_default()]);
                    }
                }
                Finding::Broken { .. } | Finding::Hidden { .. } | Finding::Trailing { .. } => {
                    survey.faults = survey.faults.saturating_add(1);
                }
                _ => {}
            }
            Ok(())
        };
        scan.run(input, &mut visit)?;
        Ok(survey)
    }
}

/// The reason why `new` is not `old` with another content of the code object that `is_it` finds; none if it is.
pub(super) fn difference(
    [old, new]: [&Input; 2],
    scan: &Scan,
    content: Slice<'_>,
    is_it: &dyn Fn(&CodeObjectRef<'_>) -> Result<bool>,
) -> Result<Option<&'static str>> {
    let digester = Digester::default();
    let before = Survey::of(old, scan, &digester, is_it)?;
    let [wanted] = *before.wanted else { return Ok(Some("several code objects have this URI")) };
    let after = Survey::of(new, scan, &digester, &|_| Ok(false))?;
    let content = digester.of(content).with_path(content.path())?;
    let is_same = |(index, (one, other)): (usize, (&[Digest; 2], &[Digest; 2]))| index == wanted || one == other;
    Ok(if after.code_objects.get(wanted).is_none_or(|[_, found]| *found != content) {
        Some("it would not be found there again: the new content is no code object, or ends the container around it")
    } else if before.code_objects.len() != after.code_objects.len()
        || !before.code_objects.iter().zip(&after.code_objects).enumerate().all(is_same)
    {
        Some("other code objects would change")
    } else if after.faults > before.faults {
        Some("a checksum would be wrong, or another fault would be added")
    } else {
        None
    })
}
