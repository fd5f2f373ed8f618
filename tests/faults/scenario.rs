//! The scenarios for fault injection: their inputs, existing files and outputs.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::kpack::tree;
use crate::machine::memory_directory;
use crate::properties::aks2s;
use crate::properties::fatbins::{self, Code};
use crate::properties::images::{self, Image, Program};
use crate::properties::kpacks::{self, Archive, Scheme};
use crate::properties::make::{DEFLATED, Elf, STORED, Section, Zipped, archive, pe, thin_archive, zip};
use crate::properties::packages;
use crate::properties::{hcfs, syclbins};

pub const OURS: &str = env!("CARGO_BIN_EXE_clang-offload-bundler");
pub const HOST: &str = "host-x86_64-unknown-linux-gnu-";
pub const GFX906: &str = "hip-amdgcn-amd-amdhsa--gfx906";
pub const GFX90A: &str = "hip-amdgcn-amd-amdhsa--gfx90a";

/// The content of an output before a run.
pub const OLD: &[u8] = b"the old content, which nobody may lose";

/// Files by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A run of the tool.
#[derive(Clone)]
pub struct Scenario {
    pub name: &'static str,
    pub arguments: Vec<String>,
    /// The inputs; their names begin with `input`.
    pub inputs: Files,
    /// The outputs that exist before the run.
    pub old: Vec<&'static str>,
    /// The input that is passed as standard input.
    pub stdin: Option<&'static str>,
    /// Whether standard input is a pipe, which cannot be mapped, instead of the file.
    pub is_piped: bool,
    /// The output that standard output is redirected to.
    pub stdout: Option<&'static str>,
    /// Whether a sample of the calls is enough.
    pub long: bool,
}

/// The directory of a scenario.
pub struct Place {
    _keep: tempfile::TempDir,
    pub work: PathBuf,
    pub temporary: PathBuf,
}

impl Place {
    /// Creates all files that the run needs.
    pub fn new(scenario: &Scenario) -> Self {
        let keep = memory_directory();
        let (work, temporary) = (keep.path().join("work"), keep.path().join("temporary"));
        fs::create_dir(&work).unwrap();
        fs::create_dir(&temporary).unwrap();
        for (name, content) in &scenario.inputs {
            fs::write(work.join(name), content).unwrap();
        }
        for name in &scenario.old {
            fs::write(work.join(name), OLD).unwrap();
            fs::set_permissions(work.join(name), fs::Permissions::from_mode(0o640)).unwrap();
        }
        Self { _keep: keep, work, temporary }
    }

    /// A command in the directory.
    pub fn command(&self, scenario: &Scenario, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.work).env("TMPDIR", &self.temporary).env_remove("RUST_BACKTRACE");
        command.stdin(match scenario.stdin {
            Some(name) if scenario.is_piped => piped(scenario.inputs[name].clone()),
            Some(name) => Stdio::from(fs::File::open(self.work.join(name)).unwrap()),
            None => Stdio::null(),
        });
        if let Some(name) = scenario.stdout {
            command.stdout(fs::OpenOptions::new().read(true).write(true).open(self.work.join(name)).unwrap());
        }
        command
    }

    /// The names of the files that the run creates.
    fn made_by(&self, scenario: &Scenario) -> Vec<String> {
        let run = self.command(scenario, Path::new(OURS)).args(&scenario.arguments).output().unwrap();
        assert!(run.status.success(), "{}: {}", scenario.name, String::from_utf8_lossy(&run.stderr));
        self.outputs(scenario).into_keys().collect()
    }

    /// The current files except the inputs.
    pub fn outputs(&self, scenario: &Scenario) -> Files {
        let entries = fs::read_dir(&self.work).unwrap().map(|entry| entry.unwrap());
        let name = |entry: &fs::DirEntry| entry.file_name().into_string().unwrap();
        let outputs = entries.filter(|entry| !scenario.inputs.contains_key(&name(entry)));
        outputs.map(|entry| (unnumbered(name(&entry)), unnumbered_list(fs::read(entry.path()).unwrap()))).collect()
    }

    /// Whether the directory for temporary files is empty.
    pub fn is_tidy(&self) -> bool {
        fs::read_dir(&self.temporary).unwrap().next().is_none()
    }
}

