//! Subcommands that judge device code, such as `verify` and `kernels --fail-on`, fail if they had nothing to judge. So
//! a wrong path never passes for sound code.

use std::path::PathBuf;

pub(super) use crate::beyond::job::Judged;

use super::files::SearchOptions;
use super::print::problem::Problem;

/// The options of a subcommand that judges: where it searches, and whether it may have nothing to judge.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judgement {
    /// Whether the command line names a directory, and its subdirectories are not searched.
    skips_subdirectories: bool,
    /// Whether `--deep` searches all bytes of each file.
    is_deep: bool,
    /// Whether the subcommand succeeds although it had nothing to judge.
    allows_none: bool,
}

impl Judgement {
    /// Returns the options for a search in the `named` files and directories.
    pub(super) fn new<'p>(
        search: &SearchOptions,
        mut named: impl Iterator<Item = &'p PathBuf>,
        allows_none: bool,
    ) -> Self {
        let skips_subdirectories = !search.recursive && named.any(|path| path.is_dir());
        Self { skips_subdirectories, is_deep: search.deep, allows_none }
    }

    /// Adds `error` to the problems, with a hint, if nothing was judged. Adds nothing with `--allow-none`, or if there
    /// are problems already: they say why nothing was judged.
    pub(super) fn add_error_if_not_judged(
        self,
        judged: Judged,
        error: impl FnOnce() -> String,
        problems: &mut Vec<Problem>,
    ) {
        if judged != Judged::Something && !self.allows_none && problems.is_empty() {
            problems.push(Problem::from(error()).with_hint(self.hint(judged)));
        }
    }

    /// Returns the hint: the options that may help.
    fn hint(self, judged: Judged) -> String {
        let mut ways = Vec::new();
        if judged == Judged::Elsewhere {
            ways.push("the device code is in kpack archives: name them too, or a directory that holds all with -r");
        }
        // `Unrecorded` means that code was found, but without the numbers that the conditions need. A wider search would
        // not help.
        if self.skips_subdirectories && judged != Judged::Unrecorded {
            ways.push("-r also searches subdirectories");
        }
        if !self.is_deep && judged == Judged::Nothing {
            ways.push("--deep searches all bytes");
        }
        if judged == Judged::Unrecorded {
            ways.push("--allow-none accepts code without these numbers");
        } else {
            ways.push("--allow-none accepts files without device code");
        }
        ways.join("; ")
    }
}
