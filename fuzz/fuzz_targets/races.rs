//! A file that another thread changes while it is read is read with a result or an error, by every reader and every
//! job.
#![no_main]

offload_fuzz::target!(races, bytes);
