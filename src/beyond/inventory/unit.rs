//! Units: code that a program loads together, for several GPUs. It needs one code object of each unit, for its GPU.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::groups::Groups;
use crate::base::id::OffloadKind;
use crate::beyond::code::check;
use crate::beyond::container::kpack::{self, Reference};
use crate::beyond::container::{ContentKind, Rule};
use crate::beyond::runtime::{
    BundleCodes, Code, CodeUse, Device, FoundCode, GpuVendor, UnfoundCode, directory_of, is_loaded_file,
};
use crate::beyond::scan::{Followed, Format, FoundBundle, Place, Split};

/// Stands in for the position of code in kpack archives, which is not used: a search of the library numbers only the
/// code objects in the library itself.
const NO_POSITION: usize = 0;

/// The part of a unit that a program needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnitRole {
    /// Code for each GPU, so the unit should serve all GPUs of its vendors.
    Whole,
    /// Relocatable CUDA code of one object of a linked file. When the program starts, the driver links the relocatable
    /// code of all objects, for GPUs that the linked code does not serve.
    Relinked,
    /// All device images of a library, or other code that counts as one unit, because the parts do not record which of
    /// them hold the same kernels for different GPUs.
    Together,
    /// Code for some GPUs. Other units of the file may serve the rest of the GPUs: code objects without a bundle.
    RestInFile,
    /// Code for some GPUs. Other files may serve the rest of the GPUs: kpack archives, and files that are not bundles.
    RestInOtherFiles,
}

/// The largest cubin in bytes that is read to see whether it has code: one without code has about 900 bytes.
const WITHOUT_CODE_MAX: u64 = 4096;

/// Returns whether a bundle has code objects, and all of them are cubins without code, which no program needs.
fn is_without_code(found: &FoundBundle<'_>) -> bool {
    let mut code_objects = found.code_objects().filter(|code_object| code_object.size() > 0).peekable();
    let has_any = code_objects.peek().is_some();
    has_any
        && code_objects.all(|code_object| {
            code_object.kind() == Some(ContentKind::Cubin)
                && code_object.size() <= WITHOUT_CODE_MAX
                && code_object.in_place().is_some_and(|content| check::is_without_code(content.bytes()))
        })
}

/// The code of one or more units, without places.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CodeSet {
    /// The vendors of the GPUs that the unit has entries for. Empty if they are unknown. The code should serve all GPUs
    /// of these vendors.
    pub(crate) vendors: BTreeSet<GpuVendor>,
    /// The different code that a runtime finds and loads, each with the position of its first code object among all
    /// code objects of the unit that a runtime finds.
    pub(crate) codes: BTreeMap<Code, usize>,
    /// The code that a runtime does not find or load.
    pub(crate) unfound: BTreeSet<UnfoundCode>,
}

impl CodeSet {
    /// Returns whether the code should serve a GPU: it has entries for GPUs of the same vendor, or no entries for any.
    pub(crate) fn is_for(&self, device: &Device) -> bool {
        self.vendors.is_empty() || self.vendors.contains(&device.vendor())
    }

    /// Returns whether the code serves all variants of a GPU.
    pub(crate) fn serves(&self, device: &Device) -> bool {
        device.unserved_variants(self.codes.keys()).next().is_none()
    }

    /// Returns whether the code serves all variants of a GPU without any that is compiled when the program starts.
    pub(crate) fn serves_without_jit(&self, device: &Device) -> bool {
        device.unserved_variants(self.codes.keys().filter(|code| !code.is_jit())).next().is_none()
    }

    /// Adds the code of another unit. Code that both have keeps its position in this one.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.vendors.extend(&other.vendors);
        // Most units of a library share their code, which is copied only if it is new.
        for (code, position) in &other.codes {
            if !self.codes.contains_key(code) {
                self.codes.insert(code.clone(), *position);
            }
        }
        for unfound_code in &other.unfound {
            if !self.unfound.contains(unfound_code) {
                self.unfound.insert(unfound_code.clone());
            }
        }
    }
}

