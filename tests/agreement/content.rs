//! What is put in: code objects of known targets, and the units, libraries and files that hold them.

use std::collections::BTreeSet;
use std::fmt;

use crate::properties::code_objects::{Kernel, amd, cubin};
use crate::properties::coverage::{gpus, is_of_intel, rank, settings};
use crate::properties::fatbins::{self, FAMILY, SPECIFIC};
use crate::properties::images::{self, Image as DeviceImage};
use crate::properties::make::{Elf, SHT_PROGBITS, Section, archive, coff, pe};
use crate::reference::formats;
use crate::reference::harness::Random;
use crate::reference::offload::{self, Image};

/// Targets of code for AMD's GPUs, with the flags of their ELF files: the processor, the settings of XNACK (0x100 any,
/// 0x200 off, 0x300 on) and of SRAMECC (0x400 any), and the generic version.
const AMD: [(&str, u32); 9] = [
    ("gfx906", 0x52f),
    ("gfx90a:xnack-", 0x63f),
    ("gfx90a:xnack+", 0x73f),
    ("gfx942", 0x54c),
    ("gfx1030", 0x36),
    ("gfx1100", 0x41),
    ("gfx9-4-generic", 0x100_055f),
    ("gfx11-generic", 0x100_0054),
    ("gfx1200", 0x48),
];

/// Targets of code for NVIDIA's GPUs.
const NVIDIA: [&str; 7] = ["sm_80", "sm_86", "sm_90", "sm_90a", "sm_120", "compute_80", "compute_90"];

/// Targets of machine code for Intel's GPUs, with the IP versions of their ELF files.
const INTEL: [(&str, u32); 3] = [("pvc", 0x030f_0007), ("dg2-g10", 0x030d_c008), ("bmg-g21", 0x0500_4000)];

/// SPIR-V that is a device image, and SPIR-V in an archive of `ocloc`.
const SPIR_V: [&str; 2] = ["spir64", "spirv64-unknown-unknown"];

/// GPUs that the subcommands are asked about. Some need code for another target, or have none.
pub const GPUS: [&str; 20] = [
    "gfx906",
    "gfx90a",
    "gfx90a:xnack-",
    "gfx942",
    "gfx950",
    "gfx1030",
    "gfx1100",
    "gfx1151",
    "gfx1200",
    "sm_75",
    "sm_80",
    "sm_89",
    "sm_90",
    "sm_90a",
    "sm_120",
    "compute_90",
    "pvc",
    "bmg-g21",
    "dg2-g11",
    "spir64",
];

/// A vendor of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vendor {
    Amd,
    Nvidia,
    Intel,
}

impl Vendor {
    /// The vendor of a GPU, or of code for it.
    pub fn of(target: &str) -> Self {
        match () {
            () if target.starts_with("gfx") => Self::Amd,
            () if is_of_intel(target) => Self::Intel,
            () => Self::Nvidia,
        }
    }
}

/// A code object. No two have the same number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Code {
    pub target: &'static str,
    pub number: usize,
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.target)
    }
}

impl Code {
    /// The name of its kernel.
    fn kernel(self) -> Kernel {
        Kernel { vgprs: 8, kernarg: 8, workgroup: 64, code_size: 16, ..Kernel::named(&format!("k{}", self.number)) }
    }

    /// The ELF file, or PTX as it is extracted.
    fn content(self) -> Vec<u8> {
        if Vendor::of(self.target) == Vendor::Intel {
            let number = u32::try_from(self.number).unwrap();
            return match INTEL.iter().find(|(target, _)| *target == self.target) {
                Some((_, version)) => images::zebin(*version, &number.to_le_bytes()),
                None => images::spirv(3, number),
            };
        }
        match self.target.split_once('_') {
            Some(("compute", _)) => self.cuda().extracted().to_vec(),
            Some(("sm", version)) => {
                let mut elf = cubin(&[self.kernel()]);
                elf[49] = version.trim_end_matches(char::is_alphabetic).parse().unwrap();
                elf[48] |= u8::from(version.ends_with('a')) << 3;
                elf
            }
            _ => {
                let mut elf = amd(&[self.kernel()]);
                let flags = AMD.iter().find(|(target, _)| *target == self.target).unwrap().1;
                elf[48..52].copy_from_slice(&flags.to_le_bytes());
                elf
            }
        }
    }

