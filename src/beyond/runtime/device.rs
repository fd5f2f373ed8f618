//! A GPU, and the code that its runtime takes for it.
//!
//! | GPU | code that runs there, in the order of preference |
//! |---|---|
//! | AMD's | code for the same processor, with the same features or with features left open, the first in the bundle; code for its generic target, likewise; SPIR-V |
//! | Intel's | machine code for the same GPU; for a GPU that Intel's runtime lists as compatible, or for the whole product family; SPIR-V |
//! | NVIDIA's | machine code of the same major version and of the same minor version or an earlier one, the latest first; PTX of the same version or an earlier one; LTO-IR likewise, if a bundle has nothing else |
//!
//! NVIDIA's code with the suffix `a` runs on one version only. Code with the suffix `f` runs on GPUs of the same
//! family: the same major version, and the same minor version or a later one. Embedded GPUs (Tegra) take machine code
//! for their own version only. LTO-IR is not loaded: programs link it for their GPU with NVIDIA's nvJitLink.
//!
//! Sources: CLR's `hip_fatbin.cpp` of ROCm 7 and comgr's rules for features; for Intel, see `code/intel_gpu.rs`;
//! NVIDIA's CUDA C++ Programming Guide on binary and PTX compatibility, and the documentation of nvcc on GPU families,
//! of CUDA 13.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};

use super::code::{Code, GpuVendor, Sm, Suffix};
use super::names::{Named, processor_in, products_of};
use crate::base::id::processors::{self, Processor, ProcessorKind};
use crate::base::id::target_id::TargetId;
use crate::beyond::code::intel_gpu;
use crate::beyond::ids::{ANY_PTX, bitcode_counterpart, is_any_ptx, vendor_kind_of_processor};

/// A GPU, as its name describes it.
///
/// | name | GPU |
/// |---|---|
/// | `gfx90a:sramecc+:xnack-` | AMD's, with these settings |
/// | `gfx90a` | AMD's, in each setting of the features that are not named |
/// | `gfx11-generic` | any of AMD's that runs code of this generic target |
/// | `sm_90` | NVIDIA's of this compute capability |
/// | `sm_90a`, `sm_100f` | the same, with code that uses features of this version, or of its family, alone |
/// | `compute_90` | any of NVIDIA's of this or a later version, with PTX of this or an earlier one |
/// | `lto_90` | the same, with LTO-IR, which programs link at run time |
/// | `amdgcnspirv` | any of AMD's, with SPIR-V |
/// | `spir64`, `spirv64` | any of Intel's, with SPIR-V |
/// | `bmg-g21`, `12.55.8`, `dg2` | Intel's of this name or IP version, or all of a product family |
/// | others, such as `mp_31` | other vendors', with code of exactly this target ID |
/// | `RTX 4090`, `Instinct MI300X`, `Arc B580` | the GPU of this product |
/// | `8.6`, `9.0a` | NVIDIA's of this compute capability, as PyTorch writes it |
///
/// Devices are equal if they mean the same GPU, whatever was typed for it.
#[derive(Clone, Debug)]
pub struct Device {
    name: String,
    /// The name of a product or another name that was typed for the GPU.
    typed: Option<String>,
    /// The GPU with each setting of features that its name leaves open, such as XNACK on and off. A bundle has to serve
    /// all variants.
    variants: Vec<GpuVariant>,
    /// Whether only machine code counts: none that is compiled when a program starts.
    is_without_jit: bool,
    /// The CUDA release of the driver, which reads code of its release and of earlier ones. `None` for any driver.
    driver: Option<(u16, u16)>,
}

/// A GPU with known features.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum GpuVariant {
    /// An AMD GPU, and the generic target whose code it takes too, if there is one.
    Amd(TargetId, Option<TargetId>),
    /// All AMD GPUs, which take SPIR-V alone.
    AmdSpirV,
    /// An NVIDIA GPU. A suffix means that it takes code with this suffix alone.
    Nvidia(Sm),
    /// All NVIDIA GPUs of this version and later ones, which take PTX alone.
    Ptx(Sm),
    /// All NVIDIA GPUs of this version and later ones, which take LTO-IR alone.
    LtoIr(Sm),
    /// An Intel GPU, with its main name.
    Intel(String),
    /// All Intel GPUs, which take SPIR-V alone.
    IntelSpirV,
    /// Another GPU, with the target IDs of the code that it takes, the best first.
    Other(Vec<String>),
}

/// The error for a text that is not the name of a GPU.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not the name of a GPU: {reason}")]
pub struct DeviceError {
    text: String,
    reason: String,
}

impl DeviceError {
    fn new(text: &str, reason: impl fmt::Display) -> Self {
        Self { text: text.to_owned(), reason: reason.to_string() }
    }

    /// The text that is not the name of a GPU.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The rank of code that serves a GPU; the runtime chooses the lowest. The fields are compared in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// The form of the code, in the order of preference of the table at the head of this file. Machine code is 0.
    form: u32,
    /// The version of the GPU minus the version of the code: the latest code is best. 0 for other GPUs than NVIDIA's.
    distance: u32,
    /// The suffix of the code. Code that uses more features is better.
    suffix: Suffix,
}

/// AMD GPUs whose XNACK cannot be off, so that code for XNACK off need not exist.
const ALWAYS_XNACK: [&str; 3] = ["gfx12-5-generic", "gfx1250", "gfx1251"];

/// NVIDIA's embedded GPUs, which share no machine code with others of their major version.
const EMBEDDED: [u32; 8] = [32, 53, 62, 72, 87, 88, 101, 110];

/// A version later than any GPU's. The device `ptx` has it, and so takes PTX of any version without a suffix.
const LATEST: Sm = Sm { number: u32::MAX, suffix: Suffix::None };

/// Parses a device, as [`Device::parse`].
impl std::str::FromStr for Device {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        Self::parse(text)
    }
}

