//! `replace`: cuobjdump finds the new code object where the old one was, and all others as they were.

use super::*;
use crate::lists::share_of;

/// Code for an architecture with other bytes: a small and a large one.
fn others<'i>(inputs: &'i [Input], row: &Row) -> Vec<&'i Row> {
    let is_other = |other: &&Row| other.arch == row.arch && other.data != row.data;
    let is_plain = |input: &&Input| ["plain.fatbin", "largecompress-false.fatbin"].contains(&input.name.as_str());
    inputs.iter().filter(is_plain).flat_map(|input| &input.rows).filter(is_other).collect()
}

/// Replaces a code object by its URI. Returns `None` if its fatbin has no room where it is.
pub fn replaced(input: &Input, uri: &str, new: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let uri = format!("file://{}#{}", input.name, uri.split_once('#').unwrap().1);
    let mut outcome = tool(&["replace", &uri, "new"], &[(&input.name, &input.data), ("new", new)]);
    let message = outcome.stderr_text();
    let is_file = input.data.starts_with(b"\x50\xed\x55\xba");
    if !is_file && outcome.status == 1 && message.contains("it has to stay at its offset") {
        return Ok(None);
    }
    same(&outcome.status, &0).map_err(|_| message)?;
    outcome.files.remove(&input.name).ok_or("no output".to_owned()).map(Some)
}

#[test]
fn cuobjdump_finds_what_replace_writes() {
    let test = "cuobjdump after replace";
    let (Some(tools), Some(inputs)) = (Tools::find(test), inputs(test)) else { return };
    let done = std::sync::atomic::AtomicUsize::new(0);
    each(test, |input| {
        if !input.oracle || input.rows.is_empty() {
            return Ok(());
        }
        let document = json_of(&run(&["inspect", "--json", "--inflate"], input)?);
        let uris: Vec<&str> = listed(&document).map(|object| object["uri"].as_str().unwrap()).collect();
        let last = input.rows.len() - 1;
        for index in share_of(&input.name, vec![0, last / 2, last], 1) {
            for other in others(inputs, &input.rows[index]) {
                let why = |why: String| format!("{index} by {} bytes: {why}", other.data.len());
                let Some(data) = replaced(input, uris[index], &other.data).map_err(why)? else { continue };
                let mut expected = input.rows.clone();
                expected[index].data.clone_from(&other.data);
                let found = oracle::rows(&tools, &input.name, &data);
                same(&brief(&found), &brief(&expected)).map_err(why)?;
                same(&(found == expected), &true).map_err(|_| why("other bytes".to_owned()))?;
                done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
        Ok(())
    });
    assert!(done.into_inner() > inputs.len() / 3);
}

/// An architecture without its suffix.
fn number(arch: &str) -> &str {
    arch.trim_end_matches(['a', 'f'])
}

#[test]
fn code_for_another_suffix_is_refused() {
    let test = "replace by code for another suffix";
    let Some(inputs) = inputs(test) else { return };
    // Not all tools record the target of a cubin.
    let is_noted = |row: &&Row| {
        let note = format!("\0-arch {} ", row.arch);
        row.is_ptx() || memchr::memmem::find(&row.data, note.as_bytes()).is_some()
    };
    let rows: Vec<&Row> = inputs.iter().flat_map(|input| &input.rows).filter(is_noted).collect();
    let mut tried = 0;
    for input in inputs.iter().filter(|input| input.data.starts_with(b"\x50\xed\x55\xba")) {
        let Ok(outcome) = run(&["inspect", "--json", "--inflate"], input) else { continue };
        let document = json_of(&outcome);
        for (row, listed) in input.rows.iter().zip(listed(&document)) {
            let Some(uri) = listed["uri"].as_str().filter(|_| is_noted(&row)) else { continue };
            let other = rows.iter().find(|other| {
                other.arch != row.arch && number(&other.arch) == number(&row.arch) && other.is_ptx() == row.is_ptx()
            });
            let Some(other) = other else { continue };
            let what = || format!("{}: {} by {}", input.name, row.arch, other.arch);
            let Err(refused) = replaced(input, uri, &other.data) else { panic!("{}", what()) };
            assert!(refused.contains("the new code object is for"), "{}: {refused}", what());
            tried += 1;
        }
    }
    assert!(tried > 0, "no input has code for two suffixes");
}
