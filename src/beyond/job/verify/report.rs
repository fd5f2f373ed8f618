//! The report of `verify` on all files together: sums, and the faults that no file shows alone.

use std::collections::BTreeMap;
use std::path::Path;

use super::expect::ExpectTree;
use super::kpack_tree::KpackTree;
use super::{Expect, Fault, Verified, VerifyRule};
#[cfg(feature = "serde")]
use crate::beyond::document::Report;
use crate::beyond::runtime::Device;

/// Whether the device code in files is sound.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct VerifyReport {
    /// The files that could be checked: in the order of the command line, those of a directory by name. Files without
    /// device code are included.
    pub files: Vec<Verified>,
    /// The faults that only several files show together: between libraries and the kpack archives with their device
    /// code, and of directories whose files serve GPUs together.
    pub faults: Vec<FaultOfTree>,
    /// The sums over all files. If `bundles` and `code_objects` are 0, nothing was verified, and the exit status is 1
    /// unless `--allow-none` is given: `problems` says so.
    pub total: VerifyTotal,
    /// The number of unread parts, listed or not, by the [name](crate::scan::Unread::name) of their format.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub unread: BTreeMap<&'static str, usize>,
    /// The expected GPUs that no file serves and that no fault names. Empty if nothing was verified.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub unserved: Vec<Device>,
    /// Whether some bundles do not serve the expected GPUs, and each library with such a bundle serves them with other
    /// bundles, as [`ExpectExtent::Libraries`](super::ExpectExtent::Libraries) requires.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub is_served_by_libraries: bool,
}

#[cfg(feature = "serde")]
impl Report for VerifyReport {
    // In version 1, `bundles` also counted code objects without a bundle.
    const VERSION: u32 = 2;
}

/// A fault that only several files show together.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema))]
pub struct FaultOfTree {
    /// The file, or the directory of files, that the fault is reported for. Names of GPUs in the path of a directory
    /// are replaced by `*`: directories that differ only in them are one.
    pub path: String,
    /// The fault.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub fault: Fault,
}

impl From<Fault> for FaultOfTree {
    fn from(fault: Fault) -> Self {
        Self { path: fault.place.file().to_string_lossy().into_owned(), fault }
    }
}

/// The sums over all files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct VerifyTotal {
    /// The number of files that were read.
    pub files: usize,
    /// The number of bundles that were checked.
    pub bundles: usize,
    /// The number of code objects that were checked, without empty entries.
    pub code_objects: usize,
    /// The number of code objects without a bundle.
    pub without_bundle: usize,
    /// The number of code objects whose content could not be read, so that only their bundles were checked.
    pub unchecked: usize,
    /// The number of code objects for devices that are text.
    pub without_code: usize,
    /// The number of faults, listed or not, and of expected GPUs that no file serves, which are in `problems`.
    pub faults: usize,
    /// The number of parts that are recognised but not read, listed or not.
    pub unread: usize,
    /// The number of code objects that need symbols which they do not define, listed or not.
    pub undefined: usize,
    /// The number of references to kpack archives.
    pub kpack_references: usize,
}

impl VerifyTotal {
    /// Adds a file.
    pub fn add(&mut self, verified: &Verified) {
        self.files += 1;
        self.bundles += verified.bundles;
        self.code_objects += verified.code_objects;
        self.without_bundle += verified.without_bundle;
        self.unchecked += verified.unchecked;
        self.without_code += verified.without_code;
        self.faults += verified.faults.len() + verified.more_faults;
        self.unread += verified.unread.len() + verified.more_unread.values().sum::<usize>();
        self.undefined += verified.undefined.len() + verified.more_undefined;
        self.kpack_references += verified.kpack_references;
    }

    /// Returns whether no device code was checked. Returns false if there are faults: one may be the reason why no
    /// bundle could be read.
    pub fn checked_nothing(&self) -> bool {
        self.code_objects == 0 && self.bundles == 0 && self.faults == 0
    }
}

/// The results of files that are verified together: sums over the files that were added so far, and the data for faults
/// that only several files show.
#[derive(Clone, Debug, Default)]
pub struct VerifiedFiles {
    total: VerifyTotal,
    unread: BTreeMap<&'static str, usize>,
    /// The split libraries of ROCm and the kpack archives with their code.
    kpack: KpackTree,
    /// The files that must serve the expected GPUs together, or `None` if no GPUs are expected.
    together: Option<ExpectTree>,
    /// The expected GPUs that no file has served, and that no fault names.
    unserved: Vec<Device>,
    /// `None` as long as all bundles serve the expected GPUs. If some do not, whether each library with such a bundle
    /// serves the GPUs with other bundles.
    is_served_by_libraries: Option<bool>,
}

