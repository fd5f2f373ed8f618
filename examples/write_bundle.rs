//! Writes a bundle from byte slices, and reads it again.
//!
//! `cargo run --example write_bundle`
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;

use offload_bundle::container::Member;
use offload_bundle::container::binary::Binary;
use offload_bundle::container::sequence::{Bundles, Inflate};
use offload_bundle::id::EntryId;
use offload_bundle::io;

fn main() -> Result<(), Box<dyn Error>> {
    // Any bytes can be a code object; here they are those of a file that is in this repository.
    let code = std::fs::read("fixtures/binary/llvm22-plain.bundle")?;
    // As clang makes them, HIP bundles begin with an empty entry for the host.
    let ids = ["host-x86_64-unknown-linux-gnu", "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+"];
    let members = ids.into_iter().zip([&[], code.as_slice()]).map(|(id, content)| {
        let id = EntryId::parse(id)?.to_string();
        Ok(Member { id, content: content.into() })
    });
    let members: Vec<Member<'_>> = members.collect::<Result<_, Box<dyn Error>>>()?;
    let mut bundle = Vec::new();
    let format = Binary::default();
    io::write_to(&format.plan(&members)?, &mut bundle)?;

    let again = Bundles::new(&bundle, &format, Inflate::AsNeeded).next().ok_or("no bundle")??;
    for (index, entry) in again.entries.iter().enumerate() {
        // In a plain bundle, each code object is one range of the file.
        let size = again.in_place(index).map_or(0, |slice| slice.len());
        println!("{}: {size} bytes", String::from_utf8_lossy(&entry.id));
    }
    Ok(())
}
