use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant};

use memchr::memmem;
use offload_bundle::container::archive::Archive;
use offload_bundle::container::object::HostFormat;
use offload_bundle::container::sequence::{Bundles, Inflate};
use offload_bundle::error::{Error, Malformed};
use offload_bundle::id::processors::is_offload_arch;
use offload_bundle::id::{EntryId, OffloadKind, Rules};
use offload_bundle::io::Input;

use super::formats::MAGIC;
use super::list::{container, ids};
use super::room::Room;
use super::unbundle::{Missing, unbundling};

/// The maximum time to wait for LLVM's tool. A shell limits its processor time to two seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// LLVM 22's bundler, if it is installed.
pub fn reference() -> Option<PathBuf> {
    let directory = std::env::var_os("LLVM_BIN").map_or_else(|| PathBuf::from("/usr/lib/llvm-22/bin"), PathBuf::from);
    let tool = directory.join("clang-offload-bundler");
    tool.exists().then_some(tool)
}

/// If LLVM 22 lists any bytes successfully, our tool lists the same IDs. If LLVM unbundles them successfully, our tool
/// writes the same bytes. Exceptions are the differences in `docs/differences.md`.
///
/// `tests/archives.rs` covers archives. Without LLVM 22 nothing is compared.
pub fn differential(data: &[u8]) {
    static SKIPPED: Once = Once::new();
    let Some(tool) = reference() else {
        return SKIPPED.call_once(|| eprintln!("SKIPPED: LLVM 22 is not installed: differential"));
    };
    if Archive::is_archive(data) {
        return;
    }
    let file_type = type_of(data);
    let room = Room::with(data);
    let Some(theirs) = list(&tool, &room, file_type) else { return };
    let ours = Ours::of(data, file_type);
    if lines(&ours.ids) != theirs {
        let reason = ours.listed_otherwise(&theirs);
        assert!(reason.is_some(), "as {file_type}, LLVM lists {}, we {:?}", shown(&theirs), ours);
    }
    let requests = requests(&theirs, data);
    if requests.is_empty() || theirs.len() > 50 {
        return;
    }
    let Some(theirs) = unbundle(&tool, &room, file_type, &requests) else { return };
    let (error, written) = ours_unbundled(&room, file_type, &requests);
    if error.is_some() || written != theirs {
        let reason = ours.unbundled_otherwise(&requests, error.as_ref());
        assert!(
            reason.is_some(),
            "as {file_type}, for {requests:?} LLVM writes {}, we {error:?} {}",
            shown(&theirs),
            shown(&written)
        );
    }
}

fn shown<'b>(texts: impl IntoIterator<Item = &'b Vec<u8>>) -> String {
    let texts: Vec<_> = texts.into_iter().map(|text| text.escape_ascii().to_string()).collect();
    format!("{texts:?}")
}

fn type_of(data: &[u8]) -> &'static str {
    let has = |comment: &str| memmem::find(data, &[b"\n", comment.as_bytes(), b" ", MAGIC].concat()).is_some();
    match data {
        _ if HostFormat::identify(data).is_some() => "o",
        _ if data.starts_with(MAGIC) || data.starts_with(b"CCOB") => "bc",
        _ if has("//") => "ii",
        _ if has("#") => "s",
        _ if has(";") => "ll",
        _ => "bc",
    }
}

/// The lines of a listing without duplicates: LLVM's list is in the order of a hash table, which has every ID once.
fn lines(ids: &[Vec<u8>]) -> BTreeSet<Vec<u8>> {
    let text: Vec<u8> = ids.iter().flat_map(|id| [id, &b"\n"[..]].concat()).collect();
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
}

/// Runs LLVM's tool. Our tool need not match a crash, a hang or an error.
fn succeeds(tool: &PathBuf, room: &Room, arguments: &[String]) -> bool {
    let limits = "ulimit -v 2097152; ulimit -f 65536; ulimit -c 0; ulimit -t 2; exec \"$@\"";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", limits, "sh"]).arg(tool).args(arguments).current_dir(room.path(""));
    command.env_clear().env("PATH", "/usr/bin:/bin").env("LLVM_DISABLE_SYMBOLIZATION", "1");
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command.stdout(File::create(room.path("stdout")).unwrap());
    let mut child = command.spawn().unwrap();
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.success();
        }
        if started.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            return false;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

fn list(tool: &PathBuf, room: &Room, file_type: &str) -> Option<BTreeSet<Vec<u8>>> {
    let arguments = ["-list".to_owned(), format!("-type={file_type}"), "-input=in".to_owned()];
    let success = succeeds(tool, room, &arguments);
    let listed = room.take("stdout").unwrap();
    success.then(|| lines(&[listed]))
}

fn unbundle(tool: &PathBuf, room: &Room, file_type: &str, requests: &[String]) -> Option<Vec<Vec<u8>>> {
    let mut arguments = vec!["-unbundle".to_owned(), format!("-type={file_type}"), "-input=in".to_owned()];
    arguments.push(format!("-targets={}", requests.join(",")));
    let names: Vec<String> = (0..requests.len()).map(|index| format!("theirs{index}")).collect();
    arguments.extend(names.iter().map(|name| format!("-output={name}")));
    let success = succeeds(tool, room, &arguments);
    drop(room.take("stdout"));
    let written = names.iter().map(|name| room.take(name));
    let written: Vec<_> = written.map(Option::unwrap_or_default).collect();
    success.then_some(written)
}