impl Device {
    /// Parses the name of a GPU or of a product. `ptx` means any GPU later than all known ones: such GPUs take PTX of any
    /// version without a suffix.
    ///
    /// ```
    /// let device: offload_bundle::runtime::Device = "RTX 4090".parse()?;
    /// assert_eq!((device.name(), device.products()[0]), ("sm_89", "L4"));
    /// # Ok::<(), offload_bundle::runtime::DeviceError>(())
    /// ```
    ///
    /// # Errors
    /// [`DeviceError`] for a text that names no GPU or several, and for features that its processor does not have.
    pub fn parse(text: &str) -> Result<Self, DeviceError> {
        match Self::all_named(text)? {
            devices if devices.len() > 1 => {
                let names: Vec<&str> = devices.iter().map(Self::name).collect();
                Err(DeviceError::new(text, format!("it means several: {}", names.join(", "))))
            }
            devices => devices.into_iter().next().ok_or_else(|| DeviceError::new(text, NOT_A_GPU)),
        }
    }

    /// Returns the GPUs that a name means: several for `sm_90+ptx`, which means `sm_90` and `compute_90`, and for the
    /// names of series, such as Meteor Lake.
    fn all_named(text: &str) -> Result<Vec<Self>, DeviceError> {
        let mut devices = Vec::new();
        let named = Named::of(text);
        for target in &named.targets {
            let mut device = Self::of_target(target).map_err(|error| DeviceError { text: text.to_owned(), ..error })?;
            // Processors have other names too, such as `acm-g10` for `dg2-g10`.
            let name = named.name.unwrap_or(processor_in(target));
            if !processor_in(&device.name).eq_ignore_ascii_case(name) {
                device.typed = Some(name.to_owned());
            }
            devices.push(device);
        }
        Ok(devices)
    }

    fn new(name: &str, variants: Vec<GpuVariant>) -> Self {
        Self { name: name.to_owned(), typed: None, variants, is_without_jit: false, driver: None }
    }

    /// Returns the GPU with the name of a target.
    fn of_target(text: &str) -> Result<Self, DeviceError> {
        let device = |name: &str, variants| Ok(Self::new(name, variants));
        if is_any_ptx(text) {
            return device(ANY_PTX, vec![GpuVariant::Ptx(LATEST)]);
        }
        if let Some((form @ ("sm" | "compute" | "lto"), sm)) = text.split_once('_') {
            let sm = Sm::parse(sm).ok_or_else(|| DeviceError::new(text, NOT_SM))?;
            let variant = match form {
                "sm" => GpuVariant::Nvidia(sm),
                "compute" => GpuVariant::Ptx(sm),
                _ => GpuVariant::LtoIr(sm),
            };
            return device(text, vec![variant]);
        }
        if let Some(name) = intel_gpu::canonical(text) {
            return device(&name, intel_variants(&name));
        }
        // LLVM has another name for one of Intel's GPUs, `bmg_g21`.
        if processors::find(text).is_some()
            && let Some(name) = intel_gpu::name_of_target(text)
        {
            return device(&name, intel_variants(&name));
        }
        if matches!(Code::from_name(text), Some(Code::SpirV(_))) {
            return device(text, vec![GpuVariant::IntelSpirV]);
        }
        let target = text.parse::<TargetId>().map_err(|reason| DeviceError::new(text, reason))?;
        target.check_features().map_err(|reason| DeviceError::new(text, reason))?;
        // The canonical name, also for the alternative name of a processor.
        let name = target.to_string();
        let variants = variants_of(target).ok_or_else(|| DeviceError::new(text, NOT_A_GPU))?;
        device(&name, variants)
    }

