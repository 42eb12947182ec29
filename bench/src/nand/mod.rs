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
//! - NAND (P-SQLITE, table II): pages of 2 KiB, blocks of 128 KiB; 100 us to read a page, 800 us to write one, 1.5 ms
//!   to erase a block. A page-mapped translation layer has 7 % of spare blocks, and collects garbage while fewer than
//!   two blocks are free. It collects the block with the fewest valid pages; of equals, the one with the lowest number.
//!   Its copies go to a block of their own, as cold data does on real devices. In the host's block they would make
//!   every erasure cost as much as copying cold data. The layer is *aged* before anything counts: 90 % of it is filled,
//!   and overwritten at random once, so that every free block was collected.
//! - PRAM: 20 ns to read a byte, 100 ns to write one.
//! - The operating system's page cache: a write reaches NAND with the next sync of its file, each page once. A page is
//!   read at most once. PRAM is memory: a write reaches it at once, a read is one of the device.
//! - The file system: a sync writes the file's own page (length, places) if these have changed. The sync of a directory
//!   writes the directory's page if a name has. On PRAM that is 128 bytes each (PFFS2 keeps them there).
//! - Removing or cutting a file trims its pages.

mod cache;
mod ftl;
mod medium;

pub use ftl::{Ftl, FtlCounts, Geometry};
pub use medium::{Costs, NandMedium, Placement};