/// Where a unit is.
#[derive(Clone, Debug)]
pub(crate) struct UnitPlace {
    place: Arc<Place>,
    part: UnitPart,
}

/// The part of its place that a unit is.
#[derive(Clone, Copy, Debug)]
enum UnitPart {
    /// The bundle with this index and offset.
    Bundle(usize, u64),
    /// Several containers, one for each target, from this index and offset on, or a code object without a bundle.
    Objects(usize, u64),
    /// Code in kpack archives that a library with a reference at this place loads.
    Archives,
    /// All device images of the library at this place.
    Library,
}

impl UnitPlace {
    fn of(found: &FoundBundle<'_>, place: Arc<Place>) -> Self {
        let (index, offset) = (found.index, found.bundle.offset);
        let is_bundle = !found.format.has(Rule::OnePerTarget) && found.format != Format::CodeObject;
        let part = if is_bundle { UnitPart::Bundle(index, offset) } else { UnitPart::Objects(index, offset) };
        Self { place, part }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the index and the offset of the bundle at its place, or `None` if the unit is not a bundle.
    pub(crate) fn bundle(&self) -> Option<(usize, u64)> {
        if let UnitPart::Bundle(index, offset) = self.part { Some((index, offset)) } else { None }
    }

    /// Returns the index and the offset of the first container at its place, which may be a code object without a
    /// bundle. `None` for code in kpack archives, and for all device images of a library.
    pub(crate) fn container(&self) -> Option<(usize, u64)> {
        match self.part {
            UnitPart::Bundle(index, offset) | UnitPart::Objects(index, offset) => Some((index, offset)),
            UnitPart::Archives | UnitPart::Library => None,
        }
    }
}

/// Code that a program loads together, for several GPUs. A unit is usually a bundle, but may be several offload
/// binaries, all device images of a library, a file, or the code of a wrapper in kpack archives.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) at: UnitPlace,
    pub(crate) role: UnitRole,
    /// The way in which a program uses the code.
    pub(crate) code_use: CodeUse,
    /// The directory, if the unit is a file that serves together with others there.
    pub(crate) directory: Option<Arc<Place>>,
    /// The first source file that the code objects record.
    pub(crate) source: Option<Arc<str>>,
    pub(crate) code: Arc<CodeSet>,
}

impl Unit {
    /// Returns the library of the unit: a directory, if the files there serve together.
    pub(crate) fn library(&self) -> Place {
        match &self.directory {
            Some(directory) => (**directory).clone(),
            None => self.at.place().library(),
        }
    }
}

/// Returns the libraries of some units, in the order of their first units.
pub(crate) fn by_library<'u>(units: impl IntoIterator<Item = &'u Unit>) -> Vec<(Place, Vec<&'u Unit>)> {
    let mut libraries: Groups<Place, Vec<&Unit>> = Groups::default();
    for unit in units {
        libraries.at(unit.library()).push(unit);
    }
    libraries.into_vec()
}

/// A unit while it is put together, with the position of each code object in the search: its index among all code
/// objects found.
#[derive(Clone, Debug)]
pub(crate) struct FoundUnit {
    at: UnitPlace,
    pub(crate) role: UnitRole,
    pub(crate) code_use: CodeUse,
    directory: Option<Place>,
    source: Option<String>,
    vendors: BTreeSet<GpuVendor>,
    /// The code that a runtime finds and loads, with positions.
    pub(crate) codes: Vec<(usize, Code)>,
    pub(crate) unfound: Vec<UnfoundCode>,
}

impl FoundUnit {
    /// Returns a unit for a bundle. Its code is not added yet.
    fn new(found: &FoundBundle<'_>, place: &Arc<Place>, vendors: BTreeSet<GpuVendor>) -> Self {
        Self {
            at: UnitPlace::of(found, Arc::clone(place)),
            role: UnitRole::Whole,
            code_use: CodeUse::of(found),
            directory: None,
            source: found.code_objects().find_map(|code_object| code_object.shown_source()),
            vendors,
            codes: Vec::new(),
            unfound: Vec::new(),
        }
    }

