//! Commits as statements: what is captured, what is not, and what a crash leaves.

#![allow(clippy::unwrap_used)]

mod captured;
mod crash;
mod place;
mod support;
mod trace_filter;
