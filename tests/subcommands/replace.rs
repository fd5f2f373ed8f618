//! Tests of `replace` with a file and a selection, which finds the code object as `extract` does.

use std::fs;

use super::*;
use crate::machine::memory_directory;
use crate::properties::code_objects::{Kernel, amd};
use crate::properties::make::thin_archive;
use crate::reference::formats;

/// Code for two settings of one GPU, and for another GPU, with a kernel each.
fn bundle() -> Vec<u8> {
    let code = |name: &str| amd(&[Kernel { vgprs: 24, code_size: 256, ..Kernel::named(name) }]);
    let [first, second, third] = ["first", "second", "third"].map(code);
    let ids = [GFX906.to_owned(), format!("{GFX90A}:xnack-"), format!("{GFX90A}:xnack+")];
    formats::binary(&[(HOST, b""), (&ids[0], &first), (&ids[1], &second), (&ids[2], &third)], 4096)
}

#[test]
fn a_target_or_a_kernel_selects_the_code_object_that_is_replaced() {
    let new = amd(&[Kernel { vgprs: 32, code_size: 256, ..Kernel::named("new") }]);
    for (args, id) in [
        (&["--target", "gfx906"][..], "gfx906"),
        (&["--target", "gfx90a:xnack+"], "gfx90a:xnack+"),
        (&["--target", "gfx90a", "--kernel", "second"], "gfx90a:xnack-"),
        (&["--kernel", "=first"], "gfx906"),
        (&["--exact", "-t", "hip-amdgcn-amd-amdhsa--gfx90a:xnack-"], "gfx90a:xnack-"),
    ] {
        let dir = memory_directory();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/in"), bundle()).unwrap();
        fs::write(dir.path().join("new"), &new).unwrap();
        let (status, out, said) =
            text(&tool_in(dir.path(), &[&["replace", "sub/in", "new", "--force"], args].concat()));
        assert_eq!((status, out.as_str()), (0, ""), "{args:?}: {said}");
        let (_, out, _) = text(&tool_in(dir.path(), &["kernels", "--json", "sub/in", "--name", "=new"]));
        let listed = kernels::kernels_of(out.as_bytes());
        let targets: Vec<&str> =
            listed["kernels"].as_array().unwrap().iter().map(|kernel| kernel["target_id"].as_str().unwrap()).collect();
        assert_eq!(targets, [id], "{args:?}");
    }
}

#[test]
fn the_result_names_the_file_that_was_written() {
    let new = amd(&[Kernel { vgprs: 32, code_size: 256, ..Kernel::named("new") }]);
    let (data, dir) = (bundle(), memory_directory());
    fs::create_dir(dir.path().join("sub")).unwrap();
    fs::write(dir.path().join("new"), &new).unwrap();
    fs::write(dir.path().join("thin.a"), thin_archive(&[("member.o", data.len())])).unwrap();
    let member = fs::canonicalize(dir.path()).unwrap().join("member.o").display().to_string();
    for (args, named) in [
        (&["member.o", "new"][..], "member.o"),
        (&["./member.o", "new"], "./member.o"),
        (&["member.o", "new", "-o", "out"], "out"),
        (&["./member.o", "new", "-o", "sub"], "sub/member.o"),
        (&["thin.a", "new", "-o", "sub"], "sub/member.o"),
        (&["thin.a", "new"], &member),
    ] {
        fs::write(dir.path().join("member.o"), &data).unwrap();
        let args = [&["replace", "--force", "--target", "gfx906"], args].concat();
        let (status, _, said) = text(&tool_in(dir.path(), &args));
        assert!(status == 0 && said.starts_with(&format!("{named}: code object: ")), "{args:?}: {said}");
        assert!(fs::read(dir.path().join(named)).unwrap() != data, "{args:?}");
    }
}

#[test]
fn several_matches_are_an_error_with_the_uris_and_none_is_an_error_as_of_extract() {
    let dir = memory_directory();
    let data = bundle();
    fs::write(dir.path().join("in"), &data).unwrap();
    fs::write(dir.path().join("new"), "x").unwrap();
    let run = |args: &[&str]| {
        let (status, out, said) = text(&tool_in(dir.path(), &[&["replace"], args].concat()));
        assert_eq!(out, "");
        assert!(fs::read(dir.path().join("in")).unwrap() == data, "{args:?}");
        (status, said)
    };
    let (status, said) = run(&["in", "new", "--target", "gfx90a"]);
    let uri = format!("file://{}/in#offset=", fs::canonicalize(dir.path()).unwrap().display());
    let head = "replace: error: 'in': 2 code objects match, and only one can be replaced: gfx90a:xnack- at file://";
    let hint = "\nhint: choose with --target, --exact and --kernel, or name the URI instead of the file\n";
    assert!(status == 1 && said.contains(head) && said.ends_with(hint), "{said}");
    assert_eq!(said.matches(&uri).count(), 2, "{said}");
    for (args, status, text) in [
        (&["in", "new"][..], 1, "'in': 3 code objects match"),
        (&["in", "new", "-t", "gfx1030"], 1, "no code object matches 'gfx1030' in 'in'; it has: gfx906, gfx90a:xnack"),
        (&["in", "new", "--kernel", "secont"], 1, "no code object defines a kernel 'secont'; did you mean 'second'?"),
        (&["none", "new", "-t", "gfx906"], 1, "'none': No such file"),
        (&["file://in", "new", "-t", "gfx906"], 2, "a URI names one code object"),
        (&["-", "new", "-t", "gfx906"], 2, "standard input has no code object that can be replaced"),
        (&["in", "new", "--kernel", ".kd"], 2, "a name is missing"),
        (&["file:///x#", "new"], 1, "hint: `inspect --uri FILE` prints the URIs of the code objects in a file"),
        (&["file:///none/in#offset=0&size=1", "new"], 1, "'/none/in': No such file"),
    ] {
        let (found, said) = run(args);
        assert!(found == status && said.contains(text), "{args:?}: {said}");
    }
    let uri = format!("file://{}/in#offset=1&size=1", fs::canonicalize(dir.path()).unwrap().display());
    let (status, said) = run(&[&uri, "new"]);
    assert!(status == 1 && said.contains("'; `inspect --uri FILE` prints the URIs"), "{said}");
}