    /// The code object of a fatbin.
    fn cuda(self) -> fatbins::Code {
        let (form, version) = self.target.split_once('_').unwrap();
        let sm: u32 = version.trim_end_matches(char::is_alphabetic).parse().unwrap();
        let code = if form == "compute" {
            let text = format!(
                ".version 8.7\n.target sm_{sm}\n.address_size 64\n.visible .entry k{}() {{ ret; }}\n\0",
                self.number
            );
            fatbins::Code { content: text.into_bytes(), ..fatbins::Code::ptx(sm) }
        } else {
            fatbins::Code::new(fatbins::CUBIN, sm, &self.content())
        };
        match version.chars().last() {
            Some('a') => code.with_flags(SPECIFIC),
            Some('f') => code.with_flags(FAMILY),
            _ => code,
        }
    }

    /// Whether it is machine code or PTX that some setting of a GPU takes.
    pub fn is_taken_by(self, gpu: &str) -> bool {
        settings(gpu).iter().any(|setting| rank(setting, self.target).is_some())
    }
}

/// Makes content.
pub struct Maker {
    pub random: Random,
    /// The number of the last code object or member.
    number: usize,
    /// The targets of code. With few of them, units often have code for the same GPUs.
    amd: Vec<&'static str>,
    nvidia: Vec<&'static str>,
}

impl Maker {
    pub fn new(mut random: Random) -> Self {
        let mut amd: Vec<&'static str> = AMD.iter().map(|(target, _)| *target).collect();
        let mut nvidia = NVIDIA.to_vec();
        random.shuffle(&mut amd);
        random.shuffle(&mut nvidia);
        amd.truncate(2 + random.below(3));
        nvidia.truncate(2 + random.below(2));
        Self { random, number: 0, amd, nvidia }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random.below(limit)
    }

    fn next(&mut self) -> usize {
        self.number += 1;
        self.number
    }

    /// Code objects for some of the targets.
    fn codes(&mut self, vendor: Vendor) -> Vec<Code> {
        let targets = if vendor == Vendor::Amd { self.amd.clone() } else { self.nvidia.clone() };
        self.codes_for(targets)
    }

    fn codes_for(&mut self, mut targets: Vec<&'static str>) -> Vec<Code> {
        self.random.shuffle(&mut targets);
        targets.truncate(1 + self.below(targets.len()));
        targets.into_iter().map(|target| Code { target, number: self.next() }).collect()
    }
}

/// A bundle of LLVM: its form in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Bundle,
    /// A compressed bundle of this version, and its method (0 is zlib, 1 zstd).
    Compressed(u16, u16),
    /// A bundle with code for the host, which linkers read.
    WithHost,
    Fatbin,
    /// A fatbin in an offload binary.
    FatbinInOffload,
    /// Offload binaries of this version.
    Offload(u32),
    /// A compressed offload binary, with zlib or zstd.
    OffloadCompressed {
        zlib: bool,
    },
    /// Device images of DPC++, stored as they are or as zstd frames: one for each code object, or one archive of all.
    Images {
        archive: bool,
        packed: bool,
    },
}

/// The forms of code for AMD's GPUs.
const AMD_FORMS: [Form; 15] = [
    Form::WithHost,
    Form::Bundle,
    Form::Bundle,
    Form::Bundle,
    Form::Compressed(1, 0),
    Form::Compressed(1, 1),
    Form::Compressed(2, 0),
    Form::Compressed(2, 1),
    Form::Compressed(3, 0),
    Form::Compressed(3, 1),
    Form::Offload(1),
    Form::Offload(2),
    Form::Offload(3),
    Form::OffloadCompressed { zlib: true },
    Form::OffloadCompressed { zlib: false },
];

/// Code for the host: an object.
fn host_code() -> Vec<u8> {
    Elf::OBJECT.write(&[Section::new(".text", b"code")])
}

const HOST: &str = "host-x86_64-unknown-linux-gnu-";

