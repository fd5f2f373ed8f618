//! `recompress` on relocatable objects and static libraries that clang and LLVM's tools make, and linked programs of
//! them.

use std::fs;

use super::against_llvm::{RUNTIME, extracted};
use super::*;
use crate::machine::memory_directory;

/// A kernel that both source files define under another name, and a function of the host.
const SOURCE: &str = "
struct dim3 { unsigned x, y, z; };
typedef struct ihipStream_t *hipStream_t;
extern \"C\" int hipLaunchKernel(const void *, dim3, dim3, void **, unsigned long, hipStream_t);
__attribute__((global)) void NAME(int *data, int count) {
  for (int i = 0; i < count; ++i) data[i] += 3;
}
";

/// A program that keeps both.
const MAIN: &str = "
extern void *_Z3onePii, *_Z3twoPii;
int puts(const char *);
void **volatile kernels[] = {&_Z3onePii, &_Z3twoPii};
int main() { return !kernels[0] || !kernels[1] || puts(\"hello\") < 0; }
";

/// A directory with the programs that it needs.
struct Built {
    dir: tempfile::TempDir,
    bin: PathBuf,
}

impl Built {
    /// Objects by one of the drivers, combined and in archives.
    fn new(test: &str, driver: &str) -> Option<Self> {
        let bin = machine::llvm(test, &["clang", "ld.lld", "llvm-ar", "llvm-readelf", "llvm-nm"])?;
        let built = Self { dir: memory_directory(), bin };
        for (name, text) in
            [("source.hip", SOURCE), ("runtime.c", RUNTIME), ("main.c", MAIN), ("other.c", "int other;")]
        {
            fs::write(built.at(name), text).unwrap();
        }
        for name in ["one", "two"] {
            let options = [driver, "-nogpulib", "-nogpuinc", "-fPIC", "-O1", "--offload-arch=gfx906,gfx90a"];
            let own = [&format!("-DNAME={name}"), &format!("-cuid={name}"), "-c", "-o", &format!("{name}.o")];
            built.run("clang", &[&["-x", "hip", "source.hip"][..], &options, &own].concat());
        }
        Some(built)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, program: &str, args: &[&str]) -> String {
        let output = must(Command::new(self.bin.join(program)).args(args).current_dir(self.dir.path()));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Recompresses a file. Returns its messages.
    fn recompress(&self, from: &str, to: &str, args: &[&str]) -> String {
        let (status, _, said) = text(&tool_in(self.dir.path(), &[&["recompress", from, "-o", to], args].concat()));
        assert_eq!(status, 0, "{from} {args:?}: {said}");
        said
    }

    /// Links a program of these files, and runs it. Returns its code for the GPU that is kept.
    fn program(&self, files: &[&str]) -> Vec<Vec<u8>> {
        let more = ["main.c", "runtime.c", "-fuse-ld=lld", "-w", "-o", "program"];
        self.run("clang", &[files, &more].concat());
        assert_eq!(must(&mut Command::new(self.at("program"))).stdout, b"hello\n");
        let (status, _, said) = text(&tool_in(self.dir.path(), &["verify", "program"]));
        assert_eq!((status, said.as_str()), (0, ""));
        extracted(&self.at("program"), &["--target=gfx906"])
    }
}

/// The lines of a text without those with these words, which tell of offsets.
fn without(text: &str, words: &[&str]) -> Vec<String> {
    text.lines().filter(|line| !words.iter().any(|word| line.contains(word))).map(str::to_owned).collect()
}

#[test]
fn linkers_make_the_same_of_smaller_objects_and_libraries() {
    let test = "objects and static libraries after recompress";
    for driver in ["--no-offload-new-driver", "--offload-new-driver"] {
        let Some(built) = Built::new(test, driver) else { return };
        built.run("ld.lld", &["-r", "one.o", "two.o", "-o", "both.o"]);
        built.run("clang", &["-c", "other.c", "-o", "other.o"]);
        for format in ["gnu", "bsd"] {
            let (option, library) = (format!("--format={format}"), format!("{format}.a"));
            built.run("llvm-ar", &[&option, "rcsU", &library, "one.o", "other.o", "two.o"]);
        }
        let expected = built.program(&["one.o", "two.o"]);
        assert_eq!(expected.len(), 2, "{driver}");
        for (name, files) in [("one.o", &["two.o"][..]), ("both.o", &[]), ("gnu.a", &[]), ("bsd.a", &[])] {
            let (small, one, back) = (format!("small-{name}"), format!("one-{name}"), format!("back-{name}"));
            let said = built.recompress(name, &small, &[]);
            assert!(said.contains("; the file is ") && said.contains(" shorter"), "{said}");
            let len = |name: &str| fs::metadata(built.at(name)).unwrap().len();
            assert!(2 * len(&small) < len(name), "{name}: {} bytes, {} before", len(&small), len(name));
            built.recompress(&small, &back, &["--none"]);
            assert!(
                fs::read(built.at(&back)).unwrap() == fs::read(built.at(name)).unwrap(),
                "{name} does not come back"
            );
            built.recompress(name, &one, &["--keep=gfx906"]);
            for new in [&small, &one] {
                assert!(built.program(&[&[new.as_str()][..], files].concat()) == expected, "{new}");
                let symbols = |name: &str| without(&built.run("llvm-readelf", &["-sW", name]), &["File:", "offset"]);
                assert_eq!(symbols(new), symbols(name), "{driver}: {name}, {new}");
            }
        }
    }
}

/// Stubs for more functions of HIP's runtime, which clang's linker wrapper calls.
const MORE: &str =
    "void __hipRegisterManagedVar() {}\nvoid __hipRegisterSurface() {}\nvoid __hipRegisterTexture() {}\n";

#[test]
fn the_linker_wrapper_takes_what_is_kept_of_offload_binaries() {
    let Some(built) = Built::new("offload binaries after recompress", "--offload-new-driver") else { return };
    fs::write(built.at("more.c"), MORE).unwrap();
    let options = ["-nogpulib", "-nogpuinc", "-fPIC", "-O1", "--offload-arch=gfx906,gfx90a", "-fgpu-rdc", "-DNAME=one"];
    let hip = [&["-x", "hip", "source.hip", "--offload-new-driver"][..], &options, &["-cuid=x", "-c", "-o", "rdc.o"]];
    built.run("clang", &hip.concat());
    built.run("clang", &["-c", "runtime.c", "-o", "runtime.o"]);
    built.run("clang", &["-c", "more.c", "-o", "more.o"]);
    built.run("llvm-ar", &["rcs", "rdc.a", "rdc.o"]);
    let link = |name: &str| {
        let more = ["more.o", "runtime.o", "-shared", "-nogpulib", "-fuse-ld=lld", "-o", "library"];
        built.run(
            "clang",
            &[&["--offload-link", "-Wl,--whole-archive", name, "-Wl,--no-whole-archive"][..], &more].concat(),
        );
        extracted(&built.at("library"), &["--target=gfx906"])
    };
    let expected = link("rdc.o");
    assert_eq!(expected.len(), 1);
    for name in ["rdc.o", "rdc.a"] {
        let said = built.recompress(name, "small", &["--keep=gfx906"]);
        assert!(said.contains("1 code object left out; the file is "), "{said}");
        let (_, listed, _) = text(&tool_in(built.dir.path(), &["inspect", "small"]));
        assert!(listed.contains("gfx906") && !listed.contains("gfx90a"), "{listed}");
        fs::rename(built.at("small"), built.at(&format!("small-{name}"))).unwrap();
        assert!(link(&format!("small-{name}")) == expected, "{name}");
    }
}

/// LLVM's bundler finds the kept code in objects of HIP's old driver with code to be linked, for Linux and Windows.
#[test]
fn fat_objects_are_linked_as_before() {
    let test = "fat objects after recompress";
    let Some(built) = Built::new(test, "--no-offload-new-driver") else { return };
    let Some(bundler) = llvm(test, "clang-offload-bundler") else { return };
    let windows = SOURCE.replace("unsigned long,", "unsigned long long,");
    fs::write(built.at("windows.hip"), windows).unwrap();
    let options = ["-nogpulib", "-nogpuinc", "-O1", "-fgpu-rdc", "-DNAME=one", "--no-offload-new-driver"];
    let gpus = ["--offload-arch=gfx906,gfx90a", "-cuid=x", "-c", "-o"];
    built.run("clang", &[&["-x", "hip", "-fPIC", "source.hip"][..], &options, &gpus, &["rdc.o"]].concat());
    let target = "--target=x86_64-pc-windows-msvc";
    built.run("clang", &[&["-x", "hip", target, "windows.hip"][..], &options, &gpus, &["rdc.obj"]].concat());
    for (name, host) in [("rdc.o", "host-x86_64-pc-linux-gnu-"), ("rdc.obj", "host-x86_64-pc-windows-msvc-")] {
        let small = format!("small-{name}");
        let said = built.recompress(name, &small, &["--keep=gfx906"]);
        assert!(said.contains("1 code object left out; the file is "), "{said}");
        let unbundled = |input: &str| {
            let targets = format!("-targets={host},hip-amdgcn-amd-amdhsa--gfx906");
            let args = ["-unbundle", "-type=o", &targets, &format!("-input={input}"), "-output=host", "-output=gpu"];
            must(Command::new(&bundler).args(args).current_dir(built.dir.path()));
            ["host", "gpu"].map(|file| fs::read(built.at(file)).unwrap())
        };
        assert!(unbundled(&small) == unbundled(name), "{name}");
    }
    built.run("clang", &["-c", "-fPIC", "runtime.c", "-o", "runtime.o"]);
    for name in ["rdc.o", "small-rdc.o"] {
        built.run("llvm-ar", &["rcs", &format!("{name}.a"), name]);
    }
    let link = |name: &str| {
        let how =
            ["--hip-link", "-fgpu-rdc", "--no-offload-new-driver", "--offload-arch=gfx906", "-nogpulib", "-shared"];
        let more = ["-fuse-ld=lld", "-nostdlib", "runtime.o", "-o", "library"];
        built.run("clang", &[&how[..], &["-Wl,--whole-archive", name, "-Wl,--no-whole-archive"], &more].concat());
        extracted(&built.at("library"), &["--target=gfx906"])
    };
    for suffix in ["", ".a"] {
        let expected = link(&format!("rdc.o{suffix}"));
        assert_eq!(expected.len(), 1, "{suffix}");
        assert!(link(&format!("small-rdc.o{suffix}")) == expected, "{suffix}");
    }
}

#[test]
fn members_and_the_index_of_a_library_stay() {
    let Some(built) = Built::new("the index of a smaller library", "--no-offload-new-driver") else { return };
    built.run("clang", &["-c", "main.c", "-o", "an object with a long name.o"]);
    for format in ["gnu", "bsd", "darwin", "coff"] {
        let (option, library) = (format!("--format={format}"), format!("{format}.a"));
        built.run("llvm-ar", &[&option, "rcsU", &library, "one.o", "an object with a long name.o", "two.o", "main.c"]);
        built.recompress(&library, "small.a", &["--keep=gfx906"]);
        let described = |name: &str| {
            let members = built.run("llvm-ar", &["tv", name]);
            let sizes =
                members.lines().map(|line| line.split_whitespace().enumerate().filter(|(column, _)| *column != 2));
            let members: Vec<Vec<String>> = sizes.map(|line| line.map(|(_, word)| word.to_owned()).collect()).collect();
            let index = built.run("llvm-nm", &["--print-armap", name]);
            (members, index.split("\n\n").next().unwrap().to_owned())
        };
        let (members, index) = described("small.a");
        assert!(members.len() == 4 && index.contains("main in an object with a long name.o"), "{format}: {index}");
        assert_eq!((members, index), described(&library), "{format}");
        let other = |name: &str| {
            let args = ["p", name, "an object with a long name.o", "main.c"];
            must(Command::new(built.bin.join("llvm-ar")).args(args).current_dir(built.dir.path())).stdout
        };
        assert!(other("small.a") == other(&library), "{format}");
        built.run("clang", &["small.a", "runtime.c", "-fuse-ld=lld", "-w", "-o", "program"]);
    }
}
