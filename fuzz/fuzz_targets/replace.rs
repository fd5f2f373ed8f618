//! In any bytes, and in files of all kinds around them, code objects are replaced and put back.
#![no_main]

offload_fuzz::target!(replace, files);
