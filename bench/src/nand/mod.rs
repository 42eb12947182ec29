//! NAND flash without a wear-levelling card around it, and PRAM beside it: what P-SQLITE was measured on.
//!
//! | file | holds |
//! |---|---|
//! | `ftl` | the flash: pages, blocks, garbage collection |
//! | `cache` | what the page cache holds of a file |
//! | `medium` | files on both devices, in memory |
//!
//! The devices of the engine's [`ModelledMedium`](litefoot_sim::ModelledMedium) are what a board sees of a
//! card or drive; here the flash itself is seen. Nothing is random, and nothing depends on the machine.
//!
//! # The model
//! - NAND: pages of 2 KiB, blocks of 128 KiB; 100 us to read a page, 800 us to write one, 1.5 ms to erase a block
//!   (P-SQLITE, table II). A page-mapped translation layer with 7 % of spare blocks; garbage is collected while fewer
//!   than two blocks are free, from the block with the fewest valid pages, the lowest number of equals. What it copies
//!   goes to a block of its own, as cold data does on real devices; in the host's block it would make every erasure
//!   cost what the copies of cold data cost, whatever the host writes. It is *aged* before anything counts: 90 % of it
//!   is filled, and overwritten at random once, so that no block is free that was not collected.
//! - PRAM: 20 ns to read a byte, 100 ns to write one.
//! - The operating system's page cache: a write reaches NAND with the next sync of its file, each page once; a page is
//!   read at most once. PRAM is memory: a write reaches it at once, a read is one of the device.
//! - The file system: a sync writes the file's own page (length, places) if these have changed, and the sync of a
//!   directory the directory's page if a name has. On PRAM that is 128 bytes each (PFFS2 keeps them there).
//! - Removing or cutting a file trims its pages.

mod cache;
mod ftl;
mod medium;

pub use ftl::{Ftl, FtlCounts, Geometry};
pub use medium::{Costs, NandMedium, Placement};
