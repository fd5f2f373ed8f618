//! Extracts the device code that `clang -fembed-offload-object` embeds in LLVM bitcode.
//!
//! The named metadata `llvm.embedded.objects` lists nodes of two operands: a global variable, and the name of its
//! section, `.llvm.offloading`. The initialiser of the variable is one or more offload binaries.
//!
//! | block | record | meaning |
//! |---|---|---|
//! | 8 module | 1 | version: from 2 on, the records below begin with offset and length of a name |
//! | | 7 | a variable: type, flags, initialiser + 1, … |
//! | | 8, 9, 14, 18 | a function, an alias in its old and its new form, an indirect function |
//! | 11 constants | 1 | the type of the constants that follow |
//! | | 8, 9 | an array of bytes, of bytes and a zero |
//! | | 22 | an array of numbers |
//! | 15 metadata | 1 | a string, in its old form |
//! | | 2 | a value: type, number of the value |
//! | | 3, 5 | a node, a distinct one: for each operand its number + 1, or 0 |
//! | | 4, 10 | a name, and the nodes that are listed under it |
//! | | 35 | strings: count, offset of the characters; blob of the lengths, each VBR6, and the characters |
//! | 17 types | 7 | an integer: width |
//! | | 11, 12 | an array, a vector: count, type of its elements |
//!
//! Variables, functions, aliases and constants are numbered together in file order, and so are all pieces of metadata
//! except names, lists of nodes, kinds (6), attachments (36) and the index (38, 39). Layout: LLVM 22.1.8.
//!
//! The file is walked several times, each time for the values that the previous walk found to be needed, so that the
//! memory used is that of the objects.
//!
//! Skipped as in LLVM: nodes of another form, variables without initialiser, initialisers that are all zeros or not
//! arrays of bytes. Rejected: a file without a module, more strings than lengths, an empty array of bytes, more objects
//! than the limit below.

use std::collections::{BTreeMap, BTreeSet};

use super::bitstream::{Bits, Block, Item, Record};
use super::not_bitcode::{NotBitcode, Result};
use super::{ALIAS, FUNCTION, INDIRECT, MODULE_BLOCK, VARIABLE, VERSION, open};
use crate::base::bytes;
use crate::llvm::container::limits::{Allowance, OBJECTS_MAX, OBJECTS_SHARED_MAX};

const CONSTANTS_BLOCK: u64 = 11;
const METADATA_BLOCK: u64 = 15;
const TYPE_BLOCK: u64 = 17;

const LIST: &[u8] = b"llvm.embedded.objects";
const SECTION: &[u8] = b".llvm.offloading";

/// The offload objects embedded in bitcode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Embedded {
    /// The contents. Equal objects of a module are one constant in bitcode, and one content here.
    pub(crate) contents: Vec<Vec<u8>>,
    /// The index of the content of each object, in the order of the metadata.
    pub(crate) order: Vec<usize>,
}

/// Reads the offload objects that the modules of a file embed.
pub(super) fn read(data: &[u8]) -> Result<Embedded> {
    let mut found = Embedded::default();
    let mut has_module = false;
    let mut stream = open(data)?;
    while let Some(block) = stream.next_block()? {
        if block.number == MODULE_BLOCK {
            has_module = true;
            add_objects(&block, &mut found)?;
        }
    }
    if !has_module {
        return Err(NotBitcode("no module found"));
    }
    // Callers copy each object. A metadata node is short, and many nodes can name the same object, so a small file
    // could ask for much memory.
    let mut room = Allowance::times(OBJECTS_SHARED_MAX, data);
    for &index in &found.order {
        let Some(content) = found.contents.get(index) else { continue };
        if room.take(bytes::len_u64(content)).is_none() {
            return Err(NotBitcode("the embedded objects are together larger than 64 times the file"));
        }
    }
    Ok(found)
}

/// Adds the objects that a module embeds. Listed variables whose initialiser is not an array of bytes are skipped.
fn add_objects(module: &Block<'_>, found: &mut Embedded) -> Result<()> {
    let variables = read_listed_variables(module)?;
    if variables.is_empty() {
        return Ok(());
    }
    if found.order.len().saturating_add(variables.len()) > OBJECTS_MAX {
        return Err(TOO_MANY);
    }
    let globals = Globals::read(module, &variables.iter().copied().collect())?;
    // The index in `found.contents` of the content of each constant. Several variables may have the same constant.
    let mut indices = BTreeMap::new();
    for (constant, content) in globals.read_contents(module)? {
        indices.insert(constant, found.contents.len());
        found.contents.push(content);
    }
    for variable in &variables {
        if let Some(constant) = globals.initialisers.get(variable)
            && let Some(index) = indices.get(constant)
        {
            found.order.push(*index);
        }
    }
    Ok(())
}

