use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use offload_bundle::container::sequence::Inflate;
use offload_bundle::io::{Accept, Input};
use offload_bundle::job::{Destination, Verify};
use offload_bundle::llvm::{FileType, List};
use offload_bundle::scan::{Finding, Scan};

use super::choices::Choices;
use super::list::TYPES;
use super::recompress::Change;
use super::room::Room;
use super::search::{LIMITS, harmless, leads_elsewhere};
use super::sources::Sources;
use super::unbundle::{Missing, others};

/// A file that another thread changes is searched, listed, unbundled, verified, extracted and recompressed, with a
/// result or an error. A failure leaves no output. The first bytes specify the changes, the others are the file.
pub fn races(data: &[u8]) {
    let Some((plan, data)) = data.split_first_chunk::<16>() else { return };
    if data.is_empty() || leads_elsewhere(&Sources::nested(data)) {
        return;
    }
    let room = Room::with(data);
    let file = OpenOptions::new().write(true).open(room.input()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut choices = Choices::new(plan);
            let changes: Vec<(usize, u8)> =
                (0..4).map(|_| (choices.below(data.len()), choices.pick(&[0xf0, 0xff, 0, 1, 0x80, b'/']))).collect();
            while !stop.load(Ordering::Relaxed) {
                for &(at, value) in &changes {
                    let offset = u64::try_from(at).unwrap();
                    file.write_all_at(&[value], offset).unwrap();
                    file.write_all_at(&data[at..=at], offset).unwrap();
                }
            }
        });
        read(&room);
        stop.store(true, Ordering::Relaxed);
        // The end of a scope does not wait for the destructors of a thread.
        writer.join().unwrap();
    });
}

fn read(room: &Room) {
    #[allow(unsafe_code, reason = "that the file changes is the test")]
    // SAFETY: the library documents the consequences of a change; this test looks for other ones.
    let input = unsafe { Input::map(&room.input(), Accept::Any, None) }.unwrap();
    for inflate in [Inflate::Headers, Inflate::AsNeeded, Inflate::Whole] {
        let mut search = Scan::default();
        (search.inflate, search.limits) = (inflate, LIMITS);
        // Examines every part of a finding.
        drop(search.run(&input, &mut |finding| {
            if let Finding::Bundle(found) = finding {
                for code_object in found.code_objects() {
                    harmless(&code_object.shown_id());
                    code_object.recorded_target().inspect(|target| harmless(target));
                    code_object.uri()?.inspect(|uri| harmless(&uri.to_string()));
                    code_object.kind();
                }
            }
            Ok(())
        }));
    }
    for file_type in TYPES {
        let mut listed = Vec::new();
        let mut list = List::new(room.input(), FileType::from_name(file_type).unwrap());
        list.limits = LIMITS;
        drop(list.run(&mut listed, &mut |_| {}));
        harmless(&String::from_utf8(listed).unwrap().replace('\n', ""));
        drop(super::unbundle::run(room, file_type, &others(), Missing::Allowed));
    }
    let mut verify = Verify::default();
    verify.scan.limits = LIMITS;
    drop(verify.run(&room.input()));
    let extracted = super::extract::job(room, &super::extract::all(), Destination::Directory(room.path("new")));
    assert_eq!(extracted.is_ok(), room.path("new").exists(), "{extracted:?}");
    drop(fs::remove_dir_all(room.path("new")));
    drop(Change::default().run_once(room));
}
