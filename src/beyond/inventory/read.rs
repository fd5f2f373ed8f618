//! Reads a file into its contents, and lets a job take part while the bytes are there. Outside of the search itself,
//! findings are received here only.

use std::borrow::Borrow;
use std::ops::ControlFlow;

use super::contents::{Bad, BadPart, Contents, ContentsBuilder, Keep, UnreadPart};
use crate::base::error::Result;
use crate::base::io::input::{Input, Slice};
use crate::beyond::container::kpack::KpackArchive;
use crate::beyond::scan::{
    CodeObject, CodeObjectsOfBundle, Finding, FoundBundle, MemberFilter, Place, ReadEvent, ReadList, Scan, Split,
};

/// An event while a file is read, at which the bytes of its part are there. `Key`, `Code` and `Made` are those of
/// [`ReadList`] and [`ReadEvent`].
pub(crate) enum Visit<'f, Key, Code, Made> {
    /// A bundle, with its number among all findings of the file. The job adds the code objects that it wants to the
    /// list.
    Bundle(usize, FoundBundle<'f>, &'f mut ReadList<Key, Code>),
    /// A split library. Its code in kpack archives was found as bundles before.
    Split(&'f Place, Split<'f>),
    /// A kpack archive. Its code was found as bundles before.
    Archive(&'f Place, &'f KpackArchive),
    /// A part that could not be read, or bytes that do not belong where they are.
    Bad(BadPart),
    /// A part that is recognised but not read, unless the contents [keep](Keep::All) it.
    Unread(UnreadPart),
    /// The end of the data at a place: the last chance to add code objects of that data to the list.
    End(&'f Place, &'f mut ReadList<Key, Code>),
    /// The result for wanted code objects that were read together.
    Read(Made),
}

/// The part of a job that takes part in reading. If it breaks off, the contents end there.
pub(crate) type JobVisitor<'e, Key, Code, Made> = dyn FnMut(Visit<'_, Key, Code, Made>) -> Result<ControlFlow<()>> + 'e;

/// How a file is read.
pub(crate) struct Reading<'s> {
    scan: &'s Scan,
    keep: Keep,
    /// The filter for the members of a zip file, or `None` for all of them.
    members: Option<&'s mut MemberFilter<'s>>,
    is_over_at_fault: bool,
    is_over_at_nested: bool,
}

impl<'s> Reading<'s> {
    pub(crate) fn new(scan: &'s Scan, keep: Keep) -> Self {
        Self { scan, keep, members: None, is_over_at_fault: false, is_over_at_nested: false }
    }

    /// Of a zip file, reads only the members whose names the filter accepts.
    pub(crate) fn in_members(self, members: &'s mut MemberFilter<'s>) -> Self {
        Self { members: Some(members), ..self }
    }

    /// Ends the reading at the first part that begins like device code but cannot be read.
    pub(crate) fn up_to_fault(self) -> Self {
        Self { is_over_at_fault: true, ..self }
    }

    /// Ends the reading where there is [more](Contents::has_nested) in a compressed bundle than code objects.
    pub(crate) fn up_to_nested(self) -> Self {
        Self { is_over_at_nested: true, ..self }
    }

