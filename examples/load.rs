//! Lists the code objects of a file that the runtime of a GPU would load, with their sizes.
//!
//! `cargo run --example load -- FILE GPU`; without arguments, it reads a bundle of this repository
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;
use std::path::Path;

use offload_bundle::io::Input;
use offload_bundle::runtime;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().unwrap_or("fixtures/binary/llvm22-plain.bundle".into());
    let gpu = arguments.next().unwrap_or("gfx906:sramecc+:xnack-".into());
    let input = Input::read(Path::new(&file))?;
    for code in runtime::load(&input, &gpu.parse()?)? {
        let id = code.id();
        println!("{id}: {} bytes", code.bytes()?.len());
    }
    Ok(())
}
