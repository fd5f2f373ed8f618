//! Reads data that can be read once, from start to end.

use std::io::{self, Read};

/// Returns the first bytes of a reader, up to `len` of them.
pub(crate) fn head(reader: &mut (impl Read + ?Sized), len: u64) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    reader.take(len).read_to_end(&mut head)?;
    Ok(head)
}

/// Reads `len` bytes and discards them. Fewer bytes are an error.
pub(crate) fn skip(reader: &mut (impl Read + ?Sized), len: u64) -> io::Result<()> {
    let skipped = io::copy(&mut reader.take(len), &mut io::sink())?;
    if skipped < len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

/// Returns the error of a reader for broken data. `what` is a whole sentence about the fault.
pub(crate) fn broken(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
