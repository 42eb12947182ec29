//! The laboratory: power cuts, measurements and the reports made of them.

pub mod crash;
