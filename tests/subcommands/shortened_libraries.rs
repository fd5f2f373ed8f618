//! Libraries that `recompress` makes shorter: loaders, `strip` and other tools take them, the same bytes are loaded,
//! and all comes back. Programs keep their offsets.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::*;
use crate::lists::half_of;
use crate::machine::{memory_directory, skip_unless, skipped};
use crate::properties;
use crate::properties::make::{Zipped, zip};
use crate::reference::formats;

/// Three bundles in one section, with data before and after it. `dump` prints all bytes that are loaded from host
/// sections.
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
    // Read-only memory without bytes in the file gets the file's next bytes from musl; there may be none.
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
        skipped(&format!("{tool} is not installed: shorter libraries"), Some("packages"));
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

/// A directory with the sources, and the bundle that they include.
fn sources() -> tempfile::TempDir {
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
    dir
}

/// Compilers, and the loaders that they made.
fn compilers(dir: &Path) -> Vec<(&'static str, &'static str)> {
    let mut compilers = vec![("cc", "loader")];
    compilers.extend(has("musl-gcc").then_some(("musl-gcc", "musl-loader")));
    for (compiler, loader) in &compilers {
        must(Command::new(compiler).args(["loader.c", "-o", loader, "-ldl"]).current_dir(dir));
    }
    compilers
}

/// Libraries, each with the program that loads it.
fn libraries(dir: &Path) -> Vec<(String, &'static str)> {
    let mut libraries = Vec::new();
    for (compiler, loader) in compilers(dir) {
        let name = format!("lib-{compiler}.so");
        must(Command::new(compiler).args(["-shared", "-fPIC", "-g", "library.c", "-o", &name]).current_dir(dir));
        libraries.push((name, loader));
    }
    // As old linkers align segments.
    let pages = "-Wl,-z,max-page-size=0x200000";
    let words = ["-shared", "-fPIC", pages, "-Wl,-z,noseparate-code", "library.c", "-o", "large-pages.so"];
    must(Command::new("cc").args(words).current_dir(dir));
    libraries.push(("large-pages.so".to_owned(), "loader"));
    libraries
}

/// Recompresses a file, which must succeed. Returns the new bytes and the messages.
fn recompressed(dir: &Path, from: &str, to: &str, options: &[&str]) -> (Vec<u8>, String) {
    let (status, _, said) = text(&tool_in(dir, &[&["recompress", from, "-o", to], options].concat()));
    assert_eq!(status, 0, "{from} {options:?}: {said}");
    (fs::read(dir.join(to)).unwrap(), said)
}

fn assert_answers(dir: &Path, loader: &str, library: &str) {
    let here = format!("./{library}");
    assert_eq!(run(dir, &[loader, &here]), (Some(0), "constant\n".to_owned()), "{library}");
}

fn assert_sound(dir: &Path, name: &str) {
    let (status, out, said) = text(&tool_in(dir, &["verify", name]));
    assert_eq!((status, said.as_str()), (0, ""), "{name}: {out}");
}

#[test]
fn shortened_libraries_are_loaded_as_before_and_come_back() {
    let dir = sources();
    let dir = dir.path();
    let lints = has("eu-elflint");
    for (name, loader) in libraries(dir) {
        assert_answers(dir, loader, &name);
        let before = fs::read(dir.join(&name)).unwrap();
        let (hole, said) = recompressed(dir, &name, "hole", &["--none", "--keep=gfx90a", "--keep-offsets"]);
        assert_eq!(hole.len(), before.len());
        assert!(said.contains("all offsets are kept\n"), "{said}");
        let kept = format!("new-{name}");
        let (after, said) = recompressed(dir, &name, &kept, &["--none", "--keep=gfx90a"]);
        assert!(before.len() - after.len() > 250_000 && said.contains(" shorter\n"), "{name}: {said}");
        assert_answers(dir, loader, &kept);
        assert_sound(dir, &kept);
        // Made shorter again, it is the same.
        assert!(recompressed(dir, &kept, "again", &["--none"]).0 == after, "{name}");
        recompressed(dir, &name, "small", &["--level=1"]);
        let (back, _) = recompressed(dir, "small", "back", &["--none"]);
        assert!(back == before, "{name}: other bytes come back");
        if lints {
            let (old, new) = (complaints(dir, &name), complaints(dir, &kept));
            // eu-elflint looks for the segment of `.bss` by its offset alone.
            let is_new = |line: &&String| !old.contains(line) && !line.contains("'.bss' not fully contained");
            let new: Vec<&String> = new.iter().filter(is_new).filter(|line| *line != "No errors").collect();
            assert!(new.is_empty(), "{name}: {new:?}");
        }
    }
}

