//! SYCLBIN files of any bytes are read or refused, and those that are written come back.
#![no_main]

offload_fuzz::target!(syclbin, files);