impl VerifiedFiles {
    /// Begins with no file. `paths` are those of all files that will be [added](Self::add): files of a directory may
    /// serve the expected GPUs together.
    pub fn new<'p>(expect: Option<&Expect>, paths: impl Iterator<Item = &'p Path>) -> Self {
        let mut files = Self::default();
        if let Some(expect) = expect {
            files.unserved.extend_from_slice(&expect.devices);
            files.together = Some(ExpectTree::new(expect.clone(), paths));
        }
        files
    }

    /// Adds the result of a file. Removes faults from it that other files may correct: [`finish`](Self::finish) finds
    /// them again if all files together still have them. `is_named` is whether the user named the file itself, and not
    /// a directory that holds it. A named file and a package have to serve each expected GPU; other files need not.
    pub fn add(&mut self, verified: &mut Verified, is_named: bool) {
        if let Some(together) = &mut self.together {
            together.add(verified, is_named);
        }
        // A GPU is reported as served by no file only if no file serves it and no fault is about it already.
        self.unserved.retain(|gpu| {
            let is_served = verified.served.iter().any(|name| name == gpu.name());
            !is_served && !is_in_faults(gpu, &verified.faults)
        });
        // Whether `--expect-any` would accept all files depends only on the files that do not serve all expected GPUs
        // with each bundle.
        if verified.faults.iter().any(|fault| fault.rule == VerifyRule::Expected) {
            let accepts_earlier_files = self.is_served_by_libraries.unwrap_or(true);
            self.is_served_by_libraries = Some(accepts_earlier_files && verified.is_served_by_libraries);
        }
        self.total.add(verified);
        for part in &verified.unread {
            *self.unread.entry(part.what.name()).or_default() += 1;
        }
        for (name, more) in &verified.more_unread {
            *self.unread.entry(name).or_default() += more;
        }
        let is_from_directory = !is_named;
        self.kpack.add(verified, is_from_directory);
    }

    /// Returns the report after the last file. Its `files` are empty: a caller that needs the results of files keeps
    /// them.
    pub fn finish(self) -> VerifyReport {
        let Self { mut total, unread, kpack, together, mut unserved, is_served_by_libraries } = self;
        let directory_faults = together.map(ExpectTree::faults).unwrap_or_default();
        // A GPU that a fault names is not reported again.
        unserved.retain(|gpu| !is_in_faults(gpu, &directory_faults));
        // A fault means that the libraries of a directory do not serve an expected GPU even together.
        let is_served_by_libraries = is_served_by_libraries == Some(true) && directory_faults.is_empty();
        let faults: Vec<FaultOfTree> =
            kpack.faults().into_iter().chain(directory_faults).map(FaultOfTree::from).collect();
        total.faults += faults.len();
        // If nothing was checked, this is an error itself, and the GPUs are not reported too.
        if total.checked_nothing() {
            unserved.clear();
        }
        total.faults += unserved.len();
        VerifyReport { files: Vec::new(), faults, total, unread, unserved, is_served_by_libraries }
    }
}

