//! What is in files, and questions about it.
//!
//! | module | |
//! |---|---|
//! | `request` | what is asked for |
//! | `pick` | which code objects a request takes, and what it has matched nothing of |
//! | `kernel_names`, `similar_names` | requests by names of kernels |

pub(crate) mod kernel_names;
pub(crate) mod pick;
pub(crate) mod request;
pub(crate) mod similar_names;
