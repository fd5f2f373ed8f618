//! The architecture of a cubin equals the one that `cuobjdump` prints, whatever its flags are.

use std::fs;
use std::path::Path;

use offload_bundle::io;
use offload_bundle::job::Inspect;

use super::tools::{self, Tools};
use crate::lists::{evenly_spread, share_out};
use crate::machine::memory_directory;

/// The number of changed cubins that are compared, unless all are requested.
const MOST: usize = 300;

const KERNEL: &str = ".version 9.0\n.target {target}\n.address_size 64\n.visible .entry k() { ret; }\n";

/// Operating system and version of the ABI in the header, and the flags for an architecture.
type Layout = (u8, u8, fn(u32) -> u32);

/// The layouts of flags: of CUDA before 13 for architectures before sm_100, and the later one.
const LAYOUTS: [Layout; 2] = [(0x33, 7, |sm| sm << 16 | 0x500 | sm), (0x41, 8, |sm| 0x0600_0004 | sm << 8)];

const ARCHITECTURES: [u32; 9] = [50, 75, 86, 89, 90, 100, 103, 120, 121];

/// The attribute of a cubin that says whether it is for its architecture alone, and one that says something else.
const ATTRIBUTE: [u8; 2] = [2, 9];
const OTHER: [u8; 4] = [2, 2, 1, 0];

/// The bytes before CUDA's release in a note of a cubin for sm_90, and a release that writes no such attribute.
const NOTE: [u8; 4] = [2, 0, 90, 0];
const CUDA_12_9: u8 = 129;

/// Cubins of `ptxas`: for all GPUs of their architecture, for this one alone, and one as CUDA 12.9 writes it, without
/// the attribute that says so.
fn cubins(tools: &Tools) -> Vec<Vec<u8>> {
    let dir = memory_directory();
    let compiled = ["sm_90", "sm_90a"].map(|arch| {
        fs::write(dir.path().join("k.ptx"), KERNEL.replace("{target}", arch)).unwrap();
        tools::run(&tools.ptxas, dir.path(), &[&format!("-arch={arch}"), "k.ptx", "-o", "k.cubin"]);
        fs::read(dir.path().join("k.cubin")).unwrap()
    });
    let mut without = compiled[0].clone();
    let place = |data: &[u8], bytes: &[u8]| data.windows(bytes.len()).position(|window| window == bytes).unwrap();
    let attribute = place(&without, &[&ATTRIBUTE[..], &[0, 0]].concat());
    without[attribute..attribute + OTHER.len()].copy_from_slice(&OTHER);
    let release = place(&without, &NOTE) + NOTE.len();
    without[release] = CUDA_12_9;
    let [general, specific] = compiled;
    vec![general, specific, without]
}

/// Cubins with every flag of the header turned, for each architecture.
fn changed(tools: &Tools) -> Vec<Vec<u8>> {
    let mut changed = Vec::new();
    for cubin in cubins(tools) {
        for (system, version, flags) in LAYOUTS {
            for sm in ARCHITECTURES {
                let single = (0..32).map(|bit| 1 << bit);
                for turned in [0, 0x808, 0xf800].into_iter().chain(single) {
                    let mut cubin = cubin.clone();
                    (cubin[7], cubin[8]) = (system, version);
                    cubin[48..52].copy_from_slice(&(flags(sm) ^ turned).to_le_bytes());
                    changed.push(cubin);
                }
            }
        }
    }
    changed
}

/// Returns the architecture that `cuobjdump` prints, or `None` if it refuses the file.
fn printed(tools: &Tools, dir: &Path, cubin: &[u8]) -> Option<String> {
    fs::write(dir.join("in.cubin"), cubin).unwrap();
    let mut command = std::process::Command::new(&tools.cuobjdump);
    let output = command.args(["-elf", "in.cubin"]).current_dir(dir).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, rest) = text.split_once(" sm=")?;
    Some(format!("sm_{}", rest.split(',').next()?))
}

#[test]
fn flags_name_the_architecture_that_cuobjdump_prints() {
    let Some(tools) = Tools::find("flags of cubins") else { return };
    let check = |cubins: &mut dyn Iterator<Item = Vec<u8>>| -> (Vec<String>, usize) {
        let (dir, mut different, mut read) = (memory_directory(), Vec::new(), 0);
        for cubin in cubins {
            let Some(expected) = printed(&tools, dir.path(), &cubin) else { continue };
            read += 1;
            let header = cubin[48..52].iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>();
            let system = cubin[7];
            let found = Inspect::default().run(&io::Input::from_bytes("in.cubin", cubin)).unwrap();
            let code_object = &found.bundles[0].code_objects[0];
            let names = [Some(code_object.target()), code_object.recorded_target.as_deref().map(str::to_owned)];
            if names.iter().any(|name| name.as_ref() != Some(&expected)) {
                different.push(format!("{system:#x} {header}: {names:?} instead of {expected}"));
            }
        }
        (different, read)
    };
    let (different, read): (Vec<_>, Vec<_>) =
        share_out(evenly_spread(changed(&tools), MOST), check).into_iter().unzip();
    let (different, read) = (different.concat(), read.iter().sum::<usize>());
    assert!(different.is_empty(), "{} of {read}:\n{}", different.len(), different.join("\n"));
    assert!(read > MOST / 2, "cuobjdump reads {read} cubins");
}