/// Code objects from which a program loads one: a bundle, a fatbin, or the offload binaries of one source file.
#[derive(Clone, PartialEq, Eq)]
pub struct Unit {
    pub form: Form,
    pub codes: Vec<Code>,
}

impl fmt::Debug for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{:?}", self.form, self.codes)
    }
}

impl Unit {
    fn new(maker: &mut Maker, vendor: Vendor) -> Self {
        let form = match vendor {
            Vendor::Amd => *maker.random.pick(&AMD_FORMS),
            Vendor::Nvidia if maker.below(5) == 0 => Form::FatbinInOffload,
            Vendor::Nvidia => Form::Fatbin,
            Vendor::Intel => return Self::images(maker),
        };
        Self { form, codes: maker.codes(vendor) }
    }

    /// Device images.
    fn images(maker: &mut Maker) -> Self {
        let (archive, packed) = (maker.below(2) == 0, maker.below(2) == 0);
        let mut targets: Vec<&'static str> = INTEL.iter().map(|(target, _)| *target).collect();
        targets.push(SPIR_V[usize::from(archive)]);
        Self { form: Form::Images { archive, packed }, codes: maker.codes_for(targets) }
    }

    fn any(maker: &mut Maker) -> Self {
        let vendor = if maker.below(3) > 0 { Vendor::Amd } else { Vendor::Nvidia };
        Self::new(maker, vendor)
    }

    /// Whether it is in an offload binary.
    pub fn is_offload(&self) -> bool {
        matches!(self.form, Form::Offload(_) | Form::OffloadCompressed { .. } | Form::FatbinInOffload)
    }

    /// Whether linkers read it, rather than a runtime.
    fn is_linked(&self) -> bool {
        self.form == Form::WithHost || (self.is_offload() && self.form != Form::FatbinInOffload)
    }

    /// The device images of the code objects. The members of an archive are called after their code objects.
    fn device_images(&self, is_archive: bool, is_packed: bool) -> Vec<DeviceImage> {
        let contents: Vec<(String, Vec<u8>)> =
            self.codes.iter().map(|code| (format!("g{}", code.number), code.content())).collect();
        let images = if is_archive {
            let members: Vec<(&str, &[u8])> =
                contents.iter().map(|(name, content)| (name.as_str(), content.as_slice())).collect();
            vec![archive(&members)]
        } else {
            contents.into_iter().map(|(_, content)| content).collect()
        };
        images.into_iter().map(|content| DeviceImage { is_packed, ..DeviceImage::new(&content) }).collect()
    }

    fn bytes(&self) -> Vec<u8> {
        let contents: Vec<(String, Vec<u8>)> = self
            .codes
            .iter()
            .map(|code| (format!("hipv4-amdgcn-amd-amdhsa--{}", code.target), code.content()))
            .collect();
        let images = || -> Vec<Image> {
            let image = |code: &Code| {
                Image::new(1, 4, &[("triple", "amdgcn-amd-amdhsa"), ("arch", code.target)], &code.content())
            };
            self.codes.iter().map(image).collect()
        };
        let fatbin =
            || fatbins::fatbin(&self.codes.iter().map(|code| fatbins::entry(&code.cuda())).collect::<Vec<_>>());
        let host = if self.form == Form::WithHost { host_code() } else { Vec::new() };
        let plain = || {
            let mut entries = vec![(HOST, &host[..])];
            entries.extend(contents.iter().map(|(id, content)| (id.as_str(), content.as_slice())));
            formats::binary(&entries, 4096)
        };
        match self.form {
            Form::Bundle | Form::WithHost => plain(),
            Form::Compressed(version, method) => formats::compressed(version, method, &plain()),
            Form::Fatbin => fatbin(),
            Form::FatbinInOffload => {
                let strings = [("triple", "nvptx64-nvidia-cuda"), ("arch", self.codes[0].target)];
                offload::write(1, &[Image::new(4, 2, &strings, &fatbin())])
            }
            Form::Offload(version) => offload::write(version, &images()),
            Form::OffloadCompressed { zlib } => offload::compressed(zlib, &images()),
            Form::Images { archive, packed } => {
                let mut data: Vec<u8> = Vec::new();
                for image in self.device_images(archive, packed) {
                    data.resize(data.len().next_multiple_of(16), 0);
                    data.extend(image.stored());
                }
                data
            }
        }
    }