/// A name without the number that makes it new: 16 hexadecimal digits between a dash and a dot.
fn unnumbered(name: String) -> String {
    let number = name.rsplit_once('-').and_then(|(_, rest)| rest.split_once('.'));
    match number.filter(|(number, _)| number.len() == 16 && number.bytes().all(|digit| digit.is_ascii_hexdigit())) {
        Some((number, _)) => name.replace(number, "NUMBER"),
        None => name,
    }
}

/// A file; if it is a list of one file with a new name, without the number in that name.
fn unnumbered_list(content: Vec<u8>) -> Vec<u8> {
    match std::str::from_utf8(&content) {
        Ok(text) if text.starts_with("./input-") && text.lines().count() == 1 => {
            unnumbered(text.to_owned()).into_bytes()
        }
        _ => content,
    }
}

/// A pipe with these bytes.
fn piped(data: Vec<u8>) -> Stdio {
    let (reader, mut writer) = std::io::pipe().unwrap();
    // A reader that is killed or fails stops reading.
    std::thread::spawn(move || drop(writer.write_all(&data)));
    Stdio::from(reader)
}

impl Scenario {
    pub fn new(name: &'static str, arguments: &[&str], inputs: &[(&str, &[u8])], old: &[&'static str]) -> Self {
        Self {
            name,
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            inputs: inputs.iter().map(|&(name, content)| (name.to_owned(), content.to_owned())).collect(),
            old: old.to_vec(),
            stdin: None,
            is_piped: false,
            stdout: None,
            long: false,
        }
    }

    /// The only file that the run creates.
    pub fn product(&self) -> Vec<u8> {
        let place = Place::new(self);
        let run = place.command(self, Path::new(OURS)).args(&self.arguments).output().unwrap();
        assert!(run.status.success(), "{}: {}", self.name, String::from_utf8_lossy(&run.stderr));
        place.outputs(self).into_values().next().unwrap()
    }
}

/// Bytes that are almost incompressible.
pub fn noise(len: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()
    };
    let mut bytes: Vec<u8> = Vec::with_capacity(len + 4);
    while bytes.len() < len {
        bytes.extend(next());
    }
    bytes.truncate(len);
    bytes
}

/// Noise, followed after the first 100,000 bytes by zeros with islands of noise: many bytes that compress quickly.
pub fn islands(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for start in (0..len).step_by(1 << 20) {
        let end = len.min(start + if start == 0 { 100_000 } else { 1000 });
        bytes[start..end].copy_from_slice(&noise(end - start, 2));
    }
    bytes
}

pub fn bundling(name: &'static str, options: &[&str], large: usize, old: &[&'static str]) -> Scenario {
    let targets = format!("-targets={HOST},{GFX906},{GFX90A}");
    let files = ["-input=input-host", "-input=input-a", "-input=input-b", "-output=out"];
    let arguments = [options, &[targets.as_str()], &files].concat();
    let (a, b) = (noise(3000, 1), islands(large));
    Scenario::new(name, &arguments, &[("input-host", b""), ("input-a", &a), ("input-b", &b)], old)
}

fn unbundling(name: &'static str, bundle: &[u8], outputs: [&str; 3], old: &[&'static str]) -> Scenario {
    let targets = format!("-targets={HOST},{GFX906},{GFX90A}");
    let outputs = outputs.map(|output| format!("-output={output}"));
    let mut arguments = vec!["-type=bc", "-unbundle", "-input=input-bundle", &targets];
    arguments.extend(outputs.iter().map(String::as_str));
    Scenario::new(name, &arguments, &[("input-bundle", bundle)], old)
}

