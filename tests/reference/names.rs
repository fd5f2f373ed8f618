//! Target names: every word of LLVM's triples, in the usual and in other orders, with every processor.

use offload_bundle::id::EntryId;

use super::harness::{Case, Random, Release, Report, Tools, run};
use super::view::ids;
use super::{llvm23, rules};

const ARCHES: &str = "x86_64 amdgcn aarch64 aarch64_32 aarch64_be aarch64_lfi amd64 amdil amdil64 arc arm arm64 \
    arm64_32 arm64e arm64ec armeb avr bpf bpf_be bpf_le bpfeb bpfel csky dxil dxilv1.0 dxilv1.1 dxilv1.2 dxilv1.3 \
    dxilv1.4 dxilv1.5 dxilv1.6 dxilv1.7 dxilv1.8 dxilv1.9 hexagon hsail hsail64 i386 i486 i586 i686 i786 i886 i986 lanai \
    loongarch32 loongarch64 m68k mips mips64 mips64eb mips64el mips64r6 mips64r6el mipsallegrex mipsallegrexel mipseb \
    mipsel mipsisa32r6 mipsisa32r6el mipsisa64r6 mipsisa64r6el mipsn32 mipsn32el mipsn32r6 mipsn32r6el mipsr6 mipsr6el \
    msp430 nvptx nvptx64 powerpc powerpc64 powerpc64le powerpcle powerpcspe ppc ppc32 ppc32le ppc64 ppc64le ppcle ppu \
    r600 renderscript32 renderscript64 riscv32 riscv32be riscv64 riscv64be s390x shave sparc sparc64 sparcel sparcv9 \
    spir spir64 spirv spirv1.5 spirv1.6 spirv32 spirv32v1.0 spirv32v1.6 spirv64 spirv64v1.0 spirv64v1.5 spirv64v1.6 \
    systemz tce tcele thumb thumbeb ve wasm32 wasm64 x86_64h xcore xscale xscaleeb xtensa armv4t armv5te armv6 armv6k \
    armv6m armv7 armv7a armv7s armv7k armv7em armv7l armv7-a armv8a armv8.1a armv8.2-a armv9a armv9.5a armv8m.main \
    armv8.1m.main armv8r thumbv6m thumbv7 thumbv7em thumbv8 thumbv7eb armebv7 armv7eb aarch64v8 arm64v8 kalimba kalimba3 \
    kalimba5 x86 x86-64 i286 arm-none armv99 thumbv1 spirv2.0 dxilv9 AMDGCN gfx906 nvptx128 riscv sparcv8 ''";
const VENDORS: &str = "amd apple csr fsl ibm img intel mesa meta mti nvidia oe pc scei sie suse unknown none redhat \
    w64 rumprun uclinux Apple ''";
const SYSTEMS: &str = "aix aix7.2 amdhsa amdhsa1.0 amdpal bridgeos cheriotrtos cuda darwin darwin9 darwin20.3.0 dragonfly \
    driverkit driverkit19 elfiamcu emscripten freebsd freebsd13.1 fuchsia haiku hermit hurd ios ios14.2 kfreebsd linux \
    linux5.4 liteos lv2 macos macosx macosx10.15 managarm mesa3d mingw32 mingw32msvc mingw64 cygwin netbsd nvcl openbsd \
    ps4 ps5 rtems serenity shadermodel shadermodel6.0 solaris solaris2.11 tvos uefi visionos vulkan vulkan1.3 wasip1 \
    wasip2 wasip3 wasi watchos win32 windows windows10 xros zos unknown none elf linux-gnu android Linux ''";
const ENVIRONMENTS: &str = "amplification android android21 android9999 androideabi anyhit callable closesthit code16 \
    compute coreclr cygnus domain eabihf eabi geometry gnu_ilp32 gnuabi64 gnuabin32 gnueabihft64 gnueabihf gnueabit64 \
    gnueabi gnuf32 gnuf64 gnusf gnut64 gnux32 gnu gnu2.28 hull intersection itanium library llvm macabi mesh miss mlibc \
    msvc msvc19 msvc19.33 msvc19.33.31629 mtia muslabi64 muslabin32 musleabihf musleabi muslf32 muslsf muslwali muslx32 \
    musl ohos opencl pauthtest pixel raygeneration rootsignature simulator vertex xcoff coff elf goff macho spirv wasm \
    gnuelf msvcelf gnucoff eabielf unknown none GNU hard ''";
