//! Any bitcode embeds offload binaries, embeds none, or is an error. As the member of a library it comes back byte for
//! byte, and the index of the library names nothing that is not in it.
#![no_main]

offload_fuzz::target!(bitcode, files);