/// `strip` and `objcopy` put the headers of a program where loaders do not find them in a shorter one.
#[test]
fn programs_keep_their_offsets_and_run_after_other_tools() {
    let dir = sources();
    let dir = dir.path();
    let mut programs = Vec::new();
    for (compiler, _) in compilers(dir) {
        for (kind, options) in [("pie", &["-pie", "-fPIE"][..]), ("fixed", &["-no-pie"]), ("static", &["-static"])] {
            programs.push((format!("{kind}-{compiler}"), compiler, options));
        }
    }
    programs.push(("static-pie".to_owned(), "cc", &["-static-pie", "-fPIE"]));
    // A library that can be run as a program, as libc.so can.
    programs.push(("interpreted.so".to_owned(), "cc", &["-shared", "-fPIC", "-Wl,-e,main", "-DLIBRARY"]));
    fs::write(
        dir.join("program.c"),
        format!(
            "#ifdef LIBRARY\nconst char interpreter[] __attribute__((section(\".interp\"))) = \"/lib64/ld-linux-x86-64.so.2\";\n#endif\n{PROGRAM}"
        ),
    )
    .unwrap();
    for (name, compiler, options) in programs {
        let words = [options, &["-g", "program.c", "library.c", "-o", &name]].concat();
        must(Command::new(compiler).args(words).current_dir(dir));
        let before = fs::read(dir.join(&name)).unwrap();
        let (after, said) = recompressed(dir, &name, "kept", &["--none", "--keep=gfx90a"]);
        assert_eq!(after.len(), before.len(), "{name}");
        let note = format!("stays a hole in {name}: an ELF program keeps its offsets");
        assert!(said.contains(&note), "{said}");
        recompressed(dir, &name, "small", &["--level=1"]);
        let (back, _) = recompressed(dir, "small", "back", &["--none"]);
        assert!(back == before, "{name}: other bytes come back");
        for tool in tools() {
            // llvm-strip refuses static programs of GNU ld, and patchelf before 0.18 breaks them.
            let is_static = name.contains("static");
            if name == "interpreted.so" || is_static && tool.is_patchelf || !tool.run(dir, &name, "changed") {
                continue;
            }
            assert!(tool.run(dir, "kept", "changed"), "{name}: {}", tool.name);
            assert_eq!(run(dir, &["changed"]), (Some(0), "constant\n".to_owned()), "{name}: {}", tool.name);
            assert!(extracted(&dir.join("changed")) == extracted(&dir.join("kept")), "{name}: {}", tool.name);
        }
    }
}

/// A tool that changes libraries.
struct Tool {
    name: String,
    program: PathBuf,
    words: &'static [&'static str],
    is_patchelf: bool,
}

impl Tool {
    /// Writes a changed file. Returns whether the tool takes such files.
    fn run(&self, dir: &Path, from: &str, to: &str) -> bool {
        let mut command = Command::new(&self.program);
        command.current_dir(dir).args(self.words);
        match self.is_patchelf {
            true => command.args(["--output", to, from]),
            false if self.name.contains("strip") && !self.name.contains("objcopy") => command.args(["-o", to, from]),
            false => command.args([from, to]),
        };
        command.output().unwrap().status.success()
    }
}

/// The tools that are installed. patchelf has the releases of `.ci/patchelf-*.txt`, and Debian's.
fn tools() -> Vec<Tool> {
    let mut tools = Vec::new();
    for (program, words) in [
        ("strip", &[][..]),
        ("llvm-strip-22", &[]),
        ("objcopy", &["--strip-debug"]),
        ("objcopy", &["--add-section=.added=bundle"]),
    ] {
        if has(program) {
            let name = [program, &words.concat()].concat();
            tools.push(Tool { name, program: program.into(), words, is_patchelf: false });
        }
    }
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/patchelf");
    let releases = ["0.17", "0.19"].map(|release| installed.join(release).join("bin/patchelf"));
    for program in releases.into_iter().chain([PathBuf::from("patchelf")]) {
        if Command::new(&program).arg("--version").output().is_err() {
            let what = format!("{} is not installed", program.display());
            skip_unless("OFFLOAD_REQUIRE_PATCHELF", "libraries that patchelf changes", &what);
            continue;
        }
        let options: [&[&str]; 3] = [
            &["--set-rpath", "/a/long/path/that/needs/more/room"],
            &["--set-soname", "a-long-name-that-needs-more-room.so.1"],
            &["--add-needed", "libm.so.6"],
        ];
        for words in options {
            let name = format!("{} {}", program.display(), words[0]);
            tools.push(Tool { name, program: program.clone(), words, is_patchelf: true });
        }
    }
    tools
}