    /// Parses a list of names, separated by commas, semicolons or lines. White space separates names too, except in
    /// names of products. `sm_90+ptx` means `sm_90` and `compute_90`.
    ///
    /// # Errors
    /// The error of [`parse`](Self::parse) for the first name that it rejects.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, DeviceError> {
        let mut devices = Vec::new();
        for item in text.split([',', ';', '\n']).map(str::trim).filter(|item| !item.is_empty()) {
            for device in Self::all_in(item)? {
                if !devices.contains(&device) {
                    devices.push(device);
                }
            }
        }
        Ok(devices)
    }

    /// Returns the GPUs in an item of a list: a name with or without spaces, or several names.
    fn all_in(item: &str) -> Result<Vec<Self>, DeviceError> {
        let as_one_name = Self::all_named(item);
        let words: Vec<&str> = item.split_whitespace().collect();
        let (mut devices, mut rest) = (Vec::new(), words.as_slice());
        // The longest name comes first: `RTX 4090 gfx906` are two.
        while as_one_name.is_err() && !rest.is_empty() {
            let lengths = (1..=rest.len()).rev();
            let mut names = lengths.filter_map(|length| rest.split_at_checked(length));
            match names.find_map(|(name, others)| Some((Self::all_named(&name.join(" ")).ok()?, others))) {
                Some((named, others)) => {
                    devices.extend(named);
                    rest = others;
                }
                // If the first word is not a GPU, the error is about the as_one_name name.
                None if devices.is_empty() => return as_one_name,
                None => return Self::all_named(&unknown_name(rest)),
            }
        }
        if devices.is_empty() { as_one_name } else { Ok(devices) }
    }

    /// Returns the GPU that code is for, or `None` if the name of its target does not name a GPU.
    pub(crate) fn from_code(code: &Code) -> Option<Self> {
        if let Code::Other(target) = code
            && let Some(gpu) = intel_gpu::name_of_target(target)
        {
            return Some(Self::new(target, intel_variants(&gpu)));
        }
        Self::of_target(&code.name()).ok()
    }

    /// The names of the products that have this GPU. For a target that several GPUs run, such as `gfx11-generic`,
    /// those of all of them. Empty for PTX and SPIR-V, which are compiled for any GPU, and if no table has any.
    pub fn products(&self) -> Vec<&'static str> {
        products_of(&self.name)
    }

    /// Whether any public table has this GPU. Other names mean GPUs that may be newer than the tables.
    pub fn is_known(&self) -> bool {
        let is_in_table = |name: String| processors::find(&name).is_some();
        self.variants.iter().all(|variant| match variant {
            GpuVariant::Amd(target, _) => is_in_table(target.processor().to_owned()),
            GpuVariant::Nvidia(sm) => is_in_table(Code::Cubin(Sm { suffix: Suffix::None, ..*sm }, None).name()),
            GpuVariant::Intel(name) => intel_gpu::all().any(|gpu| gpu.name == name),
            GpuVariant::AmdSpirV
            | GpuVariant::IntelSpirV
            | GpuVariant::Ptx(_)
            | GpuVariant::LtoIr(_)
            | GpuVariant::Other(_) => true,
        })
    }

    /// Returns the GPU with the name that was typed for it, which messages show.
    #[cfg(feature = "cli")]
    pub(crate) fn typed_as(self, name: &str) -> Self {
        Self { typed: Some(name.to_owned()), ..self }
    }

    /// Returns the name that was typed for the GPU, if it differs from the [canonical](Self::name) one.
    #[cfg(feature = "cli")]
    pub(crate) fn typed(&self) -> Option<&str> {
        self.typed.as_deref()
    }

    /// The name in quotes, for messages about it: `'gfx90a'`, or `'H100' (sm_90)` if a product was typed.
    pub(crate) fn quoted(&self) -> String {
        match &self.typed {
            Some(typed) => format!("'{typed}' ({})", self.name),
            None => format!("'{}'", self.name),
        }
    }

    /// The canonical name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the name means a single GPU and any code for it, such as `gfx90a` or `sm_90`. Other names mean all GPUs
    /// that run generic code, PTX or SPIR-V (`gfx11-generic`, `compute_90`), or a GPU with code for it alone
    /// (`sm_90a`).
    pub fn is_one(&self) -> bool {
        match self.variants.first() {
            Some(GpuVariant::Amd(target, _)) => !target.processor().ends_with("-generic"),
            Some(GpuVariant::Nvidia(sm)) => sm.suffix == Suffix::None,
            Some(GpuVariant::AmdSpirV | GpuVariant::IntelSpirV | GpuVariant::Ptx(_) | GpuVariant::LtoIr(_)) | None => {
                false
            }
            Some(GpuVariant::Intel(_)) => self.variants.len() == 1,
            Some(GpuVariant::Other(_)) => true,
        }
    }

    /// Whether code with this target ID runs on the GPU in at least one of the settings that the name leaves open.
    ///
    /// ```
    /// let sm_89 = offload_bundle::runtime::Device::parse("sm_89")?;
    /// assert!(sm_89.runs("sm_86") && sm_89.runs("compute_75") && !sm_89.runs("sm_90"));
    /// # Ok::<(), offload_bundle::runtime::DeviceError>(())
    /// ```
    pub fn runs(&self, target: &str) -> bool {
        match Code::from_name(target) {
            Some(code) => self.takes(&code),
            None => false,
        }
    }

    /// Returns the GPUs that the name means, with all code that they take. A name such as `sm_90a` means less as a
    /// device: only code of this name. The GPU of compute capability 9.0 runs `sm_90` too. In the same way, a processor
    /// of a generic target also takes code for itself, and bitcode is compiled for its processor.
    pub(crate) fn gpus(&self) -> Self {
        let variants = self.variants.iter().flat_map(GpuVariant::gpus).collect();
        Self { variants, ..self.clone() }
    }

    /// Returns the GPU as one that takes only machine code. Returns `None` if the name means GPUs by the code that is
    /// compiled for them, as `compute_90` does.
    pub fn without_jit(&self) -> Option<Self> {
        if self.is_by_code() { None } else { Some(Self { is_without_jit: true, ..self.clone() }) }
    }

    /// Returns whether the name means GPUs by the code that is compiled for them, as `compute_90` does.
    pub(crate) fn is_by_code(&self) -> bool {
        self.variants.iter().any(|variant| match variant {
            GpuVariant::AmdSpirV | GpuVariant::IntelSpirV | GpuVariant::Ptx(_) | GpuVariant::LtoIr(_) => true,
            GpuVariant::Amd(..) | GpuVariant::Nvidia(_) | GpuVariant::Intel(_) | GpuVariant::Other(_) => false,
        })
    }

    /// Returns whether the settings of the device allow some code: its driver reads it, and it is machine code if only
    /// machine code counts. The GPU may not take the code.
    fn allows(&self, code: &Code) -> bool {
        !(self.is_without_jit && code.is_jit()) && self.beyond_driver(code).is_none()
    }

    /// Returns the GPU of a machine whose driver is of this CUDA release. Code that the driver does not read does not
    /// serve the GPU.
    pub(crate) fn with_driver(self, cuda: Option<(u16, u16)>) -> Self {
        Self { driver: cuda, ..self }
    }

    /// Says what some code needs that the driver of the GPU's machine does not have, as in `PTX 9.0 needs a driver of CUDA
    /// 13.0, and this machine has 12.4`. Returns `None` if the driver reads the code.
    fn beyond_driver(&self, code: &Code) -> Option<String> {
        let driver @ (major, minor) = self.driver?;
        let needed = code.need()?.beyond(driver)?;
        Some(format!("{needed}, and this machine has {major}.{minor}"))
    }

    /// Says what the driver of the GPU's machine lacks for the first of `codes` that the GPU takes and the driver does
    /// not read. Returns `None` if the driver reads all that the GPU takes.
    pub(crate) fn unread_by_driver<'c>(&self, mut codes: impl Iterator<Item = &'c Code>) -> Option<String> {
        let takes = |code: &Code| self.variants.iter().any(|variant| variant.rank(code).is_some());
        codes.find_map(|code| self.beyond_driver(code).filter(|_| takes(code)))
    }

    /// Describes a bundle without any code for the GPU, for the end of a message.
    pub(crate) fn describe_lack(&self) -> String {
        match self.variants.first() {
            Some(GpuVariant::Ptx(LATEST)) => "it has no PTX".to_owned(),
            Some(GpuVariant::Ptx(_)) => format!("it has no PTX for {self} or an earlier version"),
            Some(GpuVariant::LtoIr(_)) => format!("it has no LTO-IR for {self} or an earlier version"),
            _ if self.is_without_jit => format!("it has no machine code for {self}"),
            _ => format!("it does not serve {self}"),
        }
    }

    /// Returns the vendor of the GPU.
    pub(crate) fn vendor(&self) -> GpuVendor {
        match self.variants.first() {
            Some(GpuVariant::Amd(..) | GpuVariant::AmdSpirV) => GpuVendor::Amd,
            Some(GpuVariant::Nvidia(_) | GpuVariant::Ptx(_) | GpuVariant::LtoIr(_)) => GpuVendor::Nvidia,
            Some(GpuVariant::Intel(_) | GpuVariant::IntelSpirV) => GpuVendor::Intel,
            Some(GpuVariant::Other(targets)) => {
                match targets.first().and_then(|target| vendor_kind_of_processor(target)) {
                    Some(kind) => GpuVendor::Of(kind),
                    None => GpuVendor::Other,
                }
            }
            None => GpuVendor::Other,
        }
    }

    /// Returns whether machine code for the GPU records the registers that kernels spill. Only compilers for AMD GPUs
    /// record them.
    pub(crate) fn records_spills(&self) -> bool {
        matches!(self.variants.first(), Some(GpuVariant::Amd(..)))
    }

    /// Returns whether the GPU takes some code in at least one of the settings that the name leaves open.
    pub(crate) fn takes(&self, code: &Code) -> bool {
        self.allows(code) && self.variants.iter().any(|variant| variant.rank(code).is_some())
    }

    /// Returns the processor that users of this GPU name in `HSA_OVERRIDE_GFX_VERSION` to run its code, if `codes` has
    /// code for that processor. Nobody promises that it works.
    pub(crate) fn overriding<'c>(&self, mut codes: impl Iterator<Item = &'c Code>) -> Option<&'static str> {
        let Some(GpuVariant::Amd(this_gpu, _)) = self.variants.first() else { return None };
        // The pairs that people use: later steppings of a generation, with the instructions of the first one.
        let similar = match this_gpu.processor() {
            "gfx90c" => "gfx900",
            "gfx1031" | "gfx1032" | "gfx1033" | "gfx1034" | "gfx1035" | "gfx1036" => "gfx1030",
            "gfx1101" | "gfx1102" | "gfx1103" => "gfx1100",
            _ => return None,
        };
        let has_similar = codes.any(|code| matches!(code, Code::Amd(target) if target.processor() == similar));
        has_similar.then_some(similar)
    }

    /// Returns the variants of the GPU that take none of the codes of a bundle.
    pub(crate) fn unserved_variants<'c>(
        &self,
        codes: impl Iterator<Item = &'c Code> + Clone,
    ) -> impl Iterator<Item = &GpuVariant> {
        let codes = codes.filter(|code| self.allows(code));
        self.variants.iter().filter(move |variant| codes.clone().all(|code| variant.rank(code).is_none()))
    }

    /// Returns whether the name leaves settings of one GPU open, such as that of XNACK.
    #[cfg(feature = "cli")]
    pub(crate) fn has_open_settings(&self) -> bool {
        self.variants.len() > 1 && self.is_one()
    }

    /// Returns the number of variants of the GPU.
    pub(crate) fn variant_count(&self) -> usize {
        self.variants.len()
    }

    /// Returns the keys of the code objects that the runtime chooses: the best one for each variant of the GPU. Among
    /// code of the same rank, that is the lowest key. A variant that takes none of the code has no choice.
    pub(crate) fn choose<K: Copy + Ord>(&self, codes: &[(K, Code)]) -> BTreeSet<K> {
        let mut chosen = BTreeSet::new();
        for variant in &self.variants {
            let allowed = codes.iter().filter(|(_, code)| self.allows(code));
            let ranked = allowed.filter_map(|(key, code)| Some((variant.rank(code)?, *key)));
            if let Some((_, best)) = ranked.min() {
                chosen.insert(best);
            }
        }
        chosen
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        let settings = |device: &Self| (device.is_without_jit, device.driver);
        (&self.name, &self.variants, settings(self)) == (&other.name, &other.variants, settings(other))
    }
}

