//! Chooses the code object for a GPU as the loader of HIP does: code for the processor itself, then for its generic target,
//! then SPIR-V, which is compiled when it is loaded. Code that sets more features of the processor is preferred.
//!
//! `cargo run --example load -- FILE`
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;

use offload_bundle::id::{EntryId, Rules};
use offload_bundle::scan::{Finding, Scan};

/// What code for a gfx906 is called, in the order in which it is preferred.
const GFX906: [&str; 3] = [
    "hip-amdgcn-amd-amdhsa--gfx906:sramecc+:xnack-",
    "hip-amdgcn-amd-amdhsa--gfx9-generic:xnack-",
    "hip-spirv64-amd-amdhsa--amdgcnspirv",
];

fn main() -> Result<(), Box<dyn Error>> {
    let fixture = "fixtures/binary/llvm22-plain.bundle";
    let data = std::fs::read(std::env::args_os().nth(1).unwrap_or(fixture.into()))?;
    let wanted = GFX906.iter().map(|id| id.parse()).collect::<Result<Vec<EntryId>, _>>()?;
    let mut best: Option<((usize, usize), EntryId, Vec<u8>)> = None;
    Scan::default().run(&data, &mut |finding| {
        let Finding::Bundle(bundle) = finding else { return Ok(()) };
        for code_object in bundle.code_objects() {
            let Some(id) = code_object.entry_id() else { continue };
            let serves = |request| id.compatibility(request, Rules::default()).is_compatible();
            let Some(tried) = wanted.iter().position(serves) else { continue };
            let rank = (tried, usize::MAX - id.target_id().features().count());
            if best.as_ref().is_none_or(|(other, ..)| rank < *other) {
                best = Some((rank, id, code_object.bytes()?.into_owned()));
            }
        }
        Ok(())
    })?;
    let (_, id, code) = best.ok_or("no code object for this GPU")?;
    println!("{id}: {} bytes", code.len());
    Ok(())
}
