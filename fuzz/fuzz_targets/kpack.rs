//! kpack archives of any bytes are read or refused, and archives that are written are read back.
#![no_main]

offload_fuzz::target!(kpack, files);