/// Returns whether a fault names the GPU.
fn is_in_faults(gpu: &Device, faults: &[Fault]) -> bool {
    faults.iter().any(|fault| fault.gpu.as_deref() == Some(gpu.name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beyond::inventory::tests::{place, unit};
    use crate::beyond::inventory::{Unit, UnitRole, UnreadPart};
    use crate::beyond::job::verify::expect::ExpectComparison;
    use crate::beyond::scan::Unread;
    use std::sync::Arc;

    const OBFUSCATED: Unread = Unread::device_code("obfuscated code");

    /// Returns the result for a file with these bundles.
    fn verified(expect: &Expect, name: &str, units: &[Unit]) -> Verified {
        let mut verified = Verified { path: name.into(), bundles: units.len(), code_objects: 1, ..Verified::default() };
        let mut faults = Vec::new();
        let list = &mut |fault| faults.push(fault);
        let compared = ExpectComparison::new(expect, name.as_ref(), &|_| None, list).compare(units);
        let served = compared.served.iter().map(|index| expect.devices[*index].name().to_owned());
        verified.served = served.collect();
        verified.is_served_by_libraries = !compared.has_unserved_library;
        verified.directories = compared.directories;
        verified.faults = faults;
        verified
    }

    fn gpus(devices: &[Device]) -> String {
        devices.iter().map(Device::name).collect::<Vec<_>>().join(" ")
    }

    fn whole(name: &str, targets: &str) -> Unit {
        unit(name, UnitRole::Whole, targets)
    }

    fn expected(gpus: &str) -> Expect {
        Expect::new(Device::parse_list(gpus).unwrap())
    }

    /// Returns the report of files in each order. Only the order of its faults may depend on that.
    fn report(expect: &Expect, files: &[Verified], is_named: bool) -> VerifyReport {
        let report_of = |files: &[&Verified]| {
            let mut all = VerifiedFiles::new(Some(expect), files.iter().map(|file| file.path.as_path()));
            for file in files {
                all.add(&mut (*file).clone(), is_named);
            }
            all.finish()
        };
        let texts = |report: &VerifyReport| {
            let mut texts: Vec<String> = report.faults.iter().map(|fault| fault.fault.to_string()).collect();
            texts.sort();
            texts
        };
        let mut order: Vec<&Verified> = files.iter().collect();
        let first = report_of(&order);
        for _ in files {
            order.rotate_left(1);
            for order in [order.clone(), order.iter().rev().copied().collect()] {
                let other = report_of(&order);
                assert_eq!(
                    (&other.total, &other.unread, &other.unserved),
                    (&first.total, &first.unread, &first.unserved)
                );
                assert_eq!(other.is_served_by_libraries, first.is_served_by_libraries);
                assert_eq!(texts(&other), texts(&first));
            }
        }
        first
    }

    #[test]
    fn a_total_counts_listed_and_unlisted_items() {
        let mut listed = Verified { bundles: 2, code_objects: 5, without_bundle: 1, ..Verified::default() };
        listed.faults.push(Fault::new(&place("a"), VerifyRule::Readable, "broken".to_owned()));
        listed.unread.push(UnreadPart { place: place("a"), offset: 0, what: OBFUSCATED });
        let mut more =
            Verified { code_objects: 3, more_faults: 2, more_undefined: 4, kpack_references: 1, ..listed.clone() };
        more.more_unread.insert(OBFUSCATED.name(), 7);
        let report = report(&expected("gfx906"), &[listed, more], true);
        let total = VerifyTotal {
            files: 2,
            bundles: 4,
            code_objects: 8,
            without_bundle: 2,
            // Two are listed, two are not, and no file serves the GPU.
            faults: 5,
            unread: 9,
            undefined: 4,
            kpack_references: 1,
            ..VerifyTotal::default()
        };
        assert_eq!(report.total, total);
        assert_eq!(report.unread, BTreeMap::from([(OBFUSCATED.name(), 9)]));
    }

    #[test]
    fn a_gpu_is_unserved_only_if_no_file_serves_it_and_no_fault_names_it() {
        let expect = expected("gfx906,gfx90a,sm_90");
        let of = |name: &str, targets| verified(&expect, name, &[whole(name, targets)]);
        for (files, is_named, unserved, faults) in [
            // Named files have to serve each GPU, so their faults name the GPUs.
            (vec![of("a", "gfx906 gfx90a")], true, "", 1),
            // Files of a directory need only serve the GPUs of their vendors.
            (vec![of("a", "gfx906 gfx90a")], false, "sm_90", 1),
            (vec![of("a", "gfx906 gfx90a"), of("b", "sm_90")], false, "", 0),
            (vec![of("a", "gfx906"), of("b", "sm_90")], false, "", 1),
            // Without device code, no GPU is to be served.
            (vec![Verified::default()], false, "", 0),
        ] {
            let report = report(&expect, &files, is_named);
            assert_eq!((gpus(&report.unserved).as_str(), report.total.faults), (unserved, faults));
        }
    }

    #[test]
    fn libraries_serve_gpus_if_each_one_with_a_fault_does() {
        let expect = expected("gfx906");
        let two = |name: &str| verified(&expect, name, &[whole(name, "gfx906"), whole(name, "gfx90a")]);
        let [good, bad] = ["gfx906", "gfx90a"].map(|target| verified(&expect, target, &[whole(target, target)]));
        for (files, is_served) in [
            (vec![good.clone()], false),
            (vec![two("a")], true),
            (vec![two("a"), good.clone(), two("b")], true),
            (vec![two("a"), bad.clone()], false),
            (vec![bad], false),
        ] {
            assert_eq!(report(&expect, &files, false).is_served_by_libraries, is_served, "{files:?}");
        }
    }

    #[test]
    fn files_of_a_directory_serve_gpus_together() {
        let expect = expected("gfx906,gfx90a");
        let of = |name: &str, targets| {
            let directory = Some(Arc::new(place("d")));
            verified(&expect, name, &[Unit { directory, ..unit(name, UnitRole::RestInOtherFiles, targets) }])
        };
        let report = |files: &[Verified]| report(&expect, files, false);
        let both = report(&[of("d/k_gfx906.co", "gfx906"), of("d/k_gfx90a.co", "gfx90a")]);
        assert_eq!((both.total.faults, both.faults.len()), (0, 0));
        let one = report(&[of("d/k_gfx906.co", "gfx906"), of("d/l_gfx906.co", "gfx906")]);
        let [FaultOfTree { path, fault }] = one.faults.as_slice() else { panic!("{one:?}") };
        assert_eq!((path.as_str(), fault.gpu.as_deref()), ("d", Some("gfx90a")));
        assert_eq!((one.total.faults, one.unserved.len()), (1, 0));
    }
}
