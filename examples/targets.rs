//! Lists the GPUs that a library, a program, a package or a bundle has code for, with products.
//!
//! `cargo run --example targets -- FILE`; without FILE, it reads a bundle of this repository
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::collections::BTreeSet;
use std::path::Path;

use offload_bundle::inventory::Contents;
use offload_bundle::io::Input;
use offload_bundle::scan::Scan;

fn main() -> offload_bundle::Result<()> {
    let fixture = "fixtures/binary/llvm22-plain.bundle";
    let file = std::env::args_os().nth(1).unwrap_or(fixture.into());
    let contents = Contents::read(&Input::read(Path::new(&file))?, &Scan::default())?;
    // There may be too many to compare in a file that somebody has made so.
    for (gpu, served) in contents.coverage().gpus().unwrap_or_default() {
        println!("{} in {served} bundles: {}", gpu.name(), gpu.products().join(", "));
    }
    // Code for the host and for devices that are not GPUs has targets too.
    let code_objects = contents.bundles.iter().flat_map(|bundle| &bundle.code_objects);
    let targets: BTreeSet<String> = code_objects.map(|code_object| code_object.target()).collect();
    println!("{targets:?}");
    Ok(())
}
