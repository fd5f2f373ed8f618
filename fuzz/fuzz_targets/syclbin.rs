//! SYCLBIN files of any bytes are read or refused, and files that are written are read back.
#![no_main]

offload_fuzz::target!(syclbin, files);
