//! Kernels of cubins. A kernel is a function symbol with the flag 0x10 (entry) in `st_other`. Its section is
//! `.text.<kernel>`.
//!
//! | section | holds |
//! |---|---|
//! | `.text.<kernel>` | the code; before CUDA 13, bits 24 and up of `sh_info` are its registers |
//! | `.nv.info` | attributes of all functions, each with the index of a symbol |
//! | `.nv.info.<kernel>`, whose `sh_info` is the section of the code | attributes of a kernel |
//! | `.nv.shared.<kernel>`, likewise | its shared memory, with what the system reserves |
//! | `.nv.constant0.<kernel>`, likewise | its constant bank 0 |
//!
//! An attribute is a byte with its format, a byte with its number, and two bytes with a value. For format 4, this value
//! is the length of the values that follow, of four bytes each.
//!
//! | attribute | format | meaning |
//! |---|---|---|
//! | 0x05 | 4 | most threads of a block in each dimension, up to three |
//! | 0x10 | 4 | required threads, likewise |
//! | 0x12 | 4 | symbol, stack of a thread in bytes: only after linking |
//! | 0x17 | 4 | an argument: index, position and offset (16 bits each), and the size from bit 18 on |
//! | 0x19 | 3 | size of the arguments in bytes |
//! | 0x2f | 4 | symbol, registers |
//! | 0x45 | 4 | an argument of a kernel with more than 4 KiB of them: index, position, offset and size (16 bits each) |
//!
//! Sources: output of `cuobjdump` of CUDA 13.5 for cubins of `ptxas` 13.5 and of CUDA 12.9, sm_50 to sm_121.

use std::collections::HashMap;

use object::elf::STT_FUNC;

use super::{Argument, ArgumentLists, Kernel, KernelsFound, too_many_arguments};
use crate::base::bytes::{Cursor, slice, to_u64};
use crate::base::error::Malformed;
use crate::beyond::base::error::fail_at;
use crate::beyond::code::elf::{Encoding, File, Section, name_of};
use crate::beyond::code::elf_tables::charge;

/// The flag of a kernel in `st_other`.
const ENTRY: u64 = 0x10;

/// The lowest bit of the number of registers in `sh_info` of the section with the code.
const REGISTERS_SHIFT: u32 = 24;

/// The section with attributes of all functions, and the prefix of sections with attributes of one kernel.
const INFO: &[u8] = b".nv.info";
const INFO_OF_KERNEL: &[u8] = b".nv.info.";

/// The format of an attribute that is followed by data. Its value is the length of that data.
const SIZED: u8 = 4;

/// The numbers of attributes, as in the table at the head of this file.
const MAX_THREADS: u8 = 0x05;
const REQUIRED_THREADS: u8 = 0x10;
const STACK: u8 = 0x12;
const ARGUMENT: u8 = 0x17;
const ARGUMENTS_SIZE: u8 = 0x19;
const REGISTERS: u8 = 0x2f;
const LARGE_ARGUMENT: u8 = 0x45;

/// The values that sections record for a kernel. Sizes are in bytes.
#[derive(Clone, Copy, Default)]
struct RecordedKernel {
    registers: Option<u32>,
    stack: Option<u32>,
    shared: Option<u32>,
    constant_bank: Option<u32>,
    /// The size of all arguments together.
    arguments_size: Option<u32>,
    /// The maximum number of threads in a block.
    threads: Option<u32>,
}

/// The values that sections record for kernels. Registers and stack are recorded for a symbol, all others for the
/// section with the code.
#[derive(Default)]
struct RecordedKernels {
    /// The values by the index of the section with the code.
    of_sections: HashMap<u64, RecordedKernel>,
    /// The values by the index of the symbol.
    of_symbols: HashMap<u64, RecordedKernel>,
    /// The arguments by the index of the section with the code, each with its position; empty if they are not read.
    arguments: HashMap<u64, Vec<(u32, Argument)>>,
}

/// Adds the kernels of a cubin to a list. A cubin without a symbol table has no kernels; of several tables, only the
/// first is read.
pub(super) fn read(file: &File<'_>, list: &mut KernelsFound) -> Result<(), Malformed> {
    let tables = file.symbol_tables(&mut list.work)?;
    let Some(table) = tables.first() else { return Ok(()) };
    let mut recorded = RecordedKernels::read(file, list)?;
    for (symbol_index, symbol) in table.symbols.iter().enumerate() {
        if !symbol.is(STT_FUNC) || symbol.other & ENTRY == 0 {
            continue;
        }
        // A kernel that is not defined here has no section.
        let Some(section) = file.section_of(table, symbol_index, &symbol) else { continue };
        let Some(code) = file.sections.get(section) else { continue };
        // The kernel's values are recorded for its section or for its symbol.
        let section = to_u64(section);
        let of_section = recorded.of_sections.get(&section).copied().unwrap_or_default();
        let of_symbol = recorded.of_symbols.get(&to_u64(symbol_index)).copied().unwrap_or_default();
        let arguments = list.share_arguments(table.offset, "arguments of a kernel", || {
            let mut arguments = recorded.arguments.remove(&section).unwrap_or_default();
            arguments.sort_by_key(|(position, _)| *position);
            // No argument is `None`: broken attributes were reported when they were read.
            Some(arguments.into_iter().map(|(_, argument)| Some(argument)))
        })?;
        let mut registers = of_symbol.registers;
        // Compilers before CUDA 13 record the registers in the section of the code too.
        if registers.is_none() && code.info >> REGISTERS_SHIFT > 0 {
            registers = u32::try_from(code.info >> REGISTERS_SHIFT).ok();
        }
        let kernel = Kernel {
            vgprs: registers,
            scratch: of_symbol.stack,
            // A kernel without shared memory or without arguments has no record of them.
            lds: Some(of_section.shared.unwrap_or(0)),
            kernarg: Some(of_section.arguments_size.unwrap_or(0)),
            constant_bank: of_section.constant_bank,
            max_workgroup: of_section.threads,
            code_size: Some(code.size),
            arguments,
            ..Kernel::default()
        };
        list.add(name_of(table.names, symbol.name), kernel, table.offset)?;
    }
    Ok(())
}