impl Eq for Device {}

impl Hash for Device {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// Writes the name, after that of the product if one was typed: `H100 (sm_90)`.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.typed {
            Some(typed) => write!(f, "{typed} ({})", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Returns the unknown name at the start of some words: a word with a digit, such as a processor, or all of them.
fn unknown_name(words: &[&str]) -> String {
    match words {
        [first, ..] if first.contains(|c: char| c.is_ascii_digit()) => (*first).to_owned(),
        words => words.join(" "),
    }
}

const NOT_A_GPU: &str = "expected a name like gfx90a:xnack+ or sm_90";

const NOT_SM: &str = "expected a number of two or three digits, and the suffix a, f or none";

/// Returns the Intel GPUs with a main name: several for a product family.
fn intel_variants(name: &str) -> Vec<GpuVariant> {
    intel_gpu::members(name).into_iter().map(GpuVariant::Intel).collect()
}

/// Returns the variants of a GPU that is not NVIDIA's, or `None` if no GPU of another vendor has this name.
fn variants_of(target: TargetId) -> Option<Vec<GpuVariant>> {
    let processor = target.processor().to_owned();
    match processors::find(&processor).map(|known| known.kind) {
        Some(ProcessorKind::SpirV) => Some(vec![GpuVariant::AmdSpirV]),
        Some(ProcessorKind::Other | ProcessorKind::R600) => Some(vec![GpuVariant::Other(vec![target.to_string()])]),
        // The caller has parsed NVIDIA's names already.
        Some(ProcessorKind::Nvidia) => None,
        Some(ProcessorKind::AmdGcn) => {
            let known = processors::find(&processor)?;
            Some(target_variants(&target, known).into_iter().map(GpuVariant::amd).collect())
        }
        // A processor that is newer than the table.
        None if is_like_a_processor(&processor) => Some(vec![GpuVariant::amd(target)]),
        None if vendor_kind_of_processor(&processor).is_some() => {
            Some(vec![GpuVariant::Other(vec![target.to_string()])])
        }
        None => None,
    }
}

/// Returns whether a name looks like a processor of AMD's that is newer than the table: `gfx1310`, `gfx13-generic`.
fn is_like_a_processor(name: &str) -> bool {
    let Some(number) = name.strip_prefix("gfx") else { return false };
    // A number is the major version, and one hexadecimal digit each for the minor version and the stepping.
    match number.strip_suffix("-generic") {
        Some(family) => !family.is_empty() && family.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'),
        None => (3..=5).contains(&number.len()) && number.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')),
    }
}

/// Returns a target ID once with each combination of settings of the features that it leaves open.
fn target_variants(target: &TargetId, processor: &Processor) -> Vec<TargetId> {
    let mut all = vec![target.to_string()];
    for &feature in processor.features {
        if target.features().any(|(set, _)| set == feature) {
            continue;
        }
        let is_always_on = feature == "xnack" && ALWAYS_XNACK.contains(&processor.name);
        let signs: &[char] = if is_always_on { &['+'] } else { &['+', '-'] };
        all = all.iter().flat_map(|text| signs.iter().map(move |sign| format!("{text}:{feature}{sign}"))).collect();
    }
    all.into_iter().filter_map(|text| text.parse().ok()).collect()
}

/// Returns the variants of all processors that run code of a generic target.
fn variants_of_generic(generic: &TargetId) -> Vec<GpuVariant> {
    let text = generic.to_string();
    // The features as text, such as `:xnack+`.
    let features = text.strip_prefix(generic.processor()).unwrap_or_default();
    let mut variants = Vec::new();
    for known in processors::all() {
        if generic_of(known.name) == Some(generic.processor())
            && let Ok(target) = (known.name.to_owned() + features).parse()
        {
            variants.extend(variants_of(target).unwrap_or_default());
        }
    }
    variants
}

/// Returns the generic target whose code CLR, AMD's HIP runtime, takes for a processor. Returns `None` if the processor
/// has no generic target.
fn generic_of(processor: &str) -> Option<&'static str> {
    Some(match processor {
        "gfx900" | "gfx902" | "gfx904" | "gfx906" | "gfx909" | "gfx90c" => "gfx9-generic",
        "gfx942" | "gfx950" => "gfx9-4-generic",
        "gfx1010" | "gfx1011" | "gfx1012" | "gfx1013" => "gfx10-1-generic",
        "gfx1030" | "gfx1031" | "gfx1032" | "gfx1033" | "gfx1034" | "gfx1035" | "gfx1036" => "gfx10-3-generic",
        "gfx1100" | "gfx1101" | "gfx1102" | "gfx1103" | "gfx1150" | "gfx1151" | "gfx1152" | "gfx1153" => {
            "gfx11-generic"
        }
        "gfx1200" | "gfx1201" => "gfx12-generic",
        _ => return None,
    })
}

/// Returns the target ID of the generic target of a processor, or `None` if the processor has none. It has the features
/// of `target`, except for features that the generic target does not know.
fn generic_target_of(target: &TargetId) -> Option<TargetId> {
    let generic = generic_of(target.processor())?;
    let known = processors::find(generic)?;
    let mut text = generic.to_owned();
    for (name, is_on) in target.features() {
        if known.features.contains(&name) {
            text.extend([":", name, if is_on { "+" } else { "-" }]);
        }
    }
    text.parse().ok()
}

impl GpuVariant {
    /// Returns the variant of an AMD GPU with this target ID.
    fn amd(target: TargetId) -> Self {
        let generic = generic_target_of(&target);
        Self::Amd(target, generic)
    }

