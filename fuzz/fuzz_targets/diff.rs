//! Any bytes are compared with themselves and with a part of them. In bundles that are written, exactly the changes are
//! reported.
#![no_main]

offload_fuzz::target!(diff, files);
