//! The GPUs of this machine, and the CUDA version of its driver.
//!
//! | vendor | source |
//! |---|---|
//! | NVIDIA | the command `nvidia-smi`, from the `PATH` |
//! | AMD | `gfx_target_version` in `/sys/class/kfd/kfd/topology/nodes/*/properties`: 10,000 times the major version, plus 100 times the minor version, plus the stepping; 0 for a CPU |
//! | Intel | the PCI IDs in `/sys/class/drm/card*/device/{vendor,device}` |
//!
//! Linux alone has the files. A GPU that is part of a processor, of any vendor, counts only if the machine has no card:
//! programs run on the card. Linux does not say whether XNACK is on: each process sets it. So AMD's features stay open.
//!
//! Sources: the documentation of nvidia-smi; LLVM's User Guide for AMDGPU Backend for what is part of a processor, and
//! AMD's TheRock (2026) for `gfx1153`; Linux's `kfd_topology.c` and ROCR-Runtime; the lists of device IDs of Intel's
//! Compute Runtime (2026), which has no older GPUs; `0xb640`, an Arrow Lake-S: Linux's `pciids.h` and Mesa (2026).

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{fs, thread};

use super::code::GpuVendor;
use super::device::Device;
use crate::base::bytes::text_lossy;

/// The time that `nvidia-smi` may take, for all calls together.
const TIME_MAX: Duration = Duration::from_secs(5);

/// The longest output of `nvidia-smi` that is read, in bytes.
const OUTPUT_MAX: u64 = 1 << 20;

/// The PCI vendor ID of Intel.
const INTEL: u32 = 0x8086;

/// The GPUs of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Machine {
    /// The GPUs, each kind once: NVIDIA's, then AMD's, then Intel's. The driver of NVIDIA's decides which code they take.
    pub devices: Vec<Device>,
    /// The newest CUDA version that NVIDIA's driver knows, such as 12 and 4. `None` without such a driver, or if
    /// `nvidia-smi` does not print it.
    pub cuda: Option<(u16, u16)>,
    /// The reason why `nvidia-smi`, which the machine has, lists no GPU.
    pub nvidia_fault: Option<String>,
}

/// The error for a machine without a GPU that could be found. Its text names the places that were searched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no GPU was found on this machine: {}", .reasons.join("; "))]
pub struct MachineError {
    reasons: Vec<String>,
}

/// Where the GPUs of a machine are looked for.
struct Sources {
    /// The command, which is searched for in the `PATH` unless it has a directory.
    nvidia_smi: PathBuf,
    /// The directory in which Linux describes the devices: `/sys`.
    sys: PathBuf,
    /// The time that all calls of the command may take together.
    time_max: Duration,
}

impl Machine {
    /// Finds the GPUs of this machine. Runs the command `nvidia-smi`, for 5 seconds at most.
    ///
    /// # Errors
    /// [`MachineError`] if no GPU is found.
    pub fn read() -> Result<Self, MachineError> {
        Self::read_from(&Sources { nvidia_smi: "nvidia-smi".into(), sys: "/sys".into(), time_max: TIME_MAX })
    }

    /// Finds the GPUs of the machine that these sources describe.
    fn read_from(sources: &Sources) -> Result<Self, MachineError> {
        let mut found = Found::default();
        let nvidia = found.add_nvidia(sources);
        let others = [found.add_amd(&sources.sys), found.add_intel(&sources.sys)];
        if found.devices.is_empty() {
            let reasons = [nvidia].into_iter().chain(others).filter_map(Result::err).collect();
            return Err(MachineError { reasons });
        }
        let nvidia_fault = nvidia.err().filter(|reason| reason != NOT_IN_PATH);
        Ok(Self { nvidia_fault, ..found.into_machine() })
    }
}

/// Whether a GPU is a card or part of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GpuKind {
    Card,
    PartOfProcessor,
}

/// The GPUs that are found so far.
#[derive(Default)]
struct Found {
    devices: Vec<(GpuKind, Device)>,
    cuda: Option<(u16, u16)>,
}

impl Found {
    fn add(&mut self, kind: GpuKind, device: Device) {
        if self.devices.iter().all(|(_, known)| *known != device) {
            self.devices.push((kind, device));
        }
    }

