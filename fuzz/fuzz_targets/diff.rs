//! Any bytes are compared with themselves and with a part of them, and in bundles that are written, what was changed is
//! what is reported.
#![no_main]

offload_fuzz::target!(diff, files);
