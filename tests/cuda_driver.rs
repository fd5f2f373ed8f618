//! `packaging/test-cuda`, which compares predictions with NVIDIA's driver, with stand-ins of the driver and of cuRAND:
//! `cc` builds them from `tests/cuda_driver/`. Without `cc` or Python, the tests are skipped.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::machine::{executable, memory_directory, skip};
use crate::properties::fatbins::{self, CUBIN, Code, PTX};
use crate::properties::make::{DEFLATED, Zipped, zip};

/// Three fatbins: the GPU sm_86 runs machine code of the first and PTX of the second, and nothing of the third.
fn three_fatbins() -> [Vec<u8>; 3] {
    let fixture =
        |name: &str| fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/kernels").join(name)).unwrap();
    let cubin = fatbins::entry(&Code::new(CUBIN, 80, &fixture("ptxas13-sm_80.cubin")));
    let ptx = fatbins::entry(&Code::new(PTX, 80, &[&fixture("three.ptx")[..], b"\0"].concat()));
    let other = |sm| fatbins::entry(&Code::cubin(sm, 4));
    [
        fatbins::fatbin(&[other(75), cubin, ptx.clone(), other(90)]),
        fatbins::fatbin(&[other(75), ptx]),
        fatbins::fatbin(&[other(75), other(90)]),
    ]
}

/// Builds the stand-ins, and runs `packaging/test-cuda` for the GPU sm_86 on a wheel with cuRAND on a file with its
/// fatbins and on the driver's library, which has none. Returns the exit status and the output, or `None` if a program
/// is missing.
fn run(test: &str, variables: &[(&str, &str)]) -> Option<(i32, String)> {
    let (root, dir) = (Path::new(env!("CARGO_MANIFEST_DIR")), memory_directory());
    fs::write(dir.path().join("fatbins"), three_fatbins().concat()).unwrap();
    for (source, library) in [("driver.c", "libcuda.so.1"), ("curand.c", "libcurand.so.10")] {
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-shared", "-fPIC", "-o", library]).arg(root.join("tests/cuda_driver").join(source));
        match cc.current_dir(dir.path()).status() {
            Ok(status) => assert!(status.success(), "{source}"),
            Err(_) => {
                skip(test, "cc is not installed");
                return None;
            }
        }
    }
    let curand = fs::read(dir.path().join("libcurand.so.10")).unwrap();
    let wheel = zip(&[Zipped::new("nvidia/curand/lib/libcurand.so.10", DEFLATED, &curand)]);
    fs::write(dir.path().join("curand.whl"), wheel).unwrap();
    let mut python = Command::new("python3");
    python.arg(root.join("packaging/test-cuda")).arg("--tool").arg(executable());
    python.arg("--driver").arg(dir.path().join("libcuda.so.1")).args(["curand.whl", "fatbins", "libcuda.so.1"]);
    python.env("STAND_IN_CAPABILITY", "86").envs(variables.iter().copied()).current_dir(dir.path());
    let Ok(output) = python.output() else {
        skip(test, "python3 is not installed");
        return None;
    };
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.code().unwrap(), String::from_utf8(text).unwrap()))
}

#[test]
fn test_cuda_agrees_with_a_driver_that_loads_what_is_predicted() {
    let test = "test_cuda_agrees_with_a_driver_that_loads_what_is_predicted";
    let Some((status, text)) = run(test, &[]) else { return };
    assert_eq!(status, 0, "{text}");
    assert_eq!(text.lines().next(), Some("GPU: stand-in 0 (sm_86); driver for CUDA 12.8"), "{text}");
    assert!(text.contains("\nskipped: libcuda.so.1: no code for NVIDIA GPUs (1)\n"), "{text}");
    assert_eq!(text.lines().last(), Some("57 agreements, 0 disagreements, 1 skipped"), "{text}");
}

#[test]
fn test_cuda_disagrees_with_a_driver_that_refuses_code_for_an_earlier_gpu() {
    let test = "test_cuda_disagrees_with_a_driver_that_refuses_code_for_an_earlier_gpu";
    let Some((status, text)) = run(test, &[("STAND_IN_EXACT", "1")]) else { return };
    assert_eq!(status, 1, "{text}");
    let line = "DISAGREES: fatbins()() fatbin at 0: predicted: sm_80 loaded; found: not loaded: ";
    assert!(text.contains(line), "{text}");
}

#[test]
fn test_cuda_without_a_driver_compares_nothing() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/test-cuda");
    let Ok(output) = Command::new("python3").arg(script).args(["--driver", "./none.so", "file"]).output() else {
        return skip("test_cuda_without_a_driver_compares_nothing", "python3 is not installed");
    };
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.starts_with("cannot compare: no GPU: ./none.so: "), "{text}");
}
