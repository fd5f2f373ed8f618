//! Reads data that can be read once, from start to end.

use std::io::{self, Read};

/// The first bytes that a reader gives, up to `len` of them.
pub(crate) fn head(reader: &mut (impl Read + ?Sized), len: u64) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    reader.take(len).read_to_end(&mut head)?;
    Ok(head)
}

/// Reads over `len` bytes. To have fewer is an error.
pub(crate) fn skip(reader: &mut (impl Read + ?Sized), len: u64) -> io::Result<()> {
    match io::copy(&mut reader.take(len), &mut io::sink())? {
        skipped if skipped == len => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// The error of a reader for what is wrong with the data.
pub(crate) fn broken(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
