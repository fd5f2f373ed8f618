//! The names of the kernels of PTX. Their registers and memory are known only when the PTX is compiled.

use memchr::memmem;

/// Returns the names after the directives `.entry`, also in comments, because PTX is not parsed. Source: "PTX ISA" 9.0,
/// "Kernel and Function Directives".
pub(crate) fn names(ptx: &[u8]) -> impl Iterator<Item = &[u8]> {
    const ENTRY: &[u8] = b".entry";
    memmem::find_iter(ptx, ENTRY).filter_map(|at| name_after(ptx.get(at..)?.strip_prefix(ENTRY)?))
}

/// Returns the name after the whitespace at the start of `text`, or `None` without whitespace or name: `.entry` is then
/// part of another word.
fn name_after(text: &[u8]) -> Option<&[u8]> {
    let name = text.trim_ascii_start();
    let len = name.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"_$%".contains(byte)).count();
    if len == 0 || !text.first()?.is_ascii_whitespace() {
        return None;
    }
    name.get(..len)
}

#[cfg(test)]
mod tests {
    #[test]
    fn kernels_are_named_by_directives() {
        let ptx = b".version 8.0\n.visible .entry _Z3addPi(\n.entry\t$sub%1 ()\n.func f\n.entryway x\n.entry";
        assert_eq!(super::names(ptx).collect::<Vec<_>>(), [&b"_Z3addPi"[..], b"$sub%1"]);
    }
}