impl RecordedKernels {
    /// Reads the sections with values of kernels.
    fn read(file: &File<'_>, list: &mut KernelsFound) -> Result<Self, Malformed> {
        let (mut recorded, names) = (Self::default(), file.section_names()?);
        for section in file.sections.iter() {
            let name = name_of(names, section.name);
            if !name.starts_with(b".nv.") {
                continue;
            }
            // The index of the section with the code of the kernel, or 0 if the section is not about one kernel.
            let Section { info: code_section, offset, .. } = section;
            if code_section != 0 && name.starts_with(b".nv.shared.") {
                let size = memory_size(&section, "shared memory")?;
                recorded.of_sections.entry(code_section).or_default().shared = Some(size);
            } else if code_section != 0 && name.starts_with(b".nv.constant0.") {
                let size = memory_size(&section, "constant memory")?;
                recorded.of_sections.entry(code_section).or_default().constant_bank = Some(size);
            } else if name == INFO || name.starts_with(INFO_OF_KERNEL) {
                charge(&mut list.work, section.stored(), offset)?;
                let bytes = file.bytes(offset, section.stored(), "attributes of kernels")?;
                let code_section = if name == INFO { None } else { Some(code_section) };
                recorded.read_attributes(
                    Cursor::new(bytes, offset),
                    code_section,
                    file.encoding,
                    &mut list.arguments,
                )?;
            }
        }
        Ok(recorded)
    }

    /// Reads attributes: of the kernel whose code is in the section with the index `code_section`, or of all functions
    /// if that is `None`. `lists` limits the number of arguments; without it, arguments are not read.
    fn read_attributes(
        &mut self,
        mut rest: Cursor<'_>,
        code_section: Option<u64>,
        encoding: Encoding,
        lists: &mut Option<ArgumentLists>,
    ) -> Result<(), Malformed> {
        while rest.remaining() > 0 {
            // An attribute has its format, its number, and a value of two bytes. For the format `SIZED`, this value is
            // the length of the values that follow, of four bytes each.
            let what = "an attribute of a kernel";
            let head = rest.take(4, what)?;
            let &[format, attribute, low, high] = head else { return Ok(()) };
            let value = encoding.read(&[low, high]);
            let values = if format == SIZED { rest.take(value, what)? } else { &[] };
            // The first three values: no attribute that is read here has more.
            let values = [0, 4, 8].map(|at| u32::try_from(encoding.read(slice(values, at, 4)?)).ok());
            match (attribute, code_section, values) {
                (REGISTERS, None, [Some(symbol), Some(registers), _]) => {
                    self.of_symbols.entry(symbol.into()).or_default().registers = Some(registers);
                }
                (STACK, None, [Some(symbol), Some(stack), _]) => {
                    self.of_symbols.entry(symbol.into()).or_default().stack = Some(stack);
                }
                (ARGUMENTS_SIZE, Some(section), _) => {
                    self.of_sections.entry(section).or_default().arguments_size = u32::try_from(value).ok();
                }
                // Position and offset, 16 bits each, share the second value. The size is in the third value: from bit
                // 18 on or, for a kernel with more than 4 KiB of arguments, in the lower 16 bits.
                (ARGUMENT | LARGE_ARGUMENT, Some(section), [_, Some(position_and_offset), Some(size)]) => {
                    let Some(lists) = lists else { continue };
                    lists.charge_one().ok_or_else(|| too_many_arguments(rest.offset()))?;
                    let (offset, position) = (position_and_offset >> 16, position_and_offset & 0xffff);
                    let size = if attribute == ARGUMENT { size >> 18 } else { size & 0xffff };
                    let argument = Argument { offset: Some(offset), size: Some(size), ..Argument::default() };
                    self.arguments.entry(section).or_default().push((position, argument));
                }
                (MAX_THREADS | REQUIRED_THREADS, Some(section), dimensions) => {
                    // Dimensions that are not recorded are 1.
                    let threads = dimensions.into_iter().flatten().fold(1, u32::saturating_mul);
                    self.of_sections.entry(section).or_default().threads = Some(threads);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns the size of a section that describes memory, which has no bytes in the file. `memory` names it in the error.
fn memory_size(section: &Section, memory: &str) -> Result<u32, Malformed> {
    match u32::try_from(section.size) {
        Ok(size) => Ok(size),
        Err(_) => fail_at(format!("a kernel with {} bytes of {memory}", section.size), section.offset),
    }
}
