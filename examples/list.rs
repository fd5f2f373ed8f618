//! Lists the device code that a library, a program, an archive or a bundle holds.
//!
//! `cargo run --example list -- FILE`; without FILE, it lists a bundle of this repository
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::path::Path;

use offload_bundle::io::Input;
use offload_bundle::scan::{Finding, Scan};

fn main() -> offload_bundle::Result<()> {
    let fixture = "fixtures/binary/llvm22-plain.bundle";
    let file = std::env::args_os().nth(1).unwrap_or(fixture.into());
    let (mut count, mut size) = (0_usize, 0_u64);
    Scan::default().run(&Input::read(Path::new(&file))?, &mut |finding| {
        match finding {
            Finding::Bundle(bundle) => {
                for code_object in bundle.code_objects() {
                    println!("{}: {} ({} bytes)", bundle.place, code_object.shown_id(), code_object.size());
                    (count, size) = (count + 1, size + code_object.size());
                }
            }
            Finding::Broken { place, error } => return Err(error.at(place)),
            _ => {}
        }
        Ok(())
    })?;
    println!("{count} code objects of {size} bytes");
    Ok(())
}