    /// The member of the unit if the entry is in one, the kind of container, the target and the size of each entry, as
    /// `inspect` tells them.
    fn rows(&self) -> Vec<(Option<String>, String, String, usize)> {
        let row = |container: &str, target: &str, size| (None, container.to_owned(), target.to_owned(), size);
        let codes =
            |container: &str| self.codes.iter().map(|code| row(container, code.target, code.content().len())).collect();
        let with = |first, rest: Vec<_>| [vec![first], rest].concat();
        match self.form {
            Form::Bundle | Form::Compressed(..) => with(row("bundle", "host", 0), codes("bundle")),
            Form::WithHost => with(row("bundle", "host", host_code().len()), codes("bundle")),
            Form::Fatbin => codes("fatbin"),
            // The fatbin is a code object too, and has parts.
            Form::FatbinInOffload => {
                let fatbin = Self { form: Form::Fatbin, codes: self.codes.clone() }.bytes();
                with(row("offload binary", self.codes[0].target, fatbin.len()), codes("fatbin"))
            }
            Form::Offload(_) | Form::OffloadCompressed { .. } => codes("offload binary"),
            // The targets of SPIR-V are triples.
            Form::Images { archive, .. } => {
                let id = |code: &Code| if SPIR_V.contains(&code.target) { "" } else { code.target };
                if !archive {
                    let image = |code: &Code| row("device images", id(code), code.content().len());
                    return self.codes.iter().map(image).collect();
                }
                let whole = row("device images", "", self.device_images(true, false)[0].content.len());
                let member = |code: &Code| {
                    let (_, container, target, size) = row("code object", id(code), code.content().len());
                    (Some(format!("g{}", code.number)), container, target, size)
                };
                with(whole, self.codes.iter().map(member).collect())
            }
        }
    }
}

/// The file format around units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    ElfLibrary,
    ElfProgram,
    ElfObject,
    Coff,
    Pe,
}

impl Shell {
    /// The names of the sections of bundles, fatbins, offload binaries and device images.
    fn sections(self) -> [&'static str; 4] {
        match self {
            Self::Coff => [".hip_fat", ".nv_fatb", ".llvm.offloading", "OFFLOAD_"],
            Self::Pe => [".hip_fat", ".nv_fatb", ".llvm.of", "OFFLOAD_"],
            _ => [".hip_fatbin", ".nv_fatbin", ".llvm.offloading", "OFFLOAD_DEVICE_CODE"],
        }
    }

    /// Whether DPC++ links device images into it.
    fn is_linked(self) -> bool {
        matches!(self, Self::ElfLibrary | Self::ElfProgram | Self::Pe)
    }

    fn section(self, unit: &Unit) -> &'static str {
        let [hip, cuda, images, intel] = self.sections();
        match unit.form {
            Form::Fatbin => cuda,
            Form::Images { .. } => intel,
            _ if unit.is_offload() => images,
            _ => hip,
        }
    }
}

/// A library.
#[derive(Clone, PartialEq, Eq)]
pub enum Held {
    /// A linked file or an object with units in its sections.
    Sections(Shell, Vec<Unit>),
    /// A static library with these members.
    Archive(Vec<(String, Held)>),
    /// Units in a row that are a file themselves: bundles, plain and compressed, or fatbins, or offload binaries.
    Row(Vec<Unit>),
    /// A code object that is a file itself.
    Code(Code),
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sections(shell, units) => write!(f, "{shell:?}{units:?}"),
            Self::Archive(members) => f.debug_map().entries(members.iter().map(|(name, held)| (name, held))).finish(),
            Self::Row(units) => units.fmt(f),
            Self::Code(code) => code.fmt(f),
        }
    }
}

impl Held {
    /// A library of any kind.
    pub fn new(maker: &mut Maker) -> Self {
        match maker.below(6) {
            0 | 1 => Self::sections(maker, &[Shell::ElfLibrary, Shell::ElfProgram, Shell::Pe]),
            2 => Self::sections(maker, &[Shell::ElfObject, Shell::Coff]),
            3 | 4 => Self::archive(maker),
            _ => Self::row(maker),
        }
    }

