//! The sweep: each kind of file cut at every length, with every byte changed, and with every number of its headers set to
//! what does most harm.
//!
//! Whatever becomes of a file, there is no panic and no long wait; what comes out are bytes that the file holds, and a
//! failure leaves nothing. All of it goes through the jobs of the library, in this process. LLVM is not needed.
mod fields;
mod races;
mod samples;
mod survive;

use std::io::Write as _;

use samples::{Sample, samples};
use survive::Lab;

/// Runs a sweep over all samples; `damage` gives every damaged form of one to the function that it gets.
fn sweep(what: &str, damage: impl Fn(&Sample, &mut dyn FnMut(&str, Vec<u8>))) {
    let mut lab = Lab::new();
    for sample in samples() {
        let whole = lab.survive(&sample, "whole", sample.data.clone());
        assert!(whole > 0, "{}: nothing comes out of the undamaged file", sample.name);
        damage(&sample, &mut |how, data| {
            lab.survive(&sample, how, data);
        });
    }
    // Past the test runner, which keeps what passing tests print to itself.
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
        for at in 0..sample.data.len() {
            // The third one finds hardly anything that the others do not, and large files take their time.
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
