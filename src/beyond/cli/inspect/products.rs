//! The table of products that `inspect --gpus` prints without a file.

use std::io;

use crate::beyond::products;

use crate::beyond::cli::print::table::{Cell, Column, Table};
use crate::beyond::cli::print::text::Text;

/// The width of the column before the products: the longest name of a processor, and a gap.
const PROCESSOR: usize = 9;

/// A line of the table: a processor and some of its products. If the line continues the products of the line before it,
/// the processor is an empty text.
type ProductLine = (&'static str, String);

/// Another name of a processor or the name of a series, with the processors.
type OtherName = (&'static str, &'static [&'static str]);

/// Writes the processors with their products. On a terminal, long lists of products go on in the next line.
pub(super) fn write(text: &mut Text<'_>) -> io::Result<()> {
    let room = match text.style.width {
        Some(width) => width.saturating_sub(PROCESSOR),
        None => usize::MAX,
    };
    let mut lines: Vec<ProductLine> = Vec::new();
    for (processor, names) in products::all() {
        for (index, products) in lines_of(names, room).into_iter().enumerate() {
            lines.push((if index == 0 { processor } else { "" }, products));
        }
    }
    let columns = vec![
        Column::label("GPU", |(processor, _): &ProductLine| Cell::Bold((*processor).to_owned())),
        Column::name("PRODUCTS", |(_, products): &ProductLine| products.clone()),
    ];
    text.write_table(Table { indent: 0, columns }, || lines.iter())?;
    text.write_empty_line()?;
    let others: Vec<_> = products::other_names().collect();
    let columns = vec![
        Column::label("OTHER NAME", |(name, _): &OtherName| Cell::Bold((*name).to_owned())),
        Column::name("GPUS", |(_, processors): &OtherName| processors.join(", ")),
    ];
    text.write_table(Table { indent: 0, columns }, || others.iter())?;
    text.write_empty_line()?;
    text.write_line(
        "Options that take GPUs take these names, as in --expect 'RTX 5090,MI300X', target IDs (gfx90a, sm_90,",
    )?;
    text.write_line(
        "bmg-g21), NVIDIA's compute capabilities (8.6, 9.0+PTX), and native, which means the GPUs of this machine.",
    )
}

/// Joins names, in lines of at most `room` characters each.
fn lines_of(names: &[&str], room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for name in names {
        match lines.last_mut() {
            // A line that is not the last ends with a comma.
            Some(line) if line.len() + ", ".len() + name.len() + ",".len() <= room => {
                line.push_str(", ");
                line.push_str(name);
            }
            Some(line) => {
                line.push(',');
                lines.push((*name).to_owned());
            }
            None => lines.push((*name).to_owned()),
        }
    }
    lines
}
