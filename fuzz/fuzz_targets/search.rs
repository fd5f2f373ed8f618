//! Any bytes are searched, twice the same. Code objects are inside their bundles, bundles inside the file, and URIs
//! name their bytes. The limits hold, no name holds control characters, and a search of headers alone finds the same as
//! a search of all bytes.
#![no_main]

offload_fuzz::target!(search, files);
