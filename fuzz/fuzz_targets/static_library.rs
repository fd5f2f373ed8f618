//! Objects and archives that bytes decide on are recompressed. What leads into their device code leads to the same code
//! afterwards, and all else stays.
#![no_main]

offload_fuzz::target!(static_library, bytes);