/// Libraries load and hold the same code, whether another tool changed them before or after they became shorter.
#[test]
fn libraries_changed_by_other_tools_before_or_after_still_load() {
    let dir = sources();
    let dir = dir.path();
    for (name, loader) in libraries(dir) {
        recompressed(dir, &name, "kept", &["--none", "--keep=gfx90a"]);
        recompressed(dir, &name, "small", &["--level=1"]);
        let (code, all) = (extracted(&dir.join("kept")), extracted(&dir.join(&name)));
        for tool in tools() {
            let what = format!("{name}: {}", tool.name);
            // After.
            assert!(tool.run(dir, "kept", "changed"), "{what}");
            assert_answers(dir, loader, "changed");
            assert_sound(dir, "changed");
            assert!(extracted(&dir.join("changed")) == code, "{what}");
            // patchelf moves sections.
            if !tool.is_patchelf {
                assert_eq!(notes(dir, "changed"), notes(dir, "kept"), "{what}");
            }
            assert!(tool.run(dir, "small", "changed"), "{what}");
            let (status, _, said) = text(&tool_in(dir, &["recompress", "changed", "-o", "back-changed", "--none"]));
            match status {
                0 => {
                    assert_answers(dir, loader, "back-changed");
                    assert!(extracted(&dir.join("back-changed")) == all, "{what}");
                    assert!(said.contains("another tool has rewritten it since recompress did"), "{what}: {said}");
                }
                _ => assert!(said.contains("another tool has changed the file since"), "{what}: {said}"),
            }
            // Before.
            assert!(tool.run(dir, &name, "changed"), "{what}");
            let changed = fs::read(dir.join("changed")).unwrap();
            let (short, said) = recompressed(dir, "changed", "short-changed", &["--none", "--keep=gfx90a"]);
            assert!(short.len() + 200_000 < changed.len() && said.contains(" shorter\n"), "{what}: {said}");
            assert_answers(dir, loader, "short-changed");
            assert_sound(dir, "short-changed");
            assert!(extracted(&dir.join("short-changed")) == code, "{what}");
            recompressed(dir, "changed", "small-changed", &["--level=1"]);
            let (back, _) = recompressed(dir, "small-changed", "back-changed", &["--none"]);
            assert!(back == changed, "{what}: other bytes come back");
        }
    }
}

/// A text bundle ends with its section.
#[test]
fn a_text_bundle_after_others_comes_back() {
    let dir = sources();
    let dir = dir.path();
    let text = long_text_bundle();
    let bundle = fs::read(dir.join("bundle")).unwrap();
    for zeros in [0, 100] {
        fs::write(dir.join("section"), [&bundle[..], &text, &vec![0; zeros]].concat()).unwrap();
        let source =
            "__asm__(\".section .hip_fatbin,\\\"a\\\"\\n.p2align 12\\n.incbin \\\"section\\\"\\n.text\"); int x = 1;";
        fs::write(dir.join("text.c"), source).unwrap();
        must(Command::new("cc").args(["-shared", "-fPIC", "text.c", "-o", "library"]).current_dir(dir));
        let before = fs::read(dir.join("library")).unwrap();
        let (_, said) = recompressed(dir, "library", "small", &[]);
        assert!(said.starts_with("2 bundles: ") && said.contains(" shorter\n"), "{said}");
        assert!(recompressed(dir, "small", "back", &["--none"]).0 == before, "{zeros} zeros");
    }
}

/// Linked so, the first segment does not begin with the file header.
#[test]
fn libraries_without_headers_in_a_segment_keep_their_offsets() {
    let dir = sources();
    let dir = dir.path();
    for option in ["-Wl,-n", "-Wl,-N"] {
        must(
            Command::new("cc")
                .args(["-shared", "-fPIC", "-nostdlib", option, "library.c", "-o", "library"])
                .current_dir(dir),
        );
        let before = fs::read(dir.join("library")).unwrap();
        let (small, said) = recompressed(dir, "library", "small", &["--level=1"]);
        assert!(small.len() == before.len() && said.contains(" in library: its "), "{said}");
        assert!(recompressed(dir, "small", "back", &["--none"]).0 == before, "{option}");
    }
}

