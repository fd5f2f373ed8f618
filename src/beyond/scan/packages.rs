//! Searches packages: files that are compressed as a whole, and the archives that are usually in them: tar, cpio (also
//! in RPM packages), the kernels of AOTriton, and zip files in any of these.
//!
//! Packages are read once, from start to end. A member that may hold device code is kept in a temporary file, unless it
//! is small. Other members are skipped. So the search needs memory and disk space for the largest member. In a zip
//! file, one large member per processor, at most 8, is inflated at a time, and one may wait to be searched.

use std::io::{self, BufReader, Cursor, Read};
use std::mem;
use std::path::Path;

use super::place::{Place, Step};
use super::stream::{
    BoundedReader, ExplainingReader, FailingReader, ReadLimit, ReaderUntilFault, Stream, StreamHead, error_in,
};
use super::walk::{FilePart, Walk};
use super::{Checksums, Finding, Unread};
use crate::base::bytes::{len_of, len_u64, total};
use crate::base::error::{Error, Result};
use crate::base::io::input::{Input, Slice};
use crate::base::io::sys;
use crate::beyond::codec::Coding;
use crate::beyond::container::Magic;
use crate::beyond::container::package::{aks2, cpio, rpm, tar};
use crate::beyond::once::{self, head};
use crate::llvm::container::Limits;

/// The maximum length of all headers of one member, in bytes: its name, its attributes, and the map of its holes.
const HEADERS_MAX: u64 = 1 << 20;

/// The size of the buffer before a decoder, in bytes.
const BUFFER_LEN: usize = 64 << 10;

/// The finding for a member that holds only a later part of a file: its start is in an earlier volume of the archive.
const PART: Unread = Unread::anything("part of a file in a tar archive of several volumes");

/// The finding for an RPM package with a compression that is not read.
const PAYLOAD: Unread = Unread::anything("RPM package of unknown compression");

/// The names of formats in error messages.
const MEMBER: &str = "member";
const TAR: &str = "tar archive";
const CPIO: &str = "cpio archive";
const AKS2: &str = "AKS2 file";

/// The length of the magic of a cpio archive without its first byte.
const CPIO_MAGIC_REST_LEN: u64 = 5;

/// The bytes that are charged for the header of each member, whatever its length, so that many empty members cost
/// something too.
const HEADER_COST: u64 = 512;

/// The error messages for data that is longer than its limit: headers of a member, data of unknown length, and a stream
/// with a recorded length.
const HEADERS_TOO_LONG: &str = "the headers of a member are longer than 1 MiB";
const DATA_TOO_LONG: &str = "it is larger than the limit";
const STREAM_TOO_LONG: &str = "its stream is longer than its header says";

/// Returns the step to a member. Most archives of file trees name their members `./usr/...`, and `./` is left out.
fn member_step(name: &[u8]) -> Step {
    Step::Member(name.strip_prefix(b"./").unwrap_or(name).to_vec())
}

/// Returns the error for a member that is larger than a limit.
pub(crate) fn member_too_large(source: Slice<'_>, limits: Limits, size: u64) -> Error {
    Error::malformed(source.path(), limits.exceeded("the member", source.offset(), size))
}

/// Returns the name that compressing tools give the content of a compressed file or member: its name without the
/// extension.
fn name_of_inflated(place: &Place) -> Vec<u8> {
    let name = match place.innermost_member() {
        Some(member) => sys::os_str(member),
        None => place.file().as_os_str().into(),
    };
    Path::new(&*name).file_stem().unwrap_or(&name).as_encoded_bytes().to_vec()
}

