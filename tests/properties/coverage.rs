use std::collections::BTreeSet;
use std::io::{Cursor, Write as _};

use offload_bundle::ErrorKind;
use offload_bundle::container::offload_binary::{self, ImageInfo, ImageKind, NewImage, Version};
use offload_bundle::id::{EntryId, OffloadKind};
use offload_bundle::inventory::Selection;
use offload_bundle::inventory::{Contents, Coverage};
use offload_bundle::io::{self, Input};
use offload_bundle::job::{Destination, Expect, Extract, Source, Verify, VerifyRule};
use offload_bundle::runtime::Device;
use offload_bundle::scan::Scan;

use super::choices::Choices;
use super::fatbins::{self, Code};
use super::formats;
use super::room::Room;

const AMD: [&str; 15] = [
    "gfx906",
    "gfx906:xnack-",
    "gfx906:sramecc+:xnack-",
    "gfx90a:xnack+",
    "gfx90a:xnack-",
    "gfx90a",
    "gfx942:sramecc-",
    "gfx1030",
    "gfx1152",
    "gfx9-generic",
    "gfx9-generic:xnack-",
    "gfx9-4-generic:sramecc-:xnack+",
    "gfx11-generic",
    "amdgcnspirv",
    "gfx9999",
];

const NVIDIA: [&str; 14] = [
    "sm_70",
    "sm_80",
    "sm_86",
    "sm_87",
    "sm_90",
    "sm_90a",
    "sm_100f",
    "sm_103",
    "sm_120",
    "compute_70",
    "compute_80",
    "compute_90a",
    "compute_100f",
    "compute_120",
];

/// The processors of generic targets.
const GENERIC: [(&str, &[&str]); 3] = [
    ("gfx9-generic", &["gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"]),
    ("gfx9-4-generic", &["gfx942", "gfx950"]),
    ("gfx11-generic", &["gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"]),
];

/// The GPUs that run machine code for others, each of all before it in its row.
const LINES: [&[u32]; 8] = [&[70, 75], &[72], &[80, 86, 89], &[87], &[90], &[100, 103], &[110], &[120, 121]];

/// Bundles have any code, in any container. A plain reading of the rules gives the same numbers of bundles that serve a
/// GPU, the same faults and the same extracted files.
pub fn coverage(data: &[u8]) {
    let mut choices = Choices::new(data);
    let is_amd = choices.below(2) == 0;
    let gpu = if is_amd { choices.pick(&AMD) } else { choices.pick(&NVIDIA) };
    let device = Device::parse(gpu).unwrap();
    let (mut coverage, mut serving, mut bundles) = (Coverage::default(), 0, 0);
    let (mut counted, mut is_for_others, mut has_code) = (Vec::new(), false, false);
    let mut all = b"!<arch>\n".to_vec();
    for _ in 0..choices.below(5) {
        let unit = Unit::new(&mut choices);
        let is_served = are_served(gpu, &[&unit]);
        let is_counted = unit.is_amd == is_amd || (unit.codes.is_empty() && !unit.is_fatbin);
        if is_counted {
            bundles += 1;
            serving += usize::from(is_served);
        }
        // Files of one directory would serve together.
        let file = Input::from_bytes(format!("{bundles}-{}/in", counted.len()), unit.data.clone());
        let found = Contents::read(&file, &Scan::default()).unwrap().coverage();
        assert_eq!(found.bundles(), 1, "{unit:?}");
        coverage.merge(&found);
        // A file with code for GPUs of the other vendor alone serves nothing.
        let faults = usize::from(!is_served && (is_counted || unit.has_code()));
        assert_eq!(faults_of("in", &unit.data, Expect::new(vec![device.clone()])), faults, "{device}: {unit:?}");
        extracted(&unit, &device, gpu);
        add_member(&mut all, &unit.data);
        is_for_others |= !is_counted;
        has_code |= unit.has_code();
        counted.extend(is_counted.then_some(unit));
    }
    // The members of a static library serve together, whatever its name.
    let counted: Vec<&Unit> = counted.iter().collect();
    let is_asked = match is_for_others {
        true => counted.iter().any(|unit| unit.is_fatbin || !unit.codes.is_empty()),
        false => !counted.is_empty(),
    };
    let together = usize::from(is_asked && !are_served(gpu, &counted));
    // If no library should serve the GPU, the file as a whole should.
    let of_file = usize::from(has_code && !are_served(gpu, &counted));
    let faults = if together == 0 { of_file } else { together };
    for name in ["in.a", "in"] {
        assert_eq!(faults_of(name, &all, Expect::libraries(vec![device.clone()])), faults, "{device}: {counted:?}");
    }
    let served = coverage.served(&device);
    assert_eq!((served.serving, served.bundles), (serving, bundles), "{gpu}");
    for (named, served) in coverage.gpus().unwrap() {
        assert_eq!(served, coverage.served(&named), "{named}");
    }
}