    /// Returns the units of a split library: one for each index in its wrappers, with the code of that index in the
    /// kpack archives. Returns no units if the reference of the library was not followed.
    fn of_split(place: &Place, split: &Split<'_>) -> Vec<Self> {
        let Some(archives) = split.archives else { return Vec::new() };
        let codes_by_index = codes_in_archives(archives, split.reference);
        let place = Arc::new(place.clone());
        let mut units = Vec::new();
        let mut seen = HashSet::new();
        for index in split.indices {
            // An index without code in the archives makes a unit that serves no GPU, because the library needs that
            // code.
            if seen.insert(*index) {
                units.push(Self {
                    at: UnitPlace { place: Arc::clone(&place), part: UnitPart::Archives },
                    role: UnitRole::Whole,
                    code_use: CodeUse::Choice,
                    directory: None,
                    source: None,
                    vendors: BTreeSet::from([GpuVendor::Amd]),
                    codes: codes_by_index.get(index).cloned().unwrap_or_default(),
                    unfound: Vec::new(),
                });
            }
        }
        units
    }

    /// Returns the place of the first bundle of the unit.
    pub(crate) fn place(&self) -> &Place {
        self.at.place()
    }

    /// Returns whether the unit has this code, found or not.
    fn has(&self, code: &Code) -> bool {
        self.codes.iter().any(|(_, other)| other.has_target_of(code))
            || self.unfound.iter().any(|unfound| unfound.code.has_target_of(code))
    }

    /// Returns the code, with positions in the unit instead of the search.
    fn code(&self) -> CodeSet {
        let mut codes = BTreeMap::new();
        for (position, (_, code)) in self.codes.iter().enumerate() {
            codes.entry(code.clone()).or_insert(position);
        }
        CodeSet { vendors: self.vendors.clone(), codes, unfound: self.unfound.iter().cloned().collect() }
    }
}

/// The units of a file, in the order in which they end. The units of [device images](UnitRole::Together) follow, one
/// for each library.
#[derive(Debug, Default)]
pub(crate) struct Units {
    building: UnitBuilder,
    /// The code of the device images of each library.
    together: Groups<Place, CodeSet>,
    /// Each different code, directory and source file once, because most units of a library share them.
    codes: HashSet<Arc<CodeSet>>,
    directories: HashSet<Arc<Place>>,
    sources: HashSet<Arc<str>>,
    units: Vec<Unit>,
}

impl Units {
    /// Adds the next bundle of the search.
    pub(crate) fn add(&mut self, found: &FoundBundle<'_>) {
        let complete = self.building.add(found);
        self.add_complete(complete);
    }

    /// Adds the code objects in kpack archives that a split library loads.
    pub(crate) fn add_split(&mut self, place: &Place, split: &Split<'_>) {
        self.add_complete(FoundUnit::of_split(place, split));
    }

    /// Returns all units. Called at the end of the search.
    pub(crate) fn finish(mut self) -> Vec<Unit> {
        let last = self.building.finish_all();
        self.add_complete(last);
        for (library, code) in std::mem::take(&mut self.together).into_vec() {
            self.units.push(Unit {
                at: UnitPlace { place: Arc::new(library), part: UnitPart::Library },
                role: UnitRole::Whole,
                code_use: CodeUse::Each,
                directory: None,
                source: None,
                code: shared(&mut self.codes, code),
            });
        }
        self.units
    }

