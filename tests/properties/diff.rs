use std::io::Cursor;

use offload_bundle::container::binary::Binary;
use offload_bundle::container::stream::{Compression, Method};
use offload_bundle::container::{Member, compressed};
use offload_bundle::io::{Input, write_to};
use offload_bundle::job::{Diff, FileDiff};

use super::choices::{Choices, digest};
use super::code_objects::{Kernel, amd};
use super::said;
use super::search::{LIMITS, leads_elsewhere};
use super::sources::Sources;

/// Any bytes are compared with themselves, with a part of them and with nothing, twice with the same result. If they
/// can be read, nothing differs from itself. Code objects that are only in one file are added or removed, whichever
/// file is the old one.
///
/// Bundles are written from decisions, plain or compressed, in any order. Exactly the code object that was changed,
/// added or removed is reported, with its kernel.
///
/// If a compressed bundle records the hash of other content, a problem is reported and nothing in it is equal. Only a
/// comparison that trusts hashes calls it equal, and counts it.
pub fn diff(data: &[u8]) {
    hostile(data);
    written(data);
    lying(data);
}

fn input(data: &[u8]) -> Input {
    Input::from_bytes("in", data.to_vec())
}

fn run(old: Option<&[u8]>, new: Option<&[u8]>) -> FileDiff {
    let [old, new] = [old, new].map(|data| data.map(input));
    let diff = job().run(old.as_ref(), new.as_ref()).unwrap();
    diff.problems.iter().for_each(|problem| drop(said(problem)));
    diff
}

fn job() -> Diff {
    let mut job = Diff::default();
    job.scan.limits = LIMITS;
    job
}

/// The numbers of code objects that are equal, changed, added and removed.
fn counts(diff: &FileDiff) -> [usize; 4] {
    let sum = |number: fn(&offload_bundle::job::GpuDiff) -> usize| diff.gpus.values().map(number).sum();
    let counts = [diff.equal.all, sum(|gpu| gpu.changed), sum(|gpu| gpu.added), sum(|gpu| gpu.removed)];
    assert_eq!(counts[0] + counts[1] + counts[3], sum(|gpu| gpu.old.code_objects));
    assert_eq!(counts[0] + counts[1] + counts[2], sum(|gpu| gpu.new.code_objects));
    assert_eq!(counts[1] + counts[2] + counts[3], diff.code_objects.len());
    counts
}

fn swapped([equal, changed, added, removed]: [usize; 4]) -> [usize; 4] {
    [equal, changed, removed, added]
}

fn hostile(data: &[u8]) {
    if leads_elsewhere(&Sources::nested(data)) {
        return;
    }
    let same = run(Some(data), Some(data));
    assert_eq!(format!("{same:?}"), format!("{:?}", run(Some(data), Some(data))), "compared twice");
    if same.problems.is_empty() {
        assert!(same.code_objects.is_empty() && same.kernels.is_empty() && same.losses.is_empty(), "{same:?}");
    }
    let [equal, changed, _, _] = counts(&same);
    let alone = run(None, Some(data));
    assert_eq!(counts(&alone), [0, 0, equal + changed, 0]);
    assert_eq!(counts(&run(Some(data), None)), [0, 0, 0, equal + changed]);
    let part = &data[..data.len() / 8 * usize::from(digest(data)[0] % 9)];
    let (one, other) = (run(Some(data), Some(part)), run(Some(part), Some(data)));
    assert_eq!(swapped(counts(&one)), counts(&other), "{one:?} {other:?}");
}