/// Whether the code of some units serves a GPU with all its settings.
fn are_served(gpu: &str, units: &[&Unit]) -> bool {
    settings(gpu).iter().all(|setting| units.iter().any(|unit| unit.best(setting).is_some()))
}

/// Returns the number of faults of a file that does not serve the expected GPUs.
fn faults_of(name: &str, data: &[u8], expect: Expect) -> usize {
    let mut verify = Verify::default();
    verify.expect = Some(expect);
    let verified = verify.check(&Input::from_bytes(name, data.to_vec())).unwrap();
    verified.faults.iter().filter(|fault| fault.rule == VerifyRule::Expected).count()
}

/// Adds a member to an archive.
fn add_member(archive: &mut Vec<u8>, data: &[u8]) {
    let header =
        format!("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", format!("{}/", archive.len()), 0, 0, 0, 644, data.len());
    archive.extend(header.as_bytes());
    archive.extend(data);
    archive.resize(archive.len().next_multiple_of(2), b'\n');
}

fn extracted(unit: &Unit, device: &Device, gpu: &str) {
    let room = Room::with(&unit.data);
    let mut extract =
        Extract::new(vec![Source::named(room.input())], Selection::default(), Destination::Nowhere(room.path("out")));
    extract.devices = vec![device.clone()];
    let settings = gpus(gpu).into_iter().flat_map(|gpu| settings(&gpu));
    let best: BTreeSet<usize> = settings.filter_map(|setting| unit.best(&setting)).collect();
    let expected: BTreeSet<String> = best.into_iter().map(|index| unit.codes[index].target.to_owned()).collect();
    match extract.run(&mut |_| {}) {
        Ok(extracted) => {
            let target = |id: EntryId| id.target_id().to_string();
            let found = extracted.iter().map(|extracted| target(extracted.code_object.entry_id().unwrap()));
            assert_eq!((found.collect(), extracted.len()), (expected.clone(), expected.len()), "{gpu}: {unit:?}");
        }
        Err(error) => {
            assert!(error.kind() == ErrorKind::NotFound && expected.is_empty(), "{gpu}: {error}: {unit:?}");
        }
    }
}

/// A code object: its offload kind, its target, and the environment in its ID.
#[derive(Clone, Debug)]
struct Entry {
    kind: &'static str,
    target: &'static str,
    environment: &'static str,
}

impl Entry {
    fn triple(&self) -> &'static str {
        match self.target {
            "amdgcnspirv" => "spirv64-amd-amdhsa",
            target if target.starts_with("gfx") => "amdgcn-amd-amdhsa",
            _ => "nvptx64-nvidia-cuda",
        }
    }

    fn id(&self) -> String {
        format!("{}-{}-{}-{}", self.kind, self.triple(), self.environment, self.target)
    }

    /// Whether HIP's runtime finds it in a bundle of machine code.
    fn is_found(&self) -> bool {
        let is_known = self.environment.is_empty() || (self.environment == "unknown" && self.target == "amdgcnspirv");
        !self.kind.starts_with("hip") || is_known
    }
}

/// A file with one bundle, or with offload binaries.
struct Unit {
    is_amd: bool,
    is_fatbin: bool,
    codes: Vec<Entry>,
    /// Whether a runtime finds each of them.
    found: Vec<bool>,
    data: Vec<u8>,
}

impl std::fmt::Debug for Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.codes.fmt(f)
    }
}

