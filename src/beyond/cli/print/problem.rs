//! Problems in reports.

use serde::{Serialize, Serializer};

use crate::beyond::serialized::Failure;
pub(crate) use crate::llvm::cli::print::problem::Problem;

impl From<&Failure> for Problem {
    fn from(failure: &Failure) -> Self {
        failure.to_string().into()
    }
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}