const TOO_MANY: NotBitcode = NotBitcode("the module embeds too many objects");

const TOO_MANY_VALUES: NotBitcode = NotBitcode("the module has more values than numbers for them");

/// Calls `take` with each block of a kind in a module, one after another: a list of the blocks would keep the
/// abbreviations of all of them in memory.
fn each_block<'a>(module: &Block<'a>, kind: u64, mut take: impl FnMut(Block<'a>) -> Result<()>) -> Result<()> {
    let mut module = module.clone();
    while let Some(item) = module.next_item()? {
        match item {
            Item::Block(block) if block.number == kind => take(block)?,
            _ => {}
        }
    }
    Ok(())
}

/// Returns the value numbers of the variables that the metadata lists as embedded in the section [`SECTION`]. Nodes
/// that name another section, or have another form, are skipped.
fn read_listed_variables(module: &Block<'_>) -> Result<Vec<u64>> {
    let listed = read_listed_nodes(module)?;
    if listed.is_empty() {
        return Ok(Vec::new());
    }
    let nodes = read_nodes(module, &listed.iter().copied().collect())?;
    let (values, sections) = read_operands(module, &nodes.values().flatten().copied().collect())?;
    let mut variables = Vec::new();
    for node in &listed {
        if let Some([variable, section]) = nodes.get(node)
            && let Some(value) = values.get(variable)
            && sections.contains(section)
        {
            variables.push(*value);
        }
    }
    Ok(variables)
}

const STRING: u64 = 1;
const VALUE: u64 = 2;
const NODE: u64 = 3;
const NAME: u64 = 4;
const DISTINCT_NODE: u64 = 5;
const KIND: u64 = 6;
const NAMED_NODE: u64 = 10;
const STRINGS: u64 = 35;
const ATTACHMENT: u64 = 36;
const INDEX_OFFSET: u64 = 38;
const INDEX: u64 = 39;

/// Calls `take` with each metadata record and the number of the first piece of metadata that it defines. Returns the
/// number of pieces that all records define.
fn each_metadata(module: &Block<'_>, mut take: impl FnMut(u64, &Record<'_>) -> Result<()>) -> Result<u64> {
    let mut number = 0_u64;
    each_block(module, METADATA_BLOCK, |mut block| {
        while let Some(record) = block.next_record()? {
            take(number, &record)?;
            number = number.checked_add(count_defined(&record)).ok_or(TOO_MANY_VALUES)?;
        }
        Ok(())
    })?;
    Ok(number)
}

/// The number of pieces of metadata that a record defines.
fn count_defined(record: &Record<'_>) -> u64 {
    match record.code {
        NAME | KIND | NAMED_NODE | ATTACHMENT | INDEX_OFFSET | INDEX => 0,
        STRINGS => record.value(0),
        _ => 1,
    }
}

/// Returns the numbers of the nodes that the metadata lists under the name [`LIST`].
fn read_listed_nodes(module: &Block<'_>) -> Result<Vec<u64>> {
    let mut listed = Vec::new();
    let (mut is_named, mut follows_name) = (false, false);
    each_metadata(module, |_, record| {
        if follows_name && record.code != NAMED_NODE {
            return Err(NotBitcode("a name of metadata is not followed by a list of nodes"));
        }
        follows_name = record.code == NAME;
        // A list belongs to the name in the record before it. One node more than allowed is enough for the error.
        if is_named && record.code == NAMED_NODE {
            listed.extend(record.values().take(OBJECTS_MAX + 1));
            if listed.len() > OBJECTS_MAX {
                return Err(TOO_MANY);
            }
        }
        is_named = record.code == NAME && record.values().eq(LIST.iter().copied().map(u64::from));
        Ok(())
    })?;
    Ok(listed)
}

