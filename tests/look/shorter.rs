//! Libraries and programs that `recompress` makes shorter: loaders, `strip` and other tools take them, the same bytes
//! are loaded, and all comes back.

use std::fs;
use std::process::Command;

use super::*;
use crate::machine::{loud, memory_directory};
use crate::properties::make::{Zipped, zip};
use crate::reference::formats;

/// Three bundles in one section, with data before and after it. `dump` prints all that is loaded from host sections.
const LIBRARY: &str = r#"
__asm__(".section .hip_fatbin,\"a\",@progbits\n.p2align 12\nfirst: .incbin \"bundle\"\n.p2align 12\nsecond: .incbin \"bundle\"\n"
        ".p2align 12\nthird: .incbin \"bundle\"\nend:\n.text");
extern const char first[], second[], third[], end[];
struct wrapper { int magic, version; const void *bundle, *unused; };
__attribute__((section(".hipFatBinSegment"), used)) struct wrapper wrappers[3] = {
    {0x48495046, 1, first, 0}, {0x48495046, 1, second, 0}, {0x48495046, 1, third, 0}};
int puts(const char *);
char *getenv(const char *);
int strncmp(const char *, const char *, unsigned long);
static const char *const texts[] = {"some", "constant", "data"};
char zeros[70000];
int numbers[3] = {20, 1, 21};
__thread int own = 7;
int answer(void) {
  int sum = 0;
  for (int index = 0; index < 3; ++index) {
    sum += numbers[index];
    if (strncmp(wrappers[index].bundle, "__CLANG_OFFLOAD_BUNDLE__", 24) != 0) return 1;
  }
  for (unsigned index = 0; index < sizeof zeros; ++index) sum += zeros[index];
  /* All addresses of the section can be read, also those of gaps, until GNU's strip takes their memory away. */
  if (!getenv("NO_GAPS")) for (const volatile char *at = first; at < end; at += 512) (void)*at;
  return sum + own == 49 ? puts(texts[1]) < 0 : 2;
}
"#;

const PROGRAM: &str = "int answer(void); int main(void) { return answer(); }";

const LOADER: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **words) {
  void *library = dlopen(words[1], RTLD_NOW);
  int (*answer)(void) = library ? (int (*)(void))dlsym(library, "answer") : 0;
  return answer ? answer() : (puts(dlerror()), 3);
}
"#;

/// A run of a program in a directory: its status and output.
fn run(dir: &Path, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(dir.join(words[0]));
    // musl gives read-only memory without bytes in the file those that follow, which may be none.
    if words.iter().any(|word| word.ends_with("changed") || word.contains("lib-musl")) {
        command.env("NO_GAPS", "1");
    }
    let output = command.args(&words[1..]).current_dir(dir).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a tool is installed, or is said to be missing.
fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        loud(&format!("SKIPPED: {tool} is not installed: shorter libraries"));
    }
    found
}

/// The complaints of eu-elflint about a file, without numbers.
fn complaints(dir: &Path, name: &str) -> Vec<String> {
    let output = Command::new("eu-elflint").args(["--gnu-ld", name]).current_dir(dir).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).replace(|letter: char| letter.is_ascii_digit(), "");
    text.lines().map(str::to_owned).collect()
}

