//! Any bytes are a compressed bundle or an error, the same whether all or part of it is inflated; a header that
//! contradicts its stream is an error. Code objects compressed with any method, level, window and version come back,
//! under a header that is right.
#![no_main]

offload_fuzz::target!(compressed, files);
