use std::fs;
use std::time::Duration;

use demangle::Demangler;

/// The executable's own, which the library does not have.
#[path = "../../src/beyond/cli/kernels/demangle.rs"]
mod demangle;

/// The most processor time for a name, in any build. Hostile names took minutes, or hours, before they were limited.
const NAME_MAX: Duration = Duration::from_secs(5);

/// The most bytes of a shown name for each byte of the mangled one.
const GROWTH_MAX: usize = 64;

/// Names that any bytes may be are demangled, one for each line, in a time that is bounded for each, to a text that is
/// in proportion to it.
pub fn names(data: &[u8]) {
    let demangler = Demangler::default();
    for name in data.split(|&byte| byte == b'\n') {
        let started = processor_time();
        let shown = demangler.demangled(name);
        let took = processor_time().saturating_sub(started);
        assert!(took < NAME_MAX, "{took:?} for '{}'", name.escape_ascii());
        assert!(shown.is_none_or(|shown| shown.len() <= GROWTH_MAX * name.len()), "'{}'", name.escape_ascii());
    }
}

/// The processor time of this thread.
fn processor_time() -> Duration {
    let times = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(times.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok()).unwrap_or_default())
}
