//! `replace`: cuobjdump finds the new code object where the old one was, and all others as they were.

use super::*;

/// Code for an architecture with other bytes: a small and a large one.
fn others<'i>(inputs: &'i [Input], row: &Row) -> Vec<&'i Row> {
    let is_other = |other: &&Row| other.arch == row.arch && other.data != row.data;
    let is_plain = |input: &&Input| ["plain.fatbin", "largecompress-false.fatbin"].contains(&input.name.as_str());
    inputs.iter().filter(is_plain).flat_map(|input| &input.rows).filter(is_other).collect()
}

/// Replaces a code object by its URI. None if its fatbin has no room where it is.
pub fn replaced(input: &Input, uri: &str, new: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let uri = format!("file://{}#{}", input.name, uri.split_once('#').unwrap().1);
    let mut outcome = tool(&["replace", &uri, "new"], &[(&input.name, &input.data), ("new", new)]);
    let message = outcome.stderr_text();
    let is_file = input.data.starts_with(b"\x50\xed\x55\xba");
    if !is_file && outcome.status == 1 && message.contains("has only") {
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
        for index in [0, last / 2, last] {
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
    assert!(done.into_inner() > inputs.len());
}
