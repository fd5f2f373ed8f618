//! Device images of programs of any bytes are read or refused, and images that are written are read back.
#![no_main]

offload_fuzz::target!(sycl, files);
