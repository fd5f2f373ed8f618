//! Tests of `recompress`: bundles that become smaller, and bundles that stay unchanged.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use super::*;
use crate::lists::half_of;
use crate::machine::{loud, memory_directory, skipped};
use crate::properties::fatbins;
use crate::properties::make::{DEFLATED, Elf, SHT_PROGBITS, Section, Zipped, archive, coff, pe, thin_archive, zip};
use crate::reference::formats;
use crate::reference::offload::{self, Image};

/// Code objects that compress well.
fn code(seed: u8) -> Vec<u8> {
    (0..20_000_u32).map(|at| seed.wrapping_add(u8::try_from(at % 61).unwrap())).collect()
}

fn large() -> Vec<u8> {
    let (first, second) = (code(1), code(2));
    formats::binary(&[(HOST, b""), (GFX906, &first), (GFX90A, &second)], 4096)
}

/// Runs `recompress` on one file, which must succeed. Returns the written file and the messages.
fn recompress(args: &[&str], data: &[u8]) -> (Vec<u8>, String) {
    let outcome = tool(&[&["recompress", "in", "-o", "out"], args].concat(), &[("in", data)]);
    assert_eq!(outcome.status, 0, "{args:?}: {}", outcome.stderr_text());
    assert_eq!((outcome.stdout.len(), outcome.files.len()), (0, 2), "{args:?}");
    assert!(outcome.files["in"] == data);
    (outcome.files["out"].clone(), outcome.stderr_text())
}

/// The code objects in a file, with their IDs.
fn held(data: &[u8]) -> Vec<(String, Vec<u8>)> {
    let outcome = tool(&["inspect", "--json", "in"], &[("in", data)]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr_text());
    let rows = told(&json_of(&outcome));
    let dir = memory_directory();
    fs::write(dir.path().join("in"), data).unwrap();
    let contents = against_llvm::extracted(&dir.path().join("in"), &["-t", "*"]);
    assert_eq!(rows.len(), contents.len());
    rows.into_iter().map(|row| row.2).zip(contents).collect()
}

fn ids(data: &[u8]) -> Vec<String> {
    held(data).into_iter().map(|(id, _)| id).collect()
}

fn padded(data: &[u8]) -> Vec<u8> {
    [data, &vec![0; data.len().next_multiple_of(4096) - data.len()]].concat()
}

#[test]
fn a_directory_as_output_gets_a_file_of_the_same_name() {
    let dir = memory_directory();
    for path in ["from/a.hipfb", "from/a.whl"] {
        let wheel =
            zip(&[Zipped::new("a.so", DEFLATED, &Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &large())]))]);
        let data = if path.ends_with("whl") { wheel } else { large() };
        fs::create_dir_all(dir.path().join("from")).unwrap();
        fs::create_dir_all(dir.path().join("to")).unwrap();
        fs::write(dir.path().join(path), &data).unwrap();
        let written = path.replace("from", "to");
        let (expected, _) = recompress(&[], &data);
        // As with `cp`, the directory of the input is refused. Who wants to change the input names it.
        for (output, status, name) in [("from", 1, path), ("to", 0, &written), ("to/", 0, &written), (path, 0, path)] {
            let args = ["recompress", path, "-o", output];
            let (found, _, said) = text(&tool_in(dir.path(), &args));
            assert_eq!(found, status, "{args:?}: {said}");
            let content = fs::read(dir.path().join(name)).unwrap();
            assert!(content == if status == 0 { expected.as_slice() } else { &data }, "{args:?}");
            assert_eq!(said.contains(&format!("'{path}': it is the input itself\nhint: ")), status == 1, "{said}");
        }
    }
    // Standard input has no name.
    let outcome = tool(&["recompress", "-", "-o", "."], &[]);
    assert!(outcome.status == 1 && outcome.stderr_text().contains("'.': Is a directory"), "{}", outcome.stderr_text());
}

#[test]
fn bundles_become_smaller_and_come_back() {
    let one = large();
    let other = formats::binary(&[(HOST, b""), (GFX906, &code(9))], 4096);
    for (name, data) in [
        ("one", one.clone()),
        ("two at pages", [padded(&one), other.clone()].concat()),
        ("three at pages", [padded(&one), padded(&other), one.clone()].concat()),
    ] {
        let (small, said) = recompress(&[], &data);
        assert!(small.len() < data.len() / 4 && small.starts_with(b"CCOB"), "{name}: {}", small.len());
        assert!(held(&small) == held(&data), "{name}");
        assert!(said.contains(" before, ") && said.contains(" now"), "{said}");
        let (back, _) = recompress(&["--none"], &small);
        assert!(back == data, "{name}: {} bytes, not {}", back.len(), data.len());
        // A bundle of minimum size is not changed.
        let (again, _) = recompress(&[], &small);
        assert!(again == small, "{name}");
        let (plain, _) = recompress(&["--none"], &data);
        assert!(plain == data, "{name}");
        let (best, _) = recompress(&["--level=19"], &data);
        assert!(best.len() < data.len() / 4 && held(&best) == held(&data), "{name}");
    }
}

#[test]
fn recompress_keeps_data_after_the_last_bundle() {
    let (one, other) = (large(), formats::binary(&[(HOST, b""), (GFX906, &code(9))], 4096));
    for tail in [&b""[..], b"tail", b"\0", &[0; 5000], b"\0\0\0tail\0\0", &[&[0; 4096][..], b"tail"].concat()] {
        for (name, data) in [("one", one.clone()), ("two", [padded(&one), other.clone()].concat())] {
            let data = [&data, tail].concat();
            let (small, _) = recompress(&[], &data);
            let what = format!("{name} and '{}'", tail.escape_ascii());
            assert!(small.ends_with(tail) && small.len() < data.len() / 4 + tail.len(), "{what}");
            assert!(held(&small) == held(&data), "{what}");
            // All trailing data, without additional zeros, is after the recorded size of the last bundle.
            let last = small.windows(4).rposition(|window| window == b"CCOB").unwrap();
            let stored = usize::try_from(u32::from_le_bytes(small[last + 8..last + 12].try_into().unwrap())).unwrap();
            assert!(&small[last + stored..] == tail, "{what}");
            let (back, _) = recompress(&["--none"], &small);
            assert!(back == data, "{what}: {} bytes, not {}", back.len(), data.len());
            let (fewer, _) = recompress(&["--none", "--keep=gfx906"], &data);
            assert!(fewer.ends_with(tail) && fewer.len() < data.len(), "{what}");
        }
    }
}

#[test]
fn data_compressed_with_a_bundle_stays_at_its_offset() {
    let bundle = formats::binary(&[(GFX906, &code(1)), (GFX90A, b"")], 1);
    let tail = formats::compressed(3, 1, &[&bundle[..], b"tail"].concat());
    let row = [&tail[..], &bundle].concat();
    let (again, _) = recompress(&[], &row);
    assert!(held(&again) == held(&row) && again.starts_with(b"CCOB"));
    let refused = |data: &[u8]| refused(&["--none"], data);
    let place =
        "'in': cannot decompress the bundle at offset 0: it would run into the data that was compressed with it";
    assert!(refused(&row).contains(place), "{}", refused(&row));
    let (dropped, _) = recompress(&["--drop", "gfx90a"], &row);
    assert!(held(&dropped).len() == 2 && refused(&dropped).contains(place));
    let zeros = formats::compressed(3, 1, &padded(&bundle));
    assert!(
        held(&recompress(&["--none"], &[&zeros[..], &bundle].concat()).0) == held(&[&bundle[..], &bundle].concat())
    );
    let none = formats::compressed(3, 1, b"nothing of a bundle at all");
    let nothing = "'in': compressed bundle at offset 0: the inflated data is not a bundle";
    assert!(refused(&none).contains(nothing), "{}", refused(&none));
    for command in ["inspect", "verify"] {
        let outcome = tool(&[command, "in"], &[("in", &none)]);
        assert_eq!(outcome.status, 1);
        let said = outcome.stderr_text() + &String::from_utf8_lossy(&outcome.stdout);
        assert!(said.contains("compressed bundle at offset 0: the inflated data is not a bundle"), "{said}");
    }
}

/// Runs `recompress` on one file, which must fail and write nothing. Returns the messages.
fn refused(args: &[&str], data: &[u8]) -> String {
    let outcome = tool(&[&["recompress", "in", "-o", "out"], args].concat(), &[("in", data)]);
    assert_eq!((outcome.status, outcome.files.len()), (1, 1), "{args:?}: {}", outcome.stderr_text());
    outcome.stderr_text()
}

