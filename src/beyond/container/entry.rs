//! The entries of bundles that a search finds: LLVM's, and code objects that other formats store in other ways.

use std::ops::Range;
use std::rc::Rc;

use super::fatbin;
use super::packed::{LastInflated, Packed};
use super::sequence::{Bundle, SearchContainer};
use crate::base::bytes::{add, total};
use crate::base::error::{Malformed, Result};
use crate::base::io::input::{Input, Slice};
use crate::base::io::piece::Sink;
use crate::beyond::ids::id_of_dpcpp_image;
use crate::llvm::container::stream::Compressed;
use crate::llvm::container::{BundleEntry, Container, Contents, Entry, Limits, Part};

/// An entry of a bundle that a search finds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchEntry {
    /// The entry as LLVM's tools read it, except that an image of DPC++ has the ID that DPC++ gives it. The entry has
    /// no parts if [`packed`](Self::packed) holds the code object.
    pub entry: Entry,
    /// The code object, if it is compressed on its own or together with others.
    pub packed: Option<Packed>,
    /// Additional data of an image in a CUDA fatbin, or `None` in other formats.
    pub cuda: Option<Box<fatbin::Image>>,
}

/// How a code object is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// In a range of the bundle, counted from its start.
    Range(Range<u64>),
    /// Compressed, on its own or together with others.
    Packed(Packed),
    /// The code object cannot be read, for this reason.
    Unreadable(Malformed),
}

impl Stored {
    /// Returns the range of the bundle that holds the code object, compressed or not, or `None` if it cannot be read.
    pub(crate) fn range(&self) -> Option<&Range<u64>> {
        match self {
            Self::Range(range) => Some(range),
            Self::Packed(packed) => Some(&packed.stored),
            Self::Unreadable(_) => None,
        }
    }
}

impl SearchEntry {
    /// Returns the entry with this ID, for a code object that is stored in this way.
    pub(crate) fn new(id: Vec<u8>, stored: Stored) -> Self {
        let (parts, packed) = match stored {
            Stored::Range(range) => (vec![Part::Range(range)], None),
            Stored::Packed(packed) => (Vec::new(), Some(packed)),
            Stored::Unreadable(malformed) => (vec![Part::Unreadable(malformed)], None),
        };
        Self { entry: Entry { id, parts, image: None }, packed, cuda: None }
    }

    /// The bundle entry ID as recorded.
    pub fn id(&self) -> &[u8] {
        &self.entry.id
    }

    /// The size of the code object in bytes.
    pub fn size(&self) -> u64 {
        match &self.packed {
            Some(packed) => packed.len(),
            None => self.entry.size(),
        }
    }

    /// Returns the range of the bundle that holds the code object as it is. Returns `None` if the code object is
    /// compressed or unreadable, or if its bytes are not in one range of the bundle.
    pub(crate) fn range(&self) -> Option<&Range<u64>> {
        match self.entry.parts.as_slice() {
            [Part::Range(range)] => Some(range),
            _ => None,
        }
    }

    /// Returns the fault that keeps the code object from being read, or `None` if it can be read.
    pub(crate) fn unreadable(&self) -> Option<&Malformed> {
        self.entry.parts.iter().find_map(|part| match part {
            Part::Unreadable(malformed) => Some(malformed),
            _ => None,
        })
    }

    /// Copies the code object from `data`, its bundle. Code objects that are compressed together are inflated once:
    /// `kept` has the bytes that were inflated last, for a caller that reads several entries one after another.
    ///
    /// # Errors
    /// [`ErrorKind::Malformed`](crate::ErrorKind::Malformed) if it cannot be read, and the errors of the sink.
    pub(super) fn copy(&self, data: Slice<'_>, kept: &mut LastInflated, sink: &mut dyn Sink) -> Result<()> {
        match &self.packed {
            Some(packed) => sink.copy(packed.slice_of(&*kept.get(data, packed)?)?),
            None => self.entry.copy_parts(data, sink),
        }
    }

    /// Inflates a code object that is compressed on its own. Returns the inflated bytes and the range of the code
    /// object in them, or `None` if the code object is a range of its bundle or restored from parts.
    ///
    /// # Errors
    /// The errors of inflating it.
    pub(super) fn inflated(&self, data: Slice<'_>, kept: &mut LastInflated) -> Result<Option<(Rc<Input>, Range<u64>)>> {
        let Some(packed) = &self.packed else { return Ok(None) };
        let inflated = kept.get(data, packed)?;
        let slice = packed.slice_of(&inflated)?;
        let range = slice.offset()..slice.end();
        Ok(Some((inflated, range)))
    }
}