impl Unit {
    fn new(choices: &mut Choices<'_>) -> Self {
        let form = choices.below(4);
        let is_amd = form != 2 && (form < 2 || choices.below(2) == 0);
        let mut targets: Vec<&'static str> = Vec::new();
        for _ in 0..choices.below(5) {
            let target = if is_amd { choices.pick(&AMD) } else { choices.pick(&NVIDIA) };
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
        let is_code = choices.below(2) == 0;
        let mut elf = b"\x7fELF\x02\x01\x01\x40".to_vec();
        elf.resize(64, 0);
        (elf[16], elf[18]) = (3, 224);
        let content = if is_code { elf } else { b"text".to_vec() };
        let mut entry = |target: &&'static str| {
            let kind = match form {
                2 => "cuda",
                3 if is_amd => "hip",
                3 => "cuda",
                _ => choices.pick(&["hipv4", "hip", "openmp"]),
            };
            let environment = if form < 2 { choices.pick(&["", "", "", "llvm", "unknown"]) } else { "" };
            Entry { kind, target, environment }
        };
        let codes: Vec<Entry> = targets.iter().map(&mut entry).collect();
        let data = match form {
            2 => fatbins::fatbin(&codes.iter().map(|code| fatbins::entry(&cuda(code.target))).collect::<Vec<_>>()),
            3 => offload_binaries(&codes, &content),
            _ => {
                let host = (b"host-x86_64-unknown-linux-gnu-".to_vec(), Vec::new());
                let entries = codes.iter().map(|code| (code.id().into_bytes(), content.clone()));
                let plain = formats::binary(&[host].into_iter().chain(entries).collect::<Vec<_>>(), 8);
                if form == 0 { plain } else { compressed(&plain) }
            }
        };
        // Without images there is no offload binary.
        let data = if data.is_empty() { formats::binary::<Vec<u8>, Vec<u8>>(&[], 8) } else { data };
        let is_amd = is_amd || (form == 3 && codes.is_empty());
        let is_for_hip = form < 2 && is_code;
        let found = codes.iter().map(|code| !is_for_hip || code.is_found()).collect();
        Self { is_amd, is_fatbin: form == 2, codes, found, data }
    }

    /// Whether it has any code, which a runtime may not find.
    fn has_code(&self) -> bool {
        !self.codes.is_empty()
    }

    /// The index of the code object that is chosen in a setting.
    fn best(&self, setting: &str) -> Option<usize> {
        let ranks = self.codes.iter().enumerate().filter(|(index, _)| self.found[*index]);
        ranks.filter_map(|(index, code)| Some((rank(setting, code.target)?, index))).min().map(|(_, index)| index)
    }
}

/// Returns the GPUs of a name, whatever code its suffix or generic target requests.
pub fn gpus(name: &str) -> Vec<String> {
    let (processor, features) = name.split_at(name.find(':').unwrap_or(name.len()));
    let own = GENERIC.iter().filter(|(generic, _)| *generic == processor).flat_map(|(_, all)| *all);
    let own = own.map(|own| format!("{own}{features}"));
    let same = if name.starts_with("sm_") { name.trim_end_matches(['a', 'f']) } else { name };
    own.chain([same.to_owned()]).collect()
}

/// The GPU with each setting of the features that its name leaves open.
pub fn settings(gpu: &str) -> Vec<String> {
    let processor = gpu.split(':').next().unwrap();
    let features: &[&str] = match processor {
        "gfx906" | "gfx90a" | "gfx942" | "gfx950" | "gfx9-4-generic" => &["sramecc", "xnack"],
        "gfx900" | "gfx902" | "gfx904" | "gfx909" | "gfx90c" | "gfx9-generic" => &["xnack"],
        _ => &[],
    };
    let mut all = vec![gpu.to_owned()];
    for feature in features.iter().filter(|feature| !gpu.contains(*feature)) {
        all = all.iter().flat_map(|gpu| [format!("{gpu}:{feature}+"), format!("{gpu}:{feature}-")]).collect();
    }
    all
}

/// The features of a target ID.
fn features(target: &str) -> BTreeSet<&str> {
    target.split(':').skip(1).collect()
}

/// GPUs of Intel, each with the GPU whose code it takes too.
const INTEL: [(&str, Option<&str>); 4] =
    [("pvc", None), ("dg2-g10", None), ("dg2-g11", Some("dg2-g10")), ("bmg-g21", None)];

/// Whether a GPU or code is Intel's.
pub fn is_of_intel(target: &str) -> bool {
    target.starts_with("spir") || INTEL.iter().any(|(gpu, _)| *gpu == target)
}

