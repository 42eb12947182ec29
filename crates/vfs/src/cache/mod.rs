//! Pages of a database in memory: one pool for all connections, a pin cache and a fast path for each.
//!
//! | file | holds |
//! |---|---|
//! | `pool` | the pages in memory: what a reader that starts now would see |
//! | `pin_cache` | pages that stay pinned for the connections |
//! | `connection_cache` | what one connection has of them: its fast path |
//! | `cpu_prefetch` | lines of a page that the processor is told of |

pub(crate) mod connection_cache;
pub(crate) mod cpu_prefetch;
pub(crate) mod pin_cache;
pub mod pool;
