//! Any bytes are verified, with the same result in two runs, and every broken place that a search finds is a fault. All
//! code objects of a file without faults can be taken out, and the tool's own output has no faults.
#![no_main]

offload_fuzz::target!(verify, files);
