//! What subcommands print of names from files and command lines: no terminal interprets it, no CI system finds a
//! command in it, and JSON stays JSON. Names are in every place that a format has for them, and in every text of the
//! samples.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::process::Command;

use crate::lists::{sample, share_out};
use crate::machine::{executable, loud, memory_directory};
use crate::properties::code_objects::{Kernel, amd, cubin};
use crate::properties::fatbins::{self, Code};
use crate::properties::kpacks::{self, Scheme};
use crate::properties::make::{self, DEFLATED, Elf, STORED, Section, Zipped, coff, pe, zip};
use crate::properties::syclbins::{self, Part};
use crate::properties::{images, packages};
use crate::reference::offload::{self, Image};
use crate::reference::{formats, harness};
use crate::subcommands::hostile::samples;

/// Names with everything that a terminal, a line or a CI system gives a meaning to.
const NAMES: [&[u8]; 10] = [
    b"::error::name",
    b" \t::warning::name",
    b"a\n::error::name",
    b"a\r\n::error file=a::name",
    b"\x1b[2J\x1b]0;title\x07\x1b[31m",
    "\u{9b}31m\u{202e}cod\u{200f}\u{61c}\u{2066}".as_bytes(),
    b"\xff\x9b\n::error::\xc3",
    b"##[error]name##vso[task.setvariable variable=a]b",
    b"\x7f\x08\x08</text><script>&\"'\0\x0c\x0b",
    b"%0A::error::%1b[31m\\n",
];

/// The command lines, with the input `F`, the hostile name `N` and files that are new.
const COMMAND_LINES: [&str; 50] = [
    "inspect F",
    "inspect . N",
    "inspect --each F",
    "inspect --each --uri F",
    "inspect --gpus F .",
    "inspect --summary F .",
    "inspect --matrix F .",
    "inspect --deep --inflate F",
    "inspect --each --markdown F",
    "inspect --matrix --markdown .",
    "inspect --markdown .",
    "inspect --each --color always F",
    "inspect --json F .",
    "inspect --json --matrix . N",
    "inspect --message-format json F N",
    "inspect F . --svg new",
    "verify F",
    "verify . N",
    "verify --expect gfx90a,sm_80 F",
    "verify --expect-any gfx90a -r .",
    "verify --expect-exactly MI300X --deep F",
    "verify --json F N",
    "verify --message-format json --expect gfx90a F N",
    "kernels F",
    "kernels --uri --markdown F .",
    "kernels --sort vgpr F .",
    "kernels --name N F",
    "kernels --fail-on spill,vgpr>1 F",
    "kernels --json --arguments F N",
    "kernels --message-format json --target N F",
    "extract -n F",
    "extract -n --json F N",
    "extract -n --target N F",
    "extract -n --as-runtime --target gfx90a F",
    "extract -n --message-format json --target gfx1 F",
    "diff F other",
    "diff other F --markdown",
    "diff . other --json",
    "diff other F --fail-on lost-gpu,size=1%",
    "diff F N --message-format json",
    "recompress F -o new",
    "recompress F -o new --keep N",
    "recompress F -o new --drop N --message-format json",
    "recompress F -o new --keep-for gfx90a --level 1",
    "recompress F -o new --keep-kernels names --allow-unused",
    "recompress F -o new --keep-kernels list",
    "replace F other -o new --message-format json",
    "replace F other -o new",
    "report F N -o new",
    "report --diff F other -o new",
];

/// The directory of runs, with an input.
struct Lab {
    dir: tempfile::TempDir,
    name: Vec<u8>,
    runs: usize,
}

impl Lab {
    fn new(name: &[u8]) -> Self {
        let dir = memory_directory();
        let other = formats::binary(&[("host-x86_64--", b""), ("hip-amdgcn-amd-amdhsa--gfx90a", b"other")], 1);
        fs::write(dir.path().join("other"), other).unwrap();
        fs::write(dir.path().join("list"), "kept").unwrap();
        fs::write(dir.path().join("names"), [b"kept\n", name].concat()).unwrap();
        Self { dir, name: name.to_vec(), runs: 0 }
    }