    /// Adds complete units. Device images (`Together`) become one unit for each library.
    fn add_complete(&mut self, units: Vec<FoundUnit>) {
        for unit in units {
            if unit.role == UnitRole::Together {
                self.together.at(unit.place().library()).merge(&unit.code());
                continue;
            }
            let code = shared(&mut self.codes, unit.code());
            let FoundUnit { at, role, code_use, directory, source, .. } = unit;
            let directory = directory.map(|place| shared(&mut self.directories, place));
            let source = source.map(|source| match self.sources.get(source.as_str()) {
                Some(known) => Arc::clone(known),
                None => {
                    let source: Arc<str> = source.into();
                    self.sources.insert(Arc::clone(&source));
                    source
                }
            });
            self.units.push(Unit { at, role, code_use, directory, source, code });
        }
    }
}

/// Returns the value in a set that equals `value`, after adding it if it is new.
fn shared<T: std::hash::Hash + Eq>(known: &mut HashSet<Arc<T>>, value: T) -> Arc<T> {
    if let Some(known) = known.get(&value) {
        return Arc::clone(known);
    }
    let value = Arc::new(value);
    known.insert(Arc::clone(&value));
    value
}

/// Puts units together from the bundles of a search, which are added in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnitBuilder {
    /// The units of offload binaries at one place, by their offload kind. The next offload binary may add code to them.
    /// The kind is `None` as long as a unit has no code.
    incomplete: Vec<(Option<OffloadKind>, FoundUnit)>,
    /// The file that was read last, if it is a code object, a bundle or a fatbin itself. It is not in `incomplete`,
    /// because no code is added to it. If the next bundle is in the same file, the file counts in another way: see
    /// `end_file`.
    file: Option<FoundUnit>,
    /// The place of the last container of device images. Findings inside of its images follow it.
    images: Option<Arc<Place>>,
    /// The code of the last archive in a device image, from which a driver chooses. The next code object may be in the
    /// same archive.
    archive: Option<FoundUnit>,
    /// Whether a file that is itself a bundle or a fatbin is a unit like any bundle, rather than a file of its
    /// directory. Code objects without a bundle need not serve every GPU then.
    ignores_files: bool,
    /// The number of code objects of all bundles so far: the position of the next one.
    code_objects: usize,
    /// The place of the last bundle.
    last_place: Option<Arc<Place>>,
}

impl UnitBuilder {
    /// Returns a builder for which each bundle is a unit of its own, even if several files serve GPUs together.
    pub(crate) fn of_bundles() -> Self {
        Self { ignores_files: true, ..Self::default() }
    }

    /// Adds the next bundle of the search, and returns the units that are complete.
    pub(crate) fn add(&mut self, found: &FoundBundle<'_>) -> Vec<FoundUnit> {
        let mut complete: Vec<FoundUnit> = self.end_file(Some(found.place)).into_iter().collect();
        complete.extend(self.end_archive(Some(found.place)));
        complete.extend(self.add_bundle(found));
        complete
    }

    /// Returns `place` in an `Arc`: that of the last bundle if it was at the same place, otherwise a new one.
    fn shared_place(&mut self, place: &Place) -> Arc<Place> {
        if let Some(last) = &self.last_place
            && **last == *place
        {
            return Arc::clone(last);
        }
        let place = Arc::new(place.clone());
        self.last_place = Some(Arc::clone(&place));
        place
    }

    /// Takes the file that was read last, and returns its unit. `next` is the place of the next bundle, or `None` if
    /// nothing follows. Returns `None` if there is no such file.
    fn end_file(&mut self, next: Option<&Place>) -> Option<FoundUnit> {
        const IS_FILE: bool = true;
        let file = self.file.take()?;
        let has_more_bundles = next == Some(file.place());
        if !has_more_bundles {
            return Some(file);
        }
        // A file with more than one bundle does not serve together with the other files of its directory. Each of its
        // bundles is a unit, and a code object without a bundle need not serve every GPU.
        let role = if file.at.bundle().is_some() { UnitRole::Whole } else { role_of_some(file.place(), IS_FILE) };
        Some(FoundUnit { directory: None, role, ..file })
    }

