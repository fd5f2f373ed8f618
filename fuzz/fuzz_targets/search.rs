//! Any bytes are searched, twice the same. Code objects lie in their bundles and the file, whose bytes they are and
//! whose ranges their URIs name. No more is found than may be, no name obeys a terminal, and headers alone tell the
//! same as all bytes.
#![no_main]

offload_fuzz::target!(search, files);