fn packaging() -> Scenario {
    let images =
        ["906", "90a"].map(|gpu| format!("--image=file=input-{gpu},triple=amdgcn-amd-amdhsa,arch=gfx{gpu},kind=hip"));
    let arguments = ["package", "-o=out", &images[0], &images[1]];
    Scenario::new("package", &arguments, &[("input-906", &noise(2000, 3)), ("input-90a", &noise(100_000, 4))], &["out"])
}

fn unpackaging(name: &'static str, package: &[u8], options: &[&str], old: &[&'static str]) -> Scenario {
    let arguments = [&["package", "input-package"], options].concat();
    Scenario::new(name, &arguments, &[("input-package", package)], old)
}

/// Scenarios of our own subcommands.
fn own(plain: &[u8], compressed: &[u8]) -> Vec<Scenario> {
    let section = [plain, &vec![0; plain.len().next_multiple_of(4096) - plain.len()], compressed].concat();
    let library = Elf::LIBRARY.write(&[
        Section::new(".text", &[0x90; 5000]),
        Section::new(".hip_fatbin", &section).aligned(4096),
        Section::new(".data", &[7; 300]),
    ]);
    let run = |name, arguments: &[&str], old: &[&'static str]| {
        let arguments = [arguments, &["input"]].concat();
        Scenario::new(name, &arguments, &[("input", library.as_slice())], old)
    };
    let mut extracted = run("extract all", &["extract", "-o", "."], &[]);
    let names: Vec<&'static str> =
        Place::new(&extracted).made_by(&extracted).into_iter().map(|name| &*name.leak()).collect();
    extracted = run("extract all over old files", &["extract", "-o", "."], &[names[0], names[names.len() - 1]]);
    let fatbins =
        [fatbins::sample(), vec![0; 8], fatbins::fatbin(&[fatbins::entry(&Code::cubin(90, 50_000))])].concat();
    let cuda = Elf::LIBRARY.write(&[
        Section::new(".text", &[0x90; 5000]),
        Section::new(".nv_fatbin", &fatbins),
        Section::new(".data", &[7; 300]),
    ]);
    let object = Elf::OBJECT.write(&[Section::new(".nv_fatbin", &fatbins), Section::new(".data", &[7; 300])]);
    let windows = [pe(&[(".nv_fatb", &fatbins), (".data", &[7; 300])]), vec![0; 100]].concat();
    let wheel = zip(&[
        Zipped::new("a-1.dist-info/RECORD", DEFLATED, b"a-1.dist-info/RECORD,,\n"),
        Zipped::new("a/lib.so", DEFLATED, &library),
        Zipped::new("a/other.co", STORED, compressed),
        Zipped::new("a/__init__.py", DEFLATED, b"x = 1"),
    ]);
    vec![
        extracted,
        Scenario::new("extract from fatbins", &["extract", "-o", ".", "input"], &[("input", &cuda)], &[]),
        Scenario::new("recompress fatbins", &["recompress", "input", "-o", "out"], &[("input", &cuda)], &["out"]),
        Scenario::new(
            "make fatbins plain",
            &["recompress", "--none", "input", "--keep", "sm_90", "-o", "out"],
            &[("input", &fatbins)],
            &[],
        ),
        Scenario::new(
            "extract to standard output",
            &["extract", "input", "-o-", "-t", "gfx906"],
            &[("input", compressed)],
            &[],
        ),
        run("inspect", &["inspect"], &[]),
        run("inspect all, for programs", &["inspect", "--json", "--inflate"], &[]),
        run("verify", &["verify", "--expect", "gfx906"], &[]),
        run("kernels", &["kernels"], &[]),
        Scenario::new("compare", &["diff", "input", "other"], &[("input", &section), ("other", compressed)], &[]),
        run("recompress a library", &["recompress", "-o", "out"], &["out"]),
        run("make a library plain", &["recompress", "--none", "--drop", "gfx906", "-o", "out"], &[]),
        Scenario::new("recompress bundles", &["recompress", "input", "-o", "out"], &[("input", &section)], &["out"]),
        Scenario::new(
            "recompress a static library",
            &["recompress", "input", "-o", "out"],
            &[("input", &archive(&[("a.o", &object), ("b", b"text"), ("c.o", &object)]))],
            &["out"],
        ),
        Scenario::new(
            "recompress a PE library",
            &["recompress", "input", "-o", "out"],
            &[("input", &windows)],
            &["out"],
        ),
        Scenario::new("recompress a wheel", &["recompress", "input", "-o", "out"], &[("input", &wheel)], &["out"]),
        replacing("replace a code object in place", &section, 100),
        replacing("replace a code object by a longer one", &section, 30_000),
    ]
}

