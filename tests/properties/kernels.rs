use offload_bundle::job::ListKernels;
use offload_bundle::kernels::{self, Kernel as Read};

use super::choices::Choices;
use super::code_objects::{Argument, Kernel, amd, amd_with, cubin};
use super::room::Room;
use super::said;
use super::search::LIMITS;
use super::search::leads_elsewhere;
use super::sources::Sources;

/// Any bytes are read as a code object, as metadata of one, and as a file with code objects: with the same kernels in
/// two runs, or an error. Each kernel has a name from the bytes.
///
/// The kernels of a code object that is written from decisions come back with all of their numbers.
pub fn kernels(data: &[u8]) {
    named(data, data);
    named(&amd_with(data, &[]), data);
    listed(data);
    written(data);
}

/// Reads bytes as a code object, whose names must be in `data`.
fn named(code: &[u8], data: &[u8]) {
    let read = kernels::list_with_arguments(code);
    assert_eq!(read, kernels::list_with_arguments(code), "read twice");
    for kernel in read.into_iter().flatten() {
        assert!(!kernel.name.is_empty() && memchr::memmem::find(data, &kernel.name).is_some(), "{kernel:?}");
    }
}

fn listed(data: &[u8]) {
    if leads_elsewhere(&Sources::nested(data)) {
        return;
    }
    let room = Room::with(data);
    let input = offload_bundle::io::Input::read(&room.input()).unwrap();
    let mut job = ListKernels::default();
    job.scan.limits = LIMITS;
    job.arguments = true;
    let list = || {
        let list = job.run(&input).unwrap();
        list.problems.iter().for_each(|problem| drop(said(problem)));
        format!("{list:?}")
    };
    assert_eq!(list(), list(), "listed twice");
    room.holds_only(&["in"]);
}

fn written(data: &[u8]) {
    let mut choices = Choices::new(data);
    let number = |choices: &mut Choices<'_>| match choices.below(4) {
        0 => 0,
        1 => u32::from(choices.byte()),
        2 => u32::from(choices.byte()) << 16 | u32::from(choices.byte()),
        _ => u32::MAX - u32::from(choices.byte()),
    };
    let count = choices.below(6);
    let kernels: Vec<Kernel> = (0..count)
        .map(|index| {
            let len = choices.below(20);
            let chosen = choices.take(len).iter().filter(|byte| **byte != 0);
            // Each name is used once.
            let name = index.to_string().into_bytes().into_iter().chain(chosen.copied()).collect();
            let small = |choices: &mut Choices<'_>| number(choices) % 60_000;
            Kernel {
                name,
                vgprs: number(&mut choices),
                agprs: number(&mut choices),
                sgprs: number(&mut choices),
                vgpr_spills: number(&mut choices),
                sgpr_spills: number(&mut choices),
                scratch: number(&mut choices),
                lds: number(&mut choices),
                kernarg: small(&mut choices),
                workgroup: number(&mut choices),
                code_size: number(&mut choices),
                dynamic_stack: choices.below(2) == 1,
                arguments: (0..choices.below(4)).map(|_| argument(&mut choices)).collect(),
            }
        })
        .collect();
    same(&amd(&kernels), &kernels, |read, written| {
        assert_eq!(read.dynamic_stack, Some(written.dynamic_stack));
        let is_hostcall = |argument: &Argument| argument.kind == HOSTCALL;
        assert_eq!(read.hostcall, Some(written.arguments.iter().any(is_hostcall)));
        for (read, written) in read.arguments.iter().flat_map(|list| &**list).zip(&written.arguments) {
            assert_eq!((read.kind.as_deref(), read.name.as_deref()), (Some(&*written.kind), Some(&*written.name)));
        }

        assert_eq!(
            (read.vgprs, read.agprs, read.sgprs),
            (Some(written.vgprs), Some(written.agprs), Some(written.sgprs))
        );
        assert_eq!((read.vgpr_spills, read.sgpr_spills), (Some(written.vgpr_spills), Some(written.sgpr_spills)));
        assert_eq!(read.constant_bank, None);
    });
    same(&cubin(&kernels), &kernels, |read, written| {
        assert_eq!((read.dynamic_stack, read.hostcall), (None, None));
        let texts = |read: &kernels::Argument| read.kind.is_none() && read.name.is_none();
        assert!(read.arguments.as_ref().unwrap().iter().all(texts));

        assert_eq!((read.vgprs, read.agprs, read.sgprs), (Some(written.vgprs), None, None));
        assert_eq!((read.vgpr_spills, read.sgpr_spills), (None, None));
        assert_eq!(read.constant_bank, Some(written.kernarg + 352));
    });
}

const HOSTCALL: &[u8] = b"hidden_hostcall_buffer";

fn argument(choices: &mut Choices<'_>) -> Argument {
    let kind = match choices.below(3) {
        0 => HOSTCALL.to_vec(),
        1 => b"by_value".to_vec(),
        _ => choices.take(3).to_vec(),
    };
    let mut number = || u32::from(choices.byte()) << 6 | 3;
    Argument { offset: number(), size: number(), kind, name: choices.take(2).to_vec() }
}

/// Compares the values that both kinds of code objects record, and the rest with `others`.
fn same(code: &[u8], written: &[Kernel], others: impl Fn(&Read, &Kernel)) {
    let read = kernels::list_with_arguments(code).unwrap();
    let without = read.iter().map(|kernel| {
        let mut kernel = kernel.clone();
        kernel.arguments = None;
        kernel
    });
    assert_eq!(kernels::list(code).unwrap(), without.collect::<Vec<_>>());
    assert_eq!(read.len(), written.len());
    for (read, written) in read.iter().zip(written) {
        let places = |list: &[kernels::Argument]| list.iter().map(|one| (one.offset, one.size)).collect::<Vec<_>>();
        let expected: Vec<_> = written.arguments.iter().map(|one| (Some(one.offset), Some(one.size))).collect();
        assert_eq!(places(read.arguments.as_ref().unwrap()), expected);
        assert_eq!(*read.name, *written.name);
        assert_eq!((read.scratch, read.lds), (Some(written.scratch), Some(written.lds)));
        assert_eq!((read.kernarg, read.max_workgroup), (Some(written.kernarg), Some(written.workgroup)));
        assert_eq!(read.code_size, Some(written.code_size.into()));
        others(read, written);
    }
}
