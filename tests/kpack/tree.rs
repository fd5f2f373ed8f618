//! Directories as installations have them: a library without its device code, and archives.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::machine::memory_directory;
use crate::properties::kpacks::{self, Archive, Code, Scheme};
use crate::properties::make::{Elf, Section};
use crate::subcommands::{text, tool_in};

/// Where the archives are for a library in `lib`, and the name of its code objects in them.
pub const PATH: &str = "../.kpack/test_lib_@GFXARCH@.kpack";
pub const LIBRARY: &str = "lib/libtest.so";

/// Targets, with the flags that ELF files for them have.
pub const TARGETS: [(&str, u32); 3] = [("gfx906", 0x2f), ("gfx90a:xnack-", 0x23f), ("gfx942", 0x4c)];

/// A code object for a target: an ELF file that is different for each `number`.
pub fn code_object(target: &str, number: usize) -> Vec<u8> {
    let (_, flags) = TARGETS.iter().find(|(name, _)| *name == target).unwrap();
    let content = format!("code object {number} for {target}, {}", "and so on ".repeat(20 + number));
    Elf::amdgpu(*flags).write(&[Section::new(".text", content.as_bytes())])
}

/// Returns a code object for each wrapper and target.
pub fn codes(wrappers: usize) -> Vec<Code> {
    let code =
        |index: usize, target: &str| Code::new(&format!("{LIBRARY}#{index}"), target, &code_object(target, index));
    (0..wrappers).flat_map(|index| TARGETS.map(|(target, _)| code(index, target))).collect()
}

/// An archive for each target, with its name.
pub fn archives(scheme: Scheme, codes: &[Code]) -> Vec<(String, Archive)> {
    let of_target = |(target, _): &(&str, u32)| {
        let codes = codes.iter().filter(|code| code.target == *target).cloned().collect();
        (format!(".kpack/test_lib_{target}.kpack"), Archive::new("test_lib", scheme, codes))
    };
    TARGETS.iter().map(of_target).collect()
}

const REFERENCE_AT: usize = 0x2_0000;

/// Returns a program without device code: its reference to archives, and wrappers with the address of the reference.
pub fn program(reference: &[u8], wrappers: usize) -> Vec<u8> {
    let wrapper = |index| kpacks::wrapper(u64::try_from(REFERENCE_AT).unwrap(), u32::try_from(index).unwrap());
    let wrappers: Vec<u8> = (0..wrappers).flat_map(wrapper).collect();
    program_with(reference, &wrappers)
}

/// Returns a program with a reference and the bytes of its wrappers.
pub fn program_with(reference: &[u8], wrappers: &[u8]) -> Vec<u8> {
    Elf { kind: 2, ..Elf::OBJECT }.write(&[
        Section::new(".hip_fatbin", &[0; 8192]).at(0x1_0000).without_content(),
        Section::new(".rocm_kpack_ref", reference).at(REFERENCE_AT),
        Section::new(".hipFatBinSegment", wrappers).at(0x3_0000),
    ])
}

/// A directory.
pub struct Tree(tempfile::TempDir);

impl Tree {
    pub fn new() -> Self {
        Self(memory_directory())
    }

    /// A library of one of the usual forms and its archives.
    pub fn sound(scheme: Scheme, wrappers: usize) -> Self {
        let tree = Self::new();
        tree.put(LIBRARY, &program(&kpacks::reference(&[PATH], LIBRARY), wrappers));
        for (name, archive) in archives(scheme, &codes(wrappers)) {
            tree.put(&name, &archive.write());
        }
        tree
    }

    pub fn root(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file, and the directories that it is in.
    pub fn put(&self, name: &str, data: &[u8]) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), data).unwrap();
    }

    pub fn run(&self, args: &[&str]) -> Output {
        tool_in(self.root(), args)
    }

    /// Runs the tool, which must succeed and print no message. Returns its output.
    pub fn says(&self, args: &[&str]) -> String {
        let (status, out, said) = text(&self.run(args));
        assert_eq!((status, said.as_str()), (0, ""), "{args:?}: {out}");
        out
    }

    /// The contents that `extract` writes with these arguments, by target and content.
    pub fn extracted(&self, args: &[&str]) -> Vec<(String, Vec<u8>)> {
        let out = self.says(&[&["extract", "--json", "-o", "out"], args].concat());
        let document: serde_json::Value = serde_json::from_str(&out).unwrap();
        let objects = document["code_objects"].as_array().unwrap().iter();
        let mut found: Vec<(String, Vec<u8>)> = objects
            .map(|object| {
                let text = |field: &str| object[field].as_str().unwrap();
                (text("target_id").to_owned(), fs::read(self.path(text("file"))).unwrap())
            })
            .collect();
        assert_eq!(found.len(), fs::read_dir(self.path("out")).unwrap().count(), "{args:?}");
        fs::remove_dir_all(self.path("out")).unwrap();
        found.sort();
        found
    }
}

/// Targets and contents, in the order of `Tree::extracted`.
pub fn expected(codes: &[Code]) -> Vec<(String, Vec<u8>)> {
    let mut expected: Vec<_> = codes.iter().map(|code| (code.target.clone(), code.content.clone())).collect();
    expected.sort();
    expected
}