/// Changed in one number each, files with holes to take out still come back, or nothing is written.
#[test]
fn files_with_a_changed_number_come_back_or_are_refused() {
    let dir = memory_directory();
    let at = |name: &str| dir.path().join(name);
    let noise: Vec<u8> =
        (0..3000_u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0]).collect();
    let code = [vec![7; 14_000], noise].concat();
    let bundle = formats::binary(&[(HOST, &b""[..]), (GFX906, &code), (GFX90A, &code[..9000])], 4096);
    fs::write(at("bundle"), bundle).unwrap();
    fs::write(at("library.c"), LIBRARY).unwrap();
    let words = ["-shared", "-fPIC", "-s", "-Wl,-z,noseparate-code", "library.c", "-o", "library"];
    must(Command::new("cc").args(words).current_dir(dir.path()));
    let mut samples = vec![fs::read(at("library")).unwrap()];
    let (_, said) = recompressed(dir.path(), "library", "small", &["--level=1"]);
    assert!(said.contains(" shorter\n"), "{said}");
    let mut random = harness::Random::new(5);
    samples.extend((0..2).map(|_| super::pe::library(&mut random)));
    for sample in samples {
        properties::comes_back(&sample);
        let places = numbers(&sample);
        for &place in &half_of(places.into_iter().step_by(41).collect()) {
            let mut changed = sample.clone();
            changed[place] = match random.below(5) {
                0 => 0,
                1 => 0xff,
                2 => changed[place].wrapping_add(1),
                3 => changed[place] ^ 0x10,
                _ => random.bytes(1)[0],
            };
            let result = std::panic::catch_unwind(|| properties::comes_back(&changed));
            assert!(result.is_ok(), "byte {place:#x}: {:#x} instead of {:#x}", changed[place], sample[place]);
        }
    }
}

/// The offsets of bytes in headers, tables, wrappers, the starts of bundles and after them.
fn numbers(data: &[u8]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..0x400).collect();
    for magic in [&b"__CLANG_OFFLOAD_BUNDLE__"[..], b"FPIH", b"\x50\xed\x55\xba", b".shstrtab"] {
        for start in memchr::memmem::find_iter(data, magic) {
            places.extend((start.saturating_sub(2)..start + 100).step_by(3));
        }
    }
    if data.starts_with(b"\x7fELF") {
        let sections = usize::try_from(u64::from_le_bytes(data[40..48].try_into().unwrap())).unwrap();
        places.extend((sections..data.len()).step_by(2));
    }
    places.retain(|place| *place < data.len());
    places
}

/// Programs may find data after a library by its offset, so it stays there.
#[test]
fn data_after_a_library_stays_at_its_offset() {
    let dir = memory_directory();
    let at = |name: &str| dir.path().join(name);
    let code = vec![1; 200_000];
    let bundle =
        formats::binary(&[("host-x86_64-unknown-linux-gnu", &b""[..]), ("hip-amdgcn-amd-amdhsa--gfx906", &code)], 4096);
    fs::write(at("bundle"), bundle).unwrap();
    fs::write(at("library.c"), LIBRARY).unwrap();
    must(Command::new("cc").args(["-shared", "-fPIC", "library.c", "-o", "library"]).current_dir(dir.path()));
    let library = fs::read(at("library")).unwrap();
    let zip = zip(&[Zipped::new("text", 0, b"text")]);
    for (data, is_shorter) in [(&zip[..], false), (b"image", false), (&[0; 100][..], true), (b"", true)] {
        fs::write(at("library"), [&library, data].concat()).unwrap();
        let (new, said) = recompressed(dir.path(), "library", "new", &[]);
        assert_eq!(said.contains(" shorter\n"), is_shorter, "{said}");
        assert_eq!(said.contains(" in library: other data follows the file's own\n"), !is_shorter, "{said}");
        assert!(is_shorter || new.ends_with(data) && new.len() == library.len() + data.len(), "{said}");
        let (back, _) = recompressed(dir.path(), "new", "back", &["--none"]);
        assert!(back == [&library, data].concat(), "{said}");
    }
}

/// The code objects in a file.
fn extracted(file: &Path) -> Vec<Vec<u8>> {
    against_llvm::extracted(file, &[])
}
