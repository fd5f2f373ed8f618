//! Split libraries as linkers write them, and Debian's librocrand split in place. The dynamic loader accepts each, and
//! its wrappers point at the reference, as a runtime needs them.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::tree::{LIBRARY, PATH, Tree, archives, codes, expected};
use crate::machine::skip;
use crate::properties::kpacks::{self, Archive, Code, Scheme};
use crate::subcommands::{Linked, link, llvm, must};

/// Two wrappers of one reference, and a function that returns the first.
const SOURCE: &str = "
 .section {fatbin}
 .p2align 12
 .zero 8192
 .section {reference},\"{a}\"
reference: .incbin \"reference\"
 .section {segment},\"{w}\"
 .p2align 3
wrappers:
 .long 0x4b504948, 1
 .quad reference, 0
 .long 0x4b504948, 1
 .quad reference, 1
 .text
 .globl first_wrapper
first_wrapper: leaq wrappers(%rip), %rax
 ret
";

/// Loads a library, or is linked with the same source, and prints the fields of the wrappers that a runtime reads.
const MAIN: &str = "
#include <stdio.h>
#include <string.h>
struct wrapper { char magic[4]; int version; const char *reference; int index, zero; };
#ifdef LOADS
#include <dlfcn.h>
static const struct wrapper *find(const char *path) {
  void *library = dlopen(path, RTLD_NOW);
  if (!library) { puts(dlerror()); return NULL; }
  const struct wrapper *(*first_wrapper)(void) = (const struct wrapper *(*)(void))dlsym(library, \"first_wrapper\");
  return first_wrapper();
}
#else
const struct wrapper *first_wrapper(void);
static const struct wrapper *find(const char *path) { return first_wrapper(); }
#endif
int main(int count, char **words) {
  const struct wrapper *wrappers = find(words[1]);
  for (int at = 0; wrappers && at < 2; at++)
    printf(\"%.4s %d %d %.18s\\n\", wrappers[at].magic, wrappers[at].version, wrappers[at].index, wrappers[at].reference + 2);
  return wrappers == NULL;
}
";

/// The output of that program.
const READ: &str = "HIPK 1 0 kpack_search_paths\nHIPK 1 1 kpack_search_paths\n";

/// Linkers write the address in the section, or in relative relocations.
const LINKED: &[Linked] = &[
    ("object.o", "clang", &["-c", "split.s"]),
    ("loader", "clang", &["-DLOADS", "main.c"]),
    ("gnu.so", "clang", &["-shared", "object.o"]),
    ("lld.so", "clang", &["-shared", "-fuse-ld=lld", "object.o"]),
    ("relr.so", "clang", &["-shared", "-fuse-ld=lld", "-Wl,-z,pack-relative-relocs", "object.o"]),
    ("pie", "clang", &["-pie", "-fPIE", "-fuse-ld=lld", "object.o", "main.c"]),
    ("fixed", "clang", &["-no-pie", "-fuse-ld=lld", "object.o", "main.c"]),
    ("object.obj", "clang", &["--target=x86_64-w64-windows-gnu", "-c", "windows.s"]),
    ("library.dll", "lld-link", &["/dll", "/noentry", "/opt:noref", "object.obj"]),
];

/// Builds all forms. Returns `None` if LLVM 22 is not installed.
fn build(dir: &Path, reference: &[u8]) -> Option<()> {
    let test = "split libraries of linkers";
    ["clang", "ld.lld", "lld-link"].iter().all(|program| llvm(test, program).is_some()).then_some(())?;
    fs::write(dir.join("reference"), reference).unwrap();
    let named = |words: [(&str, &str); 5]| {
        words.iter().fold(SOURCE.to_owned(), |source, (name, word)| source.replace(&format!("{{{name}}}"), word))
    };
    let linux = [
        ("a", "a"),
        ("w", "aw"),
        ("fatbin", ".hip_fatbin,\"a\",@nobits"),
        ("reference", ".rocm_kpack_ref"),
        ("segment", ".hipFatBinSegment"),
    ];
    let windows =
        [("a", "dr"), ("w", "dw"), ("fatbin", ".hip_fat,\"b\""), ("reference", ".kpackrf"), ("segment", ".hipFatB")];
    fs::write(dir.join("split.s"), named(linux) + " .section .note.GNU-stack,\"\",@progbits\n").unwrap();
    fs::write(dir.join("windows.s"), named(windows)).unwrap();
    fs::write(dir.join("main.c"), MAIN).unwrap();
    link(test, dir, LINKED);
    Some(())
}

#[test]
fn split_libraries_of_linkers_lead_to_their_code_objects() {
    let tree = Tree::new();
    let lib = tree.path("lib");
    fs::create_dir(&lib).unwrap();
    if build(&lib, &kpacks::reference(&[PATH], LIBRARY)).is_none() {
        return;
    }
    let codes = codes(2);
    for (name, archive) in archives(Scheme::Zstd, &codes) {
        tree.put(&name, &archive.write());
    }
    for (name, ..) in LINKED.iter().filter(|(name, ..)| !["object.o", "object.obj", "loader"].contains(name)) {
        let program = if name.ends_with(".so") { "loader" } else { name };
        // Old dynamic loaders do not know packed relative relocations.
        if *name != "library.dll" {
            let read = must(Command::new(lib.join(program)).arg(format!("./{name}")).current_dir(&lib));
            assert_eq!(String::from_utf8_lossy(&read.stdout), READ, "{name}");
        }
        let path = format!("lib/{name}");
        assert_eq!(tree.extracted(&[&path]), expected(&codes), "{name}");
        let verified = tree.says(&["verify", &path, ".kpack"]);
        assert!(verified.contains("nothing wrong"), "{name}: {verified}");
        if *name != "library.dll" {
            // The reference is then found through its wrappers.
            let objcopy = llvm("split libraries without section headers", "llvm-objcopy").unwrap();
            must(Command::new(objcopy).args(["--strip-sections", name]).current_dir(&lib));
            assert_eq!(tree.extracted(&[&path]), expected(&codes), "{name} without section headers");
            let verified = tree.says(&["verify", &path, ".kpack"]);
            assert!(verified.contains("nothing wrong"), "{name} without section headers: {verified}");
        }
    }
}

/// A number of 8 bytes.
fn number(data: &[u8], at: usize) -> usize {
    usize::try_from(u64::from_le_bytes(data[at..at + 8].try_into().unwrap())).unwrap()
}

fn put(data: &mut [u8], at: usize, number: usize) {
    data[at..at + 8].copy_from_slice(&u64::try_from(number).unwrap().to_le_bytes());
}

/// Splits a library whose only wrapper points at the start of `.hip_fatbin`. The reference takes the place of the code
/// objects, so that no address changes; the file keeps its size.
fn split_in_place(library: &[u8], reference: &[u8]) -> Vec<u8> {
    let mut data = library.to_vec();
    let (table, count) = (number(&data, 40), usize::from(u16::from_le_bytes([data[60], data[61]])));
    let mut headers: Vec<Vec<u8>> = data[table..table + 64 * count].chunks(64).map(<[u8]>::to_vec).collect();
    let names_index = usize::from(u16::from_le_bytes([data[62], data[63]]));
    let names_at = number(&headers[names_index], 24);
    let mut names = data[names_at..names_at + number(&headers[names_index], 32)].to_vec();
    let find = |headers: &[Vec<u8>], name: &str| {
        let is_it = |header: &Vec<u8>| {
            let at = usize::try_from(u32::from_le_bytes(header[..4].try_into().unwrap())).unwrap();
            names[at..].starts_with(&[name.as_bytes(), b"\0"].concat())
        };
        headers.iter().position(is_it).unwrap()
    };
    let (fatbin, segment) = (find(&headers, ".hip_fatbin"), find(&headers, ".hipFatBinSegment"));
    let wrapper = number(&headers[segment], 24);
    assert_eq!(number(&headers[segment], 32), 24, "more wrappers than one");
    data[wrapper..wrapper + 4].copy_from_slice(b"HIPK");

    let (address, start, len) =
        (number(&headers[fatbin], 16), number(&headers[fatbin], 24), number(&headers[fatbin], 32));
    data[start..start + len].fill(0);
    data[start..start + reference.len()].copy_from_slice(reference);
    let mut section = headers[fatbin].clone();
    let name_at = names.len();
    names.extend(b".rocm_kpack_ref\0");
    section[..4].copy_from_slice(&u32::try_from(name_at).unwrap().to_le_bytes());
    put(&mut section, 32, reference.len());
    put(&mut section, 48, 1);
    headers.push(section);
    headers[fatbin][4] = 8;
    for (at, value) in [(16, address + reference.len()), (24, start + reference.len()), (32, len - reference.len())] {
        put(&mut headers[fatbin], at, value);
    }
    put(&mut headers[fatbin], 48, 1);

    put(&mut headers[names_index], 24, data.len());
    put(&mut headers[names_index], 32, names.len());
    data.extend(names);
    data.resize(data.len().next_multiple_of(8), 0);
    let table = data.len();
    put(&mut data, 40, table);
    data[60..62].copy_from_slice(&u16::try_from(headers.len()).unwrap().to_le_bytes());
    data.extend(headers.concat());
    data
}

#[test]
fn librocrand_split_in_place_leads_to_its_code_objects() {
    let test = "librocrand, split";
    let Some(library) = crate::subcommands::librocrand(test) else { return };
    let tree = Tree::new();
    let whole = tree.extracted(&[library.to_str().unwrap()]);
    assert!(whole.len() > 4);
    let name = "lib/librocrand.so.1";
    let path = "../.kpack/rand_lib_@GFXARCH@.kpack";
    tree.put(name, &split_in_place(&fs::read(&library).unwrap(), &kpacks::reference(&[path], name)));
    for (index, (target, content)) in whole.iter().enumerate() {
        let scheme = if index % 2 == 0 { Scheme::Zstd } else { Scheme::None };
        let archive = Archive::new("rand_lib", scheme, vec![Code::new(&format!("{name}#0"), target, content)]);
        tree.put(&format!(".kpack/rand_lib_{target}.kpack"), &archive.write());
    }
    assert!(tree.extracted(&[name]) == whole, "other code objects through the library");
    assert!(tree.extracted(&[".kpack"]) == whole, "other code objects in the archives");
    let verified = tree.says(&["verify", "-r", "."]);
    assert!(verified.contains("nothing wrong"), "{verified}");
    // The dynamic loader accepts it; its functions need GPUs.
    let load = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).rocrand_get_version";
    match Command::new("python3").args(["-c", load]).arg(tree.path(name)).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => skip(test, "python3 is not installed"),
    }
}