    fn sections(maker: &mut Maker, shells: &[Shell]) -> Self {
        let shell = *maker.random.pick(shells);
        let mut units = Vec::new();
        for _ in 0..1 + maker.below(3) {
            let is_intel = shell.is_linked() && maker.below(3) == 0;
            let unit = if is_intel { Unit::new(maker, Vendor::Intel) } else { Unit::any(maker) };
            // The offload binaries of several sources in one section are told apart only by their code.
            if !unit.is_offload() || !units.iter().any(Unit::is_offload) {
                units.push(unit);
            }
        }
        Self::Sections(shell, units)
    }

    /// A static library of objects.
    fn archive(maker: &mut Maker) -> Self {
        let mut members = Vec::new();
        for _ in 0..1 + maker.below(4) {
            let held = match maker.below(6) {
                0 => Self::row(maker),
                1 => Self::sections(maker, &[Shell::ElfLibrary]),
                2 if maker.below(3) == 0 => Self::archive(maker),
                2 => Self::code(maker),
                _ => Self::sections(maker, &[Shell::ElfObject, Shell::ElfObject, Shell::Coff]),
            };
            members.push((format!("m{}.o", maker.next()), held));
        }
        Self::Archive(members)
    }

    fn row(maker: &mut Maker) -> Self {
        let first = Unit::any(maker);
        let vendor = Vendor::of(first.codes[0].target);
        let mut units = vec![first];
        // The offload binaries of several sources in a row are told apart only by their code.
        if !units[0].is_offload() && maker.below(3) == 0 {
            for _ in 0..1 + maker.below(2) {
                let unit = Unit::new(maker, vendor);
                units.extend((!unit.is_offload()).then_some(unit));
            }
        }
        Self::Row(units)
    }

    fn code(maker: &mut Maker) -> Self {
        let vendor = if maker.below(3) > 0 { Vendor::Amd } else { Vendor::Nvidia };
        Self::Code(maker.codes(vendor)[0])
    }

    /// A file that a program may load beside others of its directory.
    pub fn loaded_file(maker: &mut Maker) -> Self {
        if maker.below(3) > 0 { Self::code(maker) } else { Self::row(maker) }
    }