#[test]
fn leaving_code_objects_out_loses_nothing_else() {
    let (a, b) = (code(1), b"b".to_vec());
    let text = formats::text("//", &[(HOST, b"host"), (GFX906, &a), (GFX90A, &b)]);
    assert!(
        recompress(&["--none", "--drop", "gfx906"], &text).0 == formats::text("//", &[(HOST, b"host"), (GFX90A, &b)])
    );
    let more = "cannot drop entries of the text bundle at offset 0";
    for around in [[&text[..], b"\nimportant\n"].concat(), text[1..].to_vec()] {
        let said = refused(&["--drop", "gfx90a"], &around);
        assert!(said.contains(more), "{said}");
    }
    let one = formats::binary(&[(HOST, b""), (GFX90A, &b)], 1);
    let only = formats::compressed(3, 1, &formats::text("//", &[(GFX906, &a)]));
    let (rest, said) = recompress(&["--keep", "gfx90a"], &[&one[..], &only, &one].concat());
    assert_eq!(ids(&rest), [HOST, GFX90A, HOST, GFX90A], "{said}");
    assert!(said.starts_with("3 bundles"), "{said}");
}

#[test]
fn recompress_keep_fails_if_a_pattern_matches_nothing() {
    let large = large();
    let said = refused(&["--keep", "gfx90a", "--keep", "gfx9420"], &large);
    assert!(said.contains("no code object matches 'gfx9420' in 'in'; it has: "), "{said}");
    let said = refused(&["--keep", "gfx90a", "--drop", "gfx9999"], &large);
    assert!(said.contains("no code object matches 'gfx9999' in 'in'; it has: "), "{said}");
    assert_eq!(ids(&recompress(&["--drop", "gfx90a", "--drop", "gfx9999"], &large).0), [HOST, GFX906]);
}

#[test]
fn shared_bytes_are_not_written_again_and_again() {
    let (count, size) = (200_usize, 100_000_usize);
    let number = |number: usize| u64::try_from(number).unwrap().to_le_bytes();
    let header = 32 + count * (24 + GFX906.len()) + 24 + GFX90A.len();
    let mut shared = [&b"__CLANG_OFFLOAD_BUNDLE__"[..], &number(count + 1)].concat();
    for id in std::iter::repeat_n(GFX906, count).chain([GFX90A]) {
        shared.extend([&number(header)[..], &number(size), &number(id.len()), id.as_bytes()].concat());
    }
    shared.resize(header + size, 7);
    let said = refused(&["--drop", "gfx90a"], &shared);
    let kernels = ["recompress", "in", "-o", "out", "--keep-kernels", "list"];
    for said in [said, tool(&kernels, &[("in", &shared), ("list", b"*")]).stderr_text()] {
        assert!(said.contains("expected no more than 16 times the bundle"), "{said}");
    }
}

#[test]
fn headers_in_a_bundle_are_not_written_over() {
    let bundle = formats::binary(&[(GFX906, &code(3)), (GFX90A, &[0; 4096])], 4096);
    let mut elf = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &padded(&bundle)).aligned(4096)]);
    let table = usize::try_from(u64::from_le_bytes(elf[40..48].try_into().unwrap())).unwrap();
    let headers = elf[table..].to_vec();
    let inside = find(&elf, &[0; 4096]);
    elf[inside..inside + headers.len()].copy_from_slice(&headers);
    elf[40..48].copy_from_slice(&u64::try_from(inside).unwrap().to_le_bytes());
    let said = refused(&[], &elf);
    assert!(said.contains("shares bytes at offset") && said.contains("with the section headers"), "{said}");
}

#[test]
fn bundles_in_a_row_come_back_where_an_alignment_put_them() {
    let mut random = harness::Random::new(5);
    for alignment in (0..=12).map(|power| 1 << power) {
        for _ in 0..4 {
            let mut data = Vec::new();
            for _ in 0..5 {
                data.resize(usize::next_multiple_of(data.len(), alignment), 0);
                // Odd and round sizes.
                let size = 200 + (random.below(3000) & (usize::MAX << random.below(12)));
                data.extend(formats::binary(&[(GFX906, &vec![7; size])], 1));
            }
            let (small, _) = recompress(&[], &data);
            assert!(small.len() < data.len() && held(&small) == held(&data), "{alignment}");
            let (again, _) = recompress(&[], &small);
            assert!(again == small, "{alignment}");
            let (back, _) = recompress(&["--none"], &small);
            assert!(back == data, "{alignment}: {} bytes, not {}", back.len(), data.len());
        }
    }
}

#[test]
fn recompress_chooses_the_smallest_form_of_each_bundle() {
    let noise = harness::Random::new(7).bytes(300);
    let tiny = formats::binary(&[(GFX906, &noise[..200]), (GFX90A, &noise[200..])], 2);
    let plain_without = formats::binary(&[(GFX906, &noise[..200])], 2);
    // In an ELF file without spare bytes, and alone; plain before, and compressed.
    let packed = formats::compressed(3, 1, &tiny);
    let packed_without = formats::compressed(3, 1, &plain_without);
    assert!(packed.len() < tiny.len() && packed_without.len() > plain_without.len());
    let elf = |bundle: &[u8]| Elf::LIBRARY.write(&[Section::new(".hip_fatbin", bundle), Section::new(".data", b"x")]);
    for bundle in [&tiny, &packed] {
        let (fewer, _) = recompress(&["--drop=gfx90a"], bundle);
        assert!(fewer == plain_without, "{}", fewer.escape_ascii());
        let (fewer, _) = recompress(&["--drop=gfx90a"], &elf(bundle));
        let at = find(&elf(bundle), bundle);
        assert!(fewer[at..].starts_with(&plain_without) && ids(&fewer) == [GFX906]);
        assert!(fewer[at + plain_without.len()..at + bundle.len()].iter().all(|&byte| byte == 0));
    }
    let (all, _) = recompress(&[], &packed_without);
    assert!(all == plain_without, "{}", all.escape_ascii());
    // A bundle that compresses well is compressed, whatever its form was.
    for bundle in [large(), formats::compressed(2, 0, &large())] {
        let (fewer, _) = recompress(&["--drop=gfx90a"], &bundle);
        assert!(fewer.starts_with(b"CCOB") && ids(&fewer) == [HOST, GFX906]);
    }
    // A text bundle that was compressed ends only where its compressed form ends.
    let text = formats::text("#", &[(GFX906, b"a"), (GFX90A, b"b")]);
    let packed = formats::compressed(3, 1, &text);
    let (fewer, _) = recompress(&["--drop=gfx90a"], &[&packed[..], &tiny].concat());
    assert!(fewer.starts_with(b"CCOB") && fewer.ends_with(&plain_without), "{}", fewer.escape_ascii());
    for behind in [&tiny[..], b"tail", b"\0"] {
        let data = [&packed[..], behind].concat();
        let outcome = tool(&["recompress", "in", "-o", "out", "--none"], &[("in", &data)]);
        assert_eq!((outcome.status, outcome.files.len()), (1, 1));
        assert!(
            outcome.stderr_text().contains("cannot decompress the bundle at offset 0"),
            "{}",
            outcome.stderr_text()
        );
    }
    let (plain, _) = recompress(&["--none"], &[&tiny[..], &packed].concat());
    assert!(plain.starts_with(&tiny) && plain.ends_with(&text), "{}", plain.escape_ascii());
}

#[test]
fn llvm_reads_what_is_recompressed() {
    let test = "recompressed bundles";
    let Some(theirs) = llvm(test, "clang-offload-bundler") else { return };
    let (data, dir) = (large(), memory_directory());
    for args in [&[][..], &["--level=1"], &["--drop=gfx906"], &["--none", "--keep=gfx90a"]] {
        let (small, _) = recompress(args, &data);
        fs::write(dir.path().join("in"), &small).unwrap();
        let arguments = ["-type=o", "-unbundle", "-input=in", "-output=out", &format!("-targets={GFX90A}")];
        must(Command::new(&theirs).args(arguments).current_dir(dir.path()));
        assert!(fs::read(dir.path().join("out")).unwrap() == code(2), "{args:?}");
        let listed = must(Command::new(&theirs).args(["-type=o", "-list", "-input=in"]).current_dir(dir.path()));
        let count = String::from_utf8(listed.stdout).unwrap().lines().count();
        assert_eq!(count, ids(&small).len(), "{args:?}");
    }
}

#[test]
fn every_version_is_read_and_text_stays_text() {
    let data = large();
    for (version, method) in [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)] {
        let (plain, _) = recompress(&["--none"], &formats::compressed(version, method, &data));
        assert!(plain == data, "version {version}, method {method}");
    }
    let entries: [(&str, &[u8]); 3] = [(HOST, b"host\n"), (GFX906, b"first\n"), (GFX90A, b"second\n")];
    for comment in ["//", "#", ";"] {
        let text = formats::text(comment, &entries);
        let (kept, _) = recompress(&["--none", "--keep=gfx90a"], &text);
        assert_eq!(
            kept.escape_ascii().to_string(),
            formats::text(comment, &[entries[0], entries[2]]).escape_ascii().to_string()
        );
        let packed = formats::compressed(2, 1, &text);
        let (kept, _) = recompress(&["--none", "--drop=gfx90a"], &packed);
        assert_eq!(kept.escape_ascii().to_string(), formats::text(comment, &entries[..2]).escape_ascii().to_string());
    }
}

