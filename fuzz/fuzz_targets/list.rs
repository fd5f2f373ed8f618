//! Any bytes, taken for a file of any type, are listed or are an error, twice the same. Each line is an ID whose bytes
//! are from the input, and holds no control characters.
#![no_main]

offload_fuzz::target!(list, files);