impl From<Entry> for SearchEntry {
    /// Wraps an entry that LLVM's tools read. An image of DPC++ gets the ID that DPC++ gives it. LLVM does not know its
    /// triple and makes another ID.
    fn from(mut entry: Entry) -> Self {
        if let Some(image) = &entry.image
            && let Some(id) = id_of_dpcpp_image(image)
        {
            entry.id = id;
        }
        Self { entry, packed: None, cuda: None }
    }
}

impl BundleEntry for SearchEntry {
    fn entry(&self) -> &Entry {
        &self.entry
    }
}

/// Converts the entries that a format of LLVM has read.
pub(crate) fn searched(contents: Contents) -> Contents<SearchEntry> {
    let Contents { entries, len, faults } = contents;
    Contents { entries: entries.into_iter().map(SearchEntry::from).collect(), len, faults }
}

/// A format of LLVM, read by a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchFormat<C>(pub(crate) C);

impl<C: Container<Entry = Entry>> Container for SearchFormat<C> {
    type Entry = SearchEntry;

    fn repeats(&self) -> bool {
        self.0.repeats()
    }

    fn read(&self, data: &[u8], total: u64, base: u64) -> Result<Option<Contents<SearchEntry>>, Malformed> {
        Ok(self.0.read(data, total, base)?.map(searched))
    }

    fn compressed<'a>(&self, data: Slice<'a>, limits: Limits) -> Result<Option<Compressed<'a>>> {
        self.0.compressed(data, limits)
    }
}

impl<C: Container<Entry = Entry>> SearchContainer for SearchFormat<C> {}

impl Bundle<'_> {
    /// Returns an upper bound of the bundle's length in bytes with all its code objects inflated. Compressed bytes
    /// count too, in addition to the bytes that they inflate to.
    ///
    /// # Errors
    /// The errors of [`stored_len`](Self::stored_len).
    pub(crate) fn full_len(&self) -> Result<u64> {
        // The bundle as a whole may be compressed, too.
        let len = match self.compressed {
            Some(recorded) => recorded.inflated,
            None => self.stored_len()?,
        };
        Ok(total(self.distinct_packed().into_iter().map(|packed| packed.inflated)).saturating_add(len))
    }

    /// Returns the number of bytes that the compressed code objects inflate to. Code objects that exceed their limit do
    /// not count, because they are not inflated. Code objects that are compressed together count once.
    pub(crate) fn inflated_len_of_packed(&self) -> u64 {
        let mut len = 0;
        for packed in self.distinct_packed() {
            if packed.inflated <= packed.limit {
                add(&mut len, packed.inflated);
            }
        }
        len
    }

    /// Returns one code object for each range of compressed bytes. If several are compressed together, the first one
    /// represents them.
    fn distinct_packed(&self) -> Vec<&Packed> {
        let mut distinct: Vec<&Packed> = Vec::new();
        for packed in self.entries.iter().filter_map(|entry| entry.packed.as_ref()) {
            // Code objects that are compressed together follow one another.
            match distinct.last() {
                Some(last) if last.stored == packed.stored => {}
                _ => distinct.push(packed),
            }
        }
        distinct
    }

    /// Finds the exact ends of padded code objects by inflating them. A code object that cannot be inflated keeps the
    /// end with padding, and reading it reports the fault.
    ///
    /// # Errors
    /// `ErrorKind::Io` and `ErrorKind::Temporary`.
    pub(crate) fn find_exact_ends(&mut self) -> Result<()> {
        // Only fatbins have padded code objects, and a fatbin is never compressed as a whole.
        let Some(data) = self.plain_data() else { return Ok(()) };
        let mut last = LastInflated::default();
        for packed in self.entries.iter_mut().filter_map(|entry| entry.packed.as_mut()) {
            if let Err(error) = packed.find_exact_end(data, &mut last)
                && error.is_of_system()
            {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether reading the code object of the entry at `index` needs this bundle, not only the file. The bundle is
    /// needed if it was inflated. It is also needed for an unreadable code object, because only the bundle has the
    /// reason.
    pub(crate) fn is_needed_for(&self, index: usize) -> bool {
        if self.is_inflated() {
            return true;
        }
        match self.entries.get(index) {
            Some(entry) => entry.unreadable().is_some(),
            None => false,
        }
    }
}