    /// Returns the GPUs that the variant means, with all code that they take: see [`Device::gpus`].
    fn gpus(&self) -> Vec<Self> {
        match self {
            Self::Nvidia(sm) => vec![Self::Nvidia(Sm { suffix: Suffix::None, ..*sm })],
            Self::Amd(target, _) => {
                // No processors are added unless the target is generic.
                let mut gpus = variants_of_generic(target);
                gpus.push(self.clone());
                gpus
            }
            Self::Other(targets) => {
                // Alphabetical order puts the better code first: `xcore1000`, machine code, before `xcore1000-bc`,
                // bitcode.
                let mut all: BTreeSet<String> = targets.iter().cloned().collect();
                all.extend(targets.iter().filter_map(|target| bitcode_counterpart(target)));
                vec![Self::Other(all.into_iter().collect())]
            }
            Self::AmdSpirV | Self::Ptx(_) | Self::LtoIr(_) | Self::Intel(_) | Self::IntelSpirV => vec![self.clone()],
        }
    }

    /// Returns the rank of some code on the GPU, or `None` if the code does not run there.
    pub(crate) fn rank(&self, code: &Code) -> Option<Rank> {
        /// PTX and LTO-IR are compiled for the GPU when the program runs, so any later version takes them.
        const TAKES_EARLIER: bool = true;
        // The form is the kind of the code. The lowest is the best: machine code for the GPU itself is 0. Of two codes
        // of one form, the nearer version is better, and then the narrower suffix.
        let (form, distance, suffix) = match (self, code) {
            (Self::Amd(gpu, _), Code::Amd(target)) if target.compatibility(gpu).is_compatible() => (0, 0, Suffix::None),
            (Self::Amd(_, Some(generic)), Code::Amd(target)) if target.compatibility(generic).is_compatible() => {
                (1, 0, Suffix::None)
            }
            (Self::Amd(..) | Self::AmdSpirV, Code::AmdSpirV) => (2, 0, Suffix::None),
            (Self::Nvidia(gpu), Code::Cubin(code, _)) => {
                (0, code.distance_to(*gpu, is_same_line(*code, *gpu))?, code.suffix)
            }
            (Self::Nvidia(gpu), Code::Ptx(code, _)) => (1, code.distance_to(*gpu, TAKES_EARLIER)?, code.suffix),
            (Self::Nvidia(gpu), Code::LtoIr(code)) => (2, code.distance_to(*gpu, TAKES_EARLIER)?, code.suffix),
            // These variants mean all later GPUs too, so all of them have to take the code.
            (Self::Ptx(gpu), Code::Ptx(code, _)) | (Self::LtoIr(gpu), Code::LtoIr(code)) => {
                (1, code.distance_to_virtual(*gpu)?, code.suffix)
            }
            (Self::Intel(gpu), Code::Other(target)) => {
                (intel_gpu::preference(&intel_gpu::name_of_target(target)?, gpu)?, 0, Suffix::None)
            }
            (Self::Intel(_) | Self::IntelSpirV, Code::SpirV(_)) => (2, 0, Suffix::None),
            // The targets are in the order of preference, so their index is the form.
            (Self::Other(taken), Code::Other(target)) => {
                let (form, _) = (0..).zip(taken).find(|(_, taken)| *taken == target)?;
                (form, 0, Suffix::None)
            }
            _ => return None,
        };
        Some(Rank { form, distance, suffix })
    }