#[test]
fn gpus_are_kept_and_left_out() {
    let (a, b) = (code(1), code(2));
    let [on, off, any, gfx906, other] = ["gfx90a:xnack+", "gfx90a:xnack-", "gfx90a", "gfx906", "gfx1100"]
        .map(|target| format!("hip-amdgcn-amd-amdhsa--{target}"));
    let data = formats::binary(&[(HOST, b"host"), (&on, &a), (&off, &b), (&gfx906, &a), (&other, &b)], 4096);
    for (args, expected) in [
        (&["--keep=gfx90a"][..], vec![HOST, &on, &off]),
        (&["--keep=gfx90a:xnack+"], vec![HOST, &on]),
        (&["--keep=gfx906", "--keep=gfx1100"], vec![HOST, &gfx906, &other]),
        (&["--keep=gfx9*"], vec![HOST, &on, &off, &gfx906]),
        (&["--drop=gfx9*"], vec![HOST, &other]),
        (&["--drop=gfx906"], vec![HOST, &on, &off, &other]),
        (&["--keep=gfx9*", "--drop=gfx906"], vec![HOST, &on, &off]),
        (&["--exact", "--keep", &on], vec![HOST, &on]),
        (&["--drop=host*"], vec![&on, &off, &gfx906, &other]),
    ] {
        for none in [&[][..], &["--none"]] {
            for data in [data.clone(), formats::compressed(2, 1, &data)] {
                let (out, said) = recompress(&[args, none].concat(), &data);
                let found = held(&out);
                assert_eq!(found.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), expected, "{args:?}");
                assert!(
                    found.iter().all(|(id, content)| held(&data).contains(&(id.clone(), content.clone()))),
                    "{args:?}"
                );
                let left_out = 5 - expected.len();
                assert!(said.contains(&format!("; {left_out} code object")), "{said}");
            }
        }
    }
    // Code objects stay aligned to pages.
    let (plain, _) = recompress(&["--none", "--keep=gfx906"], &data);
    let at = plain.windows(a.len()).position(|window| window == a).unwrap();
    assert!(at.is_multiple_of(4096), "{at}");
    for (args, says) in [
        (&["--keep=gfx942"][..], "no code object matches 'gfx942' in 'in'; it has: gfx"),
        (&["--drop=gfx942"], "no code object matches 'gfx942'"),
        (&["--exact", "--keep", &any], "no code object matches"),
        (&["--drop=gfx*"], "'in': no device code would be left"),
        (&["--keep=gfx906", "--drop=gfx906"], "no device code would be left"),
    ] {
        let outcome = tool(&[&["recompress", "in", "-o", "out"], args].concat(), &[("in", &data)]);
        assert_eq!((outcome.status, outcome.files.len()), (1, 1), "{args:?}");
        assert!(outcome.stderr_text().contains(says), "{args:?}: {}", outcome.stderr_text());
    }
}

/// Of any bundle, GPUs load the same code as before, and nothing is left that none of them loads.
#[test]
fn recompress_keeps_the_code_that_gpus_load() {
    let (amd, spir_v) = ("hip-amdgcn-amd-amdhsa--", "hip-spirv64-amd-amdhsa--amdgcnspirv");
    let targets = ["gfx906", "gfx906:xnack-", "gfx9-generic", "gfx90a:xnack+", "gfx1100", "gfx11-generic", "gfx1101"];
    let mut ids: Vec<String> = targets.iter().map(|target| format!("{amd}{target}")).collect();
    ids.push(spir_v.to_owned());
    // The code that a GPU may load, the best first. The name gfx906 leaves XNACK open, and code for XNACK off serves
    // only one of the two settings, so the other one loads the next best code.
    let loaded = |gpu: &str, ids: &[String]| -> Vec<String> {
        let (preferred, is_open): (&[&str], _) = match gpu {
            "gfx1151" => (&["gfx11-generic", "amdgcnspirv"], ""),
            "gfx906" => (&["gfx906", "gfx906:xnack-", "gfx9-generic", "amdgcnspirv"], "gfx906:xnack-"),
            _ => (&["gfx90a:xnack+", "amdgcnspirv"], ""),
        };
        let mut loaded = Vec::new();
        for target in preferred {
            let found = ids.iter().find(|id| id.ends_with(&format!("-{target}")));
            loaded.extend(found.cloned());
            if found.is_some() && *target != is_open {
                break;
            }
        }
        loaded
    };
    for set in 1..1_u16 << ids.len() {
        let held_ids: Vec<String> =
            (0..).zip(&ids).filter(|(index, _)| set >> index & 1 == 1).map(|(_, id)| id.clone()).collect();
        if set % 5 != 0 && held_ids.len() > 2 {
            continue;
        }
        let contents: Vec<Vec<u8>> = held_ids.iter().map(|id| id.as_bytes().repeat(20)).collect();
        let mut entries = vec![(HOST, &b""[..])];
        entries.extend(held_ids.iter().zip(&contents).map(|(id, content)| (id.as_str(), content.as_slice())));
        let data = formats::binary(&entries, 8);
        for gpu in ["gfx1151", "gfx906", "gfx90a:xnack+"] {
            let expected = loaded(gpu, &held_ids);
            if expected.is_empty() {
                assert!(refused(&["--keep-for", gpu], &data).contains(&format!("no code object matches '{gpu}'")));
                continue;
            }
            let (kept, _) = recompress(&["--keep-for", gpu], &data);
            assert_eq!(ids_of_devices(&kept), expected, "{gpu}");
            assert!(loaded_by(gpu, &kept) == loaded_by(gpu, &data), "{gpu}: {held_ids:?}");
        }
    }
}

/// The IDs in a file, without that of the host.
fn ids_of_devices(data: &[u8]) -> Vec<String> {
    ids(data).into_iter().filter(|id| id != HOST).collect()
}

/// The code objects that the runtime of a GPU loads.
fn loaded_by(gpu: &str, data: &[u8]) -> Vec<Vec<u8>> {
    let dir = memory_directory();
    fs::write(dir.path().join("in"), data).unwrap();
    against_llvm::extracted(&dir.path().join("in"), &["--as-runtime", "-t", gpu])
}

#[test]
fn the_best_code_and_lto_ir_beside_it_are_kept_for_a_gpu() {
    use fatbins::Code;
    const LTO_IR: u16 = 8;
    let lto = |sm: u32| Code::new(LTO_IR, sm, b"\xedCN\x7f1234");
    let codes = [
        Code::cubin(75, 64),
        Code::cubin(80, 64),
        Code::cubin(86, 64),
        Code::cubin(90, 64),
        Code::ptx(75),
        Code::ptx(90),
        lto(80),
        lto(100),
    ];
    let fatbin = |codes: &[Code]| fatbins::fatbin(&codes.iter().map(fatbins::entry).collect::<Vec<_>>());
    let data = fatbin(&codes);
    for (gpus, expected) in [
        ("sm_89", &["sm_86", "lto_80"][..]),
        ("sm_75,sm_90", &["sm_75", "sm_90", "lto_80"]),
        ("sm_120", &["compute_90", "lto_80", "lto_100"]),
        ("compute_120", &["compute_90", "lto_80", "lto_100"]),
        // A GPU has no suffix.
        ("sm_90a", &["sm_90", "lto_80"]),
    ] {
        let (kept, said) = recompress(&["--keep-for", gpus], &data);
        let targets: Vec<String> = ids(&kept).iter().map(|id| id.rsplit('-').next().unwrap().to_owned()).collect();
        assert_eq!(targets, expected, "{gpus}: {said}");
    }
    let (_, said) = recompress(&["--keep", "sm_90,sm_86"], &data);
    assert!(!said.contains("would have used"), "{said}");
    let two = fatbin(&[Code::cubin(80, 64), Code::cubin(86, 64)]);
    let (_, said) = recompress(&["--keep", "sm_86"], &[&data[..], &two, &fatbin(&[Code::cubin(80, 64)])].concat());
    let note =
        "note: in 1 bundle, sm_86 would have used code for sm_80, which was left out; --keep-for sm_86 keeps it\n";
    assert!(said.ends_with(note), "{said}");
    let dropping = ["--keep", "sm_86,sm_75", "--drop", "sm_80"];
    let (_, said) = recompress(&dropping, &[&data[..], &two, &fatbin(&[Code::cubin(80, 64)])].concat());
    assert!(!said.contains("would have used"), "{said}");
    let said = refused(&["--keep", "sm_89"], &two);
    let hint = "hint: sm_89 runs the code for sm_80, sm_86: extract --as-runtime and recompress --keep-for take it\n";
    assert!(said.ends_with(hint), "{said}");
    assert_eq!(
        tool(&["recompress", "in", "-o", "out", "--keep", "sm_80", "--keep-for", "sm_80"], &[("in", &two)]).status,
        2
    );
}