    /// Returns the GPUs, without those that are part of a processor if the machine has a card.
    fn into_machine(self) -> Machine {
        let has_card = self.devices.iter().any(|(kind, _)| *kind == GpuKind::Card);
        let counting = self.devices.into_iter().filter(|(kind, _)| !has_card || *kind == GpuKind::Card);
        let devices = counting.map(|(_, device)| match device.vendor() {
            GpuVendor::Nvidia => device.with_driver(self.cuda),
            _ => device,
        });
        Machine { devices: devices.collect(), cuda: self.cuda, nvidia_fault: None }
    }

    /// Adds NVIDIA's GPUs and the CUDA version. Otherwise the error says why there are none.
    fn add_nvidia(&mut self, sources: &Sources) -> Result<(), String> {
        let smi = Smi { command: &sources.nvidia_smi, time_max: sources.time_max, start: Instant::now() };
        let output = smi.output(&["--query-gpu=name,compute_cap", "--format=csv,noheader"])?;
        let devices: Vec<Device> = output.lines().filter_map(nvidia_gpu).collect();
        if devices.is_empty() {
            return Err(format!("nvidia-smi lists no GPU: {}", first_line(&output)));
        }
        devices.into_iter().for_each(|device| self.add(GpuKind::Card, device));
        // The GPUs are known even if the version cannot be read.
        self.cuda = smi.output(&[]).ok().and_then(|text| cuda_version(&text));
        Ok(())
    }

    /// Adds AMD's GPUs. Otherwise the error says why there are none.
    fn add_amd(&mut self, sys: &Path) -> Result<(), String> {
        let nodes = sys.join("class/kfd/kfd/topology/nodes");
        let count_before = self.devices.len();
        let mut last_error = None;
        for node in entries(&nodes)? {
            match read(&node.join("properties")) {
                Ok(properties) => {
                    let processor = amd_processor(&properties).unwrap_or_default();
                    let is_part_of_processor = AMD_PARTS_OF_PROCESSORS.contains(&processor.as_str());
                    let kind = if is_part_of_processor { GpuKind::PartOfProcessor } else { GpuKind::Card };
                    Device::parse(&processor).into_iter().for_each(|gpu| self.add(kind, gpu));
                }
                // In a container, the GPUs that it may not use cannot be read.
                Err(error) => last_error = Some(error),
            }
        }
        if self.devices.len() > count_before {
            return Ok(());
        }
        Err(last_error.unwrap_or_else(|| format!("'{}' has no GPU of AMD", nodes.display())))
    }

    /// Adds Intel's GPUs. Otherwise the error says why there are none.
    fn add_intel(&mut self, sys: &Path) -> Result<(), String> {
        let cards = sys.join("class/drm");
        let (mut found, mut unknown) = (Vec::new(), Vec::new());
        for card in entries(&cards)? {
            // Names such as `card0-DP-1` are connectors of a card.
            let name = card.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_card = name.strip_prefix("card").is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()));
            if !is_card || pci_id(&card, "vendor") != Some(INTEL) {
                continue;
            }
            let Some(id) = pci_id(&card, "device") else { continue };
            match INTEL_GPUS.iter().find(|(_, _, ids)| ids.contains(&id)) {
                Some((gpu, kind, _)) => found.push((*kind, *gpu)),
                None => unknown.push(format!("{id:#06x}")),
            }
        }
        if found.is_empty() && !unknown.is_empty() {
            let ids = unknown.join(", ");
            return Err(format!("Intel's public table has no GPU with the PCI device ID {ids}"));
        }
        if found.is_empty() {
            return Err(format!("'{}' has no GPU of Intel", cards.display()));
        }
        for (kind, name) in found {
            self.add(kind, Device::parse(name).map_err(|error| error.to_string())?);
        }
        Ok(())
    }
}

const NOT_IN_PATH: &str = "the command nvidia-smi is not in the PATH";

/// The command `nvidia-smi`.
struct Smi<'s> {
    command: &'s Path,
    /// The time that all calls may take, from `start` on.
    time_max: Duration,
    start: Instant,
}

