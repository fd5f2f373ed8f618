//! Any bytes are verified, twice the same, and every broken place that a search finds is a fault. All code objects of a
//! file without faults can be taken out, and what the tool writes itself has none.
#![no_main]

offload_fuzz::target!(verify, files);
