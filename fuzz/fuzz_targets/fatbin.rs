//! Fatbins of any bytes hold the same code objects however they are packed, and those that are written come back.
#![no_main]

offload_fuzz::target!(fatbin, files);
