//! The report of `kernels`: selected kernels with demangled names, sums, and conditions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::super::condition::Failure;
use super::column::{RecordedKeys, SortKey};
use super::condition::{ConditionResults, KernelCondition, NotJudged};
use super::names::{DemangleName, KernelName, NameMatches, selected};
use super::row::{ListedCode, NamedKernel};
use super::{CodeObjectKernels, KernelList};
use crate::base::error::{Error, Result};
#[cfg(feature = "serde")]
use crate::beyond::document::Report;
use crate::beyond::inventory::kernel_names::KernelNames;
use crate::beyond::inventory::pick::Seen;

/// The least number of rows that are added before the rows are sorted again, and all but the listed ones dropped.
/// Sorting after every file would take too long, and keeping all rows would take too much memory.
pub(in super::super) const ROWS_BETWEEN_SORTS: usize = 256;

/// The kernels in files, and the registers and memory that they take. A number that a code object does not record is
/// null.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct KernelsReport {
    /// The kernels that match `--target`, `--name` and `--hostcall`: in the order of the files and their code objects,
    /// or of `--sort`.
    pub kernels: Vec<NamedKernel>,
    /// The numbers of code objects that match `--target` but have no registers yet, because they are code for a virtual
    /// machine.
    pub others: Vec<OtherCode>,
    /// The conditions of `--fail-on` that are met. The exit status is 1 if there are any.
    pub failures: Vec<Failure>,
    /// The conditions of `--fail-on` that did not judge some of the kernels, because the code does not record the
    /// number. If a condition judged none, that is a problem.
    pub not_judged: Vec<NotJudged>,
}

#[cfg(feature = "serde")]
impl Report for KernelsReport {}

/// Code objects without registers, of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct OtherCode {
    /// The kind of the content, as in the report of `inspect`.
    pub image_kind: &'static str,
    /// The number of code objects of this kind.
    #[cfg_attr(all(test, feature = "serde"), schemars(range(min = 1)))]
    pub code_objects: usize,
}

/// The kernels that a report lists.
#[derive(Clone, Copy, Debug, Default)]
pub struct WantedKernels<'o> {
    /// The name that the user typed to select kernels, or `None` if all kernels are listed.
    pub name: Option<&'o KernelNames>,
    /// Whether only kernels that need calls of the host are listed.
    pub hostcall: bool,
    /// The conditions on kernels. They also apply to kernels that are not listed because `order` keeps only the first.
    pub fail_on: &'o [KernelCondition],
    /// Whether only kernels that meet a condition are listed.
    pub failing_only: bool,
    /// The order, or `None` for that of the files.
    pub order: Option<KernelOrder>,
}

/// The order of all kernels, and the number of listed kernels.
#[derive(Clone, Copy, Debug)]
pub struct KernelOrder {
    /// The key that sorts the kernels.
    pub key: SortKey,
    /// The number of kernels that are kept at most.
    pub most: usize,
}

impl KernelOrder {
    /// Sorts rows, and keeps only the listed ones. The order of equal rows stays.
    pub fn keep_first(self, rows: &mut Vec<NamedKernel>) {
        rows.sort_by(|a, b| self.key.compare(a, b));
        rows.truncate(self.most);
    }

    /// Adds the rows of another file to those that are `kept`. [`keep_first`](Self::keep_first) sorts them in the end.
    pub fn add(self, kept: &mut Vec<NamedKernel>, rows: Vec<NamedKernel>) {
        kept.extend(rows);
        // Dropping rows only when at least half of them can go keeps the time for sorting low.
        if kept.len() / 2 > self.most.max(ROWS_BETWEEN_SORTS) {
            self.keep_first(kept);
        }
    }
}

/// The selected kernels of a file.
#[derive(Debug)]
#[non_exhaustive]
pub struct KernelsOfFile {
    /// The kernels.
    pub rows: Vec<NamedKernel>,
    /// The sums, also over kernels that the order leaves out.
    pub sums: KernelSums,
    /// The parts of the file that could not be read.
    pub problems: Vec<Error>,
}

