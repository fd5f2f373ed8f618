//! Any bytes are a text bundle, another file, or an error; entries are between a start line with their ID and an end
//! line, in order. Text entries come back, unless one holds its own end line.
#![no_main]

offload_fuzz::target!(text, files);