    /// Writes the input under the hostile name, with what a path cannot have left out. Returns the file name.
    fn input(&self, data: &[u8]) -> OsString {
        let plain: Vec<u8> = self.name.iter().copied().filter(|byte| !b"/\0".contains(byte)).collect();
        let file = OsString::from_vec(plain);
        fs::write(self.dir.path().join(&file), data).unwrap();
        file
    }

    fn run(&mut self, what: &str, line: &str, input: &OsStr) {
        let words = line.split(' ').map(|word| match word {
            "F" => input.to_owned(),
            "N" => OsString::from_vec(self.name.iter().copied().filter(|byte| *byte != 0).collect()),
            _ => word.into(),
        });
        let words: Vec<OsString> = words.collect();
        let output = Command::new(executable())
            .args(&words)
            .current_dir(self.dir.path())
            .env("LC_ALL", "C.UTF-8")
            .output()
            .unwrap();
        self.runs += 1;
        let what = format!("{line} on {what} with '{}'", self.name.escape_ascii());
        assert!(matches!(output.status.code(), Some(0..=2)), "{what}: {}", output.status);
        for printed in [&output.stdout, &output.stderr] {
            check_lines(&what, printed, line.contains("--color always"));
        }
        if line.contains("--json") && output.status.code() != Some(2) && !output.stdout.is_empty() {
            let document = serde_json::from_slice::<serde_json::Value>(&output.stdout);
            assert!(document.is_ok(), "{what}: {document:?}: {}", output.stdout.escape_ascii());
        }
        if line.contains("--message-format json") && output.status.code() != Some(2) {
            for message in output.stderr.split(|byte| *byte == b'\n').filter(|message| !message.is_empty()) {
                let parsed = serde_json::from_slice::<serde_json::Value>(message);
                assert!(parsed.is_ok(), "{what}: {}", message.escape_ascii());
            }
        }
        let new = self.dir.path().join("new");
        if let Ok(written) = fs::read(&new) {
            if !line.starts_with("re") || line.starts_with("report") {
                let text = text(&what, &written);
                assert!(!text.contains("</text><script>") && !text.contains("&\"'"), "{what}");
            }
            fs::remove_file(new).unwrap();
        }
    }

    /// Runs all command lines, or every `one_in`th.
    fn run_all(&mut self, what: &str, data: &[u8], one_in: usize, first: usize) {
        let input = self.input(data);
        for line in COMMAND_LINES.iter().skip(first % one_in).step_by(one_in) {
            self.run(what, line, &input);
        }
        fs::remove_file(self.dir.path().join(input)).unwrap();
    }
}

/// Returns the text that is printed, in which no terminal interprets anything.
fn text(what: &str, printed: &[u8]) -> String {
    let text = String::from_utf8(printed.to_vec()).unwrap_or_else(|_| panic!("{what}: {}", printed.escape_ascii()));
    let turns =
        |c: char| matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_plain = |c: char| matches!(c, '\n' | '\t') || !(c.is_control() || turns(c));
    assert!(text.chars().all(is_plain), "{what}: {}", printed.escape_ascii());
    text
}

/// Checks that every line is plain text for terminals and CI systems, besides the colours of tables.
fn check_lines(what: &str, printed: &[u8], has_colours: bool) {
    let mut printed = printed.to_vec();
    for code in ["0", "1", "2", "31", "32", "33", "36"].into_iter().filter(|_| has_colours) {
        printed = harness::replace(&printed, format!("\x1b[{code}m").as_bytes(), "\u{2592}".as_bytes());
    }
    for line in text(what, &printed).lines() {
        let is_command = line.trim_start().starts_with("::") || line.contains("##[") || line.contains("##vso[");
        assert!(!is_command, "{what}: {}", line.escape_debug());
    }
}

