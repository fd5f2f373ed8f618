//! Fatbins of any bytes hold the same code objects however they are packed, and fatbins that are written are read back.
#![no_main]

offload_fuzz::target!(fatbin, files);