impl Smi<'_> {
    /// Returns the standard output of a call. The error says why there is none.
    fn output(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(self.command);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => NOT_IN_PATH.to_owned(),
            _ => format!("the command nvidia-smi cannot be run: {error}"),
        })?;
        let text = self.read(&mut child);
        let is_late = text.is_none() && self.start.elapsed() >= self.time_max;
        // The command is late, or its output cannot be read: it is not needed any longer.
        if text.is_none() {
            _ = child.kill();
        }
        match (text, self.wait(&mut child)) {
            (Some(text), Some(status)) if status.success() => Ok(text),
            // An emulator starts a command that is missing, and fails like a shell.
            (Some(_), Some(status)) if status.code() == Some(127) => Err(NOT_IN_PATH.to_owned()),
            (Some(text), Some(status)) => Err(format!("nvidia-smi fails ({status}): {}", first_line(&text))),
            (Some(_), None) => Err(format!("nvidia-smi does not end within {} s", self.time_max.as_secs_f32())),
            (None, _) if is_late => Err(format!("nvidia-smi gave no answer in {} s", self.time_max.as_secs_f32())),
            (None, _) => Err("the output of nvidia-smi cannot be read".to_owned()),
        }
    }

    /// Waits for the end of a call. Returns `None` if it does not end in time: not even a killed command ends while it
    /// waits for a driver that hangs.
    fn wait(&self, child: &mut Child) -> Option<ExitStatus> {
        const PAUSE: Duration = Duration::from_millis(2);
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if self.start.elapsed() < self.time_max => thread::sleep(PAUSE),
                _ => return None,
            }
        }
    }

    /// Reads the output of a call up to its end. Returns `None` if that takes too long or fails.
    fn read(&self, child: &mut Child) -> Option<String> {
        let output = child.stdout.take()?;
        let (sender, receiver) = mpsc::channel();
        // A program that hangs may keep its output open, so nobody waits for this thread.
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = output.take(OUTPUT_MAX).read_to_end(&mut bytes);
            // If the time is over, nobody receives the output.
            _ = sender.send(read.ok().map(|_| text_lossy(&bytes)));
        });
        receiver.recv_timeout(self.time_max.saturating_sub(self.start.elapsed())).ok()?
    }
}

/// Returns the first line that is not empty of an output, for a message, or a text that says that nothing is printed.
fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it prints nothing")
}

/// Returns the GPU in a line of `nvidia-smi`, such as `NVIDIA H100 80GB HBM3, 9.0`, or `None` if the line names no
/// known GPU. Old drivers do not print the compute capability, so the name decides.
fn nvidia_gpu(line: &str) -> Option<Device> {
    let (name, capability) = line.rsplit_once(',')?;
    let of_capability = capability.trim().split_once('.').map(|(major, minor)| format!("sm_{major}{minor}"));
    of_capability.and_then(|sm| Device::parse(&sm).ok()).or_else(|| Device::parse(name.trim()).ok())
}

