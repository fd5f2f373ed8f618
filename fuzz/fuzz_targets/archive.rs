//! Any bytes are an archive or an error. Members lie inside and one behind the other; listing and unbundling succeed,
//! or fail and write nothing. What is written are archives, the same ones twice, whose members have names that are no
//! paths and bytes that are from the input.
#![no_main]

offload_fuzz::target!(archive, files);