    /// Takes the code of the last archive in a device image, and returns its unit, unless the next bundle is in the
    /// same archive. `next` is its place, or `None` if nothing follows.
    fn end_archive(&mut self, next: Option<&Place>) -> Option<FoundUnit> {
        let archive = self.archive.as_ref()?;
        let is_same = next.is_some_and(|next| is_in_same_archive(next, archive.place()));
        if is_same { None } else { self.archive.take() }
    }

    /// Adds the next bundle of the search, and returns the units that are complete. `add` has taken the previous file
    /// out of `self.file` before the call, and an archive that does not have this bundle out of `self.archive`.
    fn add_bundle(&mut self, found: &FoundBundle<'_>) -> Vec<FoundUnit> {
        let first_position = self.code_objects;
        self.code_objects = first_position.saturating_add(found.bundle.entries.len());
        let is_file = !self.ignores_files && is_loaded_file(found);
        let place = self.shared_place(found.place);
        let bundle_codes = BundleCodes::of(found);
        // The search reports the containers in an outer bundle as bundles themselves.
        if bundle_codes.is_outer || is_without_code(found) {
            return Vec::new();
        }
        if found.format.has(Rule::OnePerTarget) && !is_file && !found.is_for_some_gpus() {
            return self.add_offload_binary(found, &place, (first_position, bundle_codes));
        }
        let BundleCodes { found: codes, unfound, vendors, .. } = bundle_codes;
        let codes = codes.into_iter().map(|code| (first_position.saturating_add(code.index), code.code)).collect();
        let unfound = unfound.into_iter().map(|(_, unfound)| unfound).collect();
        let mut unit = FoundUnit { codes, unfound, ..FoundUnit::new(found, &place, vendors) };
        if is_file {
            unit.directory = Some(directory_of(found.place));
            // The file is complete only once the next bundle shows that no more bundles of it follow.
            self.file = Some(unit);
            return Vec::new();
        }
        if found.format.has(Rule::EachNeeded) {
            self.images = Some(Arc::clone(&place));
        } else if self.is_in_image(found) {
            self.add_to_archive(unit);
            return Vec::new();
        }
        unit.role = role_of(found);
        // In these roles, a bundle without code is a unit that serves no GPU. Of an archive, any number of parts may
        // have no code.
        let counts_without_code = matches!(unit.role, UnitRole::Whole | UnitRole::Relinked);
        if counts_without_code || !unit.codes.is_empty() || !unit.unfound.is_empty() { vec![unit] } else { Vec::new() }
    }

    /// Returns whether a bundle is a code object in an archive that is a device image.
    fn is_in_image(&self, found: &FoundBundle<'_>) -> bool {
        let images = self.images.as_deref();
        found.format == Format::CodeObject && images.is_some_and(|images| found.place.is_in_entry_at(images))
    }

    /// Adds a code object to the code of its archive.
    fn add_to_archive(&mut self, code_object: FoundUnit) {
        match &mut self.archive {
            Some(archive) => {
                archive.vendors.extend(code_object.vendors);
                archive.codes.extend(code_object.codes);
                archive.unfound.extend(code_object.unfound);
            }
            None => {
                let (role, code_use) = (UnitRole::Together, CodeUse::Choice);
                self.archive = Some(FoundUnit { role, code_use, ..code_object });
            }
        }
    }

