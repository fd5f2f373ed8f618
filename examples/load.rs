//! Lists the code objects of a file that the runtime of a GPU would load.
//!
//! `cargo run --example load -- FILE GPU`
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;
use std::path::Path;

use offload_bundle::io::Input;
use offload_bundle::runtime::{self, Device};
use offload_bundle::scan::Scan;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().unwrap_or("fixtures/binary/llvm22-plain.bundle".into());
    let gpu = Device::parse(&arguments.next().unwrap_or("gfx906:sramecc+:xnack-".into()))?;
    for loaded in runtime::loaded(&Scan::default(), &Input::read(Path::new(&file))?, &[gpu])? {
        println!("{}: {} bytes", loaded.code_object.shown_id(), loaded.code_object.size);
    }
    Ok(())
}