/// Returns the CUDA version in the table that `nvidia-smi` prints: `CUDA Version: 12.4`. Newer ones write
/// `CUDA UMD Version: 13.2`.
fn cuda_version(text: &str) -> Option<(u16, u16)> {
    let after = text.split_once("CUDA ")?.1.split_once("Version")?.1.trim_start_matches([' ', ':']);
    let version = after.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
    let (major, minor) = version.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the processor of a node of KFD: `gfx90a` for `gfx_target_version 90010`. Returns `None` for a CPU.
fn amd_processor(properties: &str) -> Option<String> {
    let value = properties.lines().find_map(|line| line.strip_prefix("gfx_target_version "))?;
    let version: u32 = value.trim().parse().ok()?;
    if version == 0 {
        return None;
    }
    let (major, minor, stepping) = (version / 10_000, version / 100 % 100, version % 100);
    Some(format!("gfx{major}{minor:x}{stepping:x}"))
}

/// Returns a PCI ID of a card, the one in the file `vendor` or `device`, or `None` if it cannot be read.
fn pci_id(card: &Path, file: &str) -> Option<u32> {
    let text = fs::read_to_string(card.join("device").join(file)).ok()?;
    u32::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

/// Returns the entries of a directory, by name.
fn entries(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let describe = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => format!("there is no '{}'", directory.display()),
        _ => format!("'{}' cannot be read: {error}", directory.display()),
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(describe)? {
        paths.push(entry.map_err(describe)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("'{}' cannot be read: {error}", path.display()))
}

/// AMD's GPUs that are part of processors.
const AMD_PARTS_OF_PROCESSORS: [&str; 18] = [
    "gfx700", "gfx703", "gfx705", "gfx801", "gfx810", "gfx902", "gfx909", "gfx90c", "gfx1013", "gfx1033", "gfx1035",
    "gfx1036", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153", "gfx1170",
];

/// Intel's GPUs with their PCI device IDs.
#[rustfmt::skip]
static INTEL_GPUS: &[(&str, GpuKind, &[u32])] = &[
    ("tgllp", GpuKind::PartOfProcessor, &[0x9a49, 0x9a40, 0x9a59, 0x9a60, 0x9a68, 0x9a70, 0x9a78]),
    ("rkl", GpuKind::PartOfProcessor, &[0x4c80, 0x4c8a, 0x4c8b, 0x4c8c, 0x4c90, 0x4c9a]),
    ("adl-s", GpuKind::PartOfProcessor, &[
        0x4680, 0x4682, 0x4688, 0x468a, 0x468b, 0x4690, 0x4692, 0x4693, 0xa780, 0xa781, 0xa782, 0xa783, 0xa788, 0xa789,
        0xa78a, 0xa78b,
    ]),
    ("adl-p", GpuKind::PartOfProcessor, &[
        0x46a0, 0x46b0, 0x46a1, 0x46a3, 0x46a6, 0x46a8, 0x46aa, 0x462a, 0x4626, 0x4628, 0x46b1, 0x46b3, 0x46c0, 0x46c1,
        0x46c3, 0xa7a0, 0xa720, 0xa7a8, 0xa7a1, 0xa721, 0xa7a9, 0xa7aa, 0xa7ab, 0xa7ac, 0xa7ad,
    ]),
    ("adl-n", GpuKind::PartOfProcessor, &[0x46d0, 0x46d1, 0x46d2, 0x46d3, 0x46d4]),
    ("dg1", GpuKind::Card, &[0x4905, 0x4906, 0x4907, 0x4908, 0x4909]),
    ("dg2-g10", GpuKind::Card, &[
        0x4f80, 0x4f81, 0x4f82, 0x4f83, 0x4f84, 0x5690, 0x5691, 0x5692, 0x56a0, 0x56a1, 0x56a2, 0x56af, 0x56be, 0x56bf,
        0x56c0, 0x56c2,
    ]),
    ("dg2-g11", GpuKind::Card, &[
        0x4f87, 0x4f88, 0x5693, 0x5694, 0x5695, 0x56a5, 0x56a6, 0x56b0, 0x56b1, 0x56ba, 0x56bb, 0x56bc, 0x56bd, 0x56c1,
    ]),
    ("dg2-g12", GpuKind::Card, &[0x4f85, 0x4f86, 0x5696, 0x5697, 0x56a3, 0x56a4, 0x56b2, 0x56b3]),
    ("pvc", GpuKind::Card, &[
        0x0bd0, 0x0bd5, 0x0bd6, 0x0bd7, 0x0bd8, 0x0bd9, 0x0bda, 0x0bdb, 0x0b69, 0x0b6e,
    ]),
    ("pvc-vg", GpuKind::Card, &[0x0bd4]),
    ("mtl-u", GpuKind::PartOfProcessor, &[0x7d40, 0x7d45, 0x7d67, 0x7d41, 0xb640]),
    ("mtl-h", GpuKind::PartOfProcessor, &[0x7d55, 0x7dd5]),
    ("arl-h", GpuKind::PartOfProcessor, &[0x7d51, 0x7dd1]),
    ("bmg-g21", GpuKind::Card, &[
        0xe202, 0xe209, 0xe20b, 0xe20c, 0xe20d, 0xe210, 0xe211, 0xe212, 0xe215, 0xe216,
    ]),
    ("bmg-g31", GpuKind::Card, &[0xe220, 0xe221, 0xe222, 0xe223]),
    ("lnl-m", GpuKind::PartOfProcessor, &[0x6420, 0x64a0, 0x64b0]),
    ("ptl-h", GpuKind::PartOfProcessor, &[
        0xb080, 0xb081, 0xb082, 0xb083, 0xb084, 0xb085, 0xb086, 0xb087, 0xb08f, 0xb0a0, 0xb0b0,
    ]),
    ("ptl-u", GpuKind::PartOfProcessor, &[0xb090]),
    ("wcl", GpuKind::PartOfProcessor, &[0xfd80, 0xfd81]),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Writes the files of a fake machine, and returns where its GPUs are looked for.
    fn sources(files: &[(&str, &str)], directory: &Path) -> Sources {
        for (path, content) in files {
            let path = directory.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        Sources { nvidia_smi: directory.join("nvidia-smi"), sys: directory.join("sys"), time_max: TIME_MAX }
    }

    fn found(files: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let directory = tempfile::tempdir().unwrap();
        match Machine::read_from(&sources(files, directory.path())) {
            Ok(machine) => Ok(machine.devices.iter().map(|device| device.name().to_owned()).collect()),
            // Windows has other separators.
            Err(error) => Err(error.to_string().replace(directory.path().to_str().unwrap(), "").replace('\\', "/")),
        }
    }

    const CPU: (&str, &str) =
        ("sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 16\ngfx_target_version 0\n");

    #[test]
    #[cfg_attr(miri, ignore = "runs a command")]
    fn gpus_of_amd_and_intel_are_found_in_a_tree_of_files() {
        let node = |number: u32| format!("sys/class/kfd/kfd/topology/nodes/{number}/properties");
        let [one, two, three] = [1, 2, 3].map(node);
        let amd = [
            CPU,
            (&one, "simd_count 304\ngfx_target_version 90402\nvendor_id 4098\n"),
            (&two, "gfx_target_version 90402\n"),
            (&three, "gfx_target_version 110501\n"),
        ];
        // A GPU of a processor does not count beside a card, whose vendor does not matter.
        assert_eq!(found(&amd), Ok(vec!["gfx942".to_owned()]));
        assert_eq!(found(&amd[3..]), Ok(vec!["gfx1151".to_owned()]));
        let arc =
            [("sys/class/drm/card1/device/vendor", "0x8086\n"), ("sys/class/drm/card1/device/device", "0x56a0\n")];
        let own = [
            ("sys/class/drm/card0/device/vendor", "0x8086\n"),
            ("sys/class/drm/card0/device/device", "0x7d55\n"),
            ("sys/class/drm/card0-DP-1/device/vendor", "0x8086\n"),
            ("sys/class/drm/card0-DP-1/device/device", "0xe20b\n"),
            ("sys/class/drm/renderD128/device/vendor", "0x8086\n"),
        ];
        assert_eq!(found(&own), Ok(vec!["mtl-h".to_owned()]));
        assert_eq!(found(&[&arc[..], &own[..]].concat()), Ok(vec!["dg2-g10".to_owned()]));
        let both = found(&[&amd[..], &own[..]].concat()).unwrap();
        assert_eq!(both, ["gfx942"]);
        // Without a card, all count.
        let parts = found(&[&amd[3..], &own[..]].concat()).unwrap();
        assert_eq!(parts, ["gfx1151", "mtl-h"]);
        let other =
            [("sys/class/drm/card0/device/vendor", "0x10de\n"), ("sys/class/drm/card0/device/device", "0x56a0\n")];
        assert!(found(&other).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "runs a command")]
    fn a_machine_without_gpus_is_an_error_that_says_where_they_were_looked_for() {
        let expected = "no GPU was found on this machine: the command nvidia-smi is not in the PATH; \
                        '/sys/class/kfd/kfd/topology/nodes' has no GPU of AMD; there is no '/sys/class/drm'";
        assert_eq!(found(&[CPU]), Err(expected.to_owned()));
        let old =
            [("sys/class/drm/card0/device/vendor", "0x8086\n"), ("sys/class/drm/card0/device/device", "0x3e92\n")];
        assert!(found(&old).unwrap_err().ends_with("has no GPU with the PCI device ID 0x3e92"));
    }

    #[cfg(unix)]
    #[test]
    #[cfg_attr(miri, ignore = "runs a command")]
    fn gpus_of_nvidia_are_those_that_nvidia_smi_prints() {
        use std::os::unix::fs::PermissionsExt as _;

        let read_beside = |script: &str, files: &[(&str, &str)], time_max| {
            let directory = tempfile::tempdir().unwrap();
            let script = format!("#!/bin/sh\n{script}\n");
            let sources = sources(&[&[("nvidia-smi", script.as_str())], files].concat(), directory.path());
            fs::set_permissions(&sources.nvidia_smi, fs::Permissions::from_mode(0o755)).unwrap();
            // Another thread of the tests may have started a process while the file was open for writing.
            for _ in 0..50 {
                let read = Machine::read_from(&Sources { time_max, ..sources_like(&sources) });
                match read {
                    Err(error) if error.to_string().contains("busy") => thread::sleep(Duration::from_millis(20)),
                    read => return read.map_err(|error| error.to_string()),
                }
            }
            panic!("{script}");
        };
        let read = |script: &str, time_max| read_beside(script, &[], time_max);
        let script = "case \"$1\" in --query*) printf 'NVIDIA H100 80GB HBM3, 9.0\\nNVIDIA GeForce RTX 4090, 8.9\\n\
                      NVIDIA H100 80GB HBM3, 9.0\\nTesla T4, [N/A]\\n';; \
                      *) echo '| NVIDIA-SMI 550.54.15  Driver Version: 550.54.15  CUDA Version: 12.4 |';; esac";
        let machine = read(script, TIME_MAX).unwrap();
        let names: Vec<&str> = machine.devices.iter().map(Device::name).collect();
        assert_eq!((names, machine.cuda), (vec!["sm_90", "sm_89", "sm_75"], Some((12, 4))));
        for (script, reason) in [
            ("echo 'No devices were found'", "nvidia-smi lists no GPU: No devices were found"),
            ("echo 'has failed because'; exit 9", "nvidia-smi fails (exit status: 9): has failed because"),
            ("exit 1", "nvidia-smi fails (exit status: 1): it prints nothing"),
        ] {
            let error = read(script, TIME_MAX).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        // With another GPU, the fault is not an error.
        let node = "sys/class/kfd/kfd/topology/nodes/1/properties";
        let machine = read_beside("exit 9", &[(node, "gfx_target_version 90402\n")], TIME_MAX).unwrap();
        assert_eq!(machine.devices[0].name(), "gfx942");
        assert_eq!(machine.nvidia_fault.as_deref(), Some("nvidia-smi fails (exit status: 9): it prints nothing"));
        let error = read("exec sleep 60", Duration::from_millis(300)).unwrap_err();
        assert!(error.contains("nvidia-smi gave no answer in 0.3 s"), "{error}");
    }

    #[cfg(unix)]
    fn sources_like(sources: &Sources) -> Sources {
        Sources { nvidia_smi: sources.nvidia_smi.clone(), sys: sources.sys.clone(), ..*sources }
    }

    #[test]
    fn texts_of_drivers_are_read() {
        for (text, version) in [
            ("Driver Version: 550.54.15  CUDA Version: 12.4 |", Some((12, 4))),
            ("KMD Version: 595.10   CUDA UMD Version: 13.2     |", Some((13, 2))),
            ("CUDA Version  : 11.8\n", Some((11, 8))),
            ("CUDA Version: N/A", None),
            ("Driver Version: 550.54.15", None),
            ("", None),
        ] {
            assert_eq!(cuda_version(text), version, "{text}");
        }
        for (version, processor) in [
            ("90010", Some("gfx90a")),
            ("90500", Some("gfx950")),
            ("100306", Some("gfx1036")),
            ("0", None),
            ("x", None),
        ] {
            let properties = format!("simd_count 8\ngfx_target_version {version}\n");
            assert_eq!(amd_processor(&properties).as_deref(), processor, "{version}");
        }
        assert_eq!(amd_processor("simd_count 8\n"), None);
    }

    #[test]
    fn each_device_id_is_that_of_one_known_gpu() {
        let mut seen = BTreeSet::new();
        for (gpu, _, ids) in INTEL_GPUS {
            assert!(Device::parse(gpu).unwrap().is_known(), "{gpu}");
            for id in *ids {
                assert!(seen.insert(*id) && *id <= 0xffff, "{id:x}");
            }
        }
    }
}