/// By their kernels, code objects are kept in bundles and in fatbins, in compressed ones too.
#[test]
fn code_objects_with_kernels_of_a_list_are_kept() {
    use crate::properties::code_objects::{self, Kernel};
    let kernels = |names: &[&str]| names.iter().map(|name| Kernel::named(name)).collect::<Vec<_>>();
    let (first, second) = (kernels(&["_Z3addPi", "scale"]), kernels(&["_ZN2ns3mulEPf"]));
    let amd = [code_objects::amd(&first), code_objects::amd(&second), b"\x7fELF, but cut".to_vec()];
    let bundle = formats::binary(
        &[(HOST, b""), (GFX906, &amd[0]), (GFX90A, &amd[1]), ("hip-amdgcn-amd-amdhsa--gfx1030", &amd[2])],
        8,
    );
    let cubin = |sm: u32, kernels: &[Kernel]| fatbins::Code::new(fatbins::CUBIN, sm, &code_objects::cubin(kernels));
    let ptx = |name: &str| {
        let text = format!(".version 8.7\n.target sm_75\n.address_size 64\n.visible .entry {name}()\n{{ret;}}\n\0");
        fatbins::Code { options: Some(Vec::new()), ..fatbins::Code::new(fatbins::PTX, 75, text.as_bytes()) }
    };
    let codes = [
        cubin(80, &first),
        cubin(86, &second),
        ptx("_Z3addPi"),
        ptx("_ZN2ns3mulEPf"),
        cubin(90, &first).with_flags(fatbins::LZ4),
        ptx("scale").with_flags(fatbins::ZSTD),
        cubin(89, &[]),
    ];
    let fatbin = fatbins::fatbin(&codes.iter().map(fatbins::entry).collect::<Vec<_>>());
    let dir = memory_directory();
    let list = dir.path().join("list");
    let list_name = list.to_str().unwrap();
    let unknown = ["gfx1030"];
    for (lines, in_bundle, in_fatbin) in [
        ("add(int*)", &["gfx906"][..], &["sm_80", "compute_75", "sm_90", "sm_89"][..]),
        ("_ZN2ns3mulEPf.kd\n# scale\n", &["gfx90a"], &["sm_86", "compute_75", "sm_89"]),
        ("ns::*\nsc?le", &["gfx906", "gfx90a"], &["sm_80", "sm_86", "compute_75", "sm_90", "compute_75", "sm_89"]),
    ] {
        fs::write(&list, lines).unwrap();
        for (data, expected, stay) in [(&bundle, in_bundle, &unknown[..]), (&fatbin, in_fatbin, &[])] {
            let (compressed, _) = recompress(&[], data);
            for data in [data, &compressed] {
                let (kept, said) = recompress(&["--keep-kernels", list_name], data);
                let targets = ids_of_devices(&kept);
                let targets: Vec<&str> = targets.iter().map(|id| id.rsplit('-').next().unwrap()).collect();
                assert_eq!(targets, [expected, stay].concat(), "{lines}: {said}");
                assert!(held(&kept).iter().all(|one| held(data).contains(one)), "{lines}");
            }
        }
    }
    let (_, said) = recompress(&["--keep-kernels", list_name, "--keep", "sm_86"], &fatbin);
    assert!(said.contains("\nsm_80: 1 code object of ") && said.contains(" left out\n"), "{said}");
    fs::write(&list, "scale\nmul\nnothing\x1b\n").unwrap();
    let said = refused(&["--keep-kernels", list_name], &fatbin);
    assert!(said.ends_with("no code object defines a kernel 'mul' or 'nothing\\x1b'\n"), "{said}");
    let (kept, said) = recompress(&["--keep-kernels", list_name, "--allow-unused"], &bundle);
    assert!(said.contains("note: 1 HIP bundle has no code left for some GPU"), "{said}");
    assert_eq!(ids_of_devices(&kept).len(), 2);
    for (list, said) in [("/dev/null", "it names no kernel"), ("missing", "No such file")] {
        let outcome = tool(&["recompress", "in", "-o", "out", "--keep-kernels", list], &[("in", &bundle)]);
        assert!(outcome.status == 2 && outcome.stderr_text().contains(said), "{}", outcome.stderr_text());
    }
}

#[test]
fn an_id_that_is_no_utf_8_can_only_be_kept_whole() {
    let mut data = formats::binary(&[("hip-x", b"first"), (GFX906, b"second")], 1);
    let at = find(&data, b"hip-x");
    data[at + 4] = 0xff;
    recompress(&[], &data);
    let data = [&large()[..], &data].concat();
    let outcome = tool(&["recompress", "in", "-o", "out", "--drop=gfx906"], &[("in", &data)]);
    assert_eq!((outcome.status, outcome.files.len()), (1, 1));
    let expected =
        format!("'in': cannot drop entries of the bundle at offset {}: an entry ID is not valid UTF-8", large().len());
    assert!(outcome.stderr_text().contains(&expected), "{}", outcome.stderr_text());
}

#[test]
fn recompress_keeps_bundles_that_would_grow() {
    let noise = harness::Random::new(1).bytes(5000);
    let data = formats::binary(&[(HOST, b""), (GFX906, &noise)], 1);
    let (out, said) = recompress(&[], &data);
    assert!(out == data);
    assert!(said.contains("1 bundle would have become larger and stayed as it was"), "{said}");
    // A well compressed bundle does not become larger.
    let packed = {
        let stream = formats::compressed(3, 1, &large());
        let (best, _) = recompress(&["--level=19"], &stream);
        best
    };
    let (out, _) = recompress(&["--level=-5"], &packed);
    assert!(out == packed);
}

#[test]
fn the_summary_counts_what_was_done() {
    let noise = harness::Random::new(1).bytes(5000);
    let fatbin = |code: &fatbins::Code| fatbins::fatbin(&[fatbins::entry(code)]);
    let hip = large();
    let openmp = formats::binary(&[(HOST, b""), ("openmp-amdgcn-amd-amdhsa--gfx906", &code(1))], 8);
    let incompressible = formats::binary(&[(HOST, b""), (GFX906, &noise)], 1);
    let small = recompress(&[], &hip).0;
    for (name, data, stays, needs_new_runtime) in [
        ("HIP", hip.clone(), false, true),
        ("compressed HIP", formats::compressed(2, 0, &hip), false, false),
        ("recompressed HIP", small, false, false),
        ("OpenMP", openmp, false, false),
        ("noise", incompressible.clone(), true, false),
        ("a zip file that stays", zip(&[Zipped::new("a", 0, &incompressible)]), false, false),
        ("no device code", formats::binary(&[(HOST, b"")], 1), true, false),
        ("fatbin", fatbin(&fatbins::Code::cubin(90, 20_000)), false, false),
        ("fatbin of noise", fatbin(&fatbins::Code::new(32, 90, &noise)), true, false),
        ("empty fatbin", fatbins::fatbin(&[]), false, false),
    ] {
        let (_, said) = recompress(&[], &data);
        let told = (said.contains("would have become larger"), said.contains("ROCm 6.2"));
        assert_eq!(told, (stays, needs_new_runtime), "{name}: {said}");
    }
}