    /// Adds an offload binary to the units of its place. Offload binaries of one source file and one offload kind,
    /// which follow one another at a place, are one unit: clang writes one for each GPU. `first_position` is the
    /// position of the first code object. Returns the units that are complete.
    fn add_offload_binary(
        &mut self,
        found: &FoundBundle<'_>,
        place: &Arc<Place>,
        (first_position, bundle_codes): (usize, BundleCodes),
    ) -> Vec<FoundUnit> {
        let BundleCodes { found: codes, unfound, vendors, .. } = bundle_codes;
        let new_unit = || FoundUnit::new(found, place, vendors.clone());
        // The first offload binary at a place has the index 0. Not every caller adds that one, so the places are
        // compared too.
        let is_new_place = found.index == 0 || self.incomplete.iter().any(|(_, unit)| unit.place() != found.place);
        // Nothing more is added to the units of the previous place.
        let mut complete = if is_new_place { self.take_all_incomplete() } else { Vec::new() };
        // An offload binary without code counts as a bundle too, unless others at its place have code.
        if codes.is_empty() && unfound.is_empty() && self.incomplete.is_empty() {
            self.incomplete.push((None, new_unit()));
        }
        for FoundCode { index, kind, code } in codes {
            if let Some(unit) = self.unit_for(kind, &code, &new_unit, &mut complete) {
                unit.vendors.extend(&vendors);
                unit.codes.push((first_position.saturating_add(index), code));
            }
        }
        for (kind, unfound) in unfound {
            if let Some(unit) = self.unit_for(kind, &unfound.code, &new_unit, &mut complete) {
                unit.vendors.extend(&vendors);
                unit.unfound.push(unfound);
            }
        }
        complete
    }

    /// Returns the unit that gets a code object of an offload binary. If the unit of its kind already has code for the
    /// same GPU, moves that unit to `complete` and returns a new one: a second code object for a GPU is from another
    /// source file. Never returns `None`.
    fn unit_for(
        &mut self,
        kind: OffloadKind,
        code: &Code,
        new_unit: &dyn Fn() -> FoundUnit,
        complete: &mut Vec<FoundUnit>,
    ) -> Option<&mut FoundUnit> {
        let new_index = self.incomplete.len();
        // The first code decides the kind of a unit without code.
        let mut units = self.incomplete.iter();
        let index = units.position(|(unit_kind, _)| unit_kind.is_none_or(|unit_kind| unit_kind == kind));
        let index = index.unwrap_or(new_index);
        if index == new_index {
            self.incomplete.push((None, new_unit()));
        }
        let (unit_kind, unit) = self.incomplete.get_mut(index)?;
        if unit.has(code) {
            complete.push(std::mem::replace(unit, new_unit()));
        }
        *unit_kind = Some(kind);
        Some(unit)
    }

    /// Takes and returns all units that waited for more bundles: the units of offload binaries, the file that was read
    /// last, and the last archive in a device image. They are complete now. Called at the end of the search.
    pub(crate) fn finish_all(&mut self) -> Vec<FoundUnit> {
        let mut finished = self.take_all_incomplete();
        finished.extend(self.end_file(None));
        finished.extend(self.end_archive(None));
        finished
    }

    /// Takes and returns the units that waited for more bundles at the places that `is_over` accepts. No more bundles
    /// follow there, so these units are complete now.
    pub(crate) fn finish_places(&mut self, is_over: impl Fn(&Place) -> bool) -> Vec<FoundUnit> {
        let over = self.incomplete.extract_if(.., |(_, unit)| is_over(unit.place()));
        let mut finished: Vec<FoundUnit> = over.map(|(_, unit)| unit).collect();
        // The file that was read last waits too, but is not in `incomplete`.
        if let Some(file) = &self.file
            && is_over(file.place())
        {
            finished.extend(self.end_file(None));
        }
        if let Some(archive) = &self.archive
            && is_over(archive.place())
        {
            finished.extend(self.end_archive(None));
        }
        finished
    }

    /// Takes the units of offload binaries, because nothing more is added to them.
    fn take_all_incomplete(&mut self) -> Vec<FoundUnit> {
        std::mem::take(&mut self.incomplete).into_iter().map(|(_, unit)| unit).collect()
    }

    /// Returns whether the next bundle may add code to some units. The file in `self.file` does not count: nothing is
    /// added to it.
    pub(crate) fn has_incomplete(&self) -> bool {
        !self.incomplete.is_empty() || self.archive.is_some()
    }

    /// Returns the number of code objects of all bundles so far.
    pub(crate) fn code_objects(&self) -> usize {
        self.code_objects
    }
}

