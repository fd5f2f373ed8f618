//! `verify` names the functions that `ptxas` cannot resolve, whatever PTX declares, defines and calls.

use std::process::Command;

use offload_bundle::io::Input;
use offload_bundle::job::Verify;

use super::tools::Tools;
use crate::machine::memory_directory;
use crate::reference::harness::Random;

/// Functions, of which some are provided by the driver.
const NAMES: [&str; 10] = [
    "f0",
    "_Z2f1v",
    "$f2",
    "printf",
    "vprintf",
    "malloc",
    "free",
    "__assertfail",
    "__cuda_syscall_cp_async",
    "cnpGetLastError",
];

/// The functions of the device runtime, which `ptxas` does not know: `nvcc` links a library with them.
const DEVICE_RUNTIME: &str = "cudaGetParameterBufferV2";

const PARAMETERS: &str = "(.param .b64 a, .param .b64 b)";

/// PTX with functions that are declared, defined and called at random.
fn module(random: &mut Random) -> String {
    let (mut ptx, mut calls) = (".version 8.7\n.target sm_90\n.address_size 64\n".to_owned(), String::new());
    for name in NAMES {
        let declared = format!(".extern .func (.param .b32 r) {name} {PARAMETERS};\n");
        let signature = format!(".func (.param .b32 r) {name} {PARAMETERS}");
        let is_of_system = name.starts_with("__") || ["vprintf", "malloc", "free", "cnpGetLastError"].contains(&name);
        ptx += &match random.below(if is_of_system { 2 } else { 5 }) {
            0 => continue,
            1 => declared,
            2 => format!(".visible {signature};\n.visible {signature} {{ st.param.b32 [r], 1; ret; }}\n"),
            3 => format!("{signature} {{ st.param.b32 [r], 1; ret; }} // {declared}"),
            _ => format!("/* {signature} {{ ret; }} */ {declared}"),
        };
        let call = random.pick(&[
            "call.uni (q), {}, (p0, p1);",
            "call (q),{},(p0,p1);",
            "call.uni /* ( */ (q), {} , (p0, p1);",
        ]);
        let call = call.replace("{}", name);
        calls += &match random.below(4) {
            0 => String::new(),
            1 => format!("// {call}\n"),
            _ => format!(
                "{{ .param .b64 p0; .param .b64 p1; .param .b32 q; st.param.b64 [p0], 0; st.param.b64 [p1], 0; {call} }}\n"
            ),
        };
    }
    ptx += &format!(".visible .entry k() {{\n{calls}ret;\n}}\n");
    ptx
}

#[test]
fn undefined_functions_are_those_that_ptxas_does_not_resolve() {
    let Some(tools) = Tools::find("undefined functions of PTX") else { return };
    let (mut random, dir) = (Random::new(53), memory_directory());
    let mut unresolved = 0;
    for _ in 0..60 {
        let ptx = module(&mut random);
        let verified = Verify::default().check(&Input::from_bytes("k.ptx", ptx.clone().into_bytes())).unwrap();
        let symbols: Vec<&String> = verified.undefined.iter().flat_map(|code| &code.symbols).collect();
        std::fs::write(dir.path().join("k.ptx"), &ptx).unwrap();
        let arguments = ["-arch=sm_90", "k.ptx", "-o", "k.cubin"];
        let output = Command::new(&tools.ptxas).args(arguments).current_dir(dir.path()).output().unwrap();
        let errors = [output.stdout, output.stderr].concat();
        let errors = String::from_utf8_lossy(&errors);
        let named: Vec<&str> =
            errors.split("Unresolved extern function '").skip(1).filter_map(|rest| rest.split('\'').next()).collect();
        assert_eq!(
            (symbols.is_empty(), named.is_empty()),
            (output.status.success(), output.status.success()),
            "{errors}{symbols:?}\n{ptx}"
        );
        assert!(named.iter().all(|name| symbols.iter().any(|symbol| symbol == name)), "{errors}{symbols:?}\n{ptx}");
        unresolved += usize::from(!named.is_empty());
    }
    assert!((10..60).contains(&unresolved), "{unresolved}");
    let ptx = format!(
        ".version 8.7\n.target sm_90\n.extern .func {DEVICE_RUNTIME} ();\n.entry k() {{ call {DEVICE_RUNTIME}; }}\n"
    );
    assert!(Verify::default().check(&Input::from_bytes("k.ptx", ptx.into_bytes())).unwrap().undefined.is_empty());
}