#[test]
fn files_without_bundles_are_refused() {
    let fat = format!("__CLANG_OFFLOAD_BUNDLE__{GFX906}");
    let object = [(".text", &b"x"[..]), (fat.as_str(), b"code")];
    let sections: Vec<Section<'_>> = object.iter().map(|(name, content)| Section::new(name, content)).collect();
    let fat_bundle = formats::compressed(2, 1, &Elf::OBJECT.write(&sections));
    const OTHER: &str = "cannot recompress: not a bundle, an ELF or PE file, an archive or a zip file";
    const THIN: &str = "cannot recompress a thin archive, whose members are separate files";
    let debian = b"!<arch>\ndebian-binary   0           0     0     100644  4         `\n2.0\n".to_vec();
    let tar = [&[0; 257][..], b"ustar\x0000", &[0; 249]].concat();
    for (data, what, hint) in [
        (b"".to_vec(), "an empty file", "recompress takes bundles"),
        (b"text".to_vec(), "a text file", "recompress takes bundles"),
        ("größe\n".repeat(1000).into_bytes(), "a text file", "recompress takes bundles"),
        (vec![0x64, 0x86, 1, 0], OTHER, "recompress takes bundles"),
        (vec![0xff; 5000], OTHER, "recompress takes bundles"),
        (
            fs::read("/bin/sh").unwrap(),
            "an ELF file without a bundle in .hip_fatbin or a fatbin in .nv_fatbin or __nv_relfatbin",
            "recompress takes bundles",
        ),
        (coff(&[(".text", b"x")]), "a COFF object", "recompress takes bundles"),
        (
            pe(&[(".text", b"x")]),
            "a PE file without a bundle in .hip_fat or a fatbin in .nv_fatb or __nv_rel",
            "recompress takes bundles",
        ),
        (coff(&object), "a fat object", "link it first"),
        (Elf::OBJECT.write(&sections), "a fat object", "link it first"),
        (fat_bundle, "a compressed fat object", "link it first"),
        (coff(&[(".hip_fat", &large())]), "a COFF object", "link it first"),
        (archive(&[("a", b"text")]), "an archive in which no member can be recompressed", "recompress takes bundles"),
        (thin_archive(&[("a", 4)]), THIN, "recompress these files instead"),
        (debian, "a Debian package", "unpack it"),
        (tar, "a tar archive", "unpack it"),
        (b"\xfd7zXZ\0".to_vec(), "an xz file", "unpack it"),
        (b"070701".to_vec(), "a cpio archive", "unpack it"),
        (b"\xed\xab\xee\xdb".to_vec(), "an RPM package", "unpack it"),
        (b"\x04\x22\x4d\x18".to_vec(), "an LZ4 file", "recompress takes bundles"),
        (b"KPAK\x01\0\0\0".to_vec(), "a kpack archive", "recompress takes bundles"),
        (b"\x03\x02\x23\x07".to_vec(), "a SPIR-V module", "recompress takes bundles"),
        (b"MZ\x80\0\x01\0".to_vec(), "a program without a PE header", "recompress takes bundles"),
        (zip(&[Zipped::new("a", 0, b"text")]), "a zip file in which no member can be recompressed", "recompress"),
        (fixture("offload/v2.offload"), "an offload binary", "pack it with --compress"),
        (fixture("bitcode/llvm22-link.bc"), "an LLVM bitcode file", "recompress takes bundles"),
        (Elf::amdgpu(0x3f).write(&[]), "a code object without a bundle around it", "pack it with --compress"),
        (
            Elf::LIBRARY.write(&[Section::new(".llvm.offloading", &fixture("offload/v2.offload"))]),
            "an ELF file without a bundle in .hip_fatbin or a fatbin in .nv_fatbin or __nv_relfatbin",
            "recompress takes bundles",
        ),
    ] {
        let outcome = tool(&["recompress", "in", "-o", "out"], &[("in", &data)]);
        assert_eq!((outcome.status, outcome.files.len()), (1, 1), "{what}: {:?}", outcome.files.keys());
        let said = outcome.stderr_text();
        let lines: Vec<&str> = said.lines().collect();
        let [error, help] = lines[..] else { panic!("{said}") };
        let refusal = if what.starts_with("cannot") { "" } else { ": not supported" };
        assert!(error.ends_with(&format!("error: 'in': {what}{refusal}")), "{said}");
        assert!(help.starts_with(&format!("hint: {hint}")), "{said}");
    }
}

#[test]
fn bundles_are_rewritten_up_to_what_a_search_finds() {
    let ids: Vec<String> = (0..80_000).map(|number| format!("hip-amdgcn-amd-amdhsa--gfx{number}")).collect();
    let entries: Vec<(&str, &[u8])> = ids.iter().map(|id| (id.as_str(), &b""[..])).collect();
    let bundle = formats::binary(&entries, 1);
    let (three, four) = (bundle.repeat(3), bundle.repeat(4));
    assert!(recompress(&["--none"], &three).0 == three);
    let limit = "more than 250000 bundles, code objects and faults; stopped at offset";
    for line in half_of(vec![&["recompress", "in", "-o", "out", "--none"][..], &["inspect", "in"]]) {
        let outcome = tool(line, &[("in", &four)]);
        assert_eq!((outcome.status, outcome.files.len()), (1, 1));
        assert!(outcome.stderr_text().contains(limit), "{}", outcome.stderr_text());
    }
}

/// An ELF library with bundles in its section, with a table of sections in any order, and its other bytes.
fn library() -> (Vec<u8>, Vec<u8>) {
    let section = [padded(&large()), padded(&large()), large()].concat();
    let sections = [
        Section::new(".text", b"some code"),
        Section::new(".hip_fatbin", &section).aligned(4096),
        Section::new(".data", b"some data"),
    ];
    (Elf::LIBRARY.write(&sections), section)
}

/// The offset of some bytes.
fn find(data: &[u8], what: &[u8]) -> usize {
    harness::find(data, what).unwrap()
}

#[test]
fn in_an_elf_file_nothing_moves() {
    let (data, section) = library();
    let at = find(&data, &section[..4096]);
    let (small, said) = recompress(&[], &data);
    assert_eq!(small.len(), data.len());
    assert!(small[..at] == data[..at] && small[at + section.len()..] == data[at + section.len()..]);
    assert!(held(&small) == held(&data));
    assert!(said.contains("; the file has the size that it had, ") && said.contains(" of it a hole"), "{said}");
    for start in [at, at + padded(&large()).len(), at + 2 * padded(&large()).len()] {
        assert!(small[start..].starts_with(b"CCOB"));
    }
    let (back, _) = recompress(&["--none"], &small);
    assert!(back == data);
    let (fewer, _) = recompress(&["--keep=gfx90a", "--none"], &data);
    assert_eq!(ids(&fewer), [HOST, GFX90A, HOST, GFX90A, HOST, GFX90A]);
    assert!(fewer[..at] == data[..at] && fewer[at + section.len()..] == data[at + section.len()..]);
    // A bundle that no longer fits at its offset.
    let packed = formats::compressed(2, 1, &large());
    let tight = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &packed)]);
    let outcome = tool(&["recompress", "in", "-o", "out", "--none"], &[("in", &tight)]);
    assert_eq!((outcome.status, outcome.files.len()), (1, 1));
    assert!(outcome.stderr_text().contains("but has room for only "), "{}", outcome.stderr_text());
}

/// Where several bundles have no room for their plain form, the error names each with its member, up to ten.
#[test]
fn recompress_names_all_bundles_without_room() {
    let packed = formats::compressed(2, 1, &large());
    let tight = |count: usize| Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &packed.repeat(count))]);
    let said = |data: &[u8]| {
        let outcome = tool(&["recompress", "in", "-o", "out", "--none"], &[("in", data)]);
        assert_eq!((outcome.status, outcome.files.len()), (1, 1), "{}", outcome.stderr_text());
        outcome.stderr_text()
    };
    assert!(said(&tight(1)).contains("error: 'in': the bundle at offset 64 needs "));
    for count in [2_usize, 10, 13] {
        let said = said(&tight(count));
        let start =
            format!("error: 'in': {count} bundles cannot be written without compression: the bundle at offset 64 ");
        assert!(said.contains(&start), "{said}");
        assert_eq!(said.matches(" but has room for only ").count(), count.min(10), "{said}");
        assert_eq!(said.ends_with("; and 3 more\n"), count > 10, "{said}");
    }
    let members = [("a.so", tight(2)), ("b.so", library().0), ("c.so", tight(1))];
    let said = said(&zip(&members.map(|(name, content)| Zipped::new(name, DEFLATED, &content))));
    let of = |member: &str| said.matches(&format!("'in({member})': the bundle at offset ")).count();
    assert_eq!([of("a.so"), of("b.so"), of("c.so")], [2, 0, 1], "{said}");
}

#[test]
fn sections_may_be_in_any_order_and_in_one_place() {
    let (data, section) = library();
    let table = usize::try_from(u64::from_le_bytes(data[40..48].try_into().unwrap())).unwrap();
    let header = |index: usize| table + 64 * index..table + 64 * (index + 1);
    // Two sections with bundles: `.data` becomes one, and precedes the other in the table.
    let bundle = large();
    let sections = [
        Section::new(".hip_fatbin", &section).aligned(4096),
        Section::new(".hip_fatbin", &bundle).aligned(4096),
        Section::new(".data", b"some data"),
    ];
    let two = Elf::OBJECT.write(&sections);
    let table_of_two = usize::try_from(u64::from_le_bytes(two[40..48].try_into().unwrap())).unwrap();
    let mut swapped = two.clone();
    let (first, second) = (table_of_two + 64..table_of_two + 128, table_of_two + 128..table_of_two + 192);
    swapped[first.clone()].copy_from_slice(&two[second.clone()]);
    swapped[second].copy_from_slice(&two[first]);
    let mut same = data.clone();
    same.copy_within(header(2), header(3).start);
    for (name, data, bundles) in [("two", &two, 4), ("swapped", &swapped, 4), ("same", &same, 3)] {
        let (small, said) = recompress(&[], data);
        assert_eq!(small.len() < data.len(), name != "same", "{name}");
        assert!(said.starts_with(&format!("{bundles} bundles: ")), "{name}: {said}");
        assert!(held(&small) == held(data), "{name}");
        let (back, _) = recompress(&["--none"], &small);
        assert!(&back == data, "{name}");
    }
}