const PROCESSORS: &str = "gfx600 gfx601 gfx602 gfx700 gfx701 gfx702 gfx703 gfx704 gfx705 gfx801 gfx802 gfx803 gfx805 \
    gfx810 gfx9-generic gfx900 gfx902 gfx904 gfx906 gfx908 gfx909 gfx90a gfx90c gfx9-4-generic gfx942 gfx950 \
    gfx10-1-generic gfx1010 gfx1011 gfx1012 gfx1013 gfx10-3-generic gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 \
    gfx1036 gfx11-generic gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153 gfx12-generic gfx1200 gfx1201 \
    gfx1250 gfx1251 sm_20 sm_21 sm_30 sm_32 sm_35 sm_37 sm_50 sm_52 sm_53 sm_60 sm_61 sm_62 sm_70 sm_72 sm_75 sm_80 \
    sm_86 sm_87 sm_88 sm_89 sm_90 sm_90a sm_100 sm_100a sm_101 sm_101a sm_103 sm_103a sm_110 sm_110a sm_120 sm_120a \
    sm_121 sm_121a amdgcnspirv generic graniterapids bmg_g21 gfx1154 gfx11-7-generic gfx1170 gfx1171 gfx1172 \
    gfx12-5-generic gfx13-generic gfx1310 sm_100f sm_101f sm_103f sm_110f sm_120f sm_121f";
const OTHER_PROCESSORS: &str = "tahiti pitcairn verde hainan oland kaveri hawaii kabini mullins bonaire carrizo iceland \
    tonga fiji polaris10 polaris11 tongapro stoney r600 rv630 r630 rs880 rv670 rv710 rv730 rv770 cedar palm cypress \
    juniper redwood sumo barts caicos cayman aruba turks gfx940 gfx941 gfx1252 gfx9999 gfx GFX906 sm_999 sm_ x1 znver3 \
    pvc native unknown gfx90 gfx9060 -gfx906 gfx906- gfx906-x";
const FEATURES: &[&str] = &["", ":xnack+", ":xnack-", ":sramecc+", ":sramecc-:xnack+", ":xnack-:sramecc+"];
const ODD: &str = "x86_64-pc-windows-msvc19.33 armv7-unknown-linux-gnueabihf mipsisa64r6-unknown-linux-gnuabi64 \
    mipsisa64r6el-img-linux-gnu --- ---- x86_64--- x86_64-- x86_64- x86_64 -x86_64-- x86_64-linux-gnu- linux-x86_64-- \
    gnu-linux-unknown-x86_64 x86_64-unknown-linux-gnu-elf x86_64-unknown-linux-gnu--elf amdgcn-amd-amdhsa-- \
    amdgcn-amd-amdhsa--- amdgcn-amd-amdhsa----gfx906 amdgcn-amd-amdhsa-unknown-gfx906 amdgcn-amd-amdhsa-gfx906 \
    amdgcn-amd-amdhsa-gfx906:xnack+ amdgcn-amd-amdhsa-gfx9-4-generic amdgcn-amd-amdhsa-gfx906- amdgcn-amd-gfx906 \
    nvptx64-nvidia-cuda-sm_70 nvptx64-nvidia-cuda--sm_70 nvptx64-nvidia-cuda- spirv64-amd-amdhsa--amdgcnspirv \
    amdgcn-amd-amdhsa-fiji amdgcn-amd-amdhsa-sm_70- i686-w64-windows-gnu i686-pc-mingw32- x86_64-pc-cygwin- \
    x86_64-w64-mingw32-gnu i386-apple-macosx10.4- arm64-apple-ios14-macabi arm64-apple-ios14-simulator \
    thumbv7-none-eabi- arm-none-eabi- arm-none--eabi arm---eabihf armv6-rpi-linux-gnueabi aarch64-none-elf- \
    riscv64-none-elf- wasm32-wasi-- wasm32--wasi- pc-i386-- pc-linux-i386- a-b-c-d x-x86_64-y-z -----gfx906";