impl Walk<'_, '_, '_> {
    /// Searches data that is read once. The data is read to its end only if it may hold device code.
    pub(super) fn search_stream(&mut self, at: FilePart<'_>, stream: Stream<'_>) -> Result<()> {
        let head = StreamHead::read(stream.reader);
        self.search_stream_after_head(head, at, stream)
    }

    /// Searches data whose first bytes were read already. Reports the fault that ended these bytes, if there is one,
    /// exactly once.
    fn search_stream_after_head(&mut self, head: StreamHead, at: FilePart<'_>, stream: Stream<'_>) -> Result<()> {
        let StreamHead { bytes, mut fault } = head;
        // With a recorded size, the fault shows that the member is incomplete, so it is not searched at all.
        if let Some(fault) = fault.take_if(|_| stream.size.is_some()) {
            return self.report_unreadable(at, MEMBER, fault);
        }
        let reader = &mut bytes.chain(FailingReader(&mut fault)).chain(stream.reader);
        self.search_stream_as(Magic::identify(&bytes), at, Stream { reader, ..stream })?;
        // A search that read up to the fault has taken it out of the option, and reported it.
        if let Some(fault) = fault {
            self.report_unreadable(at, MEMBER, fault)?;
        }
        Ok(())
    }

    /// Searches data by its format: as a package, or as a whole that is kept for the search. Data that holds no code is
    /// read only where its checksum is to be compared.
    fn search_stream_as(&mut self, magic: Magic, at: FilePart<'_>, stream: Stream<'_>) -> Result<()> {
        if magic.is_package() {
            let Some(at) = self.enter_container(at)? else { return Ok(()) };
            return self.search_package(magic, at, stream);
        }
        // A deep search looks for code in data of every format.
        if self.scan.deep {
            return self.keep_and_search(at, stream);
        }
        if !magic.may_hold_code() {
            // Members of an archive, which are charged already, are read to their ends anyway: see `end_member`.
            if self.scan.checksums == Checksums::OfAll && !stream.is_charged {
                let limit = ReadLimit::not_set_yet();
                self.read_to_end(at, &mut BoundedReader { reader: stream.reader, limit: &limit })?;
            }
            return Ok(());
        }
        match magic.unread() {
            // The format begins at the start of the stream. `report_unread` would give an offset in `at.data`, the data
            // around the stream.
            Some(what) => self.report_finding(1, at, Finding::Unread { place: at.place, offset: 0, what }),
            None => self.keep_and_search(at, stream),
        }
    }

    /// Searches data of a format that is read from start to end: archives, packages and compressed files. Data of other
    /// formats is kept first.
    pub(super) fn search_package(&mut self, magic: Magic, at: FilePart<'_>, stream: Stream<'_>) -> Result<()> {
        match magic {
            Magic::Tar => self.search_tar(at, stream),
            Magic::Cpio => self.search_cpio(at, stream),
            Magic::Rpm => self.search_rpm(at, stream),
            Magic::Aks2 => self.search_aks2(at, stream),
            Magic::Coded(coding) => self.search_compressed_file(coding, at, stream),
            _ => self.keep_and_search(at, stream),
        }
    }

    /// Reports that data of the format with this name cannot be read.
    fn report_unreadable(&mut self, at: FilePart<'_>, format: &str, error: io::Error) -> Result<()> {
        self.report_broken(at, error_in(at.data, format, error))
    }

    /// Returns the value that was read. After a failed read, reports that data of the format with this name cannot be
    /// read, and returns `None`.
    fn read_or_report<T>(&mut self, at: FilePart<'_>, format: &str, read: io::Result<T>) -> Result<Option<T>> {
        self.ok_or_report(at, read.map_err(|error| error_in(at.data, format, error)))
    }

    /// Keeps all of the data in memory or a temporary file, and searches it. Data that is too large is reported
    /// instead. If a fault ends data of unknown size early, the bytes before the fault are searched.
    fn keep_and_search(&mut self, at: FilePart<'_>, stream: Stream<'_>) -> Result<()> {
        let Stream { reader, size, is_charged, .. } = stream;
        let limits = self.budget.limits_at(at.place);
        let mut most = limits.inflated;
        if let Some(size) = size {
            // A size beyond the rest of the budget, but not beyond this limit, is reported by `spend`.
            if size > self.scan.limits.inflated {
                return self.report_broken(at, member_too_large(at.data, limits, size));
            }
            most = size.min(limits.inflated);
        }
        // Data of unknown size is charged after it was read.
        let cost = if is_charged { 0 } else { size.unwrap_or(0) };
        if !self.spend(at, cost)? {
            return Ok(());
        }
        // Reading one byte more than allowed shows that the data is too large.
        let mut reader = ReaderUntilFault { reader: reader.take(most.saturating_add(1)), fault: None };
        let Some(input) = self.read_or_report(at, MEMBER, Input::spool(at.data.path(), &mut reader))? else {
            return Ok(());
        };
        if let Some(fault) = reader.fault {
            self.report_unreadable(at, MEMBER, fault)?;
            // Searching an incomplete member would report more faults with the same cause.
            if size.is_some() {
                return Ok(());
            }
        }
        // A reader of data with a recorded size ends at that size or fails, so only other data is checked here.
        if size.is_none() {
            if input.len() > most {
                return self.report_broken(at, member_too_large(at.data, limits, input.len()));
            }
            if !self.spend(at, input.len())? {
                return Ok(());
            }
        }
        self.search_part(at.with_copy(input.as_slice()))
    }

    /// Searches a file that is compressed as a whole: an archive, or a single member without a recorded name.
    fn search_compressed_file(&mut self, coding: Coding, at: FilePart<'_>, stream: Stream<'_>) -> Result<()> {
        let source = at.data;
        let format = coding.file_name();
        let limit = ReadLimit::up_to(self.budget.bytes_left(), DATA_TOO_LONG);
        let reader = BufReader::with_capacity(BUFFER_LEN, BoundedReader { reader: stream.reader, limit: &limit });
        let Some(reader) = self.read_or_report(at, format, coding.inflate(reader))? else { return Ok(()) };
        let mut inflated = ExplainingReader { reader, explain: |error| error_in(source, format, error) };
        let head = match StreamHead::read(&mut inflated) {
            // Without any inflated byte, the compressed file itself is broken, not its content.
            StreamHead { bytes, fault: Some(error) } if bytes.is_empty() => {
                return self.report_unreadable(at, format, error);
            }
            head => head,
        };
        // The members of an archive are named directly below the compressed file (`a.tar.gz(member)`). Other content is
        // itself a member, named as the compressing tools do (`a.so.gz(a.so)`).
        let place = match Magic::identify(&head.bytes) {
            Magic::Tar | Magic::Cpio => at.place.clone(),
            _ => {
                let step = Step::Member(name_of_inflated(at.place));
                let Some(place) = self.step_into_package(at.place, step) else { return Ok(()) };
                place
            }
        };
        let content = Stream { reader: &mut inflated, size: None, is_charged: false, has_source_offsets: false };
        self.search_stream_after_head(head, at.at_place(&place.clone().inflated(), source), content)?;
        if let Some(offset) = inflated.reader.trailing() {
            let offset = if stream.has_source_offsets { Some(source.absolute(offset)) } else { None };
            self.report_trailing(at, offset, Some(format))?;
        }
        // The compressed bytes are charged too: they may be a stream that was itself inflated, and was not charged
        // because nothing kept it.
        self.spend(at.at_place(&place, source), limit.bytes_read.get())?;
        Ok(())
    }

    /// Searches an AKS2 file of AOTriton: a header, and a compressed stream with a directory and the images of kernels.
    fn search_aks2(&mut self, at: FilePart<'_>, stream: Stream<'_>) -> Result<()> {
        let source = at.data;
        let stored_limit = ReadLimit::up_to(self.budget.bytes_left(), DATA_TOO_LONG);
        let mut stored = BoundedReader { reader: stream.reader, limit: &stored_limit };
        let header = aks2::Header::read(&mut stored, source.offset());
        let Some(header) = self.read_or_report(at, AKS2, header)? else { return Ok(()) };
        let Some(header) = self.ok_or_report(at, header.map_err(|fault| at.error(fault)))? else { return Ok(()) };
        let limits = self.budget.limits_at(at.place);
        if header.inflated_len > limits.inflated {
            return self.report_broken(at, at.error(limits.exceeded(AKS2, source.offset(), header.inflated_len)));
        }
        let Some(decoder) =
            self.read_or_report(at, AKS2, Coding::Xz.inflate(BufReader::with_capacity(BUFFER_LEN, stored)))?
        else {
            return Ok(());
        };
        let inflated_limit = ReadLimit::not_set_yet();
        let explained = ExplainingReader { reader: decoder, explain: |error| error_in(source, AKS2, error) };
        let mut inflated = BoundedReader { reader: explained, limit: &inflated_limit };
        let is_read_to_end = self.search_aks2_content(at, &header, &mut inflated)?;
        if !is_read_to_end {
            return Ok(());
        }
        let ExplainingReader { reader: decoder, .. } = &inflated.reader;
        if let Some(offset) = decoder.trailing() {
            // The decoder counts from the end of the header, where the compressed stream begins.
            let offset = source.absolute(offset.saturating_add(aks2::HEADER_LEN));
            self.report_trailing(at, if stream.has_source_offsets { Some(offset) } else { None }, Some(AKS2))?;
        }
        // The compressed bytes are charged too: they may be a stream that was itself inflated, and was not charged.
        self.spend(at, stored_limit.bytes_read.get())?;
        Ok(())
    }

    /// Searches the inflated stream of an AKS2 file up to its end: a directory, and the images of kernels. Returns
    /// whether all of it was read; if not, the reason was reported.
    fn search_aks2_content(
        &mut self,
        at: FilePart<'_>,
        header: &aks2::Header,
        reader: &mut BoundedReader<'_, impl Read>,
    ) -> Result<bool> {
        if !self.spend(at, header.directory_len)? {
            return Ok(false);
        }
        reader.limit.allow_exactly(header.directory_len);
        let directory = head(reader, header.directory_len);
        let Some(directory) = self.read_or_report(at, AKS2, directory)? else { return Ok(false) };
        let kernels = header.kernels(&directory).map_err(|fault| at.error(fault));
        let Some((kernels, faults)) = self.ok_or_report(at, kernels)? else { return Ok(false) };
        self.report_faults(at, faults)?;
        let Some(images_end) = self.search_aks2_kernels(at, kernels, reader)? else { return Ok(false) };
        let len_after_images = header.inflated_len.saturating_sub(header.directory_len).saturating_sub(images_end);
        if !self.skip_gap(at, len_after_images, reader)? {
            return Ok(false);
        }
        // The stream should end here. Reading on shows that, and lets the decoder compare the checksum.
        reader.limit.allow_up_to(0, STREAM_TOO_LONG);
        Ok(self.read_or_report(at, AKS2, io::copy(reader, &mut io::sink()))?.is_some())
    }

    /// Searches the kernels of an AKS2 file, in the order of their images. The reader is at the start of the images.
    /// Returns the end of the last image, counted from there, or `None` if the file cannot be read up to it.
    fn search_aks2_kernels(
        &mut self,
        at: FilePart<'_>,
        kernels: Vec<aks2::Aks2Kernel>,
        reader: &mut BoundedReader<'_, impl Read>,
    ) -> Result<Option<u64>> {
        let mut end = 0_u64;
        for aks2::Aks2Kernel { name, image } in kernels {
            if !self.skip_gap(at, image.start.saturating_sub(end), reader)? {
                return Ok(None);
            }
            let (step, size) = (Step::Member(name), len_of(&image));
            let is_readable = self.search_member(at, AKS2, step, size, reader, |walk, at, reader| {
                walk.search_whole_member(at, size, reader)
            })?;
            if !is_readable {
                return Ok(None);
            }
            end = image.end;
        }
        Ok(Some(end))
    }

    /// Charges and skips bytes between images of an AKS2 file. Returns whether the next image can be read.
    fn skip_gap(&mut self, at: FilePart<'_>, len: u64, reader: &mut BoundedReader<'_, impl Read>) -> Result<bool> {
        // A gap costs as much as a member without a name.
        let name_len = 0;
        Ok(self.begin_member(at, name_len, len, reader.limit)? && self.end_member(at, reader, AKS2)?)
    }

    /// Searches an RPM package: the cpio archive after its headers, usually compressed. Another format there is
    /// reported as not read.
    fn search_rpm(&mut self, at: FilePart<'_>, stream: Stream<'_>) -> Result<()> {
        let limit = ReadLimit::up_to(self.budget.bytes_left(), DATA_TOO_LONG);
        let mut reader = BoundedReader { reader: stream.reader, limit: &limit };
        let skipped = rpm::skip_headers(&mut reader);
        let Some(()) = self.read_or_report(at, "RPM package", skipped)? else { return Ok(()) };
        let head = StreamHead::read(&mut reader);
        // A package without files may have no archive.
        if head.bytes.is_empty() && head.fault.is_none() {
            return Ok(());
        }
        // The headers and the start of the archive were read. The search of the archive charges the rest.
        if !self.spend(at, limit.bytes_read.get())? {
            return Ok(());
        }
        match Magic::identify(&head.bytes) {
            Magic::Cpio | Magic::Coded(_) => {
                // The place counts as inflated even if the archive is not compressed: like inflated data, it is read as
                // a stream, whose offsets are not those of the file.
                let stream = Stream { reader: &mut reader, size: None, is_charged: false, has_source_offsets: false };
                self.search_stream_after_head(head, at.at_place(&at.place.clone().inflated(), at.data), stream)
            }
            _ => self.report_unread(at, PAYLOAD),
        }
    }

    /// Searches a cpio archive, and the cpio archives that follow it after zeros. Other data after it is reported as
    /// trailing bytes.
    fn search_cpio(&mut self, at: FilePart<'_>, stream: Stream<'_>) -> Result<()> {
        let Stream { has_source_offsets, reader, .. } = stream;
        let limit = ReadLimit::not_set_yet();
        let mut reader = BoundedReader { reader: BufReader::new(reader), limit: &limit };
        // The magic of the next archive, if it was read already at the end of the previous one.
        let mut magic = Vec::new();
        loop {
            limit.allow_up_to(HEADERS_MAX, HEADERS_TOO_LONG);
            let header = match cpio::Header::read(&mut Cursor::new(mem::take(&mut magic)).chain(&mut reader)) {
                Ok(Some(header)) => header,
                // The archive has ended. Another one may follow.
                Ok(None) => match self.skip_zeros_after_cpio(at, &mut reader)? {
                    Some(next) if cpio::MAGICS.contains(&next.as_slice()) => {
                        magic = next;
                        continue;
                    }
                    Some(next) => {
                        let offset = at.data.absolute(limit.bytes_read.get().saturating_sub(len_u64(&next)));
                        self.report_trailing(at, if has_source_offsets { Some(offset) } else { None }, Some(CPIO))?;
                        return self.read_to_end(at, &mut reader);
                    }
                    None => return Ok(()),
                },
                Err(error) => return self.report_unreadable(at, CPIO, error),
            };
            let cpio::Header { name, size, is_file, padding } = header;
            let stored = size.saturating_add(padding);
            let is_readable =
                self.search_member(at, CPIO, member_step(&name), stored, &mut reader, |walk, at, reader| {
                    if is_file { walk.search_whole_member(at, size, reader) } else { Ok(()) }
                });
            if !is_readable? {
                return Ok(());
            }
        }
    }

    /// Skips the zeros after a cpio archive, which fill up its last block. Returns the first bytes after the zeros, up
    /// to the length of a magic: another archive may follow, as in the initramfs of Linux. Returns `None` if nothing
    /// follows, or after a fault or an exceeded limit, which is reported.
    fn skip_zeros_after_cpio(
        &mut self,
        at: FilePart<'_>,
        reader: &mut BoundedReader<'_, BufReader<impl Read>>,
    ) -> Result<Option<Vec<u8>>> {
        let (read_before, limit) = (reader.limit.bytes_read.get(), reader.limit);
        limit.allow_up_to(self.budget.bytes_left(), DATA_TOO_LONG);
        #[expect(clippy::unbuffered_bytes, reason = "the reader inside is buffered")]
        let first = reader.by_ref().bytes().find(|byte| !matches!(byte, Ok(0)));
        let next = match first {
            Some(Ok(first)) => head(reader, CPIO_MAGIC_REST_LEN).map(|rest| Some([&[first], rest.as_slice()].concat())),
            Some(Err(error)) => Err(error),
            None => Ok(None),
        };
        // The header that ended the archive is charged too, so that many empty archives cost something.
        let cost = total([limit.bytes_read.get().saturating_sub(read_before), HEADER_COST]);
        let Some(next) = self.read_or_report(at, MEMBER, next)? else { return Ok(None) };
        Ok(if self.spend(at, cost)? { next } else { None })
    }

    /// Searches a tar archive that is a stream, such as a compressed one.
    fn search_tar(&mut self, at: FilePart<'_>, stream: Stream<'_>) -> Result<()> {
        let limit = ReadLimit::not_set_yet();
        let mut reader = BoundedReader { reader: stream.reader, limit: &limit };
        let mut archive = tar::TarArchive::default();
        loop {
            limit.allow_up_to(HEADERS_MAX, HEADERS_TOO_LONG);
            let Some(next) = self.read_or_report(at, TAR, archive.next(&mut reader))? else { return Ok(()) };
            let header = match next {
                tar::NextMember::Member(header) => header,
                // Blocks of zeros are charged too: a stream may inflate to any number of them.
                tar::NextMember::Zeros if self.spend(at, tar::BLOCK)? => continue,
                tar::NextMember::Zeros => return Ok(()),
                tar::NextMember::End { has_trailing } => {
                    if has_trailing {
                        // The bytes have no offset to report: only inflated archives are streams.
                        self.report_trailing(at, None, Some(TAR))?;
                    }
                    return self.read_to_end(at, &mut reader);
                }
            };
            let (step, padded) = (member_step(&header.name), tar::padded(header.stored));
            let is_readable = self.search_member(at, TAR, step, padded, &mut reader, |walk, at, reader| {
                walk.search_tar_member(at, header, reader)
            })?;
            if !is_readable {
                return Ok(());
            }
        }
    }

    /// Searches a member of a tar archive. Its stored bytes are charged already, and the reader is at their start.
    /// Only regular files are searched: links, directories and devices are skipped. A part of a file is reported as not
    /// read.
    fn search_tar_member(&mut self, at: FilePart<'_>, header: tar::Header, reader: &mut impl Read) -> Result<()> {
        let mut stored_left = header.stored;
        // The size of a sparse file, and the ranges in it that are stored: holes are not.
        let (size, ranges) = match header.kind {
            tar::MemberKind::Other => return Ok(()),
            tar::MemberKind::Part => {
                return self.report_finding(1, at, Finding::Unread { place: at.place, offset: 0, what: PART });
            }
            tar::MemberKind::File => {
                return self.search_whole_member(at, stored_left, reader);
            }
            tar::MemberKind::Sparse(size, ranges) => (size, ranges),
            tar::MemberKind::MapInContent(size) => {
                let ranges = tar::read_map(reader, size, &mut stored_left);
                let Some(ranges) = self.read_or_report(at, TAR, ranges)? else { return Ok(()) };
                (size, ranges)
            }
        };
        // Holes take no bytes in the archive, so the size is compared with the limit before the file is restored.
        let limits = self.budget.limits_at(at.place);
        if size > limits.inflated {
            return self.report_broken(at, member_too_large(at.data, limits, size));
        }
        let reader = &mut tar::Sparse::new(reader.take(stored_left), size, ranges);
        self.search_stream(at, Stream { reader, size: Some(size), is_charged: false, has_source_offsets: false })
    }

    /// Searches a tar archive that is not compressed: its members are ranges of the file.
    pub(super) fn search_tar_in_file(&mut self, at: FilePart<'_>) -> Result<()> {
        let data = at.data;
        let limit = ReadLimit::not_set_yet();
        let mut reader = BoundedReader { reader: Cursor::new(data.bytes()), limit: &limit };
        let mut archive = tar::TarArchive::default();
        loop {
            limit.allow_up_to(HEADERS_MAX, HEADERS_TOO_LONG);
            let header_start = reader.reader.position();
            let Some(next) = self.read_or_report(at, TAR, archive.next(&mut reader))? else { return Ok(()) };
            let header = match next {
                tar::NextMember::Member(header) => header,
                tar::NextMember::Zeros => continue,
                tar::NextMember::End { has_trailing: false } => return Ok(()),
                tar::NextMember::End { has_trailing: true } => {
                    // The trailing bytes begin with the block that was read last, which may be short.
                    let blocks_before = limit.bytes_read.get().saturating_sub(1) / tar::BLOCK;
                    let offset = data.absolute(blocks_before.saturating_mul(tar::BLOCK));
                    return self.report_trailing(at, Some(offset), Some(TAR));
                }
            };
            let start = reader.reader.position();
            let padded = tar::padded(header.stored);
            let member_place = self.step_into_package(at.place, member_step(&header.name));
            let at = at.at_place(member_place.as_ref().unwrap_or(at.place), data);
            if !self.spend(at, start.saturating_sub(header_start))? {
                return Ok(());
            }
            if member_place.is_none() {
                // The data that the walk looks for is not in this member.
            } else if matches!(header.kind, tar::MemberKind::File) {
                // If the archive ends in the content, that is reported below.
                if let Some(content) = data.slice(start, header.stored) {
                    self.search_part(at.with_bytes(content).as_file())?;
                }
            } else {
                // A sparse file has to be restored, as in a stream. Members that are not files are skipped or reported
                // there.
                limit.allow_exactly(padded);
                let inside = at.place.clone().inflated();
                self.search_tar_member(at.at_place(&inside, data).as_file(), header, &mut reader)?;
            }
            // If a read has failed, the search of the member has reported that already.
            let is_cut = data.slice(start, padded).is_none();
            if is_cut && !limit.has_failed.get() {
                return self.report_unreadable(at, TAR, io::ErrorKind::UnexpectedEof.into());
            }
            let end = start.saturating_add(padded);
            // The reader goes on after the member, whatever part of the member was read. `bytes_read` follows, because
            // the offset of trailing bytes is computed from it.
            reader.reader.set_position(end);
            limit.bytes_read.set(end);
            // An archive may have headers in gigabytes of data. Noting them releases their memory in time.
            data.note_header_read();
        }
    }

    /// Charges a member of an archive, calls `search` for it, and skips the rest of it. A walk that looks for the data
    /// of a URI calls `search` only if `step` may lead there. `format` is the name of the archive's format, and
    /// `stored` the length of the member's content and padding. Returns whether the next member can be read.
    fn search_member<R: Read>(
        &mut self,
        at: FilePart<'_>,
        format: &str,
        step: Step,
        stored: u64,
        reader: &mut BoundedReader<'_, R>,
        search: impl FnOnce(&mut Self, FilePart<'_>, &mut BoundedReader<'_, R>) -> Result<()>,
    ) -> Result<bool> {
        let name_len = len_u64(&step.name());
        // Members of other archives are files with paths. The kernels of an AKS2 file have only names, so they do not
        // count as files.
        let is_file = format != AKS2;
        let member_place = if is_file { self.step_into_package(at.place, step) } else { self.step(at.place, step) };
        let member_place = member_place.map(Place::inflated);
        let at = at.at_place(member_place.as_ref().unwrap_or(at.place), at.data);
        let at = if is_file { at.as_file() } else { at };
        if !self.begin_member(at, name_len, stored, reader.limit)? {
            return Ok(false);
        }
        if member_place.is_some() {
            search(self, at, reader)?;
        }
        self.end_member(at, reader, format)
    }

    /// Searches the content of a member, whose `size` bytes are next in the reader and charged already.
    fn search_whole_member(&mut self, at: FilePart<'_>, size: u64, reader: &mut impl Read) -> Result<()> {
        let reader = &mut reader.take(size);
        self.search_stream(at, Stream { reader, size: Some(size), is_charged: true, has_source_offsets: false })
    }

    /// Charges a member of an archive, and limits the reader to the length of the member. `stored` is the length
    /// of its content and padding. Returns whether the search may continue.
    fn begin_member(&mut self, at: FilePart<'_>, name_len: u64, stored: u64, limit: &ReadLimit) -> Result<bool> {
        limit.allow_exactly(stored);
        self.spend(at, total([stored, HEADER_COST, name_len]))
    }

    /// Skips the bytes of a member that its search did not read. Returns whether the next member can be read.
    fn end_member(
        &mut self,
        at: FilePart<'_>,
        reader: &mut BoundedReader<'_, impl Read>,
        format: &str,
    ) -> Result<bool> {
        // After a failed read, which the search of the member has reported, the archive cannot be read on.
        if reader.limit.has_failed.get() {
            return Ok(false);
        }
        let left = reader.limit.bytes_left.get();
        Ok(self.read_or_report(at, format, once::skip(reader, left))?.is_some())
    }

    /// Reads to the end of the data, so that the decoder compares size and checksum with the recorded ones.
    fn read_to_end(&mut self, at: FilePart<'_>, reader: &mut BoundedReader<'_, impl Read>) -> Result<()> {
        reader.limit.allow_up_to(self.budget.bytes_left(), DATA_TOO_LONG);
        let len = self.read_or_report(at, MEMBER, io::copy(reader, &mut io::sink()))?;
        self.spend(at, len.unwrap_or(0))?;
        Ok(())
    }
}
