//! Any bytes that begin like ELF are a fat object, no fat object, or an error. As the host of a fat object they come
//! back byte for byte, as do the code objects, and the `object` crate finds a section for each.
#![no_main]

offload_fuzz::target!(elf, files);