/// Sums and other results about the kernels of one or more files.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct KernelSums {
    /// The code objects whose kernels have no registers yet, such as PTX, which is compiled later: their numbers by the
    /// name of their kind.
    pub others: BTreeMap<&'static str, usize>,
    /// The code objects of the files, selected or not.
    pub seen: Seen,
    /// The results of the conditions.
    pub conditions: ConditionResults,
    /// The keys that the kernels can be sorted by.
    pub sort_keys: RecordedKeys,
    names: NameMatches,
}

impl KernelSums {
    /// Adds the sums of another file.
    pub fn add(&mut self, more: Self) {
        for (kind, number) in more.others {
            *self.others.entry(kind).or_default() += number;
        }
        self.seen.extend(more.seen);
        self.names.add(more.names);
        self.conditions.add(more.conditions);
        self.sort_keys.add(more.sort_keys);
    }

    /// Returns the error that no kernel has the name that the user typed, or `None` if one has it. Also returns `None`
    /// if no kernel was found at all and a file could not be read (`is_complete` is false): that file may have the
    /// kernel.
    pub fn unmatched_name(&self, typed: &str, paths: &[PathBuf], is_complete: bool) -> Option<String> {
        self.names.error(typed, paths, is_complete)
    }

    /// Returns the report on these kernels. Its `kernels` are empty: a caller that needs the rows keeps them.
    pub fn report(&self) -> KernelsReport {
        let others = self.others.iter().map(|(&image_kind, &code_objects)| OtherCode { image_kind, code_objects });
        KernelsReport {
            kernels: Vec::new(),
            others: others.collect(),
            failures: self.conditions.failures(),
            not_judged: self.conditions.not_judged(),
        }
    }
}