/// Reads the nodes with the numbers `wanted`. Returns the first two operands of each, as numbers of metadata. Nodes
/// with fewer operands are left out.
///
/// # Errors
/// A number that is not defined, or that is a string or a value. Other metadata that is not a node is left out.
fn read_nodes(module: &Block<'_>, wanted: &BTreeSet<u64>) -> Result<BTreeMap<u64, [u64; 2]>> {
    const NOT_NODES: NotBitcode = NotBitcode("the list of embedded objects names metadata that is not a node");
    let mut nodes = BTreeMap::new();
    let defined = each_metadata(module, |number, record| {
        let is_leaf = matches!(record.code, STRING | VALUE | STRINGS);
        let end = number.saturating_add(count_defined(record));
        if is_leaf && wanted.range(number..end).next().is_some() {
            return Err(NOT_NODES);
        }
        if matches!(record.code, NODE | DISTINCT_NODE) && wanted.contains(&number) {
            // An operand is stored as its number + 1, and 0 is a missing operand.
            if let (Some(first), Some(second)) = (record.value(0).checked_sub(1), record.value(1).checked_sub(1)) {
                nodes.insert(number, [first, second]);
            }
        }
        Ok(())
    })?;
    match wanted.last() {
        Some(&last) if last >= defined => Err(NOT_NODES),
        _ => Ok(nodes),
    }
}

