//! Any bytes, read as a file of any type, are listed or are an error, with the same result in two runs. Each line is an
//! ID whose bytes are from the input, and holds no control characters.
#![no_main]

offload_fuzz::target!(list, files);