impl KernelsOfFile {
    /// Selects kernels, checks them, and sorts them.
    ///
    /// # Errors
    /// The errors of the URI of a code object.
    pub fn new(list: KernelList, wanted: WantedKernels<'_>, demangle: DemangleName<'_>) -> Result<Self> {
        let WantedKernels { name, hostcall, fail_on, failing_only, order } = wanted;
        let kernels = list.code_objects.iter().flat_map(|code_object| &code_object.kernels);
        let kernel_names = KernelName::of_all(kernels.map(|kernel| &kernel.name), name, demangle);
        let shown_names = selected(&kernel_names);
        let names = NameMatches::new(&kernel_names, name, !shown_names.is_empty());
        let (mut rows, mut conditions) = (Vec::new(), ConditionResults::new(fail_on));
        for CodeObjectKernels { code_object, recorded_target, kernels, .. } in list.code_objects {
            let code = Arc::new(ListedCode::new(code_object, recorded_target.as_deref())?);
            for kernel in kernels {
                // Only selected kernels have a name in this map.
                let Some(name) = shown_names.get(&kernel.name).map(Arc::clone) else { continue };
                // The conditions had a kernel to judge even if `hostcall` leaves it out.
                conditions.count_judged(&kernel);
                if !hostcall || kernel.hostcall == Some(true) {
                    rows.push(NamedKernel { code: Arc::clone(&code), name, kernel });
                }
            }
        }
        // Conditions also apply to kernels that are not listed, so they are checked before rows are dropped.
        conditions.count_matches(&rows);
        let mut sort_keys = RecordedKeys::default();
        if order.is_some() {
            sort_keys = RecordedKeys::of_kernels(&rows);
        }
        if failing_only {
            rows.retain(|row| fail_on.iter().any(|condition| condition.is_met(&row.kernel)));
        }
        if let Some(order) = order {
            order.keep_first(&mut rows);
        }
        let sums = KernelSums { others: list.others, seen: list.seen, conditions, sort_keys, names };
        Ok(Self { rows, sums, problems: list.problems })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::condition::Judged;
    use super::*;
    use crate::beyond::code::kernels::Kernel;
    use crate::beyond::inventory::tests::place;
    use crate::beyond::scan::CodeObject;

    fn kernel(name: &str, vgprs: u32) -> Kernel {
        Kernel { name: name.as_bytes().into(), vgprs: Some(vgprs), ..Kernel::default() }
    }

    fn list(file: &str, gpu: &str, kernels: Vec<Kernel>) -> KernelList {
        let code_object = Arc::new(CodeObject::in_bundle(place(file), &format!("hip-amdgcn-amd-amdhsa--{gpu}")));
        let code_objects = vec![CodeObjectKernels { code_object, recorded_target: None, kernels }];
        KernelList { code_objects, ..KernelList::default() }
    }

    /// The C++ name of `_Zname` is `name()`.
    fn demangle(name: &[u8]) -> Option<String> {
        let name = std::str::from_utf8(name).unwrap().strip_prefix("_Z")?;
        Some(format!("{name}()"))
    }

    fn conditions(texts: &str) -> Vec<KernelCondition> {
        texts.split(',').map(|text| KernelCondition::parse(text).unwrap()).collect()
    }

    /// Returns the sums over files.
    fn sums(files: Vec<KernelList>, wanted: WantedKernels<'_>) -> KernelSums {
        let mut sums = KernelSums::default();
        for list in files {
            sums.add(KernelsOfFile::new(list, wanted, &demangle).unwrap().sums);
        }
        sums
    }

    #[test]
    fn conditions_name_the_first_kernels_of_all_files() {
        let fail_on = conditions("vgpr>128,hostcall,spill");
        let files = || {
            let spills = Kernel { sgpr_spills: Some(3), vgpr_spills: Some(4), ..kernel("_Zspills", 129) };
            vec![
                list("/a", "gfx906", vec![kernel("_Zsmall", 128), spills, kernel("large", 200)]),
                list("/b", "gfx90a", vec![kernel("_Zfirst", 130), kernel("_Zsecond", u32::MAX)]),
            ]
        };
        let report = sums(files(), WantedKernels { fail_on: &fail_on, ..WantedKernels::default() }).report();
        let failures: Vec<String> = report.failures.iter().map(Failure::to_string).collect();
        let uri = |file: &str| CodeObject::in_bundle(place(file), "").uri().unwrap().unwrap().to_string();
        let [a, b] = ["/a", "/b"].map(uri);
        assert_eq!(
            failures,
            [
                format!(
                    "vgpr>128: 4 kernels with VGPR above 128: 129 in 'spills()' for gfx906 in {a}; \
                     200 in 'large' for gfx906 in {a}; 130 in 'first()' for gfx90a in {b}; and 1 more"
                ),
                format!("spill: 1 kernel spills registers: 7 in 'spills()' for gfx906 in {a}"),
            ]
        );
        let not_judged: Vec<_> = report.not_judged.iter().map(|not| (&*not.condition, not.kernels, not.of)).collect();
        assert_eq!(not_judged, [("hostcall", 5, 5), ("spill", 4, 5)]);
        // Kernels that an order leaves out are judged too.
        let order = Some(KernelOrder { key: SortKey::from_name("name").unwrap(), most: 0 });
        let wanted = WantedKernels { fail_on: &fail_on, order, ..WantedKernels::default() };
        assert_eq!(sums(files(), wanted).report().failures, report.failures);
        assert!(KernelsOfFile::new(files().remove(0), wanted, &demangle).unwrap().rows.is_empty());
    }

    #[test]
    fn conditions_judge_kernels_that_record_their_numbers() {
        let records = |kernel: Kernel| list("/a", "gfx906", vec![kernel]);
        let judged = |texts: &str, hostcall, files| {
            let fail_on = conditions(texts);
            let conditions = sums(files, WantedKernels { fail_on: &fail_on, hostcall, ..WantedKernels::default() });
            (conditions.conditions.judged(), conditions.conditions.unrecorded())
        };
        let plain = || records(kernel("a", 1));
        let calls = || records(Kernel { hostcall: Some(false), ..kernel("b", 1) });
        assert_eq!(judged("vgpr>1", false, vec![plain()]), (Judged::Something, String::new()));
        assert_eq!(judged("vgpr>1,sgpr>1,spill", false, vec![plain()]).1, "'sgpr>1', 'spill'");
        assert_eq!(judged("vgpr>1,sgpr>1", false, vec![plain()]).0, Judged::Unrecorded);
        // One file with the number is enough.
        assert_eq!(judged("hostcall", false, vec![plain(), calls()]), (Judged::Something, String::new()));
        // Kernels without calls of the host are left out, but were looked at.
        assert_eq!(judged("hostcall", true, vec![calls()]).0, Judged::Something);
        let nothing = || list("/a", "gfx906", Vec::new());
        assert_eq!(judged("vgpr>1", false, vec![nothing()]).0, Judged::Nothing);
        assert_eq!(judged("vgpr>1", false, Vec::new()).0, Judged::Nothing);
    }

    #[test]
    fn an_order_over_files_is_that_of_all_kernels_together() {
        let of =
            |file: u32| (0..40).map(|n| kernel(&format!("k{}", n * 37 % 40), (n * 31 + file * 17) % 101)).collect();
        let listed = |order, lists: Vec<KernelList>| {
            let wanted = WantedKernels { order, ..WantedKernels::default() };
            let files = lists.into_iter().map(move |list| KernelsOfFile::new(list, wanted, &demangle).unwrap().rows);
            files.collect::<Vec<_>>()
        };
        let files = || (0..30).map(|file| list(&format!("/{file}"), "gfx906", of(file))).collect::<Vec<_>>();
        let key = |row: &NamedKernel| (row.code.code_object.bundle.place.to_string(), Arc::clone(&row.name));
        for name in ["name", "vgpr", "gpu"] {
            let sort_key = SortKey::from_name(name).unwrap();
            let mut all = listed(None, files()).concat();
            all.sort_by(|a, b| sort_key.compare(a, b));
            for most in [0, 1, 39, 41, 600, usize::MAX] {
                let (order, mut kept) = (KernelOrder { key: sort_key, most }, Vec::new());
                for rows in listed(Some(order), files()) {
                    assert!(rows.len() <= most);
                    order.add(&mut kept, rows);
                    assert!(kept.len() / 2 <= most.max(ROWS_BETWEEN_SORTS), "{name} {most}");
                }
                order.keep_first(&mut kept);
                let expected: Vec<_> = all.iter().take(most).map(key).collect();
                assert_eq!(kept.iter().map(key).collect::<Vec<_>>(), expected, "{name} {most}");
            }
        }
    }

    #[test]
    fn the_strongest_way_in_which_a_name_means_kernels_selects_them_in_each_file() {
        let files = || {
            let kernels = |names: &[&str]| names.iter().map(|name| kernel(name, 1)).collect();
            [
                list("/a", "gfx906", kernels(&["_Zfill", "_Zfill_all", "other"])),
                list("/b", "gfx906", kernels(&["_Zrefill"])),
            ]
        };
        for (typed, selected, error) in [
            ("fill()", "fill() refill()", None),
            ("fill", "fill() fill_all() refill()", None),
            ("=fill()", "fill()", None),
            ("_Zfill", "fill() fill_all()", None),
            ("fi*", "fill() fill_all()", None),
            ("OTHER", "", Some("did you mean 'other'?")),
            ("absent", "", Some("they have: fill(), fill_all(), other, refill()")),
        ] {
            let names = KernelNames::typed([typed], demangle);
            let wanted = WantedKernels { name: Some(&names), ..WantedKernels::default() };
            let (mut shown, mut sums) = (Vec::new(), KernelSums::default());
            for list in files() {
                let file = KernelsOfFile::new(list, wanted, &demangle).unwrap();
                shown.extend(file.rows.iter().map(|row| row.name.to_string()));
                sums.add(file.sums);
            }
            assert_eq!(shown.join(" "), selected, "{typed}");
            let paths = ["/a", "/b"].map(PathBuf::from);
            let error = error.map(|others| format!("no kernel matches '{typed}' in 2 files; {others}"));
            assert_eq!(sums.unmatched_name(typed, &paths, true), error);
            assert_eq!(sums.unmatched_name(typed, &paths, false), error);
        }
        // A file that could not be read may have the kernel, if no other was found.
        let (nothing, paths) = (KernelSums::default(), [PathBuf::from("a")]);
        assert_eq!(nothing.unmatched_name("x", &paths, false), None);
        assert_eq!(nothing.unmatched_name("x", &paths, true).unwrap(), "no kernel matches 'x' in 'a'; it has none");
    }

    #[test]
    fn other_code_is_counted_over_all_files() {
        let of = |others: &[(&'static str, usize)]| KernelList {
            others: others.iter().copied().collect(),
            ..KernelList::default()
        };
        let files = vec![of(&[("PTX", 2), ("bitcode", 1)]), of(&[]), of(&[("PTX", 3)])];
        let others = sums(files, WantedKernels::default()).report().others;
        let others: Vec<_> = others.iter().map(|other| (other.image_kind, other.code_objects)).collect();
        assert_eq!(others, [("PTX", 5), ("bitcode", 1)]);
    }
}