/// Replaces the second code object of the plain bundle that a file begins with.
fn replacing(name: &'static str, bundle: &[u8], len: usize) -> Scenario {
    let number = |at: usize| u64::from_le_bytes(bundle[at..at + 8].try_into().unwrap());
    let second = 32 + 24 + usize::try_from(number(48)).unwrap();
    let uri = format!("file://input#offset={}&size={}", number(second), number(second + 8));
    let inputs = [("input", bundle), ("input-new", &noise(len, 6))];
    Scenario::new(name, &["replace", "--force", &uri, "input-new", "-o", "out"], &inputs, &["out"])
}

/// Returns the scenarios of a library whose code objects are in kpack archives.
fn split() -> Vec<Scenario> {
    let of_target = |target: &str, scheme| {
        let content = noise(40_000, 5);
        Archive::new("input", scheme, vec![kpacks::Code::new("lib/input#0", target, &content)]).write()
    };
    let library = tree::program(&kpacks::reference(&["input_@GFXARCH@.kpack"], "lib/input"), 1);
    let inputs = [
        ("input", library),
        ("input_gfx906.kpack", of_target("gfx906", Scheme::None)),
        ("input_gfx90a.kpack", of_target("gfx90a", Scheme::Zstd)),
    ];
    let inputs: Vec<(&str, &[u8])> = inputs.iter().map(|(name, data)| (*name, data.as_slice())).collect();
    vec![
        Scenario::new("extract from kpack archives", &["extract", "input"], &inputs, &[]),
        Scenario::new("extract from a kpack archive", &["extract", "input_gfx90a.kpack"], &inputs[2..], &[]),
        Scenario::new("inspect a split library", &["inspect", "--json", "--inflate", "input"], &inputs, &[]),
        Scenario::new("verify a split library", &["verify", "--allow-none", "input"], &inputs, &[]),
    ]
}

/// Scenarios of a library with device images.
fn device_images() -> Vec<Scenario> {
    let content = images::spirv(10_000, 7);
    let images = [Image::new(&content), Image::new(&content).packed()];
    let library = Program::new(&[("OFFLOAD_DEVICE_CODE", &images)]).write();
    let inputs = [("input", library.as_slice())];
    vec![
        Scenario::new("extract device images", &["extract", "input"], &inputs, &[]),
        Scenario::new("inspect device images", &["inspect", "--json", "input"], &inputs, &[]),
        Scenario::new("verify device images", &["verify", "--allow-none", "input"], &inputs, &[]),
    ]
}

/// Scenarios of SYCLBIN files.
fn syclbins() -> Vec<Scenario> {
    let file = syclbins::version_2(&syclbins::sample());
    let inputs = [("input", file.as_slice())];
    vec![
        Scenario::new("extract the parts of a SYCLBIN file", &["extract", "input"], &inputs, &[]),
        Scenario::new("verify a SYCLBIN file", &["verify", "--allow-none", "input"], &inputs, &[]),
    ]
}

/// Scenarios of HCF data.
fn hcf_data() -> Vec<Scenario> {
    let file = hcfs::write(hcfs::MARKERS[0], &[b"image".to_vec(), b"another".to_vec()]);
    let inputs = [("input", file.as_slice())];
    vec![Scenario::new("extract the images of HCF data", &["extract", "input"], &inputs, &[])]
}