/// Returns whether two places are members of one archive.
fn is_in_same_archive(one: &Place, other: &Place) -> bool {
    match (one.parent(), other.parent()) {
        (Some((one, _)), Some((other, _))) => one == other,
        _ => false,
    }
}

/// Returns the code in kpack archives that a library with this reference loads, by the index of its wrapper.
fn codes_in_archives(archives: &[Followed], reference: &Reference) -> HashMap<u32, Vec<(usize, Code)>> {
    let mut by_index: HashMap<u32, Vec<(usize, Code)>> = HashMap::new();
    for archive in archives.iter().filter_map(|followed| followed.archive.as_ref()) {
        let claims = archive.claims();
        for binary in &archive.binaries {
            // Only the code of this library has an index.
            let Some(index) = reference.index_of(&binary.key) else { continue };
            let codes = by_index.entry(index).or_default();
            for target in binary.entries.iter().map(kpack::target_of) {
                // AMD's loader asks an archive only for the targets that it claims.
                if claims.contains(target)
                    && let Some(code) = Code::of_kpack(target)
                {
                    codes.push((NO_POSITION, code));
                }
            }
        }
    }
    by_index
}

/// Returns the role of a unit that is a single bundle, or a code object without a bundle.
fn role_of(found: &FoundBundle<'_>) -> UnitRole {
    if found.format.has(Rule::EachNeeded) {
        UnitRole::Together
    } else if found.is_relinked() {
        UnitRole::Relinked
    } else if found.format.has(Rule::Archive) {
        UnitRole::RestInOtherFiles
    } else if found.is_for_some_gpus() {
        role_of_some(found.place, found.is_file())
    } else {
        UnitRole::Whole
    }
}

/// Returns the role of code that need not serve every GPU. If `is_file` is set and the place has no steps, the code is
/// the searched file itself, so only other files can serve the rest.
fn role_of_some(place: &Place, is_file: bool) -> UnitRole {
    if is_file && place.steps().is_empty() { UnitRole::RestInOtherFiles } else { UnitRole::RestInFile }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::beyond::scan::Step;

    /// Returns the place of a file, or of a member of a package for a name such as `a.whl(lib.so)`.
    pub(crate) fn place(name: &str) -> Place {
        let (file, members) = name.split_once('(').unwrap_or((name, ""));
        members
            .split(['(', ')'])
            .filter(|member| !member.is_empty())
            .fold(Place::of_file(file.as_ref()), |place, name| {
                place.join(Step::Member(name.as_bytes().to_vec())).packaged()
            })
    }

    /// Returns a bundle at a place, with code for these targets. The vendors are those of the code.
    pub(crate) fn unit(name: &str, role: UnitRole, targets: &str) -> Unit {
        let code = |name: &str| Code::from_name(name).unwrap();
        let codes: BTreeMap<Code, usize> =
            targets.split_whitespace().enumerate().map(|(index, name)| (code(name), index)).collect();
        let vendors = codes.keys().filter_map(Device::from_code).map(|device| device.vendor()).collect();
        Unit {
            at: UnitPlace { place: Arc::new(place(name)), part: UnitPart::Bundle(0, 0) },
            role,
            code_use: CodeUse::Choice,
            directory: None,
            source: None,
            code: Arc::new(CodeSet { vendors, codes, unfound: BTreeSet::new() }),
        }
    }

    #[test]
    fn libraries_are_files_and_files_in_packages() {
        let units: Vec<Unit> = ["a.whl(x.so)", "a.so", "a.whl(y.so)", "a.whl(x.so)"]
            .map(|name| unit(name, UnitRole::Whole, "gfx906"))
            .into();
        let libraries: Vec<_> =
            by_library(&units).into_iter().map(|(place, units)| (place.to_string(), units.len())).collect();
        assert_eq!(libraries, [("a.whl(x.so)".into(), 2), ("a.so".into(), 1), ("a.whl(y.so)".into(), 1)]);
    }
}