/// An ELF file with one of its sections (counted from 1) at another offset, of another size, and of another type.
fn with_section(elf: &[u8], index: usize, offset: usize, size: usize, kind: u32) -> Vec<u8> {
    let mut elf = elf.to_vec();
    let header = usize::try_from(u64::from_le_bytes(elf[40..48].try_into().unwrap())).unwrap() + 64 * index;
    elf[header + 4..header + 8].copy_from_slice(&kind.to_le_bytes());
    for (at, number) in [(24, offset), (32, size)] {
        elf[header + at..header + at + 8].copy_from_slice(&u64::try_from(number).unwrap().to_le_bytes());
    }
    elf
}

#[test]
fn sections_that_share_bytes_with_bundles_are_refused() {
    const SHT_NOBITS: u32 = 8;
    let (data, section) = library();
    let (at, len) = (find(&data, &section[..4096]), section.len());
    for (offset, size) in [(at, len), (at + 1, 1), (at + len - 1, 1), (at - 9, 10), (at - 9, len + 100), (at + 5, len)]
    {
        // `.text` and `.data`, which precede and follow `.hip_fatbin` in the table.
        for (index, name) in [(1, ".text"), (3, ".data")] {
            let shared = with_section(&data, index, offset, size, SHT_PROGBITS);
            let outcome = tool(&["recompress", "in", "-o", "out"], &[("in", &shared)]);
            assert_eq!((outcome.status, outcome.files.len()), (1, 1), "{name} at {offset}, {size} bytes");
            let said = outcome.stderr_text();
            let expected = format!(
                "'in': cannot rewrite the bundles in section '.hip_fatbin': it shares bytes at offset {} with the section '{name}'",
                offset.max(at)
            );
            assert!(said.contains(&expected), "{said}");
            // A section without bytes in the file does not share any.
            let empty = with_section(&data, index, offset, size, SHT_NOBITS);
            let (small, _) = recompress(&[], &empty);
            assert!(small[at..].starts_with(b"CCOB"));
        }
    }
    for (offset, size) in [(at, 0), (at + 1, 0), (at - 1, 1), (at + len, 1)] {
        let beside = with_section(&data, 1, offset, size, SHT_PROGBITS);
        recompress(&[], &beside);
    }
    // Two sections with bundles must not overlap either.
    let bundle = large();
    let sections = [Section::new(".hip_fatbin", &section).aligned(4096), Section::new(".hip_fatbin", &bundle)];
    let two = Elf::OBJECT.write(&sections);
    let at = find(&two, &section[..4096]) + padded(&bundle).len();
    let shared = with_section(&two, 2, at, bundle.len(), SHT_PROGBITS);
    let outcome = tool(&["recompress", "in", "-o", "out"], &[("in", &shared)]);
    assert_eq!((outcome.status, outcome.files.len()), (1, 1));
    let expected = format!("section '.hip_fatbin': it shares bytes at offset {at} with the section '.hip_fatbin'");
    assert!(outcome.stderr_text().contains(&expected), "{}", outcome.stderr_text());
}

#[test]
fn a_missing_directory_is_named() {
    let outcome = tool(&["recompress", "in", "-o", "new dir/x"], &[("in", &large())]);
    let said = outcome.stderr_text();
    assert!(outcome.status == 1 && said.ends_with("hint: the directory 'new dir' does not exist\n"), "{said}");
    // A slash at the end says that a directory is meant.
    for args in [
        &["recompress", "in", "-o", "new dir/"][..],
        &["replace", "in", "in", "-t", "gfx906", "-o", "new dir/"],
        &["report", "in", "-o", "new dir/"],
        &["inspect", "in", "--svg", "new dir/"],
    ] {
        let outcome = tool(args, &[("in", &large())]);
        let said = outcome.stderr_text();
        assert!(
            outcome.status == 1 && said.contains("error: 'new dir/': the directory does not exist\nhint: "),
            "{said}"
        );
    }
}

#[test]
fn holes_take_no_space_and_read_as_zeros() {
    let (data, section) = library();
    let dir = memory_directory();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("in"), &data).unwrap();
    let (status, _, said) = text(&tool_in(dir.path(), &["recompress", "in", "-o", "out"]));
    assert_eq!(status, 0, "{said}");
    let (before, after) = (fs::metadata(at("in")).unwrap(), fs::metadata(at("out")).unwrap());
    assert_eq!(before.len(), after.len());
    let small = fs::read(at("out")).unwrap();
    let start = find(&data, &section[..4096]);
    let stored = usize::try_from(u32::from_le_bytes(small[start + 8..start + 12].try_into().unwrap())).unwrap();
    assert!(small[start + stored..start + padded(&large()).len()].iter().all(|&byte| byte == 0));
    // Only if the file system supports holes.
    let holey = tempfile::NamedTempFile::new_in(dir.path()).unwrap();
    holey.as_file().set_len(1 << 20).unwrap();
    if holey.as_file().metadata().unwrap().blocks() > 64 {
        return skipped("the file system has no holes: holes take no space", None);
    }
    assert!(after.blocks() * 512 < before.blocks() * 512 / 2, "{} blocks, {} before", after.blocks(), before.blocks());
}

#[test]
fn offsets_that_an_object_kept_are_undone() {
    let padded = |len: usize| [formats::binary(&[(HOST, b""), (GFX906, &[7; 9000])], 4096), vec![0; len]].concat();
    for padding in [0, 100, 20_000] {
        let section = padded(padding);
        let object = Elf::OBJECT.write(&[
            Section::new(".text", b"code"),
            Section::new(".hip_fatbin", &section).aligned(4096),
            Section::new(".data", b"more"),
        ]);
        let (small, said) = recompress(&[], &object);
        let keeps = padding > 13_000;
        assert_eq!(small.len() == object.len(), keeps, "{said}");
        assert_eq!(said.contains(" a hole\n"), keeps, "{said}");
        let (back, said) = recompress(&["--none"], &small);
        assert!(back == object, "{padding}: {} bytes instead of {}: {said}", back.len(), object.len());
        let library = archive(&[("a.o", &object), ("b.o", &object)]);
        let (same, said) = recompress(&[], &library);
        assert_eq!(
            same == library && said.contains("note: nothing changed in in(a.o), in(b.o), where "),
            keeps,
            "{said}"
        );
    }
}

/// A fat object of LLVM's has one table of names, one of this tool's has two.
#[test]
fn small_fat_objects_do_not_grow_when_they_lose_code() {
    let Some(bundler) = llvm("fat objects", "clang-offload-bundler") else { return };
    let dir = memory_directory();
    let host = Elf::OBJECT.write(&[Section::new(".text", b"host")]);
    for (name, data) in [("host.o", &host[..]), ("a", &[1; 40]), ("b", &[2; 50])] {
        fs::write(dir.path().join(name), data).unwrap();
    }
    let targets = format!("-targets={HOST},{GFX906},{GFX90A}");
    let words = ["-type=o", &targets, "-input=host.o", "-input=a", "-input=b", "-output=fat.o"];
    must(Command::new(bundler).args(words).current_dir(dir.path()));
    let fat = fs::read(dir.path().join("fat.o")).unwrap();
    let (small, said) = recompress(&["--keep", "gfx906"], &fat);
    assert!(small.len() < fat.len(), "{said}");
    let kept: Vec<_> = held(&fat).into_iter().filter(|(id, _)| id != GFX90A).collect();
    assert!(held(&small) == kept, "{said}");
}

/// The bytes of a bundle that a second segment loads too would change there.
#[test]
fn bundles_of_which_two_segments_load_bytes_are_refused() {
    let dir = memory_directory();
    let bundle = formats::binary(&[(HOST, &b""[..]), (GFX906, &[7; 90_000])], 4096);
    fs::write(dir.path().join("bundle"), bundle).unwrap();
    let source =
        "__asm__(\".section .hip_fatbin,\\\"a\\\"\\n.p2align 12\\n.incbin \\\"bundle\\\"\\n.text\"); int x = 1;";
    fs::write(dir.path().join("a.c"), source).unwrap();
    must(Command::new("cc").args(["-shared", "-fPIC", "a.c", "-o", "a.so"]).current_dir(dir.path()));
    let mut data = fs::read(dir.path().join("a.so")).unwrap();
    assert!(recompress(&["--close-gaps"], &data).1.contains(" shorter"));
    let number = |data: &[u8], at: usize| u64::from_le_bytes(data[at..at + 8].try_into().unwrap());
    let loads: Vec<usize> = (0..usize::from(data[56])).map(|index| 64 + 56 * index).collect();
    let loads: Vec<usize> = loads.into_iter().filter(|at| data[*at..at + 4] == [1, 0, 0, 0]).collect();
    let bundle = u64::try_from(find(&data, b"__CLANG_OFFLOAD_BUNDLE__")).unwrap();
    let last = *loads.last().unwrap();
    let shift = number(&data, last + 16) - number(&data, last + 8);
    // The last segment begins in the bundle, and ends where it did.
    let (start, end) = (bundle + 0x2000, number(&data, last + 8) + number(&data, last + 32));
    for (at, value) in [(8, start), (16, start + shift), (32, end - start), (40, end - start)] {
        data[last + at..last + at + 8].copy_from_slice(&value.to_le_bytes());
    }
    let outcome = tool(&["recompress", "in", "-o", "out"], &[("in", &data)]);
    let said = outcome.stderr_text();
    assert!(outcome.status == 1 && said.contains("two segments load bytes of them"), "{said}");
}

