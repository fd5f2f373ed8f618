//! Reads the metadata of a code object for an AMD GPU: a note whose content is one MessagePack map.
//!
//! | key | value |
//! |---|---|
//! | `amdhsa.kernels` | an array with a map for each kernel |
//! | | `.name`: its name |
//! | | `.symbol`: the name of the symbol of its kernel descriptor |
//! | | `.vgpr_count`, `.agpr_count`, `.sgpr_count`: registers |
//! | | `.vgpr_spill_count`, `.sgpr_spill_count`: registers that are spilled |
//! | | `.private_segment_fixed_size`: scratch memory of a work-item, in bytes |
//! | | `.group_segment_fixed_size`: LDS of a workgroup, in bytes |
//! | | `.kernarg_segment_size`: arguments, in bytes |
//! | | `.max_flat_workgroup_size`: work-items |
//! | | `.uses_dynamic_stack`: whether the stack may grow beyond its fixed size |
//! | | `.args`: an array with a map for each argument, see `amdgpu.rs` |
//!
//! All of it must be valid MessagePack, and these values of the right type; other keys are skipped. Source: User Guide
//! for AMDGPU Backend, code object versions 3 to 6.

use super::Kernel;
use crate::beyond::messagepack::Value;

/// The fault of metadata that cannot be read.
pub(crate) const BROKEN: &str = "kernel metadata that is not a complete MessagePack map,";

const KERNELS: &[u8] = b"amdhsa.kernels";

/// A kernel, as the metadata describes it. A value is none if it is not recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Described<'d> {
    pub(crate) name: Option<&'d [u8]>,
    pub(crate) symbol: Option<&'d [u8]>,
    pub(crate) arguments: Option<Value<'d>>,
    /// The numbers, without a name.
    pub(crate) kernel: Kernel,
}

/// Returns the kernels, or `None` if the metadata is broken, and none for a kernel whose map is.
pub(crate) fn kernels(data: &[u8]) -> Option<impl Iterator<Item = Option<Described<'_>>>> {
    let (metadata, rest) = Value::first(data, 0)?;
    let values = metadata.map()?.filter(|(key, _)| key.text() == Some(KERNELS)).map(|(_, kernels)| kernels.array());
    let arrays = values.collect::<Option<Vec<_>>>()?;
    rest.is_empty().then(|| arrays.into_iter().flatten().map(Described::new))
}

impl<'d> Described<'d> {
    fn new(kernel: Value<'d>) -> Option<Self> {
        let mut described = Self::default();
        for (key, value) in kernel.map()? {
            if let Some(key) = key.text() {
                described.set(key, value)?;
            }
        }
        Some(described)
    }

    /// Takes a value that has a meaning here; none if it is of the wrong type.
    fn set(&mut self, key: &[u8], value: Value<'d>) -> Option<()> {
        let kernel = &mut self.kernel;
        let number = || u32::try_from(value.number()?).ok();
        match key {
            b".name" => self.name = Some(value.text()?),
            b".symbol" => self.symbol = Some(value.text()?),
            b".args" => self.arguments = Some(value),
            b".uses_dynamic_stack" => kernel.dynamic_stack = Some(value.boolean()?),
            b".vgpr_count" => kernel.vgprs = Some(number()?),
            b".agpr_count" => kernel.agprs = Some(number()?),
            b".sgpr_count" => kernel.sgprs = Some(number()?),
            b".vgpr_spill_count" => kernel.vgpr_spills = Some(number()?),
            b".sgpr_spill_count" => kernel.sgpr_spills = Some(number()?),
            b".private_segment_fixed_size" => kernel.scratch = Some(number()?),
            b".group_segment_fixed_size" => kernel.lds = Some(number()?),
            b".kernarg_segment_size" => kernel.kernarg = Some(number()?),
            b".max_flat_workgroup_size" => kernel.max_workgroup = Some(number()?),
            _ => {}
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the symbols of all kernels, or `None` if anything is broken.
    fn symbols(data: &[u8]) -> Option<Vec<&[u8]>> {
        kernels(data)?.map(|kernel| kernel?.symbol).collect()
    }

    fn text(text: &str) -> Vec<u8> {
        [&[0xd9, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
    }

    #[test]
    fn kernels_name_their_symbols_and_the_rest_is_skipped() {
        let others: [&[u8]; 8] = [
            &[0x07],
            &[0xcd, 1, 2],
            &[0xd9, 2, b'x', b'y'],
            &[0x93, 1, 0xc0, 0x81, 1, 2],
            &[0xdc, 0, 1, 0xff],
            &[0xde, 0, 1, 0xa1, b'k', 0xcb, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0xc7, 1, 5, 9],
            &[0xd8; 18],
        ];
        for other in others {
            let kernel =
                |name: &str| [&[0x83][..], &text(".args"), other, &text(".symbol"), &text(name), &[1, 2]].concat();
            let kernels = [&[0x92][..], &kernel("a.kd"), &kernel("b.kd")].concat();
            let whole = [&[0x83][..], other, other, &text("amdhsa.kernels"), &kernels, &text("v"), other].concat();
            assert_eq!(symbols(&whole), Some(vec![&b"a.kd"[..], b"b.kd"]), "{other:x?}");
            (0..whole.len()).for_each(|len| assert_eq!(symbols(&whole[..len]), None, "{other:x?} {len}"));
            assert_eq!(symbols(&[&whole[..], &[0]].concat()), None);
        }
    }

    #[test]
    fn claims_of_counts_and_depths_are_borne() {
        for data in
            [&[0xdf, 0xff, 0xff, 0xff, 0xff][..], &[0x81, 0xdd, 0xff, 0xff, 0xff, 0xff], &[0x81, 0xc1], &[0x07], &[]]
        {
            assert_eq!(symbols(data), None);
        }
        let deep = [&[0x81, 1][..], &[0x91; 1_000_000], &[0]].concat();
        assert_eq!(symbols(&deep), Some(Vec::new()));
    }

    #[test]
    fn fields_of_a_kernel_have_the_right_type() {
        fn of(kernel: &[u8]) -> Option<Vec<Option<Described<'_>>>> {
            let whole = [&[0x81][..], &text("amdhsa.kernels"), &[0x91], kernel].concat();
            kernels(whole.leak()).map(Iterator::collect)
        }
        let field = |name: &str, value: &[u8]| [&[0x81][..], &text(name), value].concat();
        let one = |kernel| Some(vec![Some(Described { kernel, ..Described::default() })]);
        assert_eq!(of(&field(".vgpr_count", &[0xcd, 1, 2])), one(Kernel { vgprs: Some(258), ..Kernel::default() }));
        assert_eq!(
            of(&field(".private_segment_fixed_size", &[0xce, 0xff, 0xff, 0xff, 0xff])),
            one(Kernel { scratch: Some(u32::MAX), ..Kernel::default() })
        );
        assert_eq!(of(&field(".other", &[0xff])), one(Kernel::default()));
        for broken in [&[0xff][..], &[0xcf, 0, 0, 0, 1, 0, 0, 0, 0], &text("1"), &[0xc0], &[0x90]] {
            assert_eq!(of(&field(".sgpr_count", broken)), Some(vec![None]), "{broken:x?}");
        }
        assert_eq!(
            of(&field(".uses_dynamic_stack", &[0xc3])),
            one(Kernel { dynamic_stack: Some(true), ..Kernel::default() })
        );
        assert_eq!(of(&field(".uses_dynamic_stack", &[1])), Some(vec![None]));
        assert_eq!(of(&field(".name", &[1])), Some(vec![None]));
        assert_eq!(of(&[0x90]), Some(vec![None]));
    }
}
