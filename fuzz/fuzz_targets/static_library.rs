//! Objects and archives that the input bytes describe are recompressed. Symbols and relocations into their device code
//! lead to the same code afterwards, and everything else stays.
#![no_main]

offload_fuzz::target!(static_library, bytes);