#[test]
fn programs_run_as_before() {
    let test = "recompressed programs";
    let (Some(readobj), Some(objcopy)) = (llvm(test, "llvm-readobj"), llvm(test, "llvm-objcopy")) else { return };
    for (driver, more) in against_llvm::DRIVERS {
        let dir = memory_directory();
        let at = |name: &str| dir.path().join(name);
        if against_llvm::build(test, dir.path(), driver, more).is_none() {
            return;
        }
        for name in ["program", "libkernel.so"] {
            let small = format!("small-{name}");
            let shorter = format!("shorter-{name}");
            for (out, options) in [(&small, &[][..]), (&shorter, &["--close-gaps"])] {
                let args = [&["recompress", name, "-o", out], options].concat();
                let (status, out, said) = text(&tool_in(dir.path(), &args));
                assert_eq!((status, out.as_str()), (0, ""), "{driver} {more:?} {name}: {said}");
            }
            let (data, changed) = (fs::read(at(name)).unwrap(), fs::read(at(&small)).unwrap());
            assert_eq!(data.len(), changed.len());
            assert!(held(&changed) == held(&data), "{driver} {more:?} {name}");
            let headers = |file: &str| must(Command::new(&readobj).args(["-hlS", file]).current_dir(dir.path())).stdout;
            let unnamed = |text: Vec<u8>| String::from_utf8(text).unwrap().replace("small-", "");
            assert_eq!(unnamed(headers(name)), unnamed(headers(&small)), "{driver} {more:?} {name}");
            // Everything except the section is unchanged.
            must(
                Command::new(&objcopy)
                    .args(["--dump-section=.hip_fatbin=section", name, "copy"])
                    .current_dir(dir.path()),
            );
            let section = fs::read(at("section")).unwrap();
            let start = find(&data, &section);
            let differs = |at: usize| data[at] != changed[at];
            assert!((0..start).chain(start + section.len()..data.len()).all(|at| !differs(at)), "{name}");
            if more.is_empty() {
                assert!(changed[start..].starts_with(b"CCOB"), "{driver} {name}");
                let back = format!("back-{name}");
                assert_eq!(text(&tool_in(dir.path(), &["recompress", "--none", &small, "-o", &back])).0, 0);
                assert!(fs::read(at(&back)).unwrap() == data, "{driver} {name}");
            }
            let mode = |name: &str| fs::metadata(at(name)).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(name), mode(&small), "{driver} {name}");
        }
        for name in ["program", "small-program", "shorter-program"] {
            assert_eq!(must(&mut Command::new(at(name))).stdout, b"hello\n", "{driver} {more:?} {name}");
        }
        // In place, which keeps the permissions of the file.
        fs::set_permissions(at("program"), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(text(&tool_in(dir.path(), &["recompress", "program", "-o", "program", "--keep=gfx906"])).0, 0);
        assert_eq!(must(&mut Command::new(at("program"))).stdout, b"hello\n");
        assert_eq!(fs::metadata(at("program")).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(ids(&fs::read(at("program")).unwrap()).iter().all(|id| !id.contains("gfx90a")));
    }
}

#[test]
fn librocrand_becomes_smaller_and_comes_back() {
    let test = "librocrand, recompressed";
    let Some(library) = librocrand(test) else { return };
    let dir = memory_directory();
    let run = |args: &[&str]| {
        let (status, _, said) = text(&tool_in(dir.path(), args));
        assert_eq!(status, 0, "{said}");
        said
    };
    let mut said = String::new();
    for options in [&["--close-gaps"][..], &[]] {
        said = run(&[&["recompress", "--level=1", library.to_str().unwrap(), "-o", "small.so"], options].concat());
        run(&["verify", "small.so"]);
        run(&["recompress", "--none", "small.so", "-o", "back.so"]);
        assert!(fs::read(dir.path().join("back.so")).unwrap() == fs::read(&library).unwrap(), "other bytes");
    }
    let blocks = |path: &Path| fs::metadata(path).unwrap().blocks() * 512;
    loud(&format!(
        "{test}: {} bytes on disk, {} before: {}",
        blocks(&dir.path().join("small.so")),
        blocks(&library),
        said.trim()
    ));
}

#[test]
fn to_the_standard_output_and_onto_itself() {
    let data = large();
    let (expected, _) = recompress(&[], &data);
    let outcome = tool(&["recompress", "in", "-o", "-"], &[("in", &data)]);
    assert_eq!((outcome.status, outcome.files.len()), (0, 1));
    assert!(outcome.stdout == expected);
    let outcome = tool(&["recompress", "in", "-o", "in"], &[("in", &data)]);
    assert_eq!(outcome.status, 0);
    assert!(outcome.files["in"] == expected);
    let (library, _) = library();
    let outcome = tool(&["recompress", "in", "-o", "-"], &[("in", &library)]);
    let (expected, _) = recompress(&[], &library);
    assert!(outcome.stdout == expected);
    let outcome = harness::run(Path::new(PROGRAM), &Case::new(&["recompress", "-", "-o", "out"]).stdin(data));
    assert_eq!((outcome.status, outcome.files.len()), (0, 1), "{}", outcome.stderr_text());
}

#[test]
fn a_program_from_the_standard_input_stays_executable() {
    let dir = memory_directory();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("in"), library().0).unwrap();
    for (mode, name_is_executable) in [(0o755, false), (0o644, true)] {
        fs::set_permissions(path("in"), fs::Permissions::from_mode(mode)).unwrap();
        // A file named `-` is not used instead of standard input.
        fs::write(path("-"), b"").unwrap();
        let other = if name_is_executable { 0o755 } else { 0o644 };
        fs::set_permissions(path("-"), fs::Permissions::from_mode(other)).unwrap();
        let mut command = std::process::Command::new(PROGRAM);
        command.current_dir(dir.path()).args(["recompress", "-", "-o", "out"]);
        assert!(command.stdin(fs::File::open(path("in")).unwrap()).status().unwrap().success());
        assert_eq!(path("out").metadata().unwrap().mode() & 0o100, mode & 0o100, "{mode:o}");
        fs::remove_file(path("out")).unwrap();
    }
}

#[test]
fn a_failure_leaves_the_output_as_it_was() {
    let data = large();
    let broken = [&data[..], formats::MAGIC, &[0xff; 30]].concat();
    let elf = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &broken)]);
    let mut hash = formats::compressed(2, 1, &data);
    hash[16] ^= 1;
    for (name, input) in [("broken", &broken), ("elf", &elf), ("hash", &hash)] {
        let outcome = tool(&["recompress", "in", "-o", "out"], &[("in", input), ("out", b"old")]);
        assert_eq!((outcome.status, outcome.files.len()), (1, 2), "{name}");
        assert_eq!(outcome.files["out"], b"old", "{name}");
    }
    for (args, status) in [
        (&["in", "-o", "no/where"][..], 1),
        (&["nowhere", "-o", "out"], 1),
        (&["in", "-o", "/dev/full"], 1),
        (&["in", "-o", "out", "--level=99"], 2),
        (&["in", "-o", "out", "--level", "-200000"], 2),
        (&["in", "-o", "out", "--none", "--level=3"], 2),
        (&["in"], 2),
        (&["in", "in", "-o", "out"], 2),
    ] {
        let outcome = tool(&[&["recompress"], args].concat(), &[("in", &data)]);
        assert_eq!((outcome.status, outcome.files.len()), (status, 1), "{args:?}: {}", outcome.stderr_text());
        // An error about an option names the option as typed.
        let option = args.iter().rfind(|arg| arg.starts_with("--")).and_then(|arg| arg.split('=').next());
        assert!(!outcome.stderr.is_empty() && outcome.stderr_text().contains(option.unwrap_or_default()), "{args:?}");
    }
    let in_shell = |line: &str| Case::new(&["-c", line]).env("TOOL", PROGRAM).file("in", data.clone());
    let full = in_shell("\"$TOOL\" recompress in -o - > /dev/full");
    let outcome = harness::run(Path::new("/bin/sh"), &full);
    assert_eq!(outcome.status, 1, "{}", outcome.stderr_text());
    // No space for the file: the process has a limit on file sizes.
    let limited = in_shell("ulimit -f 8; trap '' XFSZ; \"$TOOL\" recompress in -o out --none --drop=gfx906");
    let outcome = harness::run(Path::new("/bin/sh"), &limited.file("out", &b"old"[..]));
    assert_eq!((outcome.status, outcome.files.len()), (1, 2), "{}", outcome.stderr_text());
    assert_eq!(outcome.files["out"], b"old");
}