/// The notes that are loaded, such as the build ID, as `readelf` finds them by the program headers.
fn notes(dir: &Path, name: &str) -> Vec<String> {
    let output = must(Command::new("readelf").args(["--segments", "--wide", name]).current_dir(dir));
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = output.lines().filter(|line| line.trim_start().starts_with("NOTE"));
    // Sizes and addresses; offsets may move.
    lines.map(|line| line.split_whitespace().skip(2).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn what_becomes_shorter_is_loaded_as_before_and_comes_back() {
    let dir = memory_directory();
    let at = |name: &str| dir.path().join(name);
    let code: Vec<u8> =
        (0..90_001_u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0]).collect();
    let ids = ["host-x86_64-unknown-linux-gnu", "hip-amdgcn-amd-amdhsa--gfx906", "hip-amdgcn-amd-amdhsa--gfx90a"];
    let bundle = formats::binary(&[(ids[0], &b""[..]), (ids[1], &code), (ids[2], &code[..50_000])], 4096);
    fs::write(at("bundle"), bundle).unwrap();
    for (name, source) in [("library.c", LIBRARY), ("program.c", PROGRAM), ("loader.c", LOADER)] {
        fs::write(at(name), source).unwrap();
    }
    let mut compilers = vec![("cc", "loader")];
    compilers.extend(has("musl-gcc").then_some(("musl-gcc", "musl-loader")));
    let mut files = Vec::new();
    for (compiler, loader) in compilers {
        let compile = |words: &[&str]| must(Command::new(compiler).args(words).current_dir(dir.path()));
        compile(&["loader.c", "-o", loader, "-ldl"]);
        let library = format!("lib-{compiler}.so");
        compile(&["-shared", "-fPIC", "-g", "library.c", "-o", &library]);
        files.push((library, Some(loader)));
        for (kind, options) in [("pie", &["-pie", "-fPIE"][..]), ("fixed", &["-no-pie"]), ("static", &["-static"])] {
            let program = format!("{kind}-{compiler}");
            compile(&[options, &["-g", "program.c", "library.c", "-o", &program]].concat());
            files.push((program, None));
        }
        if compiler == "cc" {
            // As old linkers align segments.
            compile(&[
                "-shared",
                "-fPIC",
                "-Wl,-z,max-page-size=0x200000",
                "-Wl,-z,noseparate-code",
                "library.c",
                "-o",
                "large-pages.so",
            ]);
            files.push(("large-pages.so".to_owned(), Some(loader)));
        }
    }
    let lints = has("eu-elflint");
    for (name, loader) in &files {
        let answers = |file: &str| {
            let here = format!("./{file}");
            let words = loader.map_or_else(|| vec![file], |loader| vec![loader, &here]);
            assert_eq!(run(dir.path(), &words), (Some(0), "constant\n".to_owned()), "{file}");
        };
        let recompress = |from: &str, options: &[&str]| {
            let to = format!("new-{name}");
            let (status, _, said) = text(&tool_in(dir.path(), &[&["recompress", from, "-o", &to], options].concat()));
            assert_eq!(status, 0, "{name}: {said}");
            let data = fs::read(at(&to)).unwrap();
            (to, data, said)
        };
        answers(name);
        let before = fs::read(at(name)).unwrap();
        let (_, hole, _) = recompress(name, &["--none", "--keep=gfx90a", "--keep-offsets"]);
        assert_eq!(hole.len(), before.len());
        let (kept, after, said) = recompress(name, &["--none", "--keep=gfx90a"]);
        assert!(before.len() - after.len() > 250_000 && said.contains(" shorter\n"), "{name}: {said}");
        answers(&kept);
        let (status, out, said) = text(&tool_in(dir.path(), &["verify", &kept]));
        assert_eq!((status, said.as_str()), (0, ""), "{name}: {out}");
        // Made shorter again, it is the same.
        fs::rename(at(&kept), at("kept")).unwrap();
        assert!(recompress("kept", &["--none"]).1 == after, "{name}");
        let (small, _, _) = recompress(name, &["--level=1"]);
        fs::rename(at(&small), at("small")).unwrap();
        let (_, back, _) = recompress("small", &["--none"]);
        assert!(back == before, "{name}: other bytes come back");

        let (kept, _, _) = recompress(name, &["--none", "--keep=gfx90a"]);
        if lints {
            let (old, new) = (complaints(dir.path(), name), complaints(dir.path(), &kept));
            // eu-elflint looks for the segment of `.bss` by its offset alone.
            let is_new = |line: &&String| !old.contains(line) && !line.contains("'.bss' not fully contained");
            let new: Vec<&String> = new.iter().filter(is_new).filter(|line| *line != "No errors").collect();
            assert!(new.is_empty(), "{name}: {new:?}");
        }
        if loader.is_some() {
            for (tool, words) in [
                ("strip", &["-o", "changed"][..]),
                ("llvm-strip-22", &["-o", "changed"]),
                ("objcopy", &["--strip-debug"]),
                ("patchelf", &["--set-rpath", "/a/long/path/that/needs/more/room", "--output", "changed"]),
            ] {
                if !has(tool) {
                    continue;
                }
                let mut command = Command::new(tool);
                command.args(words).arg(&kept).current_dir(dir.path());
                if tool == "objcopy" {
                    command.arg("changed");
                }
                must(&mut command);
                answers("changed");
                // patchelf moves sections.
                if tool != "patchelf" {
                    assert_eq!(
                        notes(dir.path(), "changed"),
                        notes(dir.path(), &kept),
                        "{name}: {tool} changed the notes"
                    );
                }
                let (status, out, _) = text(&tool_in(dir.path(), &["verify", "changed"]));
                assert_eq!(status, 0, "{name}: {tool}: {out}");
                let held = |file: &str| extracted(&at(file));
                assert!(held("changed") == held(&kept), "{name}: {tool} changed the code objects");
            }
        }
    }
}

/// What follows a program may be found by its offset, so it stays there.
#[test]
fn data_after_a_program_stays_at_its_offset() {
    let dir = memory_directory();
    let at = |name: &str| dir.path().join(name);
    let code = vec![1; 200_000];
    let bundle =
        formats::binary(&[("host-x86_64-unknown-linux-gnu", &b""[..]), ("hip-amdgcn-amd-amdhsa--gfx906", &code)], 4096);
    fs::write(at("bundle"), bundle).unwrap();
    for (name, source) in [("library.c", LIBRARY), ("program.c", PROGRAM)] {
        fs::write(at(name), source).unwrap();
    }
    must(Command::new("cc").args(["program.c", "library.c", "-o", "program"]).current_dir(dir.path()));
    let program = fs::read(at("program")).unwrap();
    let zip = zip(&[Zipped::new("text", 0, b"text")]);
    for (data, is_shorter) in [(&zip[..], false), (b"image", false), (&[0; 100][..], true), (b"", true)] {
        fs::write(at("program"), [&program, data].concat()).unwrap();
        let (status, _, said) = text(&tool_in(dir.path(), &["recompress", "program", "-o", "new"]));
        assert_eq!((status, said.contains(" shorter\n")), (0, is_shorter), "{said}");
        let new = fs::read(at("new")).unwrap();
        assert!(new.ends_with(data) && (new.len() == program.len() + data.len()) != is_shorter, "{said}");
        must(Command::new("chmod").args(["+x", "new"]).current_dir(dir.path()));
        assert_eq!(run(dir.path(), &["new"]).0, Some(1), "the bundles are compressed");
    }
}

/// The code objects in a file.
fn extracted(file: &Path) -> Vec<Vec<u8>> {
    built::extracted(file, &[])
}
