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
//! The whole map must be valid MessagePack, and these values of the right type. Other keys are skipped. Source: User
//! Guide for AMDGPU Backend, code object versions 3 to 6.

use super::Kernel;
use crate::beyond::messagepack::Value;

/// The fault of metadata that cannot be read. An offset follows in the message.
pub(crate) const BROKEN: &str = "kernel metadata that is not a complete MessagePack map,";

const KERNELS: &[u8] = b"amdhsa.kernels";

/// A kernel, as the metadata describes it. A value is `None` if it is not recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DescribedKernel<'d> {
    pub(crate) name: Option<&'d [u8]>,
    pub(crate) symbol: Option<&'d [u8]>,
    pub(crate) arguments: Option<Value<'d>>,
    /// The numbers of the kernel. Its name and arguments are not set.
    pub(crate) kernel: Kernel,
}

/// Returns the kernels that the metadata in a note describes, or `None` if the metadata is broken. A kernel is `None`
/// if its own map is broken. Metadata without the key for kernels has none.
pub(crate) fn kernels(data: &[u8]) -> Option<impl Iterator<Item = Option<DescribedKernel<'_>>>> {
    // Offsets of values are not used here.
    let (metadata, rest) = Value::first(data, 0)?;
    if !rest.is_empty() {
        return None;
    }
    let mut arrays = Vec::new();
    for (key, value) in metadata.map()? {
        if key.text() == Some(KERNELS) {
            arrays.push(value.array()?);
        }
    }
    Some(arrays.into_iter().flatten().map(DescribedKernel::read))
}

impl<'d> DescribedKernel<'d> {
    /// Reads the map of a kernel, or returns `None` if it is broken.
    fn read(kernel: Value<'d>) -> Option<Self> {
        let mut described = Self::default();
        for (key, value) in kernel.map()? {
            if let Some(key) = key.text() {
                described.set(key, value)?;
            }
        }
        Some(described)
    }

    /// Stores the value of a known key, and ignores other keys. Returns `None` if the value is of the wrong type.
    fn set(&mut self, key: &[u8], value: Value<'d>) -> Option<()> {
        let kernel = &mut self.kernel;
        match key {
            b".name" => self.name = Some(value.text()?),
            b".symbol" => self.symbol = Some(value.text()?),
            b".args" => self.arguments = Some(value),
            b".uses_dynamic_stack" => kernel.dynamic_stack = Some(value.boolean()?),
            b".vgpr_count" => kernel.vgprs = Some(value.number_u32()?),
            b".agpr_count" => kernel.agprs = Some(value.number_u32()?),
            b".sgpr_count" => kernel.sgprs = Some(value.number_u32()?),
            b".vgpr_spill_count" => kernel.vgpr_spills = Some(value.number_u32()?),
            b".sgpr_spill_count" => kernel.sgpr_spills = Some(value.number_u32()?),
            b".private_segment_fixed_size" => kernel.scratch = Some(value.number_u32()?),
            b".group_segment_fixed_size" => kernel.lds = Some(value.number_u32()?),
            b".kernarg_segment_size" => kernel.kernarg = Some(value.number_u32()?),
            b".max_flat_workgroup_size" => kernel.max_workgroup = Some(value.number_u32()?),
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
    fn symbols_of_kernels_are_read_and_other_values_are_skipped() {
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
            let kernels = ["a.kd", "b.kd"]
                .map(|name| [&[0x83][..], &text(".args"), other, &text(".symbol"), &text(name), &[1, 2]].concat());
            let kernels = [&[0x92][..], &kernels.concat()].concat();
            let whole = [&[0x83][..], other, other, &text("amdhsa.kernels"), &kernels, &text("v"), other].concat();
            assert_eq!(symbols(&whole), Some(vec![&b"a.kd"[..], b"b.kd"]), "{other:x?}");
            for len in 0..whole.len() {
                assert_eq!(symbols(&whole[..len]), None, "{other:x?} {len}");
            }
            assert_eq!(symbols(&[&whole[..], &[0]].concat()), None);
        }
    }

    #[test]
    fn large_counts_and_depths_are_harmless() {
        for data in
            [&[0xdf, 0xff, 0xff, 0xff, 0xff][..], &[0x81, 0xdd, 0xff, 0xff, 0xff, 0xff], &[0x81, 0xc1], &[0x07], &[]]
        {
            assert_eq!(symbols(data), None);
        }
        let deep = [&[0x81, 1][..], &[0x91; 1_000_000], &[0]].concat();
        assert_eq!(symbols(&deep), Some(Vec::new()));
    }

    /// Reads metadata with one kernel, which may be broken.
    fn read_kernel(kernel: &[u8]) -> Option<Kernel> {
        let whole = [&[0x81][..], &text("amdhsa.kernels"), &[0x91], kernel].concat();
        let kernels: Vec<_> = kernels(&whole).unwrap().collect();
        let [described] = &kernels[..] else { panic!("{} kernels", kernels.len()) };
        Some(described.as_ref()?.kernel.clone())
    }

    fn read_field(name: &str, value: &[u8]) -> Option<Kernel> {
        read_kernel(&[&[0x81][..], &text(name), value].concat())
    }

    #[test]
    fn fields_of_a_kernel_have_the_right_type() {
        for (name, value, expected) in [
            (".vgpr_count", &[0xcd, 1, 2][..], Kernel { vgprs: Some(258), ..Kernel::default() }),
            (
                ".private_segment_fixed_size",
                &[0xce, 0xff, 0xff, 0xff, 0xff],
                Kernel { scratch: Some(u32::MAX), ..Kernel::default() },
            ),
            (".other", &[0xff], Kernel::default()),
            (".uses_dynamic_stack", &[0xc3], Kernel { dynamic_stack: Some(true), ..Kernel::default() }),
        ] {
            assert_eq!(read_field(name, value), Some(expected), "{name}");
        }
        for broken in [&[0xff][..], &[0xcf, 0, 0, 0, 1, 0, 0, 0, 0], &text("1"), &[0xc0], &[0x90]] {
            assert_eq!(read_field(".sgpr_count", broken), None, "{broken:x?}");
        }
        assert_eq!(read_field(".uses_dynamic_stack", &[1]), None);
        assert_eq!(read_field(".name", &[1]), None);
        assert_eq!(read_kernel(&[0x90]), None);
    }
}