/// Scenarios of an AKS2 file.
fn aks2_files() -> Vec<Scenario> {
    let code = fs::read("fixtures/kernels/llvm22-gfx90a.elf").unwrap();
    let file = aks2s::kernels(&[(b"one", &code), (b"two", &code)]);
    let inputs = [("input", file.as_slice())];
    vec![
        Scenario::new("extract the kernels of an AKS2 file", &["extract", "input"], &inputs, &[]),
        Scenario::new("inspect an AKS2 file", &["inspect", "--json", "input"], &inputs, &[]),
    ]
}

/// Scenarios that use temporary files: piped and inflated data of more than 16 MiB.
fn spooled(large: &[u8], large_compressed: &[u8], library: &[u8]) -> Vec<Scenario> {
    let piped = |name, input: &[u8], arguments: &[&str], old: &[&'static str]| Scenario {
        stdin: Some("input"),
        is_piped: true,
        long: true,
        ..Scenario::new(name, arguments, &[("input", input)], old)
    };
    let unbundle = ["-type=bc", "-unbundle", "-input=-", "-targets=hip-amdgcn-amd-amdhsa--gfx90a", "-output=x"];
    let wheel = zip(&[Zipped::new("lib.so", DEFLATED, large)]);
    let package = packages::gzip(&packages::tar(&[packages::File::new("lib.so", large)]));
    let wheeled = |name, arguments: &[&str], old: &[&'static str]| Scenario {
        long: true,
        ..Scenario::new(name, arguments, &[("input.whl", wheel.as_slice())], old)
    };
    vec![
        piped("unbundle a pipe of 17 MiB", large, &unbundle, &["x"]),
        piped("list a pipe of 17 MiB", large, &["-type=bc", "-list", "-input=-"], &[]),
        piped(
            "bundle a pipe of 17 MiB",
            large,
            &["-type=bc", &format!("-targets={HOST}"), "-input=-", "-output=x"],
            &["x"],
        ),
        piped("recompress a pipe of 17 MiB", large, &["recompress", "-", "-o", "x"], &["x"]),
        piped("unbundle an archive from a pipe", library, &[&["-type=a"], &unbundle[1..]].concat(), &["x"]),
        wheeled("inspect a zip file", &["inspect", "--json", "--inflate", "input.whl"], &[]),
        wheeled("extract from a zip file to standard output", &["extract", "input.whl", "-t", "gfx906", "-o-"], &[]),
        Scenario {
            long: true,
            ..Scenario::new(
                "inspect a package",
                &["inspect", "--json", "input.tar.gz"],
                &[("input.tar.gz", &package)],
                &[],
            )
        },
        wheeled("verify a zip file", &["verify", "input.whl"], &[]),
        Scenario {
            long: true,
            ..Scenario::new("verify 17 MiB, compressed", &["verify", "input"], &[("input", large_compressed)], &[])
        },
    ]
}