/// Returns the IDs to request, which can be typed and which both tools read alike. The host of a fat object is
/// excluded, because LLVM rewrites it.
fn requests(listed: &BTreeSet<Vec<u8>>, data: &[u8]) -> Vec<String> {
    let fat = HostFormat::identify(data).is_some();
    let texts = listed.iter().filter_map(|id| std::str::from_utf8(id).ok());
    let typed = |text: &&str| text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',');
    let canonical = texts.filter(typed).filter(|text| {
        let parsed = EntryId::parse(text);
        parsed.is_ok_and(|id| id.to_string() == **text && !is_unknown(&id) && !(fat && id.kind() == OffloadKind::Host))
    });
    canonical.take(2).map(str::to_owned).collect()
}

/// Whether it names a processor that LLVM does not know. LLVM treats this like an ID without a processor.
fn is_unknown(id: &EntryId) -> bool {
    !id.target_id().is_empty() && !is_offload_arch(id.target_id().processor())
}

fn ours_unbundled(room: &Room, file_type: &str, requests: &[String]) -> (Option<Error>, Vec<Vec<u8>>) {
    let names: Vec<String> = (0..requests.len()).map(|index| format!("ours{index}")).collect();
    let requests =
        requests.iter().zip(&names).map(|(id, name)| (EntryId::parse(id).unwrap(), room.path(name))).collect();
    let error = unbundling(room.input(), file_type, requests, Missing::Refused).run(&mut |_| {}).err();
    (error, names.iter().map(|name| room.take(name).unwrap_or_default()).collect())
}

/// The row for entries that contain marker lines.
const NESTED: &str = "text bundle: an entry that itself holds a text bundle";

/// Our results.
#[derive(Debug)]
struct Ours {
    ids: Vec<Vec<u8>>,
    bundles: usize,
    broken: Option<Malformed>,
    /// Whether an entry of a text bundle contains marker lines, where LLVM ends the entry.
    nested: bool,
}

impl Ours {
    fn of(data: &[u8], file_type: &str) -> Self {
        let input = Input::from_bytes("in", data.to_vec());
        let container = container(file_type);
        let (mut bundles, mut broken, mut nested) = (0, None, false);
        let is_text = !matches!(file_type, "bc" | "o");
        for bundle in Bundles::new(input.as_slice(), &*container, Inflate::Whole) {
            match bundle {
                Ok(bundle) => {
                    bundles += 1;
                    let holds_magic = |content: Vec<u8>| memmem::find(&content, MAGIC).is_some();
                    nested |= is_text && bundle.entries.iter().filter_map(|entry| entry.content(data)).any(holds_magic);
                }
                Err(error) => broken = Some(error.fault().unwrap_or_else(|| panic!("{error}")).clone()),
            }
        }
        Self { ids: ids(data, file_type, Inflate::Whole).0, bundles, broken, nested }
    }

    /// The row of `docs/differences.md` that explains a different listing.
    fn listed_otherwise(&self, theirs: &BTreeSet<Vec<u8>>) -> Option<&'static str> {
        if let Some(broken) = &self.broken {
            return Some(row_of(broken));
        }
        match () {
            () if self.bundles > 1 && lines(&self.ids).is_superset(theirs) => Some("several bundles in one file"),
            () if self.nested => Some(NESTED),
            () => None,
        }
    }

    /// The row that explains different outputs.
    fn unbundled_otherwise(&self, requests: &[String], error: Option<&Error>) -> Option<&'static str> {
        if let Some(error) = error {
            return error.fault().map(row_of);
        }
        let distinct: BTreeSet<_> = self.ids.iter().collect();
        let is_requested = |id: &&Vec<u8>| requests.iter().any(|request| request.as_bytes() == id.as_slice());
        match () {
            () if distinct.len() < self.ids.len() => Some("the same ID twice in one bundle"),
            () if self.bundles > 1 => Some("several bundles in one file"),
            () if distinct.iter().any(|id| !is_requested(id) && self.fits(id, requests)) => {
                Some("several entries fit several requests")
            }
            () if requests.len() > 1 && self.fits(requests[0].as_bytes(), &requests[1..]) => {
                Some("several entries fit several requests")
            }
            () if self.nested => Some(NESTED),
            () if self.parsed().any(|id| is_unknown(&id)) && requests.iter().any(|request| request.ends_with('-')) => {
                Some("a processor that LLVM 22 does not know")
            }
            () => None,
        }
    }

    fn parsed(&self) -> impl Iterator<Item = EntryId> {
        self.ids.iter().filter_map(|id| EntryId::parse(&String::from_utf8_lossy(id)).ok())
    }

    /// Whether an entry may serve one of the requests.
    fn fits(&self, id: &[u8], requests: &[String]) -> bool {
        let Some(id) = std::str::from_utf8(id).ok().and_then(|id| EntryId::parse(id).ok()) else { return false };
        requests.iter().any(|request| {
            let request = EntryId::parse(request).unwrap();
            id.compatibility(&request, Rules::default()).is_compatible()
                || request.compatibility(&id, Rules::default()).is_compatible()
        })
    }
}

const CUT_SHORT: &str = "a bundle cut short, a count or offset outside the file";

/// The row of `docs/differences.md` that makes a broken file an error.
fn row_of(broken: &Malformed) -> &'static str {
    match broken {
        Malformed::Inflated { inner, .. } => row_of(inner),
        Malformed::Truncated { .. } => CUT_SHORT,
        Malformed::Fault { what, problem, .. } => match problem.as_str() {
            problem if problem.starts_with(" is too large: the data ends") => CUT_SHORT,
            problem if problem.contains("inside the bundle's header") => "an entry that claims bytes of the header",
            " has no end line" => "text bundle: a start line without end line",
            problem if problem.starts_with([':', ',']) => "a compressed bundle with wrong hash or sizes",
            "" if what.contains("holds the end line of") => "crossed or misspelled end lines",
            "" => "a broken ELF or COFF file as host or input",
            _ => panic!("no row for {broken}"),
        },
        other => panic!("no row for {other}"),
    }
}
