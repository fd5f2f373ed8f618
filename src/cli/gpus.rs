//! Options with names of GPUs.

use std::io;

use anyhow::bail;
use offload_bundle::runtime::Device;

use super::suggest;

/// The longest file with names of GPUs, in bytes.
const LIST_MAX: u64 = 1 << 20;

/// The GPUs of an option.
#[derive(Clone, Debug)]
pub(super) struct Gpus(pub(super) Vec<Device>);

impl Gpus {
    /// The GPUs in a list, or in a file. In a file, `#` begins a comment.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let devices = match suggest::devices(text) {
            Ok(devices) => devices,
            Err(error) => match std::fs::metadata(text) {
                Ok(file) if file.is_file() && file.len() <= LIST_MAX => {
                    let content = std::fs::read_to_string(text)?;
                    let lines = content.trim_start_matches('\u{feff}').lines();
                    let names: Vec<&str> = lines.map(|line| line.split('#').next().unwrap_or_default()).collect();
                    suggest::devices(&names.join("\n")).map_err(anyhow::Error::msg)?
                }
                Ok(_) => bail!("it is not a file with a list of at most 1 MiB"),
                Err(_) if !text.contains(['.', '/']) => bail!("{error}"),
                Err(file) if file.kind() == io::ErrorKind::NotFound => bail!("there is no such file, and {error}"),
                Err(file) => bail!("{file}, and {error}"),
            },
        };
        if devices.is_empty() {
            bail!("it names no GPU");
        }
        Ok(Self(devices))
    }
}
