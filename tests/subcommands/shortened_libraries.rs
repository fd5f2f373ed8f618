//! Libraries and programs after `recompress`: `strip` and other tools take them, before and after. Libraries that
//! become shorter load the same bytes, and all comes back. Programs keep their offsets.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::*;
use crate::lists::{half_of, sample};
use crate::machine::{memory_directory, skip_unless, skipped};
use crate::properties;
use crate::properties::make::{DEFLATED, STORED, Zipped, zip};
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
    const char *bundle = wrappers[index].bundle;
    if (strncmp(bundle, "__CLANG_OFFLOAD_BUNDLE__", 24) != 0 && strncmp(bundle, "CCOB", 4) != 0) return 1;
  }
  for (unsigned index = 0; index < sizeof zeros; ++index) sum += zeros[index];
  /* All addresses of the section can be read, also those of gaps. */
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
    if words.iter().any(|word| word.contains("lib-musl")) {
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
        let (hole, said) = recompressed(dir, &name, "hole", &["--none", "--keep=gfx90a"]);
        assert_eq!(hole.len(), before.len());
        let note = format!("stays a hole in {name}: strip, objcopy or patchelf may still change it; --close-gaps ");
        assert!(said.contains(&note), "{said}");
        let kept = format!("new-{name}");
        let (after, said) = recompressed(dir, &name, &kept, &["--none", "--keep=gfx90a", "--close-gaps"]);
        assert!(before.len() - after.len() > 250_000 && said.contains(" shorter\n"), "{name}: {said}");
        assert_answers(dir, loader, &kept);
        assert_sound(dir, &kept);
        // Written again, it stays short.
        assert!(recompressed(dir, &kept, "again", &["--none"]).0 == after, "{name}");
        assert!(recompressed(dir, "hole", "again", &["--none", "--close-gaps"]).0 == after, "{name}");
        recompressed(dir, &name, "small", &["--level=1", "--close-gaps"]);
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
        let (after, said) = recompressed(dir, &name, "kept", &["--none", "--keep=gfx90a", "--close-gaps"]);
        assert_eq!(after.len(), before.len(), "{name}");
        let note = format!("stays a hole in {name}: Linux before 5.18 would not find the headers of a shorter ELF");
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
        ("llvm-objcopy-22", &["--strip-debug"]),
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

/// Libraries that other tools changed become shorter and come back as others do.
#[test]
fn libraries_changed_by_other_tools_become_shorter() {
    let dir = sources();
    let dir = dir.path();
    for (name, loader) in libraries(dir) {
        recompressed(dir, &name, "kept", &["--none", "--keep=gfx90a"]);
        recompressed(dir, &name, "small", &["--level=1", "--close-gaps"]);
        let code = extracted(&dir.join("kept"));
        for tool in tools() {
            let what = format!("{name}: {}", tool.name);
            assert!(tool.run(dir, &name, "changed"), "{what}");
            let changed = fs::read(dir.join("changed")).unwrap();
            let short = format!("short-{name}");
            let (after, said) = recompressed(dir, "changed", &short, &["--none", "--keep=gfx90a", "--close-gaps"]);
            assert!(after.len() + 200_000 < changed.len() && said.contains(" shorter\n"), "{what}: {said}");
            assert_answers(dir, loader, &short);
            assert_sound(dir, &short);
            assert!(extracted(&dir.join(&short)) == code, "{what}");
            recompressed(dir, "changed", "small-changed", &["--level=1", "--close-gaps"]);
            let (back, _) = recompressed(dir, "small-changed", "back-changed", &["--none"]);
            assert!(back == changed, "{what}: other bytes come back");
            // After another tool, the library cannot get its old length back.
            assert!(tool.run(dir, "small", "changed"), "{what}");
            let (status, _, said) = text(&tool_in(dir, &["recompress", "changed", "-o", "back", "--none"]));
            let note = match status {
                0 => "another tool has rewritten it since recompress did",
                _ => "another tool has changed the file since",
            };
            assert!(said.contains(note), "{what}: {said}");
        }
    }
}

/// A library with a hole, as a build leaves it, loses the hole when its wheel is recompressed.
#[test]
fn holes_of_libraries_are_closed_in_wheels() {
    let dir = sources();
    let dir = dir.path();
    must(Command::new("cc").args(["-shared", "-fPIC", "library.c", "-o", "library"]).current_dir(dir));
    let (hole, _) = recompressed(dir, "library", "hole", &[]);
    let (closed, _) = recompressed(dir, "library", "closed", &["--close-gaps"]);
    assert!(closed.len() + 200_000 < hole.len());
    for method in [STORED, DEFLATED] {
        fs::write(dir.join("in.whl"), zip(&[Zipped::new("library", method, &hole)])).unwrap();
        let (wheel, said) = recompressed(dir, "in.whl", "out.whl", &[]);
        assert!(super::wheel::contents(&wheel) == [("library".to_owned(), closed.clone())], "{method}: {said}");
        assert!(!said.contains("hole"), "{said}");
    }
}

/// Libraries of three linkers, for sequences of tools.
fn linked(dir: &Path) -> Vec<String> {
    const TEST: &str = "libraries of gold and lld";
    let clang = llvm(TEST, "clang").filter(|_| llvm(TEST, "ld.lld").is_some());
    let gold = has("ld.gold");
    let mut linked = Vec::new();
    for (index, (linker, words)) in [
        ("bfd", &["-g"][..]),
        ("bfd", &["-Wl,-z,max-page-size=0x200000", "-Wl,-z,noseparate-code", "-Wl,-z,norelro"]),
        ("bfd", &["-Wl,-z,max-page-size=0x10000", "-Wl,--hash-style=sysv", "-Wl,-z,now", "-s"]),
        ("gold", &["-g", "-Wl,--hash-style=both"]),
        ("gold", &["-Wl,-z,max-page-size=0x1000", "-Wl,--build-id=none"]),
        ("lld", &["-g"]),
        ("lld", &["-Wl,-z,separate-code", "-Wl,--hash-style=gnu", "-Wl,-z,norelro"]),
        ("lld", &["-Wl,--no-rosegment", "-Wl,-z,max-page-size=0x10000", "-Wl,-rpath,/opt/rocm/lib"]),
    ]
    .into_iter()
    .enumerate()
    {
        let mut command = match (linker, &clang) {
            ("lld", Some(clang)) => Command::new(clang),
            ("lld", None) => continue,
            ("gold", _) if !gold => continue,
            _ => Command::new("cc"),
        };
        let name = format!("{linker}-{index}.so");
        let linker = format!("-fuse-ld={linker}");
        must(command.args(["-shared", "-fPIC", &linker, "library.c", "-o", &name]).args(words).current_dir(dir));
        linked.push(name);
    }
    linked
}

/// Runs tools on a library, one after another, with `recompress` after the first `before` of them if it has options.
/// Writes the result to `changed`. Returns whether all tools took the library.
fn change(dir: &Path, library: &str, tools: &[&Tool], recompress: Option<(usize, &[&str])>) -> bool {
    fs::copy(dir.join(library), dir.join("changed")).unwrap();
    for step in 0..=tools.len() {
        if let Some((before, options)) = recompress
            && before == step
        {
            recompressed(dir, "changed", "changed", options);
        }
        if let Some(tool) = tools.get(step) {
            if !tool.run(dir, "changed", "next") {
                return false;
            }
            fs::rename(dir.join("next"), dir.join("changed")).unwrap();
        }
    }
    true
}

/// Up to six tools change a library, and `recompress` runs before, between or after them. The library loads and holds
/// the same code wherever it does without `recompress`.
#[test]
fn libraries_survive_all_that_they_would_survive_without_recompress() {
    let dir = sources();
    let dir = dir.path();
    let (libraries, tools) = (linked(dir), tools());
    compilers(dir);
    let mut random = harness::Random::new(56);
    let named = |part: &str| tools.iter().find(|tool| tool.name.contains(part));
    // After these, libraries without their gaps do not load.
    let known: Vec<&Tool> = ["add-needed", "set-rpath", "strip"].into_iter().filter_map(named).collect();
    let mut sequences = vec![(0, known, 0)];
    sequences.extend(sample((0..300).collect(), 30).into_iter().map(|_: usize| {
        let steps: Vec<&Tool> = (0..=random.below(6)).map(|_| &tools[random.below(tools.len())]).collect();
        let before = random.below(steps.len() + 1);
        (random.below(libraries.len()), steps, before)
    }));
    let mut tried = 0;
    for (index, (library, steps, before)) in sequences.iter().enumerate() {
        let library = &libraries[*library];
        let names: Vec<&str> = steps.iter().map(|tool| tool.name.as_str()).collect();
        let what = format!("{library}: {names:?}, recompress after {before}");
        // Some sequences break a library, and some only until another tool mends it.
        let loads =
            |steps: &[&Tool]| change(dir, library, steps, None) && run(dir, &["loader", "./changed"]).0 == Some(0);
        if !loads(&steps[..*before]) || !loads(steps) {
            continue;
        }
        tried += 1;
        let options = [&[][..], &["--level=19"], &["--none", "--keep=gfx90a"]][index % 3];
        let selected = if options.len() == 2 { &["--target=gfx90a"][..] } else { &[] };
        let code = against_llvm::extracted(&dir.join("changed"), selected);
        assert!(change(dir, library, steps, Some((*before, options))), "{what}");
        assert_answers(dir, "loader", "changed");
        assert_sound(dir, "changed");
        assert!(extracted(&dir.join("changed")) == code, "{what}");
    }
    assert!(tried > sequences.len() / 2, "{tried} of {}", sequences.len());
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
        let (_, said) = recompressed(dir, "library", "small", &["--close-gaps"]);
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
        let (small, said) = recompressed(dir, "library", "small", &["--level=1", "--close-gaps"]);
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
    let (_, said) = recompressed(dir.path(), "library", "small", &["--level=1", "--close-gaps"]);
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
        let (new, said) = recompressed(dir.path(), "library", "new", &["--close-gaps"]);
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
