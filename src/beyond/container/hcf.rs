//! Reads HCF data (heterogeneous container format) of AdaptiveCpp, a compiler of SYCL. Programs have it as a constant
//! array; with `ACPP_HCF_DUMP_DIRECTORY`, AdaptiveCpp's runtime writes it to files.
//!
//! HCF data is a text, a marker, and the binary content of all nodes one after another. Each line of the text has one
//! of these forms, with any blanks around the words:
//!
//! | line | meaning |
//! |---|---|
//! | `key = value` | a property of the node |
//! | `{.name` | the start of a node inside the node; no two of them have the same name |
//! | `}.name` | its end |
//!
//! The node `__binary` of a node has the properties `start` and `size`: the range of its content after the marker. The
//! marker is `__acpp_hcf_binary_appendix`, before AdaptiveCpp 24.06 `__hipsycl_hcf_binary_appendix`. Each node with
//! content is an entry. The first two properties are always `object-id`, a number, and `generator`.
//!
//! IDs are `sycl-` and the triple that the content records. LLVM's bitcode has the triple of a host, because
//! AdaptiveCpp compiles it for any GPU while the program runs: its ID has `generic`, AdaptiveCpp's name of that target.
//!
//! Source: `doc/hcf.md` of AdaptiveCpp, as of 2025.
//!
//! Rejected: lines of other forms, a text without a marker or longer than 64 MiB, nodes that are nested deeper than 16
//! levels, ranges outside of the data, and content that is together longer than the data.

use super::entry::SearchEntry;
use super::sequence::SearchContainer;
use crate::base::bytes::{Bounds, bytes_in, digits, len_u64, slice, tail, to_u64};
use crate::base::error::Malformed;
use crate::beyond::code::{CodeMagic, target};
use crate::beyond::container::Magic;
use crate::llvm::container::limits::{Allowance, HEADER_MAX, check_entry_count};
use crate::llvm::container::{Container, Contents, Entry};

/// The first bytes of HCF data as AdaptiveCpp writes it.
pub(crate) const MAGIC: &[u8] = b"object-id";

/// The number of bytes at the start that are searched for the first two lines, which are much shorter.
const HEAD_LEN: u64 = 512;

/// The markers between the text and the binary content.
const MARKERS: [&[u8]; 2] = [b"__acpp_hcf_binary_appendix", b"__hipsycl_hcf_binary_appendix"];

/// The name of the node that locates the content of the node around it.
const BINARY: &[u8] = b"__binary";

/// The maximum nesting depth of nodes. AdaptiveCpp's nodes have four levels.
const DEPTH_MAX: usize = 16;

/// Whether data begins like HCF data of AdaptiveCpp: with a number, in the first line, and the name of the program that
/// wrote it.
pub(crate) fn is_hcf(data: &[u8]) -> bool {
    let head = slice(data, 0, HEAD_LEN).unwrap_or(data);
    let mut lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let has_key =
        |line: &[u8], key| line.strip_prefix(key).is_some_and(|rest| rest.trim_ascii_start().starts_with(b"="));
    let (Some(first), Some(second)) = (lines.next(), lines.next()) else { return false };
    has_key(first, MAGIC) && first.last().is_some_and(u8::is_ascii_digit) && has_key(second, b"generator")
}

/// The format of HCF data.
pub(crate) struct Hcf;

impl Container for Hcf {
    type Entry = SearchEntry;

    /// Reads HCF data, with an entry for each node that has content.
    fn read(&self, data: &[u8], total: u64, base: u64) -> Result<Option<Contents<SearchEntry>>, Malformed> {
        if !is_hcf(data) {
            return Ok(None);
        }
        let (contents_at, ranges) = read_text(slice(data, 0, HEADER_MAX).unwrap_or(data), base)?;
        check_entry_count(to_u64(ranges.len()), base)?;
        let (mut entries, mut end) = (Vec::new(), contents_at);
        let (mut allowance, bounds) = (Allowance::new(total), Bounds { base, len: total });
        for ContentRange { start, size } in ranges {
            let start = contents_at.saturating_add(start);
            let range = bounds.claim(start, size, "the content of a node of HCF data")?;
            let expected = "together with the other nodes no more than the HCF data";
            allowance.claim("size of the content of a node", size, bounds.absolute(start), expected)?;
            end = end.max(range.end);
            let id = entry_id(bytes_in(data, range.clone()).unwrap_or_default());
            entries.push(Entry::at(id.as_bytes(), range).into());
        }
        Ok(Some(Contents::new(entries, end)))
    }
}