/// Files of every format with a name in every place that has one. They are written with a harmless name of the same
/// length, `p`.
fn files(p: &str) -> Vec<(&'static str, Vec<u8>)> {
    let id = |target: &str| format!("hip-amdgcn-amd-amdhsa--{target}");
    let code = amd(&[Kernel { vgpr_spills: 3, ..Kernel::named(p) }, Kernel::named(&format!("_Z3{p}v"))]);
    let ids = [
        id(p),
        id(&format!("gfx90a:{p}+")),
        p.to_owned(),
        format!("hip-{p}-amd-amdhsa--gfx90a"),
        format!("sycl-{p}--"),
    ];
    let kept = amd(&[Kernel::named("kept")]);
    let mut entries: Vec<(&str, &[u8])> = ids.iter().map(|id| (id.as_str(), &code[..])).collect();
    // Code that --keep-kernels keeps, so that the rest is left out and named.
    entries.push(("hip-amdgcn-amd-amdhsa--gfx1030", &kept));
    let bundle = formats::binary(&entries, 8);
    let image = |strings: &[(&str, &str)], kind| Image::new(kind, 4, strings, &code);
    let images_of_names =
        [image(&[("triple", p), ("arch", p), (p, p)], 1), image(&[("triple", "amdgcn-amd-amdhsa"), ("arch", p)], 2)];
    let binary = offload::write(2, &images_of_names);
    let ptx = format!(
        ".version 8.0\n.target {p}\n.address_size 64\n.visible .entry {p}(\n.param .u64 {p}\n)\n{{\nret;\n}}\n"
    );
    let fat = format!("__CLANG_OFFLOAD_BUNDLE__{}", id(p));
    let mut cuda = Code::cubin(80, 3).with_source(p);
    cuda.options = Some(p.into());
    let codes = vec![kpacks::Code::new(p, "gfx90a", &code), kpacks::Code::new("b", p, &code)];
    let mut kpack = kpacks::Archive::new(p, Scheme::None, codes);
    kpack.arches.push(p.to_owned());
    let split = kpacks::reference(&[p, "@GFXARCH@.kpack"], p);
    let native = images::zebin(images::PVC, b"code");
    let parts =
        [Part::new(0, p, None, &images::spirv(5, 0)), Part::new(0, "spir64_gen-unknown-unknown", Some(p), &native)];
    let module = images::Image::new(&images::spirv(2, 3));
    let files = [packages::File::new(p, &bundle), packages::File::new("b", b"")];
    let member = [Zipped::new(p, STORED, &bundle), Zipped::new(&format!("{p}/b"), DEFLATED, &bundle)];
    let wheel = [
        Zipped::new("a.so", STORED, &bundle),
        Zipped::new(&format!("a-1.dist-info/{p}"), STORED, p.as_bytes()),
        Zipped::new("a-1.dist-info/RECORD", STORED, format!("{p},,\n").as_bytes()),
    ];
    vec![
        ("a bundle", bundle.clone()),
        ("a text bundle", formats::text("#", &[(&id(p), b"a\n"), (p, b"b")])),
        ("an offload binary", binary.clone()),
        ("an archive", make::archive(&[("a.o", &bundle), (p, &bundle)])),
        ("a thin archive", make::thin_archive(&[(p, 5)])),
        ("a package of Debian", make::archive(&[("debian-binary", b"2.0\n"), ("data.tar", &packages::tar(&files))])),
        ("tar", packages::tar(&files)),
        ("cpio", packages::cpio(&files)),
        ("zip", zip(&member)),
        ("wheel", zip(&wheel)),
        (
            "ELF",
            Elf::LIBRARY.write(&[
                Section::new(".hip_fatbin", &bundle),
                Section::new(p, &bundle),
                Section::new(p, &binary).offloading(),
            ]),
        ),
        ("fat object", Elf::OBJECT.write(&[Section::new(&fat, &code), Section::new(p, &code)])),
        ("COFF", coff(&[(&fat, &code), (p, &bundle), (".llvm.offloading", &binary)])),
        ("PE", pe(&[(".hip_fat", &bundle)])),
        ("AMD code object", code.clone()),
        ("cubin", cubin(&[Kernel::named(p)])),
        ("PTX", ptx.clone().into_bytes()),
        (
            "fatbin",
            fatbins::fatbin(&[fatbins::entry(&cuda), fatbins::entry(&Code::new(1, 80, ptx.as_bytes()).with_source(p))]),
        ),
        ("kpack archive", kpack.write()),
        ("split library", crate::kpack::tree::program(&split, 2)),
        ("SYCLBIN file", syclbins::version_2(&parts)),
        (
            "device images",
            images::Program::new(&[
                (p, std::slice::from_ref(&module)),
                ("OFFLOAD_DEVICE_CODE", std::slice::from_ref(&module)),
            ])
            .write(),
        ),
    ]
}