/// Returns the words of a table; `''` is the empty word.
fn words(table: &'static str) -> Vec<&'static str> {
    table.split_whitespace().map(|word| if word == "''" { "" } else { word }).collect()
}

/// The names without their offload kinds.
fn names() -> Vec<String> {
    let (arches, vendors, systems, environments) = (words(ARCHES), words(VENDORS), words(SYSTEMS), words(ENVIRONMENTS));
    let mut names: Vec<String> = words(ODD).into_iter().map(str::to_owned).collect();
    names.extend(arches.iter().map(|arch| format!("{arch}-unknown-linux-gnu")));
    names.extend(arches.iter().map(|arch| format!("{arch}-apple-macosx-")));
    names.extend(vendors.iter().map(|vendor| format!("x86_64-{vendor}-linux-musl")));
    names.extend(systems.iter().map(|system| format!("x86_64-pc-{system}-gnu")));
    names.extend(systems.iter().map(|system| format!("armv7-unknown-{system}-")));
    names.extend(environments.iter().map(|environment| format!("aarch64-unknown-linux-{environment}")));
    names.extend(environments.iter().map(|environment| format!("i686-pc-windows-{environment}")));
    for processor in words(PROCESSORS).into_iter().chain(words(OTHER_PROCESSORS)) {
        names.push(format!("amdgcn-amd-amdhsa--{processor}"));
        names.push(format!("nvptx64-nvidia-cuda--{processor}"));
        names.push(format!("x86_64-unknown-linux-gnu-{processor}"));
        names.push(format!("amdgcn-amd-amdhsa-{processor}"));
        names.push(format!("r600-amd-unknown--{processor}"));
    }
    for processor in words(PROCESSORS).into_iter().filter(|name| name.starts_with("gfx")) {
        names.extend(FEATURES.iter().map(|features| format!("amdgcn-amd-amdhsa--{processor}{features}")));
    }
    let mut random = Random::new(1);
    for _ in 0..900 {
        let mut fields = [&arches, &vendors, &systems, &environments].map(|words| *random.pick(words));
        if random.below(3) == 0 {
            random.shuffle(&mut fields);
        }
        let kept = if random.below(30) == 0 { 3 } else { 4 };
        let mut name = fields[..kept].join("-");
        if random.below(4) == 0 {
            name += &format!("-{}{}", random.pick(&words(PROCESSORS)), random.pick(&["", "", "", ":xnack+"]));
        }
        names.push(name);
    }
    names
}

/// Batches of names for one call. Names with the same written form are in different batches; names that our tool
/// rejects are alone.
fn batches(random: &mut Random, names: Vec<String>) -> Vec<Vec<String>> {
    let mut batches: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    let mut alone = Vec::new();
    for name in names {
        let typed = format!("{}-{name}", random.pick(&["hip", "hip", "hipv4", "openmp"]));
        let Ok(written) = EntryId::parse(&typed).map(|id| id.to_string()) else {
            alone.push(vec![typed]);
            continue;
        };
        let room = |(batch, known): &&mut (Vec<String>, Vec<String>)| batch.len() < 24 && !known.contains(&written);
        match batches.iter_mut().rev().take(20).find(room) {
            Some((batch, known)) => {
                batch.push(typed);
                known.push(written);
            }
            None => batches.push((vec![typed], vec![written])),
        }
    }
    batches.into_iter().map(|(batch, _)| batch).chain(alone).collect()
}

/// IDs of kinds that no bundle has.
fn unknown_kinds() -> Vec<Vec<String>> {
    let mut alone = Vec::new();
    for kind in ["", "HIP", "cuda", "sycl", "hip4", "hipv5", "hostt", "none"] {
        alone.push(vec![format!("{kind}-x86_64-unknown-linux-gnu")]);
        alone.push(vec![format!("{kind}-nonsense-unknown-linux-gnu-gfx906")]);
    }
    alone
}

fn case(targets: &[String]) -> Case {
    let all_hip = targets.iter().all(|target| target.starts_with("hip"));
    let host = if all_hip { vec![] } else { vec!["host-sparc-unknown-linux-gnu".to_owned()] };
    let targets = [&host, targets].concat();
    let inputs = targets.iter().map(|_| "-input=empty".to_owned());
    let mut args = vec!["-type=bc".to_owned(), format!("-targets={}", targets.join(",")), "-output=out".to_owned()];
    args.extend(inputs);
    Case::new(&args).file("empty", *b"")
}

/// The name of the rule that explains a difference between two IDs.
fn explain_id(tools: &Tools, typed: &str, theirs: &str, ours: &str) -> Option<&'static str> {
    let of_23 = || llvm23::explain_id(typed, theirs, ours).filter(|_| tools.release == Release::Llvm23);
    rules::explain_id(typed, theirs, ours).or_else(of_23)
}

