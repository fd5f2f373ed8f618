//! Takes the code for one GPU out of a file, into memory.
//!
//! `cargo run --example one_gpu -- FILE TARGET`, where TARGET is like `gfx90a`, `gfx90a:xnack+` or `sm_90`; without
//! arguments, it reads a bundle of this repository
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;

use offload_bundle::inventory::{Pattern, Selection};
use offload_bundle::scan::{Finding, Scan};

fn main() -> Result<(), Box<dyn Error>> {
    let fixture = "fixtures/compressed/llvm22-v3.ccob";
    let mut arguments = std::env::args().skip(1);
    let data = std::fs::read(arguments.next().as_deref().unwrap_or(fixture))?;
    let mut selection = Selection::default();
    selection.targets = vec![Pattern::parse(&arguments.next().unwrap_or_else(|| "gfx90a".to_owned()))?];
    let mut code: Vec<Vec<u8>> = Vec::new();
    Scan::default().run(&data, &mut |finding| {
        if let Finding::Bundle(bundle) = finding {
            for code_object in bundle.code_objects().filter(|code_object| selection.takes(code_object)) {
                code.push(code_object.bytes()?.into_owned());
            }
        }
        Ok(())
    })?;
    let sizes: Vec<usize> = code.iter().map(Vec::len).collect();
    println!("{} code objects, bytes of each: {sizes:?}", code.len());
    Ok(())
}