/// A bundle or more of code objects.
fn write(objects: &[(String, Vec<u8>)], choices: &mut Choices<'_>) -> Vec<u8> {
    let (in_each, mut data) = (choices.below(3) + 1, Vec::new());
    for bundle in objects.chunks(in_each) {
        let member = |(id, code): &'_ (String, Vec<u8>)| (id.clone(), code.clone());
        let owned: Vec<(String, Vec<u8>)> = bundle.iter().map(member).collect();
        let members: Vec<Member<'_>> =
            owned.iter().map(|(id, code)| Member { id: id.clone(), content: code.into() }).collect();
        let plan = Binary::default().plan(&members).unwrap();
        match choices.pick(&[None, Some(Method::Zstd), Some(Method::Zlib)]) {
            None => write_to(&plan, &mut data).unwrap(),
            Some(method) => {
                let mut out = Cursor::new(Vec::new());
                compressed::write(&plan, &Compression::with_method(method), None, &mut out).unwrap();
                data.extend(out.into_inner());
            }
        }
    }
    data
}

fn lying(data: &[u8]) {
    let mut choices = Choices::new(data);
    let id = "hip-amdgcn-amd-amdhsa--gfx90a".to_owned();
    let method = choices.pick(&[Method::Zstd, Method::Zlib]);
    let count = choices.below(4) + 1;
    let bundle = |vgprs: u32| {
        let named = |number: usize| (id.clone(), amd(&[Kernel { vgprs, ..Kernel::named(&format!("k{number}")) }]));
        let owned: Vec<(String, Vec<u8>)> = (0..count).map(named).collect();
        let members: Vec<Member<'_>> =
            owned.iter().map(|(id, code)| Member { id: id.clone(), content: code.into() }).collect();
        let mut out = Cursor::new(Vec::new());
        let plan = Binary::default().plan(&members).unwrap();
        compressed::write(&plan, &Compression::with_method(method), None, &mut out).unwrap();
        out.into_inner()
    };
    let (old, mut new) = (bundle(8), bundle(9));
    // The hash ends a header of version 2.
    assert_eq!(new[4..6], [2, 0]);
    new[16..24].copy_from_slice(&old[16..24]);
    let diff = run(Some(&old), Some(&new));
    assert!(diff.equal.all == 0 && !diff.problems.is_empty(), "{diff:?}");
    let mut trusting = job();
    trusting.trust_hashes = true;
    let diff = trusting.run(Some(&input(&old)), Some(&input(&new))).unwrap();
    assert!(diff.problems.is_empty() && (diff.equal.all, diff.equal.by_hash) == (count, count), "{diff:?}");
}

fn written(data: &[u8]) {
    let mut choices = Choices::new(data);
    let code = |number: usize, vgprs: u32| amd(&[Kernel { vgprs, ..Kernel::named(&format!("k{number}")) }]);
    let count = choices.below(7) + 1;
    let ids = ["gfx906", "gfx90a", "gfx90a:xnack-"].map(|target| format!("hip-amdgcn-amd-amdhsa--{target}"));
    let old: Vec<(String, Vec<u8>)> =
        (0..count).map(|number| (ids[choices.below(3)].clone(), code(number, 8))).collect();
    let mut new = old.clone();
    let at = choices.below(count);
    let expected = match choices.below(4) {
        0 => [count, 0, 0, 0],
        1 => {
            new[at].1 = code(at, 9);
            [count - 1, 1, 0, 0]
        }
        2 => {
            new.insert(at, (ids[0].clone(), code(count, 8)));
            [count, 0, 1, 0]
        }
        _ => {
            new.remove(at);
            [count - 1, 0, 0, 1]
        }
    };
    if !new.is_empty() {
        let by = choices.below(new.len());
        new.rotate_left(by);
    }
    let (old, new) = (write(&old, &mut choices), write(&new, &mut choices));
    let diff = run(Some(&old), Some(&new));
    assert!(diff.problems.is_empty(), "{diff:?}");
    assert_eq!(counts(&diff), expected, "{diff:?}");
    assert_eq!(counts(&run(Some(&new), Some(&old))), swapped(expected));
    let changed: Vec<_> =
        diff.kernels.iter().filter_map(|kernel| kernel.old.as_ref().zip(kernel.new.as_ref())).collect();
    assert_eq!(changed.len(), expected[1]);
    for (old, new) in changed {
        assert_eq!((&*old.name, old.vgprs, new.vgprs), (format!("k{at}").as_bytes(), Some(8), Some(9)));
    }
}