/// Compares the bundles of a batch. If a tool fails, the batch is split in halves.
fn compare(report: &mut Report, tools: &Tools, targets: &[String]) {
    let case = case(targets);
    let (theirs, ours) = (run(&tools.theirs, &case), run(&tools.ours, &case));
    let bundles = (theirs.files.get("out"), ours.files.get("out"));
    if let ((Some(a), Some(b)), 0, 0) = (bundles, theirs.status, ours.status) {
        let (theirs, ours, typed) = (ids(a), ids(b), case.values("targets"));
        report.check(theirs.len() == ours.len() && (theirs != ours || a == b), || format!("the bundles of {typed:?}"));
        for ((typed, theirs), ours) in typed.iter().zip(&theirs).zip(&ours) {
            let rule = if theirs == ours { None } else { explain_id(tools, typed, theirs, ours) };
            report.check(theirs == ours || rule.is_some(), || format!("{typed}: LLVM {theirs}, ours {ours}"));
            rule.into_iter().for_each(|rule| report.by_rule(rule));
        }
    } else if targets.len() > 1 {
        let (head, tail) = targets.split_at(targets.len() / 2);
        compare(report, tools, head);
        compare(report, tools, tail);
    } else {
        report.judge(&case, &theirs, &ours);
    }
}

/// Hosts; a bundle has only one.
fn hosts(names: &[String]) -> Vec<Case> {
    let mut random = Random::new(3);
    let host = |name: &String| {
        let targets = format!("-targets=host-{name},hip-amdgcn-amd-amdhsa--gfx906");
        Case::new(&["-type=bc", &targets, "-input=empty", "-input=empty", "-output=out"]).file("empty", *b"")
    };
    (0..150).map(|_| host(random.pick(names))).collect()
}

pub fn compare_names(report: &mut Report, tools: &Tools) {
    report.each(unknown_kinds(), |report, batch| compare(report, tools, &batch));
    compare_bundled(report, tools, names());
}

/// Bundles entries of these names, without their kinds.
pub fn compare_bundled(report: &mut Report, tools: &Tools, names: Vec<String>) {
    let mut random = Random::new(2);
    let hosts = hosts(&names);
    report.each(batches(&mut random, names), |report, batch| compare(report, tools, &batch));
    report.each(hosts, |report, case| {
        let typed = case.values("targets");
        let (theirs, ours) = (run(&tools.theirs, &case), run(&tools.ours, &case));
        match (theirs.files.get("out"), ours.files.get("out")) {
            (Some(a), Some(b)) if a != b => {
                let (a, b) = (&ids(a)[0], &ids(b)[0]);
                let rule = explain_id(tools, typed[0], a, b);
                report.check(rule.is_some(), || format!("{}: LLVM {a}, ours {b}", typed[0]));
                rule.into_iter().for_each(|rule| report.by_rule(rule));
            }
            _ => report.judge(&case, &theirs, &ours),
        }
    });
}