    /// Returns the features with their settings, such as `xnack+`. Returns no features for GPUs of other vendors than
    /// AMD.
    pub(crate) fn features(&self) -> Vec<String> {
        let Self::Amd(target, _) = self else { return Vec::new() };
        target.features().map(|(name, on)| format!("{name}{}", if on { '+' } else { '-' })).collect()
    }
}

impl Sm {
    /// Returns the version of a GPU minus the version of some code, or `None` if the code does not run there. Code for
    /// a version later than the GPU never runs. `takes_earlier` says whether the GPU takes code of this version if the
    /// version is earlier. Code with a suffix has to meet the rule for its suffix too.
    fn distance_to(self, gpu: Self, takes_earlier: bool) -> Option<u32> {
        let is_same = self.number == gpu.number;
        let is_family = is_same || (self.capability().0 == gpu.capability().0 && takes_earlier);
        // Code with the suffix `f` runs on the GPUs of its family, code with `a` only on its own GPU. A GPU that is
        // named with a suffix, such as `sm_90a`, asks for code with this suffix or a narrower one.
        let runs = match (gpu.suffix, self.suffix) {
            (Suffix::None, Suffix::None) => is_same || takes_earlier,
            (Suffix::None | Suffix::Family, Suffix::Family) => is_family,
            (_, Suffix::Architecture) => is_same,
            (Suffix::Family | Suffix::Architecture, _) => false,
        };
        // The subtraction fails for code later than the GPU.
        if runs { gpu.number.checked_sub(self.number) } else { None }
    }