#[test]
fn no_subcommand_prints_a_name_that_anything_interprets() {
    let cases: Vec<(usize, &[u8], usize)> =
        NAMES.iter().enumerate().flat_map(|(at, name)| (0..22).map(move |file| (at, *name, file))).collect();
    let cases = sample(cases, 66);
    let runs = share_out(cases, |cases| {
        let mut runs = 0;
        for (at, name, file) in cases {
            let p = "Zq".repeat(name.len())[..name.len()].to_owned();
            let (what, data) = files(&p).swap_remove(file);
            let mut lab = Lab::new(name);
            lab.run_all(what, &harness::replace(&data, p.as_bytes(), name), 4, at + file);
            runs += lab.runs;
        }
        runs
    });
    loud(&format!("hostile names in every place: {} command lines", runs.iter().sum::<usize>()));
}

/// The texts of a file: runs of printable characters.
fn texts(data: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut texts = Vec::new();
    let mut start = 0;
    for at in 0..=data.len() {
        if !data.get(at).is_some_and(|byte| matches!(byte, b' '..=b'~')) {
            if at - start >= 6 {
                texts.push(start..at);
            }
            start = at + 1;
        }
    }
    texts
}

#[test]
fn no_text_of_a_sample_is_printed_as_it_is() {
    let mut random = harness::Random::new(23);
    let mut cases = Vec::new();
    let fixtures =
        ["kernels/llvm22-gfx90a.elf", "kernels/ptxas13-sm_80.cubin", "kernels/three.ptx", "offload/llvm22-embedded.o"];
    let fixtures = fixtures
        .map(|name| (name, fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)).unwrap()));
    for (what, data) in samples().into_iter().chain(fixtures) {
        let long: Vec<_> = texts(&data);
        for text in sample(long, 12) {
            let name = NAMES[random.below(NAMES.len())];
            let mut changed = data.clone();
            // The name comes at the beginning or the end of the text, which keeps the rest.
            let len = name.len().min(text.len());
            let at = if random.below(2) == 0 { text.start } else { text.end - len };
            changed[at..at + len].copy_from_slice(&name[..len]);
            cases.push((what, name, changed, random.below(16)));
        }
    }
    let cases = sample(cases, 100);
    let runs = share_out(cases, |cases| {
        let mut runs = 0;
        for (what, name, data, first) in cases {
            let mut lab = Lab::new(name);
            lab.run_all(what, &data, 10, first);
            runs += lab.runs;
        }
        runs
    });
    loud(&format!("hostile names in texts of samples: {} command lines", runs.iter().sum::<usize>()));
}

#[test]
fn words_of_the_command_line_are_never_obeyed() {
    let subcommands = [
        "inspect",
        "verify",
        "kernels",
        "extract",
        "diff",
        "recompress",
        "replace",
        "report",
        "man",
        "completions",
        "help",
    ];
    let mut lab = Lab::new(b"name");
    let input = lab.input(b"");
    for subcommand in subcommands {
        let help =
            Command::new(env!("CARGO_BIN_EXE_clang-offload-bundler")).args([subcommand, "--help"]).output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        let options: Vec<&str> = help
            .lines()
            .filter_map(|line| line.trim_start().split(' ').find(|word| word.starts_with("--")))
            .map(|option| option.trim_end_matches([',', '.']))
            .collect();
        for (at, option) in options.iter().filter(|option| **option != "--output").enumerate() {
            lab.name = NAMES[at % NAMES.len()].to_vec();
            lab.name.retain(|byte| *byte != 0);
            let name = OsStr::from_bytes(&lab.name).to_owned();
            let joined = [OsStr::new(option), OsStr::new("="), &name].iter().fold(OsString::new(), |mut all, part| {
                all.push(part);
                all
            });
            lab.run(&format!("{joined:?}"), &format!("{subcommand} F list list"), &joined);
            lab.run(&format!("{name:?}"), &format!("{subcommand} {option} F list"), &name);
        }
        for name in NAMES {
            lab.name = name.iter().copied().filter(|byte| *byte != 0).collect();
            let mut option = OsString::from("--");
            option.push(OsStr::from_bytes(&lab.name));
            lab.run("an unknown option", &format!("{subcommand} F list"), &option);
        }
    }
    drop(input);
}