/// Returns all scenarios.
pub fn all() -> Vec<Scenario> {
    let bundle = bundling("bundle to a new file", &["-type=bc"], 100_000, &[]);
    let (plain, compressed) = (bundle.product(), bundling("", &["-type=bc", "-compress"], 100_000, &[]).product());
    let large = Scenario { long: true, ..bundling("compress 17 MiB", &["-type=bc", "-compress"], 17 << 20, &["out"]) };
    let large_compressed = large.product();
    let mut fat = bundling("bundle a fat object", &["-type=o"], 100_000, &["out"]);
    let object = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/offload/llvm22-embedded.o");
    fat.inputs.insert("input-host".to_owned(), fs::read(object).unwrap());
    let fat_object = fat.product();
    let members: [(&str, &[u8]); 2] = [("input-1.o", &plain), ("input-2.o", &compressed)];
    let thin = thin_archive(&members.map(|(name, content)| (name, content.len())));
    let targets = format!("-targets={GFX906},{GFX90A}");
    let unbundle_archive =
        ["-type=a", "-unbundle", "-input=input-lib.a", "-output=x.a", "-output=y.a", targets.as_str()];
    let package = packaging();
    let packed = package.product();
    let of_gfx = |file: &str, gpu: &str| format!("--image=file={file},arch=gfx{gpu}");
    let scenarios = vec![
        bundling("bundle over an old file", &["-type=bc"], 100_000, &["out"]),
        unbundling("unbundle to three files", &plain, ["x", "y", "z"], &["x", "z"]),
        unbundling("unbundle, one to standard output", &plain, ["x", "-", "z"], &["x"]),
        Scenario {
            stdin: Some("input-bundle"),
            ..unbundling("unbundle the standard input", &plain, ["x", "y", "z"], &["x", "y", "z"])
                .with_argument("-input=input-bundle", "-input=-")
        },
        Scenario {
            stdout: Some("z"),
            ..unbundling("unbundle into a file in place", &plain, ["x", "y", "/proc/self/fd/1"], &["x", "z"])
        },
        Scenario {
            long: true,
            ..unbundling("unbundle 17 MiB, compressed", &large_compressed, ["x", "y", "z"], &["x"])
        },
        unbundling("unbundle, compressed", &compressed, ["x", "y", "z"], &["y"]),
        unbundling("take a fat object apart", &fat_object, ["x", "y", "z"], &["x"])
            .with_argument("-type=bc", "-type=o"),
        fat,
        bundling("compress", &["-type=bc", "-compress"], 100_000, &["out"]),
        Scenario::new("unbundle an archive", &unbundle_archive, &[("input-lib.a", &archive(&members))], &["x.a"]),
        Scenario::new(
            "unbundle a thin archive",
            &unbundle_archive,
            &[&[("input-lib.a", thin.as_slice())], members.as_slice()].concat(),
            &["y.a"],
        ),
        Scenario::new("list", &["-type=bc", "-list", "-input=input-bundle"], &[("input-bundle", &plain)], &[]),
        unpackaging("unpackage to generated names", &packed, &["--image=kind=hip"], &[]),
        unpackaging("unpackage to files", &packed, &[&of_gfx("x", "906"), &of_gfx("y", "90a")], &["x"]),
        unpackaging("unpackage to an archive", &packed, &["--archive", "--image=file=x,kind=hip"], &["x"]),
        package,
        bundle,
        large,
    ];
    let large_plain = bundling("", &["-type=bc"], 17 << 20, &[]).product();
    let library = archive(&[("input-1.o", &plain), ("input-2.o", &large_plain)]);
    [
        scenarios,
        own(&plain, &compressed),
        split(),
        device_images(),
        syclbins(),
        hcf_data(),
        aks2_files(),
        spooled(&large_plain, &large_compressed, &library),
    ]
    .concat()
}

/// Returns the scenarios with these names.
pub fn named(names: &[&str]) -> Vec<Scenario> {
    let scenarios: Vec<_> = all().into_iter().filter(|scenario| names.contains(&scenario.name)).collect();
    assert_eq!(scenarios.len(), names.len(), "{names:?}");
    scenarios
}

/// Returns the scenarios whose work is shared among threads, with eight of them.
pub fn with_threads() -> Vec<Scenario> {
    let mut scenarios = named(&[
        "compare",
        "kernels",
        "make fatbins plain",
        "recompress a library",
        "recompress a static library",
        "recompress a wheel",
        "recompress bundles",
        "recompress fatbins",
        "verify",
    ]);
    scenarios.iter_mut().for_each(|scenario| scenario.arguments.extend(["--threads".to_owned(), "8".to_owned()]));
    scenarios
}

impl Scenario {
    pub fn with_argument(mut self, old: &str, new: &str) -> Self {
        self.arguments.iter_mut().filter(|argument| *argument == old).for_each(|argument| *argument = new.to_owned());
        self
    }
}

/// Whether the file system of [`Place`] supports unnamed files that can be given a name.
pub fn has_unnamed_files() -> bool {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    open(memory_directory().path(), flags, Mode::RUSR | Mode::WUSR).is_ok() && Path::new("/proc/self/fd").exists()
}
