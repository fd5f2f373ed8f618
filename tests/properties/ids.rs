use offload_bundle::id::target_id::TargetId;
use offload_bundle::id::triple::{Form, Triple, normalize};
use offload_bundle::id::{Compatibility, EntryId, OffloadKind, Rules};
use offload_bundle::inventory::{Comparison, Pattern, Selection};
use offload_bundle::scan::{Finding, Scan};

use super::formats;

/// Any text is an entry ID or an error. The written form of an ID parses, and its written form is the same; normalising
/// a triple twice changes nothing more. An ID serves a request for itself, unless it names a version of AMD GPUs that
/// LLVM does not know, and the compatibility of two IDs follows the rule for their parts. In a bundle, each ID selects
/// exactly the entries with the same ID.
///
/// The bytes are two IDs, one per line.
pub fn ids(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (first, second) = text.split_once('\n').unwrap_or((&text, "hip-amdgcn-amd-amdhsa--gfx90a:xnack+"));
    for text in [first, second] {
        normalising(text);
        for id in [EntryId::parse(text), EntryId::parse_any(text)].into_iter().flatten() {
            written(&id);
        }
    }
    asked_for([first, second]);
    if let (Ok(first), Ok(second)) = (EntryId::parse(first), EntryId::parse(second)) {
        for hip_serves_openmp in [false, true] {
            let mut rules = Rules::default();
            rules.hip_serves_openmp = hip_serves_openmp;
            compatibility(&first, &second, rules);
            compatibility(&second, &first, rules);
        }
        let conflict = first.target_id().conflicts_with(second.target_id());
        assert_eq!(second.target_id().conflicts_with(first.target_id()), conflict);
    }
}

fn normalising(text: &str) {
    for form in [Form::Three, Form::Four, Form::Any] {
        let once = normalize(text, form);
        // A fifth word that is cut off may have moved another word to its place. Without an architecture, another word
        // may be read as one.
        let settled = form != Form::Three && !Triple::parse(&once).arch().is_empty();
        assert!(!settled || normalize(&once, form) == once, "{text:?} as {form:?}: {once:?}");
        let fields = once.split('-').count();
        assert!(form != Form::Three || fields == 3, "{once}");
        assert!(form != Form::Four || fields == 4, "{once}");
    }
}

fn written(id: &EntryId) {
    let text = id.to_string();
    let again = EntryId::parse_any(&text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    // LLVM writes words in their normalised places, but reads them where they are. Only if amdhsa was in another place
    // does the second writing omit something: the environment.
    let system = |triple: &str| Triple::parse(triple).os();
    // A word that looks like a GPU and is written in the place of the environment is read as a GPU.
    let reads_as_gpu = |word: &str| word.starts_with("sm_") || word.starts_with("gfx");
    if id.triple().as_str().split('-').any(reads_as_gpu) {
        return;
    }
    if id.triple().os() == "amdhsa" || system(&normalize(id.triple().as_str(), Form::Four)) != "amdhsa" {
        // A triple of SYCL with less than four fields gets a dash for an empty target ID only once it has four.
        assert_eq!(again.to_string().trim_end_matches('-'), text.trim_end_matches('-'));
    }
    assert_eq!(again.kind(), id.kind());
    assert_eq!(again.target_id(), id.target_id());
    if is_unknown_version(id) {
        return;
    }
    for id in [id, &again] {
        assert_eq!(id.compatibility(id, Rules::default()), Compatibility::Exact, "{text}");
    }
    assert!(id.target_id().features().map(|(name, _)| name).is_sorted(), "features out of order: {text}");
    let target = id.target_id().to_string();
    let parsed = TargetId::parse(&target, id.triple().arch()).unwrap();
    assert_eq!(&parsed, id.target_id());
    let triple = Triple::parse(id.triple().as_str());
    assert!(triple.is_compatible_with(id.triple()) && id.triple().is_compatible_with(&triple));
}

/// Whether an ID is for a version of AMD GPUs that LLVM does not know. Such an ID serves no request.
fn is_unknown_version(id: &EntryId) -> bool {
    let arch = id.triple().as_str().split('-').next().unwrap_or_default();
    id.triple().arch() == "amdgpu" && !matches!(arch, "amdgpu" | "amdgcn") && id.triple().amd_processor().is_none()
}

/// Each ID that a search shows selects its entry and those with the same ID, and no others. So does its kind.
fn asked_for(ids: [&str; 2]) {
    let bundle = formats::binary(&ids.map(|id| (id.as_bytes().to_vec(), b"code".to_vec())), 1);
    let asked = |id: &str, shown: &str| {
        let id = EntryId::parse_any(id).ok().filter(|_| shown == id && !id.contains(['*', '?', '[']))?;
        Some((id, Pattern::parse(shown).unwrap_or_else(|error| panic!("{error}"))))
    };
    let mut look = |finding: Finding<'_>| {
        let Finding::Bundle(found) = finding else { return Ok(()) };
        for shown in found.code_objects().map(|code_object| code_object.shown_id()) {
            let Some((id, pattern)) = ids.iter().find_map(|id| asked(id, &shown)) else { continue };
            let mut exact = Selection::default();
            (exact.targets, exact.comparison) = (vec![pattern], Comparison::Exact);
            let mut kind = Selection::default();
            kind.kinds = vec![id.kind()];
            let mut wildcard = Selection::default();
            wildcard.targets = vec![Pattern::parse(&format!("{shown}*")).unwrap_or_else(|error| panic!("{error}"))];
            for other in found.code_objects() {
                let own = other.entry_id();
                assert!(wildcard.takes(&other) || other.shown_id() != shown, "{shown:?}");
                assert_eq!(exact.takes(&other), own.as_ref() == Some(&id), "{shown:?} for {:?}", other.shown_id());
                let same_kind = |own: &EntryId| own.kind() == id.kind() || own.kind().is_hip() && id.kind().is_hip();
                assert_eq!(kind.takes(&other), own.as_ref().is_some_and(same_kind), "{:?}", other.shown_id());
                let named = OffloadKind::from_name(other.shown_id().split('-').next().unwrap());
                assert!(own.is_none_or(|own| Some(own.kind()) == named), "{:?}", other.shown_id());
            }
        }
        Ok(())
    };
    Scan::default().run(&bundle, &mut look).unwrap();
}

/// An independent implementation of the rule in the documentation.
fn compatibility(entry: &EntryId, request: &EntryId, rules: Rules) {
    let kinds = [entry, request].map(|id| id.kind().name());
    let same_kind = match kinds {
        [a, b] if a == b => true,
        ["hip" | "hipv4", "hip" | "hipv4"] => true,
        ["openmp", "hip" | "hipv4"] | ["hip" | "hipv4", "openmp"] => rules.hip_serves_openmp,
        _ => false,
    };
    let triples = entry.triple().is_compatible_with(request.triple());
    let (ours, theirs) = (entry.target_id(), request.target_id());
    let exact = kinds[0] == kinds[1] && ours == theirs;
    let runs = !ours.is_empty()
        && ours.processor() == theirs.processor()
        && ours.check_features().is_ok()
        && theirs.check_features().is_ok()
        && ours.features().all(|feature| theirs.features().any(|other| other == feature));
    let expected = same_kind && triples && (exact || runs);
    let outcome = entry.compatibility(request, rules);
    assert_eq!(outcome.is_compatible(), expected, "{entry} for {request}: {outcome:?}");
    assert_eq!(outcome == Compatibility::Exact, triples && exact, "{entry} for {request}");
}
