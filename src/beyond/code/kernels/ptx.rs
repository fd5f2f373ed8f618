//! The kernels of PTX. Their registers and memory are known only when it is compiled.

use memchr::memmem;

/// The names after the directives `.entry`, also those in comments. "PTX ISA" 9.0, "Kernel and Function Directives".
pub(crate) fn names(ptx: &[u8]) -> impl Iterator<Item = &[u8]> {
    const ENTRY: &[u8] = b".entry";
    memmem::find_iter(ptx, ENTRY).filter_map(|at| {
        let rest = ptx.get(at..)?.strip_prefix(ENTRY)?;
        let name = rest.trim_ascii_start();
        let len = name.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"_$%".contains(byte)).count();
        name.get(..len)
            .filter(|name| rest.len() > len && !name.is_empty() && rest.first().is_some_and(u8::is_ascii_whitespace))
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn kernels_are_named_by_directives() {
        let ptx = b".version 8.0\n.visible .entry _Z3addPi(\n.entry\t$sub%1 ()\n.func f\n.entryway x\n.entry";
        assert_eq!(super::names(ptx).collect::<Vec<_>>(), [&b"_Z3addPi"[..], b"$sub%1"]);
    }
}
