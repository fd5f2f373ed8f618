//! The table of products that `inspect --gpus` prints without a file.

use std::io;

use crate::beyond::products;

use crate::beyond::cli::print::table::{Cell, Column, GAP, Table, widest};
use crate::beyond::cli::print::text::Text;

/// A line of a table: a name, and some of the names that belong to it. If the line continues the one before it, the
/// first name is an empty text.
type NamesLine<'n> = (&'n str, String);

/// Writes the processors with their products, and the other names of processors.
pub(super) fn write(text: &mut Text<'_>) -> io::Result<()> {
    let indent = 0;
    write_names(["GPU", "PRODUCTS"], products::all().collect(), indent, text)?;
    text.write_empty_line()?;
    write_names(["OTHER NAME", "GPUS"], products::other_names().collect(), indent, text)?;
    text.write_empty_line()?;
    text.write_line(
        "Options that take GPUs take these names, as in --expect 'RTX 5090,MI300X', target IDs (gfx90a, sm_90,",
    )?;
    text.write_line(
        "bmg-g21), NVIDIA's compute capabilities (8.6, 9.0+PTX), and native, which means the GPUs of this machine.",
    )
}

/// Writes a table with a name and a list of names in each row, below `titles`. A list that is wider than the terminal
/// goes on in the next line. `indent` is the space before each line.
pub(super) fn write_names<'n, N: AsRef<str>>(
    titles: [&'static str; 2],
    rows: Vec<(&'n str, impl AsRef<[N]>)>,
    indent: usize,
    text: &mut Text<'_>,
) -> io::Result<()> {
    let [title, title_of_list] = titles;
    let names_width = widest(rows.iter().map(|(name, _)| *name), title);
    let room = text.style.width.map_or(usize::MAX, |width| width.saturating_sub(indent + names_width + GAP));
    let mut lines: Vec<NamesLine<'_>> = Vec::new();
    for (name, names) in rows {
        for (index, list) in lines_of(names.as_ref(), room).into_iter().enumerate() {
            lines.push((if index == 0 { name } else { "" }, list));
        }
    }
    let columns = vec![
        Column::label(title, |(name, _): &NamesLine<'n>| Cell::Bold((*name).to_owned())),
        Column::name(title_of_list, |(_, list): &NamesLine<'n>| list.clone()),
    ];
    text.write_table(Table { indent, columns }, || lines.iter())
}

/// Joins names, in lines of at most `room` characters each.
fn lines_of<N: AsRef<str>>(names: &[N], room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for name in names.iter().map(AsRef::as_ref) {
        match lines.last_mut() {
            // A line that is not the last ends with a comma.
            Some(line) if line.len() + ", ".len() + name.len() + ",".len() <= room => {
                line.push_str(", ");
                line.push_str(name);
            }
            Some(line) => {
                line.push(',');
                lines.push(name.to_owned());
            }
            None => lines.push(name.to_owned()),
        }
    }
    lines
}
