//! HCF data of any bytes is read or refused, and HCF data that is written is read back.
#![no_main]

offload_fuzz::target!(hcf, files);