    /// Reads the headers of a file only, and keeps its problems.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    pub(super) fn list(self, input: &Input) -> Result<Contents> {
        let mut problems = Vec::new();
        let mut contents = self.visit(input, |visit| {
            if let Visit::Bad(part) = visit {
                problems.extend(part.into_error());
            }
            Ok(())
        })?;
        contents.problems = problems;
        Ok(contents)
    }

    /// Reads a file for a job that wants no code object, or reads the content of bundles itself when it gets them.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    pub(crate) fn visit(
        self,
        input: &Input,
        mut each: impl FnMut(Visit<'_, (), CodeObject, ()>) -> Result<()>,
    ) -> Result<Contents> {
        let read = |_: CodeObjectsOfBundle<'_, (), CodeObject>| ();
        self.run(input, &read, &|()| 0, &mut |visit| each(visit).map(ControlFlow::Continue))
    }

    /// Reads a file, and lets a job take part. If `each` breaks off, the contents end there.
    ///
    /// - `each` receives the bundles and other parts in file order, and the results of `read`.
    /// - `read` makes a result of code objects that `each` has added to the list of a bundle, on all processors.
    /// - `weight` estimates the memory of a result.
    ///
    /// # Errors
    /// Those of `each`, and [`ErrorKind::Io`](crate::ErrorKind::Io) if a part of the file cannot be read. Other faults
    /// are [passed on](Visit::Bad).
    pub(crate) fn run<Key: Send, Code: Borrow<CodeObject> + Send, Made: Send>(
        self,
        input: &Input,
        read: &(impl Fn(CodeObjectsOfBundle<'_, Key, Code>) -> Made + Sync),
        weight: &(impl Fn(&Made) -> usize + Sync),
        each: &mut JobVisitor<'_, Key, Code, Made>,
    ) -> Result<Contents> {
        let mut contents = ContentsBuilder::new(input.as_slice(), self.keep);
        let Self { scan, members, is_over_at_fault, is_over_at_nested, .. } = self;
        scan.run_in_members_and_read(input, members, read, weight, &mut |event| match event {
            ReadEvent::End(place, wanted) => each(Visit::End(place, wanted)),
            ReadEvent::Read(read) => each(Visit::Read(read)),
            ReadEvent::Found(finding, wanted) => {
                let number = contents.count(&finding);
                if is_over_at_nested && contents.has_nested() {
                    return Ok(ControlFlow::Break(()));
                }
                match finding {
                    // The job comes first: what it finds out about the content decides whether a runtime loads it.
                    Finding::Bundle(found) => {
                        let flow = each(Visit::Bundle(number, found, wanted))?;
                        contents.add_bundle(&found)?;
                        Ok(flow)
                    }
                    Finding::Split { place, split } => {
                        contents.add_split(place, &split);
                        each(Visit::Split(place, split))
                    }
                    Finding::Kpack { place, archive } => each(Visit::Archive(place, archive)),
                    Finding::Unread { place, offset, what } => {
                        match contents.keep_unread(UnreadPart { place: place.clone(), offset, what }) {
                            Some(not_kept) => each(Visit::Unread(not_kept)),
                            None => Ok(ControlFlow::Continue(())),
                        }
                    }
                    Finding::Copy { place, first, size, stored } => {
                        contents.add_copy(place, first, (size, stored));
                        Ok(ControlFlow::Continue(()))
                    }
                    Finding::Broken { error, .. } if error.is_io() => Err(error),
                    Finding::Broken { place, error } => {
                        let flow = each(Visit::Bad(BadPart::new(number, place, Bad::Broken(error))))?;
                        Ok(if is_over_at_fault { ControlFlow::Break(()) } else { flow })
                    }
                    Finding::Hidden { place, error } => {
                        each(Visit::Bad(BadPart::new(number, place, Bad::Hidden(error))))
                    }
                    Finding::Trailing { place, offset, after } => {
                        each(Visit::Bad(BadPart::new(number, place, Bad::Trailing { offset, after })))
                    }
                }
            }
        })?;
        Ok(contents.finish())
    }
}

/// Passes each bundle in some data to `visit`, in file order. The places begin with `place`. Returns the number of parts
/// that could not be read, and of places with bytes that do not belong there. What is inside of code objects does not
/// count.
///
/// # Errors
/// Those of `visit`, and [`ErrorKind::Io`](crate::ErrorKind::Io) if a part cannot be read.
pub(crate) fn each_bundle(
    scan: &Scan,
    place: &Place,
    data: Slice<'_>,
    visit: &mut dyn FnMut(&FoundBundle<'_>) -> Result<()>,
) -> Result<usize> {
    let mut faults = 0_usize;
    scan.run_at(place, data, &mut |finding| {
        let place = match finding {
            Finding::Bundle(found) => return visit(&found),
            Finding::Broken { error, .. } if error.is_io() => return Err(error),
            Finding::Broken { place, .. } | Finding::Hidden { place, .. } | Finding::Trailing { place, .. } => place,
            Finding::Unread { .. } | Finding::Kpack { .. } | Finding::Split { .. } | Finding::Copy { .. } => {
                return Ok(());
            }
        };
        faults = faults.saturating_add(usize::from(!place.is_in_code_object()));
        Ok(())
    })?;
    Ok(faults)
}
