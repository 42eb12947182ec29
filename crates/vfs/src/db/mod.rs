//! The data file of a database and the files beside it.

pub mod companions;
