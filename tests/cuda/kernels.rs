//! The registers and memory of kernels are those that `cuobjdump -res-usage` prints.

use std::collections::BTreeMap;
use std::fs;

use super::libraries::each_library;
use super::tools::{self, Tools};
use super::*;
use crate::look::kernels::kernels_of;

/// Kernels by architecture, name, registers, stack, shared memory and constant bank 0, with the number of each.
type Usage = BTreeMap<(String, String, [u64; 3], Option<u64>), usize>;

/// The usage that `cuobjdump` prints. Functions that are not kernels have no constant bank 0.
fn printed(tools: &Tools, name: &str, data: &[u8], arch: &str) -> Usage {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(name), data).unwrap();
    let (mut usage, mut arch, mut function) = (Usage::new(), arch.to_owned(), String::new());
    for line in tools::run(&tools.cuobjdump, dir.path(), &["-all", "-res-usage", name]).lines().map(str::trim) {
        if let Some(found) = line.strip_prefix("arch = ") {
            found.clone_into(&mut arch);
        } else if let Some(found) = line.strip_prefix("Function ") {
            found.trim_end_matches(':').clone_into(&mut function);
        } else if line.starts_with("REG:") {
            let numbers: BTreeMap<&str, u64> = line
                .split(' ')
                .filter_map(|word| word.split_once(':'))
                .map(|(key, value)| (key, value.parse().unwrap()))
                .collect();
            let Some(bank) = numbers.get("CONSTANT[0]") else { continue };
            let memory = ["REG", "STACK", "SHARED"].map(|key| numbers[key]);
            *usage.entry((arch.clone(), function.clone(), memory, Some(*bank))).or_default() += 1;
        }
    }
    usage
}

/// The usage that our tool prints. Before linking, cuobjdump prints a stack of 0.
fn ours(input: &Input) -> Result<Usage, String> {
    let mut usage = Usage::new();
    for kernel in kernels_of(&super::run(&["kernels", "--json"], input)?.stdout)["kernels"].as_array().unwrap() {
        let text = |field: &str| kernel[field].as_str().unwrap().to_owned();
        let memory = ["vgprs", "scratch", "lds"].map(|field| kernel[field].as_u64().unwrap_or_default());
        let key = (text("target_id"), text("mangled_name"), memory, kernel["constant_bank"].as_u64());
        *usage.entry(key).or_default() += 1;
    }
    Ok(usage)
}

#[test]
fn usage_of_real_libraries_is_that_of_cuobjdump() {
    each_library("kernels of NVIDIA's libraries", |tools, library| {
        let expected = printed(tools, &library.name, &library.data, "");
        assert!(expected.len() > 1000, "{}", expected.len());
        same(&ours(library)?, &expected)
    });
}

#[test]
fn usage_of_kernels_of_ptxas_is_that_of_cuobjdump() {
    let Some(tools) = Tools::find("kernels of ptxas") else { return };
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/kernels/three.ptx");
    let ptx = fs::read_to_string(source).unwrap();
    for arch in ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"] {
        for more in [&[][..], &["-c"], &["-O0"]] {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("k.ptx"), ptx.replace("sm_80", arch).replace("version 7.8", "version 8.7"))
                .unwrap();
            let arch_option = format!("-arch={arch}");
            tools::run(&tools.ptxas, dir.path(), &[&[&arch_option, "k.ptx", "-o", "k.cubin"], more].concat());
            let data = fs::read(dir.path().join("k.cubin")).unwrap();
            let input = Input { name: "k.cubin".to_owned(), data, rows: Vec::new(), oracle: true };
            let expected = printed(&tools, &input.name, &input.data, arch);
            assert_eq!(expected.len(), 3);
            assert_eq!(ours(&input).unwrap(), expected, "{arch} {more:?}");
            let document = kernels_of(&super::run(&["kernels", "--json"], &input).unwrap().stdout);
            let of = |name: &str, field: &str| {
                let kernels = document["kernels"].as_array().unwrap();
                kernels.iter().find(|kernel| kernel["mangled_name"] == name).unwrap()[field].as_u64()
            };
            // What cuobjdump does not print.
            let arguments = ["_Z3fooPfi", "bar", "stack"].map(|name| of(name, "kernarg"));
            assert_eq!(arguments, [Some(12), Some(0), Some(12)], "{arch}");
            let groups = ["_Z3fooPfi", "bar", "stack"].map(|name| of(name, "max_workgroup"));
            assert_eq!(groups, [Some(256), Some(64), None], "{arch}");
            assert!(of("bar", "code_size") > Some(0) && of("stack", "code_size") > of("bar", "code_size"), "{arch}");
        }
    }
}