    /// Returns the version of a virtual architecture minus the version of PTX or LTO-IR. Returns `None` if the code is
    /// later, or if a suffix binds it or the virtual architecture to other GPUs.
    fn distance_to_virtual(self, virtual_sm: Self) -> Option<u32> {
        let has_suffix = self.suffix != Suffix::None || virtual_sm.suffix != Suffix::None;
        if has_suffix && self != virtual_sm {
            return None;
        }
        virtual_sm.number.checked_sub(self.number)
    }
}

/// Returns whether a GPU takes machine code of this version, provided that it is not later than the GPU's. That is code
/// of the same version, or of the same major version if neither is of an embedded GPU.
fn is_same_line(code: Sm, gpu: Sm) -> bool {
    let is_embedded = EMBEDDED.contains(&code.number) || EMBEDDED.contains(&gpu.number);
    code.number == gpu.number || (code.capability().0 == gpu.capability().0 && !is_embedded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beyond::runtime::code::AMD_SPIR_V;

    #[test]
    fn a_gpu_runs_code_for_it_and_no_other() {
        for (gpu, target, runs) in [
            ("gfx90a", "gfx90a", true),
            ("gfx90a", "gfx906", false),
            ("gfx90a:xnack-", "gfx90a:xnack+", false),
            ("gfx90a", "no target", false),
            ("sm_89", "compute_75", true),
            ("sm_89", "sm_90", false),
            ("ptx", "compute_121", true),
            ("PTX", "compute_50", true),
            ("ptx", "compute_90a", false),
            ("ptx", "sm_90", false),
        ] {
            assert_eq!(Device::parse(gpu).unwrap().runs(target), runs, "{gpu} {target}");
        }
    }

    fn codes(names: &[&str]) -> Vec<(usize, Code)> {
        names.iter().enumerate().map(|(index, name)| (index, code(name))).collect()
    }

    fn code(name: &str) -> Code {
        match (name.strip_prefix("sm_"), name.strip_prefix("compute_")) {
            (Some(sm), _) => Code::Cubin(Sm::parse(sm).unwrap(), None),
            (_, Some(sm)) => Code::Ptx(Sm::parse(sm).unwrap(), None),
            _ if name == AMD_SPIR_V => Code::AmdSpirV,
            _ if name.starts_with("lto_") => Code::from_name(name).unwrap(),
            _ if name.starts_with("gfx") => Code::Amd(name.parse().unwrap()),
            _ if name.starts_with("spir") => Code::SpirV(name.to_owned()),
            _ => Code::Other(name.to_owned()),
        }
    }

    /// Returns the code that is chosen for a GPU, and whether all of its variants are served.
    fn chosen(gpu: &str, names: &[&'static str]) -> (Vec<&'static str>, bool) {
        let (device, codes) = (Device::parse(gpu).unwrap(), codes(names));
        let plain: Vec<Code> = codes.iter().map(|(_, code)| code.clone()).collect();
        let is_served = device.unserved_variants(plain.iter()).next().is_none();
        (device.choose(&codes).into_iter().map(|index| names[index]).collect(), is_served)
    }

    #[test]
    fn amd_gpus_take_their_own_code_then_generic_code_then_spir_v() {
        let all = ["amdgcnspirv", "gfx9-generic", "gfx906:xnack-", "gfx906", "gfx11-generic", "gfx908", "gfx1100"];
        for (gpu, expected) in [
            ("gfx906:sramecc+:xnack-", &["gfx906:xnack-"][..]),
            ("gfx906:sramecc+:xnack+", &["gfx906"]),
            ("gfx906", &["gfx906:xnack-", "gfx906"]),
            ("gfx900:xnack-", &["gfx9-generic"]),
            ("gfx908", &["gfx908"]),
            ("gfx90a", &["amdgcnspirv"]),
            ("gfx1100", &["gfx1100"]),
            ("gfx1152", &["gfx11-generic"]),
            ("gfx11-generic", &["gfx11-generic"]),
            ("gfx1201", &["amdgcnspirv"]),
            ("amdgcnspirv", &["amdgcnspirv"]),
            ("gfx9999", &["amdgcnspirv"]),
        ] {
            assert_eq!(chosen(gpu, &all), (expected.to_vec(), true), "{gpu}");
        }
        assert_eq!(chosen("gfx11-generic", &["gfx1100"]), (vec![], false));
        assert_eq!(chosen("gfx1100", &["gfx1101"]), (vec![], false));
        // Features of the generic target are compared too.
        assert_eq!(chosen("gfx942:xnack+", &["gfx9-4-generic:xnack-"]), (vec![], false));
        assert_eq!(chosen("gfx942:xnack-", &["gfx9-4-generic:xnack-"]), (vec!["gfx9-4-generic:xnack-"], true));
    }

    #[test]
    fn intel_gpus_take_their_own_code_then_compatible_code_then_spir_v() {
        let all = ["spirv64-unknown-unknown", "dg2", "dg2-g10", "dg2-g11", "bmg_g21", "mtl-u", "35.12.0"];
        for (gpu, expected) in [
            ("dg2-g10", &["dg2-g10"][..]),
            ("acm-g11", &["dg2-g11"]),
            ("dg2-g12", &["dg2"]),
            ("bmg-g21", &["bmg_g21"]),
            ("bmg_g21", &["bmg_g21"]),
            ("Arc 140V", &["bmg_g21"]),
            ("mtl-h", &["mtl-u"]),
            ("35.12.0", &["35.12.0"]),
            ("pvc", &["spirv64-unknown-unknown"]),
            // All GPUs of the family.
            ("dg2", &["dg2", "dg2-g10", "dg2-g11"]),
        ] {
            assert_eq!(chosen(gpu, &all), (expected.to_vec(), true), "{gpu}");
        }
        assert_eq!(chosen("dg2", &["dg2-g11"]), (vec!["dg2-g11"], false));
        assert_eq!(chosen("bmg-g21", &["lnl-m", "gfx1100", "compute_50", "amdgcnspirv"]), (vec![], false));
        for gpu in ["sm_90", "gfx1100", "mp_31"] {
            assert_eq!(chosen(gpu, &["spirv64-unknown-unknown", "bmg-g21"]), (vec![], false), "{gpu}");
        }
    }

    #[test]
    fn a_device_is_that_of_its_name_whatever_was_typed() {
        for (typed, name, shown, products) in [
            ("H100", "sm_90", "H100 (sm_90)", 5),
            ("MI250X:xnack-", "gfx90a:xnack-", "MI250X (gfx90a:xnack-)", 3),
            ("8.6", "sm_86", "8.6 (sm_86)", 23),
            ("ats-m150", "dg2-g10", "ats-m150 (dg2-g10)", 8),
            ("fiji", "gfx803", "fiji (gfx803)", 9),
            ("PTX", "ptx", "ptx", 0),
            ("gfx90a:xnack+:sramecc-", "gfx90a:sramecc-:xnack+", "gfx90a:sramecc-:xnack+", 3),
        ] {
            let device: Device = typed.parse().unwrap();
            assert_eq!((device.name(), device.to_string().as_str()), (name, shown), "{typed}");
            assert_eq!(device.products().len(), products, "{typed}");
            assert_eq!(device, Device::parse(name).unwrap());
        }
        let error = Device::parse("sm_90+ptx").unwrap_err();
        assert_eq!(error.to_string(), "'sm_90+ptx' is not the name of a GPU: it means several: sm_90, compute_90");
        for (name, is_known) in
            [("gfx9999", false), ("sm_999", false), ("35.12.0", false), ("sm_90a", true), ("dg2", true), ("ptx", true)]
        {
            assert_eq!(Device::parse(name).unwrap().is_known(), is_known, "{name}");
        }
        // The error is about the whole name, or about the word that is not a GPU.
        for (list, text) in [
            ("H100,RTX 7900 XTX", "RTX 7900 XTX"),
            ("gfx906 gfx1O30", "gfx1O30"),
            ("gfx906 gfx1O30 gfx942", "gfx1O30"),
            ("sm_90 RTX 4091", "RTX 4091"),
            ("dg2_g10", "dg2_g10"),
        ] {
            assert_eq!(Device::parse_list(list).unwrap_err().text(), text);
        }
    }

    #[test]
    fn features_that_a_name_leaves_open_are_served_in_each_setting() {
        let (on, off) = ("gfx90a:xnack+", "gfx90a:xnack-");
        assert_eq!(chosen("gfx90a", &[on, off]), (vec![on, off], true));
        assert_eq!(chosen("gfx90a", &[off]), (vec![off], false));
        assert_eq!(chosen("gfx90a:xnack-", &[off]), (vec![off], true));
        assert_eq!(chosen("gfx90a:sramecc+:xnack-", &[off]), (vec![off], true));
        assert_eq!(chosen("gfx90a:xnack+", &[off]), (vec![], false));
        assert_eq!(chosen("gfx90a", &["gfx90a:sramecc+"]), (vec!["gfx90a:sramecc+"], false));
        assert_eq!(chosen("gfx1250", &["gfx1250:xnack+"]), (vec!["gfx1250:xnack+"], true));
    }

    #[test]
    fn nvidia_gpus_take_the_latest_code_of_their_major_version_then_ptx() {
        let all = ["compute_52", "compute_80", "sm_70", "sm_80", "sm_86", "sm_90a", "sm_100f", "compute_90a", "sm_103"];
        for (gpu, expected) in [
            ("sm_80", Some("sm_80")),
            ("sm_86", Some("sm_86")),
            ("sm_89", Some("sm_86")),
            // An embedded GPU.
            ("sm_87", Some("compute_80")),
            ("sm_72", Some("compute_52")),
            ("sm_75", Some("sm_70")),
            ("sm_90", Some("sm_90a")),
            ("sm_90a", Some("sm_90a")),
            ("sm_100", Some("sm_100f")),
            ("sm_100f", Some("sm_100f")),
            ("sm_100a", None),
            ("sm_103", Some("sm_103")),
            ("sm_103f", Some("sm_100f")),
            ("sm_120", Some("compute_80")),
            ("sm_50", None),
            ("compute_75", Some("compute_52")),
            ("compute_90a", Some("compute_90a")),
            ("compute_50", None),
        ] {
            let (found, is_served) = chosen(gpu, &all);
            assert_eq!((found.first().copied(), is_served), (expected, expected.is_some()), "{gpu}");
        }
        assert_eq!(chosen("sm_103", &["sm_100a", "compute_100a"]), (vec![], false));
        assert_eq!(chosen("sm_90", &["sm_100", "gfx906", "amdgcnspirv"]), (vec![], false));
    }

    #[test]
    fn lto_ir_serves_later_gpus_after_all_other_code() {
        let all = ["lto_80", "lto_90a", "lto_100", "compute_120", "sm_103"];
        for (gpu, expected) in [
            ("sm_75", None),
            ("sm_80", Some("lto_80")),
            ("sm_89", Some("lto_80")),
            ("sm_90", Some("lto_90a")),
            ("sm_100", Some("lto_100")),
            ("sm_103", Some("sm_103")),
            ("sm_120", Some("compute_120")),
            ("lto_75", None),
            ("lto_90", Some("lto_80")),
            ("lto_120", Some("lto_100")),
            ("compute_100", None),
        ] {
            let (found, is_served) = chosen(gpu, &all);
            assert_eq!((found.first().copied(), is_served), (expected, expected.is_some()), "{gpu}");
        }
        assert!(!Device::parse("lto_90").unwrap().is_one());
        assert_eq!(
            Device::parse("lto_90").unwrap().describe_lack(),
            "it has no LTO-IR for lto_90 or an earlier version"
        );
    }

    #[test]
    fn gpus_take_more_than_the_code_of_their_names() {
        for (name, takes, leaves) in [
            ("sm_90a", &["sm_90", "sm_90a", "compute_80"][..], &["sm_100", "sm_80"][..]),
            ("sm_103f", &["sm_100f", "sm_103", "sm_103a", "sm_100"], &["sm_100a", "sm_90"]),
            ("gfx11-generic", &["gfx11-generic", "gfx1100", "gfx1153", "amdgcnspirv"], &["gfx1200", "gfx9-generic"]),
            (
                "gfx9-4-generic:xnack-",
                &["gfx942:xnack-", "gfx950", "gfx9-4-generic:sramecc+"],
                &["gfx942:xnack+", "gfx90a"],
            ),
            ("gfx1100", &["gfx1100", "gfx11-generic"], &["gfx1101"]),
            ("xcore1000", &["xcore1000", "xcore1000-bc"], &["xcore1010"]),
            ("xcore1000-bc", &["xcore1000", "xcore1000-bc"], &["xcore1010-bc"]),
            ("mp_31", &["mp_31"], &["mp_21"]),
            ("compute_80", &["compute_75"], &["sm_80"]),
        ] {
            let gpus = Device::parse(name).unwrap().gpus();
            for target in takes {
                assert!(gpus.takes(&code(target)), "{name} {target}");
            }
            for target in leaves {
                assert!(!gpus.takes(&code(target)), "{name} {target}");
            }
        }
        // A processor is before bitcode for it, whichever is named.
        for name in ["xcore1000", "xcore1000-bc"] {
            let gpus = Device::parse(name).unwrap().gpus();
            assert_eq!(gpus.choose(&codes(&["xcore1000-bc", "xcore1000"])), BTreeSet::from([1]), "{name}");
            assert_eq!(gpus.choose(&codes(&["xcore1010", "xcore1000-bc"])), BTreeSet::from([1]), "{name}");
        }
    }

    #[test]
    fn names_of_gpus() {
        let expected = ["gfx90a:sramecc-:xnack+", "sm_90", "compute_90", "gfx803", "bmg-g21", "sm_89", "gfx1100"];
        let list = "gfx90a:xnack+:sramecc-,sm_90+ptx\nfiji; sm_90 bmg_g21,bmg-g21;sm_90 RTX 4090 RX 7900 XTX fiji";
        let devices = Device::parse_list(list).unwrap();
        assert_eq!(devices.iter().map(Device::name).collect::<Vec<_>>(), expected);
        for text in [
            "gfx90a:xnack",
            "gfx1030:xnack+",
            "sm_",
            "sm_9",
            "sm_090",
            "sm_90x",
            "sm_9999",
            "lib.so",
            "gfx",
            "gfx90",
            "gfx90x.txt",
            "gfx9*",
            "gfx90a+ptx",
            "x+ptx",
            "compute_",
        ] {
            assert!(Device::parse_list(text).is_err(), "{text}");
        }
        assert_eq!(Device::parse("gfx90a").unwrap().variant_count(), 4);
        assert_eq!(Device::parse("gfx1030").unwrap().variant_count(), 1);
    }

    #[test]
    fn new_processors_are_recognised_by_their_names() {
        for (name, is) in [
            ("gfx1310", true),
            ("gfx90a", true),
            ("gfx13-generic", true),
            ("gfx9-5-generic", true),
            ("gfx-generic", false),
            ("gfx13x-generic", false),
            ("gfx13", false),
            ("gfx131313", false),
            ("gfx13g", false),
            ("sm_90", false),
        ] {
            assert_eq!(is_like_a_processor(name), is, "{name}");
        }
        for name in ["mp_31", "xcore1000", "xcore1000-bc", "gcu300", "efgcu500", "gfx936"] {
            assert_eq!(Device::parse(name).unwrap().name(), name);
        }
        for name in ["mp_", "mp_x", "xcore", "xcore1000-", "mp_31-bc", "egcu1", "mp_31:x"] {
            assert!(Device::parse(name).is_err(), "{name}");
        }
        assert_eq!(Device::parse("gfx13x-generic").unwrap_err().text(), "gfx13x-generic");
    }
}
