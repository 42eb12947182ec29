//! The protocols of a group in every interleaving of a few threads, as far as the C11 memory model allows it.
//!
//! The functions are those of production, on words of the checker's. Each thread stands for a process, or for a thread of the owner.
//!
//! # Limits
//! The checker knows no order of sequentially consistent accesses, and takes each for an acquire or a release. It knows fences. So
//! there is a fence between a write and a read of one thread where both are sequentially consistent: by that order readers and an
//! exclusive holder see each other. Where one of the two is weaker, there is no fence, and the models fail.

mod epochs;
mod file_seats;
mod heirs;
mod left_behind;
mod promises;
mod queue;
mod seats;
mod words;