#[test]
fn code_of_dropped_gpus_that_is_left_is_counted_with_its_vendor() {
    let gfx906 = Elf::amdgpu(0x2f).write(&[Section::new(".text", b"instructions")]);
    let gfx90a = Elf::amdgpu(0x3f).write(&[Section::new(".text", b"instructions")]);
    let both = [&b"text\0\0\0\0"[..], &gfx906, &gfx90a].concat();
    let library = Elf::LIBRARY.write(&[Section::new(".rodata", &both), Section::new(".hip_fatbin", &large())]);
    let size = gfx906.len();
    let one = format!(
        "note: the file still has 1 code object of {size} B for targets that were left out: recompress does not change AMD's \
         code objects outside bundles\n"
    );
    let wheel = zip(&[
        Zipped::new("a.so", DEFLATED, &library),
        Zipped::new("b.co", DEFLATED, &gfx906),
        Zipped::new("c.co", DEFLATED, &gfx90a),
    ]);
    let in_wheel = format!("note: the file still has 2 code objects of {} B for targets that were", 2 * size);
    for (data, args, note) in [
        (&library, &["--drop", "gfx906"][..], Some(&one)),
        (&library, &["--keep", "gfx90a"], Some(&one)),
        (&library, &["--keep-for", "gfx90a"], Some(&one)),
        (&library, &["--keep", "gfx906,gfx90a"], None),
        (&library, &[], None),
        (&wheel, &["--drop", "gfx906"], Some(&in_wheel)),
    ] {
        let (_, said) = recompress(args, data);
        match note {
            Some(note) => assert!(said.contains(note), "{args:?}: {said}"),
            None => assert!(!said.contains("still has"), "{args:?}: {said}"),
        }
    }
    // A target that is only in unchanged parts is not a typing error.
    let gfx1100 = Elf::amdgpu(0x41).write(&[Section::new(".text", b"instructions")]);
    let other = Elf::LIBRARY.write(&[
        Section::new(".rodata", &[&b"text\0\0\0\0"[..], &gfx906, &gfx1100].concat()),
        Section::new(".hip_fatbin", &large()),
    ]);
    let elsewhere = "the code for 'gfx1100' is in parts that recompress does not change: in(.rodata)\n";
    for (args, error) in [
        (&["--drop", "gfx1100"][..], elsewhere),
        (&["--keep", "gfx906,gfx1100"], elsewhere),
        (&["--keep", "gfx90a", "--drop", "gfx1100"], elsewhere),
        (&["--keep", "gfx1100,gfx1101"], "no code object matches 'gfx1101' in 'in'; it has: gfx906"),
    ] {
        let outcome = tool(&[&["recompress", "in", "-o", "out"], args].concat(), &[("in", &other)]);
        assert_eq!((outcome.status, outcome.files.len()), (1, 1), "{args:?}");
        assert!(outcome.stderr_text().contains(error), "{args:?}: {}", outcome.stderr_text());
    }
    // Code for a GPU that is kept may be there: it stays.
    let (_, said) = recompress(&["--keep-for", "gfx906,gfx1100"], &other);
    assert!(said.contains(&format!("note: {elsewhere}")), "{said}");
    let (_, said) = recompress(&["--keep-for", "gfx1100"], &other);
    assert!(said.contains(&format!("note: {elsewhere}")), "{said}");
}

#[test]
fn code_in_fatbins_inside_of_offload_binaries_stays_and_is_counted() {
    let gfx90a = Elf::amdgpu(0x3f).write(&[Section::new(".text", b"instructions")]);
    let fatbin = fatbins::fatbin(&[fatbins::entry(&fatbins::Code::cubin(90, 64))]);
    let images = [
        Image::new(4, 2, &[("triple", "nvptx64-nvidia-cuda"), ("arch", "sm_90")], &fatbin),
        Image::new(1, 4, &[("triple", "amdgcn-amd-amdhsa"), ("arch", "gfx90a")], &gfx90a),
        Image::new(1, 4, &[("triple", "amdgcn-amd-amdhsa"), ("arch", "gfx906")], &code(1)),
    ];
    let offload: Vec<u8> = images.iter().flat_map(|image| offload::write(2, std::slice::from_ref(image))).collect();
    let object = Elf::OBJECT.write(&[Section::new(".llvm.offloading", &offload).offloading()]);
    let (kept, said) = recompress(&["--keep-for", "gfx90a"], &object);
    assert!(said.contains("; 1 code object left out"), "{said}");
    let note = "targets that were left out: recompress does not change NVIDIA's fatbins outside .nv_fatbin\n";
    assert!(said.contains("note: the file still has 1 code object of ") && said.contains(note), "{said}");
    assert!(ids(&kept).iter().any(|id| id.ends_with("-sm_90")), "{:?}", ids(&kept));
    // Code for a GPU that is kept may be there too.
    let (_, said) = recompress(&["--keep-for", "gfx90a,sm_90"], &object);
    let note = "note: the code for 'sm_90' is in parts that recompress does not change: in(.llvm.offloading)(";
    assert!(said.contains(note) && !said.contains("still has"), "{said}");
}

#[test]
fn offload_binaries_that_stay_plain_are_counted() {
    let images = [Image::new(1, 4, &[("triple", "amdgcn-amd-amdhsa"), ("arch", "gfx906")], &code(1))];
    let offload = offload::write(1, &images);
    let object = Elf::OBJECT.write(&[Section::new(".llvm.offloading", &offload).offloading()]);
    let note = "note: 1 offload binary stays plain: recompress does not compress offload binaries\n";
    let (same, said) = recompress(&[], &object);
    assert!(same == object && said.contains(note), "{said}");
    let (same, said) = recompress(&["--none"], &object);
    assert!(same == object && !said.contains(note), "{said}");
}

#[test]
fn fat_objects_lose_code_and_keep_their_host() {
    let ids = ["host-x86_64-unknown-linux-gnu-", GFX906, GFX90A].map(|id| format!("__CLANG_OFFLOAD_BUNDLE__{id}"));
    let (first, second) = (code(1), code(2));
    let sections =
        [(".text", &b"host"[..]), (&ids[0], &[0]), (&ids[1], &first), (&ids[2], &second), (".data", b"more")];
    let elf: Vec<Section<'_>> = sections.iter().map(|(name, content)| Section::new(name, content)).collect();
    let other = Elf::OBJECT.write(&[Section::new(".text", b"another")]);
    for fat in [Elf::OBJECT.write(&elf), coff(&sections)] {
        let host = held(&fat);
        for (data, fats) in [
            (fat.clone(), 1),
            (archive(&[("a.o", &fat), ("b.o", &other), ("c.o", &fat)]), 2),
            (zip(&[Zipped::new("a.o", DEFLATED, &fat), Zipped::new("b.o", DEFLATED, &other)]), 1),
        ] {
            let (small, said) = recompress(&["--drop", "gfx906"], &data);
            let kept: Vec<_> = host.iter().filter(|(id, _)| id != GFX906).cloned().collect();
            assert!(held(&small) == vec![kept; fats].concat() && small.len() < data.len(), "{said}");
            assert!(
                said.contains(if fats == 1 { "1 code object left out" } else { "2 code objects left out" }),
                "{said}"
            );
            assert!(recompress(&["--keep", "gfx906,gfx90a"], &data).0 == data);
            let outcome = tool(&["recompress", "in", "-o", "out"], &[("in", &data)]);
            assert!(outcome.status == 1 && outcome.files.len() == 1, "{}", outcome.stderr_text());
        }
    }
}

#[test]
fn fat_objects_that_would_not_be_any_more_are_named() {
    let ids = ["host-x86_64-unknown-linux-gnu-", GFX906].map(|id| format!("__CLANG_OFFLOAD_BUNDLE__{id}"));
    let code = code(1);
    let fat = |host: &[u8]| {
        Elf::OBJECT.write(&[Section::new(".text", b"host"), Section::new(&ids[0], host), Section::new(&ids[1], &code)])
    };
    let (one, merged) = (fat(&[0]), fat(&[0, 0]));
    for (data, pattern, error) in [
        (&one, "*", "no device code would be left"),
        (&one, "host*", "a fat object cannot lose its host code"),
        (&one, "gfx906", "no device code would be left"),
        (&merged, "*", "no device code would be left"),
        (&merged, "gfx906", "cannot remove code: a linker has merged several fat objects"),
    ] {
        for (data, file) in [(data.clone(), "in"), (archive(&[("a.o", data)]), "in(a.o)")] {
            let outcome = tool(&["recompress", "in", "-o", "out", "--drop", pattern], &[("in", &data)]);
            let said = outcome.stderr_text();
            assert_eq!((outcome.status, outcome.files.len()), (1, 1), "{said}");
            let named = [file, "in"].iter().any(|file| said.contains(&format!(" error: '{file}': {error}")));
            assert!(named, "{pattern}: {said}");
        }
    }
}
