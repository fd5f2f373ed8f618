//! SYCLBIN files of version 2: their parts are found in each form, and each fault is reported. Version 1 is only named.

use offload_bundle::container::offload_binary::Version;

use super::*;
use crate::machine::loud;
use crate::properties::images::{self, PVC};
use crate::properties::make::{DEFLATED, Elf, Section, Zipped, archive, zip};
use crate::properties::syclbins::{self, Part};
use crate::reference::offload::{self, Image};

const IDS: [&str; 4] = [
    "sycl-spir64-unknown-unknown-unknown-",
    "sycl-spir64_gen-unknown-unknown--pvc",
    "sycl-spir64-unknown-unknown-unknown-",
    "sycl-nvptx64-nvidia-cuda-unknown-sm_80",
];

/// Two abstract modules.
fn parts() -> Vec<Part> {
    vec![
        Part::new(0, "spir64-unknown-unknown", None, &images::spirv(5, 0)),
        Part::new(0, "spir64_gen-unknown-unknown", Some("pvc"), &images::zebin(PVC, b"code")),
        Part::new(1, "spir64-unknown-unknown", None, &images::spirv(7, 1)),
        Part::new(1, "nvptx64-nvidia-cuda", Some("sm_80"), b".version 8.7\n.target sm_80\n.address_size 64\n"),
    ]
}

