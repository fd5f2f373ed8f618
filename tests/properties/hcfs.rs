//! Writes HCF data from the description of its format, independent of the library.

/// The markers of releases of AdaptiveCpp, the latest first.
pub const MARKERS: [&str; 2] = ["__acpp_hcf_binary_appendix", "__hipsycl_hcf_binary_appendix"];

/// HCF data with these images, as AdaptiveCpp writes them, each with a kernel that refers to it.
pub fn write(marker: &str, images: &[Vec<u8>]) -> Vec<u8> {
    let mut text = String::from("object-id = 1234\ngenerator = hipSYCL SSCP\n{.images\n");
    let mut start = 0;
    for (number, image) in images.iter().enumerate() {
        let size = image.len();
        text += &format!("{{.llvm-ir.{number}\nvariant = global-module\nformat = llvm-ir\n");
        text += &format!("  {{.__binary\n    start = {start}\n\t size={size} \n  }}.__binary\n}}.llvm-ir.{number}\n");
        start += size;
    }
    text += "}.images\n{.kernels\n";
    for number in 0..images.len() {
        text += &format!("{{._Z6kernelPf{number}\nimage-providers = llvm-ir.{number}\n}}._Z6kernelPf{number}\n\n");
    }
    text += &format!("}}.kernels\n{marker}");
    [text.into_bytes(), images.concat()].concat()
}
