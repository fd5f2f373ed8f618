//! Hostile files, in one place: damaged ones (here, `samples`, `races`), ones in which something grows (`growth`,
//! `dimensions`), and small ones that claim much (`claims`). LLVM is not needed.
//!
//! The tests of this file damage each kind of file systematically: truncated to every length, with every byte changed,
//! and with every number in its headers set to the most harmful values. For every file, there must be no panic and no
//! long run time; outputs contain only bytes of the file, and a failure leaves no output. Everything runs through the
//! jobs of the library, in this process.
pub mod bits;
mod bomb;
mod claims;
mod dimensions;
mod fields;
pub mod files;
mod growth;
mod lab;
mod races;
mod samples;

use std::io::Write as _;

use lab::Lab;
use samples::{Sample, samples};

use crate::lists::places;

/// Runs a sweep over all samples. `damage` passes every damaged form of a sample to its callback.
fn sweep(what: &str, damage: impl Fn(&Sample, &mut dyn FnMut(&str, Vec<u8>))) {
    let mut lab = Lab::new();
    for sample in samples() {
        let whole = lab.survive(&sample, "whole", sample.data.clone());
        assert!(whole > 0, "{}: nothing comes out of the undamaged file", sample.name);
        damage(&sample, &mut |how, data| {
            lab.survive(&sample, how, data);
        });
    }
    // Bypasses the test runner, which captures the output of passing tests.
    drop(writeln!(std::io::stderr(), "{what}: {} files tried, the slowest took {:?}", lab.tried, lab.slowest));
}

#[test]
fn files_cut_at_every_length() {
    sweep("cut at every length", |sample, give| {
        (0..sample.data.len()).for_each(|len| give(&format!("cut at {len}"), sample.data[..len].to_vec()));
    });
}

#[test]
fn files_with_every_byte_changed() {
    sweep("every byte changed", |sample, give| {
        for at in places(sample.data.len(), 3) {
            // The third mask finds few additional problems, and large files take long.
            let masks: &[u8] = if sample.data.len() < 1500 { &[0xff, 1, 0x80] } else { &[0xff, 1] };
            for &mask in masks {
                let mut data = sample.data.clone();
                data[at] ^= mask;
                give(&format!("byte {at} changed by {mask:#x}"), data);
            }
        }
    });
}

#[test]
fn files_with_every_number_anything() {
    sweep("every number changed", |sample, give| {
        assert!(!sample.fields.is_empty(), "{}: no field is described", sample.name);
        for field in &sample.fields {
            for value in field.values(&sample.data) {
                give(&format!("{value} at {}", field.at), field.set(&sample.data, value));
            }
        }
    });
}