    /// The usual end of its name.
    pub fn extension(&self) -> &'static str {
        match self {
            Self::Sections(Shell::ElfLibrary, _) => ".so",
            Self::Sections(Shell::ElfProgram, _) => "",
            Self::Sections(Shell::Pe, _) => ".dll",
            Self::Sections(Shell::ElfObject, _) => ".o",
            Self::Sections(Shell::Coff, _) => ".obj",
            Self::Archive(_) => ".a",
            Self::Row(units) if Vendor::of(units[0].codes[0].target) == Vendor::Nvidia => ".fatbin",
            Self::Row(_) => ".hipfb",
            Self::Code(code) if Vendor::of(code.target) == Vendor::Amd => ".co",
            Self::Code(_) => ".cubin",
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Sections(shell, units) => shell_bytes(*shell, units),
            Self::Archive(members) => {
                let contents: Vec<Vec<u8>> = members.iter().map(|(_, held)| held.bytes()).collect();
                archive(
                    &members
                        .iter()
                        .zip(&contents)
                        .map(|((name, _), data)| (name.as_str(), &data[..]))
                        .collect::<Vec<_>>(),
                )
            }
            Self::Row(units) => row_of(units),
            Self::Code(code) => code.content(),
        }
    }

    /// What serves GPUs, in any order.
    pub fn serving(&self) -> Vec<Serving> {
        let all: Vec<Serving> = match self {
            Self::Sections(_, units) | Self::Row(units) => units.iter().map(Serving::of_unit).collect(),
            Self::Archive(members) => members.iter().flat_map(|(_, held)| held.serving()).collect(),
            Self::Code(code) => vec![Serving { is_unit: false, ..Serving::of_codes(vec![*code]) }],
        };
        // All device images of a library are one unit.
        let (images, mut others): (Vec<Serving>, Vec<Serving>) = all.into_iter().partition(|unit| unit.is_images);
        if let Some(together) = images.into_iter().reduce(|one, other| Serving {
            codes: [one.codes, other.codes].concat(),
            choices: [one.choices, other.choices].concat(),
            ..one
        }) {
            others.push(together);
        }
        others
    }

    /// The number of code objects for the host.
    pub fn hosts(&self) -> usize {
        self.units().into_iter().filter(|unit| unit.form == Form::WithHost).count()
    }

    /// The units, in any order.
    fn units(&self) -> Vec<&Unit> {
        match self {
            Self::Sections(_, units) | Self::Row(units) => units.iter().collect(),
            Self::Archive(members) => members.iter().flat_map(|(_, held)| held.units()).collect(),
            Self::Code(_) => Vec::new(),
        }
    }

    pub fn units_mut(&mut self) -> Vec<&mut Unit> {
        match self {
            Self::Sections(_, units) | Self::Row(units) => units.iter_mut().collect(),
            Self::Archive(members) => members.iter_mut().flat_map(|(_, held)| held.units_mut()).collect(),
            Self::Code(_) => Vec::new(),
        }
    }

    /// Whether `recompress` writes it, with all its code: offload binaries only in ELF objects, bundles not in COFF
    /// objects, and no device images.
    pub fn is_writable(&self) -> bool {
        let is_left = |unit: &&Unit| unit.is_offload() || matches!(unit.form, Form::Images { .. });
        let has_offload = || self.units().iter().any(is_left);
        match self {
            Self::Sections(Shell::ElfObject, units) => units.iter().all(|unit| unit.form != Form::FatbinInOffload),
            Self::Sections(Shell::Coff, _) | Self::Code(_) => false,
            Self::Sections(..) | Self::Row(_) => !has_offload(),
            Self::Archive(members) => {
                members.iter().all(|(_, held)| !matches!(held, Self::Archive(_)) && held.is_writable())
            }
        }
    }

    /// Whether it is a file that programs load for their GPU beside other files of its directory.
    pub fn is_loaded_file(&self) -> bool {
        match self {
            Self::Code(_) => true,
            // A file with several bundles does not serve with others.
            Self::Row(units) => units.len() == 1 && !units[0].is_offload() && units[0].form != Form::WithHost,
            _ => false,
        }
    }

    /// The code objects that `inspect` lists for a file of this name.
    pub fn rows(&self, name: &str) -> Vec<Row> {
        let row = |(_, container, target, size)| (format!("{name}:"), container, target, size);
        match self {
            Self::Sections(shell, units) => {
                let in_section = |unit: &Unit| {
                    let section = shell.section(unit);
                    unit.rows().into_iter().map(move |(member, container, target, size)| {
                        (format!("{}:{section}", member.as_deref().unwrap_or(name)), container, target, size)
                    })
                };
                units.iter().flat_map(in_section).collect()
            }
            Self::Row(units) => units.iter().flat_map(Unit::rows).map(row).collect(),
            Self::Archive(members) => members.iter().flat_map(|(name, held)| held.rows(name)).collect(),
            Self::Code(code) => {
                vec![row((None, "code object".to_owned(), code.target.to_owned(), code.content().len()))]
            }
        }
    }
}

/// A code object as `inspect` lists it: the last name in the path of its file or member, and the section; the container,
/// the target and the size.
pub type Row = (String, String, String, usize);

/// Units in a row. Each begins at a page.
fn row_of<'u>(units: impl IntoIterator<Item = &'u Unit>) -> Vec<u8> {
    let mut data = Vec::new();
    for unit in units {
        data.resize(data.len().next_multiple_of(4096), 0);
        data.extend(unit.bytes());
    }
    data
}