/// Reads the metadata with the numbers `wanted`, which are operands of nodes. Returns two results by these numbers: the
/// value number of each operand that refers to a value, and the operands that are the string [`SECTION`].
fn read_operands(module: &Block<'_>, wanted: &BTreeSet<u64>) -> Result<(BTreeMap<u64, u64>, BTreeSet<u64>)> {
    let mut values = BTreeMap::new();
    let mut sections = BTreeSet::new();
    each_metadata(module, |number, record| {
        match record.code {
            STRINGS => add_section_strings(number, record, wanted, &mut sections)?,
            VALUE if wanted.contains(&number) => {
                // The record holds the type of the value before its number.
                values.insert(number, record.value(1));
            }
            STRING if wanted.contains(&number) && record.values().eq(SECTION.iter().copied().map(u64::from)) => {
                sections.insert(number);
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok((values, sections))
}

/// Adds to `sections` the numbers of the wanted strings of a record that are equal to [`SECTION`]. `first` is the
/// number of the record's first string. The blob of the record holds the lengths of the strings, then the strings.
fn add_section_strings(
    first: u64,
    record: &Record<'_>,
    wanted: &BTreeSet<u64>,
    sections: &mut BTreeSet<u64>,
) -> Result<()> {
    let cut = NotBitcode("the metadata strings end too early");
    let (count, strings_at) = (record.value(0), record.value(1));
    let mut lengths = Bits::new(bytes::slice(record.blob, 0, strings_at).ok_or(cut)?);
    let mut position = strings_at;
    for number in first..first.checked_add(count).ok_or(TOO_MANY_VALUES)? {
        let len = lengths.vbr(6)?;
        let string = bytes::slice(record.blob, position, len).ok_or(cut)?;
        if string == SECTION && wanted.contains(&number) {
            sections.insert(number);
        }
        position = position.checked_add(len).ok_or(cut)?;
    }
    Ok(())
}

/// The numbers and types that serve to find the initialisers of the wanted variables of a module.
struct Globals {
    /// The number of each wanted variable, and of the constant that is its initialiser.
    initialisers: BTreeMap<u64, u64>,
    /// The number of the first constant in each block of constants.
    first_constants: Vec<u64>,
    /// The types of the module, by their numbers.
    types: Vec<ByteType>,
}

/// A type of the module, classified only to recognise arrays of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteType {
    /// An integer of 8 bits.
    Byte,
    /// An array or vector of such integers.
    Bytes,
    /// Any other type.
    Other,
}

impl Globals {
    /// Walks the module once: numbers its values and types, and looks up the initialisers of the variables `wanted`.
    fn read(module: &Block<'_>, wanted: &BTreeSet<u64>) -> Result<Self> {
        const OLD_ALIAS: u64 = 9;
        let mut globals = Self { initialisers: BTreeMap::new(), first_constants: Vec::new(), types: Vec::new() };
        // The number of the next value. Global values and constants are numbered together, in file order.
        let mut number = 0_u64;
        // The index of the initialiser in the record of a variable. From version 2 on, offset and length of the name
        // come before the type. A module that records no version has version 0.
        let mut initialiser_index = 2;
        let mut module = module.clone();
        while let Some(item) = module.next_item()? {
            let defined = match item {
                Item::Block(block) if block.number == CONSTANTS_BLOCK => {
                    globals.first_constants.push(number);
                    count_constants(block)?
                }
                Item::Block(block) if block.number == TYPE_BLOCK => {
                    add_types(block, &mut globals.types)?;
                    0
                }
                Item::Block(_) => 0,
                Item::Record(record) => match record.code {
                    VERSION => {
                        initialiser_index = if record.value(0) < 2 { 2 } else { 4 };
                        0
                    }
                    VARIABLE => {
                        // The initialiser is stored as its number + 1, and 0 is a variable without one.
                        if wanted.contains(&number)
                            && let Some(constant) = record.value(initialiser_index).checked_sub(1)
                        {
                            globals.initialisers.insert(number, constant);
                        }
                        1
                    }
                    FUNCTION | OLD_ALIAS | ALIAS | INDIRECT => 1,
                    _ => 0,
                },
            };
            number = number.checked_add(defined).ok_or(TOO_MANY_VALUES)?;
        }
        Ok(globals)
    }

    /// Reads the bytes of the initialisers, by the number of the constant. Constants that are not arrays of bytes are
    /// left out.
    fn read_contents(&self, module: &Block<'_>) -> Result<BTreeMap<u64, Vec<u8>>> {
        let wanted: BTreeSet<_> = self.initialisers.values().copied().collect();
        let mut contents = BTreeMap::new();
        let mut first_constants = self.first_constants.iter().copied();
        each_block(module, CONSTANTS_BLOCK, |mut block| {
            // `Globals::read` has found the blocks in the same order.
            let mut number = first_constants.next().unwrap_or_default();
            let mut constant_type = ByteType::Other;
            while let Some(record) = block.next_record()? {
                if record.code == SET_TYPE {
                    constant_type = type_at(&self.types, record.value(0));
                    continue;
                }
                if wanted.contains(&number)
                    && let Some(content) = read_content(&record, constant_type)?
                {
                    contents.insert(number, content);
                }
                number = number.checked_add(1).ok_or(TOO_MANY_VALUES)?;
            }
            Ok(())
        })?;
        Ok(contents)
    }
}

const SET_TYPE: u64 = 1;

/// The number of constants that a block defines.
fn count_constants(mut block: Block<'_>) -> Result<u64> {
    let mut count = 0_u64;
    while let Some(record) = block.next_record()? {
        bytes::add(&mut count, (record.code != SET_TYPE).into());
    }
    Ok(count)
}

/// Reads the bytes of a constant of this type. Returns `None` for a constant that is not an array of bytes. Returns
/// `None` also for zeros only: LLVM turns them into another kind of constant, so it does not find the object either.
fn read_content(record: &Record<'_>, constant_type: ByteType) -> Result<Option<Vec<u8>>> {
    const STRING: u64 = 8;
    const ZERO_ENDED: u64 = 9;
    const DATA: u64 = 22;
    match record.code {
        // Strings consist of bytes, whatever their type.
        STRING | ZERO_ENDED => {}
        DATA if constant_type == ByteType::Bytes => {}
        _ => return Ok(None),
    }
    // A string that ends with a zero is stored without it. The buffer gets room for the zero.
    let extra = usize::from(record.code == ZERO_ENDED);
    let mut content = record.bytes(extra)?;
    if content.is_empty() {
        return Err(NotBitcode("an array of bytes is empty"));
    }
    if record.code == ZERO_ENDED {
        content.push(0);
    }
    if bytes::is_zero(&content) { Ok(None) } else { Ok(Some(content)) }
}

/// Adds the types that a block of types defines, in their order, which gives them their numbers.
fn add_types(mut block: Block<'_>, types: &mut Vec<ByteType>) -> Result<()> {
    const COUNT: u64 = 1;
    const INTEGER: u64 = 7;
    const ARRAY: u64 = 11;
    const VECTOR: u64 = 12;
    const STRUCT_NAME: u64 = 19;
    while let Some(record) = block.next_record()? {
        types.push(match record.code {
            // These records define no type.
            COUNT | STRUCT_NAME => continue,
            INTEGER if record.value(0) == 8 => ByteType::Byte,
            ARRAY | VECTOR if type_at(types, record.value(1)) == ByteType::Byte => ByteType::Bytes,
            _ => ByteType::Other,
        });
    }
    Ok(())
}

/// The type with a number; [`ByteType::Other`] for a number without a type.
fn type_at(types: &[ByteType], index: u64) -> ByteType {
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    types.get(index).copied().unwrap_or(ByteType::Other)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::super::bitstream::Part;
    use super::super::testing::{BitWriter, start};
    use super::*;

    impl Embedded {
        /// The objects in the order of the metadata.
        fn iter(&self) -> impl Iterator<Item = &[u8]> {
            self.order.iter().filter_map(|&index| self.contents.get(index)).map(Vec::as_slice)
        }
    }

    fn fixture(name: &str) -> Vec<u8> {
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/bitcode").join(name)).unwrap()
    }

    fn objects(data: &[u8]) -> Vec<Vec<u8>> {
        read(data).unwrap().iter().map(<[u8]>::to_vec).collect()
    }

    fn embeds(name: &str, expected: &[&[u8]]) {
        assert_eq!(objects(&fixture(name)), expected, "{name}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn what_llvm_embeds_comes_back() {
        let (gfx906, gfx90a) = (fixture("gfx906.offload"), fixture("gfx90a.offload"));
        embeds("llvm22-one.bc", &[&gfx906]);
        embeds("llvm22-debug.bc", &[&gfx906, &gfx90a]);
        embeds("llvm22-thin.bc", &[&gfx90a]);
        embeds("llvm22-wrapper.bc", &[&gfx906]);
        embeds("llvm22-link.bc", &[&gfx906, &gfx90a, &gfx906]);
        embeds("llvm22-cat.bc", &[&gfx906, &gfx90a, &gfx906]);
    }

    #[test]
    fn every_form_of_array_that_llvm_writes_comes_back() {
        let bytes = b"\xff\x00\x01\x80\x00";
        embeds("llvm22-as.bc", &[bytes, b"the text", b"\x01\x02\x03\xc8", bytes]);
        embeds("llvm14-as.bc", &[b"text\0"]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn equal_objects_are_kept_once() {
        let found = read(&fixture("llvm22-link.bc")).unwrap();
        assert_eq!((found.contents.len(), found.order), (2, vec![0, 1, 0]));
    }

    /// A file with one module.
    fn file(module: impl FnOnce(&mut BitWriter)) -> Vec<u8> {
        let mut file = start();
        file.block(2, MODULE_BLOCK, module);
        file.put(0, 64);
        file.into_bytes()
    }

    fn chars(text: &[u8]) -> Vec<u64> {
        text.iter().copied().map(u64::from).collect()
    }

    /// Metadata that lists each of these values as embedded.
    fn metadata(module: &mut BitWriter, variables: &[u64]) {
        module.block(3, METADATA_BLOCK, |block| {
            block.record(NAME, &chars(LIST));
            let nodes: Vec<u64> = (0..).step_by(2).zip(variables).map(|(at, _)| at + 2).collect();
            block.record(NAMED_NODE, &nodes);
            block.record(STRING, &chars(SECTION));
            for (&node, &variable) in nodes.iter().zip(variables) {
                block.record(VALUE, &[0, variable]);
                block.record(KIND, &[1, 2]);
                block.record(NODE, &[node, 1]);
            }
        });
    }

    const ZERO_ENDED: u64 = 9;

    /// A module without a name table, whose constants use abbreviations from BLOCKINFO and of their own.
    fn hand_made() -> Vec<u8> {
        file(|module| {
            module.block(3, 0, |block| {
                block.record(1, &[CONSTANTS_BLOCK]);
                block.define(&[Part::Literal(ZERO_ENDED), Part::Array, Part::Char6]);
                block.record(1, &[METADATA_BLOCK]);
                block.define(&[Part::Literal(NAME), Part::Array, Part::Fixed(8)]);
            });
            module.record(7, &[0, 0, 5, 9]);
            module.record(8, &[0; 4]);
            module.block(3, 12, |block| block.record(99, &[7]));
            module.record(7, &[0, 0, 6, 9]);
            module.record(7, &[0, 0, 0, 9]);
            module.block(3, CONSTANTS_BLOCK, |block| {
                block.define(&[Part::Literal(8), Part::Array, Part::Fixed(8)]);
                block.record(1, &[0]);
                for (id, width, values) in [(4, 6, &[0, 63, 52][..]), (5, 8, &[0xff, 0, 0x10, 0])] {
                    block.put(id, 3);
                    block.vbr(values.len().try_into().unwrap(), 6);
                    for &value in values {
                        block.put(value, width);
                    }
                }
            });
            metadata(module, &[2, 0, 1, 3, 4, 99]);
        })
    }

    #[test]
    fn old_records_and_abbreviations_of_the_module_are_read() {
        assert_eq!(objects(&hand_made()), [&b"\xff\0\x10\0"[..], b"a_0\0"]);
    }

    #[test]
    fn bitcode_without_objects_has_none() {
        assert_eq!(objects(&file(|_| ())), [[0; 0]; 0]);
        assert_eq!(objects(&file(|module| metadata(module, &[]))), [[0; 0]; 0]);
    }

    #[test]
    fn a_list_of_objects_that_leads_nowhere_is_an_error() {
        let list = |records: &[(u64, &[u64])]| {
            file(|module| {
                module.block(3, METADATA_BLOCK, |block| {
                    block.record(NAME, &chars(LIST));
                    records.iter().for_each(|(code, values)| block.record(*code, values));
                });
            })
        };
        let error = |data: &[u8]| read(data).err().map(|broken| broken.0);
        let (node, text, not_nodes) =
            ((NODE, &[0_u64, 0][..]), (STRING, &[7_u64][..]), "names metadata that is not a node");
        assert_eq!(error(&list(&[(NAMED_NODE, &[0]), node])), None);
        let of_text = error(&list(&[(NAMED_NODE, &[0]), text]));
        let past_the_end = error(&list(&[(NAMED_NODE, &[1]), node]));
        assert!([of_text, past_the_end].into_iter().all(|error| error.unwrap().ends_with(not_nodes)));
        assert_eq!(error(&list(&[node])), Some("a name of metadata is not followed by a list of nodes"));
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn claims_are_held_against_what_is_there() {
        let listed = |operands: &[u64]| {
            file(|module| {
                module.record(7, &[0, 0, 2, 9]);
                module.block(3, CONSTANTS_BLOCK, |block| block.record(8, &[]));
                metadata(module, &[0]);
                module.block(3, METADATA_BLOCK, |block| {
                    block.define(&[Part::Literal(STRINGS), Part::Vbr(6), Part::Vbr(6), Part::Blob]);
                    block.put(4, 3);
                    operands.iter().for_each(|&operand| block.vbr(operand, 6));
                    block.vbr(0, 6);
                    block.align();
                });
            })
        };
        let error = |data: &[u8]| read(data).unwrap_err().0;
        assert_eq!(error(&listed(&[u64::MAX, 0])), TOO_MANY_VALUES.0);
        assert_eq!(error(&listed(&[u64::MAX - 9, 0])), "the bitstream ends too early");
        assert_eq!(error(&start().into_bytes()), "no module found");
        assert_eq!(error(&listed(&[1, u64::MAX])), "the metadata strings end too early");
        assert_eq!(error(&listed(&[0, 0])), "an array of bytes is empty");
        let many = file(|module| {
            module.block(3, METADATA_BLOCK, |block| {
                block.record(NAME, &chars(LIST));
                block.record(NAMED_NODE, &vec![0; OBJECTS_MAX + 1]);
            });
        });
        assert_eq!(error(&many), TOO_MANY.0);
    }

    #[test]
    fn objects_are_listed_again_up_to_a_limit() {
        // A variable of `len` bytes, whose node is listed `count` times.
        let listed = |len: usize, count: usize| {
            file(|module| {
                module.record(7, &[0, 0, 2, 9]);
                module.block(3, CONSTANTS_BLOCK, |block| {
                    block.define(&[Part::Literal(8), Part::Array, Part::Fixed(8)]);
                    block.put(4, 3);
                    block.vbr(len.try_into().unwrap(), 6);
                    block.bytes(&vec![7; len]);
                });
                module.block(3, METADATA_BLOCK, |block| {
                    block.record(NAME, &chars(LIST));
                    block.record(NAMED_NODE, &vec![2; count]);
                    block.record(STRING, &chars(SECTION));
                    block.record(VALUE, &[0, 0]);
                    block.record(NODE, &[2, 1]);
                });
            })
        };
        assert_eq!(read(&listed(10_000, 60)).unwrap().order.len(), 60);
        let NotBitcode(reason) = read(&listed(10_000, 80)).unwrap_err();
        assert_eq!(reason, "the embedded objects are together larger than 64 times the file");
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn damage_is_an_error_or_other_objects_but_never_a_panic() {
        let fixtures = ["llvm22-as.bc", "llvm22-debug.bc", "llvm14-as.bc"].map(fixture);
        for whole in fixtures.into_iter().chain([hand_made()]) {
            let expected = objects(&whole);
            for at in 0..whole.len() {
                if read(&whole[..at]).is_ok() {
                    assert_eq!(objects(&whole[..at]), expected, "cut at {at}");
                }
                for flip in [0xff, 1] {
                    let mut flipped = whole.clone();
                    flipped[at] ^= flip;
                    if let Ok(found) = read(&flipped) {
                        assert!(
                            found.order.iter().all(|&index| index < found.contents.len()),
                            "{at}: {:?}",
                            found.order
                        );
                    }
                }
            }
        }
    }
}