/// Returns how well code for a target serves a GPU (less is better), or `None` if it does not.
pub fn rank(gpu: &str, target: &str) -> Option<(u32, i64, u32)> {
    if is_of_intel(gpu) {
        return match () {
            () if target.starts_with("spir") => Some((2, 0, 0)),
            () if target == gpu => Some((0, 0, 0)),
            () if INTEL.contains(&(gpu, Some(target))) => Some((1, 0, 0)),
            () => None,
        };
    }
    if gpu.starts_with("gfx") || gpu == "amdgcnspirv" {
        let processor = |text: &str| text.split(':').next().unwrap().to_owned();
        let (own, code) = (processor(gpu), processor(target));
        let fits = features(target).is_subset(&features(gpu));
        let is_generic = GENERIC.iter().any(|(generic, all)| *generic == code && all.contains(&own.as_str()));
        return match () {
            () if target == "amdgcnspirv" => Some((2, 0, 0)),
            () if gpu == "amdgcnspirv" || !fits => None,
            () if own == code => Some((0, 0, 0)),
            () if is_generic => Some((1, 0, 0)),
            () => None,
        };
    }
    let parse = |text: &str| {
        let (kind, version) = text.split_once('_')?;
        let suffix = version.chars().last().filter(char::is_ascii_alphabetic);
        let number: u32 = version.trim_end_matches(char::is_alphabetic).parse().ok()?;
        Some((kind.to_owned(), number, suffix))
    };
    let ((kind, own, wanted), (form, number, suffix)) = (parse(gpu)?, parse(target)?);
    let is_same = own == number;
    let is_in_line = LINES.iter().any(|line| line.contains(&own) && line.contains(&number)) && number <= own;
    let is_in_major = own / 10 == number / 10 && number <= own;
    let order = match suffix {
        Some('a') => 0,
        Some(_) => 1,
        None => 2,
    };
    let back = i64::from(own) - i64::from(number);
    let is_ptx = form == "compute";
    let runs = match (kind.as_str(), wanted, suffix) {
        ("compute", None, None) => is_ptx && number <= own,
        ("compute", ..) => is_ptx && is_same && wanted == suffix,
        (_, None, None) => {
            if is_ptx {
                number <= own
            } else {
                is_in_line
            }
        }
        (_, None | Some('f'), Some('f')) => {
            if is_ptx {
                is_in_major
            } else {
                is_in_line
            }
        }
        (_, _, Some('a')) => is_same,
        _ => false,
    };
    runs.then_some((u32::from(is_ptx), back, order))
}

/// The code object of a fatbin for an architecture.
pub fn cuda(target: &str) -> Code {
    let (kind, version) = target.split_once('_').unwrap();
    let sm: u8 = version.trim_end_matches(char::is_alphabetic).parse().unwrap();
    let code = if kind == "compute" { Code::ptx(sm.into()) } else { Code::cubin(sm, 4) };
    match version.chars().last() {
        Some('a') => code.with_flags(fatbins::SPECIFIC),
        Some('f') => code.with_flags(fatbins::FAMILY),
        _ => code,
    }
}

/// Offload binaries in a row, one for each code object.
fn offload_binaries(codes: &[Entry], content: &[u8]) -> Vec<u8> {
    let image = |code: &Entry| {
        let kind = OffloadKind::from_name(code.kind);
        let strings = [("triple", code.triple()), ("arch", code.target)];
        let info = ImageInfo {
            image_kind: ImageKind::Object,
            // HIP is 3 up to LLVM 20.
            kind_number: if kind == Some(OffloadKind::Hip) { 3 } else { offload_binary::kind_number(kind) },
            flags: 0,
            strings: strings.map(|(key, value)| (key.into(), value.into())).to_vec(),
        };
        NewImage { info, content: content.into() }
    };
    let images: Vec<NewImage<'_>> = codes.iter().map(image).collect();
    let mut data = Vec::new();
    io::write_to(&offload_binary::plan(Version::V1, &images).unwrap(), &mut data).unwrap();
    data
}

/// A compressed bundle of version 2, by zlib.
fn compressed(payload: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::ZlibEncoder::new(Cursor::new(Vec::new()), flate2::Compression::fast());
    writer.write_all(payload).unwrap();
    let stream = writer.finish().unwrap().into_inner();
    let number = |number: usize| u32::try_from(number).unwrap().to_le_bytes();
    let header = [b"CCOB\x02\0\0\0".as_slice(), &number(24 + stream.len()), &number(payload.len())].concat();
    [header, formats::hash(payload).to_le_bytes().to_vec(), stream].concat()
}
