//! The registers and memory of kernels equal the output of `cuobjdump -res-usage`.

use crate::machine::memory_directory;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use offload_bundle::io;
use offload_bundle::job::Verify;

use super::libraries::each_library;
use super::tools::{self, Tools};
use super::*;
use crate::subcommands::kernels::kernels_of;

/// Kernels by architecture, name, registers, stack, shared memory and constant bank 0, with the number of each.
type Usage = BTreeMap<(String, String, [u64; 3], Option<u64>), usize>;

/// The usage that `cuobjdump` prints. Functions that are not kernels have no constant bank 0.
fn printed(tools: &Tools, name: &str, data: &[u8], arch: &str) -> Usage {
    let dir = memory_directory();
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
            let dir = memory_directory();
            fs::write(dir.path().join("k.ptx"), ptx.replace("sm_80", arch).replace("version 7.8", "version 8.7"))
                .unwrap();
            let arch_option = format!("-arch={arch}");
            tools::run(&tools.ptxas, dir.path(), &[&[&arch_option, "k.ptx", "-o", "k.cubin"], more].concat());
            let data = fs::read(dir.path().join("k.cubin")).unwrap();
            let input = Input { name: "k.cubin".to_owned(), data, rows: Vec::new(), oracle: true };
            let expected = printed(&tools, &input.name, &input.data, arch);
            assert_eq!(expected.len(), 3, "{arch} {more:?}");
            assert_eq!(ours(&input).unwrap(), expected, "{arch} {more:?}");
            let document = kernels_of(&super::run(&["kernels", "--json"], &input).unwrap().stdout);
            let of = |name: &str, field: &str| {
                let kernels = document["kernels"].as_array().unwrap();
                kernels.iter().find(|kernel| kernel["mangled_name"] == name).unwrap()[field].as_u64()
            };
            // cuobjdump prints neither the sizes of arguments nor those of work-groups.
            let arguments = ["_Z3fooPfi", "bar", "stack"].map(|name| of(name, "kernarg"));
            assert_eq!(arguments, [Some(12), Some(0), Some(12)], "{arch}");
            let groups = ["_Z3fooPfi", "bar", "stack"].map(|name| of(name, "max_workgroup"));
            assert_eq!(groups, [Some(256), Some(64), None], "{arch}");
            assert!(of("bar", "code_size") > Some(0) && of("stack", "code_size") > of("bar", "code_size"), "{arch}");
        }
    }
}

/// Kernels whose arguments ptxas records in each of both forms.
const ARGUMENTS: &str = "
.version 8.7
.target sm_80
.address_size 64
.visible .entry small(.param .u64 .ptr .global .align 16 a, .param .u32 b, .param .align 16 .b8 c[4000], .param .u8 d) { ret; }
.visible .entry large(.param .u64 .ptr .global .align 16 a, .param .align 8 .b8 c[20000], .param .u16 d) { ret; }
.visible .entry none() { ret; }
";

#[test]
fn arguments_of_kernels_are_those_of_cuobjdump() {
    let Some(tools) = Tools::find("arguments of kernels of ptxas") else { return };
    for arch in ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"] {
        let dir = memory_directory();
        fs::write(dir.path().join("k.ptx"), ARGUMENTS.replace("sm_80", arch)).unwrap();
        tools::run(&tools.ptxas, dir.path(), &[&format!("-arch={arch}"), "k.ptx", "-o", "k.cubin"]);
        // Position, offset and size by kernel.
        let mut expected: BTreeMap<String, BTreeMap<u64, [u64; 2]>> = BTreeMap::new();
        let mut kernel = String::new();
        for line in tools::run(&tools.cuobjdump, dir.path(), &["-elf", "k.cubin"]).lines() {
            if let Some(name) = line.strip_prefix(".nv.info.") {
                name.clone_into(&mut kernel);
                expected.entry(kernel.clone()).or_default();
            }
            let number = |key: &str| {
                let after = line.split_once(key)?.1.trim_start().strip_prefix(": 0x")?;
                u64::from_str_radix(after.split_whitespace().next()?, 16).ok()
            };
            if let (Some(position), Some(offset), Some(size)) = (number("Ordinal"), number("Offset"), number("Size")) {
                expected.get_mut(&kernel).unwrap().insert(position, [offset, size]);
            }
        }
        let data = fs::read(dir.path().join("k.cubin")).unwrap();
        let input = Input { name: "k.cubin".to_owned(), data, rows: Vec::new(), oracle: true };
        let document = kernels_of(&super::run(&["kernels", "--json", "--arguments"], &input).unwrap().stdout);
        let mut read = BTreeMap::new();
        for kernel in document["kernels"].as_array().unwrap() {
            let arguments = kernel["arguments"].as_array().unwrap().iter();
            let places = arguments.map(|argument| ["offset", "size"].map(|field| argument[field].as_u64().unwrap()));
            read.insert(kernel["mangled_name"].as_str().unwrap().to_owned(), (0..).zip(places).collect());
        }
        assert_eq!(read, expected, "{arch}");
        assert_eq!(expected.values().map(BTreeMap::len).collect::<Vec<_>>(), [3, 0, 4], "{arch}");
        assert_eq!(read["large"].values().collect::<Vec<_>>(), [&[0, 8], &[8, 20_000], &[20_008, 2]], "{arch}");
    }
}

#[test]
fn sections_take_no_bytes_where_cuobjdump_reads_none() {
    let Some(tools) = Tools::find("types of sections of cubins") else { return };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/kernels/ptxas13-sm_80.cubin");
    let cubin = fs::read(path).unwrap();
    let (table, count) = (number(&cubin, 40, 8), number(&cubin, 60, 2));
    let is_without = |header: &usize| number(&cubin, header + 4, 4) == 8 && number(&cubin, header + 32, 8) > 0;
    let header = (0..count).map(|index| table + 64 * index).find(is_without).unwrap();
    let dir = memory_directory();
    for kind in [1, 8].into_iter().chain(0x7000_0000..0x7000_0020_u32) {
        let mut cubin = cubin.clone();
        cubin[header + 4..header + 8].copy_from_slice(&kind.to_le_bytes());
        cubin[header + 24..header + 32].copy_from_slice(&(1_u64 << 20).to_le_bytes());
        fs::write(dir.path().join("in.cubin"), &cubin).unwrap();
        let mut command = std::process::Command::new(&tools.cuobjdump);
        let read = command.args(["-elf", "in.cubin"]).current_dir(dir.path()).output().unwrap();
        let verified = Verify::default().check(&io::Input::from_bytes("in.cubin", cubin)).unwrap();
        assert_eq!(verified.faults.is_empty(), read.status.success(), "{kind:#x}: {:?}", verified.faults);
    }
}

/// A number of some bytes in a little-endian file.
fn number(data: &[u8], at: usize, len: usize) -> usize {
    data[at..at + len].iter().rev().fold(0, |number, byte| (number << 8) | usize::from(*byte))
}
