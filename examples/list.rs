//! Lists the device code that a library, a program, an archive or a bundle holds.
//!
//! `cargo run --example list -- FILE`

use std::path::PathBuf;

use offload_bundle::io::Input;
use offload_bundle::scan::{Finding, Scan};

fn main() -> offload_bundle::Result<()> {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/sequence/mixed.bundle");
    let file = std::env::args_os().nth(1).map_or(PathBuf::from(fixture), PathBuf::from);
    let (mut count, mut size) = (0_usize, 0_u64);
    Scan::default().run(&Input::read(&file)?, &mut |finding| {
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