/// The forms of a file.
fn forms() -> [(&'static str, Vec<u8>); 2] {
    let parts = parts();
    let entries = syclbins::entries(&parts);
    let image = |(strings, content): &syclbins::Entry| {
        let strings: Vec<(&str, &str)> = strings.iter().map(|(key, value)| (*key, value.as_str())).collect();
        Image::new(7, 8, &strings, content)
    };
    let compressed = offload::compressed(false, &entries.iter().map(image).collect::<Vec<_>>());
    [("plain", syclbins::version_2(&parts)), ("compressed", compressed)]
}

fn listed(data: &[u8]) -> Vec<(String, String, String)> {
    let outcome = tool(&["inspect", "--json", "in"], &[("in", data)]);
    let document = json_of(&outcome);
    let objects = document["files"][0]["code_objects"].as_array().unwrap();
    let text = |object: &Value, key: &str| object[key].as_str().unwrap_or_default().to_owned();
    objects
        .iter()
        .map(|object| (text(object, "container"), text(object, "entry_id"), text(object, "image_kind")))
        .collect()
}

#[test]
fn parts_are_found_in_each_form() {
    let parts = parts();
    for (form, data) in forms() {
        let kinds = ["SPIR-V", "ELF", "SPIR-V", "PTX"];
        let expected: Vec<_> = std::iter::zip(IDS, kinds)
            .map(|(id, kind)| ("SYCLBIN file".to_owned(), id.to_owned(), kind.to_owned()))
            .collect();
        let section = Elf::OBJECT.write(&[Section::new(".llvm.offloading", &data)]);
        for (place, file) in [
            ("the file", data.clone()),
            ("a section", section),
            ("an archive", archive(&[("a", &data)])),
            ("a zip file", zip(&[Zipped::new("a", DEFLATED, &data)])),
        ] {
            assert_eq!(listed(&file), expected, "{form} in {place}");
            let verified = tool(&["verify", "in"], &[("in", &file)]);
            assert_eq!(verified.status, 0, "{form} in {place}: {}", String::from_utf8_lossy(&verified.stdout));
            let outcome = tool(&["extract", "in", "-o", "out"], &[("in", &file)]);
            let mut found: Vec<&Vec<u8>> =
                outcome.files.iter().filter(|(name, _)| *name != "in").map(|(_, data)| data).collect();
            let mut codes: Vec<&Vec<u8>> = parts.iter().map(|part| &part.code).collect();
            found.sort();
            codes.sort();
            assert_eq!(found, codes, "{form} in {place}: {}", outcome.stderr_text());
        }
        for (target, part) in [("pvc", 1), ("sm_80", 3)] {
            let outcome = tool(&["extract", "in", "-t", target, "-o", "-"], &[("in", &data)]);
            assert_eq!((outcome.status, &outcome.stdout), (0, &parts[part].code), "{form}: {}", outcome.stderr_text());
        }
        // The last bytes may be padding, up to a multiple of 8.
        let truncated = &data[..data.len() - 8];
        assert_eq!(tool(&["verify", "in"], &[("in", truncated)]).status, 1, "{form}");
        let deep = [b"other data", &data[..]].concat();
        let outcome = tool(&["inspect", "--deep", "--json", "in"], &[("in", &deep)]);
        assert_eq!(json_of(&outcome)["files"][0]["code_objects"].as_array().unwrap().len(), 4, "{form}");
    }
}

#[test]
fn the_triple_of_a_part_that_records_none_is_that_of_its_content() {
    let parts: Vec<Part> = parts().into_iter().map(|part| Part { triple: String::new(), ..part }).collect();
    let ids: Vec<String> = listed(&syclbins::version_2(&parts)).into_iter().map(|(_, id, _)| id).collect();
    assert_eq!(ids, IDS);
}

#[test]
fn names_of_gpus_may_be_those_of_fsycl_targets() {
    for (triple, arch, name, code) in [
        ("spir64_gen-unknown-unknown", "intel_gpu_pvc", "pvc", images::zebin(PVC, b"code")),
        ("spir64_gen-unknown-unknown", "intel_gpu_bmg_g21", "bmg_g21", images::zebin(PVC, b"code")),
        ("amdgcn-amd-amdhsa", "amd_gpu_gfx90a", "gfx90a", Elf::amdgpu(0x3f).write(&[])),
        ("nvptx64-nvidia-cuda", "nvidia_gpu_sm_80", "sm_80", b".version 8.7\n.target sm_80\n".to_vec()),
    ] {
        let data = syclbins::version_2(&[Part::new(0, triple, Some(arch), &code)]);
        let outcome = tool(&["extract", "in", "--exact", "-t", name, "-o", "-"], &[("in", &data)]);
        assert_eq!((outcome.status, &outcome.stdout), (0, &code), "{arch}: {}", outcome.stderr_text());
        assert_eq!(faults(&data), [""; 0], "{arch}");
    }
    // Code for another GPU than the file says is a fault.
    let other = [Part::new(0, "amdgcn-amd-amdhsa", Some("gfx906"), &Elf::amdgpu(0x3f).write(&[]))];
    assert!(faults(&syclbins::version_2(&other))[0].contains("holds an ELF file for 'gfx90a'"));
}

/// The texts of the faults in a file.
fn faults(data: &[u8]) -> Vec<String> {
    let outcome = tool(&["verify", "--allow-none", "--json", "in"], &[("in", data)]);
    let document: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    schema::check("verify", &document);
    let faults = document["files"][0]["faults"].as_array().unwrap();
    faults.iter().map(|fault| fault["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn faults_are_reported_and_the_rest_is_found() {
    let entries = syclbins::entries(&parts());
    let string = |entry: usize, key: &'static str, value: &str| {
        let mut entries = entries.clone();
        let strings = &mut entries[entry].0;
        strings.retain(|(own, _)| *own != key);
        strings.push((key, value.to_owned()));
        syclbins::write(Version::V2, &entries)
    };
    let content = |entry: usize, content: &[u8]| {
        let mut entries = entries.clone();
        entries[entry].1 = content.to_vec();
        syclbins::write(Version::V2, &entries)
    };
    let without = |entry: usize| {
        let mut entries = entries.clone();
        entries.remove(entry);
        syclbins::write(Version::V2, &entries)
    };
    let mut twice = entries.clone();
    twice.push(entries[0].clone());
    twice.push(entries[1].clone());
    let mut mixed = syclbins::version_2(&parts());
    mixed[32 + 2 * 40] = 1;
    let spirv = |metadata: &str| {
        [&u64::try_from(metadata.len()).unwrap().to_le_bytes()[..], metadata.as_bytes(), b"code"].concat()
    };
    // The entries are: global metadata; metadata, IR, native image; the same again.
    let cases = [
        ("no global metadata", without(0), &["number of entries with global metadata"][..], 4),
        (
            "metadata twice",
            syclbins::write(Version::V2, &twice),
            &["a second entry", "number of entries with global"],
            4,
        ),
        ("no metadata of a module", without(1), &["no metadata of 0"], 4),
        ("another version", string(0, "sycl_format_version", "3"), &["SYCLBIN version '3'"], 4),
        ("an unknown role", string(2, "role", "\u{1b}[31m"), &["unknown role"], 3),
        ("no index", string(2, "am_index", ""), &["am_index ''"], 3),
        ("a large index", string(2, "am_index", "7"), &["am_index '7'"], 3),
        ("a huge index", string(2, "am_index", "99999999999999999999"), &["am_index '9999"], 3),
        ("a negative index", string(2, "am_index", "-1"), &["am_index '-1'"], 3),
        ("a module without metadata", string(2, "am_index", "3"), &["no metadata of 2"], 4),
        ("another kind", mixed, &["image kind"], 3),
        ("another triple", string(2, "triple", "spirv64"), &["the triple 'spirv64'"], 3),
        ("another architecture", string(3, "arch", "dg2"), &["the arch 'dg2'"], 3),
        ("no metadata size", content(2, b"1234567"), &["the size of the metadata"], 3),
        ("a huge metadata size", content(2, &[0xff; 16]), &["the metadata of a SYCLBIN entry"], 3),
        ("no set", content(2, &spirv("a=1|0\n")), &["a property outside of any set"], 3),
        ("no end of a name", content(2, &spirv("[set\n")), &["does not end"], 3),
        ("no property", content(2, &spirv("[set]\nkey\n")), &["not a property"], 3),
        ("no key", content(2, &spirv("[set]\n=1|0\n")), &["not a property"], 3),
        ("another type", content(2, &spirv("[set]\nkey=3|0\n")), &["not a property"], 3),
        ("no number", content(2, &spirv("[set]\nkey=1|x\n")), &["not a number"], 3),
        ("an empty number", content(2, &spirv("[set]\nkey=1|\n")), &["not a number"], 3),
        ("no base64", content(2, &spirv("[set]\nkey=2|AAAAAAAAAAA=\n")), &["not an array"], 3),
        ("a short array", content(2, &spirv("[set]\nkey=2|AAAA\n")), &["not an array"], 3),
        ("a cut array", content(2, &spirv("[set]\nkey=2|AAAAAAAAAAAAA\n")), &["not an array"], 3),
        (
            "a long triple",
            content(2, &spirv(&format!("[set]\ntarget=2|{}\n", syclbins::array(&[b'a'; 4097])))),
            &["too long"],
            3,
        ),
        ("metadata of the file", content(0, b"x"), &["outside of any set"], 4),
        ("metadata of a module", content(1, b"x"), &["outside of any set"], 4),
    ];
    for (name, data, expected, count) in &cases {
        let found = faults(data);
        let is_told = |text: &&str| found.iter().any(|fault| fault.contains(*text));
        assert!(found.len() == expected.len() && expected.iter().all(is_told), "{name}: {found:?}");
        assert!(found.iter().all(|fault| !fault.contains('\u{1b}')), "{name}: {found:?}");
        assert_eq!(listed(data).len(), *count, "{name}");
    }
    loud(&format!("SYCLBIN: {} faults", cases.len()));
    // No metadata at all, as the runtime writes them, are none.
    assert_eq!(faults(&content(1, b"")), [""; 0]);
}

#[test]
fn version_1_is_not_read_and_is_not_a_fault() {
    let mut file = b"IBYS\x01\0\0\0".to_vec();
    file.extend([0; 48]);
    let verified = tool(&["verify", "--allow-none", "in"], &[("in", &file)]);
    assert_eq!(verified.status, 0, "{}", verified.stderr_text());
    let text = String::from_utf8_lossy(&verified.stdout);
    assert!(text.contains("SYCLBIN file of version 1, not read"), "{text}");
    // Its image in an offload binary has no role.
    for version in [Version::V1, Version::V2] {
        let data = syclbins::write(version, &[(Vec::new(), file.clone())]);
        assert_eq!(faults(&data), [""; 0], "{version:?}");
        let found = listed(&data);
        let expected = [("offload binary".to_owned(), "sycl--".to_owned(), "unknown".to_owned())];
        assert_eq!(found, expected, "{version:?}");
    }
    // A text may begin like a file of version 1.
    assert_eq!(faults(b"IBYS is a text\n"), [""; 0]);
}

#[test]
fn code_objects_are_replaced_by_others_of_the_same_size() {
    let mut parts = parts();
    let data = syclbins::version_2(&parts);
    let uris = json_of(&tool(&["inspect", "--json", "in"], &[("in", &data)]));
    let uri = uris["files"][0]["code_objects"][0]["uri"].as_str().unwrap();
    let uri = format!("file://in#{}", uri.split_once('#').unwrap().1);
    parts[0].code = images::spirv(5, 9);
    let outcome = tool(&["replace", &uri, "new", "-o", "out"], &[("in", &data), ("new", &parts[0].code)]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr_text());
    assert!(outcome.files["out"] == syclbins::version_2(&parts));
    let outcome = tool(&["replace", &uri, "new", "-o", "out"], &[("in", &data), ("new", &images::spirv(6, 9))]);
    assert!(outcome.status == 1 && outcome.stderr_text().contains("SYCLBIN file"), "{}", outcome.stderr_text());
}