impl SearchContainer for Hcf {}

/// Returns the ID of the content of a node.
fn entry_id(content: &[u8]) -> String {
    let is_for_device = match Magic::identify(content) {
        Magic::Code(CodeMagic::Bitcode) => target::is_bitcode_for_device(content),
        magic => {
            magic.is_gpu_elf() || matches!(magic, Magic::Code(CodeMagic::SpirV | CodeMagic::Ptx | CodeMagic::LtoIr))
        }
    };
    if is_for_device {
        return format!("sycl-{}", target::triple_and_target_id(content));
    }
    // AdaptiveCpp compiles other content, such as bitcode for the host, for any GPU.
    "sycl-generic-unknown-unknown".to_owned()
}

/// The range of the content of a node, counted from the marker's end.
struct ContentRange {
    start: u64,
    size: u64,
}

/// A node whose end was not read yet.
#[derive(Default)]
struct Node<'d> {
    name: &'d [u8],
    start: Option<u64>,
    size: Option<u64>,
}

/// Reads the text of HCF data, which is at the offset `base` of its file. Returns the end of the marker, and the
/// contents of all nodes in the order of the text.
fn read_text(data: &[u8], base: u64) -> Result<(u64, Vec<ContentRange>), Malformed> {
    let (mut nodes, mut contents, mut position) = (Vec::<Node<'_>>::new(), Vec::new(), 0_u64);
    loop {
        // Blanks and empty lines are skipped at once: a file may have millions of them.
        let rest = tail(data, position).unwrap_or_default().trim_ascii_start();
        position = len_u64(data).saturating_sub(len_u64(rest));
        let broken = |what: &str| Malformed::at(format!("{what} in HCF data"), base.saturating_add(position));
        // The content may follow the marker without the end of a line.
        if let Some(marker) = MARKERS.iter().find(|marker| rest.starts_with(marker)) {
            if !nodes.is_empty() {
                return Err(broken("a node without an end"));
            }
            return Ok((position.saturating_add(len_u64(marker)), contents));
        }
        let Some(len) = memchr::memchr(b'\n', rest) else { return Err(broken("no binary appendix")) };
        let line = slice(rest, 0, to_u64(len)).unwrap_or_default();
        read_line(line.trim_ascii(), &mut nodes, &mut contents).map_err(broken)?;
        position = position.saturating_add(to_u64(len)).saturating_add(1);
    }
}

/// Reads a line of the text, which is not empty. `nodes` are the nodes around it, the innermost last.
fn read_line<'d>(
    line: &'d [u8],
    nodes: &mut Vec<Node<'d>>,
    contents: &mut Vec<ContentRange>,
) -> Result<(), &'static str> {
    if let Some(name) = line.strip_prefix(b"{.") {
        if nodes.len() >= DEPTH_MAX {
            return Err("nodes that are nested too deep");
        }
        nodes.push(Node { name, ..Node::default() });
        return Ok(());
    }
    if let Some(name) = line.strip_prefix(b"}.") {
        let node = nodes.pop().filter(|node| node.name == name).ok_or("an end without a node")?;
        if name == BINARY {
            let (Some(start), Some(size)) = (node.start, node.size) else { return Err("content without a range") };
            contents.push(ContentRange { start, size });
        }
        return Ok(());
    }
    let Some(equals) = memchr::memchr(b'=', line) else { return Err("a line that is not a property or a node") };
    let (key, value) = line.split_at(equals);
    let value = value.get(1..).unwrap_or_default().trim_ascii();
    if let Some(node) = nodes.last_mut().filter(|node| node.name == BINARY) {
        match key.trim_ascii() {
            b"start" => node.start = digits(value, 10),
            b"size" => node.size = digits(value, 10),
            _ => {}
        }
    }
    Ok(())
}