/// A file with units in the sections of their formats.
fn shell_bytes(shell: Shell, units: &[Unit]) -> Vec<u8> {
    let of_section =
        |section: usize| row_of(units.iter().filter(|unit| shell.section(unit) == shell.sections()[section]));
    let [hip, cuda, images, intel] = [0, 1, 2, 3].map(of_section);
    let mut sections = vec![(".text", &b"code"[..])];
    sections.extend(
        shell.sections().into_iter().zip([&hip[..], &cuda, &images, &intel]).filter(|(_, data)| !data.is_empty()),
    );
    match shell {
        Shell::Coff => return coff(&sections),
        Shell::Pe => return pe(&sections),
        _ => {}
    }
    let elf = match shell {
        Shell::ElfLibrary => Elf::LIBRARY,
        Shell::ElfProgram => Elf { kind: 2, ..Elf::OBJECT },
        _ => Elf::OBJECT,
    };
    let sections: Vec<Section<'_>> = sections
        .into_iter()
        .map(|(name, data)| match name {
            ".llvm.offloading" => Section::new(name, data).offloading(),
            ".text" => Section::new(name, data),
            _ => Section { kind: SHT_PROGBITS, ..Section::new(name, data).aligned(4096) },
        })
        .collect();
    elf.write(&sections)
}

/// What serves GPUs together: the code of a unit, or of the files of a directory.
#[derive(Clone, Debug)]
pub struct Serving {
    pub codes: Vec<Code>,
    /// The sets of code objects from which a runtime chooses one: one set unless several files serve together.
    pub choices: Vec<Vec<Code>>,
    /// Whether a linker reads the code, which takes all of it for a GPU.
    pub is_linked: bool,
    /// Whether it should serve all GPUs of its vendors: a code object in an archive need not.
    pub is_unit: bool,
    /// Whether it is the device images of a library.
    pub is_images: bool,
}

impl Serving {
    pub fn of_codes(codes: Vec<Code>) -> Self {
        Self { choices: vec![codes.clone()], codes, is_linked: false, is_unit: true, is_images: false }
    }

    fn of_unit(unit: &Unit) -> Self {
        let of_codes = Self { is_linked: unit.is_linked(), ..Self::of_codes(unit.codes.clone()) };
        match unit.form {
            Form::Images { archive: true, .. } => Self { is_images: true, ..of_codes },
            // A program may need each image.
            Form::Images { archive: false, .. } => {
                let choices = unit.codes.iter().map(|code| vec![*code]).collect();
                Self { is_images: true, choices, ..of_codes }
            }
            _ => of_codes,
        }
    }

    /// Whether it is for GPUs of this GPU's vendor.
    pub fn is_for(&self, gpu: &str) -> bool {
        self.is_unit && self.codes.iter().any(|code| Vendor::of(code.target) == Vendor::of(gpu))
    }

    pub fn serves(&self, gpu: &str) -> bool {
        serve(&self.codes, gpu)
    }

    /// The number of code objects that a runtime loads on the GPUs that a name means.
    pub fn loaded(&self, gpu: &str) -> usize {
        self.choices.iter().map(|codes| loaded(codes, gpu).len()).sum()
    }

    /// The number of code objects that `recompress --keep-for` keeps for a GPU.
    pub fn kept(&self, gpu: &str) -> usize {
        let is_taken = |code: &Code| gpus(gpu).iter().any(|gpu| code.is_taken_by(gpu));
        let of = |codes: &Vec<Code>| {
            let mut kept = loaded(codes, gpu);
            kept.extend(codes.iter().filter(|code| code.target == gpu || self.is_linked && is_taken(code)));
            kept.len()
        };
        self.choices.iter().map(of).sum()
    }
}

/// The code objects of a choice that a runtime loads on the GPUs that a name means.
fn loaded(codes: &[Code], gpu: &str) -> BTreeSet<Code> {
    let settings = gpus(gpu).into_iter().flat_map(|gpu| settings(&gpu));
    let best = |setting: String| {
        let ranks = codes.iter().enumerate().filter_map(|(at, code)| Some((rank(&setting, code.target)?, at)));
        ranks.min().map(|(_, at)| codes[at])
    };
    settings.filter_map(best).collect()
}

/// Whether some of the code runs on a GPU in each of the settings that its name leaves open.
pub fn serve(codes: &[Code], gpu: &str) -> bool {
    settings(gpu).iter().all(|setting| codes.iter().any(|code| rank(setting, code.target).is_some()))
}
